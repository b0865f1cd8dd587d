"""This project: `rlm.Predict` on kernels from the warm pool; and dspy.RLM with our sandbox as its interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from loops import DOC, QUESTION, THOUGHT, Defaults, Sent
from loops.dspy_rlm import Rlm, sent


def reply(cell: str) -> str:
    return f"{THOUGHT}\n```python\n{cell}\n```"


class Pooled(Defaults):
    """A pool that is shared by the runs of this process."""

    pool: ClassVar[Any] = None

    @classmethod
    def setup(cls) -> str:
        import dspy  # noqa: F401

        import rlm  # noqa: F401
        import sandbox

        cls.pool = sandbox.Pool(size=2)
        sandbox.Session(pool=cls.pool).close()  # the first session starts the zygote
        return "this tree"

    @classmethod
    def settle(cls) -> None:
        if not cls.pool.wait_full():
            raise RuntimeError("the pool did not fill in a minute")

    @classmethod
    def teardown(cls) -> None:
        cls.pool.close()


class Ours(Pooled):
    predict: ClassVar[Any] = None
    """One for all runs: it holds no state of a run."""

    @classmethod
    def setup(cls) -> str:
        version = super().setup()
        import rlm

        cls.predict = rlm.Predict("doc: str, question: str -> answer: int", pool=cls.pool)
        return version

    def __init__(self, cells: tuple[str, ...]) -> None:
        from rlm.models.scripted import scripted_lm

        # An answer is refused here before any code has read the long input.
        reading = (f"size = len(doc)\n{cells[0]}", *cells[1:])
        self.lm = scripted_lm([reply(cell) for cell in (*reading, self.submit)])

    def run(self) -> Any:
        import dspy

        with dspy.context(lm=self.lm):
            result = self.predict.run_with_fallback(doc=DOC, question=QUESTION)
        if type(result).__name__ != "Submitted":
            raise RuntimeError(f"the run ended as {result}")
        return result.outputs.answer

    def sent(self) -> list[Sent]:
        return sent(self.lm._engine_spec.requests)


class DspyOnOurs(Pooled, Rlm):
    @classmethod
    def setup(cls) -> str:
        Pooled.setup.__func__(cls)  # type: ignore[attr-defined]
        return Rlm.setup.__func__(cls)  # type: ignore[attr-defined,no-any-return]

    @classmethod
    def interpreter(cls) -> Callable[[], Any]:
        from rlm.interpreter import SandboxInterpreter

        return lambda: SandboxInterpreter(pool=cls.pool)
