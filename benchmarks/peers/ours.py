"""This project's sandbox: from the warm pool, forked when asked for, and with text as a lazy view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from peers import Defaults


class FromPool(Defaults):
    size: ClassVar[int] = 2
    pool: ClassVar[Any] = None

    @classmethod
    def setup(cls) -> str:
        import sandbox

        cls.pool = sandbox.Pool(size=cls.size)
        cls().close_after("x = 1")  # the zygote is started by the first session
        return "this tree"

    @classmethod
    def settle(cls) -> None:
        """Wait for the refill, which would otherwise be measured together with what comes next."""
        if not cls.pool.wait_full():
            raise RuntimeError("the pool did not fill in a minute")

    @classmethod
    def teardown(cls) -> None:
        cls.pool.close()

    def close_after(self, code: str) -> None:
        self.start()
        self.run(code)
        self.close()

    def start(self, functions: Mapping[str, Callable[..., str]] | None = None) -> None:
        self._open({}, functions or {})

    def _open(self, inputs: dict[str, Any], functions: Mapping[str, Callable[..., str]]) -> None:
        import sandbox

        # The function returns a constant: `quick` is the documented way for those that answer at once.
        quick = {name: sandbox.quick(function) for name, function in functions.items()}
        self.session = sandbox.Session(inputs=inputs, functions=quick, pool=self.pool)

    def run(self, code: str) -> str:
        result = self.session.run(code)
        if result.error is not None:
            raise RuntimeError(f"the cell failed: {result.error}")
        return str(result.text)

    def before_load(self) -> None:
        """Nothing: inputs are given when a session is opened, so opening it is part of the time."""

    def load(self, name: str, text: str, code: str) -> str:
        self._open({name: self.as_input(text)}, {})
        return self.run(code)

    def as_input(self, text: str) -> Any:
        return text

    def pids(self) -> list[int]:
        return [self.session.pid]

    def close(self) -> None:
        self.session.close()


class FromZygote(FromPool):
    size = 0


class LazyText(FromPool):
    def as_input(self, text: str) -> Any:
        import sandbox

        return sandbox.Text(text, lazy=True)
