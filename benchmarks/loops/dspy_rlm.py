"""dspy.RLM on its own interpreters, with a model that answers at once."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any, ClassVar

from loops import DOC, QUESTION, THOUGHT, Defaults, Sent


class Engine:
    """A dspy engine that gives these answers in order and keeps what it was asked."""

    def __init__(self, answers: list[str]) -> None:
        self.answers = answers
        self.requests: list[Any] = []

    def complete(self, request: Any) -> Any:
        from dspy.lm15 import Message, Response, Usage

        text = self.answers[len(self.requests)]
        self.requests.append(request)
        return Response(None, request.model, Message.assistant(text), "stop", Usage(input_tokens=1, output_tokens=1))


def sent(requests: list[Any]) -> list[Sent]:
    """What dspy's requests say, as roles and texts."""
    return [
        [("system", request.system or ""), *((message.role, message.text or "") for message in request.messages)]
        for request in requests
    ]


class Rlm(Defaults):
    """dspy.RLM; a subclass says on which interpreter."""

    rlm: ClassVar[Any] = None
    """One for all runs: it holds no state of a run."""

    @classmethod
    def setup(cls) -> str:
        import dspy

        cls.rlm = dspy.RLM(
            "doc: str, question: str -> answer: int", max_iters=20, interpreter_factory=cls.interpreter()
        )
        return version("dspy")

    @classmethod
    def interpreter(cls) -> Callable[[], Any]:
        raise NotImplementedError

    def __init__(self, cells: tuple[str, ...]) -> None:
        import dspy

        texts = [
            f"[[ ## reasoning ## ]]\n{THOUGHT}\n\n[[ ## code ## ]]\n```python\n{cell}\n```\n\n[[ ## completed ## ]]"
            for cell in (*cells, self.submit)
        ]
        self.engine = Engine(texts)
        self.lm = dspy.LM("scripted/main", engine=self.engine, cache=False, num_retries=0)

    def run(self) -> Any:
        import dspy

        with dspy.context(lm=self.lm):
            return self.rlm(doc=DOC, question=QUESTION).answer

    def sent(self) -> list[Sent]:
        return sent(self.engine.requests)


class OnLocal(Rlm):
    @classmethod
    def interpreter(cls) -> Callable[[], Any]:
        import dspy

        return dspy.LocalInterpreter


class OnDeno(Rlm):
    @classmethod
    def interpreter(cls) -> Callable[[], Any]:
        import dspy

        return dspy.PythonInterpreter

    def run(self) -> Any:
        import dspy

        try:
            return super().run()
        except dspy.CodeInterpreterError as error:
            raise type(error)(f"{error} {self._why()}") from error

    @staticmethod
    def _why() -> str:
        """DSPy's message leaves out why Deno ended; started once more by hand, it says so on stderr."""
        import dspy

        interpreter = dspy.PythonInterpreter()
        try:
            interpreter.start()
        except dspy.CodeInterpreterError:
            process = interpreter.deno_process
            return process.stderr.read() if process is not None and process.stderr is not None else ""
        interpreter.shutdown()
        return ""
