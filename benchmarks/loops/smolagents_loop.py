"""smolagents' CodeAgent on its local executor, with a model that answers at once."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from loops import DOC, QUESTION, THOUGHT, Defaults, Sent


class Agent(Defaults):
    submit = "final_answer(total)"

    @classmethod
    def setup(cls) -> str:
        import smolagents  # noqa: F401

        return version("smolagents")

    def __init__(self, cells: tuple[str, ...]) -> None:
        from smolagents import CodeAgent, LogLevel, Model
        from smolagents.models import ChatMessage, MessageRole
        from smolagents.monitoring import TokenUsage

        texts = [f"{THOUGHT}\n<code>\n{cell}\n</code>" for cell in (*cells, self.submit)]
        requests: list[Sent] = []

        class Scripted(Model):  # type: ignore[misc]
            """Gives these answers in order."""

            def generate(self, messages: list[Any], **options: Any) -> Any:
                requests.append([(str(one.role), _text(one.content)) for one in messages])
                usage = TokenUsage(input_tokens=1, output_tokens=1)
                return ChatMessage(MessageRole.ASSISTANT, texts[len(requests) - 1], token_usage=usage)

        self.requests = requests
        self.agent = CodeAgent(tools=[], model=Scripted(), max_steps=20, verbosity_level=LogLevel.OFF)

    def run(self) -> Any:
        return self.agent.run(QUESTION, additional_args={"doc": DOC})

    def sent(self) -> list[Sent]:
        return self.requests


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])
