"""A model whose answers are a function of the whole prompt, the system prompt included: its skill can be measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dspy
from dspy.lm15 import Message, Response, Usage

from rlm.models.profile import ModelProfile
from rlm.models.scripted import AsyncScriptedEngine, ScriptedEngine


class SkilledEngine(ScriptedEngine):
    """Answers with what a function makes of the prompt."""

    def __init__(self, skill: Callable[[str], str]) -> None:
        super().__init__([])
        self.skill = skill
        self.prompts: list[str] = []

    def complete(self, request: Any) -> Any:
        """Return one answer."""
        prompt = "\n".join([str(request.system or ""), *(message.text or "" for message in request.messages)])
        self.prompts.append(prompt)
        text = self.skill(prompt)
        return Response(None, request.model, Message.assistant(text), "stop", Usage(input_tokens=1, output_tokens=1))


def skilled_lm(skill: Callable[[str], str], name: str = "scripted/skilled") -> Any:
    """Return a `dspy.LM` with this skill."""
    engine = SkilledEngine(skill)
    own = AsyncScriptedEngine(engine)
    lm = dspy.LM(name, engine=engine, async_engine=own, cache=False, num_retries=0)
    lm.profile = ModelProfile(engine=own)
    return lm
