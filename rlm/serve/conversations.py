"""Conversations of OpenAI's API as sessions: which session a conversation goes on in, and what of it becomes an input.

Clients of `/v1/chat/completions` send the whole history each time. Its hash, up to the last answer, says which session
it is; a history that is not known becomes an input of a new one. Long texts and files are inputs, too: none of them is
pasted into a prompt.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import keyword
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

from ..repl.tools import RESERVED
from ..text import count, shorten
from .errors import bad_request

LONG = 4_000
"""A text with more characters is an input, and not part of the question."""

_SHOWN = 200
_NAME_CHARS = 40

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class File:
    """A file of a message."""

    name: str
    content: str | bytes


@dataclass(frozen=True)
class Turn:
    """One message: texts and files."""

    role: Role
    texts: tuple[str, ...] = ()
    files: tuple[File, ...] = ()

    @property
    def text(self) -> str:
        """All of the text."""
        return "\n\n".join(self.texts)


@dataclass(frozen=True)
class Conversation:
    """The messages of a request, divided: what was before, and what is asked now."""

    system: str
    before: tuple[Turn, ...]
    """The turns up to the last answer."""

    now: tuple[Turn, ...]

    @classmethod
    def of(cls, turns: Sequence[Turn]) -> Conversation:
        """Divide the turns. Raise `RequestRefused` where nothing is asked."""
        others = [turn for turn in turns if turn.role != "system"]
        system = "\n\n".join(turn.text for turn in turns if turn.role == "system" and turn.text)
        last = max((number for number, turn in enumerate(others) if turn.role == "assistant"), default=-1)
        now = tuple(others[last + 1 :])
        if not any(turn.text.strip() or turn.files for turn in now):
            raise bad_request(
                "The conversation ends without a question: the last message is to be the user's.", "messages"
            )
        return cls(system, tuple(others[: last + 1]), now)

    def digest_before(self, owner: str, model: str) -> str:
        """Return the hash of what was before."""
        return _digest(owner, model, self.system, self.before)

    def digest_after(self, owner: str, model: str, answer: str) -> str:
        """Return the hash that the conversation has with an answer to it."""
        turns = (*self.before, *self.now, Turn("assistant", (answer,)))
        return _digest(owner, model, self.system, turns)


@dataclass
class Composed:
    """A question with its inputs."""

    question: str
    inputs: dict[str, Any] = field(default_factory=dict)


def compose(
    conversation: Conversation, *, fields: Collection[str], taken: Mapping[str, Any], continues: bool
) -> Composed:
    """Return what is asked now. `fields` are the inputs of the signature, which a file of this name is for.

    `taken` are the inputs that the session has. A conversation that does not continue a session brings its history.
    """
    made = _Composer(set(fields), dict(taken))
    if conversation.before and not continues:
        made.add_history(conversation.before)
    if conversation.system:
        made.add_text("Instructions of the application", conversation.system, "instructions")
    for turn in conversation.now:
        for file in turn.files:
            made.add_file(file)
        for text in turn.texts:
            if text.strip():
                made.add_text(None, text, "message")
    return Composed("\n\n".join([*made.notes, *made.parts]) or "Answer from the inputs.", made.inputs)


class _Composer:
    def __init__(self, fields: set[str], taken: dict[str, Any]) -> None:
        self.fields, self.taken = fields, taken
        self.inputs: dict[str, Any] = {}
        self.notes: list[str] = []
        self.parts: list[str] = []

    def add_text(self, title: str | None, text: str, name: str) -> None:
        """Add a text: a long one as an input, of which the question has the beginning and the end."""
        if len(text) <= LONG:
            self.parts.append(text if title is None else f"{title}: {text}")
            return
        given = self._put(name, text)
        what = "The message" if title is None else title
        self.parts.append(
            f"{what}: the variable {given} ({len(text):,} characters). It begins with {text[:_SHOWN]!r} and ends with "
            f"{text[-_SHOWN:]!r}"
        )

    def add_file(self, file: File) -> None:
        """Add a file as an input: that of the signature which it is named for, or a further one."""
        given = self._put(_identifier(file.name), file.content)
        size = count(len(file.content), "character" if isinstance(file.content, str) else "byte")
        self.notes.append(f"The file {shorten(file.name, 100)!r} is the variable {given} ({size}).")

    def add_history(self, turns: Sequence[Turn]) -> None:
        """Add earlier messages as an input."""
        for turn in turns:
            for file in turn.files:
                self.add_file(file)
        earlier = [{"role": turn.role, "text": turn.text} for turn in turns]
        given = self._put("conversation", earlier)
        self.notes.append(f"The {count(len(turns), 'earlier message')} of this conversation are the variable {given}.")

    def _put(self, name: str, value: Any) -> str:
        """Add an input under a name that nothing else has, and return the name."""
        known = {**self.taken, **self.inputs}
        given, number = name, 2
        while given in RESERVED or (given in known and not (given in self.fields and given not in self.inputs)):
            if given in known and type(known[given]) is type(value) and known[given] == value:
                return given
            given, number = f"{name}_{number}", number + 1
        self.inputs[given] = value
        return given


def file_of(name: str | None, data: str | None, param: str) -> File:
    """Return a file that is sent as base64 or as a `data:` URL. Raise `RequestRefused`."""
    if not data:
        raise bad_request("Send the content of a file as `file_data`; ids and addresses of files are not known.", param)
    text = data.partition(",")[2] if data.startswith("data:") else data
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("`file_data` is not base64.", param) from None
    try:
        return File(name or "file", content.decode("utf-8"))
    except UnicodeDecodeError:
        return File(name or "file", content)


def answer_text(outputs: Any) -> str:
    """Return the outputs of a run as the text of an answer: the only text as it is, others as JSON."""
    if isinstance(outputs, dict) and len(outputs) == 1:
        (value,) = outputs.values()
        if isinstance(value, str):
            return value
    return json.dumps(outputs, ensure_ascii=False)


def _identifier(name: str) -> str:
    words = re.sub(r"\W+", "_", PurePosixPath(name.replace("\\", "/")).stem, flags=re.ASCII).strip("_").lower()
    made = (words or "file")[:_NAME_CHARS]
    return f"file_{made}" if not made.isidentifier() or keyword.iskeyword(made) else made


def _digest(owner: str, model: str, system: str, turns: Sequence[Turn]) -> str:
    digest = hashlib.sha256()
    for part in (owner, model, system):
        digest.update(_hashed(part))
    for turn in turns:
        digest.update(_hashed(turn.role) + _hashed(turn.text.strip()))
        for file in turn.files:
            digest.update(_hashed(file.name) + _hashed(file.content))
        digest.update(b"|")
    return digest.hexdigest()


def _hashed(text: str | bytes) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text).digest()
