"""The policy: reads a cell before it runs and says, in words its author can act on, what it may not do.

Covered: special attributes and names, also as text in `getattr` and in format fields; builtins that run text as code;
modules that cannot work here; every way to rebind a reserved name. Not covered: anything spelled at run time. The
operating system is the boundary (`isolation/`). Nothing here is needed for safety, and nothing here is trusted for it.

The tree is only read. The cell is compiled from the same tree, so its lines and its speed are its own.
"""

from __future__ import annotations

import ast
import re
import string
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from RestrictedPython.transformer import RestrictingNodeTransformer

from .policy_words import (
    ATTRIBUTES,
    BUILTINS,
    LOOKUPS,
    MEMBERS,
    MODULES,
    NOTEBOOK,
    ORDINARY,
    OTHER_SPECIAL,
    READ_ONLY,
    READ_ONLY_HINT,
    STORING_LOOKUPS,
    Why,
)

Mode = Literal["off", "warn", "enforce"]
"""`off` reads nothing, `warn` runs the cell and tells what was found, `enforce` does not run it."""

MAX_DEPTH: Final = 900
"""Levels of nesting. Python 3.11 cannot compile a tree much deeper than this; later versions can."""

_SHOWN: Final = 8
_WIDTH: Final = 160
_INDEX: Final = re.compile(r"\[[^\]]*\]")

