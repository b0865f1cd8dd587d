"""Text for people: without control characters, shortened; durations, sizes, counts, values, tasks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..text import clean as clean
from ..text import count as count
from ..text import shorten

if TYPE_CHECKING:
    from ..budgets import Usage
    from ..tasks import Task
    from .progress.state import Iteration


def one_line(text: str, width: int = 80) -> str:
    """Return a text as one line of at most `width` characters."""
    line = " ".join(clean(text[: 20 * width]).split())
    return shorten(line + "…" if len(text) > 20 * width else line, width)


def last_line(text: str, width: int = 80) -> str:
    """Return the last line of a text that is not empty."""
    lines = [line for line in text[-20 * width :].splitlines() if line.strip()]
    return one_line(lines[-1], width) if lines else ""


def middle_cut(text: str, most: int, width: int = 400) -> str:
    """Return the first and the last lines of a text, `most` together, each of at most `width` characters."""
    lines = [shorten(line, width) for line in clean(text[:100_000]).splitlines()]
    if len(lines) <= most:
        return "\n".join(lines)
    left_out = text.count("\n") + 1 - most
    return "\n".join([*lines[: most // 2], f"[… {count(left_out, 'line')} …]", *lines[-(most - most // 2) :]])


def duration(seconds: float) -> str:
    """Return a duration: `0.4 s`, `12 s`, `2:05`, `1:02:05`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def money(cost_usd: float) -> str:
    """Return a cost: `$1.20`, `$0.0042`."""
    return f"${cost_usd:.2f}" if cost_usd >= 1 else f"${cost_usd:.4f}"


def value_text(value: Any) -> str:
    """Return an output for people: text as it is, everything else as JSON."""
    if isinstance(value, str):
        return clean(value)
    short = json.dumps(value, ensure_ascii=False)
    return clean(short if len(short) <= 72 else json.dumps(value, ensure_ascii=False, indent=2))


def usage_text(usage: Usage, iterations: int | None = None) -> str:
    """Return the usage of a run in one line."""
    parts = [] if iterations is None else [count(iterations, "iteration")]
    parts.append(count(usage.llm_calls, "LLM call") + " from the code")
    if usage.tokens:
        parts.append(f"{usage.tokens_in:,} tokens read, {usage.tokens_out:,} written")
    if usage.cost_usd is not None:
        unknown = f" (not counting {count(usage.unpriced_calls, 'call')})" if usage.unpriced_calls else ""
        parts.append(money(usage.cost_usd) + unknown)
    if usage.cached_calls:
        parts.append(count(usage.cached_calls, "answer") + " from the cache")
    return " · ".join([*parts, duration(usage.seconds)])


def facts_of(iteration: Iteration) -> str:
    """Return the facts of an iteration: `3 lines, 1 call, 0.4 s`."""
    if not iteration.code:
        return "no code"
    calls = f", {count(len(iteration.calls), 'call')}" if iteration.calls else ""
    return f"{count(len(iteration.code.splitlines()), 'line')}{calls}, {duration(iteration.seconds)}"


def signature_text(task: Task) -> str:
    """Return the signature of a task: `doc: str -> answer: int`."""
    sides = (task.signature.inputs, task.signature.outputs)
    return " -> ".join(", ".join(f"{field.name}: {field.type_text}" for field in side) for side in sides)


def inputs_text(task: Task) -> str:
    """Return the inputs of a task: `doc (48,211 characters), n (5)`."""
    return ", ".join(f"{name} ({_input_text(value)})" for name, value in task.inputs.items()) or "none"


def models_text(task: Task) -> str:
    """Return the models of a task and their roles."""
    main = task.models.main
    return ", ".join([str(main), *(f"{role} {spec}" for role, spec in task.asked.items() if spec != main)])


def script_notice(task: Task) -> str | None:
    """Return the notice that replies are scripted; None where every model is a real one."""
    roles = task.asked
    scripts = {role: spec.scripted.name for role, spec in roles.items() if spec.scripted is not None}
    if not scripts:
        return None
    names = ", ".join(dict.fromkeys(scripts.values()))
    if len(scripts) == len(roles):
        return f"The model is scripted: its replies were written in advance ({names}). No model is asked."
    asked = ", ".join(f"{role} is {spec}" for role, spec in roles.items() if role not in scripts)
    return f"Partly scripted: {' and '.join(scripts)} replies were written in advance ({names}). A real model: {asked}."


def summary(task: Task) -> str:
    """Return a task in one line."""
    limits = task.trigger
    budget = f"at most {count(limits.max_iterations, 'iteration')}, {duration(limits.max_duration)}"
    return f"{signature_text(task)}; {models_text(task)}; {budget}"


def _input_text(value: Any) -> str:
    if isinstance(value, str):
        short = len(value) <= 40
        return one_line(json.dumps(value, ensure_ascii=False), 44) if short else count(len(value), "character")
    if isinstance(value, list | tuple | set | dict):
        return count(len(value), "item")
    return one_line(str(value), 40)
