"""How fast one model may be asked: what everybody who asks it shares, as plain numbers, and what changes them.

Requests and tokens each have a time at which the next one is due. Who wants to ask takes the next place there and
comes when it is due: nobody looks whether it is his turn, and places are taken in the order in which they are asked
for. Who dies in between leaves a place unused, and nothing else.

A server that says "too many" moves everything behind the time it named and halves the speed, which then doubles every
few seconds. A change of `epoch` says so to those who have a place: they take another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

BURST_SHARE = 50
"""At most this part of a minute's requests or tokens comes at once."""
LEAST_SHARE = 1 / 512
DOUBLING_S = 15.0
"""How long it takes until the speed is twice as much, once a server is busy no more: it may have been guessed wrong."""
FORGET = 4.0
"""A speed that was only found out is no limit any more when this many times as much went well."""
LONGEST_PAUSE_S = 600.0
_LONGEST_GUESS_S = 32.0
"""The longest that is waited where the server does not say how long."""
_CALM_S = 5.0
"""A refusal so long after the last pause is a new one, not another in a row."""
_WINDOW_S = 1.0
_SLOWEST = 2.0
_GUESS_OUT = 256.0


@dataclass(frozen=True, slots=True)
class Limit:
    """What a model's server allows in a minute. None: no such limit is known."""

    requests: float | None = None
    tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Gauge:
    """What is known of one model. All times are seconds of the one clock that whoever keeps it has."""

    requests_at: float = 0.0
    tokens_at: float = 0.0
    saved: float = 0.0
    """By how many seconds all that wait for tokens may come earlier, because others used fewer than they had said."""

    not_before: float = 0.0
    share: float = 1.0
    """Which part of the full speed was left at `cut_at`."""

    cut_at: float = 0.0
    refusals: int = 0
    """How often in a row the server said "too many"."""

    found: float = 0.0
    """Requests a second when a server without a known limit first said "too many"; 0: it never did."""

    epoch: int = 0
    lately: float = 0.0
    seen_at: float = 0.0
    tokens_out: float = _GUESS_OUT
    """How long answers are, on average."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the line: in how many seconds it is due, and what it was taken for."""

    due_in: float
    epoch: int
    requests_in: float = 0.0
    """In how many seconds, as far as requests go; tokens may be due earlier than was thought."""

    saved: float = 0.0
    tokens: float = 0.0
    since: float = 0.0
    moved: tuple[float, float] = (0.0, 0.0)
    """By how many seconds the next request, and the next token, is due later because of it."""


def take(gauge: Gauge, now: float, limit: Limit, tokens_in: float, most_out: float | None) -> tuple[Gauge, Place]:
    """The next place for a request that sends about so many tokens, and gets `most_out` at the most."""
    if share_at(gauge, now) >= FORGET:
        gauge = replace(gauge, found=0.0, share=1.0, cut_at=0.0, refusals=0)
    start = requests = max(now, gauge.not_before)
    changes: dict[str, Any] = {}
    moved = [0.0, 0.0]
    # At the speed there will be then: a long line would otherwise stand at the lowest speed to its end.
    at = max(gauge.requests_at, start)
    rate = _requests_a_second(gauge, limit, at)
    if rate is not None:
        requests = max(requests, gauge.requests_at - _extra(limit.requests) / rate)
        moved[0] = _lasts(gauge, at, 1 / rate, FORGET if limit.requests is None else 1.0)
        changes["requests_at"] = at + moved[0]
    tokens = tokens_in + min(gauge.tokens_out, most_out or math.inf)
    due = requests
    if limit.tokens is not None:
        extra, at = _extra(limit.tokens), max(gauge.tokens_at, start)
        a_second = _tokens_a_second(gauge, limit.tokens, at)
        # A request that is larger than what may come at once needs an empty line, and no more.
        due = max(due, gauge.tokens_at + (tokens - max(tokens, extra)) / a_second)
        moved[1] = _lasts(gauge, at, tokens / a_second, 1.0)
        changes["tokens_at"] = at + moved[1]
    faded = gauge.lately * math.exp(-max(0.0, now - gauge.seen_at) / _WINDOW_S)
    gauge = replace(gauge, **changes, lately=faded + 1, seen_at=now)
    return gauge, Place(due - now, gauge.epoch, requests - now, gauge.saved, tokens, now, (moved[0], moved[1]))


def look(gauge: Gauge, now: float, place: Place) -> tuple[Gauge, float | None]:
    """In how many seconds a place is due by now; None if it counts no more."""
    if place.epoch != gauge.epoch:
        return gauge, None
    passed = now - place.since
    return gauge, max(place.requests_in, place.due_in - (gauge.saved - place.saved)) - passed


