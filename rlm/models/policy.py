"""The request policy of a process: rate limits and the response cache, which every model call goes through."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import home
from .cache import Mode, ResponseCache, forget_occurrence, next_occurrence, request_hash
from .profile import holds_key, is_remote, profile_of

if TYPE_CHECKING:
    from .rate_limit.bucket import Limit
    from .rate_limit.limiter import RateLimiter
    from .rate_limit.store import Store


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """How a process calls models: plain data, which can be passed to other processes."""

    rate_limit_folder: str | None = None
    """The folder through which processes of this machine share rate limits. None: each process has its own."""

    limits: Mapping[str, Limit | Mapping[str, float]] = field(default_factory=dict)
    """By model name; also as plain mappings. The limit in a model's profile takes precedence."""

    cache_path: str | None = None
    """The file of the response cache; None: the default one."""

    cache_mode: Mode = "off"


def rate_limit_folder() -> Path:
    """Return the folder through which all processes of this user share rate limits."""
    return home() / "pace"


def response_cache_path() -> Path:
    """Return the default file of the response cache."""
    return home() / "answers.sqlite"


@dataclass(frozen=True, slots=True)
class _Active:
    store: Store | None = None
    limits: Mapping[str, Limit] = field(default_factory=dict)
    cache: ResponseCache | None = None


_NONE = _Active()
_active = _NONE
_shared_store: Store | None = None


def use(policy: RequestPolicy | None, *, store: Store | None = None) -> None:
    """Call all models under this policy from now on; None: without one. `store` holds the rate-limit state."""
    global _active, _shared_store
    if _active.cache is not None:
        _active.cache.close()
    if policy is None:
        _active, _shared_store = _NONE, None
        return
    from .rate_limit.bucket import Limit
    from .rate_limit.store import FallbackStore, FileStore, MemoryStore

    if store is None:
        store = FileStore(Path(policy.rate_limit_folder)) if policy.rate_limit_folder else MemoryStore()
    cache = None
    if policy.cache_mode != "off":
        cache = ResponseCache(policy.cache_path or response_cache_path(), policy.cache_mode)
    limits = {name: limit if isinstance(limit, Limit) else Limit(**limit) for name, limit in policy.limits.items()}
    _active = _Active(FallbackStore(store), limits, cache)


@contextlib.contextmanager
def using(policy: RequestPolicy) -> Iterator[None]:
    """Call all models under this policy inside the block."""
    use(policy)
    try:
        yield
    finally:
        use(None)


def rate_limiter_for(lm: Any) -> RateLimiter | None:
    """Return the rate limiter of a model; None where it has none."""
    global _shared_store
    limit = profile_of(lm).rate_limit or _active.limits.get(str(lm.model))
    if limit is None and (_active.store is None or not is_remote(lm)):
        return None
    from .rate_limit.bucket import Limit
    from .rate_limit.limiter import RateLimiter, limiter_key
    from .rate_limit.store import FallbackStore, FileStore

    if _active.store is not None:
        return RateLimiter(_active.store, limiter_key(lm), limit or Limit(), str(lm.model))
    assert limit is not None
    if _shared_store is None:  # the limit of a task file applies to all processes of the user
        _shared_store = FallbackStore(FileStore(rate_limit_folder()))
    return RateLimiter(_shared_store, limiter_key(lm), limit, str(lm.model))


@dataclass(frozen=True, slots=True)
class CachedRequest:
    """A request that may have a response in the cache."""

    cache: ResponseCache
    lm: Any
    hash: bytes
    occurrence: int

    def get(self) -> dict[str, Any] | None:
        """Return the cached response, if there is one."""
        return self.cache.get(self.hash, self.occurrence)

    async def put(self, response: Mapping[str, Any]) -> None:
        """Store its response, unless that repeats the key."""
        if self.cache.mode == "read-write" and not holds_key(response["text"], self.lm):
            await asyncio.to_thread(self.cache.put, self.hash, self.occurrence, response)

    def forget(self) -> None:
        """Do not count the request: it failed."""
        forget_occurrence(self.hash)


def cached_request_for(
    lm: Any, turns: Sequence[tuple[str, str]], system: str | None, options: Mapping[str, Any]
) -> CachedRequest | None:
    """Return a request as the response cache identifies it; None where it is not cached."""
    if _active.cache is None or not is_remote(lm):
        return None
    key = request_hash(lm, turns, system, options)
    return CachedRequest(_active.cache, lm, key, next_occurrence(key))
