"""The output that the README shows is what the command prints."""

from __future__ import annotations

import re
from typing import Any

import pytest

import rlm.cli
from tests.support.repository import ROOT

_SHOWN = re.compile(r"^```\n\$ rlm (.*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_output_that_the_readme_shows_is_printed(tmp_path: Any, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    monkeypatch.chdir(ROOT)
    ((command, shown),) = _SHOWN.findall((ROOT / "README.md").read_text())
    with pytest.raises(SystemExit):
        rlm.cli.main(command.split())
    printed = [line.rstrip("─ ") for line in capsys.readouterr().out.splitlines()]
    parts = [part.strip("\n").splitlines() for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)]
    for part in filter(None, parts):
        lines = [line.rstrip("─ ") for line in part]
        places = [place for place, line in enumerate(printed) if line == lines[0]]
        assert any(printed[place : place + len(lines)] == lines for place in places), lines
