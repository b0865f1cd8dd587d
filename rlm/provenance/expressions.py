"""Nodes for expressions, but for calls."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from .graph import CONTROL, DATA, SAME, Node, Part
from .known_names import HARMLESS_DUNDERS, OPAQUE_ATTRIBUTES
from .scopes import Function, Scope, Scopes


class Expressions(Scopes):
    """Evaluates expressions to nodes."""

    def _computed(self, syntax: Any, *operands: int) -> int:
        """Add a node for a value that is computed; in a loop, it may be a count or a sum."""
        edges = [(operand, DATA) for operand in operands]
        if not self.loops:
            return self._new(syntax, *edges)
        return self._new(syntax, *edges, accumulates="maybe", loop=self.loops[0])

    def _step(self, syntax: Any, value: int) -> int:
        """Return the literal 1 in a loop as a step of a count."""
        made = self.graph.nodes[value]
        if not self.loops or made.kind != "literal" or made.value is True or made.value != 1:
            return value
        return self._new(syntax, kind="literal", value=made.value, is_step=True)

    def _value(self, node: ast.expr) -> int:
        if self.graph.full:
            return 0
        method = getattr(self, f"_of_{type(node).__name__}", None)
        if method is not None:
            return method(node)  # type: ignore[no-any-return]
        parts = [self._value(part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        return self._new(node, *((part, DATA) for part in parts))

    def _literal(self, node: Any, value: Any, **about: Any) -> int:
        return self._new(node, kind="literal", value=value, **about)

    def _of_Constant(self, node: ast.Constant) -> int:
        return self._literal(node, node.value)

    def _of_Name(self, node: ast.Name) -> int:
        return self._lookup(node.id, node)

    def _of_NamedExpr(self, node: ast.NamedExpr) -> int:
        value = self._value(node.value)
        scopes = self.scopes
        depth = len(scopes)
        while depth > 1 and scopes[depth - 1].kind == "comprehension":
            depth -= 1
        self.scopes = scopes[:depth]
        try:
            self._define(node.target.id, value, node)
        finally:
            self.scopes = scopes
        return value

    def _of_UnaryOp(self, node: ast.UnaryOp) -> int:
        value = self._value(node.operand)
        made = self.graph.nodes[value]
        if made.kind == "literal" and isinstance(made.value, int | float) and not isinstance(made.value, bool):
            if isinstance(node.op, ast.USub):
                return self._literal(node, -made.value)
            if isinstance(node.op, ast.UAdd):
                return value
        return self._new(node, (value, DATA))

    def _of_BinOp(self, node: ast.BinOp) -> int:
        left, right = self._value(node.left), self._value(node.right)
        known = self._folded(node.op, left, right)
        if known is not None:
            return self._literal(node, known)
        if isinstance(node.op, ast.Add | ast.Sub):
            left, right = self._step(node.left, left), self._step(node.right, right)
        return self._computed(node, left, right)

    def _folded(self, operator: ast.operator, left: int, right: int) -> Any:
        """Return the value of a constant expression, where it is simple; None otherwise."""
        one, other = self.graph.nodes[left], self.graph.nodes[right]
        if isinstance(operator, ast.Mult) and any(
            part.kind == "literal" and type(part.value) in (int, float) and part.value == 0 for part in (one, other)
        ):
            return 0
        if one.kind == other.kind == "literal":
            a, b = one.value, other.value
            numbers = all(type(value) in (int, float) and abs(value) < 1e12 for value in (a, b))
            texts = all(isinstance(value, str) and len(value) < 10_000 for value in (a, b))
            if isinstance(operator, ast.Add) and (numbers or texts):
                return a + b
            if isinstance(operator, ast.Sub) and numbers:
                return a - b
            if isinstance(operator, ast.Mult) and numbers:
                return a * b
        return None

    def _of_BoolOp(self, node: ast.BoolOp) -> int:
        values = [self._value(node.values[0])]
        for operand in node.values[1:]:
            with self._under(node, values[-1]):
                value = self._value(operand)
                values.append(self._as_default(value) if isinstance(node.op, ast.Or) else value)
        return self.graph.add("choice", *((value, SAME) for value in values), place=self._place(node))

    def _as_default(self, value: int) -> int:
        made = self.graph.nodes[value]
        if made.kind != "literal" or self.graph.full:
            return value
        return self.graph.add(
            "literal",
            *made.edges,
            value=made.value,
            place=made.place,
            is_default=True,
            control=made.control,
            items=made.items,
        )

    def _of_IfExp(self, node: ast.IfExp) -> int:
        with self._under(node, self._value(node.test)) as test:
            ends = self._value(node.body), self._value(node.orelse)
        return self.graph.add("choice", *((end, SAME) for end in ends), (test, CONTROL), place=self._place(node))

    def _of_Dict(self, node: ast.Dict) -> int:
        items: dict[Any, int] | None = {}
        edges: list[tuple[int, int]] = []
        for key, item in zip(node.keys, node.values, strict=True):
            value = self._value(item)
            edges.append((value, SAME))
            if key is None:
                items = None
                continue
            name = self._value(key)
            made = self.graph.nodes[name]
            if items is not None and made.kind == "literal" and isinstance(made.value, str | int):
                items[str(made.value)] = value
            else:
                items = None
                edges.append((name, SAME))
        return self._display(node, edges, items, {})

    def _of_List(self, node: ast.List | ast.Tuple | ast.Set) -> int:
        values = [self._value(element) for element in node.elts]
        ordered = not isinstance(node, ast.Set) and not any(isinstance(element, ast.Starred) for element in node.elts)
        return self._display(
            node, [(value, SAME) for value in values], dict(enumerate(values)) if ordered else None, []
        )

    _of_Tuple = _of_Set = _of_List

    def _display(self, node: Any, edges: Sequence[tuple[int, int]], items: Any, empty: Any) -> int:
        made = self._new(node, *edges, items=items)
        if not edges and made:  # an empty list is a literal, until something is put into it
            self.graph.connect(made, self._literal(node, empty, is_default=True), SAME)
        return made

    def _of_Starred(self, node: ast.Starred) -> int:
        return self._element(self._value(node.value), node)

    def _of_Attribute(self, node: ast.Attribute) -> int:
        self._check_attribute(node)
        return self._new(node, (self._value(node.value), SAME))

    def _check_attribute(self, node: ast.Attribute) -> None:
        name = node.attr
        if name in OPAQUE_ATTRIBUTES or (name.startswith("__") and name not in HARMLESS_DUNDERS):
            self._opaque(node)

    def _of_Subscript(self, node: ast.Subscript) -> int:
        holder = self._value(node.value)
        made = self.graph.nodes[holder]
        if isinstance(node.slice, ast.Slice):
            bounds = [
                self._value(bound) if bound is not None else None
                for bound in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            edges = [(holder, SAME), *((bound, CONTROL) for bound in bounds if bound is not None)]
            part = self._part(made.whole, bounds)
            whole = made.whole if part is None and not any(bound is not None for bound in bounds[:2]) else None
            return self._new(node, *edges, part=part, whole=whole, cut=self._cut(node, made, bounds))
        index = self._value(node.slice)
        known = self.graph.nodes[index]
        if made.items is not None and known.kind == "literal" and not self.graph.changes(holder):
            key = str(known.value) if isinstance(known.value, str) else known.value
            if isinstance(known.value, int) and known.value < 0:
                key = len(made.items) + known.value
            item = made.items.get(key, made.items.get(str(key)))
            if item is not None:
                return self._new(node, (item, SAME))
        part = None
        if made.whole is not None and known.kind == "literal" and type(known.value) is int:
            at = known.value
            part = Part(made.whole[0], made.whole[1], at, at + 1 if at != -1 else None)  # type: ignore[arg-type]
        return self._new(node, (holder, SAME), (index, CONTROL), part=part)

    def _part(self, whole: tuple[str, str] | None, bounds: Sequence[int | None]) -> Part | None:
        """Return the part of an input that a slice with constant bounds takes."""
        if whole is None:
            return None
        start, stop, step = (
            (self.graph.nodes[one].value if self.graph.nodes[one].kind == "literal" else "?")
            if one is not None
            else None
            for one in bounds
        )
        if any(bound == "?" or isinstance(bound, float | str) for bound in (start, stop)):
            return None
        if start in (None, 0) and stop is None and step in (None, 1, -1):
            return None
        return Part(whole[0], whole[1], start, stop, stops_early=step not in (None, 1, -1))  # type: ignore[arg-type]

    def _cut(self, node: ast.Subscript, made: Node, bounds: Sequence[int | None]) -> str:
        """Return the code of a slice that takes some items of a computed value; "" for any other.

        In a loop or a function a slice is taken of each item (`line[:10]`), and leaves none of them out.
        """
        if made.whole is not None or made.kind == "literal" or self.loops or self._in_function():
            return ""
        known = [None if bound is None else self.graph.nodes[bound] for bound in bounds[:2]]
        values = [literal.value if literal is not None and literal.kind == "literal" else None for literal in known]
        start, stop = (value if type(value) is int else None for value in values)
        if stop is None and (start is None or start >= 0):
            return ""
        name = node.value.id if isinstance(node.value, ast.Name) else "..."
        return f"{name}[{'' if start is None else start}:{'' if stop is None else stop}]"

    def _of_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> int:
        self.scopes.append(Scope("comprehension"))
        outer, edges, depth = self.control, [], len(self.loops)
        try:
            for generator in node.generators:
                items = self._value(generator.iter)
                edges.append((items, CONTROL))
                with self._under(node, items):
                    self._bind(generator.target, self._element(items, generator.iter), node)
                control = self.graph.add("value", (items, DATA), place=self._place(node), control=self.control)
                if self.control is not None and control:
                    self.graph.connect(control, self.control, CONTROL)
                self.control = control
                self.loops.append(control)
                for test in generator.ifs:
                    self.graph.connect(control, self._value(test), DATA)
            if isinstance(node, ast.DictComp):
                parts = [self._value(node.key), self._value(node.value)]
            else:
                parts = [self._value(node.elt)]
            steps = [(self._step(node, part), SAME) for part in parts]
            made_here = self._new(node, *steps, accumulates="yes", loop=self.loops[0])
        finally:
            del self.loops[depth:]
            self.control = outer
            self.scopes.pop()
        for edge in edges:
            self.graph.connect(made_here, *edge)
        return made_here

    _of_SetComp = _of_GeneratorExp = _of_DictComp = _of_ListComp

    def _of_Lambda(self, node: ast.Lambda) -> int:
        def run() -> None:
            value = self._value(node.body)
            self.graph.connect(self.scopes[-1].returns or 0, value, SAME)

        return self._function(node, node.args, run)

    def _of_Await(self, node: ast.Await) -> int:
        return self._new(node, (self._value(node.value), SAME))

    def _of_Yield(self, node: ast.Yield) -> int:
        value = self._value(node.value) if node.value is not None else self._literal(node, None)
        returns = next((scope.returns for scope in reversed(self.scopes) if scope.returns is not None), None)
        if returns is not None:
            self.graph.connect(returns, self._new(node, (value, SAME)), SAME)
        return self._new(node)

    _of_YieldFrom = _of_Yield

    def _bind(self, target: ast.expr, value: int, syntax: Any) -> None:
        if isinstance(target, ast.Name):
            self._define(target.id, value, syntax)
        elif isinstance(target, ast.Tuple | ast.List):
            items = self.graph.nodes[value].items or {}
            starred = any(isinstance(element, ast.Starred) for element in target.elts)
            for index, part in enumerate(target.elts):
                if isinstance(part, ast.Starred):
                    part = part.value
                item = items.get(index) if not starred and not self.graph.changes(value) else None
                self._bind(part, item if item is not None else self._element(value, target), syntax)
        elif isinstance(target, ast.Subscript | ast.Attribute):
            if isinstance(target, ast.Attribute):
                self._check_attribute(target)
                if isinstance(target.value, ast.Name) and self._is_unbound(target.value.id):
                    self._opaque(syntax)  # `Counter.most_common = f`
            holder = self._value(target.value)
            edges = [(value, SAME)]
            if isinstance(target, ast.Subscript):
                edges.append((self._value(target.slice), CONTROL))
            self.graph.change(holder, self._new(syntax, *edges))
        elif isinstance(target, ast.Starred):
            self._bind(target.value, value, syntax)
        else:
            self._opaque(syntax)

    def _element(self, items: int, syntax: Any) -> int:
        return self._new(syntax, (items, SAME))

    def _function(self, node: Any, arguments: ast.arguments, run: Any) -> int:
        positional = [parameter.arg for parameter in (*arguments.posonlyargs, *arguments.args)]
        names = positional + [parameter.arg for parameter in arguments.kwonlyargs]
        rest = [parameter.arg for parameter in (arguments.vararg, arguments.kwarg) if parameter is not None]
        defaults = [self._value(default) for default in (*arguments.defaults, *filter(None, arguments.kw_defaults))]
        returns = self.graph.add("choice", place=self._place(node))
        parameters = {name: self.graph.add("choice", place=self._place(node)) for name in (*names, *rest)}
        for parameter in parameters.values():
            for default in defaults:
                self.graph.connect(parameter, default, SAME)
        scope = Scope("function", [dict(parameters)], dict(parameters), returns=returns)
        made = self._new(node, (returns, DATA))
        function = Function(parameters, positional, rest, returns)
        self.functions[made] = function
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):  # it may call itself
            self._anywhere(self.scopes[-1], node.name, made)
            known = self.scopes[-1].anywhere[node.name]
            self.functions.setdefault(known, function)
            if self.functions[known] is not function:
                del self.functions[known]
        control, self.control, loops, self.loops = self.control, None, self.loops, []
        self.scopes.append(scope)
        try:
            run()
        finally:
            self.scopes.pop()
            self.control, self.loops = control, loops
        return made
