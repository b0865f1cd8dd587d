"""`rlm batch` as people use it: the example, Ctrl-C once and twice, what is refused, what is shown."""

from __future__ import annotations

import contextlib
import http.server
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import types
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console

from rlm.batch.driver import Batch
from rlm.batch.item import Outcome
from rlm.batch.ledger import Ledger, ledger_path
from rlm.batch.results_file import ResultsFile
from rlm.batch.summary import BatchSummary
from rlm.cli import exit_codes
from rlm.cli import rlm as group
from rlm.cli.console import print_page
from rlm.cli.main import guard
from rlm.cli.pages.batch_summary import batch_page
from rlm.cli.preflight import CostWarning, costs_money
from rlm.cli.progress import batch as batch_progress
from rlm.cli.progress.batch import BarView, LinesView
from rlm.files import home
from rlm.tasks import Overrides
from tests.support import batches
from tests.support.chat_server import ChatServer, Play, completion
from tests.support.repository import EXAMPLES

EXAMPLE = EXAMPLES / "batch"
SLOW = """\
main:
  - |
    ```python
    while True:
        pass
    ```
"""


def _rlm(*arguments: object) -> int:
    return guard(group, ["batch", *map(str, arguments)])


def _start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rlm.cli", "batch", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.processes
def test_the_example_gives_a_line_a_row_and_a_summary(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = Path(shutil.copytree(EXAMPLE, tmp_path / "batch"))
    arguments = (folder / "task.yaml", "--over", folder / "rows.csv", "--workers", 1)
    assert _rlm(*arguments) == exit_codes.NO_ANSWER
    shown = capfd.readouterr()
    results = folder / "task.rows.results.jsonl"
    found = {one["item"]: one for one in map(json.loads, results.read_text().splitlines())}
    assert found.keys() == {"anna", "dora", "fog", "maren"}
    assert found["anna"]["outputs"] == {"ship": "Anna Kristina", "tons": 638, "fits": False}
    assert found["dora"]["outputs"]["fits"] is True
    assert found["fog"]["ending"] == "Failed"
    assert "Submitted      3   75.0%" in shown.out
    assert "no value was found for tons, fits" in shown.out
    assert "1 failed; `--retry-failed` runs it again." in shown.out
    assert str(results) in shown.out
    assert "4 of 4 done" in shown.err

    # Again: nothing is run, and the summary is the same but for what may fail.
    before = results.read_bytes()
    assert _rlm(*arguments, "--fail-on-error", 0.5, "--json", "-q") == exit_codes.ANSWERED
    again = capfd.readouterr()
    assert results.read_bytes() == before
    assert again.err == ""
    summary = json.loads(again.out)
    assert (summary["total"], summary["left"]) == (4, 0)
    assert {ending: one["count"] for ending, one in summary["endings"].items()} == {"Submitted": 3, "Failed": 1}
    assert summary["errors"][0]["item"] == "fog"

    # No cluster is looked for when there is nothing to do.
    nobody = ("--engine", "ray", "--ray-address", "127.0.0.1:9")
    assert _rlm(*arguments, "--fail-on-error", 0.5, "-q", *nobody) == exit_codes.ANSWERED
    assert _rlm(*arguments, "-q", *nobody[2:]) == exit_codes.USAGE
    assert "--ray-address needs --engine ray" in capfd.readouterr().err


@pytest.mark.processes
def test_ctrl_c_lets_what_runs_finish_and_says_how_to_go_on(tmp_path: Path) -> None:
    folder = batches.write_folder(tmp_path, 200)
    results = folder / "results.jsonl"
    arguments = (folder / "task.yaml", "--over", folder / "rows.csv", "-o", results, "--workers", 1, "--at-once", 2)
    driver = _start(*arguments)
    while not (results.exists() and results.stat().st_size) and driver.poll() is None:
        time.sleep(0.01)
    driver.send_signal(signal.SIGINT)
    out, err = driver.communicate(timeout=60)
    assert driver.returncode == exit_codes.INTERRUPTED
    done = batches.lines(folder)
    assert 0 < len(done) < 200
    assert "under way; Ctrl-C again ends at once" in err
    assert (
        f"Interrupted: {len(done):,} of 200 items are done. The same command continues from there:\n  rlm batch" in err
    )
    assert f"{200 - len(done)} items of 200 left: it was interrupted." in out
    # What is missing, and nothing else, is done the next time.
    os.link(ledger_path(home(), results), folder / "ledger.db")
    executor = batches.InlineExecutor()
    batches.drive(folder, executor)
    assert len(executor.taken) == 200 - len(done)
    batches.check_complete(folder, 200)


@pytest.mark.processes
def test_a_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    folder = batches.write_folder(tmp_path, 5, replies=SLOW)
    driver = _start(folder / "task.yaml", "--over", folder / "rows.csv", "-o", folder / "results.jsonl", "--workers", 1)
    assert driver.stderr is not None
    assert driver.stderr.readline() == "5 items\n"
    with contextlib.closing(sqlite3.connect(ledger_path(home(), folder / "results.jsonl"))) as ledger:
        while ledger.execute("SELECT COUNT(*) FROM leases").fetchone() == (0,):
            time.sleep(0.01)
    driver.send_signal(signal.SIGINT)
    assert "Ctrl-C again ends at once" in driver.stderr.readline()
    driver.send_signal(signal.SIGINT)
    _, err = driver.communicate(timeout=40)  # the items would take a minute
    assert driver.returncode == exit_codes.INTERRUPTED
    assert "Interrupted: 0 of 5 items are done" in err
    assert batches.lines(folder) == []


def test_what_is_wrong_is_said_before_anything_is_started(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = batches.write_folder(tmp_path, 3)
    (folder / "rows.csv").write_text("n,word\n1,a\nx,b\n")
    assert _rlm(folder / "task.yaml", "--over", folder / "rows.csv") == exit_codes.USAGE
    assert "rows.csv:3 (row 2): column 'n': expected int" in capfd.readouterr().err
    assert _rlm(folder / "task.yaml") == exit_codes.USAGE
    assert "'n' (int) is missing" in capfd.readouterr().err
    assert list(folder.glob("*.jsonl")) == []


def test_isolation_that_is_missing_is_one_error_for_the_batch(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    missing = "namespaces" if sys.platform == "darwin" else "seatbelt"
    folder = batches.write_folder(tmp_path, 100, task=batches.TASK + f"sandbox: {{isolation: {missing}}}\n")
    assert _rlm(folder / "task.yaml", "--over", folder / "rows.csv") == exit_codes.ENVIRONMENT
    assert missing in capfd.readouterr().err
    assert list(folder.glob("*.jsonl")) == []


class _NoSuchKey(http.server.BaseHTTPRequestHandler):
    """A server that knows nobody."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.asked.append(self.path)
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}).encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.mark.processes
def test_a_key_that_is_refused_is_one_error_for_the_batch(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-not-the-right-one")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _NoSuchKey) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}/v1"
        model = f"{{main: {{model: openai/any, api_key_env: SOME_KEY, api_base: {base}}}}}"
        task = batches.TASK.replace("{scripted: replies.yaml}", model)
        folder = batches.write_folder(tmp_path, 100, task=task)
        code = _rlm(folder / "task.yaml", "--over", folder / "rows.csv", "--workers", 1)
        server.shutdown()
    said = capfd.readouterr().err
    assert code == exit_codes.ENVIRONMENT
    assert "Check the value of SOME_KEY" in said
    assert "sk-not-the-right-one" not in said
    assert 0 < len(_NoSuchKey.asked) < 20
    assert [path.read_text() for path in folder.glob("*.jsonl")] in ([], [""])


@pytest.mark.parametrize(
    ("rows", "text", "said"),
    [
        ("rows.csv", "n,word\n", "rows.csv: has a header and no rows"),
        ("rows.jsonl", "", "rows.jsonl: is empty; each line must be a row"),
        (None, "\n", "tasks.jsonl: is empty; each line must be a task"),
    ],
)
def test_a_batch_of_nothing_is_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], rows: str | None, text: str, said: str
) -> None:
    folder = batches.write_folder(tmp_path, 1)
    (folder / (rows or "tasks.jsonl")).write_text(text)
    arguments = (folder / "tasks.jsonl",) if rows is None else (folder / "task.yaml", "--over", folder / rows)
    assert _rlm(*arguments, "-o", folder / "results.jsonl") == exit_codes.USAGE
    assert said in capfd.readouterr().err
    assert not (folder / "results.jsonl").exists()


def test_results_that_cannot_be_written_are_said_with_advice_that_fits(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = batches.write_folder(tmp_path, 1)
    (folder / "file").write_text("")
    path = folder / "file" / "results.jsonl"
    assert _rlm(folder / "task.yaml", "--over", folder / "rows.csv", "-o", path) == exit_codes.ENVIRONMENT
    said = " ".join(capfd.readouterr().err.split())
    assert "cannot be written (" in said
    assert "; use another file with --output." in said
    assert "free some space" not in said.lower()


def test_the_summary_tells_what_all_attempts_cost_and_lines_of_items_that_are_gone(tmp_path: Path) -> None:
    folder = batches.write_folder(tmp_path, 3)
    executor = batches.InlineExecutor(lambda item: replace(batches.answered(item), ending="Failed", error="no"))
    batches.drive(folder, executor)
    (folder / "rows.csv").write_text("n,word\n1,word 1\n")
    shown, ledger = io.StringIO(), Ledger(folder / "ledger.db")
    batch = Batch(batches.source_of(folder), ledger)
    batch.prepare(retry_failed=True)
    results = ResultsFile(folder / "results.jsonl", ledger)
    assert len(list(batch.run(executor, results))) == 1
    summary = BatchSummary.of(batch, ledger, results)
    results.close()
    ledger.close()
    print_page(batch_page(summary), shown)
    assert "Cost in all: $0.5000, every attempt counted.\n" in shown.getvalue()
    assert "1 failed; `--retry-failed` runs it again.\n" in shown.getvalue()
    gone = "The results have 2 lines of items that are no longer in the batch; their number is null.\n"
    assert gone in shown.getvalue()
    assert (summary.to_dict()["cost_in_all_usd"], summary.to_dict()["lines_not_in_batch"]) == (0.5, 2)


def test_a_batch_that_another_process_has_is_left_to_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = batches.write_folder(tmp_path, 3)
    taken = Ledger(ledger_path(home(), folder / "r.jsonl"))
    try:
        code = _rlm(folder / "task.yaml", "--over", folder / "rows.csv", "-o", folder / "r.jsonl")
    finally:
        taken.close()
    assert code == exit_codes.USAGE
    assert f"process {os.getpid()} is running this batch" in capfd.readouterr().err


def test_a_results_file_has_one_ledger_by_whatever_path_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    ledger = ledger_path(home(), tmp_path / "real" / "r.jsonl")
    assert ledger_path(home(), tmp_path / "link" / "r.jsonl") == ledger
    assert ledger_path(home(), tmp_path / "real" / ".." / "real" / "r.jsonl") == ledger
    (tmp_path / "other.jsonl").symlink_to("real/r.jsonl")
    assert ledger_path(home(), tmp_path / "other.jsonl") == ledger


def test_results_that_are_none_are_not_touched(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = batches.write_folder(tmp_path, 3)
    code = _rlm(folder / "task.yaml", "--over", folder / "rows.csv", "-o", folder / "rows.csv")
    assert code == exit_codes.USAGE
    assert "rows.csv:1 is no result of a batch" in capfd.readouterr().err
    assert (folder / "rows.csv").read_text().startswith("n,word\n1,")


@pytest.mark.parametrize("text", ['{"n": 1}', '{"n": 1}\n{"n": 2}', '{"n": 1}\n{"item": "2"}'], ids=len)
def test_a_last_line_without_an_end_is_cut_off_only_where_the_file_is_ours(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str
) -> None:
    folder = batches.write_folder(tmp_path, 3)
    (folder / "mine.jsonl").write_text(text)
    assert _rlm(folder / "task.yaml", "--over", folder / "rows.csv", "-o", folder / "mine.jsonl") == exit_codes.USAGE
    assert "is no result of a batch" in capfd.readouterr().err
    assert (folder / "mine.jsonl").read_text() == text


class _NoSource:
    pass


def _batch() -> Batch:
    source: Any = _NoSource()
    batch = Batch(source, source)
    batch.total, batch.cost_usd = 1000, 0.5
    batch.endings |= {"Submitted": 240, "Failed": 10}
    return batch


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_tells_rate_cost_endings_and_the_time_left(terminal: bool) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=150, color_system=None)
    view = BarView(console) if terminal else LinesView(stream)
    batch = _batch()
    view.start(batch)
    for number in range(3):
        view.update(batch, Outcome("k", f"row {number}", "Failed", None, "no [bold]luck"))
    view.stop(batch)
    shown = stream.getvalue()
    assert "250 of 1,000" in shown
    assert "240 submitted" in shown
    assert "10 failed" in shown
    assert "$0.5000" in shown
    assert "/s" in shown
    assert " left" in shown
    assert ("row 0: no [bold]luck" in shown) is terminal


def test_lines_of_progress_come_also_while_nothing_ends() -> None:
    stream, batch = io.StringIO(), _batch()
    batch.running["k"] = (1, None)  # type: ignore[assignment]
    view = LinesView(stream, every=0.01)
    view.start(batch)
    until = time.monotonic() + 10
    while stream.getvalue().count("250 of 1,000 done, 1 under way") < 2 and time.monotonic() < until:
        time.sleep(0.01)
    view.stop(batch)
    assert stream.getvalue().count("250 of 1,000 done, 1 under way") >= 2


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_bar_has_all_facts_at_any_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = types.SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(batch_progress, "time", clock)
    stream = io.StringIO()
    view = BarView(Console(file=stream, force_terminal=True, width=width, color_system="standard"))
    batch = _batch()
    batch.total, batch.cost_usd = 10_000, 12.3456
    batch.endings |= {"Submitted": 1000, "Extracted": 200, "Failed": 33, "Lost": 1}
    view.start(batch)
    clock.now += 5
    view.update(batch, Outcome("k", "row 1", "Submitted"))
    view.stop(batch)
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue()).replace("\r", "\n").splitlines()
    assert max(len(line.rstrip()) for line in lines[1:]) <= width
    bar, start, rest = " ".join(" ".join(lines).split()).rpartition("1,234 of 10,000 · ")
    assert bar.rstrip().endswith("━" * 8)
    assert start + rest == (
        "1,234 of 10,000 · 33 failed · 1 lost · 1,000 submitted · 200 extracted · $12.35 · 12:10:30 left · 0.2/s"
    )


@pytest.mark.parametrize("terminal", [True, False])
def test_items_that_end_together_took_as_long_as_they_ran(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = types.SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(batch_progress, "time", clock)
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=150, color_system=None)
    view, batch = BarView(console) if terminal else LinesView(stream), _batch()
    view.start(batch)
    clock.now += 80
    for number in range(4):
        clock.now += 0.001
        view.update(batch, Outcome("k", f"row {number}", "Submitted"))
    view.stop(batch)
    assert "3.0/min" in stream.getvalue()


@pytest.mark.processes
def test_runs_know_their_batch_and_calls_without_a_price_are_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-very-secret-key")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    with ChatServer() as server:
        server.plays = [Play(body=completion("```python\nSUBMIT(twice=2 * n)\n```"))]
        entry = {"model": "openai/of-unknown-price", "api_base": server.url, "api_key_env": "SOME_KEY"}
        task = {"signature": "n: int, word: str -> twice: int", "models": {"main": entry}}
        folder = batches.write_folder(tmp_path, 3, task=json.dumps(task))
        arguments = (folder / "task.yaml", "--over", folder / "rows.csv", "-o", folder / "results.jsonl")
        assert _rlm(*arguments, "--workers", 1, "--max-cost", 1) == exit_codes.ANSWERED
    batches.check_complete(folder, 3)
    shown = capfd.readouterr()
    assert shown.err.count("--max-cost: no price is known for 1 call of row ") == 1
    assert "3 calls had no known price: not in the cost; --max-cost does not count them." in shown.out

    monkeypatch.chdir(folder)
    assert guard(group, ["runs", "list", "--batch", "results.jsonl", "--json"]) == exit_codes.ANSWERED
    found = {one["id"] for one in map(json.loads, capfd.readouterr().out.splitlines())}
    assert found == {one["run_id"] for one in batches.lines(folder)}
    last = batches.lines(folder)[-1]
    assert guard(group, ["runs", "show", last["run_id"]]) == exit_codes.ANSWERED
    said = "".join(capfd.readouterr().out.split())
    assert f"{last['item']} of {folder / 'results.jsonl'}".replace(" ", "") in said
    assert guard(group, ["runs", "list", "--batch", "other.jsonl", "--json"]) == exit_codes.USAGE
    assert "other.jsonl: there is no such file" in capfd.readouterr().err


def test_a_script_costs_nothing(tmp_path: Path) -> None:
    from rlm.tasks import load

    folder = batches.write_folder(tmp_path, 1)
    task = load(folder / "task.yaml", Overrides(inputs={"n": "1", "word": "a"}))
    assert not costs_money(task)
    paid = load(folder / "task.yaml", Overrides(inputs={"n": "1", "word": "a"}, models={"sub": "openai/gpt-5-mini"}))
    assert costs_money(paid)
    said: list[str] = []
    free, watched = CostWarning(False, said.append), CostWarning(True, said.append)
    for usage in (None, {"unpriced_calls": 0}, {"unpriced_calls": 2}, {"unpriced_calls": 3}):
        free.check("row 1", usage)
        watched.check("row 2", usage)
    (once,) = said
    assert once.startswith("--max-cost: no price is known for 2 calls of row 2.")
