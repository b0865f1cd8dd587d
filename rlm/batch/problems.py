"""Every way in which a batch cannot begin or go on. What is wrong with a task or a row is a `TaskError`."""

from __future__ import annotations


class BatchError(Exception):
    """The batch cannot begin or go on. What was done before is kept."""


class BatchTaken(BatchError):
    """Another process is working on this batch."""


class ForeignResults(BatchError):
    """The file for the results holds something else."""


class NoRoom(BatchError):
    """Results or ledger cannot be written: the disk is full, say."""


class Unfit(BatchError):
    """A machine lacks what every item needs: isolation, say."""
