"""The probe: what it sees here, and what it makes of machines that can do less."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.errors import IsolationUnavailable
from sandbox.isolation import probe as module
from sandbox.isolation.confinement import LAYERS, TIERS
from sandbox.isolation.probe import Finding, Report, best_tier, choose_layers, choose_tier, probe
from tests.support.isolation.child_process import run
from tests.support.isolation.marks import linux, root


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    probe.cache_clear()


def report_of(*working: str) -> Report:
    findings = tuple(
        Finding(layer, layer in working, f"{layer} was tried", "" if layer in working else f"get {layer}")
        for layer in sorted(LAYERS)
    )
    return Report(findings, best_tier(frozenset(working)))


@linux
def test_every_layer_is_tried_and_says_what_it_saw() -> None:
    report = probe()
    assert {finding.layer for finding in report.findings} == LAYERS
    for finding in report.findings:
        assert finding.detail
        assert bool(finding.advice) != finding.works


@linux
def test_the_answer_is_kept() -> None:
    assert probe() is probe()


def selftests_here(layers: list[str]) -> dict[str, list[Any]]:
    import io
    import json
    import sys

    from sandbox.isolation import selftest

    sys.stdin = io.StringIO(json.dumps({"read_only": ["/usr", "/bin", "/lib", "/lib64"]}))
    output = sys.stdout = io.StringIO()
    selftest.main()
    sys.stdout = sys.__stdout__
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    return {layer: [works, detail] for layer, works, detail in lines}


@linux
@root
def test_an_ordinary_user_gets_the_same_tiers_or_hears_why_not() -> None:
    results = run(selftests_here, [], ordinary=True)
    assert set(results) == LAYERS
    for layer in ("seccomp", "rlimits", "user"):
        assert results[layer][0], results[layer][1]
    assert all(detail for _, detail in results.values())


def test_a_broken_interpreter_is_a_finding_and_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.sys, "executable", "/nowhere/python")
    monkeypatch.setattr(module.platform, "system", lambda: "Linux")
    report = probe.__wrapped__()
    assert report.tier is None
    assert all("could not be run" in finding.detail for finding in report.findings)


def test_tests_that_never_end_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: Any, **options: Any) -> Any:
        raise subprocess.TimeoutExpired("python", 20)

    monkeypatch.setattr(module.subprocess, "run", never)
    monkeypatch.setattr(module.platform, "system", lambda: "Linux")
    assert probe.__wrapped__().tier is None


def test_an_unknown_system_has_no_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.platform, "system", lambda: "Plan9")
    report = probe.__wrapped__()
    assert report.tier is None
    assert "Plan9" in report.findings[0].detail


@pytest.mark.parametrize(
    ("working", "tier"),
    [
        (LAYERS, "namespaces"),
        (LAYERS - {"cgroup"}, "namespaces"),
        (LAYERS - {"landlock"}, "namespaces"),
        (LAYERS - {"namespaces"}, "landlock"),
        (LAYERS - {"namespaces", "cgroup"}, "landlock"),
        (LAYERS - {"namespaces", "landlock"}, None),
        (LAYERS - {"seccomp"}, None),
        (LAYERS - {"rlimits"}, None),
        (LAYERS - {"user"}, None),
        (frozenset(), None),
        (frozenset({"seatbelt"}), "seatbelt"),
    ],
)
def test_the_strongest_tier_that_works_is_chosen(working: frozenset[str], tier: str | None) -> None:
    assert best_tier(working) == tier


def test_only_layers_that_work_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "probe", lambda: report_of("namespaces", "seccomp", "rlimits", "user"))
    assert choose_tier("auto").tier == "namespaces"
    assert choose_layers("auto") == {"namespaces", "seccomp", "rlimits", "user"}


def test_a_tier_that_does_not_work_is_refused_with_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "probe", lambda: report_of("landlock", "seccomp", "rlimits", "user"))
    assert choose_tier("auto").tier == "landlock"
    with pytest.raises(IsolationUnavailable) as caught:
        choose_tier("namespaces")
    assert "namespaces was tried" in str(caught.value)
    assert "get namespaces" in str(caught.value)


def test_when_nothing_works_every_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "probe", lambda: report_of("rlimits"))
    with pytest.raises(IsolationUnavailable) as caught:
        choose_tier("auto")
    for layer in LAYERS - {"rlimits"}:
        assert f"get {layer}" in str(caught.value)


def test_none_has_to_be_asked_for_and_is_not_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "probe", lambda: pytest.fail("it was probed"))
    assert choose_layers("none") == TIERS["none"] == {"rlimits"}


def test_an_unknown_tier_is_an_error() -> None:
    with pytest.raises(ValueError, match="no such isolation"):
        choose_tier("docker")


@linux
def test_seatbelt_is_refused_on_linux() -> None:
    with pytest.raises(IsolationUnavailable):
        choose_tier("seatbelt")


def test_on_a_mac_the_profile_is_run_for_real(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def fake(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, answers.pop(0), "")

    answers = ["refused\n", ""]
    monkeypatch.setattr(module.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(module.seatbelt, "SANDBOX_EXEC", sys.executable)
    monkeypatch.setattr(module.subprocess, "run", fake)
    assert probe.__wrapped__().tier == "seatbelt"
    assert probe.__wrapped__().tier is None
    assert all(command[1] == "-p" for command in commands)


def test_a_mac_without_sandbox_exec_has_no_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(module.seatbelt, "SANDBOX_EXEC", "/nowhere/sandbox-exec")
    assert probe.__wrapped__().tier is None
