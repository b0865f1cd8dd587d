"""The engine of an oracle: recognizes the question in a request and answers it with the configured errors."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from ...models.cache import without_remaining_budget
from ..suites.dice import Dice
from . import reading
from .cells import LABEL, TAKE, next_cell, printed_outputs
from .settings import Oracle
from .skills import Question, find_facts, understand

_THOUGHTS = "I go on from what was printed last."
_UNABLE = "I do not understand what is asked."


class OracleEngine:
    """Answers requests from their text alone: the same request always has the same answer."""

    supports_response_schema = False
    supported_params: frozenset[str] = frozenset()

    def __init__(self, settings: Oracle) -> None:
        self.settings = settings

    def complete(self, request: Any) -> Any:
        """Return the answer. Raises the error of a server for a prompt beyond the context window."""
        from dspy.lm15 import ContextLengthError, Message, Response, Usage

        messages = [(message.role, message.text or "") for message in request.messages]
        system = request.system or ""
        tokens = (len(system) + sum(len(text) for _, text in messages)) // 4
        if tokens > self.settings.window:
            raise ContextLengthError(
                f"This model's maximum context length is {self.settings.window} tokens, "
                f"but the prompt has {tokens} tokens",
                status=400,
            )
        text = self._answer(system, messages, tokens)
        usage = Usage(input_tokens=tokens, output_tokens=max(1, len(text) // 4))
        return Response(None, request.model, Message.assistant(text), "stop", usage)

    def stream(self, request: Any) -> Iterator[Any]:
        """Return the same answer as a stream."""
        from dspy.lm15 import response_to_events

        return iter(response_to_events(self.complete(request)))

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _answer(self, system: str, messages: list[tuple[str, str]], tokens: int) -> str:
        prompt = "\n\n".join([system, *(text for role, text in messages if role == "user")])
        # The answer must not depend on the time left.
        whole = without_remaining_budget(f"{prompt}\n{messages}").encode()
        dice = Dice(self.settings.seed, hashlib.sha256(whole).hexdigest())
        rate = self.settings.misreading_rate(tokens)
        if prompt.lstrip().startswith(LABEL):
            return _label(prompt, dice, rate)
        if prompt.lstrip().startswith(TAKE):
            return reading.as_json(reading.misread_record(dice, reading.read_letter(prompt), rate))
        question = understand(prompt)
        if question is None:
            return _UNABLE
        if writes_code(system):
            return self._cell(system, messages, question, dice)
        if "## REPL History" in prompt or "[[ ## repl_history ## ]]" in prompt:
            return _format(prompt, printed_outputs(prompt[question.end :]) or {})
        return _format(prompt, self._solved(question, prompt[question.end :], dice, rate))

    def _cell(self, system: str, messages: list[tuple[str, str]], question: Question, dice: Dice) -> str:
        # Output of cells is in the turns after the first, or in the history in the prompt of dspy.RLM.
        is_ours = "You work in a Python REPL" in system
        user_texts = [text for role, text in messages if role == "user"]
        history = (
            [_summary(user_texts[0]), *user_texts[1:]]
            if is_ours
            else [user_texts[-1].partition("[[ ## repl_history ## ]]")[2]]
        )
        printed = "\n".join(history)
        task = next(line for line in f"{system}\n{user_texts[0]}".splitlines() if re.search(question.skill.asked, line))
        calls = re.findall(r"(\d+)(?: of \d+)? (?:sub-)?LLM calls", f"{system}\n{user_texts[-1]}")
        code = next_cell(self.settings, question, printed, task.strip(), int(calls[-1]) if calls else 50, dice)
        block = f"```python\n{code}\n```" if code else "I would first look at the text."
        if is_ours:
            return f"{_THOUGHTS}\n{block}"
        return _format("\n".join(user_texts), {"reasoning": _THOUGHTS, "code": block})

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
    """Return whether this is the prompt of an RLM: of this runtime, or of dspy."""
    return "You work in a Python REPL" in system or "You have access to a Python REPL environment" in system


def _summary(first_message: str) -> str:
    """Return the summary of a shortened conversation, which is in its first message."""
    return first_message.partition("[The conversation was shortened here.")[2]


def _label(prompt: str, dice: Dice, rate: float) -> str:
    lines = re.findall(r"(?m)^(\d+): (.+)$", prompt)
    return "\n".join(f"{number}: {reading.misread_topic(dice, reading.topic_of(text), rate)}" for number, text in lines)


def _format(prompt: str, outputs: dict[str, Any]) -> str:
    """Return the outputs in the requested format: marked fields, or JSON."""
    if "[[ ## completed ## ]]" in prompt and "Respond with a JSON object" not in prompt:
        fields = [f"[[ ## {name} ## ]]\n{_plain(value)}\n" for name, value in outputs.items()]
        return "\n".join([*fields, "[[ ## completed ## ]]"])
    return json.dumps(outputs, ensure_ascii=False)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class AsyncOracleEngine:
    """The engine for asynchronous calls."""

    def __init__(self, engine: OracleEngine) -> None:
        self._engine = engine

    async def complete(self, request: Any) -> Any:
        """Return the answer."""
        return self._engine.complete(request)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""
