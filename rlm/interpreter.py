"""dspy's `CodeInterpreter` protocol on the sandbox, for `dspy.RLM(..., interpreter_factory=SandboxInterpreter)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput

import sandbox


class SandboxInterpreter:
    """Runs dspy's code in a session of its own. Tools run in the host; everything else is confined."""

    execution_instructions: ClassVar[str] = (
        "Code runs in a sandboxed CPython with the standard library, and numpy and pandas where they are installed; "
        "there is no network and no file of the host. Variables persist. Host tools and SUBMIT are global functions."
    )

    def __init__(
        self,
        tools: dict[str, Callable[..., Any]] | None = None,
        output_fields: list[dict[str, Any]] | None = None,
        *,
        limits: sandbox.Limits | None = None,
        isolation: str = "auto",
        pool: sandbox.Pool | None = None,
    ) -> None:
        self.tools: dict[str, Callable[..., Any]] = dict(tools or {})
        self.output_fields = output_fields
        self._limits = limits
        self._isolation = isolation
        self._pool = pool
        self._session: sandbox.Session | None = None
        self._offered: set[str] = set()
        self._final: FinalOutput | None = None

    def start(self) -> None:
        """Take a kernel, if the first `execute` has not done so."""
        if self._session is None:
            self._offered = set(self.tools)
            self._session = sandbox.Session(
                functions={name: self._tool(name) for name in self.tools} | {"SUBMIT": self._submit},
                # dspy puts a facade of its own into the interpreter, with code that the policy is not made for.
                policy="off",
                limits=self._limits,
                isolation=self._isolation,
                pool=self._pool,
            )

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Run code. Return what it printed, or `FinalOutput` if it called SUBMIT."""
        if self._session is not None and not set(self.tools) <= self._offered:
            raise CodeInterpreterError("tools were added after the interpreter was started")
        self.start()
        assert self._session is not None
        self._final = None
        try:
            if variables:
                self._session.set(**variables)
            result = self._session.run(code)
        except sandbox.InputError as error:
            raise CodeInterpreterError(f"a variable cannot be given to the sandbox: {error}") from error
        except sandbox.SandboxError as error:
            raise CodeInterpreterError(str(error)) from error
        if (final := self._submitted()) is not None:
            return final
        if result.death is not None or (result.limit is not None and not result.limit.survived):
            raise CodeInterpreterError(f"the sandbox ended: {result.error}")
        if result.error is not None:
            if result.error.name in ("SyntaxError", "IndentationError", "TabError"):
                raise SyntaxError(result.error.message)
            printed = f"{result.text}\n" if result.text else ""
            raise CodeExecutionError(f"{printed}{result.error}")
        shown = result.text + (result.value_repr or "")
        return shown or None

    def shutdown(self) -> None:
        """Give up the kernel."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def __enter__(self) -> SandboxInterpreter:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()

    def _submitted(self) -> FinalOutput | None:
        return self._final

    def _tool(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self.tools[name](*args, **kwargs)

        return call

    def _submit(self, *args: Any, **kwargs: Any) -> None:
        """Give the final output."""
        if args and self.output_fields:
            kwargs = {field["name"]: value for field, value in zip(self.output_fields, args, strict=False)} | kwargs
        elif args:
            kwargs = {"output": args[0] if len(args) == 1 else list(args)}
        self._final = FinalOutput(kwargs)
        raise sandbox.StopCell
