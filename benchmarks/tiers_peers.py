"""One peer of `tiers.py`, in its own environment: questions as JSON lines on stdin, answers on stdout.

The model is behind an OpenAI-compatible endpoint (`PEER_URL`, `PEER_KEY`). Each peer asks in its documented way.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tiers_cases import KINDS

Asked = tuple[Any, int, int]
Ask = Callable[[Any, str], Asked]
"""The value, or None; tokens read and written."""


def dspy_adapter(name: str, most: int) -> Ask:
    import dspy
    from tiers import signature_of

    lm = dspy.LM(
        "openai/local", api_base=os.environ["PEER_URL"] + "/v1", api_key=os.environ["PEER_KEY"],
        temperature=0, max_tokens=most, cache=False,
    )  # fmt: skip
    adapter = {"dspy-chat": dspy.ChatAdapter, "dspy-json": dspy.JSONAdapter}[name]()
    if name == "dspy-chat":
        adapter.use_json_adapter_fallback = False

    def ask(kind: Any, text: str) -> Asked:
        before = len(lm.history)
        value = None
        try:
            with dspy.context(lm=lm, adapter=adapter):
                made = dspy.Predict(signature_of(kind))(text=text)
            value = kind(**{field: made[field] for field in kind.model_fields})
        except Exception as error:
            complain(error, "AdapterParseError", "ValidationError")
        used = [entry["usage"] for entry in lm.history[before:]]
        return value, *(sum(one.get(name, 0) for one in used) for name in ("prompt_tokens", "completion_tokens"))

    return ask


def with_instructor(name: str, most: int) -> Ask:
    import instructor
    from openai import OpenAI

    mode = instructor.Mode.JSON if name == "instructor-json" else instructor.Mode.JSON_SCHEMA
    raw = OpenAI(base_url=os.environ["PEER_URL"] + "/v1", api_key=os.environ["PEER_KEY"], max_retries=0)
    client = instructor.from_openai(raw, mode=mode)
    counted = [0, 0]

    def count(response: Any) -> None:
        counted[0] += response.usage.prompt_tokens
        counted[1] += response.usage.completion_tokens

    client.on("completion:response", count)

    def ask(kind: Any, text: str) -> Asked:
        counted[:] = 0, 0
        value = None
        try:
            value = client.chat.completions.create(
                model="local", response_model=kind, max_retries=3, temperature=0, max_tokens=most,
                messages=[{"role": "user", "content": f"Extract from the text: {kind.__doc__}\n\nText: {text}"}],
            )  # fmt: skip
        except Exception as error:
            complain(error, "InstructorRetryException", "IncompleteOutputException", "ValidationError")
        return value, *counted

    return ask


def with_outlines(name: str, most: int) -> Ask:
    import outlines
    from openai import OpenAI

    raw = OpenAI(base_url=os.environ["PEER_URL"] + "/v1", api_key=os.environ["PEER_KEY"], max_retries=0)
    model = outlines.from_openai(raw, "local")

    def ask(kind: Any, text: str) -> Asked:
        value = None
        prompt = f"Extract from the text: {kind.__doc__}\n\nText: {text}"
        said = model(prompt, kind, temperature=0, max_tokens=most)
        try:
            value = kind.model_validate_json(said)
        except ValueError as error:
            complain(error, "ValidationError")
        return value, 0, 0

    return ask


PEERS = {
    "dspy-chat": dspy_adapter,
    "dspy-json": dspy_adapter,
    "instructor-json": with_instructor,
    "instructor-schema": with_instructor,
    "outlines": with_outlines,
}


def complain(error: Exception, *expected: str) -> None:
    """An answer that cannot be read is a result; anything else is said."""
    if type(error).__name__ not in expected:
        raise error


def main() -> None:
    name, most = sys.argv[1], int(sys.argv[2])
    ask = PEERS[name](name, most)
    for line in sys.stdin:
        question = json.loads(line)
        kind, cpu = KINDS[question["kind"]], time.process_time()
        value, tokens_in, tokens_out = ask(kind, question["text"])
        answer = {"value": None if value is None else json.loads(value.model_dump_json()), "tokens_in": tokens_in}
        print(json.dumps({**answer, "tokens_out": tokens_out, "cpu": time.process_time() - cpu}), flush=True)


if __name__ == "__main__":
    main()
