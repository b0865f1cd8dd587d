"""A session as a file: JSON, a text to read, or a notebook that runs again in the sandboxed kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..text import encodable, fence
from ..traces.encoding import InputNotRecorded
from ..traces.export.notebook import code_cell, functions_source, harmless, inputs_source, markdown_cell, notebook_text
from .journal import INPUTS, Journal, QuestionRecord, Step
from .kernel import RecordedCell, cells_of

FORMATS = ("ipynb", "json", "md")


def export(journal: Journal, form: str) -> tuple[str, list[str]]:
    """Return a session in one of `FORMATS`, and notes on what is not in it."""
    match form:
        case "json":
            return json.dumps(session_json(journal), indent=1, ensure_ascii=False) + "\n", []
        case "md":
            return _markdown(journal), []
        case "ipynb":
            return _notebook(journal)
    raise ValueError(f"{form!r} is no format; choose {', '.join(FORMATS)}")


def session_json(journal: Journal, *, cells: bool = True) -> dict[str, Any]:
    """Return what is known of a session as JSON values."""
    about = journal.about
    source = about.get("task") or {}
    return {
        "id": about["id"],
        "title": about.get("title") or "",
        "created": about["created"],
        "task": source.get("path"),
        "signature": about["signature"],
        "branch_of": about.get("branch_of"),
        "questions": [_question_json(journal, question, cells) for question in journal.questions()],
    }


def _question_json(journal: Journal, question: QuestionRecord, cells: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "number": question.number,
        "run_id": question.run_id,
        "asked": dict(question.asked),
        "started": question.started,
        "ended": question.ended,
        "ending": question.ending,
        "outputs": question.outputs,
        "usage": question.usage,
        "variables": question.variables,
    }
    if cells:
        shown["cells"] = [
            {"code": cell.code, "output": cell.output, "ok": cell.ok, "seconds": cell.seconds}
            for cell in cells_of(journal, question)
        ]
    return shown


def _markdown(journal: Journal) -> str:
    about = journal.about
    parts = [f"# {harmless(about.get('title') or 'Session ' + about['id'])}"]
    for question in journal.questions():
        parts.append(_asked(question))
        for cell in cells_of(journal, question):
            marks = fence(cell.code)
            parts.append(f"{marks}python\n{cell.code}\n{marks}")
            if cell.output:
                marks = fence(cell.output)
                parts.append(f"{marks}\n{cell.output}\n{marks}")
        parts.append(_answer(question))
    return encodable("\n\n".join(parts) + "\n")


def _notebook(journal: Journal) -> tuple[str, list[str]]:
    about, questions = journal.about, journal.questions()
    cells = {question.number: cells_of(journal, question) for question in questions}
    calls = [call for found in cells.values() for cell in found for call in _calls(cell)]
    source, notes = inputs_source(_inputs(journal, 0))
    title = f"# {harmless(about.get('title') or 'Session ' + about['id'])}\n\nThe cells of session {about['id']}. To "
    title += "execute it again, start at the top: calls to the host get their recorded answers."
    parts = [
        markdown_cell("\n\n".join([title, *(f"Note: {harmless(note)}" for note in notes)])),
        code_cell(source, hidden=True),
        code_cell(functions_source(calls), hidden=True),
    ]
    count = 0
    for question in questions:
        parts.append(markdown_cell(_asked(question)))
        own, more = inputs_source(_inputs(journal, question.number, "asked"))
        notes += more
        parts.append(code_cell(own, hidden=True))
        for cell in cells[question.number]:
            count += 1
            parts.append(
                code_cell(cell.code, _outputs(cell), count=count, tags=() if cell.ok else ("raises-exception",))
            )
        parts.append(markdown_cell(_answer(question)))
        later, more = inputs_source(_inputs(journal, question.number, "inputs"))
        if "=" in later:
            notes += more
            parts.append(code_cell(later, hidden=True))
    return notebook_text(parts, {"session": about["id"]}), notes


def _inputs(journal: Journal, question: int, kind: str = "inputs") -> Iterator[tuple[str, Any]]:
    for step in journal.steps(question):
        if step.kind in INPUTS and step.kind == kind:
            yield from _values(journal, step)


def _values(journal: Journal, step: Step) -> Iterator[tuple[str, Any]]:
    for name in step.data:
        try:
            part = Step(step.number, step.question, step.run_id, 0, step.kind, {name: step.data[name]})
            yield name, journal.restore_inputs(part)[name]
        except InputNotRecorded as error:
            yield name, error


def _calls(cell: RecordedCell) -> list[tuple[str, Any, str | None, Any]]:
    return [
        (call.name, call.arguments, None if call.answer is None else json.dumps(call.answer), call.error)
        for call in cell.calls
    ]


def _outputs(cell: RecordedCell) -> list[dict[str, Any]]:
    return [{"output_type": "stream", "name": "stdout", "text": encodable(cell.output) + "\n"}] if cell.output else []


def _asked(question: QuestionRecord) -> str:
    asked = "; ".join(question.asked.values()) or "the same again"
    return f"## {question.number}. {harmless(' '.join(asked.split()))}"


def _answer(question: QuestionRecord) -> str:
    if question.outputs is None:
        reason = (question.result or {}).get("reason") or "no answer"
        return f"**{question.ending or 'unfinished'}**: {harmless(str(reason))}"
    shown = json.dumps(question.outputs, ensure_ascii=False, indent=1)
    marks = fence(shown)
    return f"**{(question.ending or '').capitalize()}**\n\n{marks}json\n{shown}\n{marks}"
