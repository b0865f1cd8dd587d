"""The state of one model's rate limits, which all callers of the model share, and the operations on it.

Requests and tokens each have a time at which the next one is due. A caller reserves the next slot and sleeps until it
is due. There is no polling; slots are first come, first served. A caller that dies leaves its slot unused, and nothing
else.

A server that answers "too many requests" moves everything behind the time that it names and halves the rate, which then
doubles every few seconds. A change of `epoch` invalidates all reserved slots: their callers reserve again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

BURST_SHARE = 50
"""A burst is at most this fraction (1/50) of a minute's requests or tokens."""
LEAST_SHARE = 1 / 512
DOUBLING_S = 15.0
"""The time in which the rate doubles again after a refusal."""
MEASURED_RATE_ENDS = 4.0
"""A measured rate is dropped as a limit when this many times as much has succeeded."""
LONGEST_PAUSE_S = 600.0
_LONGEST_BACKOFF_S = 32.0
"""The longest pause where the server names none."""
_SERIES_ENDS_S = 5.0
"""A refusal this long after the last pause starts a new series."""
_WINDOW_S = 1.0
_LOWEST_RATE = 2.0
_DEFAULT_TOKENS_OUT = 256.0


@dataclass(frozen=True, slots=True)
class Limit:
    """Requests and tokens per minute that a model's server allows. None: no limit is known."""

    requests: float | None = None
    tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Bucket:
    """The state of one model. All times are in seconds, by the clock of the store."""

    next_request_at: float = 0.0
    next_token_at: float = 0.0
    returned: float = 0.0
    """Seconds by which callers that wait for tokens are due earlier, because others used fewer than reserved."""

    paused_until: float = 0.0
    share: float = 1.0
    """The fraction of the full rate at `slowed_at`."""

    slowed_at: float = 0.0
    refusals: int = 0
    """Refusals in a row."""

    measured_rate: float = 0.0
    """Requests per second when a server without a known limit first refused one; 0: it never did."""

    epoch: int = 0
    recent_requests: float = 0.0
    updated_at: float = 0.0
    tokens_out: float = _DEFAULT_TOKENS_OUT
    """The average length of answers."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A reservation: when it is due, and what was reserved."""

    due_in: float
    epoch: int
    requests_due_in: float = 0.0
    """Seconds until the request limit allows it; tokens may be due earlier than estimated."""

    returned: float = 0.0
    tokens: float = 0.0
    reserved_at: float = 0.0
    delays: tuple[float, float] = (0.0, 0.0)
    """Seconds by which this slot delays the next request, and the next token."""

    requests_ahead: int = 0
    """About how many requests are due before this one."""


def reserve(
    bucket: Bucket, now: float, limit: Limit, tokens_in: float, max_tokens_out: float | None
) -> tuple[Bucket, Slot]:
    """Reserve the next slot for a request of about `tokens_in` tokens and an answer of at most `max_tokens_out`."""
    if share_at(bucket, now) >= MEASURED_RATE_ENDS:
        bucket = replace(bucket, measured_rate=0.0, share=1.0, slowed_at=0.0, refusals=0)
    start = requests = max(now, bucket.paused_until)
    changes: dict[str, Any] = {}
    delays = [0.0, 0.0]
    # At the rate of that time: otherwise a long queue would run at the lowest rate to its end.
    at = max(bucket.next_request_at, start)
    rate = _requests_per_second(bucket, limit, at)
    if rate is not None:
        requests = max(requests, bucket.next_request_at - _burst(limit.requests) / rate)
        delays[0] = _duration(bucket, at, 1 / rate, MEASURED_RATE_ENDS if limit.requests is None else 1.0)
        changes["next_request_at"] = at + delays[0]
    tokens = tokens_in + min(bucket.tokens_out, max_tokens_out or math.inf)
    due = requests
    if limit.tokens is not None:
        burst, at = _burst(limit.tokens), max(bucket.next_token_at, start)
        per_second = _tokens_per_second(bucket, limit.tokens, at)
        # A request that is larger than a burst needs an empty queue, and no more.
        due = max(due, bucket.next_token_at + (tokens - max(tokens, burst)) / per_second)
        delays[1] = _duration(bucket, at, tokens / per_second, 1.0)
        changes["next_token_at"] = at + delays[1]
    faded = bucket.recent_requests * math.exp(-max(0.0, now - bucket.updated_at) / _WINDOW_S)
    bucket = replace(bucket, **changes, recent_requests=faded + 1, updated_at=now)
    ahead = math.ceil((requests - now) * rate) if rate is not None else 0
    waits = (due - now, bucket.epoch, requests - now, bucket.returned)
    return bucket, Slot(*waits, tokens, now, (delays[0], delays[1]), ahead)


