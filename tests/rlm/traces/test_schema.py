"""Files of earlier and later versions: an older one is upgraded, a newer one is left alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from rlm.traces import TraceWriter, load
from rlm.traces import schema as schema_module
from rlm.traces.schema import MIGRATIONS, VERSION, upgrade, version_of
from tests.support.events import make_event

_VERSION_1 = Path(__file__).with_name("version_1.sql").read_text()


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    path = tmp_path / "traces" / "20231114T221320-1-00000000.db"
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.executescript(_VERSION_1)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    return path


def _version(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return version_of(connection)
    finally:
        connection.close()


def test_an_older_file_is_read_without_being_changed(old_file: Path, tmp_path: Path) -> None:
    before = old_file.read_bytes()
    ended, unfinished = sorted(load(tmp_path), key=lambda run: run.started)

    assert ended.answer == 'arrivals: 389, ports: ["Hull", "Antwerp"]'
    assert (ended.task, ended.model, ended.ending) == ("harbour.yaml", "openai/gpt-5-mini", "submitted")
    assert ended.inputs() == {"log": "The harbour log of 1897. " * 40}
    assert ended.iterations[0].output == "1000"
    assert unfinished.ending == "unfinished"
    assert _version(old_file) == 1
    assert old_file.read_bytes() == before


def test_a_writer_upgrades_the_older_file_that_it_takes_up(old_file: Path, tmp_path: Path) -> None:
    with TraceWriter(tmp_path) as writer:
        writer(make_event("run_started", "c" * 12, {"signature": {"name": "New"}, "inputs": {}}))
        writer(make_event("run_ended", "c" * 12, {"ending": "Failed", "reason": "why not"}))
        assert writer.flush(30)
        assert writer.path == old_file
    assert _version(old_file) == VERSION
    found = {run.id: run for run in load(tmp_path)}
    assert found["0123456789ab"].answer == 'arrivals: 389, ports: ["Hull", "Antwerp"]'
    assert found["ba9876543210"].ending == "unfinished"
    assert found["c" * 12].ending == "failed"


def test_an_upgrade_that_fails_changes_nothing(old_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half_done(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE runs ADD COLUMN half TEXT")
        raise ValueError("no further")

    monkeypatch.setattr(schema_module, "MIGRATIONS", (MIGRATIONS[0], half_done))
    connection = sqlite3.connect(old_file, isolation_level=None)
    with pytest.raises(ValueError, match="no further"):
        upgrade(connection)
    columns = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
    version = version_of(connection)
    connection.close()
    assert "half" not in columns
    assert version == 1


def test_a_file_of_a_later_version_is_named_and_left_alone(old_file: Path, tmp_path: Path) -> None:
    connection = sqlite3.connect(old_file)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    with TraceWriter(tmp_path) as writer:
        writer(make_event("run_started", "d" * 12, {"signature": {"name": "New"}, "inputs": {}}))
        assert writer.flush(30)
        assert writer.path != old_file
    runs = load(tmp_path)
    assert [run.id for run in runs] == ["d" * 12]
    assert len(runs.skipped) == 1
    assert old_file.name in runs.skipped[0]
    assert _version(old_file) == VERSION + 1


def test_every_version_has_its_step() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    upgrade(connection)
    version = version_of(connection)
    connection.close()
    assert version == VERSION == len(MIGRATIONS)
