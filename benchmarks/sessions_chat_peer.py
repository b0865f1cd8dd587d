"""The peer of `sessions_chat.py`: rlms with `persistent=True`, and a second question over the same variables.

Runs in `.venv-bench`, whose package `rlm` is that of rlms: `python sessions_chat_peer.py SIZE ROUNDS` prints JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from importlib.metadata import version
from typing import Any
from unittest import mock

LINE = "2026-11-03 10:00:00 {kind} service-{service} request {number} took 12 ms\n"
BUILD = (
    "rows = [line.split() for line in context.splitlines()]\nprint(len(rows))",
    "from collections import Counter\nerrors = Counter(row[3] for row in rows if row[2] == 'ERROR')\n"
    "print(errors.most_common(3))",
)
FIRST = 'answer["content"] = str(sum(errors.values()))\nanswer["ready"] = True'
AGAIN = 'answer["content"] = str(errors[\'service-3\'])\nanswer["ready"] = True'


def main(size: int, rounds: int) -> None:
    from rlm.clients import BaseLM
    from rlm.core.types import ModelUsageSummary, UsageSummary

    from rlm import RLM

    class Client(BaseLM):
        """Gives these answers in order, and counts what it reads."""

        def __init__(self, cells: tuple[str, ...]) -> None:
            super().__init__("scripted")
            self.texts = [f"I look.\n```repl\n{cell}\n```" for cell in cells]
            self.tokens: list[int] = []

        def completion(self, prompt: Any) -> str:
            text = self.texts[len(self.tokens)]
            self.tokens.append(sum(len(str(one["content"])) for one in prompt) // 4)
            return text

        async def acompletion(self, prompt: Any) -> str:
            return self.completion(prompt)

        def get_usage_summary(self) -> UsageSummary:
            return UsageSummary({})

        def get_last_usage(self) -> ModelUsageSummary:
            return ModelUsageSummary(1, 1, 1)

    number = size // len(LINE.format(kind="ERROR", service=1, number=100_000))
    log = "".join(
        LINE.format(kind="ERROR" if one % 9 == 0 else "INFO", service=one % 7, number=one) for one in range(number)
    )

    def ask(rlm: Any, client: Any, context: str, question: str) -> tuple[float, str]:
        began = time.monotonic()
        with mock.patch("rlm.core.rlm.get_client", return_value=client):
            answer = rlm.completion(context, root_prompt=question).response
        return time.monotonic() - began, answer

    found = []
    for _ in range(rounds):
        options: dict[str, Any] = {"backend": "openai", "backend_kwargs": {"model_name": "scripted"}}
        client, alone = Client((*BUILD, FIRST, AGAIN)), Client((*BUILD, AGAIN))
        rlm = RLM(**options, environment="local", persistent=True)
        first_s, _ = ask(rlm, client, log, "How many errors?")
        before = sum(client.tokens)
        second_s, second = ask(rlm, client, "-", "How many of service-3?")
        fresh_s, fresh = ask(RLM(**options, environment="local"), alone, log, "How many of service-3?")
        if second != fresh:
            raise SystemExit(f"the second question was answered with {second!r}, alone with {fresh!r}")
        found.append((first_s, second_s, fresh_s, sum(client.tokens) - before, sum(alone.tokens)))
    names = ("first_s", "second_s", "fresh_s", "second_tokens", "fresh_tokens")
    numbers = {name: statistics.median(values) for name, values in zip(names, zip(*found, strict=True), strict=True)}
    print(json.dumps({"version": version("rlms"), **numbers}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
