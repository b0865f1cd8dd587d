"""Sessions: the list of them, one with its questions, its variables, its cells, and its budget."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from ...units import size_text
from ..console import clean, count, duration, middle_cut, one_line, usage_text
from .runs_table import STYLES
from .tables import facts_table, heading

if TYPE_CHECKING:
    from ...budgets import FallbackTrigger, Usage
    from ...chat.chat import Chat, ChatVariable
    from ...chat.journal import Journal, QuestionRecord, SessionSummary
    from ...chat.kernel import RecordedCell

_OUTPUT_LINES = 8
_NAMES = ("module", "type", "function")


def sessions_table(sessions: Sequence[SessionSummary]) -> RenderableType:
    """Return a list of sessions."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=True)
    for name, options in (
        ("session", {"no_wrap": True}),
        ("last used", {"no_wrap": True, "style": "dim"}),
        ("about", {"no_wrap": True, "ratio": 1, "overflow": "ellipsis"}),
        ("questions", {"justify": "right", "no_wrap": True}),
        ("last", {"no_wrap": True}),
        ("size", {"justify": "right", "no_wrap": True}),
        ("", {"no_wrap": True}),
    ):
        table.add_column(name, **options)
    for session in sessions:
        table.add_row(
            session.id,
            time.strftime("%m-%d %H:%M", time.localtime(session.updated)),
            Text(one_line(session.title, 120)),
            str(session.questions),
            Text(session.ending or "", STYLES.get(session.ending or "", "")),
            size_text(session.bytes),
            "open" if session.in_use else "closed" if session.closed else "",
        )
    return table


def session_page(journal: Journal) -> RenderableType:
    """Return one session: what it is about, and each question with its answer."""
    about, questions = journal.about, journal.questions()
    source = about.get("task") or {}
    facts = [
        ("about", about.get("title") or None),
        ("signature", about["signature"]["text"]),
        ("task", source.get("path")),
        ("branch of", about.get("branch_of")),
        ("created", time.strftime("%Y-%m-%d %H:%M", time.localtime(about["created"]))),
    ]
    shown = facts_table((name, Text(clean(str(value)))) for name, value in facts if value)
    parts: list[RenderableType] = [heading(Text(f"Session {about['id']}", "bold")), shown, Text("")]
    parts += [part for question in questions for part in question_lines(question)]
    variables = questions[-1].variables if questions else {}
    if variables:
        parts += [Text(f"Variables: {one_line(', '.join(variables), 300)}", "dim")]
    return Group(*parts)


def question_lines(question: QuestionRecord) -> list[RenderableType]:
    """Return a question and its answer, in a few lines."""
    asked = one_line("; ".join(question.asked.values()) or "the same again", 200)
    ending = question.ending or "unfinished"
    if question.outputs is not None:
        values = question.outputs
        text = next(iter(values.values())) if len(values) == 1 else values
        shown = middle_cut(text if isinstance(text, str) else json.dumps(text, ensure_ascii=False), 6)
    else:
        shown = one_line(str((question.result or {}).get("reason") or ""), 200)
    line = Text.assemble((f"{question.number}. ", "bold"), clean(asked))
    state = Text.assemble(("   " + ending, STYLES.get(ending, "")), (f"  run {question.run_id}", "dim"))
    return [line, Text("   " + clean(shown).replace("\n", "\n   ")), state, Text("")]


def variables_page(variables: Sequence[ChatVariable], inputs: Mapping[str, Any], unused: Sequence[ChatVariable]) -> Any:
    """Return the inputs and variables of a session, and those that nothing has read for long."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("name", "type", "size", "question", "value"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    for name, value in inputs.items():
        size = f"{len(value):,}" if hasattr(value, "__len__") else ""
        table.add_row(name, type(value).__name__, size, "input", Text(one_line(str(value)[:400], 60), "dim"))
    for variable in variables:
        size = (
            ""
            if variable.size is None
            else f"{variable.size:,}"
            if isinstance(variable.size, int)
            else "x".join(map(str, variable.size))
        )
        made = str(variable.made) if variable.changed == variable.made else f"{variable.made}, {variable.changed}"
        table.add_row(
            Text(clean(variable.name)),
            Text(clean(variable.type)),
            size,
            made,
            Text(one_line(variable.preview, 60), "dim"),
        )
    if not unused:
        return table
    names = ", ".join(variable.name for variable in unused)
    return Group(table, Text(f"\nNot read for three questions: {clean(names)}. /drop NAME deletes a variable.", "dim"))


def cells_page(cells: Sequence[RecordedCell]) -> RenderableType:
    """Return cells with the end of their output."""
    parts: list[RenderableType] = []
    for cell in cells:
        state = "" if cell.ok else ", failed"
        facts = f"question {cell.question}, iteration {cell.iteration}, {duration(cell.seconds)}{state}"
        parts += [heading(Text(facts, "dim")), Syntax(clean(cell.code), "python", theme="ansi_dark", word_wrap=True)]
        if cell.output:
            parts.append(Text(middle_cut(cell.output, _OUTPUT_LINES, 160), "dim"))
    return Group(*parts) if parts else Text("No cells yet.", "dim")


def budget_page(trigger: FallbackTrigger, chat: Chat) -> RenderableType:
    """Return what the session has used, and the limits of one question and of all."""
    rows: list[tuple[str, RenderableType]] = [("used", Text(used_text(chat.usage, len(chat.questions))))]
    rows.append(("a question", Text(limits_text(trigger))))
    total = limits_text(chat.total)
    rows.append(("all questions", Text(total or "no limit")))
    return facts_table(rows)


def used_text(usage: Usage, questions: int) -> str:
    """Return what a session has used, in one line."""
    return f"{count(questions, 'question')} · {usage_text(usage)}"


def limits_text(trigger: FallbackTrigger) -> str:
    """Return the limits of a budget that are limits."""
    limits = {name: limit for name, limit in trigger.to_dict().items() if limit is not None and limit < 10**9}
    return ", ".join(f"{name}={limit:g}" for name, limit in limits.items())
