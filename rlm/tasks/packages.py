"""The packages of a task: installed once, for a pool of kernels that have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..files import home
from .errors import TaskError, TaskProblem

if TYPE_CHECKING:
    from .task import Task


def task_packages(task: Task) -> dict[str, Any]:
    """Return the pool of kernels with the packages of a task, and their names, as options of a `RunConfig`.

    They are installed if need be. Raise `TaskError` where that fails.
    """
    if task.packages is None:
        return {}
    from sandbox import KernelStartError, packages

    try:
        folder = packages.install(task.packages, home() / "packages")
    except KernelStartError as error:
        raise TaskError([TaskProblem(str(task.path or task.packages), f"sandbox.packages: {error}")]) from None
    return {"pool": packages.pool_with(folder), "packages": packages.installed(folder)}
