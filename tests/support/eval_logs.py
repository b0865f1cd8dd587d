"""For the tests of evaluations: entries, logs and settings made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rlm.evals.log import LogEntry
from rlm.evals.log_writer import LogWriter

SCRIPT = """main:
  "*": |
    I look for it.
    ```python
    import re, time
    time.sleep({sleep})
    SUBMIT(answer=int(re.search("code ([0-9]+)", doc)[1]))
    ```
extraction: []
"""


def settings(folder: Path, script: str | None = None, *, sleep: float = 0.0, **more: Any) -> Path:
    """A settings file for a model that reads the code out of a sample of `suite`, or says what is in a script."""
    (folder / "replies.yaml").write_text(script or SCRIPT.format(sleep=sleep))
    path = folder / "settings.yaml"
    path.write_text(json.dumps({"models": {"scripted": "replies.yaml"}, "budget": {"max_iterations": 2}, **more}))
    return path


def suite(folder: Path, count: int) -> Path:
    """A suite of short samples: what is the code?"""
    path = folder / "codes.jsonl"
    made = [
        {
            "id": f"code-{n}",
            "signature": "doc: str -> answer: int",
            "instructions": "What is the code?",
            "inputs": {"doc": f"Some words. The code {1000 + n} opens the door."},
            "expected": {"answer": 1000 + n},
        }
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in made))
    return path


def entry(sample: str, score: float = 1.0, *, epoch: int = 1, **more: Any) -> LogEntry:
    """An entry of a sample with one output."""
    about: dict[str, Any] = {"suite": "made", "length": 4_000, "ending": "Submitted", "outputs": {"answer": 1}}
    about |= {"expected": {"answer": 1}, "scores": {"answer": score}, "confidence": 1.0, "run_id": f"run-{sample}"}
    about |= {"usage": {"tokens_in": 10, "tokens_out": 2, "cost_usd": 0.5, "llm_calls": 1}, "seconds": 2.0}
    return LogEntry(**{"sample_id": sample, "epoch": epoch, "score": score, **about, **more})


def header(total: int, **more: Any) -> dict[str, Any]:
    """A header with everything that readers ask for."""
    made: dict[str, Any] = {"format": 1, "versions": {"rlm": "1"}, "suites": [{"name": "made", "path": None}]}
    made |= {"lengths": [4_000], "count": 1, "seed": 1, "epochs": 1, "total": total, "baseline": None}
    made |= {"models": {"main": "made/main"}, "configuration": {"budget": {}}, "started": "2030-01-01T00:00:00+00:00"}
    return {**made, **more}


def write(folder: Path, entries: Iterable[LogEntry], **more: Any) -> Path:
    """A log with these entries."""
    made = list(entries)
    with LogWriter(folder, header(len(made), **more)) as writer:
        for one in made:
            writer.append(one)
    return folder
