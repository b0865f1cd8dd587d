"""`rlm view` as people type it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.support.viewer_runs import ended, iteration, started, tell

RUN = "d" * 12
_RLM = [sys.executable, "-c", "from rlm.cli import main; main()", "view"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("command-home")
    now = time.time()
    tell(
        home, [started(RUN, now, doc="x"), *iteration(RUN, 1, now, code="x = 1", output="1"), ended(RUN, now, {"a": 1})]
    )
    hidden = ("DISPLAY", "WAYLAND_DISPLAY")
    return {name: value for name, value in os.environ.items() if name not in hidden} | {"RLM_HOME": str(home)}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_RLM, *arguments], env=environment, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_it_prints_its_address_and_ends_quietly(environment: dict[str, str], host: str) -> None:
    command = [*_RLM, RUN[:5], "--host", host]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            place, _, fragment = address.partition("#")
            assert fragment == f"/run/{RUN}"
            path = "/" + place.split("/", 3)[3]
            port = place.split("/")[2].rpartition(":")[2]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}api/runs/{RUN}", timeout=60) as answer:
                assert b'"ending":"submitted"' in answer.read()
            process.send_signal(signal.SIGINT)
            out, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert out == ""
    assert "Traceback" not in said
    assert said.splitlines()[-1] == "Ctrl-C ends it."
    assert ("Warning: 0.0.0.0 can be reached from other machines" in said) == (host == "0.0.0.0")
    assert len(path) > 32


def test_a_run_becomes_a_file(environment: dict[str, str], tmp_path: Path) -> None:
    target = tmp_path / "new" / "run.html"
    done = run(environment, RUN[:5], "--export", str(target))
    assert done.returncode == 0, done.stderr
    assert f"Wrote {target}" in done.stderr
    assert RUN in target.read_text(encoding="utf-8")


def test_mistakes_are_said(environment: dict[str, str], tmp_path: Path) -> None:
    done = run(environment, "zzz")
    assert done.returncode == 2
    assert "no recorded run has an id that begins with 'zzz'" in done.stderr
    done = run(environment, "--export", str(tmp_path / "x.html"))
    assert done.returncode == 2
    assert "Say which run to export" in done.stderr
