"""Two logs compared: numbers that are known, the same ones each time, and what cannot be compared."""

from __future__ import annotations

import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

import pytest

from rlm.cli.pages.eval_comparison import verdict
from rlm.evals.compare import Comparison, compare_logs
from rlm.evals.log import EvalLogError, read_log
from tests.support.eval_logs import entry, write


def compared(folder: Path, first: list[Any], second: list[Any], **options: Any) -> Comparison:
    logs = [read_log(write(folder / name, entries)) for name, entries in (("one", first), ("two", second))]
    return compare_logs(*logs, **options)


def test_a_log_and_itself_do_not_differ(tmp_path: Path) -> None:
    entries = [entry(f"s{n}", n / 10) for n in range(10)]
    found = compared(tmp_path, entries, entries)
    assert (found.all.difference, found.all.low, found.all.high) == (0, 0, 0)
    assert (found.all.better, found.all.worse) == (0, 0)
    assert found.better == found.worse == found.settings == ()


def test_few_samples_are_not_taken_for_many(tmp_path: Path) -> None:
    for many, told in ((3, True), (12, False)):
        one = read_log(write(tmp_path / f"a{many}", [entry(f"s{n}", 0.0) for n in range(many)]))
        two = read_log(write(tmp_path / f"b{many}", [entry(f"s{n}", 1.0) for n in range(many)]))
        assert ("With so few samples it is too narrow" in verdict(compare_logs(one, two).all)) is told


def test_the_same_gain_everywhere_is_certain(tmp_path: Path) -> None:
    first = [entry(f"s{n}", n / 20) for n in range(10)]
    second = [entry(f"s{n}", n / 20 + 0.25) for n in range(10)]
    found = compared(tmp_path, first, second)
    # Paired: the scores themselves are far apart, their differences are all the same.
    assert (found.all.low, found.all.high) == (pytest.approx(0.25), pytest.approx(0.25))
    assert (found.all.better, found.all.worse) == (1, 0)
    assert len(found.better) == 10


def test_the_interval_is_about_two_standard_errors_wide(tmp_path: Path) -> None:
    dice = random.Random(7)
    gains = [dice.choice([-0.25, 0.0, 0.25, 0.5]) for _ in range(200)]
    first = [entry(f"s{n}", 0.5) for n in range(200)]
    second = [entry(f"s{n}", 0.5 + gain) for n, gain in enumerate(gains)]
    found = compared(tmp_path, first, second, resamples=4_000).all
    error = statistics.stdev(gains) / math.sqrt(200)
    assert found.difference == pytest.approx(statistics.mean(gains))
    assert found.difference - found.low == pytest.approx(1.96 * error, rel=0.1)
    assert found.high - found.difference == pytest.approx(1.96 * error, rel=0.1)


def test_the_same_seed_gives_the_same_interval(tmp_path: Path) -> None:
    first = [entry(f"s{n}", 0.5) for n in range(30)]
    second = [entry(f"s{n}", (n * 7 % 11) / 10) for n in range(30)]
    logs = [read_log(write(tmp_path / name, entries)) for name, entries in (("one", first), ("two", second))]
    one, again, other = (compare_logs(*logs, seed=seed, resamples=500).all for seed in (1, 1, 2))
    assert one == again
    assert (one.low, one.high) != (other.low, other.high)


def test_epochs_are_averaged_and_changes_are_named_with_their_runs(tmp_path: Path) -> None:
    first = [entry("a", 1.0), entry("a", 0.0, epoch=2, run_id="later"), entry("b", 1.0), entry("c", 0.0)]
    second = [entry("a", 1.0, run_id="new-a"), entry("b", 0.0, run_id="new-b"), entry("c", 0.0)]
    found = compared(tmp_path, first, second)
    assert found.all.first == pytest.approx(0.5)
    (better,), (worse,) = found.better, found.worse
    assert (better.sample_id, better.first.score, better.second.score) == ("a", 0.5, 1.0)
    assert (better.first.runs, better.second.runs) == (("run-a", "later"), ("new-a",))
    assert worse.sample_id == "b"
    json.dumps(found.to_dict())


def test_groups_are_suites_and_lengths_and_what_only_one_log_has_is_left_out(tmp_path: Path) -> None:
    def log(gain: float) -> list[Any]:
        made = [("x", 4_000, 0), ("x", 64_000, gain), ("y", 4_000, gain), ("y", 64_000, gain)]
        return [entry(f"{suite}-{length}", score, suite=suite, length=length) for suite, length, score in made]

    found = compared(tmp_path, [*log(0.0), entry("old")], [*log(1.0), entry("new"), entry("newer")])
    by = {(one.suite, one.length): (one.samples, one.difference) for one in found.groups}
    assert by == {
        ("x", 4_000): (1, 0),
        ("x", 64_000): (1, 1),
        ("x", None): (2, 0.5),
        ("y", 4_000): (1, 1),
        ("y", 64_000): (1, 1),
        ("y", None): (2, 1),
        (None, 4_000): (2, 0.5),
        (None, 64_000): (2, 1),
    }
    assert (found.all.samples, found.only_first, found.only_second) == (4, 1, 2)


def test_logs_without_common_samples_are_refused(tmp_path: Path) -> None:
    one = read_log(write(tmp_path / "one", [entry("a")]))
    two = read_log(write(tmp_path / "two", [entry("b")], seed=5))
    with pytest.raises(
        EvalLogError, match=r"(?s)no samples in common: one has .*seed 1, two has .*seed 5.*same suite, length"
    ):
        compare_logs(one, two)


def test_samples_whose_answer_has_changed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EvalLogError, match=r"other answers \(a\): .*the suite has changed"):
        compared(tmp_path, [entry("a")], [entry("a", expected={"answer": 2})])


def test_samples_whose_inputs_have_changed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EvalLogError, match=r"other inputs \(b\): these are different samples"):
        compared(tmp_path, [entry("a"), entry("b", inputs="1f")], [entry("a"), entry("b", inputs="2e")])


def test_a_suite_that_has_changed_is_named_where_an_earlier_version_did_not_note_the_inputs(tmp_path: Path) -> None:
    files = [[{"name": "made", "path": "/x/made.jsonl", "digest": one * 32}] for one in ("ab", "cd")]
    one = read_log(write(tmp_path / "one", [entry("a")], suites=files[0]))
    two = read_log(write(tmp_path / "two", [entry("a", inputs="2e")], suites=files[1]))
    assert compare_logs(one, two).settings == (("suites.made", "sha256 abababababab", "sha256 cdcdcdcdcdcd"),)
    assert compare_logs(one, one).settings == ()


def test_a_log_without_entries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvalLogError, match="two has no finished samples yet"):
        compared(tmp_path, [entry("a")], [])
