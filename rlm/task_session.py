"""Sessions of a task file: one input takes what is asked, the others are shared by all questions.

`rlm chat`, `rlm ask` and `rlm serve` are made of these; in Python, `Predict(...).session(...)` is shorter.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .chat.chat import Chat
from .chat.errors import SessionError
from .chat.journal import Journal, QuestionRecord, find_journal
from .chat.sessions import new_chat, reopen_chat
from .chat.settings import SessionSettings
from .events import Observer, fan_out, ignore
from .repl.config import RunConfig
from .run import Run
from .runner import task_config
from .signatures import Signature
from .tasks import Recorded, Task, load
from .traces.writer import default_observer

QUESTION = "question"
"""The input that takes what is asked, where the signature of a task has one of this name or none at all."""


@dataclass
class TaskSession:
    """A session with the task that it is about."""

    task: Task
    chat: Chat
    question: str
    """The input that takes what is asked."""

    _models: _Models = field(repr=False)

    def __post_init__(self) -> None:
        self.chat.asks = self.question

    def set_budget(self, **limits: Any) -> None:
        """Change limits of the questions to come. Raise `ValueError` or `TypeError` for one that is none."""
        self.task = self._models.task = replace(self.task, trigger=replace(self.task.trigger, **limits))

    def start(self, text: str, *, signature: Any = None, observe: Observer = ignore, **inputs: Any) -> Run:
        """Start a question in the background. Raise `InvalidInputs` before anything is started."""
        return self.chat.start(self._with_question(signature), observe=observe, **{self.question: text, **inputs})

    def branch(self) -> TaskSession:
        """Return an independent session that starts from here."""
        return TaskSession(self.task, self.chat.branch(), self.question, self._models)

    def _with_question(self, source: Any) -> Any:
        """Return a signature of one question, with the input that takes it."""
        if source is None or (isinstance(source, str) and source.lstrip().startswith("...")):
            return source
        return _with_input(Signature.of(source), self.question)


def new_session(task: Task, settings: SessionSettings | None = None, *, root: Path | str | None = None) -> TaskSession:
    """Return a new session of a task. Its inputs are those that all questions share, but for the one that asks."""
    signature, question = _asking(task.signature, task.inputs)
    inputs = {name: value for name, value in task.inputs.items() if name != question}
    missing = [
        declared.name
        for declared in signature.inputs
        if declared.required and declared.name not in inputs and declared.name != question
    ]
    if missing:
        raise SessionError(f"the inputs {', '.join(missing)} have no value; all questions of a session share them")
    task = replace(task, signature=signature, inputs=inputs)
    models = _Models(task)
    source = {**(task.source or {}), "question": question}
    chat = new_chat(models, inputs, settings, recorder=default_observer(), root=root, task=source)
    return TaskSession(task, chat, question, models)


def reopen_session(session_id: str, *, root: Path | str | None = None) -> TaskSession:
    """Return a session of a task that is on disk. The task is as it was then; its models are made anew."""
    path = find_journal(session_id, root)
    with contextlib.closing(Journal.open(path, read_only=True)) as journal:
        task = recorded_task(journal)
        answered = _answered(journal)
    question = (task.source or {})["question"]
    task = replace(task, signature=_with_input(task.signature, question))
    models = _Models(task, answered)
    chat = reopen_chat(models, path.stem, recorder=default_observer(), root=root)
    return TaskSession(replace(task, inputs=chat.inputs), chat, question, models)


def recorded_task(journal: Journal) -> Task:
    """Return the task of a session, without its inputs. Raise `SessionError` for one that Python code has opened."""
    about = journal.about
    source = about.get("task") or {}
    if not source.get("text"):
        raise SessionError(
            f"session {about['id']} was opened from Python, not from a task file; in Python, "
            f"Predict(...).reopen({about['id']!r}) opens it again"
        )
    recorded = Recorded(
        source["text"], {}, source.get("models") or {}, source.get("budget") or {}, mode=source.get("mode")
    )
    task = load(source["path"], recorded=recorded, partial=True)
    return replace(task, source={**(task.source or {}), **source})


def task_of_inputs(inputs: Mapping[str, Any], models: Mapping[str, str], budget: Mapping[str, Any]) -> Task:
    """Return a task that was written by nobody: questions about these inputs, which are answered with text."""
    fields = ", ".join([*(f"{name}: {_type_of(value)}" for name, value in inputs.items()), f"{QUESTION}: str"])
    instructions = f"Answer the question{' from the inputs' if inputs else ''}. Be brief."
    text = f'signature: "{fields} -> answer: str"\ninstructions: {instructions}\n'
    path = Path(os.getcwd()) / "session.yaml"
    return load(path, recorded=Recorded(text, dict(inputs), models, budget), partial=True)


class _Models:
    """Makes the configuration of each question: the models of the task are made once."""

    def __init__(self, task: Task, answered: Mapping[str, int] | None = None) -> None:
        self.task = task
        self._answered = answered
        self._config: RunConfig | None = None

    def __call__(self, observe: Observer) -> RunConfig:
        if self._config is None:
            self._config = task_config(self.task, answered=self._answered)
        return replace(self._config, observe=fan_out(self._config.observe, observe), trigger=self.task.trigger)


def _asking(signature: Signature, inputs: Mapping[str, Any]) -> tuple[Signature, str]:
    """Return a signature with an input for what is asked, and its name."""
    texts = [declared.name for declared in signature.inputs if declared.type is str and declared.name not in inputs]
    named = any(declared.name == QUESTION for declared in signature.inputs)
    question = texts[0] if len(texts) == 1 and inputs and not named else QUESTION
    return _with_input(signature, question), question


def _with_input(signature: Signature, question: str) -> Signature:
    if any(declared.name == question for declared in signature.inputs):
        return signature
    own = Signature.of(f"{question}: str -> answer").inputs
    instructions = f"{signature.instructions}\n\nAnswer what `{question}` asks."
    return Signature(signature.name, instructions, (*signature.inputs, *own), signature.outputs)


def _answered(journal: Journal) -> dict[str, int]:
    """Return how many replies the models of a session have given, for those that are scripted."""
    questions = journal.questions(undone=True)
    replies = sum(step.kind == "reply" for question in questions for step in journal.steps(question.number))
    return {"main": replies, "sub": sum(_calls(question) for question in questions)}


def _calls(question: QuestionRecord) -> int:
    return int((question.usage or {}).get("llm_calls") or 0)


def _type_of(value: Any) -> str:
    return {str: "str", bool: "bool", int: "int", float: "float", list: "list", dict: "dict"}.get(type(value), "str")
