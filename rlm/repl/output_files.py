"""The files that the code of a run wrote: those that it submits must be there, and all are on record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sandbox

from ..events import Emitter
from ..mounts.output import fill, missing
from ..results import ExecutionResult, Failed
from . import event_data

if TYPE_CHECKING:
    from .session import ReplSession
    from .tools import ReplTools


async def missing_files(tools: ReplTools, session: ReplSession) -> tuple[str, ...]:
    """Take back a submission that names a file which code has not written, and say so; nothing otherwise."""
    if tools.submitted is None or not tools.signature.writes_files:
        return ()
    problem = missing(tools.submitted, await session.collect())
    if problem is None:
        return ()
    rejected = tools.signature.outputs_to_json(tools.submitted)
    tools.reopen()
    tools.rejected = rejected
    return (f"SUBMIT was not accepted. {problem}",)


def take_files(result: ExecutionResult[Any], files: Sequence[sandbox.WrittenFile], emit: Emitter) -> None:
    """Give the files of the outputs their content, and put all that code wrote on record."""
    if not isinstance(result, Failed):
        fill(result.outputs, tuple(files))
    if files:
        emit(event_data.files_written(emit.run_id, files))
