"""Summaries and comparisons in terminals of any width: nothing is cut, and no note speaks of what is not there."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rlm.cli.console import print_page
from rlm.cli.pages.eval_comparison import comparison_page
from rlm.cli.pages.evaluation import summary_page
from rlm.evals.compare import compare_logs
from rlm.evals.log import EvalLog, LogEntry, read_log
from rlm.evals.summary import summarize
from tests.support.eval_logs import entry, write

SUITES = [{"name": name, "path": None} for name in ("needle-values", "count")]
ENDINGS = ("Submitted", "Extracted", "Failed")


def entries(low: float = 0.0) -> list[LogEntry]:
    """Twelve samples of one suite, three of the other."""
    return [
        entry(f"{suite}-{n}", low if n % 3 else 1.0, suite=suite, ending=ENDINGS[n % 3])
        for suite, many in (("count", 12), ("needle-values", 3))
        for n in range(many)
    ]


def shown(page: object) -> str:
    output = io.StringIO()
    print_page(page, output)  # type: ignore[arg-type]
    return output.getvalue()


@pytest.fixture
def log(tmp_path: Path) -> EvalLog:
    return read_log(write(tmp_path / "log", entries(), suites=SUITES))


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_a_summary_fits(log: EvalLog, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    said = shown(summary_page(log.header, summarize(log)))
    lines = said.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in said
    header, first, second, both = lines[1:5]
    assert [line.split()[0] for line in (first, second, both)] == ["needle-values", "count", "all"]
    assert "0.333" in first
    note = lines[-1]
    assert [name for name in ("tokens", "cost", "time") if name in note.lower()] == [
        name for name in ("tokens", "cost", "time") if name in header
    ]


def test_an_ending_is_not_wrapped_at_eighty_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    made = [entry(f"s{n}", n % 2, suite="needle-values") for n in range(54)]
    log = read_log(write(tmp_path / "log", made, suites=SUITES))
    header, row, empty = shown(summary_page(log.header, summarize(log))).splitlines()[1:4]
    assert row.split()[header.split().index("submitted") + 1] == "54"  # the score is two words
    assert empty == ""


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_comparison_fits_and_marks_small_groups(
    log: EvalLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    other = read_log(write(tmp_path / "other", entries(0.5), suites=SUITES))
    said = shown(comparison_page(compare_logs(log, other, resamples=200), 200))
    assert max(map(len, said.splitlines())) <= width
    assert "…" not in said
    counts = {line.split()[0]: line.split()[2] for line in said.splitlines() if " 4k " in line}
    assert counts == {"count": "12", "needle-values": "3*"}
    assert "* fewer than 10 samples: the interval is too narrow." in said
    assert "0.000 → 0.500" in said


def test_equal_logs_are_not_said_to_be_never_better(log: EvalLog, tmp_path: Path) -> None:
    other = read_log(write(tmp_path / "other", entries(), suites=SUITES))
    rows = [
        line
        for line in shown(comparison_page(compare_logs(log, other, resamples=200), 200)).splitlines()
        if "to" in line
    ]
    assert [line.split()[-1] for line in rows if "+0.000 to +0.000" in line] == ["-", "-", "-"]


def test_large_groups_have_no_mark(tmp_path: Path) -> None:
    one, two = (
        read_log(write(tmp_path / name, [entry(f"s{n}", float(n > low)) for n in range(10)]))
        for name, low in (("one", 5), ("two", 2))
    )
    assert "*" not in shown(comparison_page(compare_logs(one, two, resamples=200), 200))
