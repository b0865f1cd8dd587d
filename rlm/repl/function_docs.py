"""Descriptions of host functions as a model reads them: name, signature, docstring."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import sandbox


def plain(method: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """Return a function with the name and signature of a method, on which attributes can be set."""
    if inspect.iscoroutinefunction(method):

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await method(*args, **kwargs)

    else:

        def call(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
            return method(*args, **kwargs)

    doc, signature, shown = _method_described(method.__func__) if inspect.ismethod(method) else _described(method)
    call.__name__ = name or method.__name__
    call.__doc__ = doc
    call.__signature__ = signature  # type: ignore[attr-defined]
    return sandbox.describe(call, doc, shown)


def _described(function: Callable[..., Any]) -> tuple[str | None, inspect.Signature, str]:
    """Return docstring and signature as a model should read them: with types in place of quoted annotations."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except (NameError, TypeError, SyntaxError):
        signature = inspect.signature(function)
    documented = function.func if isinstance(function, functools.partial) else function
    return inspect.getdoc(documented), signature, str(signature)


@functools.cache
def _method_described(function: Callable[..., Any]) -> tuple[str | None, inspect.Signature, str]:
    """As `_described`, for a method: without `self`, and cached, because every run has its own methods."""
    doc, whole, _ = _described(function)
    signature = whole.replace(parameters=list(whole.parameters.values())[1:])
    return doc, signature, str(signature)
