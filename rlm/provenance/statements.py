"""Statements: names that they bind, branches and loops."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from functools import partial

from .calls import Calls
from .graph import DATA, SAME, Part, Place
from .known_names import PURE_FUNCTIONS, PURE_MODULES
from .program import Cell
from .scopes import Scope


class Statements(Calls):
    """Evaluates cells and their statements."""

    def add_cell(self, cell: Cell) -> None:
        """Evaluate the next cell."""
        self.iteration, self.lines = cell.iteration, cell.code.split("\n")
        self.scopes, self.control, self.loops = [self.module], None, []
        self.module.layers, self.module.regions = self.module.layers[:1], []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings about the model's code are not for the user
                tree = ast.parse(cell.code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            if cell.success:
                self.give_up(Place(cell.iteration, 0, "code that cannot be parsed"))
            return
        try:
            if cell.success:
                self._statements(tree.body)
            else:
                with self._may_end_early(tree.body):
                    self._statements(tree.body)
        except (RecursionError, MemoryError):
            self.give_up(Place(cell.iteration, 0, "code that is nested too deep"))
        if self.graph.full:
            self.give_up(Place(cell.iteration, 0, "more code than is read"))

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if self.graph.full:
                return
            method = getattr(self, f"_on_{type(statement).__name__}", None)
            if method is not None:
                method(statement)
            elif not isinstance(statement, ast.Pass | ast.Break | ast.Continue):
                self._opaque(statement)

    def _on_Expr(self, node: ast.Expr) -> None:
        value = self._value(node.value)
        if self.scopes[-1] is self.module:
            self.program.printed.append((self.iteration, value))

    def _on_Assign(self, node: ast.Assign) -> None:
        value = self._value(node.value)
        for target in node.targets:
            self._bind(target, value, node)

    def _on_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._bind(node.target, self._value(node.value), node)

    def _on_AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        old = self._lookup(target.id, target) if isinstance(target, ast.Name) else self._value(target)
        value = self._computed(node, old, self._step(node.value, self._value(node.value)))
        if isinstance(target, ast.Name):
            self.graph.change(old, value)  # a list is changed in place
        self._bind(target, value, node)

    def _on_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._define(target.id, self.graph.add("nothing", value=target.id), node)
            else:
                self._value(target.value) if isinstance(target, ast.Subscript | ast.Attribute) else self._opaque(node)

    def _on_If(self, node: ast.If) -> None:
        with self._under(node, self._value(node.test)):
            self._branches([node.body, node.orelse])

    def _on_While(self, node: ast.While) -> None:
        with self._loop(node) as loop:
            self.graph.connect(loop, self._value(node.test), DATA)
            self._statements(node.body)
        self._statements(node.orelse)

    def _on_For(self, node: ast.For | ast.AsyncFor) -> None:
        items = self._value(node.iter)
        if _stops_early(node.body):
            items = self._up_to_break(items, node)
        with self._loop(node) as loop:
            self.graph.connect(loop, items, DATA)
            self._bind(node.target, self._element(items, node.iter), node)
            self._statements(node.body)
        self._statements(node.orelse)

    _on_AsyncFor = _on_For

    def _up_to_break(self, items: int, node: ast.AST) -> int:
        whole = self.graph.nodes[items].whole
        if whole is None and (self.loops or self._in_function()):
            return items
        if whole is None:
            return self._new(node, (items, SAME), cut=self._place(node).code)
        part = Part(whole[0], whole[1], stops_early=True)  # type: ignore[arg-type]
        return self._new(node, (items, SAME), part=part)

    def _on_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            value = self._value(item.context_expr)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, self._new(node, (value, SAME)), node)
        with self._may_end_early(node.body):  # its manager may suppress what is raised
            self._statements(node.body)

    _on_AsyncWith = _on_With

    def _on_Try(self, node: ast.Try) -> None:
        with self._may_end_early(node.body):
            self._statements(node.body)

        def handler(one: ast.ExceptHandler) -> None:
            if one.name:
                self._define(one.name, self.graph.add("nothing", value=one.name), one)
            self._statements(one.body)

        handlers = [partial(handler, clause) for clause in node.handlers]
        self._alternatives([*handlers, partial(self._statements, node.orelse)])
        self._statements(node.finalbody)

    _on_TryStar = _on_Try

    def _on_Match(self, node: ast.Match) -> None:
        subject = self._value(node.subject)

        def case(one: ast.match_case) -> None:
            for part in ast.walk(one.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    self._define(name, self._new(part if hasattr(part, "lineno") else node, (subject, SAME)), node)
            if one.guard is not None:
                self._value(one.guard)
            self._statements(one.body)

        with self._under(node, subject):
            self._alternatives([*(partial(case, branch) for branch in node.cases), partial(self._statements, [])])

    def _on_Return(self, node: ast.Return) -> None:
        value = self._value(node.value) if node.value is not None else self._literal(node, None)
        returns = next((scope.returns for scope in reversed(self.scopes) if scope.returns is not None), None)
        if returns is not None:
            self.graph.connect(returns, self._new(node, (value, SAME)), SAME)

    def _on_Raise(self, node: ast.Raise) -> None:
        for part in (node.exc, node.cause):
            if part is not None:
                self._value(part)

    def _on_Assert(self, node: ast.Assert) -> None:
        self._value(node.test)

    def _on_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            module = alias.name.partition(".")[0]
            self._define(alias.asname or module, self._module(module, node), node)

    def _on_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = (node.module or "").partition(".")[0]
        for alias in node.names:
            if alias.name == "*":
                self._opaque(node)
            elif (alias.asname or alias.name) == alias.name and alias.name in PURE_FUNCTIONS and module in PURE_MODULES:
                continue  # `from collections import Counter` is the Counter that is known
            else:
                self._define(alias.asname or alias.name, self._new(node, (self._module(module, node), SAME)), node)

    def _on_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        if len(self.scopes) > 1:
            self.scopes[-1].outer.update(node.names)

    _on_Nonlocal = _on_Global

    def _on_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        made = self._function(node, node.args, partial(self._statements, node.body))
        for decorator in node.decorator_list:
            made = self._new(node, (made, DATA), (self._value(decorator), DATA))
        self._define(node.name, made, node)

    _on_AsyncFunctionDef = _on_FunctionDef

    def _on_ClassDef(self, node: ast.ClassDef) -> None:
        made = self._new(node)
        for base in (*node.bases, *(keyword.value for keyword in node.keywords), *node.decorator_list):
            self.graph.connect(made, self._value(base), DATA)
        scope = Scope("class")
        self.scopes.append(scope)
        try:
            self._statements(node.body)
        finally:
            self.scopes.pop()
        for value in scope.anywhere.values():
            self.graph.connect(made, value, DATA)
            self.graph.change(made, value)
        for function in {
            id(function): function for function in (self.functions.get(value) for value in scope.layers[0].values())
        }.values():
            if function is not None:  # every instance is one node: what a method stores in `self` is in the class
                for parameter in function.parameters.values():
                    self.graph.connect(parameter, made, SAME)
                self.graph.connect(made, function.returns, DATA)
        self._define(node.name, made, node)

    def _branches(self, bodies: Sequence[Sequence[ast.stmt]]) -> None:
        self._alternatives([partial(self._statements, body) for body in bodies])


def _stops_early(body: Sequence[ast.stmt]) -> bool:
    """Return whether the body of a loop may leave it: a `break` of its own, or a `return`."""
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Break | ast.Return):
            return True
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            # A `break` in there is the inner loop's; a `return` is not.
            inner = [returned for returned in ast.walk(node) if isinstance(returned, ast.Return)]
            if inner:
                return True
            todo.extend(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            todo.extend(ast.iter_child_nodes(node))
    return False
