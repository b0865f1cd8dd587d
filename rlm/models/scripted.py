"""A `dspy.LM` that answers from a script, for tests and the first run."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import RlmError
from .profile import ModelProfile

_WORD = re.compile(r"\s*\S+\s*")

Script = Sequence[str] | Mapping[str, str]


class ScriptEnded(RlmError):
    """The script has no answer to this request."""


class ScriptedEngine:
    """Answers from a list in order, or from a mapping by a part of the prompt (`*` matches any)."""

    supports_response_schema = False
    supported_params: frozenset[str] = frozenset()

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Any] = []
        self._lock = threading.Lock()
        self._next = 0

    def complete(self, request: Any) -> Any:
        """Return one answer."""
        from dspy.lm15 import Message, Response, Usage

        asked = "\n".join(message.text or "" for message in request.messages)
        with self._lock:
            self.requests.append(request)
            text = self._answer(asked)
        usage = Usage(input_tokens=len(asked) // 4, output_tokens=len(text) // 4)
        return Response(None, request.model, Message.assistant(text or " "), "stop", usage)

    def stream(self, request: Any) -> Iterator[Any]:
        """Return one answer as a stream, a word at a time."""
        from ..dspy_bridge import StreamDeltaEvent, StreamEndEvent, StreamStartEvent, TextDelta

        response = self.complete(request)
        yield StreamStartEvent(model=response.model)
        for word in _WORD.findall(response.message.text):
            yield StreamDeltaEvent(delta=TextDelta(text=word))
        yield StreamEndEvent(finish_reason=response.finish_reason, usage=response.usage)

    def close(self) -> None:
        """Do nothing."""

    def _answer(self, asked: str) -> str:
        if isinstance(self.script, Mapping):
            for part, text in self.script.items():
                if part != "*" and part in asked:
                    return text
            if "*" in self.script:
                return self.script["*"]
            raise ScriptEnded(f"the script has no answer to {asked[-200:]!r}")
        if self._next >= len(self.script):
            raise ScriptEnded(f"the script has {len(self.script)} answers; this is request {self._next + 1}")
        self._next += 1
        return self.script[self._next - 1]


class AsyncScriptedEngine:
    """The engine of asynchronous calls."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine

    async def complete(self, request: Any) -> Any:
        """Return one answer."""
        return self._engine.complete(request)

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        """Return one answer as a stream, a word at a time."""
        for event in self._engine.stream(request):
            yield event
            await asyncio.sleep(0)  # others read what is streamed

    async def aclose(self) -> None:
        """Do nothing."""


def scripted_lm(script: Script, name: str = "scripted/main") -> Any:
    """Return a `dspy.LM` that answers from the script."""
    import dspy

    engine = ScriptedEngine(script)
    own = AsyncScriptedEngine(engine)
    lm = dspy.LM(name, engine=engine, async_engine=own, cache=False, num_retries=0)
    lm.profile = ModelProfile(engine=own)
    return lm


def load_script(path: Path) -> dict[str, Script]:
    """Return the scripts in a file, by role: main, sub, extraction. Raises `ValueError`."""
    try:
        return dict(_scripts(path.read_text(encoding="utf-8-sig")))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


@lru_cache(maxsize=8)
def _scripts(text: str) -> dict[str, Script]:
    """Parse the scripts, once for the three roles of a run."""
    from .. import yaml12

    content = yaml12.load(text)
    if not isinstance(content, dict) or not set(content) <= {"main", "sub", "extraction"}:
        raise ValueError("a script is a mapping with main, sub and extraction")
    for role, script in content.items():
        texts = script.values() if isinstance(script, dict) else script
        if not isinstance(script, list | dict) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{role} is a list of texts, or a mapping from part of a prompt to a text")
    return content
