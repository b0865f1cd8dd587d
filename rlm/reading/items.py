"""One typed question about each of many items: packed, in parallel, each answer reported once, failures as values."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from ..budgets import Remaining
from ..budgets.ledger import BudgetExceeded
from ..errors import RlmError
from ..text import count, dollars

MAX_PACKED = 20
"""Items in one question, at most."""

PACK_CHARS = 4_000
_LONG_ITEM = 1_500
"""A longer item has a question of its own."""

_CHARS_PER_TOKEN, _PROMPT_TOKENS, _ANSWER_TOKENS = 3.5, 40, 8
_ASKED = re.compile(
    r"\b(?:what(?:'s| is| are)?|which|extract|give|find|name|classify|choose|say)\s+(?:(?:the|its)\s+)?([a-z]{3,20})\b",
    re.IGNORECASE,
)
_NO_NAMES = "this that these those does did has have was were whether about for from most best"
_HOPELESS = ("key", "billing", "model")

Ask = Callable[[str, Any], Awaitable[Any]]
"""Asks one question for a value of a type. The call is counted and checked against the budget there."""

Report = Callable[[Mapping[int, Any], Mapping[int, str]], None]
"""Is called with answers, and with failures, by index: each index once."""


class MapTooLarge(RlmError):
    """A map over items would need more than is left of the budget; nothing was asked."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a map will use, about. `cost_usd` is None where no price is known."""

    items: int
    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None = None

    def __str__(self) -> str:
        cost = "" if self.cost_usd is None else f", {dollars(self.cost_usd)}"
        tokens = f"about {self.tokens_in + self.tokens_out:,} tokens"
        return f"{count(self.items, 'item')} in {count(self.calls, 'call')}, {tokens}{cost}"

    def scaled(self, factor: float) -> Estimate:
        """Return the estimate of so many times as many items."""
        items, calls = math.ceil(self.items * factor), math.ceil(self.calls * factor)
        tokens = int(self.tokens_in * factor), int(self.tokens_out * factor)
        return Estimate(items, calls, *tokens, None if self.cost_usd is None else self.cost_usd * factor)

    def check(self, left: Remaining) -> None:
        """Raise `MapTooLarge` if that is more than is left."""
        problems = []
        if self.calls > left.llm_calls:
            problems.append(f"{self.calls:,} LLM calls are needed, {left.llm_calls:,} are left")
        if left.tokens is not None and self.tokens_in + self.tokens_out > left.tokens:
            problems.append(f"about {self.tokens_in + self.tokens_out:,} tokens are needed, {left.tokens:,} are left")
        if left.cost_usd is not None and self.cost_usd is not None and self.cost_usd > left.cost_usd:
            problems.append(f"about {dollars(self.cost_usd)} are needed, {dollars(left.cost_usd)} are left")
        if problems:
            raise MapTooLarge(
                f"a map over {count(self.items, 'item')} was not started: {'; '.join(problems)}. Map over fewer items "
                "(filter them with code first), or raise the budget"
            )


