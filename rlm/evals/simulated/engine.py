"""The engine behind an oracle: reads a request, finds out what is wanted, answers as well as its settings allow."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from ...models.cache import timeless
from ..suites.dice import Dice
from . import reading
from .cells import LABEL, TAKE, next_cell, printed_outputs
from .settings import Oracle
from .skills import Question, find_facts, understand

_THOUGHTS = "I go on from what was printed last."
_UNABLE = "I do not understand what is asked."


class OracleEngine:
    """Answers from what it is sent and from nothing else: the same request always has the same answer."""

    supports_response_schema = False
    supported_params: frozenset[str] = frozenset()

    def __init__(self, settings: Oracle) -> None:
        self.settings = settings

    def complete(self, request: Any) -> Any:
        """One answer. Raises the error of a server whose model cannot read that much."""
        from dspy.lm15 import ContextLengthError, Message, Response, Usage

        said = [(message.role, message.text or "") for message in request.messages]
        system = request.system or ""
        tokens = (len(system) + sum(len(text) for _, text in said)) // 4
        if tokens > self.settings.window:
            raise ContextLengthError(
                f"This model's maximum context length is {self.settings.window} tokens, "
                f"but the prompt has {tokens} tokens",
                status=400,
            )
        text = self._answer(system, said, tokens)
        usage = Usage(input_tokens=tokens, output_tokens=max(1, len(text) // 4))
        return Response(None, request.model, Message.assistant(text), "stop", usage)

    def stream(self, request: Any) -> Iterator[Any]:
        """The same answer, as a stream."""
        from dspy.lm15 import response_to_events

        return iter(response_to_events(self.complete(request)))

    def close(self) -> None:
        """Nothing to close."""

    def _answer(self, system: str, said: list[tuple[str, str]], tokens: int) -> str:
        asked = "\n\n".join([system, *(text for role, text in said if role == "user")])
        whole = timeless(f"{asked}\n{said}").encode()  # how much time is left must not decide what it says
        dice = Dice(self.settings.seed, hashlib.sha256(whole).hexdigest())
        rate = self.settings.misreads(tokens)
        if asked.lstrip().startswith(LABEL):
            return _label(asked, dice, rate)
        if asked.lstrip().startswith(TAKE):
            return reading.as_json(reading.misread_record(dice, reading.read_letter(asked), rate))
        question = understand(asked)
        if question is None:
            return _UNABLE
        if writes_code(system):
            return self._cell(system, said, question, dice)
        if "## REPL History" in asked or "[[ ## repl_history ## ]]" in asked:
            return _in_form(asked, printed_outputs(asked[question.end :]) or {})
        return _in_form(asked, self._solved(question, asked[question.end :], dice, rate))

    def _cell(self, system: str, said: list[tuple[str, str]], question: Question, dice: Dice) -> str:
        # What was printed stands in the turns after the first, or in the history that dspy.RLM puts into its prompt.
        own = "You work in a Python REPL" in system
        told = [text for role, text in said if role == "user"]
        history = [_summary(told[0]), *told[1:]] if own else [told[-1].partition("[[ ## repl_history ## ]]")[2]]
        printed = "\n".join(history)
        task = next(line for line in f"{system}\n{told[0]}".splitlines() if re.search(question.skill.asked, line))
        calls = re.findall(r"(\d+)(?: of \d+)? (?:sub-)?LLM calls", f"{system}\n{told[-1]}")
        code = next_cell(self.settings, question, printed, task.strip(), int(calls[-1]) if calls else 50, dice)
        block = f"```python\n{code}\n```" if code else "I would first look at the text."
        if own:
            return f"{_THOUGHTS}\n{block}"
        return _in_form("\n".join(told), {"reasoning": _THOUGHTS, "code": block})

    def _solved(self, question: Question, text: str, dice: Dice, rate: float) -> dict[str, Any]:
        facts = find_facts(question, text)
        if question.skill.reads == "topics":
            read = [(reading.misread_topic(dice, reading.topic_of(b), rate), a, b) for _, a, b in facts]
        elif question.skill.reads == "letter":
            records = [reading.misread_record(dice, reading.read_letter(b), rate) for _, _, b in facts]
            read = [("letter", "", reading.as_json(record)) for record in records]
        else:
            read = reading.misread_facts(dice, facts, rate)
        return question.skill.solve(read, *question.about)


def writes_code(system: str) -> bool:
    """Whether this is the prompt of an RLM: ours, or dspy's."""
    return "You work in a Python REPL" in system or "You have access to a Python REPL environment" in system


def _summary(told: str) -> str:
    """What the first message says of the past: a conversation that was shortened has its summary there."""
    return told.partition("[The conversation was shortened here.")[2]


def _label(asked: str, dice: Dice, rate: float) -> str:
    lines = re.findall(r"(?m)^(\d+): (.+)$", asked)
    return "\n".join(f"{number}: {reading.misread_topic(dice, reading.topic_of(text), rate)}" for number, text in lines)


def _in_form(asked: str, outputs: dict[str, Any]) -> str:
    """The outputs in the form that was asked for: marked fields, or JSON."""
    if "[[ ## completed ## ]]" in asked and "Respond with a JSON object" not in asked:
        fields = [f"[[ ## {name} ## ]]\n{_plain(value)}\n" for name, value in outputs.items()]
        return "\n".join([*fields, "[[ ## completed ## ]]"])
    return json.dumps(outputs, ensure_ascii=False)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class AsyncOracleEngine:
    """The same engine for asynchronous calls."""

    def __init__(self, engine: OracleEngine) -> None:
        self._engine = engine

    async def complete(self, request: Any) -> Any:
        """One answer."""
        return self._engine.complete(request)

    async def aclose(self) -> None:
        """Nothing to close."""