_Node = TypeVar("_Node", bound=ast.AST)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that a cell may not do. Lines count from 1 and columns from 0, in bytes, as `ast` counts them."""

    line: int
    column: int
    message: str
    hint: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}. {self.hint}."


def review(
    tree: ast.Module,
    reserved: frozenset[str] = frozenset(),
    bound: Iterable[str] = (),
    *,
    in_notebook: bool = False,
) -> tuple[Refusal, ...]:
    """Everything in `tree` that is refused, in order of its lines; empty if the cell may run.

    `reserved` names belong to the session: code may read and call them, but not bind them again. `bound` are names that
    earlier cells bound: one such as `input` is then a variable. In a notebook there is a person, and what is for people
    may be used. A review that fails is a refusal.
    """
    reviewer = _Reviewer(reserved, bound, NOTEBOOK if in_notebook else frozenset())
    try:
        return reviewer.read(tree)
    except Exception as error:
        line, column = _position(reviewer.node)
        message = f"the code could not be reviewed ({type(error).__name__})"
        return (Refusal(line, column, message, "Write it in a simpler way, in several short statements"),)


def explain(refusals: Sequence[Refusal], source: str, mode: Mode = "enforce") -> str:
    """Return the refusals of a cell as its author should read them: where, what, and what to write instead."""
    if not refusals:
        return ""
    what = "one thing in it is" if len(refusals) == 1 else f"{len(refusals)} things in it are"
    parts = [f"This code was {'not run' if mode == 'enforce' else 'run'}: {what} not allowed here."]
    lines = re.split(r"\r\n|\r|\n", source)
    for refusal in refusals[:_SHOWN]:
        text = lines[refusal.line - 1].strip() if 0 < refusal.line <= len(lines) else ""
        shown = text if len(text) <= _WIDTH else text[:_WIDTH] + " ..."
        quoted = f"    {shown}\n" if shown else ""
        parts.append(f"line {refusal.line}: {refusal.message}.\n{quoted}  Instead: {refusal.hint}.")
    if len(refusals) > _SHOWN:
        parts.append(f"... and {len(refusals) - _SHOWN} more.")
    return "\n\n".join(parts)


class _Reviewer(RestrictingNodeTransformer):
    """RestrictedPython's transformer without its transformations.

    `node_contents_visit`, through which every method of the base class descends, only notes the children; `read` goes
    through the tree level by level. So no depth of nesting can exhaust the stack, and a parent is always seen before
    its children and can excuse them. Kept from the base class: node types that it does not know are refused, and so is
    what any method not overridden here reports to `error`.
    """

    def __init__(self, reserved: frozenset[str], bound: Iterable[str], allowed: frozenset[str]) -> None:
        super().__init__()
        self.node: ast.AST | None = None
        self._reserved = reserved
        self._builtins = BUILTINS.keys() - reserved - allowed
        self._allowed = allowed
        self._below: list[ast.AST] = []
        self._excused: set[ast.AST] = set()
        self._refusals: list[Refusal] = []
        self._calls: list[tuple[str, Refusal]] = []
        self._bound = set(bound)

    def read(self, tree: ast.Module) -> tuple[Refusal, ...]:
        level: list[ast.AST] = [tree]
        for _ in range(MAX_DEPTH):
            self._below = []
            for node in level:
                self.node = node
                if self.visit(node) is not node:
                    raise RuntimeError("a review may not rewrite code")
            level = self._below
            if not level:
                break
        else:
            self._refuse(level[0], "the code is nested too deeply", "Split it into several statements")
        # Where the cell or an earlier one has a variable called `input`, its uses are no questions.
        found = self._refusals + [refusal for name, refusal in self._calls if name not in self._bound]
        return tuple(sorted(found, key=lambda refusal: (refusal.line, refusal.column)))

    # ── the machinery of the base class ──────────────────────────────────────────────────────────────────────────────

    def visit(self, node: ast.AST) -> Any:
        kind = type(node)
        handler = _HANDLERS.get(kind)
        if handler is None:
            handler = _HANDLERS[kind] = getattr(_Reviewer, f"visit_{kind.__name__}", _Reviewer.generic_visit)
        return handler(self, node)

    def node_contents_visit(self, node: _Node) -> _Node:
        below = self._below
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                below += [child for child in value if isinstance(child, ast.AST) and type(child) not in _MARKS]
            elif isinstance(value, ast.AST) and type(value) not in _MARKS:
                below.append(value)
        return node

    def generic_visit(self, node: ast.AST) -> Any:
        message = f"`{type(node).__name__}` is syntax that this sandbox does not know"
        self._refuse(node, message, "Write it in the syntax of Python 3.11")
        return node

    def error(self, node: ast.AST, info: str) -> None:
        self._refuse(node, info.rstrip("."), "Write it in a simpler way")

    def not_allowed(self, node: ast.AST) -> Any:
        self.generic_visit(node)

    def _plain(self, node: ast.AST) -> Any:
        return self.node_contents_visit(node)

    # Rewritten by the base class, and nothing to say about here.
    visit_Module = visit_Subscript = visit_comprehension = visit_Lambda = _plain
    visit_Assign = visit_AugAssign = visit_For = visit_With = _plain
    # Refused by the base class or not known to it.
    visit_AnnAssign = visit_Await = visit_AsyncFor = visit_AsyncWith = visit_TryStar = visit_TypeAlias = _plain
    visit_Match = visit_match_case = visit_MatchValue = visit_MatchSingleton = visit_MatchSequence = _plain
    visit_MatchOr = _plain

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def visit_Name(self, node: ast.Name) -> Any:
        name = node.id
        if not isinstance(node.ctx, ast.Load):
            self.check_name(node, name)
        elif name in self._builtins:
            why = BUILTINS[name]
            self._calls.append((name, Refusal(*_position(node), f"`{name}` {why.reason}", why.hint)))
        elif name.startswith("__"):
            self._check_special(node, name, f"`{name}`")
        return node

    def check_name(self, node: ast.AST, name: str | None, allow_magic_methods: bool = False) -> None:
        """Check a name that is about to be bound, deleted or declared."""
        if name is None:
            return
        if name.startswith("__") and self._check_special(node, name, f"`{name}`", storing=True):
            return
        if node in self._excused:
            return
        if name in self._reserved:
            self._refuse(node, f"`{name}` belongs to the session and cannot be bound again", _another(name))
        elif name in self._builtins:
            self._bound.add(name)

    def visit_arg(self, node: ast.arg) -> Any:
        # An argument hides a reserved name in its own function only, and `def chunks(context):` is how people write.
        if node.arg not in self._reserved:
            self.check_name(node, node.arg)
        return self.node_contents_visit(node)

    def _visit_definition(self, node: Any) -> Any:
        self.check_name(node, node.name)
        return self.node_contents_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ExceptHandler = _visit_definition
    visit_MatchAs = visit_MatchStar = visit_TypeVar = visit_ParamSpec = visit_TypeVarTuple = _visit_definition

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        # What a class body binds are attributes: a field `context` or a method `eval` takes no name away.
        for statement in node.body:
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    self._excused.add(statement)
                case ast.Assign(targets=[ast.Name() as name]) | ast.AnnAssign(target=ast.Name() as name):
                    self._excused.add(name)
        return self._visit_definition(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> Any:
        for name in node.names:
            self.check_name(node, name)
        return node

    visit_Nonlocal = visit_Global

    def visit_MatchMapping(self, node: ast.MatchMapping) -> Any:
        self.check_name(node, node.rest)
        return self.node_contents_visit(node)

    # ── attributes ───────────────────────────────────────────────────────────────────────────────────────────────────

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        name, value = node.attr, node.value
        storing = not isinstance(node.ctx, ast.Load)
        if name.startswith("__") or name in ATTRIBUTES:
            self._check_special(node, name, f"`{_spell(node)}`", storing=storing)
        elif isinstance(value, ast.Name) and value.id in MEMBERS and name in MEMBERS[value.id]:
            why = MEMBERS[value.id][name]
            self._refuse(node, f"`{value.id}.{name}` {why.reason}", why.hint)
        return self.node_contents_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> Any:
        for name in node.kwd_attrs:
            self._check_special(node, name, f"`{name}=` in this pattern")
        return self.node_contents_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name == "import_module" and node.args and isinstance(module := node.args[0], ast.Constant):
            self._check_module(node, str(module.value))
        if name in LOOKUPS:
            for argument in node.args[LOOKUPS[name]]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    self._check_path(argument, argument.value, storing=name in STORING_LOOKUPS)
        return self.node_contents_visit(node)

    def visit_Constant(self, node: ast.Constant) -> Any:
        text = node.value
        if isinstance(text, str) and "{" in text and "." in text:
            for field in _fields(text):
                self._check_path(node, field)
        return node

    def _check_path(self, node: ast.AST, path: str, storing: bool = False) -> None:
        """Check attribute names that stand as text in the code, such as `a.b.c`."""
        for name in path.split("."):
            self._check_special(node, name, f'the attribute "{name}" in this text', storing=storing)

    def _check_special(self, node: ast.AST, name: str, spelled: str, storing: bool = False) -> bool:
        """Check the name of an attribute, or a name such as `__this__`; true if it was refused."""
        special = name.startswith("__") and name.endswith("__") and len(name) > 4
        why = ATTRIBUTES.get(name) or BUILTINS.get(name) if special else ATTRIBUTES.get(name)
        if special and name in ORDINARY:
            why = Why("may only be read", READ_ONLY_HINT) if storing and name in READ_ONLY else None
        elif special and why is None:
            why = OTHER_SPECIAL
        if why is not None:
            self._refuse(node, f"{spelled} {why.reason}", why.hint)
        return why is not None

    # ── imports ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def visit_Import(self, node: ast.Import) -> Any:
        for alias in node.names:
            self._check_module(alias, alias.name)
            self.check_name(alias, alias.asname or alias.name.partition(".")[0])
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        module = node.module or ""
        if not node.level and self._check_module(node, module):
            return node
        for alias in node.names:
            if alias.name == "*":
                self._check_star(node, module)
                continue
            self._check_special(alias, alias.name, f"`{alias.name}`")
            self._check_module(alias, f"{module}.{alias.name}")
            if why := MEMBERS.get(module, {}).get(alias.name):
                self._refuse(alias, f"`{module}.{alias.name}` {why.reason}", why.hint)
            self.check_name(alias, alias.asname or alias.name)
        return node

    def _check_module(self, node: ast.AST, name: str) -> bool:
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            if (why := MODULES.get(module := ".".join(parts[:end]))) and module not in self._allowed:
                self._refuse(node, f"`{name}` {why.reason}", why.hint)
                return True
        return False

    def _check_star(self, node: ast.AST, module: str) -> None:
        # Nobody can see which names it binds; the standard library has none that a session reserves.
        if self._reserved and module.partition(".")[0] not in sys.stdlib_module_names:
            self._refuse(node, f"`from {module} import *` may bind a reserved name", "Import the names that you need")

    def _refuse(self, node: ast.AST, message: str, hint: str) -> None:
        self._refusals.append(Refusal(*_position(node), message, hint))


_HANDLERS: Final[dict[type[ast.AST], Callable[[_Reviewer, Any], Any]]] = {}

_MARKS: Final = frozenset(
    mark
    for kind in (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
    for mark in kind.__subclasses__()
    if hasattr(RestrictingNodeTransformer, f"visit_{mark.__name__}")
)
"""Nodes that say how (`Load`, `Add`), not what; a third of every tree. The base class knows them and lets them pass."""


def _position(node: ast.AST | None) -> tuple[int, int]:
    return getattr(node, "lineno", 1), getattr(node, "col_offset", 0)


def _another(name: str) -> str:
    return f"Choose another name, such as `my_{name.strip('_')}`"


def _spell(node: ast.Attribute) -> str:
    """`a.b.__class__` as far as it can be said in a word; the object is left out where it is a whole expression."""
    match node.value:
        case ast.Name(id=name):
            return f"{name}.{node.attr}"
        case ast.Attribute(value=ast.Name(id=name), attr=middle):
            return f"{name}.{middle}.{node.attr}"
        case _:
            return f".{node.attr}"


def _fields(text: str, nested: bool = True) -> Iterable[str]:
    """Yield the attribute paths in the replacement fields of a format string; `{0.a[b].c:{1.d}}` has `a.c` and `d`."""
    try:
        for _, field, spec, _ in string.Formatter().parse(text):
            _, dot, path = _INDEX.sub("", field or "").partition(".")
            if dot:
                yield path
            if nested and spec and "{" in spec:
                yield from _fields(spec, nested=False)
    except ValueError:
        return  # Not a format string: str.format would raise the same.
