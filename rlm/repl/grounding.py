"""Whether an answer can come from the inputs: what code reads, what it makes up, and what it could submit next.

Small models write sample data into their code and work on that, or answer from the preview in the prompt. Both are seen
in the code's own syntax tree, before anything is believed.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sandbox import Variable

from ..history import REPLHistoryEntry
from ..signatures import Field, Signature
from .prompt import shown_whole

_LONG_TEXT = 200
_MANY_ITEMS = 8
_SHOWN = 6
_FITS = {int: ("int",), float: ("float", "int"), bool: ("bool",), str: ("str",)}

UNREAD = (
    "No code of yours has read {names} yet, so these values cannot come from there. Write code that works on {names} "
    "(it is a variable in the REPL), look at what it prints, and submit the variable that holds the result."
)
REPEATED = (
    "You ran exactly this code before, and it printed exactly this. Do something else now: look for other words, use "
    "what was printed, or, if the answer is there, call SUBMIT."
)
OVERWRITTEN = (
    "{names} holds the real data already, and cannot be assigned to. Leave out the line that assigns to it, and use it "
    "as it is."
)
OWN_DATA = (
    "Your code works on data that you wrote into it yourself, and does not read {names}. Only what is in the REPL is "
    "real: do the same on {names}."
)


def names_read(code: str, names: Collection[str]) -> frozenset[str]:
    """Which of the names the code reads; none where it does not compile."""
    tree = _tree(code)
    if tree is None:
        return frozenset()
    return frozenset(
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names
    )


def overwritten(code: str, inputs: Collection[str]) -> str | None:
    """What to tell a model whose code assigns to an input; None if it does not."""
    tree = _tree(code)
    stored = {
        node.id
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in inputs
    }
    return OVERWRITTEN.format(names=_listed(stored)) if stored else None


def unseen(inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """The inputs that a prompt does not show whole."""
    return tuple(name for name, value in inputs.items() if not shown_whole(value))


def own_data(code: str, known: Collection[str], inputs: Collection[str]) -> str | None:
    """What to tell a model whose code brings its own data and reads nothing of the REPL's; None if it does not."""
    tree = _tree(code)
    if tree is None or not inputs or names_read(code, known):
        return None
    if not any(_is_data(node) for node in ast.walk(tree)):
        return None
    return OWN_DATA.format(names=_listed(inputs))


def repeated(code: str, output: str, history: Iterable[REPLHistoryEntry]) -> str | None:
    """What to tell a model that ran the same code to the same end; None if it did not."""
    again = any(entry.code.strip() == code.strip() and entry.output == output for entry in history)
    return REPEATED if again and code.strip() else None


def unread(names: Collection[str]) -> str:
    """Why a SUBMIT is refused before the inputs were read."""
    return UNREAD.format(names=_listed(names))


def state_of(changed: Collection[str], variables: Mapping[str, Variable]) -> str:
    """The variables that a cell left behind, for a model whose cell printed nothing."""
    shown = [variables[name] for name in changed if name in variables and variables[name].type not in _DULL][-_SHOWN:]
    return ", ".join(f"{one.name} = {_short(one.preview)}" for one in shown)


def next_submit(
    signature: Signature, output: str, changed: Collection[str], variables: Mapping[str, Variable]
) -> str | None:
    """The SUBMIT call that a printed result asks for: one output of a plain type, one variable that was printed."""
    if len(signature.outputs) != 1 or not output.strip():
        return None
    field = signature.outputs[0]
    fitting = [
        name
        for name in changed
        if name in variables and _fits(field, variables[name]) and _printed(variables[name], output)
    ]
    return f"SUBMIT({field.name}={fitting[-1]})" if fitting else None


_DULL = ("module", "function", "type", "builtin_function_or_method")


def _fits(field: Field, variable: Variable) -> bool:
    return any(field.type is kind and variable.type in names for kind, names in _FITS.items())


def _printed(variable: Variable, output: str) -> bool:
    text = str(variable.value) if variable.has_value else variable.preview
    return bool(text) and text in output


def _is_data(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and len(node.value) > _LONG_TEXT
    return isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict) and _constants(node) >= _MANY_ITEMS


def _constants(node: ast.AST) -> int:
    return sum(isinstance(one, ast.Constant) for one in ast.walk(node))


def _tree(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _listed(names: Collection[str]) -> str:
    return " or ".join(f"`{name}`" for name in sorted(names))


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"
