"""`rlm chat`: a session on a terminal. Lines are questions; lines that begin with `/` are commands."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import exit_codes
from ..options import cache_option, cached, change_options, input_option, overrides
from ..session_runner import ask_and_follow, opened, rebuilt_text, session_errors, show_result

if TYPE_CHECKING:
    from ...results import ExecutionResult
    from ...task_session import TaskSession
    from ...tasks import Task

_HISTORY = 1_000
_COMMANDS = {
    "/vars": "the variables, and those that nothing has read for long",
    "/cells [N]": "the last N cells (5), with the end of their output",
    "/show [N]": "the whole result of question N (the last), with its evidence",
    "/undo": "take the last question back",
    "/budget [NAME=VALUE]": "what was used and what is allowed; change a limit of a question",
    "/set NAME=VALUE": "add an input, or replace one; VALUE as with -i",
    "/drop NAME...": "delete variables",
    "/resume": "go on with the question that was interrupted",
    "/branch": "go on in an independent copy",
    "/save [FILE]": "write the session to FILE.ipynb, .md or .json",
    "/help": "this list",
    "/quit": "leave; `rlm sessions resume` opens the session again (Ctrl-D does the same)",
}


@click.command("chat", short_help="Ask one question after another over the same data.")
@click.argument("task_file", required=False, type=click.Path(dir_okay=False), metavar="[TASK.YAML]")
@input_option
@change_options
@click.option("--total-cost-usd", type=click.FloatRange(min=0), metavar="USD", help="For all questions together.")
@click.option("--title", default="", metavar="TEXT", help="What the session is about, for `rlm sessions list`.")
@cache_option
@click.pass_context
def command(ctx: click.Context, /, task_file: str | None, **options: Any) -> None:
    """Ask questions, one after another, over the same inputs; variables of earlier answers stay.

    The inputs are those of TASK.YAML, or of `--input` alone; the value of an `--input` is a text, or the name of a file
    that exists. What is typed is the input `question`. The session survives this process: `rlm sessions resume`.

    \b
    Example:
      rlm chat task.yaml
      rlm chat --input log=server.log --model openai/gpt-5-mini

    \b
    Exit codes: 0 left, 2 bad file or usage, 3 internal error, 4 environment. Where standard input is no
    terminal, each of its lines is a question, and the code is that of the last one, as of `rlm run`.
    """
    from ...budgets import FallbackTrigger
    from ...chat.settings import UNLIMITED, SessionSettings
    from ...task_session import new_session
    from .. import preflight

    with cached(options["cache"]):
        task = _task(task_file, options)
        _ = task.tools  # imported now: an error in them is an error of the task file
        preflight.require(task)
        for warning in preflight.size_warnings(task):
            click.echo(f"warning: {warning}", err=True)
        limits = {"max_cost_usd": options["total_cost_usd"]} if options["total_cost_usd"] is not None else {}
        total = FallbackTrigger(**{**UNLIMITED.to_dict(), **limits})
        with session_errors():
            try:
                session = new_session(task, SessionSettings(total, title=options["title"]))
            except ValueError as error:
                raise click.UsageError(str(error)) from None
        try:
            code = _Prompt(session).run()
        finally:
            session.chat.close()
    ctx.exit(code)


def converse_again(session_id: str) -> int:
    """Open a session again and go on with it. Return the exit code."""
    with opened(session_id) as session:
        return _Prompt(session, again=True).run()


def _task(task_file: str | None, options: dict[str, Any]) -> Task:
    from ...task_session import task_of_inputs
    from ...tasks import TaskError, TaskProblem, load

    options["inputs"] = {name: _file_or_text(value) for name, value in options["inputs"].items()}
    if task_file is not None:
        return load(task_file, overrides(options), partial=True)
    if not options.get("model"):
        raise click.UsageError("Say which model answers: --model openai/gpt-5-mini; or give a task file.")
    values = {name: _value(name, text) for name, text in options["inputs"].items()}
    changes = overrides(options)
    try:
        return task_of_inputs(values, changes.models, changes.budget)
    except TaskError as error:
        raise TaskError(TaskProblem("--input or --model", problem.message) for problem in error.problems) from None


def _file_or_text(value: str) -> str:
    """Return the value of an input: the name of a file that exists stands for the file."""
    if value.startswith("@") or "\n" in value or len(value) > 4_000:
        return value
    with contextlib.suppress(OSError, ValueError):
        if Path(value).expanduser().is_file():
            return f"@{value}"
    return value


def _value(name: str, text: str) -> Any:
    from ...tasks.inputs import UnreadableInput, expand_home, read_text, standard_input

    try:
        if text == "@-":
            return standard_input()
        return read_text(expand_home(text[1:])) if text.startswith("@") and not text.startswith("@@") else text
    except UnreadableInput as error:
        raise click.UsageError(f"input {name}: {error}") from None


class _Prompt:
    """Reads lines, asks and shows."""

    def __init__(self, session: TaskSession, *, again: bool = False) -> None:
        self.session, self._again = session, again
        self._results: dict[int, ExecutionResult[Any]] = {}
        self._rebuilt = session.chat.rebuilt
        self._interactive = sys.stdin.isatty()
        self._code = exit_codes.ANSWERED

    def run(self) -> int:
        """Read lines until there are none, or `/quit`."""
        self._greet()
        with _line_editing() if self._interactive else contextlib.nullcontext():
            while (line := self._read()) is not None:
                text = line.strip()
                if text in ("/quit", "/exit", "/q"):
                    break
                try:
                    if text.startswith("/"):
                        self._command(text)
                    elif text:
                        self._ask(text)
                except click.UsageError as error:
                    self._say(error.message)
                    self._code = exit_codes.USAGE
        chat = self.session.chat
        if self._interactive and chat.questions:
            self._say(f"Session {chat.id} is kept. To go on: rlm sessions resume {chat.id}")
        return exit_codes.ANSWERED if self._interactive else self._code

    def _greet(self) -> None:
        from ..console import inputs_text, models_text, script_notice
        from ..pages.session import question_lines

        chat, task = self.session.chat, self.session.task
        self._say(f"Session {chat.id}: {models_text(task)}; inputs: {inputs_text(task)}")
        if (notice := script_notice(task)) is not None:
            self._say(notice)
        if self._again:
            for question in chat.questions[-3:]:
                for part in question_lines(question):
                    self._print(part)
            if chat.unfinished is not None:
                self._say("The last question was cut off; /resume goes on with it, and asks no model again.")
        if self._interactive:
            self._say("/help lists the commands. Ctrl-C stops a question, Ctrl-D leaves.")

    def _read(self) -> str | None:
        """Return the next line; None at the end. Ctrl-C gives up the line that is being written."""
        if not self._interactive:
            line = sys.stdin.readline()
            return line or None
        while True:
            try:
                return input(f"[{len(self.session.chat.questions) + 1}] ")
            except KeyboardInterrupt:
                click.echo(err=True)
            except EOFError:
                click.echo(err=True)
                return None

    def _ask(self, text: str | None) -> None:
        result, interrupted = ask_and_follow(self.session, text)
        if (rebuilt := self.session.chat.rebuilt) is not self._rebuilt:
            self._rebuilt = rebuilt
            self._say(rebuilt_text(self.session) or "")
        if interrupted:
            self._say("Stopped. /resume goes on with the question, /undo takes it back; or ask another one.")
            self._code = exit_codes.INTERRUPTED
            return
        questions = self.session.chat.questions
        if questions:
            self._results[questions[-1].number] = result
        self._code = show_result(result, self.session, sys.stdout, {"as_json": False, "strict": False})
        sys.stdout.flush()
        if self.session.chat.problem is not None:
            self._say(f"warning: {self.session.chat.problem}")

    def _command(self, text: str) -> None:
        from ...errors import RlmError

        name, _, rest = text.partition(" ")
        commands: dict[str, Callable[[str], None]] = {
            "/vars": self._vars,
            "/cells": self._cells,
            "/show": self._show,
            "/undo": self._undo,
            "/budget": self._budget,
            "/set": self._set,
            "/drop": self._drop,
            "/resume": lambda rest: self._ask(None),
            "/branch": self._branch,
            "/save": self._save,
            "/help": self._help,
        }
        if name not in commands:
            from ...text import suggestion

            self._say(f"There is no {name}{suggestion(name, list(commands))}; /help lists the commands.")
            return
        try:
            with session_errors():
                commands[name](rest.strip())
        except (RlmError, ValueError, TypeError, OSError) as error:
            raise click.UsageError(str(error)) from None

    def _vars(self, rest: str) -> None:
        from ..pages.session import variables_page

        chat = self.session.chat
        self._print(variables_page(chat.variables, chat.inputs, chat.unused()))

    def _cells(self, rest: str) -> None:
        from ..pages.session import cells_page

        self._print(cells_page(self.session.chat.cells[-int(rest or 5) :]))

    def _show(self, rest: str) -> None:
        from ..pages.result import result_page
        from ..pages.session import question_lines

        questions = {question.number: question for question in self.session.chat.questions}
        number = int(rest) if rest else max(questions, default=0)
        if number not in questions:
            raise click.UsageError(f"there is no question {number}" if questions else "nothing was asked yet")
        if number in self._results:
            self._print(result_page(self._results[number]))
            return
        for part in question_lines(questions[number]):
            self._print(part)
        self._say(f"All of it: rlm runs show {questions[number].run_id}")

    def _undo(self, rest: str) -> None:
        undone = self.session.chat.undo()
        self._say(f"Question {undone.number} is undone. Its cost stays in the budget of the session.")

    def _budget(self, rest: str) -> None:
        from ..pages.session import budget_page

        changes = dict(word.partition("=")[::2] for word in shlex.split(rest))
        if changes:
            from ...units import parse_duration

            kinds: dict[str, Any] = {"max_duration": parse_duration, "max_cost_usd": float}
            limits = {name: kinds.get(name, int)(value) for name, value in changes.items()}
            self.session.set_budget(**limits)
        self._print(budget_page(self.session.task.trigger, self.session.chat))

    def _set(self, rest: str) -> None:
        name, equals, text = rest.partition("=")
        if not equals or not name.strip().isidentifier():
            raise click.UsageError("write /set NAME=VALUE, as in /set log=server.log")
        value = _value(name.strip(), _file_or_text(text.strip()))
        self.session.chat.set(**{name.strip(): value})
        self._say(f"{name.strip()} has {len(value):,} characters now.")

    def _drop(self, rest: str) -> None:
        self.session.chat.drop(*rest.replace(",", " ").split())

    def _branch(self, rest: str) -> None:
        branch = self.session.branch()
        self._say(f"This is session {branch.chat.id} now. {self.session.chat.id} stays as it is.")
        self.session.chat.close()
        self.session = branch

    def _save(self, rest: str) -> None:
        from ...chat.export import FORMATS

        path = Path(rest or f"{self.session.chat.id}.ipynb").expanduser()
        form = path.suffix.removeprefix(".")
        if form not in FORMATS:
            raise click.UsageError(f"{path} is none of {', '.join('.' + suffix for suffix in FORMATS)}")
        text, notes = self.session.chat.export(form)
        path.write_text(text, encoding="utf-8")
        self._say("\n".join([f"Wrote {path}.", *notes]))

    def _help(self, rest: str) -> None:
        from ..pages.tables import facts_table

        self._print(facts_table(_COMMANDS.items(), name_style="bold"))

    def _say(self, text: str) -> None:
        from ..console import clean

        click.echo(clean(text), err=True)

    def _print(self, part: Any) -> None:
        from ..console import print_page

        print_page(part)
        sys.stdout.flush()


@contextlib.contextmanager
def _line_editing() -> Iterator[None]:
    """Edit lines with readline, where Python has it: history over sessions, completion of commands."""
    try:
        import readline
    except ImportError:
        yield
        return
    from ...files import home

    path = home() / "chat_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    names = [command.split()[0] for command in _COMMANDS]
    readline.set_completer_delims(" ")
    readline.set_completer(lambda text, state: [*(name for name in names if name.startswith(text or "-")), None][state])
    readline.parse_and_bind("tab: complete")
    readline.set_history_length(_HISTORY)
    try:
        yield
    finally:
        readline.set_completer(None)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            readline.write_history_file(path)
            path.chmod(0o600)
