"""Runs on a kernel that another provisioner started, over TCP and in another network where that can be made."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import rlm
import sandbox
from rlm.models.scripted import scripted_lm
from tests.support import far_kernel
from tests.support.replies import cell

pytest.importorskip("ipykernel")
pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("jupyter")]

LOG = "Olga waited 10\nIngrid waited 95\n"


@pytest.fixture(scope="module")
def namespace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | None]:
    with far_kernel.far_kernel(tmp_path_factory.mktemp("jupyter")) as namespace:
        yield namespace


def test_a_run_with_host_calls_and_evidence(namespace: str | None) -> None:
    networks = []

    def seen(pid: int) -> str:
        """Note the kernel's network."""
        networks.append(os.readlink(f"/proc/{pid}/ns/net"))
        return "noted"

    replies = [
        cell("print(seen(PID), llm_query('which ship?'))"),
        cell("waits = {line.split()[0]: int(line.split()[-1]) for line in log.splitlines()}"),
        cell("SUBMIT(minutes=waits['Ingrid'])"),
    ]
    predict = rlm.Predict(
        "log: str -> minutes: int",
        lm=scripted_lm(replies),
        sub_lm=scripted_lm({"*": "Ingrid"}, "scripted/sub"),
        tools=[seen],
        setup_code="import os\nPID = os.getpid()",
        sandbox=rlm.SandboxSettings(kernel_name=far_kernel.NAME),
    )
    result = predict.start(log=LOG).result()
    assert isinstance(result, rlm.Submitted), result
    assert result.outputs.minutes == 95
    assert result.history[0].output == "noted Ingrid"
    assert result.usage.llm_calls == 1
    (network,) = networks
    assert (network != os.readlink("/proc/self/ns/net")) is (namespace is not None)
    (evidence,) = result.evidence
    assert (evidence.path, evidence.kind, evidence.inputs) == ("/minutes", "computed", ("log",))
    assert [step.iteration for step in evidence.chain] == [2, 3]


def test_budgets_hold_and_live_variables_are_extracted(namespace: str | None) -> None:
    replies = [cell("minutes = int(log.split()[-1])"), cell("while True: pass")]
    predict = rlm.Predict(
        "log: str -> minutes: int",
        lm=scripted_lm(replies),
        extraction_lm=scripted_lm(['{"minutes": 95}'], "scripted/extraction"),
        max_iterations=2,
        sandbox=rlm.SandboxSettings(kernel_name=far_kernel.NAME, limits=sandbox.Limits(cell_seconds=1.0)),
    )
    result = predict.start(log=LOG).result()
    assert isinstance(result, rlm.Extracted), result
    assert result.outputs.minutes == 95
    assert "CellTimeLimit" in result.history[1].output
    assert "\x1b" not in result.history[1].output
    assert str(result.reason) == "2 of 2 iterations used without SUBMIT"
