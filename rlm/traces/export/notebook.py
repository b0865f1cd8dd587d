"""A run as a notebook: its cells with their outputs, and the reasoning of the model as text.

The notebook can be executed in the sandboxed kernel without calling a model: its first cell defines the inputs, its
second one functions that return the recorded answers of the host.
"""

from __future__ import annotations

import ast
import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ...mounts import has_files
from ...shapes import kernel_source
from ...text import encodable, fence
from ..encoding import InputNotRecorded, restore_input

if TYPE_CHECKING:
    from ..records import IterationRecord
    from ..runs import RunRecord

MAX_PACKED = 4 << 20
"""An input that is larger than this when compressed is left out."""

_LITERAL_CHARS = 2_000
_OTHERWISE = frozenset({"_SHAPES_SOURCE", "_shapes", "describe", "SHOW_VARS"})
"""Helpers that compile `rlm.shapes`, whose source a notebook has, or that look into another module."""

_STAND_INS = (
    *("SUBMIT", "llm_query", "llm_batch", "llm_query_batched"),
    *("rlm_query", "rlm_query_batched", "validate_json"),
)


def notebook(run: RunRecord) -> tuple[str, list[str]]:
    """Return the notebook as JSON text, and notes on the inputs that are not in it."""
    source, notes = inputs_source(_inputs(run))
    calls = [(call.name, call.arguments, call.answer, call.error) for call in run.calls if call.ended]
    cells = [
        markdown_cell(_title(run, notes)),
        code_cell(source, hidden=True),
        code_cell(functions_source(calls), hidden=True),
    ]
    for count, iteration in enumerate(run.iterations, 1):
        reasoning = f"### Iteration {iteration.number}\n\n{harmless(iteration.reasoning or '')}".rstrip()
        cells.append(markdown_cell(reasoning))
        if iteration.code:
            tags = ["raises-exception"] if iteration.error else []
            cells.append(code_cell(iteration.code, _outputs(iteration), count=count, tags=tags))
    cells.append(markdown_cell(_end(run)))
    return notebook_text(cells, {"run": run.id}), notes


def notebook_text(cells: Sequence[dict[str, Any]], about: Mapping[str, Any]) -> str:
    """Return a notebook of these cells as JSON. `about` is what rlm notes in its metadata."""
    document = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"name": "rlm-sandbox", "display_name": "Python (rlm sandbox)", "language": "python"},
            "language_info": {"name": "python"},
            "rlm": dict(about),
        },
        "cells": [{**cell, "id": f"cell-{number}"} for number, cell in enumerate(cells)],
    }
    return json.dumps(document, indent=1) + "\n"


def _inputs(run: RunRecord) -> Iterator[tuple[str, Any]]:
    for name, stored in (run.beginning.get("inputs") or {}).items():
        try:
            yield name, restore_input(name, stored, run.file.blob)
        except InputNotRecorded as error:
            yield name, error


def inputs_source(inputs: Iterable[tuple[str, Any]]) -> tuple[str, list[str]]:
    """Return code that defines inputs: short ones as literals, longer ones compressed; and notes."""
    lines, notes = ["# The inputs.", "import base64", "import json", "import zlib", ""], []
    for name, value in inputs:
        if isinstance(value, InputNotRecorded):
            notes.append(f"{value}: the notebook has None in its place.")
            lines.append(f"{name} = None  # not in the trace")
            continue
        if has_files(value):
            notes.append(f"input {name!r} is a file or has files in it: the notebook has None in its place.")
            lines.append(f"{name} = None  # a file, which is not in the trace")
            continue
        literal = None if isinstance(value, str | bytes) and len(value) > _LITERAL_CHARS else repr(value)
        if literal is not None and len(literal) <= 2 * _LITERAL_CHARS:
            lines.append(f"{name} = {literal}")
            continue
        packed = _packed(value)
        if len(packed) > MAX_PACKED:
            reason = f"input {name!r} needs {len(packed):,} bytes when compressed; a notebook takes {MAX_PACKED:,}"
            notes.append(f"{reason}: give it a value in the first code cell before you execute the notebook.")
            lines.append(f"{name} = None  # {reason}")
            continue
        unpacked = f'zlib.decompress(base64.b64decode("{packed}"))'
        lines.append(f"{name} = {_UNPACKED[_kind(value)].format(unpacked)}")
    return "\n".join(lines), notes


_UNPACKED = {"text": '{}.decode("utf-8", "surrogatepass")', "bytes": "{}", "json": "json.loads({})"}