@dataclass(frozen=True)
class Items:
    """The items of a map, their question, and how they are packed."""

    texts: Sequence[str]
    question: str
    type: Any = None
    """The type of an answer: choices (a list), a Python type, a JSON schema (a dict); None is a text."""

    most: int = MAX_PACKED
    """Items in one question, at most; 1 for models that lose count."""

    known: Mapping[int, Any] = field(default_factory=dict)
    """Answers that an earlier run has on record, by index."""

    keyed: bool = False
    """Whether a choice is asked for as a JSON object whose key is what is asked for: small models choose better so."""

    @property
    def digest(self) -> str:
        """Identify these items and their question, in this run and in one that resumes it."""
        told = json.dumps([self.question, repr(self.type), list(self.texts)], ensure_ascii=False)
        return hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()

    def packs(self) -> list[tuple[int, ...]]:
        """Return the indexes of the items in each question, in order. Items with a known answer are left out."""
        most = self.most if self._schema() is not None else 1
        packs: list[tuple[int, ...]] = []
        pack: list[int] = []
        room = PACK_CHARS
        for index, text in enumerate(self.texts):
            if index in self.known:
                continue
            alone = len(text) > _LONG_ITEM
            if pack and (alone or len(pack) >= most or len(text) > room):
                packs.append(tuple(pack))
                pack, room = [], PACK_CHARS
            pack.append(index)
            room -= len(text) + 8
            if alone:
                packs.append((index,))
                pack, room = [], PACK_CHARS
        return [*packs, tuple(pack)] if pack else packs

    def estimate(self, prices: tuple[float, float] | None = None) -> Estimate:
        """Return what asking will use, about. `prices` are those of a token that is read and of one that is written."""
        packs = self.packs()
        number = sum(map(len, packs))
        chars = sum(len(self.texts[index]) for pack in packs for index in pack) + len(packs) * len(self.question)
        tokens_in = int(chars / _CHARS_PER_TOKEN) + len(packs) * _PROMPT_TOKENS
        tokens_out = number * _ANSWER_TOKENS
        cost = None if prices is None else tokens_in * prices[0] + tokens_out * prices[1]
        return Estimate(number, len(packs), tokens_in, tokens_out, cost)

    async def ask(self, ask: Ask, report: Report, parallel: int) -> tuple[list[Any], dict[int, str]]:
        """Ask about all items. Return the answers in order, None where one failed, and why, by index.

        A pack whose answer does not fit is asked item by item. A model that cannot be asked at all, or a budget that is
        used up, ends the map: the items that are left have failed.
        """
        answers: list[Any] = [self.known.get(index) for index in range(len(self.texts))]
        errors: dict[int, str] = {}
        waiting = deque(self.packs())

        def fail(indexes: Sequence[int], message: str) -> None:
            errors.update(dict.fromkeys(indexes, message))
            report({}, dict.fromkeys(indexes, message))

        async def work() -> None:
            while waiting:
                pack = waiting.popleft()
                try:
                    values = await self._ask_pack(ask, pack)
                except Exception as error:  # whatever a model or an adapter raises: the other items are asked
                    message = str(error) or type(error).__name__
                    if isinstance(error, BudgetExceeded) or getattr(error, "kind", "") in _HOPELESS:
                        left = [index for rest in waiting for index in rest]
                        waiting.clear()
                        fail([*pack, *left], message)
                    elif len(pack) > 1:
                        waiting.extend((index,) for index in pack)
                    else:
                        fail(pack, message)
                    continue
                for index, value in values.items():
                    answers[index] = value
                report(values, {})

        await asyncio.gather(*(work() for _ in range(min(max(1, len(waiting)), max(1, parallel)))))
        return answers, errors

    async def _ask_pack(self, ask: Ask, pack: tuple[int, ...]) -> dict[int, Any]:
        if len(pack) == 1:
            key = key_of(self.question) if self.keyed and isinstance(self.type, list | tuple) else None
            kind = self.type if key is None else _object({key: self._schema()})
            value = to_jsonable_python(await ask(f"{self.question}\n\n{self.texts[pack[0]]}", kind))
            return {pack[0]: value if key is None else value[key]}
        listed = "\n".join(f"[{number}] {self.texts[index]}" for number, index in enumerate(pack, 1))
        prompt = f"{self.question}\n\nAnswer for each of these {len(pack)} items, under its number.\n\n{listed}"
        numbers = [str(number) for number in range(1, len(pack) + 1)]
        values = await ask(prompt, _object({number: self._schema() for number in numbers}))
        return {index: values[number] for number, index in zip(numbers, pack, strict=True)}

    def _schema(self) -> dict[str, Any] | None:
        """Return the JSON schema of an answer; None for one with definitions, which cannot be put into another."""
        if self.type is None or self.type is str:
            return {"type": "string"}
        if isinstance(self.type, list | tuple):
            return {"enum": list(self.type)}
        schema = self.type if isinstance(self.type, dict) else TypeAdapter(self.type).json_schema()
        return None if "$defs" in schema or "$ref" in json.dumps(schema) else schema


def key_of(question: str) -> str:
    """Return what a question asks for, in a word: `topic`, for "What is the topic of this text?"; or `answer`."""
    names = (found[1].lower() for found in _ASKED.finditer(question))
    return next((name for name in names if name not in _NO_NAMES.split()), "answer")


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
