"""Exceptions of a batch as a whole. A mistake in a task or a row is a `TaskError`.

BatchError
├── BatchInUse            another process runs this batch
├── ForeignResultsFile    the results file holds something else
├── DuplicateNames        two items have the same name (`ledger.py`)
├── NotWritable           results or ledger cannot be written
│   └── DiskFull          there is no space for them
├── MachineUnfit          a machine lacks what every item needs
└── ExecutorError         the workers cannot be started
"""

from __future__ import annotations

import errno

from ..errors import RlmError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class BatchError(RlmError):
    """The batch cannot start or continue. Finished items stay recorded."""


class BatchInUse(BatchError):
    """Another process is running this batch."""


class ForeignResultsFile(BatchError):
    """The results file holds something that no batch has written."""


class NotWritable(BatchError):
    """The results or the ledger cannot be written; the message says what to do."""


class DiskFull(NotWritable):
    """The results or the ledger cannot be written because the disk is full."""


class MachineUnfit(BatchError):
    """A machine lacks what every item needs, such as isolation."""


class ExecutorError(BatchError):
    """The executor cannot continue: its workers do not start, say. Finished items stay recorded."""


def not_writable(path: str, error: Exception, advice: str, *, full: bool = False) -> NotWritable:
    """Return the error for a file that cannot be written; `advice` is what to do if the disk is not full."""
    message = f"{path} cannot be written ({getattr(error, 'strerror', None) or error})"
    if full or (isinstance(error, OSError) and error.errno in _FULL):
        return DiskFull(f"{message}; free some space, and the same command continues")
    return NotWritable(f"{message}; {advice}")
