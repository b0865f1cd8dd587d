"""A run as a notebook: its cells with what they printed, and the model's thoughts between them.

It runs again in the sandboxed kernel: a first cell defines the inputs, a second one functions that answer as the host
did in the run. No model is asked.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ..inputs import NotKept, restore_input

if TYPE_CHECKING:
    from ..records import IterationRecord
    from ..runs import RunRecord

MAX_PACKED = 4 << 20
"""An input that is larger than this, packed, is left out."""

_LITERAL_CHARS = 2_000
_STAND_INS = ("SUBMIT", "llm_query", "llm_batch", "llm_query_batched", "rlm_query", "validate_json")


def notebook(run: RunRecord) -> tuple[str, list[str]]:
    """The notebook as JSON text, and notes: which inputs are not in it, and why."""
    source, notes = _inputs_source(run)
    cells = [
        _markdown(_title(run, notes)),
        _code(source, hidden=True),
        _code(_functions_source(run), hidden=True),
    ]
    for number, one in enumerate(run.iterations, 1):
        thought = f"### Iteration {one.number}\n\n{_harmless(one.reasoning or '')}".rstrip()
        cells.append(_markdown(thought))
        if one.code:
            cells.append(_code(one.code, _outputs(one), count=number))
    cells.append(_markdown(_end(run)))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    made = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"name": "rlm-sandbox", "display_name": "Python (rlm sandbox)", "language": "python"},
            "language_info": {"name": "python"},
            "rlm": {"run": run.id},
        },
        "cells": cells,
    }
    return json.dumps(made, indent=1) + "\n", notes


def _inputs_source(run: RunRecord) -> tuple[str, list[str]]:
    """Code that defines the inputs: small ones as literals, larger ones packed."""
    lines, notes = ["# The inputs of the run.", "import base64", "import json", "import zlib", ""], []
    for name, kept in (run.beginning.get("inputs") or {}).items():
        try:
            value = restore_input(name, kept, run.file.body)
        except NotKept as error:
            notes.append(f"{error}: the notebook has None in its place.")
            lines.append(f"{name} = None  # not on record")
            continue
        literal = None if isinstance(value, str | bytes) and len(value) > _LITERAL_CHARS else repr(value)
        if literal is not None and len(literal) <= 2 * _LITERAL_CHARS:
            lines.append(f"{name} = {literal}")
            continue
        packed = _packed(value)
        if len(packed) > MAX_PACKED:
            said = f"input {name!r} needs {len(packed):,} bytes packed; at most {MAX_PACKED:,} are put into a notebook"
            notes.append(f"{said}: give it a value in the first code cell before you run the notebook again.")
            lines.append(f"{name} = None  # {said}")
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


def _functions_source(run: RunRecord) -> str:
    """Code that defines the functions of the host: each answers what it answered in the run."""
    answers: dict[str, list[Any]] = {}
    for call in run.calls:
        if call.ended:
            key = json.dumps([call.name, call.arguments])
            answer = json.loads(call.answer) if call.answer else None
            answers.setdefault(key, []).append([answer, call.error])
    packed = base64.b64encode(zlib.compress(json.dumps(answers).encode(), 9)).decode()
    names = sorted({*_STAND_INS, *(call.name for call in run.calls)})
    helpers = files("rlm.repl").joinpath("kernel_helpers.py").read_text(encoding="utf-8")
    template = files(__package__).joinpath("stand_ins.py.txt").read_text(encoding="utf-8")
    stand_ins = "\n".join(f'{name} = stand_in("{name}")' for name in names if name.isidentifier())
    return f"{helpers}\n\n{template.replace('@RECORDED@', packed)}\n{stand_ins}"


def _outputs(one: IterationRecord) -> list[dict[str, Any]]:
    text = one.output or ""
    if not text:
        return []
    if one.error:
        name, message = str(one.error.get("name")), str(one.error.get("message"))
        trace = [_plain(line) for line in text.splitlines()]
        return [{"output_type": "error", "ename": _plain(name), "evalue": _plain(message), "traceback": trace}]
    return [{"output_type": "stream", "name": "stdout", "text": _plain(text) + "\n"}]


def _title(run: RunRecord, notes: list[str]) -> str:
    signature = run.beginning.get("signature") or {}
    lines = [f"# Run {run.id}", "", f"{_harmless(run.task or run.name)}: **{run.ending}**"]
    if isinstance(signature, dict) and signature.get("instructions"):
        lines += ["", "> " + _harmless(str(run.filled(signature["instructions"]))).replace("\n", "\n> ")]
    lines += ["", "The outputs are those of the recorded run. To run it again, start at the top: calls to the host are"]
    lines += ["answered from the recording, and `SUBMIT` only says that it was called."]
    return "\n".join([*lines, *(f"\nNote: {_harmless(note)}" for note in notes)])


def _end(run: RunRecord) -> str:
    result = run.result()
    if result is None:
        return f"### {run.ending}\n\nThe record ends here."
    shown = json.dumps(result.get("outputs", result.get("partial_outputs")), ensure_ascii=False, indent=1)
    reason = f"{_harmless(run.reason)}\n\n" if run.reason else ""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", shown)), default=0))
    return _plain(f"### {run.ending.capitalize()}\n\n{reason}{fence}json\n{shown}\n{fence}")


def _markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": _plain(text)}


def _code(
    source: str, outputs: list[dict[str, Any]] | None = None, *, count: int | None = None, hidden: bool = False
) -> dict[str, Any]:
    metadata = {"jupyter": {"source_hidden": True}} if hidden else {}
    outputs = outputs or []
    about = {"cell_type": "code", "execution_count": count, "metadata": metadata}
    return {**about, "outputs": outputs, "source": _plain(source)}


def _harmless(text: str) -> str:
    """What a model wrote, as markdown that loads nothing: no HTML, no images, no links to follow."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("](", "]\\(").replace("![", "!\\[")


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
