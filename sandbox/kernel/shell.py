"""IPython's shell in a notebook kernel: displays, `_` and `Out`, help, completions, history and magics.

What cannot work here is refused with a reason: other programs (`!`, `%%bash`), packages to install (`%pip`).
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import getpass
import os
import types
from collections.abc import Callable
from typing import Any, NoReturn

from IPython.core import page, payloadpage
from IPython.core.completer import provisionalcompleter, rectify_completions
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import InputRejected, UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.tokenutil import token_at_cursor
from traitlets import Type
from traitlets.config import Config

from .cells import Refused
from .notebook_output import NotebookOutput

_NO_PROGRAMS = "there are no other programs in the sandbox. Do the work in Python itself."
_NO_PACKAGES = (
    "the sandbox has no network, so it cannot install packages. Install them in the environment that Jupyter starts"
    " this kernel from, then restart the kernel."
)
_PROGRAM_MAGICS = ("bash", "sh", "script", "system", "sx", "perl", "ruby", "javascript", "pypy", "python", "python2",
                   "python3")  # fmt: skip
_PACKAGE_MAGICS = ("pip", "conda", "mamba", "micromamba", "uv")
_MATCHES = 1_000
_HISTORY = 10_000


class _RefusedInput(InputRejected, Refused):  # type: ignore[misc]
    """The policy refused a cell: IPython runs none of it, and says why."""


class _Displays(DisplayPublisher):  # type: ignore[misc]
    """`display()`, and everything that goes through it."""

    def publish(
        self, data: Any, metadata: Any = None, *args: Any, transient: Any = None, update: bool = False, **kwargs: Any
    ) -> None:
        kind = "update_display_data" if update else "display_data"
        self.shell.output.show(kind, data, metadata, transient=transient or {})

    def clear_output(self, wait: bool = False) -> None:
        self.shell.output.clear(wait)


class _Values(DisplayHook):  # type: ignore[misc]
    """The value of a cell's last expression."""

    def write_output_prompt(self) -> None:
        """The client writes it."""

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        self.shell.output.show("execute_result", format_dict, md_dict, execution_count=self.prompt_count)

    def finish_displayhook(self) -> None:
        """What was to be written has been sent."""


class _Reviewer(ast.NodeTransformer):
    """Reads every piece of code that IPython is about to run, also that of `%time` and `%timeit`."""

    def __init__(self, review: Callable[[ast.Module, str], None]) -> None:
        self._review = review
        self.source = ""

    def visit(self, node: ast.AST) -> ast.AST:
        tree = node if isinstance(node, ast.Module) else ast.Module([ast.Expr(node.body)], [])  # type: ignore[attr-defined]
        try:
            self._review(tree, self.source)
        except Refused as refused:
            raise _RefusedInput(str(refused)) from None
        return node


