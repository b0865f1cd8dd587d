"""A snapshot after builtins and libraries were patched, in a process where no other thread can fall over them.

`python -m tests.support.patched_libraries builtins` or `libraries` prints what went wrong as a JSON list.
"""

from __future__ import annotations

import builtins
import datetime
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import pandas

from sandbox.kernel.snapshot import prime, snapshot

NAMES = ("len", "type", "repr", "isinstance", "iter", "str", "int", "list", "dict", "id", "any")


class Plain:
    """Something that is no plain data."""


@contextmanager
def patched(changes: list[tuple[Any, str, Any]]) -> Iterator[None]:
    kept = [(owner, name, vars(owner)[name]) for owner, name, _ in changes if name in vars(owner)]
    made = []
    for owner, name, value in changes:
        try:
            setattr(owner, name, value)
        except TypeError:  # a pandas whose C classes cannot be changed
            continue
        made.append((owner, name))
    try:
        yield
    finally:
        for owner, name in made:
            delattr(owner, name)
        for owner, name, value in kept:
            if (owner, name) in made:
                setattr(owner, name, value)


def wrong_after(namespace: dict[str, Any], what: str, changes: list[tuple[Any, str, Any]], ran: list[str]) -> list[str]:
    expected = snapshot(namespace, skip=frozenset())
    with patched(changes):
        result = snapshot(namespace, skip=frozenset())
        called = ran[:]
    return [f"{what}: called"] * bool(called) + [f"{what}: {result} is not {expected}"] * (result != expected)


def after_builtins() -> list[str]:
    frame = pandas.DataFrame({"a": [1]})
    namespace = {"a": [1, {"b": "c"}], "d": datetime.date(2024, 1, 2), "f": frame, "o": Plain()}
    wrong: list[str] = []
    for name in NAMES:
        ran: list[str] = []

        def evil(*_: Any, ran: list[str] = ran, name: str = name, **__: Any) -> Any:
            ran.append(name)
            raise AssertionError(name)

        wrong += wrong_after(namespace, name, [(builtins, name, evil)], ran)
    return wrong


def after_libraries() -> list[str]:
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    namespace = {"f": frame, "s": frame["b"], "i": frame.index, "n": numpy.arange(3), "text": 'quo"te', "v": {"a": 1.5}}
    ran: list[str] = []

    def evil(*_: Any, **__: Any) -> Any:
        ran.append("ran")
        raise AssertionError

    changes: list[tuple[Any, str, Any]] = [
        (json, "dumps", evil), (json.encoder, "encode_basestring", evil), (sys.modules["time"], "monotonic", evil),
    ]  # fmt: skip
    changes += [(numpy, name, evil) for name in ("arange", "asarray", "array", "ndarray", "dtype")]
    for kind in (pandas.DataFrame, pandas.Series, pandas.Index):
        for name in ("__repr__", "__len__", "__getattr__", "__getattribute__", "__iter__", "__array__"):
            changes.append((kind, name, evil))
        for name in ("shape", "dtypes", "columns", "index", "_values", "values", "dtype", "_mgr"):
            changes.append((kind, name, property(evil)))
    internals: Any = sys.modules["pandas._libs.internals"]
    changes += [(internals.BlockManager, "blocks", property(evil)), (internals.Block, "values", property(evil))]
    return wrong_after(namespace, "libraries", changes, ran)


if __name__ == "__main__":
    prime()
    found = {"builtins": after_builtins, "libraries": after_libraries}[sys.argv[1]]()
    print(json.dumps(found))
