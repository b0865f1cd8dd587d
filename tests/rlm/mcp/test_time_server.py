"""A server from the registry, used by the example task."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import rlm

pytest.importorskip("mcp")
pytest.importorskip("mcp_server_time")

EXAMPLE = Path(__file__).parents[3] / "examples" / "mcp.yaml"


def test_the_example_runs_with_a_server_from_the_registry() -> None:
    assert shutil.which("mcp-server-time", path=str(Path(sys.executable).parent))
    task = rlm.load_task(EXAMPLE)
    result = rlm.run_task(task, record=False)
    assert task.mcp is not None
    task.mcp.close()
    assert isinstance(result, rlm.Submitted)
    # Oslo has summer time and Tokyo has not.
    assert result.outputs.arrivals["06:40"] in ("13:40", "14:40")
    assert [call.name for call in result.history[1].calls] == ["mcp_batch"]
