"""The mode of a task, and the plan of its map."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm.reading import MODES, MapPlan
from rlm.tasks import Overrides, TaskError, load

TASK = """\
signature: "docs: list[str] -> topics: dict[str, int]"
inputs: {docs: [a, b]}
models: openai/gpt-5-mini
"""
MAP = "map: {over: docs, question: 'What is it about?', type: [war, trade], parallel: 4}\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "task.yaml"
    path.write_text(text)
    return path


def test_a_file_that_does_not_say_is_for_the_repl(tmp_path: Path) -> None:
    task = load(written(tmp_path, TASK))
    assert (task.mode, task.map) == ("repl", None)


@pytest.mark.parametrize("mode", MODES)
def test_the_file_or_the_command_line_says_the_mode(tmp_path: Path, mode: str) -> None:
    assert load(written(tmp_path, f"{TASK}mode: {mode}\n")).mode == mode
    path = written(tmp_path, TASK)
    assert load(path, Overrides(mode=mode)).mode == mode  # type: ignore[arg-type]


def test_a_plan_implies_the_mode(tmp_path: Path) -> None:
    task = load(written(tmp_path, TASK + MAP))
    assert task.mode == "map"
    assert task.map == MapPlan("docs", "What is it about?", ["war", "trade"], parallel=4)
    assert load(written(tmp_path, f"{TASK}{MAP}mode: auto\n")).mode == "auto"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("mode: maps\n", "mode"),
        (MAP.replace("over: docs", "over: dogs"), "'dogs' is no input; inputs are docs"),
        (MAP.replace("parallel", "paralel"), "paralel"),
        (MAP.replace("type:", "reduce: counts, type:"), "reduce"),
    ],
)
def test_mistakes_are_found_by_a_check(tmp_path: Path, change: str, problem: str) -> None:
    with pytest.raises(TaskError, match=problem):
        load(written(tmp_path, TASK + change))
