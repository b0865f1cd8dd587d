"""GGUF files on llama.cpp through xllamacpp, which runs llama.cpp's server in this process.

The server takes requests and returns text; it exposes no logits. It keeps the key-value cache of prompts and answers
several requests in one batch. Constrained answers are generated in segments (`llama_segments.py`), or by the llguidance
inside the server where no segment can continue.
"""

from __future__ import annotations

import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ..chat_template import alternating, as_messages, split_prefill
from ..constraint_check import byte_matcher
from ..constraints import Constraint
from ..errors import LocalModelError, MissingExtra
from ..grammar import lark_text
from ..hardware import default_threads
from ..limits import check_context, room_for
from ..outlines_api import NamedModel
from ..types import Generated, OnText, Settings, Timings, Turns
from ..worker import Worker
from .llama_segments import NoCandidate, SegmentedAnswer

OnChunk = Callable[[dict[str, Any]], bool]


class LlamaServerModel:
    """The weights of a GGUF file. It answers `parallel` requests at a time, each with a context of its own."""

    backend = "llamacpp"
    has_penalties = True

    def __init__(self, file: Path, name: str, context: int, parallel: int = 1, threads: int | None = None) -> None:
        self.name = name
        self.context = context
        self.outlines = NamedModel(self)
        self._worker = Worker(name, parallel)
        # The server also listens on a port of the loopback interface; the key keeps other processes out.
        self._key = secrets.token_hex(32)
        threads = threads or default_threads()
        self._server = self._worker.run(lambda: _serve(file, context, parallel, threads, self._key))

    def submit(
        self,
        turns: Turns | str,
        settings: Settings,
        constraint: Constraint | None = None,
        on_text: OnText | None = None,
    ) -> Future[Generated]:
        """Generate one answer in a thread that waits for the server."""
        return self._worker.submit(lambda queued: self._generate(queued, turns, settings, constraint, on_text))

    def close(self) -> None:
        """Release the weights."""
        self._worker.close()
        self._server = None

    def tokens(self, text: str, *, whole: bool = False) -> list[int]:
        """Return the tokens of a text. A whole prompt gets the token that begins a text, where the model has one."""
        body = {"content": text, "add_special": whole, "parse_special": True}
        return list(self._post("/tokenize", body)["tokens"])

    def _generate(
        self,
        queued: float,
        turns: Turns | str,
        settings: Settings,
        constraint: Constraint | None,
        on_text: OnText | None,
    ) -> Generated:
        began = time.perf_counter()
        matcher = byte_matcher(constraint).deep_copy() if constraint else None
        prompt = self.tokens(turns, whole=True) if isinstance(turns, str) else self.tokens(self._render(turns))
        check_context(len(prompt), self.context, self.name)
        options = _options(settings)
        compiled = time.perf_counter() - began
        most = room_for(settings.max_tokens, len(prompt), self.context)

        def complete(so_far: str, size: int, more: dict[str, Any], on_chunk: OnChunk | None) -> dict[str, Any]:
            start: list[int | str] = [*prompt, so_far] if so_far else [*prompt]
            return self._complete({**options, **more, "prompt": start, "max_tokens": size}, on_chunk)

        if matcher is None:
            stop = {"stop": list(settings.stop)} if settings.stop else {}
            completion = Completion(on_text)
            completion.finish(complete("", most, stop, None if on_text is None else completion))
            return completion.generated(len(prompt), Timings(queued, compiled))
        settings = replace(settings, max_tokens=most)
        answer = SegmentedAnswer(complete, lambda text: len(self.tokens(text)), matcher, settings, on_text)
        try:
            done = answer.run()
        except NoCandidate:
            completion = Completion(None)
            completion.finish(complete("", most, {"grammar": _grammar(constraint)}, None))
            generated = completion.generated(len(prompt), Timings(queued, compiled))
            if on_text is not None and generated.text.startswith(answer.text):
                on_text(generated.text[len(answer.text) :])  # its beginning has been emitted
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

    def _complete(self, body: dict[str, Any], on_chunk: OnChunk | None) -> dict[str, Any]:
        """Send one request. Of a streamed answer the last chunk is returned; a stopped one has none."""
        if on_chunk is None:
            answer: dict[str, Any] = self._server.handle_completions(body)
        else:
            answer = {}

            def receive(chunk: dict[str, Any]) -> bool:
                answer.update({key: chunk[key] for key in ("usage", "timings", "error") if chunk.get(key)})
                return on_chunk(chunk)

            self._server.handle_completions(
                {**body, "stream": True, "timings_per_token": True, "stream_options": {"include_usage": True}}, receive
            )
        if "error" in answer:
            message = answer["error"].get("message", answer["error"])
            raise LocalModelError(f"llama.cpp refused the request: {message}", model=self.name)
        return answer

    def _render(self, turns: Turns) -> str:
        for form in (turns, alternating(turns)):
            messages, prefill = split_prefill(form)
            try:
                return str(self._post("/apply-template", {"messages": as_messages(messages)})["prompt"]) + prefill
            except urllib.error.HTTPError as error:  # it refuses a system message, or two of one role in a row
                refusal = error
        raise LocalModelError(f"the chat template of {self.name} refuses this conversation: {refusal}") from refusal

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        request = urllib.request.Request(self._server.listening_address + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as reply:
            content: dict[str, Any] = json.loads(reply.read())
        return content


class Completion:
    """An answer of the server without a grammar, in one chunk or in many."""

    def __init__(self, on_text: OnText | None) -> None:
        self._on_text = on_text
        self._texts: list[str] = []
        self._finish: str | None = None
        self._stopped = False
        self._last: dict[str, Any] = {}

    def __call__(self, chunk: dict[str, Any]) -> bool:
        """Add one chunk. Return whether to stop the server."""
        for choice in chunk.get("choices", []):
            self._finish = choice.get("finish_reason") or self._finish
            if text := choice.get("text"):
                self._texts.append(text)
                self._stopped = self._stopped or (self._on_text is not None and not self._on_text(text))
        return self._stopped

    def finish(self, answer: dict[str, Any]) -> None:
        """Add the last chunk: the counts, and the text if it was not streamed."""
        self(answer)
        self._last = answer

    def generated(self, prompt_tokens: int, began: Timings) -> Generated:
        """Return the whole answer."""
        timings = self._last.get("timings", {})
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
    # The server silently ignores a grammar that it cannot compile. This one has been compiled before.
    return "" if constraint is None else f"%llguidance {{}}\n{lark_text(constraint)}"


def _timings(milliseconds: dict[str, float], began: Timings) -> Timings:
    prefill, decode = milliseconds.get("prompt_ms", 0.0) / 1000, milliseconds.get("predicted_ms", 0.0) / 1000
    return Timings(began.queued, began.compile, prefill, decode)
