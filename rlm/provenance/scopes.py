"""Names and conditions: what a name is bound to at a place in the code, and under which conditions code runs."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .graph import CONTROL, DATA, SAME, Graph, Place
from .known_names import MODEL_CALLS, OPAQUE_MODULES, OPAQUE_NAMES, PURE_FUNCTIONS, is_installed
from .program import Program

_MAX_SNIPPET = 120


@dataclass(slots=True)
class Function:
    """A function of the code: nodes for its parameters, and for what it returns."""

    parameters: dict[str, int]
    positional: list[str]
    rest: list[str]
    returns: int


@dataclass(slots=True)
class Scope:
    """The names of a module, a function, a class or a comprehension."""

    kind: str
    layers: list[dict[str, int]] = field(default_factory=lambda: [{}])
    anywhere: dict[str, int] = field(default_factory=dict)
    """For each name, the node of all its definitions: what functions see."""

    shared: set[str] = field(default_factory=set)
    """Names that functions write to: their order is not known."""

    outer: set[str] = field(default_factory=set)
    """Names that belong to an outer scope: `global`, `nonlocal`."""

    returns: int | None = None
    regions: list[dict[str, int]] = field(default_factory=list)
    """Loops and `try` blocks that are open: nodes of what each name may be at their ends."""

    def get(self, name: str) -> int | None:
        """Return what a name is bound to now."""
        if name in self.shared:
            return self.anywhere.get(name)
        for layer in reversed(self.layers):
            if name in layer:
                return layer[name]
        return None


class Scopes:
    """The state of the analysis: graph, scopes, conditions and loops that are open."""

    def __init__(self, inputs: Mapping[str, Any], tools: frozenset[str], max_nodes: int) -> None:
        self.graph = Graph(max_nodes)
        self.program = Program(self.graph)
        self.tools = tools
        self.module = Scope("module")
        self.scopes = [self.module]
        self.control: int | None = None
        self.loops: list[int] = []
        self.functions: dict[int, Function] = {}
        self.modules: dict[str, int] = {}
        self.iteration = 0
        self.lines: list[str] = []
        self.relied_on: set[str] = set()  # names that functions use as the builtins that they are
        self.inputs: dict[str, int] = {}
        for name, value in inputs.items():
            unit = "characters" if isinstance(value, str) else "items" if isinstance(value, list | dict | tuple) else ""
            whole = (name, unit) if unit else None
            self.inputs[name] = self.graph.add("input", value=name, whole=whole)

    def give_up(self, place: Place) -> None:
        """Note that code cannot be followed."""
        self.program.opaque.append(place)

    def _place(self, node: Any) -> Place:
        line = getattr(node, "lineno", 0)
        text = self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""
        return Place(self.iteration, line, text if len(text) <= _MAX_SNIPPET else text[: _MAX_SNIPPET - 3] + "...")

    def _new(self, syntax: Any, *edges: tuple[int, int], kind: Any = "value", **about: Any) -> int:
        """Add a node for what a piece of syntax computes, under the present conditions."""
        number = self.graph.add(kind, *edges, place=self._place(syntax), **about)
        if self.control is not None and number:
            self.graph.connect(number, self.control, CONTROL)
            self.graph.nodes[number].control = self.control
        return number

    def _opaque(self, syntax: Any) -> int:
        self.give_up(self._place(syntax))
        return 0

    def _define(self, name: str, value: int, syntax: Any) -> None:
        scope = self.scopes[-1]
        if name in self.relied_on and not self._in_function():
            self.give_up(self._place(syntax))
        if name in scope.outer:
            target = next(
                (enclosing for enclosing in reversed(self.scopes[:-1]) if name in enclosing.anywhere), self.module
            )
            target.shared.add(name)
            self._anywhere(target, name, value)
            target.layers[0].setdefault(name, value)
            return
        node = value
        if self.control is not None:
            made = self.graph.nodes[value]
            node = self._new(syntax, (value, SAME), whole=made.whole)
            if value in self.functions:
                self.functions[node] = self.functions[value]
        scope.layers[-1][name] = node
        self._anywhere(scope, name, node)
        if scope.regions:
            self._may_be(scope, name, node)

    def _anywhere(self, scope: Scope, name: str, value: int) -> None:
        """Note a definition for code that runs at another time."""
        if name not in scope.anywhere:
            before = next((layer[name] for layer in scope.layers if name in layer), None)
            scope.anywhere[name] = self.graph.add("choice")
            if before is not None and before != value:
                self.graph.connect(scope.anywhere[name], before, SAME)
        self.graph.connect(scope.anywhere[name], value, SAME)

    def _may_be(self, scope: Scope, name: str, node: int) -> None:
        region = scope.regions[-1]
        if name not in region:
            region[name] = self.graph.add("choice")
        self.graph.connect(region[name], node, SAME)

    def _lookup(self, name: str, syntax: Any) -> int:
        node = self._bound_node(name)
        if node is not None:
            return node
        if name in self.inputs:
            if self._in_function():  # another cell may bind the name before the function is called
                self._anywhere(self.module, name, self.inputs[name])
                made = self.graph.nodes[self.module.anywhere[name]]
                made.whole = made.whole or self.graph.nodes[self.inputs[name]].whole
                return self.module.anywhere[name]
            return self.inputs[name]
        if name in OPAQUE_NAMES or (name.startswith("__") and name not in ("__name__", "__doc__")):
            return self._opaque(syntax)
        if name == "SUBMIT":  # as a value: whoever calls it, and with what, is not known
            return self._opaque(syntax)
        if self._in_function():
            if name in PURE_FUNCTIONS or name in self.tools or name in MODEL_CALLS:
                self.relied_on.add(name)
            else:  # a later cell may define it before the function is called
                self.module.anywhere[name] = self.graph.add("choice")
                return self.module.anywhere[name]
        return self.graph.add("nothing", value=name, place=self._place(syntax))

    def _bound_node(self, name: str) -> int | None:
        """Return what a name is bound to: by order in the present function, in any order in outer ones."""
        is_outside = False
        for scope in reversed(self.scopes):
            if is_outside:
                if scope.kind in ("class", "comprehension"):
                    continue
                known = scope.get(name)
                if name not in scope.anywhere and known is not None:
                    self._anywhere(scope, name, known)
                if name in scope.anywhere:
                    node = scope.anywhere[name]
                    if known in self.functions and len(self.graph.nodes[node].edges) == 1:
                        self.functions.setdefault(node, self.functions[known])
                    return node
            elif name in scope.outer:
                is_outside = True
                continue
            elif (found := scope.get(name)) is not None:
                return found
            is_outside = is_outside or scope.kind == "function"
        return None

    def _in_function(self) -> bool:
        return any(scope.kind == "function" for scope in self.scopes)

    def _is_unbound(self, name: str) -> bool:
        """Whether a name is that of no input, and no code has bound it."""
        return name not in self.inputs and self._bound_node(name) is None

    def _is_builtin(self, name: str) -> bool:
        """Return whether no code has bound a name."""
        if any(scope.get(name) is not None or name in scope.anywhere for scope in self.scopes):
            return False
        if self._in_function():
            self.relied_on.add(name)
        return True

    def _module(self, name: str, syntax: Any) -> int:
        if name in OPAQUE_MODULES or not is_installed(name):
            return self._opaque(syntax)
        if name not in self.modules:
            self.modules[name] = self.graph.add("value", value=f"module {name}", place=self._place(syntax))
        return self.modules[name]

    @contextmanager
    def _under(self, syntax: Any, test: int) -> Any:
        """Evaluate under a condition."""
        edges = [(test, DATA)] + ([(self.control, CONTROL)] if self.control is not None else [])
        outer, self.control = (
            self.control,
            self.graph.add("value", *edges, place=self._place(syntax), control=self.control),
        )
        try:
            yield self.control
        finally:
            self.control = outer

    def _alternatives(self, blocks: Sequence[Any]) -> None:
        """Evaluate blocks of which one runs, and join the names that they leave."""
        scope = self.scopes[-1]
        layers = []
        for block in blocks:
            scope.layers.append({})
            try:
                block()
            finally:
                layers.append(scope.layers.pop())
        for name in dict.fromkeys(name for layer in layers for name in layer):
            before = scope.get(name)
            ends = [layer.get(name, before) for layer in layers]
            self._join(scope, name, [end for end in ends if end is not None])

    def _join(self, scope: Scope, name: str, ends: Sequence[int]) -> None:
        if len(set(ends)) == 1:
            node = ends[0]
        else:
            node = self.graph.add("choice", *((end, SAME) for end in dict.fromkeys(ends)))
            if self.control is not None and node:
                self.graph.connect(node, self.control, CONTROL)
        scope.layers[-1][name] = node
        self._anywhere(scope, name, node)
        if scope.regions:
            self._may_be(scope, name, node)

    @contextmanager
    def _may_end_early(self, body: Sequence[ast.stmt]) -> Any:
        """Evaluate code that may end after any statement: afterwards names are what they were, or became."""
        scope = self.scopes[-1]
        region: dict[str, int] = {}
        scope.regions.append(region)
        scope.layers.append({})
        try:
            yield
        finally:
            scope.layers.pop()
            scope.regions.pop()
            for name, node in region.items():
                before = scope.get(name)
                if before is not None:
                    self.graph.connect(node, before, SAME)
                self._join(scope, name, [node])

    @contextmanager
    def _loop(self, node: Any) -> Any:
        """Evaluate the body of a loop once, with names that it binds being what they were or become."""
        scope = self.scopes[-1]
        edges = [(self.control, CONTROL)] if self.control is not None else []
        loop = self.graph.add("value", *edges, place=self._place(node), control=self.control)
        outer, self.control = self.control, loop
        self.loops.append(loop)
        region: dict[str, int] = {}
        head: dict[str, int] = {}
        for name in _bound(node):
            before = scope.get(name) if name not in scope.outer else None
            region[name] = head[name] = self.graph.add("choice", place=self._place(node))
            if before is not None:
                self.graph.connect(head[name], before, SAME)
            if loop:
                self.graph.connect(head[name], loop, CONTROL)
        scope.regions.append(region)
        scope.layers.append(dict(head))
        try:
            yield loop
        finally:
            self.loops.pop()
            scope.layers.pop()
            scope.regions.pop()
            self.control = outer
            for name, choice in region.items():
                self._join(scope, name, [choice])


def _bound(loop: ast.AST) -> list[str]:
    """Return the names that a loop binds, in order."""
    names: dict[str, None] = {}
    todo: list[ast.AST] = [loop]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            names[node.id] = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names[node.name] = None
            continue
        elif isinstance(node, ast.alias):
            names[(node.asname or node.name).partition(".")[0]] = None
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names[node.name] = None
        elif isinstance(node, ast.Lambda):
            continue
        todo.extend(ast.iter_child_nodes(node))
    return list(names)
