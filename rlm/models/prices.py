"""Whether dspy's price list knows a model: looked up once for each, because the list is long."""

from __future__ import annotations

import asyncio
import threading

_priced: dict[tuple[str, ...], bool] = {}
_pricing = threading.Lock()


async def is_priced(provider: str, *names: str) -> bool:
    """Whether the list has a model of one of these names at a provider."""
    known = _priced.get((provider, *names))
    if known is None:
        # In a thread: the first look-up may fetch the list.
        known = await asyncio.to_thread(_look_up, provider, names)
    return known


def _look_up(provider: str, names: tuple[str, ...]) -> bool:
    from dspy.clients.model_metadata import model_info

    with _pricing:
        if (provider, *names) not in _priced:
            if len(_priced) > 1000:
                _priced.clear()
            _priced[(provider, *names)] = any(model_info(provider, name) for name in names)
        return _priced[(provider, *names)]
