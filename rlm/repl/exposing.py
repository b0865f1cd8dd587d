"""Host functions as a model reads them: by name, signature and docstring."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def plain(method: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """A function of the method's own name and signature, on which marks can be set."""
    if inspect.iscoroutinefunction(method):

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await method(*args, **kwargs)

    else:

        def call(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
            return method(*args, **kwargs)

    call.__name__ = name or method.__name__
    call.__doc__ = inspect.getdoc(method)
    call.__signature__ = _signature(method)  # type: ignore[attr-defined]
    return call


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """As a model should read it: annotations as types, not as quoted text, where they can be looked up."""
    if inspect.ismethod(function):
        whole = _method_signature(function.__func__)
        return whole.replace(parameters=list(whole.parameters.values())[1:])
    try:
        return inspect.signature(function, eval_str=True)
    except (NameError, TypeError, SyntaxError):
        return inspect.signature(function)


@functools.cache
def _method_signature(function: Callable[..., Any]) -> inspect.Signature:
    return _signature(function)
