"""Pieces of the prompts: inputs and functions described in a line each, templates from `prompts/`.

Inputs are described, never pasted. Which pieces a model reads is decided in `profiles.py`.
"""

from __future__ import annotations

import ast
import builtins
import functools
import json
import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any

import sandbox

from ..mounts import has_files
from ..mounts.describe import describe_files, kind_of
from ..shapes import describe
from ..signatures import Signature

PREVIEW_CHARS = 160
ALIASES = ("llm_query_batched", "rlm_query_batched", "SHOW_VARS")
"""Functions under the names that other runtimes have for them: they work, and are not described."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = _SHORT.maxdict = 40


def describe_inputs(
    signature: Signature,
    inputs: Mapping[str, Any],
    *,
    most: int = 12,
    width: int = 200,
    shown: Collection[str] = (),
) -> str:
    """Describe each input: type, size, the signature's description, and its value, or its shape where it is long.

    At most `most` line shapes, columns or keys are shown of an input, in lines of about `width` characters. Texts that
    are `shown` are there whole.
    """
    descriptions = {field.name: " ".join(field.description.split()) for field in signature.inputs}
    lines = [
        _describe_input(name, value, descriptions.get(name), most, width, whole=name in shown)
        for name, value in inputs.items()
    ]
    return "\n".join(lines) or "(none)"


def describe_values(values: Mapping[str, tuple[Any, str]]) -> list[str]:
    """Describe each further value that code has, with what is said about it."""
    return [_describe_input(name, value, about or None, 6, 150) for name, (value, about) in values.items()]


def describe_listed(listed: Mapping[str, str], functions: Collection[str]) -> list[str]:
    """Describe the tools that are listed by name only, each group under its heading, as far as there are functions."""
    groups: dict[str, list[str]] = {}
    for name, heading in listed.items():
        if name in functions:
            groups.setdefault(heading, []).append(name)
    lines = [f"- {heading}, which are functions: {', '.join(names)}" for heading, names in groups.items()]
    return [*lines, "  (`help(name)` prints what one of them does and takes: look before you call it)"] if lines else []


def shown_whole(value: Any) -> bool:
    """Return whether the description of an input has all of it, so that a model can answer without reading it."""
    if isinstance(value, str):
        return len(value) <= PREVIEW_CHARS
    if has_files(value):
        return False
    shown = _short(value)
    return len(shown) <= PREVIEW_CHARS and "..." not in shown


def long_inputs(inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the inputs that a prompt does not show whole."""
    return tuple(name for name, value in inputs.items() if not shown_whole(value))


def describe_function(name: str, function: Callable[..., Any]) -> str:
    """Describe a function of the host by its signature and docstring."""
    doc, signature = sandbox.described(function)
    return f"- {name}{signature}: {doc.strip()}" if doc else f"- {name}{signature}"


@functools.cache
def describe_helpers(source: str) -> tuple[str, ...]:
    """Describe the helper functions, which live in the kernel only, from their source."""
    return tuple(
        f"- {node.name}({ast.unparse(node.args)}): {ast.get_docstring(node) or ''}"
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and node.name not in ALIASES
    )


def submit_call(signature: Signature) -> str:
    """Return how SUBMIT is called for a signature."""
    return "SUBMIT(" + ", ".join(f"{field.name}=..." for field in signature.outputs) + ")"


def fill_system_prompt(name: str, own: str | None, submit: str, functions: Sequence[str]) -> str:
    """Return the system prompt: the template, or the caller's own with `$functions` and `$submit` in it.

    Where the caller's own does not say where the functions are described, they come at its end.
    """
    listed = "\n".join(functions)
    if own is None:
        return template(name).substitute(submit=submit, functions=listed)
    prompt = Template(own)
    text = prompt.safe_substitute(submit=submit, functions=listed)
    return text if "functions" in prompt.get_identifiers() else f"{text}\n\nFunctions in the REPL:\n{listed}"


def quote_guidance(guidance: str | None) -> str:
    """Return the guidance as a quotation, which cannot be taken for another section of the prompt."""
    if not guidance:
        return ""
    return "# Approach\n" + "\n".join(f"> {line}" for line in guidance.splitlines()) + "\n\n"


def goal_of(signature: Signature, inputs: Mapping[str, Any], shown: Collection[str] = ()) -> str:
    """Return the goal of a task in a line: the inputs that are sentences, or are `shown`, or else the instructions."""
    sentences = [
        value
        for name, value in inputs.items()
        if isinstance(value, str) and " " in value and (name in shown or shown_whole(value))
    ]
    return " ".join(sentences) or signature.instructions.partition("\n")[0]


@functools.cache
def template(name: str) -> Template:
    """Return a template from `prompts/`."""
    return Template(files(__package__).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8"))


def _describe_input(
    name: str, value: Any, description: str | None, most: int, width: int, *, whole: bool = False
) -> str:
    kind, about = type(value).__name__, f", {description}" if description else ""
    if hasattr(builtins, name):
        about += f", and not Python's own `{name}`, which is hidden by it"
    if has_files(value):
        return f"- {name} ({kind_of(value)}){about}: {describe_files(name, value, most=most, width=width)}"
    size = ""
    if isinstance(value, str):
        size = f", {len(value):,} characters"
    elif isinstance(value, bytes | list | tuple | dict | set):
        size = f", {len(value):,} {'bytes' if isinstance(value, bytes) else 'items'}"
    if not (whole and isinstance(value, str)) and not shown_whole(value):
        shape = describe(value).text(most=most, width=width).replace("\n", "\n  ")
        return f"- {name} ({kind}){about}: {shape}"
    shown = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else _short(value)
    return f"- {name} ({kind}{size}){about}: {shown}"


def _short(value: Any) -> str:
    return _SHORT.repr(value)[: PREVIEW_CHARS + 2]
