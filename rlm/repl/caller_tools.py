"""The tools of the caller: functions and plain values that code has beside the inputs, and what is wrong with them."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import sandbox

from ..signatures import Signature
from ..signatures.code_values import code_value
from .host_calls import plain
from .tools import RESERVED


@dataclass(frozen=True)
class Tools:
    """What code has beside the inputs: functions that it calls, and plain values with their descriptions."""

    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    values: Mapping[str, tuple[Any, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, tools: Any) -> Tools:
        """Read tools: functions, or a mapping of names to functions and values.

        A mapping with the keys `tool` and `description` describes one in other words than its docstring.
        """
        functions: dict[str, Callable[..., Any]] = {}
        values: dict[str, tuple[Any, str]] = {}
        for name, tool in _by_name(tools).items():
            about = ""
            if isinstance(tool, Mapping) and "tool" in tool and tool.keys() <= {"tool", "description"}:
                tool, about = tool["tool"], str(tool.get("description") or "")
            tool = getattr(tool, "func", tool) if hasattr(tool, "args") and hasattr(tool, "func") else tool
            if callable(tool):
                functions[name] = _with_description(name, tool, about) if about else tool
            else:
                values[name] = tool, about
        return cls(functions, values)


def _by_name(tools: Any) -> dict[str, Any]:
    if tools is None:
        return {}
    if isinstance(tools, Mapping):
        return dict(tools)
    names = [getattr(tool, "name", None) or getattr(tool, "__name__", None) for tool in tools]
    if nameless := [tool for tool, name in zip(tools, names, strict=True) if not isinstance(name, str)]:
        raise TypeError(f"tools: {nameless[0]!r} has no name; give it one: tools={{'name': function}}")
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"tools: two functions are called {min(map(str, twice))!r}; name them: tools={{...}}")
    return {str(name): tool for name, tool in zip(names, tools, strict=True)}


def _with_description(name: str, function: Callable[..., Any], description: str) -> Callable[..., Any]:
    described = plain(function, name)
    described.__doc__ = description
    return sandbox.describe(described, description, sandbox.described(described)[1])


def tool_problem(name: str, inputs: Collection[str]) -> str | None:
    """Return why a tool cannot have this name beside these inputs; None if it can."""
    if name in RESERVED:
        return f"{name!r} is a name of the REPL; give the tool another one"
    if name in inputs:
        return f"{name!r} is an input, too; give one of them another name"
    return None


def refuse_tools(
    tools: Mapping[str, Callable[..., Any]], signature: Signature, values: Mapping[str, Any] | None = None
) -> None:
    """Raise `ValueError` if a tool cannot be called in the REPL by its name, or a value cannot have its name."""
    if not isinstance(tools, Mapping):
        raise TypeError('tools are functions by name, such as {"look_up": look_up}')
    inputs, given = {field.name for field in signature.inputs}, values or {}
    found = [tool_problem(name, inputs) or _not_callable(name, tool) for name, tool in tools.items()]
    found += [
        tool_problem(name, inputs) or _not_a_name(name) or _not_plain(name, value) for name, value in given.items()
    ]
    if problems := [problem for problem in found if problem is not None]:
        raise ValueError(f"tools: {'; '.join(problems)}")


def _not_a_name(name: Any) -> str | None:
    if isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name):
        return None
    return f"{name!r} is not a Python name, so no code can use it"


def _not_plain(name: str, value: tuple[Any, str]) -> str | None:
    try:
        code_value(value[0])
    except (TypeError, ValueError, RecursionError) as error:
        return f"{name!r} is neither a function nor a plain value ({error})"
    return None


def _not_callable(name: str, tool: Any) -> str | None:
    if (problem := _not_a_name(name)) is not None:
        return problem
    try:
        inspect.signature(tool)
    except (TypeError, ValueError) as error:
        return f"{name!r} is no function that can be described ({error}); wrap it in one"
    return None
