"""Replay of a recorded run: no model is asked, no tool is called, and differences are reported."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .events import Event, FilesHashed, Observer, ReplayDiffered, fan_out, ignore
from .models.scripted import scripted_lm
from .repl.config import RunConfig
from .results import ExecutionResult
from .tasks.packages import task_packages
from .traces import recorded_run

if TYPE_CHECKING:
    from .tasks import Task
    from .traces import RunRecord


@dataclass(frozen=True)
class OutputDifference:
    """A cell whose output differs from the recorded one."""

    iteration: int
    recorded: str
    now: str


@dataclass(frozen=True)
class Replay:
    """The outcome of a replay."""

    result: ExecutionResult[Any]
    iterations: int
    differences: tuple[OutputDifference, ...]
    recorded_ending: str
    recorded_outputs: Any
    file_differences: tuple[str, ...] = ()
    """Which files among the inputs are not what they were, and in what."""

    @property
    def unfinished(self) -> bool:
        """Whether the record ends before the run did."""
        return self.recorded_ending in ("running", "unfinished")

    @property
    def same_ending(self) -> bool:
        """Whether the replay had the same ending with the same outputs."""
        now = self.result.to_dict()
        return self.unfinished or (now["status"], now.get("outputs")) == (self.recorded_ending, self.recorded_outputs)

    @property
    def same(self) -> bool:
        """Whether ending, outputs of all cells and files among the inputs are as recorded."""
        return self.same_ending and not self.differences and not self.file_differences


async def replay(run: RunRecord, task: Task, *, observe: Observer = ignore) -> Replay:
    """Replay a recorded run. Tools are not called: their answers are on record, too."""
    differences: list[OutputDifference] = []
    different_files: list[str] = []

    def look(event: Event) -> None:
        if isinstance(event, ReplayDiffered):
            differences.append(OutputDifference(event.iteration, event.recorded, event.now))
        elif isinstance(event, FilesHashed):
            different_files.extend(event.different)

    before, result = recorded_run(run), run.result() or {}
    # A run of a plan had a share of its task's budget.
    limits = {name: limit for name, limit in (run.beginning.get("trigger") or {}).items() if limit is not None}
    extracted = [prompt.reply for prompt in run.prompts() if prompt.role == "extraction" and prompt.reply is not None]
    driver = RunConfig(
        task.signature,
        scripted_lm([], "recorded/main"),
        scripted_lm([], "recorded/sub"),
        scripted_lm(extracted, "recorded/extraction"),
        trigger=dataclasses.replace(task.trigger, **limits),
        limits=task.limits,
        isolation=task.isolation,
        policy=task.policy,
        tools=task.tools,
        checks=tuple(task.checks),
        depth=task.depth,
        guidance=task.guidance,
        observe=fan_out(look, observe),
        **task_packages(task),
    )
    if task.mcp is not None:
        from .mcp.run_tools import with_servers

        driver = with_servers(driver, task.mcp)
    made = await driver.run(task.inputs, past=before)
    recorded = (run.ending, result.get("outputs"))
    return Replay(made, len(before.iterations), tuple(differences), *recorded, tuple(different_files))