class Shell(InteractiveShell):  # type: ignore[misc]
    """One per kernel; its namespace is the kernel's."""

    display_pub_class = Type(_Displays)
    displayhook_class = Type(_Values)

    def __init__(
        self,
        module: types.ModuleType,
        output: NotebookOutput,
        review: Callable[[ast.Module, str], None],
        ask: Callable[[str, bool], str],
    ) -> None:
        """Run code in `module`; `review` reads it first, `ask` has a person answer a question."""
        self.output = output
        self._ask = ask
        self._failure: dict[str, Any] | None = None
        home = os.path.join(os.environ.get("HOME", "/tmp"), ".ipython")
        config = Config()
        config.HistoryManager.hist_file = ":memory:"
        config.IPKernelApp.parent_appname = "rlm-sandbox"  # by this section libraries see that they are in a notebook
        os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # figures appear in the cell
        super().__init__(ipython_dir=home, user_module=module, config=config)
        type(self)._instance = InteractiveShell._instance = self  # what `get_ipython()` looks for
        self._reviewer = _Reviewer(review)
        self.ast_transformers.append(self._reviewer)
        self.set_hook("show_in_pager", page.as_hook(payloadpage.page), 99)
        self._refuse_magics(_PROGRAM_MAGICS, _NO_PROGRAMS)
        self._refuse_magics(_PACKAGE_MAGICS, _NO_PACKAGES)
        builtins.input = lambda prompt="": self._ask(str(prompt), False)
        getpass.getpass = lambda prompt="Password: ", stream=None: self._ask(str(prompt), True)

    # -- cells

    def execute(self, code: str, *, silent: bool, store_history: bool, expressions: Any) -> dict[str, Any]:
        """Run a cell; return the content of the reply."""
        self._failure = None
        self._reviewer.source = code
        count = self.execution_count
        done = self.run_cell(code, store_history=store_history, silent=silent)
        failure = done.error_before_exec or done.error_in_exec
        if failure is not None:
            return {**self.failed(failure), "execution_count": count, "payload": self._payload()}
        asked = self.user_expressions(expressions) if isinstance(expressions, dict) else {}
        return {
            "status": "ok",
            "execution_count": count,
            "user_expressions": {name: value for name, value in asked.items() if self.output.fits(value)},
            "payload": self._payload(),
        }

    def failed(self, error: BaseException) -> dict[str, Any]:
        """Return the content of the reply for a cell that raised this."""
        about = self._failure or self.output.error(
            type(error).__name__, str(error), [f"{type(error).__name__}: {error}"]
        )
        return {"status": "error", "execution_count": self.execution_count, "user_expressions": {}, **about}

    def _payload(self) -> list[dict[str, Any]]:
        payload = list(self.payload_manager.read_payload())
        self.payload_manager.clear_payload()
        return [entry for entry in payload if self.output.fits(entry)]

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        name, message = getattr(etype, "__name__", str(etype)), str(evalue)
        if isinstance(evalue, _RefusedInput):
            name, stb = "Refused", [f"Refused: {message}"]
        self._failure = self.output.error(name, message, list(stb))

    def show_usage_error(self, exc: BaseException) -> None:
        """What a magic has to say about how it was used is the cell's error, without a traceback."""
        self._failure = self.output.error("UsageError", str(exc), [f"UsageError: {exc}"])

    def enable_gui(self, gui: Any = None) -> None:
        """There is no window system, and nothing to integrate with."""
        if gui not in (None, "inline"):
            raise UsageError(f"%gui {gui}: the sandbox has no screen. Figures appear in the notebook without it.")

    def ask_exit(self) -> None:
        """`exit` and `quit` end the kernel only by the client's menu."""
        self.payload_manager.write_payload({"source": "ask_exit", "keepkernel": False})

    # -- what cannot work

    def system(self, cmd: str) -> NoReturn:
        """Refuse `!command`."""
        raise UsageError(f"!{cmd.strip()[:100]}: {_NO_PROGRAMS}")

    def getoutput(self, cmd: str, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse `x = !command`."""
        self.system(cmd)

    def _refuse_magics(self, names: tuple[str, ...], reason: str) -> None:
        def refuse(name: str, mark: str) -> Callable[..., NoReturn]:
            def refused(line: str, cell: str | None = None) -> NoReturn:
                raise UsageError(f"{mark}{name}: {reason}")

            refused.__doc__ = f"Not available: {reason}"
            return refused

        for name in names:
            self.register_magic_function(refuse(name, "%"), "line", name)
            self.register_magic_function(refuse(name, "%%"), "cell", name)

    # -- requests about code

    def completions(self, code: str, position: int) -> dict[str, Any]:
        """Names, attributes, keys and magics that continue what stands before the cursor."""
        with provisionalcompleter():
            found = list(rectify_completions(code, self.Completer.completions(code, position)))[:_MATCHES]
        types = [
            {"start": completion.start, "end": completion.end, "text": completion.text, "type": completion.type}
            for completion in found
        ]
        start, end = (found[0].start, found[0].end) if found else (position, position)
        return {
            "status": "ok",
            "matches": [completion.text for completion in found],
            "cursor_start": start,
            "cursor_end": end,
            "metadata": {"_jupyter_types_experimental": types},
        }

    def inspection(self, code: str, position: int, detail: int) -> dict[str, Any]:
        """Help for what is at the cursor."""
        name = token_at_cursor(code, position)
        data: dict[str, Any] = {}
        with contextlib.suppress(KeyError):
            data = self.object_inspect_mime(name, detail_level=detail)
            if not self.enable_html_pager:
                data.pop("text/html", None)
        return {"status": "ok", "found": bool(data), "data": data, "metadata": {}}

    def completeness(self, code: str) -> dict[str, Any]:
        """Return whether Enter should run the cell or add a line."""
        status, spaces = self.input_transformer_manager.check_complete(code)
        return {"status": status, "indent": " " * (spaces or 0)} if status == "incomplete" else {"status": status}

    def past(self, wanted: dict[str, Any]) -> list[Any]:
        """Cells of this kernel, as a history request asks for them."""
        raw, output = bool(wanted.get("raw", True)), bool(wanted.get("output"))
        manager, most = self.history_manager, min(int(wanted.get("n") or _HISTORY), _HISTORY)
        match wanted.get("hist_access_type"):
            case "tail":
                found = manager.get_tail(most, raw=raw, output=output, include_latest=True)
            case "range":
                session, start = int(wanted.get("session") or 0), int(wanted.get("start") or 0)
                found = manager.get_range(session, start, wanted.get("stop"), raw=raw, output=output)
            case "search":
                pattern, unique = str(wanted.get("pattern") or "*"), bool(wanted.get("unique"))
                found = manager.search(pattern, raw=raw, output=output, n=most, unique=unique)
            case _:
                found = ()
        return [list(entry) for entry in found][:_HISTORY]
