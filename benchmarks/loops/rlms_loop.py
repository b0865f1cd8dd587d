"""rlms: its own loop, with a client that answers at once; code in the host process, or in an ipykernel."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, ClassVar
from unittest import mock

from loops import DOC, QUESTION, THOUGHT, Defaults, Sent


class Local(Defaults):
    submit = 'answer["content"] = str(total)\nanswer["ready"] = True'
    environment: ClassVar[dict[str, Any]] = {"environment": "local"}

    @classmethod
    def setup(cls) -> str:
        import rlm  # noqa: F401

        return version("rlms")

    def __init__(self, cells: tuple[str, ...]) -> None:
        from rlm.clients import BaseLM
        from rlm.core.types import ModelUsageSummary, UsageSummary

        from rlm import RLM

        texts = [f"{THOUGHT}\n```repl\n{cell}\n```" for cell in (*cells, self.submit)]
        requests: list[Sent] = []

        class Client(BaseLM):
            """Gives these answers in order."""

            def completion(self, prompt: Any) -> str:
                requests.append([(one["role"], one["content"]) for one in prompt])
                return texts[len(requests) - 1]

            async def acompletion(self, prompt: Any) -> str:
                return self.completion(prompt)

            def get_usage_summary(self) -> UsageSummary:
                return UsageSummary({})

            def get_last_usage(self) -> ModelUsageSummary:
                return ModelUsageSummary(1, 1, 1)

        self.requests = requests
        self.client = Client("scripted")
        self.rlm = RLM(backend="openai", backend_kwargs={"model_name": "scripted"}, **self.environment)

    def run(self) -> Any:
        # Its clients are chosen by name from a fixed list; this is the one place where it asks for one.
        with mock.patch("rlm.core.rlm.get_client", return_value=self.client):
            return int(self.rlm.completion(DOC, root_prompt=QUESTION).response)

    def sent(self) -> list[Sent]:
        return self.requests


class Kernel(Local):
    environment = {"environment": "ipython", "environment_kwargs": {"kernel_mode": "subprocess"}}  # noqa: RUF012