def leave(gauge: Gauge, now: float, place: Place) -> tuple[Gauge, None]:
    """A place that was not used: the next one to come has it."""
    if place.epoch == gauge.epoch:
        requests, tokens = place.moved
        gauge = replace(gauge, requests_at=gauge.requests_at - requests, tokens_at=gauge.tokens_at - tokens)
    return gauge, None


def settle(gauge: Gauge, now: float, limit: Limit, place: Place, tokens_in: int, tokens_out: int) -> tuple[Gauge, None]:
    """What a request really used, in place of what was thought."""
    gauge = replace(gauge, tokens_out=0.9 * gauge.tokens_out + 0.1 * tokens_out)
    if place.epoch != gauge.epoch or limit.tokens is None:
        return gauge, None
    a_second = _tokens_a_second(gauge, limit.tokens, max(gauge.tokens_at, now))
    seconds = (tokens_in + tokens_out - place.tokens) / a_second
    return replace(gauge, tokens_at=gauge.tokens_at + seconds, saved=gauge.saved - seconds), None


def slow(gauge: Gauge, now: float, limit: Limit, place: Place, retry_after: float | None) -> tuple[Gauge, float]:
    """The server said "too many": everybody waits, and asks half as often. In how many seconds to ask again."""
    if place.epoch != gauge.epoch:
        # Sent before everybody was slowed down: one volley is one warning.
        until = gauge.not_before if retry_after is None else max(gauge.not_before, now + _bounded(retry_after))
        later = until > gauge.not_before + 0.25
        gauge = replace(gauge, not_before=until, epoch=gauge.epoch + later)
        return _moved(gauge) if later else gauge, max(0.0, until - now)
    found = gauge.found or max(gauge.lately / _WINDOW_S, _SLOWEST)
    most = FORGET if limit.requests is None and limit.tokens is None else 1.0
    share = max(LEAST_SHARE, min(share_at(gauge, now), most) / 2)
    refusals = gauge.refusals + 1 if now < gauge.cut_at + _CALM_S else 1
    guessed = min(_LONGEST_GUESS_S, 0.25 * 2.0 ** min(refusals, 30))
    until = max(gauge.not_before, now + (guessed if retry_after is None else _bounded(retry_after)))
    gauge = replace(gauge, share=share, cut_at=until, refusals=refusals, found=found, not_before=until)
    return _moved(replace(gauge, epoch=gauge.epoch + 1)), until - now


VERBS: Mapping[str, Callable[..., tuple[Gauge, Any]]] = {
    verb.__name__: verb for verb in (take, look, leave, settle, slow)
}
"""All that can be done to a gauge, by name."""


def share_at(gauge: Gauge, now: float) -> float:
    """Which part of the full speed is used then; above 1 only a speed that was found out goes on growing."""
    doublings = max(0.0, now - gauge.cut_at) / DOUBLING_S
    return min(FORGET, gauge.share * 2.0 ** min(doublings, 30.0)) if gauge.cut_at else 1.0


def _lasts(gauge: Gauge, when: float, seconds: float, most: float) -> float:
    """How long it takes, while the share grows to `most`, what at the speed of that time would take so many seconds."""
    growth = most / share_at(gauge, when) if gauge.cut_at else 1.0
    if growth <= 1:
        return seconds
    growing = DOUBLING_S / math.log(2)
    done = growing * (growth - 1)
    if seconds <= done:
        return growing * math.log1p(seconds / growing)
    return growing * math.log(growth) + (seconds - done) / growth


def _requests_a_second(gauge: Gauge, limit: Limit, when: float) -> float | None:
    share = share_at(gauge, when)
    if limit.requests is not None:
        return (limit.requests - _extra(limit.requests)) / 60 * min(1.0, share)
    return gauge.found * share if gauge.found and limit.tokens is None else None


def _extra(a_minute: float | None) -> float:
    """What may come at once beyond one request: so much less comes later, so that no minute has more than its limit."""
    return float(int((a_minute or 0.0) / BURST_SHARE))


def _tokens_a_second(gauge: Gauge, a_minute: float, when: float) -> float:
    return (a_minute - _extra(a_minute)) / 60 * min(1.0, share_at(gauge, when))


def _moved(gauge: Gauge) -> Gauge:
    return replace(gauge, requests_at=gauge.not_before, tokens_at=gauge.not_before)


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), LONGEST_PAUSE_S)
