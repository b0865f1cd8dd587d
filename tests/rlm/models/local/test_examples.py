"""`rlm run examples/local/*.yaml`, with a few of their items: no key, no network, and it says which part is whose."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlm.models.local.embedded import embedded_gguf
from tests.support.repository import EXAMPLES

pytestmark = pytest.mark.weights

LOCAL = EXAMPLES / "local"


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Runs an example with the first few of its items, as a user would."""

    def run(name: str, items: int, *options: str) -> subprocess.CompletedProcess[str]:
        embedded_gguf()  # where it is missing, the error says how to get it
        shutil.copytree(LOCAL, tmp_path, dirs_exist_ok=True)
        data, task = tmp_path / f"{name}.json", tmp_path / f"{name}.yaml"
        everything = json.loads(data.read_text())
        data.write_text(json.dumps(everything[:items]))
        task.write_text(task.read_text().replace(f"== {len(everything)}", f"== {items}"))
        keyless = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
        command = [sys.executable, "-m", "rlm.cli", "run", task.name, *options]
        return subprocess.run(command, cwd=tmp_path, env=keyless, capture_output=True, text=True, timeout=200)

    return run


def test_reviews_are_sorted_by_the_embedded_model_and_the_output_says_so(run: Any) -> None:
    done = run("reviews", 4)
    assert done.returncode == 0, done.stderr
    said = " ".join(f"{done.stdout} {done.stderr}".split())
    assert "main and extraction replies were written in advance (reviews.replies.yaml)" in said
    assert "A real model: sub is local/embedded." in said
    assert "4 LLM calls from the code" in said


def test_orders_become_rows_of_the_types_that_were_requested(run: Any) -> None:
    done = run("orders", 3, "--json")
    assert done.returncode == 0, done.stderr
    outputs = json.loads(done.stdout)["outputs"]
    assert len(outputs["rows"]) == 3
    assert all(type(row["quantity"]) is int and row["city"] for row in outputs["rows"])
    assert outputs["numbers_right"] == 3
