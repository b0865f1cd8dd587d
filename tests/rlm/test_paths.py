"""Where rlm's own files are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rlm.files import home


def test_the_environment_names_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "own"))
    assert home() == tmp_path / "own"


@pytest.mark.skipif(sys.platform != "linux", reason="XDG folders")
def test_without_it_the_folder_is_where_earlier_versions_looked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("RLM_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert home() == tmp_path / ".local" / "share" / "rlm"
    assert not home().exists()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert home() == tmp_path / "data" / "rlm"
