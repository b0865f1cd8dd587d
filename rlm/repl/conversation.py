"""The conversation with the model that writes the code: append-only, so that caches hit from one iteration to the next.

Inputs are described, never pasted. When the conversation grows past a size, its middle is replaced once by a summary;
the kernel, and with it every variable, stays.
"""

from __future__ import annotations

import ast
import builtins
import functools
import json
import re
import reprlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Any, Literal

import sandbox

from ..budgets import Remaining
from ..history import REPLHistoryEntry
from ..signatures import Signature
from ..text import cut_middle
from .profiles import MAX_OUTPUT_CHARS

MAX_CHARS = 150_000
_PREVIEW_CHARS = 160
_KEPT_TURNS = 5
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = _SHORT.maxdict = 40
_BEGIN = "Begin. One thought, one ```python block."
_BEGIN_LONG = "Begin. You have not seen {name} yet: do not guess, search it. One thought, one ```python block."
_ALIASES = ("llm_query_batched",)
_BRIEFLY = {
    "llm_query": "llm_query(prompt, context): asks a small model about a short text",
    "llm_batch": "llm_batch(prompts, contexts): the same for many, a list of answers",
}
"""What a model that is spoken to briefly is told of the functions that are always there."""
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n|^ *[\^~]+\n", re.MULTILINE)
"""The lines of a traceback that say nothing."""
_LOOK = "I look in {name} for lines with "
_OTHERWISE = "I try another way: "
_NUMBER = "I take the number out of each line with re.search"
_LESS = "Nothing was found, so I look for "
_GOAL = "Wanted: {goal}"
_LAST = "This is your last reply: call SUBMIT now."


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the conversation."""

    role: Literal["user", "assistant"]
    text: str


class Conversation:
    """What has been said so far. It only grows, but for `compact`."""

    def __init__(self, system: str, task: str, max_chars: int = MAX_CHARS) -> None:
        self.system = system
        self._task = task
        self.turns: list[Turn] = [Turn("user", task)]
        self.edition = 0
        """How often it has been shortened: while this stays the same, turns are only added."""
        self.opening = ""
        """How the next reply begins, if the model is one that can be held to it."""
        self.offer = ""
        """The SUBMIT call that was suggested last, if one was."""
        self.stuck = False
        """Whether the last reply was the one before it again."""
        self._max_chars = max_chars

    def add(self, reply: str, told: str) -> None:
        """The model's reply, and what it is told next."""
        self.turns += [Turn("assistant", reply.strip() or "(an empty reply)"), Turn("user", told)]

    @property
    def size(self) -> int:
        """Characters of the whole conversation."""
        return len(self.system) + sum(len(turn.text) for turn in self.turns)

    def compact(self, history: list[REPLHistoryEntry], variables: Mapping[str, Any], *, force: bool = False) -> bool:
        """Replace the middle by what came of it, if the whole has grown too large; whether that was done."""
        many = len(self.turns) > _KEPT_TURNS + 2
        if not (many and self.size > self._max_chars) and not (force and len(self.turns) > 1):
            return False
        # A conversation that is too long for the model, though it is short, keeps only what was said last.
        recent = self.turns[-_KEPT_TURNS:] if many else self.turns[-1:]
        left_out = history[: max(0, len(history) - len(recent) // 2)]
        lines = [f"Iteration {one.iteration}: {_gist(one)}" for one in left_out]
        known = [f"- {one.name}: {one.type} = {cut_middle(one.preview, _PREVIEW_CHARS)}" for one in variables.values()]
        summary = "\n".join(
            [
                "[The conversation was shortened here. All variables are still in the REPL.]",
                *lines,
                "Variables:",
                *known,
            ]
        )
        summary = cut_middle(summary, min(self.size, self._max_chars) // 4)
        # The summary joins the task: two messages of one role in a row are refused by some models.
        self.turns = [Turn("user", f"{self._task}\n\n{summary}\n\n{recent[0].text}")]
        self.turns += recent[1:]
        self.edition += 1
        return True


def begin(
    signature: Signature,
    inputs: Mapping[str, Any],
    functions: Mapping[str, Callable[..., Any]],
    helpers: str,
    budget: Remaining,
    guidance: str | None = None,
    *,
    brief: bool = False,
    known: Collection[str] = (),
) -> Conversation:
    """The conversation as it starts. With `guidance`, the model is told how to go about the task.

    Told briefly, the functions that a model is expected to know (`known`) are not explained.
    """
    submit = "SUBMIT(" + ", ".join(f"{field.name}=..." for field in signature.outputs) + ")"
    shown = {name: one for name, one in functions.items() if name not in _ALIASES}
    if brief:
        own = [_function(name, one) for name, one in shown.items() if name not in known]
        listed = "\n".join([*(f"- {told}" for told in _BRIEFLY.values()), *own])
    else:
        listed = "\n".join([*(_function(name, one) for name, one in shown.items()), *_helpers(helpers)])
    texts = [name for name, value in inputs.items() if isinstance(value, str) and not shown_whole(value)]
    form = "_brief" if brief else ""
    system = _template(f"system{form}").substitute(submit=submit, functions=listed)
    task = _template(f"task{form}").substitute(
        instructions=signature.instructions,
        inputs=describe_inputs(signature, inputs, brief=brief),
        outputs=signature.field_list(),
        budget=str(budget),
        approach=_approach(guidance) if guidance else "",
        begin=_BEGIN_LONG.format(name=texts[0]) if texts else _BEGIN,
    )
    return Conversation(system, task)


def opening(unread: Collection[str], *, repeated: bool = False, nothing: bool = False, no_number: bool = False) -> str:
    """How the next reply should begin: by looking at what was not read yet, or with something new; else as it likes."""
    if no_number:
        return _NUMBER
    if repeated:
        return _OTHERWISE
    if nothing and not unread:
        return _LESS
    return _LOOK.format(name=min(unread)) if unread else ""


def describe_inputs(signature: Signature, inputs: Mapping[str, Any], *, brief: bool = False) -> str:
    """One line for each input: what it is, what the signature says about it, and how it begins."""
    said = {field.name: " ".join(field.description.split()) for field in signature.inputs}
    return "\n".join(_input(name, value, said.get(name), brief) for name, value in inputs.items()) or "(none)"


def _input(name: str, value: Any, said: str | None, brief: bool) -> str:
    """The name, the type, the size, and how it begins. Small models take a beginning for the whole."""
    kind, about = type(value).__name__, f", {said}" if said else ""
    if hasattr(builtins, name):
        about += f", and not Python's own `{name}`, which is hidden by it"
    size = ""
    if isinstance(value, str):
        size = f", {len(value):,} characters"
    elif isinstance(value, bytes | list | tuple | dict | set):
        size = f", {len(value):,} {'bytes' if isinstance(value, bytes) else 'items'}"
    if brief and isinstance(value, str) and not shown_whole(value):
        return f"- {name} ({kind}{size}, {value.count(chr(10)) + 1:,} lines){about}"
    shown = json.dumps(value[:_PREVIEW_CHARS], ensure_ascii=False) if isinstance(value, str) else _short(value)
    return f"- {name} ({kind}{size}){about}: {shown}{'' if shown_whole(value) else ' …'}"


def shown_whole(value: Any) -> bool:
    """Whether the description of an input has all of it, so that a model can answer without reading it."""
    if isinstance(value, str):
        return len(value) <= _PREVIEW_CHARS
    shown = _short(value)
    return len(shown) <= _PREVIEW_CHARS and "..." not in shown


def _short(value: Any) -> str:
    return _SHORT.repr(value)[: _PREVIEW_CHARS + 2]


def told_after(
    output: str,
    remarks: tuple[str, ...],
    budget: Remaining,
    *,
    state: str = "",
    submit: str | None = None,
    max_chars: int = MAX_OUTPUT_CHARS,
    brief: bool = False,
    goal: str = "",
) -> str:
    """What the model reads after its code ran: what it printed, or else what its variables are; how it could submit.

    Told briefly, it is reminded of its `goal`.
    """
    printed = cut_middle((_TRACEBACK.sub("", output) if brief else output).rstrip(), max_chars)
    if not printed:
        printed = "(nothing was printed; print what you want to see)" + (f"\nVariables now: {state}" if state else "")
    hint = [f"If that is the answer, run this:\n```python\n{submit}\n```"] if submit else []
    wanted = [_GOAL.format(goal=goal)] if brief and goal else []
    # A small model goes by what it read last.
    said = [f"Output:\n{printed}", *remarks] if brief else [*remarks, f"Output:\n{printed}"]
    return "\n\n".join([*said, *wanted, *hint, *_left(budget, brief)])


def goal_of(signature: Signature, inputs: Mapping[str, Any]) -> str:
    """What a task is about, in a line: the inputs that say it in words, or else the instructions."""
    said = [value for value in inputs.values() if isinstance(value, str) and " " in value and shown_whole(value)]
    return " ".join(said) or signature.instructions.partition("\n")[0]


def told_without_code(remarks: tuple[str, ...], budget: Remaining, *, brief: bool = False) -> str:
    """What the model reads after a reply in which there was nothing to run."""
    return "\n\n".join([*remarks, *_left(budget, brief)])


def _left(budget: Remaining, brief: bool) -> list[str]:
    if not brief:
        return [f"[{budget}]"]
    return [_LAST] if budget.iterations == 1 else []


def _approach(guidance: str) -> str:
    """The approach as a quotation: what it says cannot be taken for another section of the prompt."""
    return "# Approach\n" + "\n".join(f"> {line}" for line in guidance.splitlines()) + "\n\n"


def _function(name: str, function: Callable[..., Any]) -> str:
    doc, signature = sandbox.described(function)
    return f"- {name}{signature}: {doc.strip()}" if doc else f"- {name}{signature}"


@functools.cache
def _helpers(source: str) -> tuple[str, ...]:
    """The helper functions by their source: they live in the kernel only."""
    return tuple(
        f"- {node.name}({ast.unparse(node.args)}): {ast.get_docstring(node) or ''}"
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    )


def _gist(entry: REPLHistoryEntry) -> str:
    outcome = "printed" if entry.success else "failed with"
    return f"{entry.code.count(chr(10)) + 1} lines of code, {outcome}: {cut_middle(entry.output.strip(), 200)!r}"


@functools.cache
def _template(name: str) -> Template:
    return Template(files(__package__).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8"))
