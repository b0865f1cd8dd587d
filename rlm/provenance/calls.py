"""Nodes for calls: of functions in the code, of the host, of Python, and of modules that are known."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from .expressions import Expressions
from .graph import CONTROL, DATA, SAME, Part
from .known_names import (
    EMPTY,
    HOST_CALLS,
    ITEM_FUNCTIONS,
    MODEL_CALLS,
    OPAQUE_NAMES,
    PARAMETER_METHODS,
    PURE_FUNCTIONS,
    PURE_METHODS,
    PURE_MODULES,
    VIEW_METHODS,
    WHOLE_FUNCTIONS,
    WHOLE_METHODS,
)
from .program import Submission
from .scopes import Function


class Calls(Expressions):
    """Evaluates calls to nodes."""

    def _of_Call(self, node: ast.Call) -> int:
        function = node.func
        if isinstance(function, ast.Name) and self._is_builtin(function.id):
            if function.id == "SUBMIT":
                return self._submit(node)
            if function.id == "getattr" and not (len(node.args) > 1 and _is_plain_name(node.args[1])):
                return self._opaque(node)
            if function.id == "type" and len(node.args) > 1:
                return self._opaque(node)
        receiver = None
        if isinstance(function, ast.Attribute):
            self._check_attribute(function)
            receiver = self._value(function.value)
            called = receiver
        elif isinstance(function, ast.Name) and self._is_builtin(function.id):
            called = None
            if function.id in OPAQUE_NAMES:
                return self._opaque(node)
        else:
            called = self._value(function)
        args = [self._value(argument) for argument in node.args]
        keywords = [(keyword.arg, self._value(keyword.value)) for keyword in node.keywords]
        if isinstance(function, ast.Attribute):
            return self._method(node, function.attr, receiver or 0, args, keywords)
        if called is None:
            assert isinstance(function, ast.Name)
            return self._known(node, function.id, args, keywords)
        own = self.functions.get(called) or self._function_of(called)
        everything = [*args, *(value for _, value in keywords)]
        if own is not None:
            self._pass(own, args, keywords, starred=any(isinstance(argument, ast.Starred) for argument in node.args))
            return self._new(node, (own.returns, SAME), (called, DATA))
        self._link_callbacks(everything)
        result = self._new(node, (called, DATA), *((value, DATA) for value in everything))
        for value in everything:  # a function that is not known may keep or change what it is given
            self.graph.change(value, result)
        self.graph.change(called, result)
        return result

    def _function_of(self, node: int) -> Function | None:
        """Return the function that a name has, where it is one."""
        for _ in range(8):
            if node in self.functions:
                return self.functions[node]
            made = self.graph.nodes[node]
            same = [target for target, mode in made.edges if mode == SAME]
            if made.kind not in ("value", "choice") or len(same) != 1:
                return None
            node = same[0]
        return None

    def _pass(
        self, own: Function, args: Sequence[int], keywords: Sequence[tuple[str | None, int]], *, starred: bool = False
    ) -> None:
        rest = [own.parameters[name] for name in own.rest]
        for index, value in enumerate(args):
            if starred or index >= len(own.positional):
                for target in rest if not starred else own.parameters.values():
                    self.graph.connect(target, value, SAME)
            else:
                self.graph.connect(own.parameters[own.positional[index]], value, SAME)
        for name, value in keywords:
            if name in own.parameters and name is not None:
                self.graph.connect(own.parameters[name], value, SAME)
            else:
                for target in own.parameters.values() if name is None else rest:
                    self.graph.connect(target, value, SAME)

    def _link_callbacks(self, values: Sequence[int]) -> None:
        """Functions that are given to another function may be called with whatever else it is given."""
        for value in values:
            own = self._function_of(value)
            if own is not None:
                for parameter in own.parameters.values():
                    for other in values:
                        if other != value:
                            self.graph.connect(parameter, other, SAME)

    def _method(
        self, node: ast.Call, name: str, receiver: int, args: list[int], keywords: list[tuple[str | None, int]]
    ) -> int:
        values = [*args, *(value for _, value in keywords)]
        made = self.graph.nodes[receiver]
        module = made.value.removeprefix("module ") if isinstance(made.value, str) and made.kind == "value" else None
        if module is not None:
            return self._of_module(node, module, name, receiver, args, values)
        self._link_callbacks([receiver, *values])
        if name in ("get", "pop", "setdefault") and args:
            default = [(self._as_default(value), SAME) for value in values[1:]]
            result = self._new(node, (receiver, SAME), (args[0], CONTROL), *default)
            if name == "setdefault" and values[1:]:
                self.graph.change(receiver, self._new(node, *((value, SAME) for value in values[1:])))
            return result
        if name in PARAMETER_METHODS:
            part = whole = None
            if made.whole is not None and made.whole[1] == "characters" and name in ("split", "splitlines"):
                newline = not args or self.graph.nodes[args[0]].value == "\n"
                whole = (made.whole[0], "lines") if name == "splitlines" or (args and newline) else None
            elif name in WHOLE_METHODS:
                whole = made.whole
            return self._new(node, (receiver, DATA), *((value, CONTROL) for value in values), part=part, whole=whole)
        whole = made.whole if name in WHOLE_METHODS | VIEW_METHODS else None
        mode = SAME if name in VIEW_METHODS or name in ("copy", "elements") else DATA
        result = self._new(node, (receiver, mode), *((value, DATA) for value in values), whole=whole)
        if name not in PURE_METHODS:
            about: dict[str, Any] = {"accumulates": "yes", "loop": self.loops[0]} if self.loops else {}
            change = self._new(node, *((value, SAME) for value in values), **about)
            for target in (receiver, *values):
                self.graph.change(target, change)
        return result

    def _of_module(
        self, node: ast.Call, module: str, name: str, receiver: int, args: list[int], values: list[int]
    ) -> int:
        self._link_callbacks(values)
        if module not in PURE_MODULES:
            result = self._new(node, (receiver, DATA), *((value, DATA) for value in values))
            for value in values:
                self.graph.change(value, result)
            return result
        if module == "re" and name in PARAMETER_METHODS and args:
            pattern, rest = args[0], [value for value in values if value != args[0]]
            return self._new(node, (receiver, DATA), (pattern, CONTROL), *((value, DATA) for value in rest))
        if module == "itertools" and name == "islice" and args:
            part = self._part(self.graph.nodes[args[0]].whole, [None, *args[1:2], None][:3])
            return self._new(node, (args[0], SAME), *((value, CONTROL) for value in args[1:]), part=part)
        whole = self.graph.nodes[args[0]].whole if module == "io" and args else None
        return self._new(node, (receiver, DATA), *((value, DATA) for value in values), whole=whole)

    def _known(self, node: ast.Call, name: str, args: list[int], keywords: list[tuple[str | None, int]]) -> int:
        values = [*args, *(value for _, value in keywords)]
        if name in MODEL_CALLS:
            return self._new(node, *((value, CONTROL) for value in values), kind="model", value=name)
        if name in self.tools:
            return self._new(node, *((value, DATA) for value in values), kind="tool", value=name)
        if name in HOST_CALLS:
            return self._new(node, *((value, CONTROL) for value in values))
        self._link_callbacks(values)
        if name == "print":
            self.program.printed += [(self.iteration, value) for value in values]
        if name == "dict" and not args and keywords and all(key is not None for key, _ in keywords):
            return self._display(node, [(value, SAME) for value in values], dict(keywords), {})
        if not values and name in EMPTY:
            return self._display(node, [], None, EMPTY[name])
        if name == "peek" and args:
            return self._peek(node, args, values)
        if name == "next" and len(args) == 2:
            return self._new(node, (args[0], SAME), (self._as_default(args[1]), SAME))
        if name in ITEM_FUNCTIONS:
            given = [(value, SAME) for value in args]
            for key, value in keywords:
                given.append((self._as_default(value), SAME) if key == "default" else (value, CONTROL))
            whole = self.graph.nodes[args[0]].whole if args and name in WHOLE_FUNCTIONS else None
            return self._new(node, *given, whole=whole)
        if name in ("round", "int") and len(args) > 1:
            return self._new(node, (args[0], DATA), (args[1], CONTROL))
        if name == "range":
            return self._new(node, *((value, DATA) for value in values))
        result = self._new(
            node,
            *((value, DATA) for value in values),
            whole=self.graph.nodes[args[0]].whole if args and name in WHOLE_FUNCTIONS else None,
        )
        if name not in PURE_FUNCTIONS:
            for value in values:
                self.graph.change(value, result)
        return result

    def _peek(self, node: ast.Call, args: list[int], values: list[int]) -> int:
        whole = self.graph.nodes[args[0]].whole
        given = [self.graph.nodes[value].value for value in values[1:]] + [0, 1000][len(values) - 1 :]
        part = None
        if whole is not None and all(type(value) is int for value in given[:2]):
            start, length = given[:2]
            part = Part(whole[0], "characters", start, start + length if start >= 0 else None)
        return self._new(node, (args[0], SAME), *((value, CONTROL) for value in values[1:]), part=part)

    def _submit(self, node: ast.Call) -> int:
        outputs = {keyword.arg: self._value(keyword.value) for keyword in node.keywords if keyword.arg is not None}
        wholes = [
            self._value(argument.value if isinstance(argument, ast.Starred) else argument) for argument in node.args
        ]
        wholes += [self._value(keyword.value) for keyword in node.keywords if keyword.arg is None]
        whole = wholes[0] if len(wholes) == 1 else 0 if wholes else None
        self.program.submissions.append(
            Submission(self.iteration, self._place(node), outputs, whole, self.control, self._in_function())
        )
        return self.graph.add("nothing")


def _is_plain_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.startswith("_")
