"""A GGUF file on llama.cpp through xllamacpp, which holds llama.cpp's server in this process.

The server takes requests and gives text; its logits are out of reach. It keeps the keys and values of prompts and
answers several requests in one batch. Constrained answers are written in segments (`llama_segments.py`), or by the
llguidance that is inside the server where that finds no way on.
"""

from __future__ import annotations

import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal

from ..chat_template import begun, plainer
from ..constraint_check import byte_matcher
from ..constraints import Constraint
from ..errors import LocalModelError, MissingExtra
from ..grammar import lark_text
from ..hardware import default_threads
from ..limits import check_context, room_for
from ..outlines_api import NamedModel
from ..types import Generated, Say, Settings, Timings, Turns
from ..worker import Worker
from .llama_segments import NoCandidate, Segments

Hear = Callable[[dict[str, Any]], bool]


class LlamaServerModel:
    """The weights in a GGUF file. Answers `parallel` requests at a time, each with a context of its own."""

    backend = "llamacpp"
    penalises = True

    def __init__(self, file: Path, name: str, context: int, parallel: int = 1, threads: int | None = None) -> None:
        self.name = name
        self.context = context
        self.outlines = NamedModel(self)
        self._worker = Worker(name, parallel)
        # The server also listens on a port of the loopback interface. Nobody is told this key, so nobody else uses it.
        self._key = secrets.token_hex(32)
        threads = threads or default_threads()
        self._server = self._worker.run(lambda: _serve(file, context, parallel, threads, self._key))

    def submit(
        self, turns: Turns | str, settings: Settings, constraint: Constraint | None = None, say: Say | None = None
    ) -> Future[Generated]:
        """One answer, in a thread that waits for the server."""
        return self._worker.submit(lambda queued: self._generate(queued, turns, settings, constraint, say))

    def close(self) -> None:
        """Let go of the weights."""
        self._worker.close()
        self._server = None

    def tokens(self, text: str, *, whole: bool = False) -> list[int]:
        """The tokens of a text. A whole prompt gets the token that begins a text, where the model has one."""
        asked = {"content": text, "add_special": whole, "parse_special": True}
        return list(self._post("/tokenize", asked)["tokens"])

    def _generate(
        self, queued: float, turns: Turns | str, settings: Settings, constraint: Constraint | None, say: Say | None
    ) -> Generated:
        began = time.perf_counter()
        matcher = byte_matcher(constraint).deep_copy() if constraint else None
        prompt = self.tokens(turns, whole=True) if isinstance(turns, str) else self.tokens(self._rendered(turns))
        check_context(len(prompt), self.context, self.name)
        options = _options(settings)
        compiled = time.perf_counter() - began
        most = room_for(settings.max_tokens, len(prompt), self.context)

        def complete(so_far: str, size: int, more: dict[str, Any], hear: Hear | None) -> dict[str, Any]:
            start: list[int | str] = [*prompt, so_far] if so_far else [*prompt]
            return self._complete({**options, **more, "prompt": start, "max_tokens": size}, hear)

        if matcher is None:
            stop = {"stop": list(settings.stop)} if settings.stop else {}
            heard = Heard(say)
            heard.rest(complete("", most, stop, None if say is None else heard))
            return heard.generated(len(prompt), Timings(queued, compiled))
        answer = Segments(complete, lambda text: len(self.tokens(text)), matcher, _bounded(settings, most), say)
        try:
            done = answer.run()
        except NoCandidate:
            heard = Heard(None)
            heard.rest(complete("", most, {"grammar": _grammar(constraint)}, None))
            generated = heard.generated(len(prompt), Timings(queued, compiled))
            if say is not None and generated.text.startswith(answer.text):
                say(generated.text[len(answer.text) :])  # what was said before is its beginning
            return generated
        size = len(self.tokens(answer.text))
        finish: Literal["stop", "length"] = "stop" if done else "length"
        return Generated(
            text=answer.text,
            finish="cancelled" if answer.cancelled else finish,
            prompt_tokens=len(prompt),
            output_tokens=size,
            cached_tokens=answer.cached or 0,
            forced_tokens=answer.forced,
            masked_tokens=answer.refused,
            timings=_timings(answer.timings, Timings(queued, compiled)),
        )

    def _complete(self, body: dict[str, Any], hear: Hear | None) -> dict[str, Any]:
        """One request. Heard in pieces, what comes last is returned; a stopped answer has no last piece."""
        if hear is None:
            answer: dict[str, Any] = self._server.handle_completions(body)
        else:
            answer = {}

            def listen(chunk: dict[str, Any]) -> bool:
                answer.update({key: chunk[key] for key in ("usage", "timings", "error") if chunk.get(key)})
                return hear(chunk)

            self._server.handle_completions(
                {**body, "stream": True, "timings_per_token": True, "stream_options": {"include_usage": True}}, listen
            )
        if "error" in answer:
            message = answer["error"].get("message", answer["error"])
            raise LocalModelError(f"llama.cpp refused the request: {message}", model=self.name)
        return answer

    def _rendered(self, turns: Turns) -> str:
        for form in (turns, plainer(turns)):
            asked, beginning = begun(form)
            messages = [{"role": role, "content": text} for role, text in asked]
            try:
                return str(self._post("/apply-template", {"messages": messages})["prompt"]) + beginning
            except urllib.error.HTTPError as error:  # the template's own: a system message, or two of one role in a row
                refusal = error
        raise LocalModelError(f"the chat template of {self.name} refuses this conversation: {refusal}") from refusal

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        request = urllib.request.Request(self._server.listening_address + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as reply:
            content: dict[str, Any] = json.loads(reply.read())
        return content


class Heard:
    """What the server has said so far without a grammar, in one piece or in many."""

    def __init__(self, say: Say | None) -> None:
        self._say = say
        self._texts: list[str] = []
        self._finish: str | None = None
        self._stopped = False
        self._rest: dict[str, Any] = {}

    def __call__(self, chunk: dict[str, Any]) -> bool:
        """Take in one piece. True ends the answer."""
        for choice in chunk.get("choices", []):
            self._finish = choice.get("finish_reason") or self._finish
            if text := choice.get("text"):
                self._texts.append(text)
                self._stopped = self._stopped or (self._say is not None and not self._say(text))
        return self._stopped

    def rest(self, answer: dict[str, Any]) -> None:
        """Take in what came last: the counts, and the text if it was not heard in pieces."""
        self(answer)
        self._rest = answer

    def generated(self, prompt_tokens: int, began: Timings) -> Generated:
        """All of it."""
        timings = self._rest.get("timings", {})
        done: Literal["stop", "length"] = "stop" if self._finish == "stop" else "length"
        return Generated(
            text="".join(self._texts),
            finish="cancelled" if self._stopped else done,
            prompt_tokens=prompt_tokens,
            output_tokens=timings.get("predicted_n", len(self._texts)),
            cached_tokens=timings.get("cache_n", 0),
            timings=_timings(timings, began),
        )


def _serve(file: Path, context: int, parallel: int, threads: int, key: str) -> Any:
    try:
        import xllamacpp
    except ImportError as error:
        raise MissingExtra("llamacpp", "a GGUF file needs xllamacpp, which is not installed") from error
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.n_ctx = context * parallel
    params.n_parallel = parallel
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.verbosity = -1
    params.api_keys = [key]
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise LocalModelError(f"{file} is not a model that llama.cpp can load: {error}") from error


def _options(settings: Settings) -> dict[str, Any]:
    greedy = settings.temperature == 0
    options: dict[str, Any] = {
        "temperature": settings.temperature,
        "samplers": ["top_k"] if greedy else ["top_k", "top_p", "temperature"],
        "top_k": 1 if greedy else settings.top_k,
        "top_p": settings.top_p,
        "cache_prompt": True,
    }
    if settings.frequency_penalty or settings.presence_penalty:
        options["samplers"] = ["penalties", *options["samplers"]]
        options |= {"frequency_penalty": settings.frequency_penalty, "presence_penalty": settings.presence_penalty}
    return options if settings.seed is None else {**options, "seed": settings.seed}


def _grammar(constraint: Constraint | None) -> str:
    # Where the server cannot read a grammar it says nothing and goes on without. This one has been compiled before.
    return "" if constraint is None else f"%llguidance {{}}\n{lark_text(constraint)}"


def _bounded(settings: Settings, most: int) -> Settings:
    from dataclasses import replace

    return replace(settings, max_tokens=most)


def _timings(milliseconds: dict[str, float], began: Timings) -> Timings:
    prefill, decode = milliseconds.get("prompt_ms", 0.0) / 1000, milliseconds.get("predicted_ms", 0.0) / 1000
    return Timings(began.queued, began.compile, prefill, decode)
