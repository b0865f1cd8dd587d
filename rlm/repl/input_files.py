"""The files among the inputs of a run: hashed beside it, on record, and compared with those of the run before it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from ..events import Emitter, FilesHashed
from ..mounts import has_files

if TYPE_CHECKING:
    from ..mounts.hashing import FileHashes
    from .replay import RecordedRun

_logger = logging.getLogger("rlm")


@contextlib.asynccontextmanager
async def hashed_files(inputs: Mapping[str, Any], past: RecordedRun | None, emit: Emitter) -> AsyncIterator[None]:
    """Hash the files of a run while it goes on, and emit what they are. At its end, wait a little for what is left."""
    if not emit.active or not any(map(has_files, inputs.values())):
        yield
        return
    from ..mounts.hashing import WAIT_S, FileHashes

    hashes = FileHashes(inputs)
    task = asyncio.create_task(_hash(hashes, past, emit))
    try:
        yield
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                await asyncio.shield(task)
    finally:
        hashes.stop()  # the thread ends with the piece that it reads
        await asyncio.wait([task])


async def _hash(hashes: FileHashes, past: RecordedRun | None, emit: Emitter) -> None:
    from ..mounts.hashing import differences

    try:
        records = await hashes.records()
        different = differences(past.files, records) if past is not None else []
        files = {place: record.to_dict() for place, record in records.items()}
        emit(FilesHashed(emit.run_id, files, different))
    except Exception:  # a run does not fail because its files could not be hashed
        _logger.exception("the files of run %s could not be hashed", emit.run_id)
