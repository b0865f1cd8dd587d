"""dspy's `CodeInterpreter` protocol on the sandbox: for `dspy.RLM`, `dspy.Flex`, `dspy.CodeAct` and the others.

    dspy.configure(interpreter_factory=rlm.SandboxInterpreter)

The behaviour is that of dspy's own interpreters, and where they differ that of `LocalInterpreter`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import keyword
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput

import sandbox
from sandbox.json_cost import decoded_bytes

from .dspy_bridge import with_callbacks
from .json_values import jsonable
from .signatures.code_values import code_value

_RESERVED = frozenset({"SUBMIT", "__builtins__"})
_SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError")
_MAX_VALUE_MEMORY = 64 << 20
_BY_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD


class SandboxInterpreter:
    """Runs dspy's code in a session of its own. Tools run in the host; everything else is confined.

    Args:
        tools: Functions that code can call, by name. dspy adds to `interpreter.tools` and takes away from it: each
            execution has the tools that are in it then. They take what JSON carries, and may return models,
            dataclasses, dates, sets, tables and arrays, too. Asynchronous ones are awaited.
        output_fields: The outputs of SUBMIT, each a mapping with `name` and perhaps `type`. Without them SUBMIT takes
            one value, which is called `output`.
        execution_timeout: Seconds that an execution may take, tools included.
        callbacks: dspy callbacks of this interpreter alone.
        limits: Limits of the session, such as `cell_seconds` and `memory_bytes`.
        isolation: `auto`, or one tier by name.
        pool: Where kernels come from. By default the pool of the process.
    """

    execution_instructions: ClassVar[str] = (
        "Code runs in a sandboxed CPython with the standard library, and numpy and pandas where they are installed; "
        "there is no network and no file of the host. Variables persist. Host tools and SUBMIT are global functions. "
        "If the last line is an expression, you see its value in place of what was printed."
    )

    def __init__(
        self,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        output_fields: Sequence[Mapping[str, Any]] | None = None,
        *,
        execution_timeout: float | None = None,
        callbacks: Sequence[Any] | None = None,
        limits: sandbox.Limits | None = None,
        isolation: str = "auto",
        pool: sandbox.Pool | None = None,
    ) -> None:
        self.tools: dict[str, Callable[..., Any]] = dict(tools or {})
        if problem := _tools_problem(self.tools):
            raise ValueError(problem)
        self.output_fields = None if output_fields is None else [dict(field) for field in output_fields]
        self.callbacks = list(callbacks or [])
        self._timeout = execution_timeout
        self._limits = limits
        self._isolation = isolation
        self._pool = pool
        self._session: sandbox.Session | None = None
        self._offered: tuple[Any, ...] = ()
        self._ended = False
        self._executing = threading.Lock()
        self._ending: FinalOutput | BaseException | None = None
        """What a call has ended the execution with: the outputs, or an interruption of a tool."""

    @with_callbacks  # type: ignore[untyped-decorator]
    def start(self) -> None:
        """Take a kernel, if that was not done before. Raise `CodeInterpreterError` after `shutdown`."""
        if self._ended:
            raise CodeInterpreterError("the interpreter was shut down; create another one")
        if self._session is not None:
            if not self._session.alive:
                raise CodeInterpreterError("the interpreter's kernel is gone, and its variables; create another one")
            return
        functions = self._functions()
        try:
            self._session = sandbox.Session(
                functions=functions,
                # dspy puts a facade of its own into the interpreter, with code that the policy is not made for.
                policy="off",
                limits=self._limits,
                isolation=self._isolation,
                pool=self._pool,
            )
        except sandbox.SandboxError as error:
            raise CodeInterpreterError(f"the sandbox could not be started: {error}") from error

    @with_callbacks  # type: ignore[untyped-decorator]
    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Run code. Return the value of its last expression, or else what it printed, or `FinalOutput` after SUBMIT.

        A value that JSON cannot carry is returned as its `repr`. Raise `CodeExecutionError` or `SyntaxError` for
        what is wrong with the code, and any other `CodeInterpreterError` where the interpreter cannot go on.
        """
        if not self._executing.acquire(blocking=False):
            raise CodeInterpreterError(
                "the interpreter is executing code already; a tool cannot use the interpreter that calls it"
            )
        try:
            self._prepare(code, variables or {})
            return self._run(code)
        except sandbox.SandboxError as error:
            raise CodeInterpreterError(str(error)) from error
        finally:
            self._executing.release()

    @with_callbacks  # type: ignore[untyped-decorator]
    def invoke_tool(self, tool_name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call a tool, as code does."""
        tool = self.tools.get(tool_name)
        if tool is None:
            raise CodeInterpreterError(f"there is no tool {tool_name!r}")
        result = _call_by_name(tool, args, kwargs)
        return jsonable(asyncio.run(_result_of(result)) if inspect.isawaitable(result) else result)

    @with_callbacks  # type: ignore[untyped-decorator]
    def shutdown(self) -> None:
        """Give up the kernel, for good."""
        self._ended = True
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __call__(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Run code, as `execute` does."""
        return self.execute(code, variables)

    def __enter__(self) -> SandboxInterpreter:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()

    def _prepare(self, code: Any, variables: Any) -> None:
        """Give the session the tools as they are now, and the variables."""
        if problem := _tools_problem(self.tools):
            raise ValueError(problem)
        if problem := _code_problem(code) or _variables_problem(variables, self.tools):
            raise CodeInterpreterError(problem)
        values = {}
        for name, value in variables.items():
            try:
                values[name] = value if isinstance(value, sandbox.Text | sandbox.Blob) else code_value(value)
            except (TypeError, ValueError, RecursionError) as error:
                raise CodeInterpreterError(f"variable {name!r} cannot be given to the sandbox: {error}") from error
        self.start()
        assert self._session is not None
        if self._offered != self._offer():
            self._session.set_functions(self._functions())
        if values:
            self._session.set(**values)

    def _run(self, code: str) -> Any:
        assert self._session is not None
        self._ending = None
        result = self._session.run(code, timeout=self._timeout, json=True)
        if (ending := self._called_ending()) is not None:
            if isinstance(ending, BaseException):
                raise ending
            return ending
        if result.death is not None or (result.limit is not None and not result.limit.survived):
            raise CodeInterpreterError(f"the sandbox ended: {result.error}")
        printed = result.text.removesuffix("\n")
        if result.exited:
            raise CodeExecutionError("\n".join(filter(None, [printed, "SystemExit: the code called sys.exit()"])))
        if self._timeout is not None and isinstance(result.limit, sandbox.CellTimeLimit):
            late = f"TimeLimit: the code exceeded execution timeout, {self._timeout:g} s; its variables are still there"
            raise CodeExecutionError("\n".join(filter(None, [printed, late])))
        if result.error is not None:
            if result.error.name in _SYNTAX_ERRORS:
                raise SyntaxError(result.error.message)
            raise CodeExecutionError("\n".join(filter(None, [printed, str(result.error)])))
        value = _value_of(result)
        return value if value is not None else printed or None

    def _called_ending(self) -> FinalOutput | BaseException | None:
        return self._ending

    def _offer(self) -> tuple[Any, ...]:
        """Return what decides which functions the session has: the tools, and the outputs of SUBMIT."""
        return tuple(self.tools.items()), tuple(str(field["name"]) for field in self.output_fields or ())

    def _functions(self) -> dict[str, Callable[..., Any]]:
        self._offered = self._offer()
        submit = sandbox.describe(self._submit_function(), "Give the output, and end.", str(self._submit_signature()))
        return {**{name: self._tool(name, tool) for name, tool in self.tools.items()}, "SUBMIT": submit}

    def _tool(self, name: str, tool: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return self.invoke_tool(name, list(args), kwargs)
            except Exception:
                raise
            except BaseException as interruption:  # Ctrl-C or a cancellation: for the caller, and not for the code
                self._ending = interruption
                raise sandbox.StopCell from None

        signature = _signature_of(tool)
        described = None if signature is None else str(signature)
        return sandbox.describe(call, inspect.getdoc(_function_of(tool)), described)

    def _submit_signature(self) -> inspect.Signature:
        types = {kind.__name__: kind for kind in (str, int, float, bool, list, dict)}
        fields = self.output_fields or [{"name": "output"}]
        parameters = [
            inspect.Parameter(
                str(field["name"]), _BY_NAME, annotation=types.get(field.get("type", ""), inspect.Parameter.empty)
            )
            for field in fields
        ]
        return inspect.Signature(parameters)

    def _submit_function(self) -> Callable[..., Any]:
        def submit(*args: Any, **kwargs: Any) -> None:
            signature = self._submit_signature()
            try:
                outputs = signature.bind(*args, **kwargs).arguments
            except TypeError as error:
                raise TypeError(f"SUBMIT({', '.join(signature.parameters)}): {error}") from None
            self._ending = FinalOutput(outputs)
            raise sandbox.StopCell

        return submit


def _value_of(result: sandbox.CellResult) -> Any:
    """Return the value of the last expression, or its `repr` where JSON cannot carry it; None if there is none."""
    text = result.data.get("application/json")
    if text is not None and decoded_bytes(text.encode("utf-8", "replace")) <= _MAX_VALUE_MEMORY:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass  # no honest kernel sends it
    return result.value_repr


def _tools_problem(tools: Mapping[str, Any]) -> str | None:
    if refused := [name for name in tools if not _can_be_bound(name)]:
        return f"tools have invalid names: {', '.join(map(repr, refused))}; give each a Python name of its own"
    if refused := [name for name, tool in tools.items() if not callable(tool)]:
        return f"tools: {', '.join(map(repr, refused))} cannot be called: give functions"
    return None


def _code_problem(code: Any) -> str | None:
    return None if isinstance(code, str) else f"code is a text, not {type(code).__name__}"


def _variables_problem(variables: Any, tools: Mapping[str, Any]) -> str | None:
    if not isinstance(variables, Mapping):
        return f"variables are values by name, not {type(variables).__name__}"
    if refused := [name for name in variables if not _can_be_bound(name)]:
        return f"variables have invalid names: {', '.join(map(repr, refused))}"
    if refused := [name for name in variables if name in tools]:
        return f"variables have invalid names: {', '.join(map(repr, refused))} is a tool, too"
    return None


def _can_be_bound(name: Any) -> bool:
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and name not in _RESERVED


def _function_of(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a `dspy.Tool`, any other callable as it is."""
    function = getattr(tool, "func", None)
    return function if callable(function) else tool


def _signature_of(tool: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(_function_of(tool))
    except (TypeError, ValueError):
        return None


def _call_by_name(tool: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a tool with its arguments by name, where they have one: dspy's own take no others."""
    signature = _signature_of(tool) if args else None
    if signature is None:
        return tool(*args, **kwargs)
    parameters = list(signature.parameters.values())[: len(args)]
    if len(parameters) < len(args) or any(parameter.kind is not _BY_NAME for parameter in parameters):
        return tool(*args, **kwargs)
    by_name = {parameter.name: value for parameter, value in zip(parameters, args, strict=True)}
    if twice := sorted(by_name.keys() & kwargs.keys()):
        raise TypeError(f"got multiple values for argument {twice[0]!r}")
    return tool(**by_name, **kwargs)


async def _result_of(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
