"""The macOS profile by its parts. It is run for real by the probe, on a Mac."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sandbox.isolation import seatbelt


def balanced(text: str) -> bool:
    depth = 0
    for character in re.sub(r'"(?:[^"\\]|\\.)*"', "", text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return False
    return depth == 0


@pytest.fixture
def text(tmp_path: Path) -> str:
    for name in ("python", "box"):
        (tmp_path / name).mkdir()
    return seatbelt.profile(f"{tmp_path}/python/bin/python", [f"{tmp_path}/python"], f"{tmp_path}/box")


def test_everything_is_denied_first(text: str) -> None:
    assert text.splitlines()[:2] == ["(version 1)", "(deny default)"]
    assert balanced(text)


def test_no_rule_allows_the_network_or_everything(text: str) -> None:
    assert "(allow default" not in text
    assert not re.search(r"\(allow [^)]*network", text)
    assert "(deny network*)" in text
    assert "mach-lookup" not in text


def test_only_the_scratch_and_two_devices_can_be_written(text: str, tmp_path: Path) -> None:
    rules = re.findall(r"\(allow ([^\n]*)\n((?:    .*\n?)+)", text)
    written = [filters for operations, filters in rules if "write" in operations]
    paths = re.findall(r'"([^"]*)"', "".join(written))
    assert sorted(paths) == sorted([str((tmp_path / "box").resolve()), "/dev/null", "/dev/zero"])


def test_only_the_interpreter_can_be_started(text: str, tmp_path: Path) -> None:
    (filters,) = re.findall(r"\(allow process-exec\n((?:    .*\n)+)", text)
    assert re.findall(r'"([^"]*)"', filters) == [f"{tmp_path.resolve()}/python/bin/python"]


def test_the_directories_above_are_only_looked_at(text: str, tmp_path: Path) -> None:
    (filters,) = re.findall(r"\(allow file-read-metadata\n((?:    .*\n)+)", text)
    assert f'(literal "{tmp_path.resolve()}")' in filters
    assert '(literal "/")' in filters
    assert "subpath" not in filters


def test_links_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    text = seatbelt.profile("/usr/bin/python3", [], str(tmp_path / "link"))
    assert f'(subpath "{tmp_path.resolve()}/real")' in text


def test_a_path_cannot_break_out_of_its_string(tmp_path: Path) -> None:
    evil = tmp_path / 'x") (allow default) ("'
    evil.mkdir()
    text = seatbelt.profile("/usr/bin/python3", [str(evil)], str(tmp_path))
    assert balanced(text)
    assert "(allow default)" not in re.sub(r'"(?:[^"\\]|\\.)*"', "", text)


def test_a_path_with_a_line_break_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="control character"):
        seatbelt.profile("/usr/bin/python3", [f"{tmp_path}/a\nb"], str(tmp_path))


def test_the_command_runs_the_program_under_the_profile(tmp_path: Path) -> None:
    argv = ["/usr/bin/python3", "-c", "pass"]
    command = seatbelt.command(argv, ["/usr"], str(tmp_path))
    assert command[:2] == ["/usr/bin/sandbox-exec", "-p"]
    assert command[2].startswith("(version 1)")
    assert command[3:] == argv


def test_a_program_is_named_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="absolute path"):
        seatbelt.command(["python"], [], str(tmp_path))
