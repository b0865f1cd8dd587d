"""Host functions as a model reads them: by name, signature and docstring."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import sandbox


def plain(method: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """A function of the method's own name and signature, on which marks can be set."""
    if inspect.iscoroutinefunction(method):

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await method(*args, **kwargs)

    else:

        def call(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
            return method(*args, **kwargs)

    doc, signature, shown = _method_told(method.__func__) if inspect.ismethod(method) else _told(method)
    call.__name__ = name or method.__name__
    call.__doc__ = doc
    call.__signature__ = signature  # type: ignore[attr-defined]
    return sandbox.describe(call, doc, shown)


def _told(function: Callable[..., Any]) -> tuple[str | None, inspect.Signature, str]:
    """Docstring and signature as a model should read it: annotations as types, where they can be looked up."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except (NameError, TypeError, SyntaxError):
        signature = inspect.signature(function)
    documented = function.func if isinstance(function, functools.partial) else function
    return inspect.getdoc(documented), signature, str(signature)


@functools.cache
def _method_told(function: Callable[..., Any]) -> tuple[str | None, inspect.Signature, str]:
    """The same of a method, which every run has anew; without `self`."""
    doc, whole, _ = _told(function)
    signature = whole.replace(parameters=list(whole.parameters.values())[1:])
    return doc, signature, str(signature)