def _kind(value: Any) -> str:
    return "text" if isinstance(value, str) else "bytes" if isinstance(value, bytes) else "json"


def _packed(value: Any) -> str:
    match value:
        case str():
            data = value.encode("utf-8", "surrogatepass")
        case bytes():
            data = value
        case _:
            data = json.dumps(value).encode()
    return base64.b64encode(zlib.compress(data, 9)).decode()


def functions_source(calls: Iterable[tuple[str, Any, str | None, Any]]) -> str:
    """Return code that defines the functions of the host, which return their recorded answers.

    Each call has its name, arguments, answer as JSON, and error.
    """
    answers: dict[str, list[Any]] = {}
    called: set[str] = set()
    for name, arguments, answer, error in calls:
        key = json.dumps([name, arguments])
        answers.setdefault(key, []).append([json.loads(answer) if answer else None, error])
        called.add(name)
    packed = base64.b64encode(zlib.compress(json.dumps(answers).encode(), 9)).decode()
    names = sorted({*_STAND_INS, *called})
    helpers = _helpers_source()
    template = files(__package__).joinpath("stand_ins.py.txt").read_text(encoding="utf-8")
    stand_ins = "\n".join(f'{name} = stand_in("{name}")' for name in names if name.isidentifier())
    return f"{helpers}\n\n{template.replace('@RECORDED@', packed)}\n{stand_ins}"


def _helpers_source() -> str:
    """Return the helper functions of the REPL as code that the policy of the sandbox accepts: nothing is compiled."""
    source = files("rlm.repl").joinpath("kernel_helpers.py").read_text(encoding="utf-8")
    lines, body = source.splitlines(), ast.parse(source).body
    kept = [node for node in body if not isinstance(node, ast.Expr) and _bound(node) not in _OTHERWISE]
    helpers = "\n\n".join("\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in kept)
    return f"{kernel_source()}\n\n{helpers}"


def _bound(node: ast.stmt) -> str | None:
    match node:
        case ast.FunctionDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return None


def _outputs(iteration: IterationRecord) -> list[dict[str, Any]]:
    text = iteration.output or ""
    if not text:
        return []
    if iteration.error:
        name, message = str(iteration.error.get("name")), str(iteration.error.get("message"))
        trace = [encodable(line) for line in text.splitlines()]
        return [{"output_type": "error", "ename": encodable(name), "evalue": encodable(message), "traceback": trace}]
    return [{"output_type": "stream", "name": "stdout", "text": encodable(text) + "\n"}]


def _title(run: RunRecord, notes: list[str]) -> str:
    signature = run.beginning.get("signature") or {}
    lines = [f"# Run {run.id}", "", f"{harmless(run.task or run.name)}: **{run.ending}**"]
    if isinstance(signature, dict) and signature.get("instructions"):
        lines += ["", "> " + harmless(str(run.resolve(signature["instructions"]))).replace("\n", "\n> ")]
    lines += ["", "The outputs are those of the recorded run. To execute it again, start at the top: calls to the host"]
    lines += ["get their recorded answers, and `SUBMIT` only prints that it was called."]
    return "\n".join([*lines, *(f"\nNote: {harmless(note)}" for note in notes)])


def _end(run: RunRecord) -> str:
    result = run.result()
    if result is None:
        return f"### {run.ending}\n\nThe record ends here."
    shown = json.dumps(result.get("outputs", result.get("partial_outputs")), ensure_ascii=False, indent=1)
    reason = f"{harmless(run.reason)}\n\n" if run.reason else ""
    marks = fence(shown)
    return encodable(f"### {run.ending.capitalize()}\n\n{reason}{marks}json\n{shown}\n{marks}")


def markdown_cell(text: str) -> dict[str, Any]:
    """Return a cell of text."""
    return {"cell_type": "markdown", "metadata": {}, "source": encodable(text)}


def code_cell(
    source: str,
    outputs: list[dict[str, Any]] | None = None,
    *,
    count: int | None = None,
    hidden: bool = False,
    tags: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a code cell. With the tag `raises-exception`, the cells after one that raises are executed, too."""
    metadata: dict[str, Any] = {"jupyter": {"source_hidden": True}} if hidden else {}
    if tags:
        metadata["tags"] = list(tags)
    cell = {"cell_type": "code", "execution_count": count, "metadata": metadata}
    return {**cell, "outputs": outputs or [], "source": encodable(source)}


def harmless(text: str) -> str:
    """Return text of a model as markdown without HTML, images or links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("](", "]\\(").replace("![", "!\\[")
