"""Models for the tests of adapters: they answer from a script, through dspy's own machinery."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import dspy
from dspy.lm15 import Message, Response, Usage, response_to_events

from rlm.models.profile import ModelProfile
from tests.support.chat_server import ChatServer, Play, completion


class Cut(str):
    """An answer that was cut off at the limit of its length."""


class Engine:
    """Answers in order; an exception in the script is raised. `requests` has what was asked."""

    supports_response_schema = False
    supported_params: frozenset[str] = frozenset()

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.requests: list[Any] = []
        self._lock = threading.Lock()

    def complete(self, request: Any) -> Any:
        with self._lock:
            self.requests.append(request)
            answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        finish = "length" if isinstance(answer, Cut) else "stop"
        asked = "\n".join(message.text or "" for message in request.messages)
        usage = Usage(input_tokens=len(asked) // 4, output_tokens=max(1, len(answer) // 4))
        return Response(None, request.model, Message.assistant(str(answer) or " "), finish, usage)

    pieces = 0
    """How many characters of an answer come at once when it is streamed; 0 is all of it."""

    def stream(self, request: Any) -> Iterator[Any]:
        for event in response_to_events(self.complete(request)):
            text = getattr(getattr(event, "delta", None), "text", None)
            if not self.pieces or not text:
                yield event
                continue
            for start in range(0, len(text), self.pieces):
                yield replace(event, delta=replace(event.delta, text=text[start : start + self.pieces]))

    def close(self) -> None: ...

    def prompt(self, index: int) -> str:
        """The last message of a request."""
        return str(self.requests[index].messages[-1].text)

    def system(self, index: int) -> str:
        return str(self.requests[index].system or "")


class AsyncEngine:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def complete(self, request: Any) -> Any:
        return self._engine.complete(request)

    async def stream(self, request: Any) -> Any:
        for event in self._engine.stream(request):
            yield event

    async def aclose(self) -> None: ...


def model(*script: Any, name: str = "scripted/model", **options: Any) -> Any:
    """A dspy model that answers from the script; `model.engine.requests` has what was asked."""
    engine = Engine(*script)
    return dspy.LM(name, engine=engine, async_engine=AsyncEngine(engine), cache=False, num_retries=0, **options)


class ConstrainedLM(dspy.LM):
    """A scripted model that claims to constrain its answers; `constraints` has the constraints of its calls."""

    def __init__(self, *script: Any, small: bool = False) -> None:
        engine = Engine(*script)
        options = {"engine": engine, "async_engine": AsyncEngine(engine), "cache": False, "num_retries": 0}
        super().__init__("scripted/local", **options)
        self.profile = ModelProfile(constrains=True, small=small)
        self.constraints: list[Any] = []

    def __call__(self, prompt: Any = None, *, messages: Any = None, **options: Any) -> Any:
        self.constraints.append(options.pop("_outlines_constraint", None))
        return super().__call__(prompt, messages=messages, **options)

    async def acall(self, prompt: Any = None, *, messages: Any = None, **options: Any) -> Any:
        self.constraints.append(options.pop("_outlines_constraint", None))
        return await super().acall(prompt, messages=messages, **options)


Reply = Callable[[dict[str, Any]], tuple[int, Any]]
"""From the body of a request to a status and either a text or an error's body."""


class ReplyingServer(ChatServer):
    """A chat server that answers by a function. `bodies` has what was sent to it."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.bodies: list[dict[str, Any]] = []
        self._reply = reply

    def next_play(self) -> Play:
        """What the function gives for the request that came last."""
        body = self.requests[-1].body
        self.bodies.append(body)
        status, answer = self._reply(body)
        if status != 200:
            return Play(status, json.dumps(answer).encode())
        return Play(body=completion(str(answer), finish="length" if isinstance(answer, Cut) else "stop"))

    def lm(self, name: str = "openai/some-model") -> Any:
        """A model that asks this server."""
        return dspy.LM(name, api_base=self.url, api_key="none", cache=False, num_retries=0)


def bad_request(words: str) -> tuple[int, Any]:
    return 400, {"error": {"message": words, "type": "invalid_request_error", "code": None}}
