"""The doctor says what runs here, and what to do about what does not."""

from __future__ import annotations

import importlib.metadata
import io
import json
import subprocess
import sys

import pytest
from rich.console import Console

from sandbox import doctor
from sandbox.isolation.probe import Finding, Report


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "sandbox", *arguments], capture_output=True, text=True, timeout=100)


def test_it_prints_the_tier_and_every_layer():
    done = run("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Isolation:" in done.stdout
    for layer in ("namespaces", "landlock", "seccomp", "rlimits", "user", "cgroup", "a session"):
        assert layer in done.stdout


def test_it_speaks_json():
    done = run("doctor", "--json")
    found = json.loads(done.stdout)
    assert found["tier"] in ("namespaces", "landlock", "seatbelt")
    assert all(check["ok"] for check in found["checks"] if check["name"] == "a session")


def test_a_wrong_command_is_a_usage_error():
    assert run("nothing").returncode == 2
    assert run().returncode == 2
    assert "doctor" in run("--help").stdout


def rendered(report, checks=()):
    out = io.StringIO()
    doctor.render(Console(file=out, width=200), report, checks)
    return out.getvalue()


def test_where_nothing_works_it_says_so_and_what_to_do():
    findings = (Finding("landlock", False, "the kernel has none", "use Linux 5.13 [or newer]"),)
    text = rendered(Report(findings, None))
    assert "No isolation works here" in text
    assert "use Linux 5.13 [or newer]" in text


def test_the_exit_code_is_4_where_nothing_works(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "probe", lambda: Report((), None))
    assert doctor.main() == 4


def test_it_notices_another_distribution_that_installs_rlm(monkeypatch):
    owners = {"rlm": ["rlm-kernel", "rlms"]}
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: owners)
    check = doctor._name_clash()
    assert not check.ok
    assert "rlms" in check.detail
    assert "pip uninstall rlms" in check.advice


def test_it_notices_another_rlm_on_the_path(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "packages_distributions", dict)
    monkeypatch.setattr(doctor, "_import_place", lambda: "/elsewhere/rlm/__init__.py")
    check = doctor._name_clash()
    assert not check.ok
    assert "/elsewhere" in check.detail


@pytest.mark.parametrize("missing", ["numpy", "pandas"])
def test_it_notices_missing_data_libraries(monkeypatch, missing):
    real = importlib.metadata.version

    def version(name):
        if name == missing:
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    check = doctor._data_libraries()
    assert (check.ok, missing in check.detail) == (False, True)
