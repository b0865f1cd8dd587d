"""Every way in which a batch cannot begin or go on. What is wrong with a task or a row is a `TaskError`."""

from __future__ import annotations

import errno

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class BatchError(Exception):
    """The batch cannot begin or go on. What was done before is kept."""


class BatchTaken(BatchError):
    """Another process is working on this batch."""


class ForeignResults(BatchError):
    """The file for the results holds something else."""


class Unwritable(BatchError):
    """Results or ledger cannot be written, and the message says what to do."""


class NoRoom(Unwritable):
    """Results or ledger cannot be written, because the disk is full."""


class Unfit(BatchError):
    """A machine lacks what every item needs: isolation, say."""


def unwritable(what: str, error: Exception, elsewhere: str, *, full: bool = False) -> Unwritable:
    """Why `what` cannot be written, with advice that fits; `elsewhere` is the advice where there is room enough."""
    said = f"{what} cannot be written ({getattr(error, 'strerror', None) or error})"
    if full or (isinstance(error, OSError) and error.errno in _FULL):
        return NoRoom(f"{said}; make room, and the same command goes on")
    return Unwritable(f"{said}; {elsewhere}")
