"""`%load_ext rlm`: cells that ask, `%%rlm`, over the variables of the notebook, in one session.

The variables are sent into the sandbox by value, and again only when they have changed. Results are shown by
`result_html`, progress by `notebook_display`.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import shlex
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import RlmError
from .events import ignore
from .json_values import jsonable
from .notebook_display import progress_observer
from .text import count

if TYPE_CHECKING:
    from .chat.chat import Chat
    from .predict import Predict
    from .results import ExecutionResult

_QUESTION = "question"
_BASE = f"{_QUESTION}: str -> answer: str"
_WORD = re.compile(r"[^\W\d]\w*")
_NO_DATA = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)
_SHELL = frozenset({"In", "Out", "get_ipython", "exit", "quit", "open"})


class NotebookError(RlmError):
    """A cell that asks cannot be understood, or a variable cannot be sent."""


@dataclass
class NotebookSession:
    """The session of a notebook: one after another, each with the variables that were sent."""

    model: Any = None
    chat: Chat | None = None
    sent: dict[str, str] = field(default_factory=dict)
    """The hash of each variable as it was sent."""

    def begin(self, predict: Predict[Any] | None = None) -> Chat:
        """Open a new session, and close the one before. It is on the disk, as every session."""
        from .predict import Predict

        if self.chat is not None:
            self.chat.close()
        if predict is None:
            predict = Predict(_BASE, **({} if self.model is None else {"lm": self.model}))
        self.chat, self.sent = predict.session(), {}
        return self.chat

    def ask(self, question: str, outputs: str, variables: Mapping[str, Any], show: Any) -> ExecutionResult[Any]:
        """Send what is new, ask, and return the result. `show` is called with what was sent."""
        plain = {name: _plain(name, value) for name, value in variables.items()}
        chat = self.chat or self.begin()
        hashes = {name: _hash(value) for name, value in plain.items()}
        new = {name: value for name, value in plain.items() if self.sent.get(name) != hashes[name]}
        if new:
            chat.set(**new)
            self.sent |= {name: hashes[name] for name in new}
        known = [name for name in plain if name not in new]
        show(_described(variables, new), known)
        signature = f"{_QUESTION}: str -> {outputs}" if outputs else None
        return chat.start(signature, progress_observer() or ignore, question=question).result()

    def code(self, number: int | None = None) -> str:
        """Return the cells of a question as code of a notebook; of the last one without a number."""
        questions = self.chat.questions if self.chat is not None else []
        if not questions:
            raise NotebookError("nothing was asked yet: write a cell that begins with %%rlm")
        wanted = questions[-1].number if number is None else number
        assert self.chat is not None
        cells = [cell.code for cell in self.chat.cells if cell.question == wanted]
        if not cells:
            raise NotebookError(f"question {wanted} ran no code; there are questions 1 to {questions[-1].number}")
        head = f"# Question {wanted}: the model's code. SUBMIT is dict here."
        return "\n\n".join([head, *map(_without_submit, cells)])


def load_ipython_extension(shell: Any) -> None:
    """Add the magics to a notebook: `%load_ext rlm`."""
    session = NotebookSession()

    def show(sent: list[str], known: list[str]) -> None:
        parts = [f"sent: {', '.join(sent)}"] if sent else []
        parts += [f"there already: {', '.join(known)}"] if known else []
        if parts:
            print("; ".join(parts))  # noqa: T201 - the output of a cell

    def ask(line: str, cell: str) -> Any:
        options, names, outputs = _read_line(line)
        if options.model is not None:
            import dspy

            session.model = shell.user_ns.get(options.model) or dspy.LM(options.model)
        if options.predict is not None:
            if options.predict not in shell.user_ns:
                raise NotebookError(f"there is no variable {options.predict} that could be the rlm.Predict to ask")
            session.begin(shell.user_ns[options.predict])
        elif options.new or options.model is not None:
            session.begin()
        question = cell.strip()
        if not question:
            raise NotebookError("the cell has no question: write it below %%rlm")
        names = names if names is not None else _named(question, shell.user_ns)
        if missing := [name for name in names if name not in shell.user_ns]:
            raise NotebookError(f"the notebook has no variable {', '.join(missing)}")
        return session.ask(question, outputs, {name: shell.user_ns[name] for name in names}, show)

    def take_cells(line: str) -> None:
        text = line.strip()
        if text and not text.isdigit():
            raise NotebookError("write %rlm_cells, or the number of a question: %rlm_cells 2")
        shell.set_next_input(session.code(int(text) if text else None), replace=False)

    def current(line: str) -> Any:
        return session.chat

    ask.__doc__ = _parser().format_help()
    take_cells.__doc__ = "Put the code of the last question, or of the one with this number, into a cell below."
    current.__doc__ = "Return the session of the notebook, an `rlm.Chat`: variables, questions, `undo`, `branch`."
    shell.register_magic_function(ask, "cell", "rlm")
    shell.register_magic_function(take_cells, "line", "rlm_cells")
    shell.register_magic_function(current, "line", "rlm_session")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise NotebookError(f"%%rlm: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        "%%rlm",
        add_help=False,
        description="Ask the question in the cell. Variables that are named, or that the question names, are sent.",
        epilog="%%rlm log, prices -> worst: list[str]",
    )
    parser.add_argument("-m", "--model", help="the model, or a variable that has a dspy.LM; begins a new session")
    parser.add_argument("-p", "--predict", help="a variable that has an rlm.Predict; begins a new session with it")
    parser.add_argument("-n", "--new", action="store_true", help="begin a new session")
    return parser


def _read_line(line: str) -> tuple[argparse.Namespace, list[str] | None, str]:
    """Return the options, the names of variables (None: those in the question), and the outputs."""
    words = shlex.split(line, posix=False)
    options, rest = _parser().parse_known_args(words)
    text = " ".join(rest)
    left, arrow, right = text.partition("->")
    names = [name for name in re.split(r"[,\s]+", left.strip()) if name]
    for name in names:
        if not name.isidentifier():
            raise NotebookError(f"{name!r} is no name of a variable; write %%rlm log, prices -> answer: int")
    return options, names or None, right.strip() if arrow else ""


def _named(question: str, namespace: Mapping[str, Any]) -> list[str]:
    """Return the variables of the notebook that a question names, in order."""
    return [
        name
        for name in dict.fromkeys(_WORD.findall(question))
        if name in namespace
        and not name.startswith("_")
        and name not in _SHELL
        and not isinstance(namespace[name], _NO_DATA)
    ]


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return value
    try:
        return jsonable(value)
    except (TypeError, ValueError, RecursionError):
        raise NotebookError(
            f"{name} is a {type(value).__name__}, which cannot be sent: give the text, the rows or the numbers in it"
        ) from None


def _hash(value: Any) -> str:
    return hashlib.sha256(_bytes(value)).hexdigest()


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text.encode("utf-8", "surrogatepass")


def _described(variables: Mapping[str, Any], plain: Mapping[str, Any]) -> list[str]:
    described = []
    for name, value in plain.items():
        kind = type(variables[name]).__name__
        size = count(len(value), "character") if isinstance(value, str) else count(len(_bytes(value)), "byte")
        described.append(f"{name} ({kind}, {size})")
    return described


def _without_submit(code: str) -> str:
    """Return code in which `SUBMIT(...)` is `dict(...)`: outside of a run nobody takes outputs."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return code
    lines = code.splitlines(keepends=True)
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    for name in sorted(calls, key=lambda one: (one.lineno, one.col_offset), reverse=True):
        if name.id == "SUBMIT":
            line = lines[name.lineno - 1].encode()
            start = name.col_offset
            lines[name.lineno - 1] = (line[:start] + b"dict" + line[start + len("SUBMIT") :]).decode()
    return "".join(lines)
