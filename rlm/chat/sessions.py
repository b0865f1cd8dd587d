"""Sessions that are opened: new ones, and those that are on disk."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..budgets import FallbackTrigger
from ..events import Observer, ignore
from ..json_values import preview
from ..repl.hints.code_facts import names_read
from ..repl.loop import new_run_id
from ..repl.tools import RESERVED
from ..signatures.validation import InvalidInputs, Problem
from .chat import Chat, Configure
from .errors import SessionError
from .journal import SUFFIX, Journal, find_journal, sessions_folder
from .question import plain_inputs
from .recording import signature_info
from .settings import SessionSettings


def new_chat(
    configure: Configure,
    inputs: Mapping[str, Any],
    settings: SessionSettings | None = None,
    *,
    recorder: Observer = ignore,
    root: Path | str | None = None,
    task: Mapping[str, Any] | None = None,
) -> Chat:
    """Return a new session with these inputs. Raise `InvalidInputs` before anything is written or started."""
    settings = settings or SessionSettings()
    signature = configure(ignore).signature
    signature.refuse_names(RESERVED)
    known = {field.name for field in signature.inputs}
    if unknown := [name for name in inputs if name not in known]:
        listed = ", ".join(field.name for field in signature.inputs) or "none"
        problems = [Problem(f"/{name}", "nothing (there is no such input)", preview(inputs[name])) for name in unknown]
        raise InvalidInputs(f"{signature.name} has no such inputs (it takes {listed}):", problems)
    values = plain_inputs(signature, inputs)
    chat_id = new_run_id()
    path = sessions_folder(root) / f"{chat_id}{SUFFIX}" if settings.record else None
    total = {
        name: limit if limit is None or math.isfinite(limit) else None
        for name, limit in settings.total.to_dict().items()
    }
    about = {
        "id": chat_id,
        "created": time.time(),
        "title": settings.title,
        "signature": signature_info(signature),
        "total": total,
        "idle_seconds": settings.idle_seconds if math.isfinite(settings.idle_seconds) else None,
        "task": dict(task) if task is not None else None,
    }
    chat = Chat(configure, Journal.create(path, about), settings, recorder=recorder)
    chat._inputs = dict(values)
    chat._record_inputs(0, values)
    return chat


def reopen_chat(
    configure: Configure, session_id: str, *, recorder: Observer = ignore, root: Path | str | None = None
) -> Chat:
    """Return a session that is on disk. Its kernel is rebuilt for its next question."""
    journal = Journal.open(find_journal(session_id, root))
    try:
        about = journal.about
        limits = {name: limit for name, limit in about["total"].items() if limit is not None}
        total = FallbackTrigger(**{"max_duration": math.inf, **limits})
        idle = about["idle_seconds"]
        settings = SessionSettings(total, math.inf if idle is None else idle, title=about["title"])
        chat = Chat(configure, journal, settings, recorder=recorder)
        if about["signature"]["text"] != signature_info(chat.signature)["text"]:
            raise SessionError(
                f"session {chat.id} was opened for {about['signature']['text']!r}, not for "
                f"{signature_info(chat.signature)['text']!r}"
            )
        if about.get("closed"):
            journal.update_about(closed=False)
        chat._inputs = chat._recorded_inputs()
        codes = [cell.code for cell in chat.cells]
        chat._kernel.read = frozenset(name for code in codes for name in names_read(code, chat._inputs))
    except BaseException:
        journal.close()
        raise
    return chat