def remaining(bucket: Bucket, now: float, slot: Slot) -> tuple[Bucket, float | None]:
    """Return in how many seconds a slot is due; None if it is invalid, and another one has to be reserved."""
    if slot.epoch != bucket.epoch:
        return bucket, None
    passed = now - slot.reserved_at
    return bucket, max(slot.requests_due_in, slot.due_in - (bucket.returned - slot.returned)) - passed


def cancel(bucket: Bucket, now: float, slot: Slot) -> tuple[Bucket, None]:
    """Give back a slot that was not used to the next caller."""
    if slot.epoch == bucket.epoch:
        requests, tokens = slot.delays
        bucket = replace(
            bucket, next_request_at=bucket.next_request_at - requests, next_token_at=bucket.next_token_at - tokens
        )
    return bucket, None


def settle(
    bucket: Bucket, now: float, limit: Limit, slot: Slot, tokens_in: int, tokens_out: int
) -> tuple[Bucket, None]:
    """Replace the estimated tokens of a request by those that it used."""
    bucket = replace(bucket, tokens_out=0.9 * bucket.tokens_out + 0.1 * tokens_out)
    if slot.epoch != bucket.epoch or limit.tokens is None:
        return bucket, None
    per_second = _tokens_per_second(bucket, limit.tokens, max(bucket.next_token_at, now))
    seconds = (tokens_in + tokens_out - slot.tokens) / per_second
    return replace(bucket, next_token_at=bucket.next_token_at + seconds, returned=bucket.returned - seconds), None


def slow_down(bucket: Bucket, now: float, limit: Limit, slot: Slot, retry_after: float | None) -> tuple[Bucket, float]:
    """Pause all callers and halve the rate after a refusal. Return in how many seconds to try again."""
    if slot.epoch != bucket.epoch:
        # Sent before the rate was halved: concurrent refusals count once.
        until = bucket.paused_until if retry_after is None else max(bucket.paused_until, now + _bounded(retry_after))
        later = until > bucket.paused_until + 0.25
        bucket = replace(bucket, paused_until=until, epoch=bucket.epoch + later)
        return _restart(bucket) if later else bucket, max(0.0, until - now)
    measured_rate = bucket.measured_rate or max(bucket.recent_requests / _WINDOW_S, _LOWEST_RATE)
    most = MEASURED_RATE_ENDS if limit.requests is None and limit.tokens is None else 1.0
    share = max(LEAST_SHARE, min(share_at(bucket, now), most) / 2)
    refusals = bucket.refusals + 1 if now < bucket.slowed_at + _SERIES_ENDS_S else 1
    backoff = min(_LONGEST_BACKOFF_S, 0.25 * 2.0 ** min(refusals, 30))
    until = max(bucket.paused_until, now + (backoff if retry_after is None else _bounded(retry_after)))
    bucket = replace(
        bucket, share=share, slowed_at=until, refusals=refusals, measured_rate=measured_rate, paused_until=until
    )
    return _restart(replace(bucket, epoch=bucket.epoch + 1)), until - now


OPERATIONS: Mapping[str, Callable[..., tuple[Bucket, Any]]] = {
    operation.__name__: operation for operation in (reserve, remaining, cancel, settle, slow_down)
}
"""The operations on a bucket, by name."""


def share_at(bucket: Bucket, now: float) -> float:
    """Return the fraction of the full rate at a time. Only a measured rate grows above 1."""
    doublings = max(0.0, now - bucket.slowed_at) / DOUBLING_S
    return min(MEASURED_RATE_ENDS, bucket.share * 2.0 ** min(doublings, 30.0)) if bucket.slowed_at else 1.0


def _duration(bucket: Bucket, when: float, seconds: float, most: float) -> float:
    """Return how long something takes that needs `seconds` at the rate of `when`, while the share grows to `most`."""
    growth = most / share_at(bucket, when) if bucket.slowed_at else 1.0
    if growth <= 1:
        return seconds
    growing = DOUBLING_S / math.log(2)
    done = growing * (growth - 1)
    if seconds <= done:
        return growing * math.log1p(seconds / growing)
    return growing * math.log(growth) + (seconds - done) / growth


def _requests_per_second(bucket: Bucket, limit: Limit, when: float) -> float | None:
    share = share_at(bucket, when)
    if limit.requests is not None:
        return (limit.requests - _burst(limit.requests)) / 60 * min(1.0, share)
    return bucket.measured_rate * share if bucket.measured_rate and limit.tokens is None else None


def _burst(per_minute: float | None) -> float:
    """Return the size of a burst beyond one request. As much less comes later: no minute has more than its limit."""
    return float(int((per_minute or 0.0) / BURST_SHARE))


def _tokens_per_second(bucket: Bucket, per_minute: float, when: float) -> float:
    return (per_minute - _burst(per_minute)) / 60 * min(1.0, share_at(bucket, when))


def _restart(bucket: Bucket) -> Bucket:
    return replace(bucket, next_request_at=bucket.paused_until, next_token_at=bucket.paused_until)


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), LONGEST_PAUSE_S)
