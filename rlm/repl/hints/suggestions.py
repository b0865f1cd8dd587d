"""What a model could do next: submit a value that it printed, or begin its reply in another way."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

from sandbox import Variable

from ...signatures import Field, Signature
from ...text import shorten
from .code_facts import constant_names, names_computed, tree_of
from .rules import CellFacts, prints_nothing_found

_SHOWN = 6
_DULL = ("module", "function", "type", "builtin_function_or_method")
_TYPE_NAMES = {int: ("int",), float: ("float", "int"), bool: ("bool",), str: ("str",)}

# How a value of a plain type looks where it is printed.
_PRINTED = {int: r"-?\d+", float: r"-?\d+(\.\d+)?(e[-+]?\d+)?", str: r"[^\[{(<].{0,80}"}


def suggest_submit(signature: Signature, cell: CellFacts) -> str | None:
    """Return the SUBMIT call that a printed result asks for: one output of a plain type, printed by this cell.

    Its value is a variable, or else the expression that the code printed last. A constant is no result.
    """
    output = cell.output
    if not cell.success or cell.unread or prints_nothing_found(output):
        return None
    if len(signature.outputs) != 1 or not output.strip():
        return None
    field, constants = signature.outputs[0], constant_names(cell.code)
    fitting = [
        name
        for name in cell.changed
        if name in cell.variables
        and name not in constants
        and _fits(field, cell.variables[name])
        and _is_printed(cell.variables[name], output)
    ]
    value = fitting[-1] if fitting else _last_printed(cell.code, field, output)
    return f"SUBMIT({field.name}={value})" if value and value not in constants else None


def summarize_variables(cell: CellFacts) -> str:
    """Summarize the variables that a cell changed, for a model whose cell printed nothing."""
    known = [cell.variables[name] for name in cell.changed if name in cell.variables]
    shown = [variable for variable in known if variable.type not in _DULL][-_SHOWN:]
    return ", ".join(f"{variable.name} = {shorten(variable.preview, 80)}" for variable in shown)


def without_constants(variables: Mapping[str, Variable], cells: Iterable[str]) -> dict[str, Variable]:
    """Return the variables without those whose last assignment was a constant."""
    constants: set[str] = set()
    for code in cells:
        constants = (constants | constant_names(code)) - names_computed(code)
    return {name: variable for name, variable in variables.items() if name not in constants}


def _fits(field: Field, variable: Variable) -> bool:
    return any(field.type is kind and variable.type in names for kind, names in _TYPE_NAMES.items())


def _is_printed(variable: Variable, output: str) -> bool:
    text = str(variable.value) if variable.has_value else variable.preview
    return bool(text) and text in output


def _last_printed(code: str, field: Field, output: str) -> str | None:
    """Return the single expression that the last statement prints, if what was printed is of the field's type.

    The first of several is no answer: `print(len(hits), hits)` is how a model looks around.
    """
    tree, pattern = tree_of(code), _PRINTED.get(field.type)
    last = tree.body[-1] if tree is not None and tree.body else None
    if pattern is None or not isinstance(last, ast.Expr):
        return None
    call = last.value
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"):
        return None
    if len(call.args) != 1 or isinstance(call.args[0], ast.Constant | ast.JoinedStr | ast.Starred):
        return None
    return ast.unparse(call.args[0]) if re.fullmatch(pattern, output.rstrip().rpartition("\n")[2]) else None
