"""One piece of evidence in a line of text, for people: in the terminal and in notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .text import count, one_line

if TYPE_CHECKING:
    from .results import Evidence


def _second_program(item: Evidence) -> str:
    """Return what a second program says of a value."""
    if item.verdict is None:
        return item.note or "no second program"
    if item.verdict == "differs":
        return f"a second program gave another value: {one_line(item.quote, 70)}"
    if item.verdict == "agrees":
        return "a second program gave the same value"
    return f"a second program gave the same value, but not by itself: {item.note}"


def describe(item: Evidence) -> str:
    """Return one piece of evidence in a line."""
    inputs = ", ".join(item.inputs)
    below = item.path.count("/") > 1
    where = f"{item.path}: " if below and item.is_origin else ""
    match item.kind:
        case "variable":
            return f"variable {item.variable}: {one_line(item.quote, 70)}"
        case "history":
            return f"output of iteration {item.iteration}: {one_line(item.quote, 70)}"
        case "check":
            return f"checked: {one_line(item.quote, 100)}"
        case "program":
            return _second_program(item)
        case "computed":
            text = f"computed from {inputs}" if inputs else "computed from what a tool returned"
            text += f" and {count(item.calls, 'call')} of models or tools" if item.calls and inputs else ""
        case "quoted":
            text = f"quoted from {item.input}, line {item.line}"
        case "said":
            text = f"said by a model, which was asked about {inputs}" if inputs else "said by a model"
        case "typed":
            text = "a literal in the code" + (f", chosen by a condition on {inputs}" if item.is_chosen else "")
        case "defaulted":
            text = "a default" + (f": nothing in {inputs} changed it" if inputs else "")
        case _:
            return where + one_line(item.note or "nothing shows where it comes from", 160)
    steps = [f"{step.iteration or 'earlier'}:{step.line}" for step in item.chain]
    text += f" (cell:line {' → '.join(steps)})" if steps else ""
    return where + text + (f"; {one_line(item.note, 120)}" if item.note else "")
