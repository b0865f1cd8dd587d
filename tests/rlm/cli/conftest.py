"""For the tests of the command line: commands as people type them. A process of its own for each takes seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rlm.cli
from rlm.traces import writer as writer_module

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Runs a command in the test's folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            rlm.cli.main(list(arguments))
        assert isinstance(ended.value.code, int)
        return ended.value.code, *capfd.readouterr()

    yield run
    for writer in writer_module._writers:  # each has a thread and a file
        if writer.folder.is_relative_to(tmp_path):
            writer.close()
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(f"{tmp_path}/"):  # the next test has one of that name
            del sys.modules[name]
