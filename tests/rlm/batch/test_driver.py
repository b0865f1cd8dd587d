"""A batch driven in this process: rules, lost items, results that were touched, batches that have changed."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from rlm.batch.driver import Batch, StopRules
from rlm.batch.errors import BatchError, BatchInUse, ForeignResultsFile, MachineUnfit
from rlm.batch.item import Item, Outcome, lost
from rlm.batch.ledger import Ledger, ledger_path
from rlm.batch.results_file import Repairs, ResultsFile
from tests.support import batches
from tests.support.batches import InlineExecutor, answered, check_complete, drive, failed, lines, write_folder


def _odd_fail(item: Item) -> Outcome:
    return failed(item) if item.inputs["n"] % 2 else answered(item)


def test_every_item_has_a_line_that_says_what_became_of_it(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 3)
    batch, outcomes = drive(folder, InlineExecutor(_odd_fail))
    assert [one.name for one in outcomes] == [one["item"] for one in lines(folder)]
    by_number = {one["number"]: one for one in lines(folder)}
    good, bad = by_number[2], by_number[1]
    assert (good["ending"], good["outputs"], good["confidence"], good["error"]) == (
        "Submitted",
        {"twice": 4},
        1.0,
        None,
    )
    assert (good["usage"]["cost_usd"], good["run_id"], good["seconds"]) == (0.25, "run2", 0.5)
    assert (bad["ending"], bad["outputs"], bad["error"]) == ("Failed", None, "it would not")
    assert batch.endings == {"Submitted": 1, "Extracted": 0, "Failed": 2, "Lost": 0}
    assert batch.failing


def test_run_again_it_does_nothing_and_with_retry_failed_what_failed(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 6)
    drive(folder, InlineExecutor(_odd_fail))
    again = InlineExecutor()
    drive(folder, again)
    assert again.taken == []
    batch, _ = drive(folder, again, retry_failed=True)
    assert sorted(one.inputs["n"] for one in again.taken) == [1, 3, 5]
    check_complete(folder, 6)
    assert not batch.failing


def test_rows_that_are_added_or_changed_are_done_and_the_others_are_not(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 3)
    drive(folder, InlineExecutor())
    (folder / "rows.csv").write_text("n,word\n0,word 0\n1,word 1\n2,other\n3,word 3\n")
    executor = InlineExecutor()
    drive(folder, executor)
    # Row 1 is new, and row 3 was another one; what is row 2 and 4 now was done as row 1 and 3.
    assert sorted(one.inputs["word"] for one in executor.taken) == ["other", "word 0"]
    assert {one["item"]: one["number"] for one in lines(folder)} == {f"row {n}": n for n in (1, 2, 3, 4)}
    assert {one["number"]: one["outputs"]["twice"] for one in lines(folder)} == {1: 0, 2: 2, 3: 4, 4: 6}


def test_a_task_that_changed_is_done_anew_and_going_back_costs_nothing(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 3)
    drive(folder, InlineExecutor())
    before = lines(folder)
    (folder / "task.yaml").write_text(batches.TASK + "instructions: Be quick.\n")
    drive(folder, InlineExecutor())
    check_complete(folder, 3)
    assert {one["key"] for one in before}.isdisjoint(one["key"] for one in lines(folder))
    (folder / "task.yaml").write_text(batches.TASK)
    executor = InlineExecutor()
    drive(folder, executor)
    assert executor.taken == []
    assert {one["key"] for one in lines(folder)} == {one["key"] for one in before}


def test_rows_that_are_the_same_have_a_line_each(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 2)
    (folder / "rows.csv").write_text("n,word\n" + "1,a\n" * 4)
    drive(folder, InlineExecutor())
    assert [one["outputs"]["twice"] for one in lines(folder)] == [2] * 4
    assert sorted(one["number"] for one in lines(folder)) == [1, 2, 3, 4]


def test_two_rows_of_one_name_are_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 2)
    (folder / "rows.csv").write_text("id,n,word\nx,1,a\ny,2,a\nx,3,a\n")
    with pytest.raises(BatchError) as caught:
        drive(folder, InlineExecutor())
    assert str(caught.value) == (
        f"{folder}/rows.csv:2 (row 1) and {folder}/rows.csv:4 (row 3) are both called 'x'; give one of them another "
        "name, or ignore the column with --skip id: rows are then named by their numbers"
    )
    drive(folder, InlineExecutor(), skip=["id"])
    assert sorted(one["item"] for one in lines(folder)) == ["row 1", "row 2", "row 3"]


def test_the_limit_is_the_first_items_and_the_rest_is_done_later(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 6)
    executor = InlineExecutor()
    drive(folder, executor, limit=2)
    drive(folder, executor, limit=2)
    assert [one.inputs["n"] for one in executor.taken] == [1, 2]
    drive(folder, executor)
    assert len(executor.taken) == 6
    check_complete(folder, 6)


def test_no_more_items_are_started_once_the_batch_has_cost_enough(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 20)
    executor = InlineExecutor(at_once=2)
    batch, _ = drive(folder, executor, rules=StopRules(max_cost=1.0))
    assert batch.cost_usd is not None
    assert 1.0 <= batch.cost_usd <= 1.25
    assert len(lines(folder)) == len(executor.taken) == batch.done < 20
    assert batch.stop_reason == "--max-cost $1 is spent; with a larger one, the same command runs the rest"
    # It holds for the batch, not for a session.
    again = InlineExecutor()
    drive(folder, again, rules=StopRules(max_cost=1.0))
    assert again.taken == []
    drive(folder, again, rules=StopRules(max_cost=100.0))
    check_complete(folder, 20)


def test_the_batch_stops_when_more_have_failed_than_may(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 40)
    executor = InlineExecutor(_odd_fail, at_once=1)
    batch, _ = drive(folder, executor, rules=StopRules(fail_on_error=0.1))
    assert batch.unsuccessful == 5
    assert batch.done == 9
    assert batch.stop_reason == "more than 10% of all items failed (--fail-on-error 0.1)"
    assert batch.failing
    batch, _ = drive(folder, InlineExecutor(), rules=StopRules(fail_on_error=0.5))
    assert (batch.done, batch.stop_reason, batch.failing) == (40, None, False)


def test_an_item_that_is_lost_is_tried_again_alone_and_then_given_up(tmp_path: Path) -> None:
    def answer(item: Item) -> Outcome:
        if item.inputs["n"] == 2 or (item.inputs["n"] == 3 and not item.exclusive):
            return lost(item.key, item.name, "its worker was lost")
        return answered(item)

    folder, executor = write_folder(tmp_path, 4), InlineExecutor(answer)
    messages: list[str] = []
    batch, _ = drive(folder, executor, notify=messages.append)
    assert sorted(messages) == [f"row {n}: its worker was lost; it is run again" for n in (2, 2, 3)]
    taken = Counter((one.inputs["n"], one.exclusive) for one in executor.taken)
    assert taken == {(1, False): 1, (2, False): 1, (2, True): 2, (3, False): 1, (3, True): 1, (4, False): 1}
    assert batch.endings["Lost"] == 1
    (given_up,) = [one for one in lines(folder) if one["ending"] == "Lost"]
    assert given_up["error"] == "given up after it was lost 3 times; the last time, its worker was lost"
    # It is done, as far as the next session is concerned, unless it is asked for.
    again = InlineExecutor()
    drive(folder, again)
    assert again.taken == []
    drive(folder, again, retry_failed=True)
    check_complete(folder, 4)


def test_a_machine_that_lacks_what_all_need_ends_the_batch(tmp_path: Path) -> None:
    def answer(item: Item) -> Outcome:
        return lost(item.key, item.name, "no isolation here", fatal=True) if item.inputs["n"] > 2 else answered(item)

    folder, executor = write_folder(tmp_path, 100), InlineExecutor(answer, at_once=1)
    with pytest.raises(MachineUnfit, match="no isolation here"):
        drive(folder, executor)
    assert len(executor.taken) == 3
    assert len(lines(folder)) == 2
    drive(folder, InlineExecutor())
    check_complete(folder, 100)


def test_a_late_outcome_of_an_item_that_is_done_changes_nothing(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 1)
    drive(folder, InlineExecutor())
    ledger = Ledger(folder / "ledger.db")
    from rlm.batch.results_file import ledger_entry

    (line,) = lines(folder)
    late = Outcome(line["key"], "row 1", "Failed", None, "too late")
    assert ledger.write(ledger_entry(1, late)) is False
    assert ledger.totals().keys() == {"Submitted"}
    ledger.close()


@pytest.mark.parametrize("first", ["one", "one, two"], ids=["other words", "no table any more"])
def test_rows_that_are_changed_while_the_batch_runs_stop_it_and_nothing_is_mixed_up(tmp_path: Path, first: str) -> None:
    folder = write_folder(tmp_path, 1500)
    rows = (folder / "rows.csv").read_text()

    def answer(item: Item) -> Outcome:
        if item.inputs["n"] == 3:  # in place: what is read next begins elsewhere in a row
            (folder / "rows.csv").write_text(rows.replace("word 1\n", f"{first}\n", 1))
        return answered(item)

    batch, outcomes = drive(folder, InlineExecutor(answer))
    assert f"{folder / 'rows.csv'} was changed meanwhile" in (batch.stop_reason or "")
    assert len(outcomes) < 1500
    (folder / "rows.csv").write_text(rows)
    drive(folder, InlineExecutor())
    check_complete(folder, 1500)


def test_leases_are_on_record_and_end(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 3)
    seen: list[tuple[int, float]] = []

    def answer(item: Item) -> Outcome:
        with sqlite3.connect(f"file:{folder / 'ledger.db'}?mode=ro", uri=True) as other:
            seen.append(other.execute("SELECT COUNT(*), MIN(until - unixepoch()) FROM leases").fetchone())
        other.close()
        return answered(item)

    drive(folder, InlineExecutor(answer, at_once=2))
    assert [one[0] for one in seen] == [2, 2, 1]
    # Twice the minute that the task may take, and some more.
    assert all(415 <= one[1] <= 421 for one in seen)
    ledger = Ledger(folder / "ledger.db")
    ledger.lease("a", 100.0)
    ledger.lease("b", -1.0)
    assert ledger.leased() == 1
    ledger.close()


def test_without_its_ledger_a_batch_goes_on_from_its_results(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 4)
    drive(folder, InlineExecutor(), limit=3)
    for path in folder.glob("ledger.*"):
        path.unlink()
    executor = InlineExecutor()
    batch, _ = drive(folder, executor)
    assert [one.inputs["n"] for one in executor.taken] == [4]
    assert batch.cost_usd == 1.0
    check_complete(folder, 4)


def test_results_that_were_deleted_come_back_from_the_ledger(tmp_path: Path) -> None:
    folder, executor = write_folder(tmp_path, 4), InlineExecutor()
    drive(folder, InlineExecutor())
    (folder / "results.jsonl").unlink()
    drive(folder, executor)
    assert executor.taken == []
    check_complete(folder, 4)


@pytest.mark.parametrize("take", ["unlink", "rename"])
@pytest.mark.parametrize("after", [2, 4])
def test_results_that_are_taken_away_meanwhile_are_put_back(tmp_path: Path, take: str, after: int) -> None:
    folder = write_folder(tmp_path, 4)
    results, done = folder / "results.jsonl", []

    def answer(item: Item) -> Outcome:
        if len(done) == after - 1:
            getattr(results, take)(*[folder / "elsewhere.jsonl"] * (take == "rename"))
        done.append(item)
        return answered(item)

    drive(folder, InlineExecutor(answer))
    check_complete(folder, 4)


def test_an_item_that_has_two_lines_keeps_one(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 4)
    drive(folder, InlineExecutor())
    (folder / "results.jsonl").write_text(2 * (folder / "results.jsonl").read_text())
    assert _opened(folder) == Repairs(duplicate=4)
    check_complete(folder, 4)
    assert _opened(folder) == Repairs()


def test_two_drivers_do_not_share_a_results_file_whatever_their_ledgers(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 2)
    (folder / "link.jsonl").symlink_to("results.jsonl")
    first, second = Ledger(folder / "one.db"), Ledger(folder / "other.db")
    with contextlib.closing(first), contextlib.closing(second):
        for ledger in (first, second):
            Batch(batches.source_of(folder), ledger).prepare()
        with contextlib.closing(ResultsFile(folder / "results.jsonl", first)):
            for path in ("results.jsonl", "link.jsonl"):
                with pytest.raises(BatchInUse, match="another process is writing to"):
                    ResultsFile(folder / path, second)
        ResultsFile(folder / "link.jsonl", second).close()
    assert (folder / "link.jsonl").is_symlink()


@pytest.mark.parametrize("text", ["name,age\n", "not ours", '{"a": 1}\n', '["key"]\n', '{"key": 1, "item": "x"}\n'])
def test_a_file_that_is_no_results_file_is_left_alone(tmp_path: Path, text: str) -> None:
    folder, executor = write_folder(tmp_path, 2), InlineExecutor()
    (folder / "results.jsonl").write_text(text)
    with pytest.raises(ForeignResultsFile, match="--output"):
        drive(folder, executor)
    assert (folder / "results.jsonl").read_text() == text
    assert executor.taken == []


def _opened(folder: Path) -> Repairs:
    """What is done to the results when the batch is begun again."""
    ledger = Ledger(folder / "ledger.db")
    Batch(batches.source_of(folder), ledger).prepare()
    results = ResultsFile(folder / "results.jsonl", ledger)
    results.close()
    ledger.close()
    return results.repairs


def test_lines_of_items_that_are_not_in_this_batch_stay_and_have_no_number(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 0)
    rows = [f"id {n},{n},word {n}\n" for n in range(1, 7)]
    (folder / "rows.csv").write_text("id,n,word\n" + "".join(rows))
    drive(folder, InlineExecutor())
    (folder / "rows.csv").write_text("id,n,word\n" + "".join(rows[-2:]))
    assert _opened(folder) == Repairs(moved=2, unrelated=4)
    numbers = {one["item"]: one["number"] for one in lines(folder)}
    assert numbers == {"id 1": None, "id 2": None, "id 3": None, "id 4": None, "id 5": 1, "id 6": 2}
    before = (folder / "results.jsonl").read_bytes()
    assert _opened(folder) == Repairs(unrelated=4)
    assert (folder / "results.jsonl").read_bytes() == before
    # They come back with the rows, and nothing is run for it; also where the ledger is gone.
    (folder / "rows.csv").write_text("id,n,word\n" + "".join(rows))
    for path in folder.glob("ledger.*"):
        path.unlink()
    executor = InlineExecutor()
    drive(folder, executor)
    assert executor.taken == []
    assert {one["number"]: one["outputs"]["twice"] for one in lines(folder)} == {n: 2 * n for n in range(1, 7)}
    assert _opened(folder) == Repairs()


def test_what_was_spent_on_attempts_that_are_done_again_is_spent(tmp_path: Path) -> None:
    def costly(item: Item) -> Outcome:
        return replace(answered(item), ending="Failed", error="it would not")

    folder, executor = write_folder(tmp_path, 4), InlineExecutor(costly, at_once=1)
    messages: list[str] = []
    drive(folder, executor, rules=StopRules(max_cost=1.4))
    assert len(executor.taken) == 4
    batch, _ = drive(folder, executor, rules=StopRules(max_cost=1.4), retry_failed=True, notify=messages.append)
    assert (len(executor.taken), batch.cost_usd, messages) == (6, 1.5, [])
    assert batch.stop_reason is not None
    batch, _ = drive(folder, executor, rules=StopRules(max_cost=1.4), retry_failed=True, notify=messages.append)
    assert (len(executor.taken), batch.cost_usd) == (6, 1.5)
    # Of what is not done again, the lines stay.
    assert messages == ["--max-cost $1.4 is spent: failed items are not run again"]
    assert len(lines(folder)) == 2
    batch, _ = drive(folder, InlineExecutor(), rules=StopRules(max_cost=10), retry_failed=True)
    assert batch.cost_usd == 2.5
    check_complete(folder, 4)


def test_a_ledger_of_the_first_version_knows_what_was_spent(tmp_path: Path) -> None:
    folder, executor = write_folder(tmp_path, 3), InlineExecutor()
    drive(folder, InlineExecutor())
    with contextlib.closing(sqlite3.connect(folder / "ledger.db")) as old:
        old.executescript("DROP TABLE spent; PRAGMA user_version = 1;")
    batch, _ = drive(folder, executor, rules=StopRules(max_cost=10))
    assert (executor.taken, batch.cost_usd) == ([], 0.75)


def test_an_attempt_that_was_lost_after_it_had_cost_something_counts(tmp_path: Path) -> None:
    def answer(item: Item) -> Outcome:
        made = answered(item)
        return made if item.exclusive else replace(made, ending="Lost", error="its sandbox was lost")

    folder = write_folder(tmp_path, 2)
    batch, _ = drive(folder, InlineExecutor(answer))
    assert batch.cost_usd == 1.0
    check_complete(folder, 2)
    batch, _ = drive(folder, InlineExecutor())
    assert batch.cost_usd == 1.0


def test_a_line_of_a_run_that_did_not_submit_has_its_reason(tmp_path: Path) -> None:
    def answer(item: Item) -> Outcome:
        return replace(failed(item), result={"reason": "it would not", "partial_outputs": {"twice": 2}})

    folder = write_folder(tmp_path, 1)
    drive(folder, InlineExecutor(answer))
    (line,) = lines(folder)
    assert (line["error"], line["reason"], line["partial_outputs"]) == ("it would not", "it would not", {"twice": 2})


def test_text_that_cannot_be_encoded_makes_a_line_all_the_same(tmp_path: Path) -> None:
    def answer(item: Item) -> Outcome:
        return Outcome(item.key, item.name, "Submitted", {"outputs": {"twice": "\ud800 ü \u2028"}})

    folder = write_folder(tmp_path, 1)
    drive(folder, InlineExecutor(answer))
    (line,) = (folder / "results.jsonl").read_bytes().splitlines()
    assert json.loads(line)["outputs"]["twice"] == "\ud800 ü \u2028"


def test_ledgers_are_kept_apart_by_the_file_of_the_results(tmp_path: Path) -> None:
    one, other = (ledger_path(tmp_path, tmp_path / name / "results.jsonl") for name in ("a", "b"))
    assert one != other
    assert one.parent == other.parent == tmp_path / "batches"


def test_a_line_of_an_extracted_answer_says_how_far_to_trust_it(tmp_path: Path) -> None:
    def answer(item: Item) -> Outcome:
        trust = {"field_confidence": {"twice": 0.4}, "extraction_notes": "fitted on another model"}
        made = answered(item)
        return replace(made, ending="Extracted", result={**(made.result or {}), "confidence": 0.4, **trust})

    folder = write_folder(tmp_path, 1)
    drive(folder, InlineExecutor(answer))
    (line,) = lines(folder)
    assert (line["confidence"], line["field_confidence"]) == (0.4, {"twice": 0.4})
    assert line["notes"] == "fitted on another model"


def test_a_line_says_how_far_to_trust_a_submitted_answer(tmp_path: Path) -> None:
    def answer(item: Item) -> Outcome:
        trust = {"trust": "probability 0.70", "field_confidence": {"twice": 0.7}, "notes": "fitted on another model"}
        made = answered(item)
        return replace(made, result={**(made.result or {}), "confidence": 0.7, **trust})

    folder = write_folder(tmp_path, 1)
    drive(folder, InlineExecutor(answer))
    (line,) = lines(folder)
    assert (line["ending"], line["trust"], line["notes"]) == (
        "Submitted",
        "probability 0.70",
        "fitted on another model",
    )
    assert line["field_confidence"] == {"twice": 0.7}
