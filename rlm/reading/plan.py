"""`MapPlan`: which input is split into items, what is asked about each, how the answers become the outputs. As code."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from ..signatures import Signature

Split = Literal["items", "lines", "rows", "paragraphs", "chunks"]
Reduce = Literal["count", "filter", "group", "top", "list", "sum", "fold"]

CHUNK_CHARS = 6_000
_SPLITS = {
    "items": "list({over})",
    "lines": "[line for line in {over}.splitlines() if line.strip()]",
    "rows": "[line for line in {over}.splitlines()[1:] if line.strip()]",
    "paragraphs": 're.split(r"\\n\\s*\\n", {over}.strip())',
    "chunks": "chunk({over}, {size})",
}
_REDUCTIONS = {
    "count": "sum(one in {values} for one in {p}answers)",
    "filter": "[item for item, one in zip({p}items, {p}answers) if one in {values}]",
    "group": "dict(Counter({p}answers))",
    "top": "Counter({p}answers).most_common(1)[0][0]",
    "list": "{p}answers",
    "sum": "sum({p}answers)",
}
_PART_CHARS, _PART_ITEMS = 1_000_000, 10_000
_PARTS = """\
{p}answers, {p}step = [], max(1, min({most}, {chars} // max(len(str({p}item)) for {p}item in {p}items)))
for {p}start in range(0, len({p}items), {p}step):
    {p}part = {p}items[{p}start : {p}start + {p}step]
    {p}answers += llm_map({p}part, {asked}, of=len({p}items) - {p}start)"""
_FOLD = """\
{p}found = "\\n".join(f"{{number}} items: {{one}}" for one, number in Counter(map(str, {p}answers)).most_common(100))
if sum(len(str(item)) for item in {p}items) < 20000:
    {p}found += "\\n\\n" + "\\n".join(f"{{one}}: {{item}}" for item, one in zip({p}items, {p}answers))"""
_FOLD_TASK = "Each item was judged on its own. How many items have which judgement is below. Answer from that."
_NAMES = frozenset(
    ["start", "step", "part", "items", "answers", "failed", "found", "item", "one", "line", "number", "Counter", "re"]
)


@dataclass(frozen=True)
class MapPlan:
    """How a task is done by a map: the `map` section of a task file, or what `auto` has found."""

    over: str
    """The input that is split into items."""

    question: str
    """What is asked about each item."""

    type: Any = None
    """The type of an answer: a list of choices, or a type such as `int`, as text; None is a text."""

    split: Split = "items"
    """How the input is split: items of a list, or lines, rows (of a table with a header), paragraphs, chunks."""

    keep: str = ""
    """A regular expression: only items in which it is found, in any case, are asked about."""

    reduce: Reduce | None = None
    """How the answers become the outputs; by default what the type of the output suggests."""

    value: Any = None
    """The answer, or the answers, that `count` and `filter` look for. By default the first choice, or true."""

    parallel: int = 16
    """Questions that are asked at once."""

    def for_signature(self, signature: Signature) -> MapPlan:
        """Return the plan with a reduction that fits the outputs. Raise `ValueError` for one that cannot be done."""
        inputs, outputs = [field.name for field in signature.inputs], signature.outputs
        if self.over not in inputs:
            raise ValueError(f"map: over: {self.over!r} is no input; inputs are {', '.join(inputs)}")
        if self.reduce not in (None, "fold") and len(outputs) != 1:
            raise ValueError(f"map: reduce: {self.reduce!r} gives one output, and there are {len(outputs)}: use fold")
        return dataclasses.replace(self, reduce=self.reduce or _reduction_for(signature))

    def code(self, signature: Signature, chars: int = 0) -> str:
        """Return the first cell of the run: split, ask, reduce, submit. It submits only if no item has failed.

        `chars` is the size of the input: a call takes some megabytes, so a larger one is asked about in parts.
        """
        reduce = self.for_signature(signature).reduce
        p = "map_" if _NAMES & {field.name for field in (*signature.inputs, *signature.outputs)} else ""
        kind = "" if self.type is None else f", type={self.type!r}"
        lines = [
            "import re",
            "from collections import Counter",
            f"{p}items = {_SPLITS[self.split].format(over=self.over, size=CHUNK_CHARS)}",
        ]
        if self.keep:
            lines.append(
                f"{p}items = [item for item in {p}items if re.search({self.keep!r}, str(item), re.IGNORECASE)]"
            )
        asked = f"{self.question!r}{kind}, max_parallel={self.parallel}"
        whole = f"{p}answers = llm_map({p}items, {asked})"
        lines += [
            whole if chars <= _PART_CHARS else _PARTS.format(p=p, chars=_PART_CHARS, most=_PART_ITEMS, asked=asked),
            f"{p}failed = sum(one is None for one in {p}answers)",
            f'print(len({p}items), "items,", {p}failed, "failed;", Counter(map(str, {p}answers)).most_common(10))',
        ]
        if reduce == "fold":
            lines += [_FOLD.format(p=p), f"{p}found = {_FOLD_TASK!r} + '\\n\\n' + {p}found"]
            submit = f"SUBMIT(**ask_for_outputs({p}found))"
        else:
            assert reduce is not None
            name = signature.outputs[0].name
            lines.append(f"{name} = {_REDUCTIONS[reduce].format(p=p, values=self.wanted())}")
            submit = f"SUBMIT({name}={name})"
        return "\n".join([*lines, f"if not {p}failed:", f"    {submit}"])

    def wanted(self) -> list[Any]:
        """Return the answers that `count` and `filter` look for."""
        if self.value is not None:
            return self.value if isinstance(self.value, list) else [self.value]
        return [self.type[0]] if isinstance(self.type, list) and self.type else [True]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, without defaults."""
        plain = dataclasses.asdict(self)
        return {name: value for name, value in plain.items() if value not in (None, "")}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MapPlan:
        """Return the plan that `to_dict` described."""
        return cls(**data)


def _reduction_for(signature: Signature) -> Reduce:
    if len(signature.outputs) != 1:
        return "fold"
    kind = signature.outputs[0].type
    if kind is int:
        return "count"
    if kind is float:
        return "sum"
    if kind is dict or (get_origin(kind) is dict and get_args(kind)[1] in (int, Any)):
        return "group"
    if kind is list or (get_origin(kind) is list and get_args(kind)[0] in (str, Any)):
        return "filter"
    return "fold"
