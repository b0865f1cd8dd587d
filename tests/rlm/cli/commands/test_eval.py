"""`rlm eval` as people type it: run, killed, interrupted, gone on with, compared, tried again."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlm.cli import exit_codes, rlm
from rlm.cli.eval_options import SuitesType
from rlm.cli.main import guard
from rlm.evals.log import read_log
from rlm.evals.suites import SUITES
from tests.support.chat_server import ChatServer, LimitedChat, Play, completion
from tests.support.eval_logs import entry, settings, suite, write

_RLM = [sys.executable, "-c", "from rlm.cli import main; main()"]
_KILLS = 2
SUBMIT = "```python\nSUBMIT(answer=1000)\n```"


def say(*arguments: str | Path) -> int:
    """A command in this process."""
    return guard(rlm, [str(one) for one in arguments])


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    """A command in a process of its own."""
    command = [*_RLM, *(str(one) for one in arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines_of(log: Path) -> list[str]:
    path = log / "samples.jsonl"
    return path.read_text().splitlines(keepends=True) if path.exists() else []


def wait_for_lines(log: Path, many: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 120
    while len(lines_of(log)) < many:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_suite_is_run_and_its_summary_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, log = settings(tmp_path, "main: []"), tmp_path / "log"
    code = say("eval", "run", "needle", "--length", "4k,16k", "--count", "1", "--task", task, "--log", log)
    said = capsys.readouterr()
    assert code == exit_codes.NO_ANSWER
    assert re.search(r"needle +4k +1 +0\.000 +0\.000 +1 failed", said.out)
    assert re.search(r"all +2 +0\.000 ±0\.000", said.out)
    assert "2 runs ended by an error. To run them again: rlm eval retry" in said.err
    assert "2 x model:" in said.out
    assert [one.length for one in sorted(read_log(log).entries, key=lambda one: one.length)] == [4_000, 16_000]
    header = json.loads((log / "header.json").read_text())
    assert (header["seed"], header["lengths"], header["total"]) == (1, [4_000, 16_000], 2)
    assert json.loads((log / "summary.json").read_text())["all"]["score"]["mean"] == 0


def test_the_same_command_again_does_only_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, samples, log = settings(tmp_path), suite(tmp_path, 4), tmp_path / "log"
    command = ("eval", "run", samples, "--task", task, "--log", log, "--json", "-q")
    assert say(*command) == exit_codes.ANSWERED
    first = json.loads(capsys.readouterr().out)
    assert first["complete"]
    assert first["summary"]["all"]["score"] == {"mean": 1.0, "error": 0.0}
    kept = lines_of(log)
    (log / "samples.jsonl").write_text("".join(kept[:2]) + kept[2][:50])  # as a killed process may leave it
    assert say(*command) == exit_codes.ANSWERED
    said = capsys.readouterr()
    assert "2 runs to do, 2 done before" in said.err
    assert lines_of(log)[:2] == kept[:2]
    assert len({json.loads(one)["sample_id"] for one in lines_of(log)}) == len(lines_of(log)) == 4
    assert say(*command) == exit_codes.ANSWERED
    assert len(lines_of(log)) == 4


def test_a_log_with_other_settings_is_not_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, samples, log = settings(tmp_path), suite(tmp_path, 1), tmp_path / "log"
    assert say("eval", "run", samples, "--task", task, "--log", log, "-q") == exit_codes.ANSWERED
    assert say("eval", "run", samples, "--task", task, "--log", log, "-q", "--seed", "2") == exit_codes.USAGE
    assert "seed: 1 there, 2 now" in capsys.readouterr().err
    settings(tmp_path, sleep=0.01)
    assert say("eval", "run", samples, "--task", task, "--log", log, "-q") == exit_codes.USAGE
    assert "scripts.replies.yaml" in capsys.readouterr().err
    samples.write_text(samples.read_text().replace("Some words", "Other words"))
    assert say("eval", "run", samples, "--task", task, "--log", log, "-q") == exit_codes.USAGE
    assert f"{samples} has changed since the log was started" in " ".join(capsys.readouterr().err.split())
    assert say("eval", "run", "needle", "--count", "1", "--task", task, "--log", log, "-q") == exit_codes.USAGE
    assert ' there, ["needle"] now' in capsys.readouterr().err
    assert len(lines_of(log)) == 1


def test_a_length_for_samples_from_files_is_said_to_be_left_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("eval", "run", suite(tmp_path, 1), "--task", settings(tmp_path), "-q")
    assert say(*command, "--log", tmp_path / "one", "--length", "4k") == exit_codes.ANSWERED
    assert "--length is ignored: samples from a file have their own length." in capsys.readouterr().err
    assert say(*command, "--log", tmp_path / "two") == exit_codes.ANSWERED
    assert "--length" not in capsys.readouterr().err


def test_all_can_stand_among_other_suites(tmp_path: Path) -> None:
    assert SuitesType().convert("all,needle", None, None) == tuple(SUITES)
    mine = str(suite(tmp_path, 1))
    assert SuitesType().convert(f"{mine},all", None, None) == (mine, *SUITES)


@pytest.mark.parametrize("named", [True, False])
def test_samples_that_a_log_could_not_tell_apart_are_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], named: bool
) -> None:
    task, other, log = settings(tmp_path), tmp_path / "other", tmp_path / "log"
    other.mkdir()
    one, two = suite(tmp_path, 1), suite(other, 1)
    if named:
        two = two.rename(other / "more.jsonl")
    else:
        for path in (one, two):
            path.write_text(path.read_text().replace('"id": "code-0", ', ""))
    assert say("eval", "run", f"{one},{two}", "--task", task, "--log", log) == exit_codes.USAGE
    said = capsys.readouterr().err
    assert f"{one} and {two} both have a sample '{'code-0' if named else 'codes-0'}'" in " ".join(said.split())
    assert 'another "id"' in said
    assert not log.exists()


def test_other_inputs_under_the_same_names_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, samples = settings(tmp_path), suite(tmp_path, 2)
    assert say("eval", "run", samples, "--task", task, "--log", tmp_path / "one", "-q") == exit_codes.ANSWERED
    samples.write_text(samples.read_text().replace("Some words", "Same words", 1))
    assert say("eval", "run", samples, "--task", task, "--log", tmp_path / "two", "-q") == exit_codes.ANSWERED
    capsys.readouterr()
    assert say("eval", "compare", tmp_path / "one", tmp_path / "two") == exit_codes.USAGE
    assert "other inputs (code-0)" in " ".join(capsys.readouterr().err.split())
    assert say("eval", "compare", tmp_path / "one", tmp_path / "one") == exit_codes.ANSWERED


@pytest.mark.timeout(400)  # processes that import everything
@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_characters_that_an_encoding_lacks_are_no_internal_error(tmp_path: Path, encoding: str) -> None:
    for name, scores in (("one", (0.0, 1.0)), ("two", (1.0, 1.0))):
        write(tmp_path / name, [entry(f"\N{SNOWMAN}-{n}", score) for n, score in enumerate(scores)])
    command = [*_RLM, "eval", "compare", str(tmp_path / "one"), str(tmp_path / "two")]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (exit_codes.ANSWERED, b"")
    assert b"Better in B: 1" in done.stdout
    assert re.search(rb"\?-0 +0\.000 \? 1\.000", done.stdout)


@pytest.mark.timeout(400)  # processes that import everything
@pytest.mark.kills
def test_killed_at_any_moment_nothing_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, samples, log = settings(tmp_path, sleep=0.05), suite(tmp_path, 16), tmp_path / "log"
    command = ("eval", "run", samples, "--task", task, "--log", log, "--at-once", "2", "--json")
    dice, kept = random.Random(3), []
    for _ in range(_KILLS):
        process = start(*command)
        wait_for_lines(log, len(kept) + dice.randint(1, 3), process)
        time.sleep(dice.uniform(0, 0.05))  # only to come at any moment, not to wait for one
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        now = [one for one in lines_of(log) if one.endswith("\n")]
        assert now[: len(kept)] == kept
        assert len(kept) < len(now) < 16
        kept = now
    assert say(*command) == exit_codes.ANSWERED
    out, said = capsys.readouterr()
    summary = json.loads(out)["summary"]
    assert (summary["all"]["tries"], summary["all"]["score"]["mean"]) == (16, 1.0)
    assert f"{16 - len(kept)} runs to do, {len(kept)} done before" in said
    after = lines_of(log)
    assert after[: len(kept)] == kept
    assert sorted(json.loads(one)["sample_id"] for one in after) == sorted(f"code-{n}" for n in range(16))


@pytest.mark.timeout(400)
@pytest.mark.processes
def test_an_interrupted_evaluation_says_how_to_go_on(tmp_path: Path) -> None:
    task, samples = settings(tmp_path, sleep=0.2), suite(tmp_path, 6)
    process = start("eval", "run", samples, "--task", task, "--at-once", "1")
    logs = Path(os.environ["RLM_HOME"]) / "evals"
    before = set(logs.iterdir()) if logs.exists() else set()
    end = time.monotonic() + 120
    while not (made := [one for one in (logs.iterdir() if logs.exists() else ()) if one not in before]):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    wait_for_lines(made[0], 2, process)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert process.returncode == exit_codes.INTERRUPTED, said
    assert "Evaluation · scripted (replies.yaml)" in out
    done = len(lines_of(made[0]))
    assert f"Interrupted. {done} of 6 runs are in the log; nothing is lost." in said
    assert "Traceback" not in said
    again = next(line for line in said.splitlines() if line.startswith("To continue: ")).removeprefix(
        "To continue: rlm "
    )
    assert say(*shlex.split(again), "-q") == exit_codes.ANSWERED
    assert len(lines_of(made[0])) == 6


def test_only_what_an_error_broke_off_is_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, samples, log = settings(tmp_path), suite(tmp_path, 4), tmp_path / "log"
    assert say("eval", "run", samples, "--task", task, "--log", log, "-q") == exit_codes.ANSWERED
    assert say("eval", "retry", log) == exit_codes.ANSWERED
    assert "Nothing to run again: no run in" in capsys.readouterr().err
    spoiled: list[dict[str, Any]] = [json.loads(one) for one in lines_of(log)]
    spoiled[0] |= {"ending": "Failed", "score": 0.0, "error": "model:rate: busy", "outputs": None}
    spoiled[1] |= {"ending": "Failed", "score": 0.0, "reason": "no answer", "outputs": None}
    spoiled[2] |= {"ending": "Failed", "score": 0.0, "error": "model:context: too long", "outputs": None}
    (log / "samples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in spoiled))
    assert say("eval", "retry", log, "-q") == exit_codes.ANSWERED
    assert [json.loads(one)["sample_id"] for one in lines_of(log)[4:]] == [spoiled[0]["sample_id"]]
    assert sum(one.score for one in read_log(log).entries) == 2
    assert say("eval", "retry", log, "-q", "--ending", "failed") == exit_codes.ANSWERED
    assert sum(one.score for one in read_log(log).entries) == 4
    assert json.loads((log / "summary.json").read_text())["all"]["score"]["mean"] == 1


def test_it_stops_when_the_money_is_spent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, samples, log = settings(tmp_path), suite(tmp_path, 4), tmp_path / "log"
    command = ("eval", "run", samples, "--task", task, "--log", log, "-q")
    assert say(*command, "--max-cost", "0") == exit_codes.NO_ANSWER
    said = capsys.readouterr().err
    assert "Stopped: $0 is spent (--max-cost). 0 of 4 runs are in the log." in said
    assert say(*command, "--max-cost", "1") == exit_codes.ANSWERED


def test_what_was_spent_on_replaced_runs_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, samples, log = settings(tmp_path), suite(tmp_path, 3), tmp_path / "log"
    assert say("eval", "run", samples, "--task", task, "--log", log, "-q") == exit_codes.ANSWERED
    whole: list[dict[str, Any]] = [json.loads(one) for one in lines_of(log)]
    failed = {
        "ending": "Failed",
        "score": 0.0,
        "error": "model:rate: busy",
        "outputs": None,
        "usage": {"cost_usd": 2.0},
    }
    lines = [{**whole[0], **failed}, {**whole[0], **failed}, whole[1]]  # tried twice; the third sample is missing
    (log / "samples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    capsys.readouterr()
    assert say("eval", "retry", log, "--max-cost", "3", "-q") == exit_codes.NO_ANSWER
    out, said = capsys.readouterr()
    assert "Stopped: $3 is spent (--max-cost). 2 of 3 runs are in the log. 1 run was not started." in said
    assert "$4.00 with runs that were tried again" in out
    assert say("eval", "run", samples, "--task", task, "--log", log, "-q", "--max-cost", "3") == exit_codes.NO_ANSWER
    assert len(lines_of(log)) == 3
    assert say("eval", "retry", log, "--max-cost", "5", "-q", "--json") == exit_codes.NO_ANSWER
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["summary"]["spent_usd"] == 4.0
    assert len(lines_of(log)) == 4


def test_a_folder_with_other_files_is_not_written_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    task, samples = settings(tmp_path), suite(tmp_path, 1)
    assert say("eval", "run", samples, "--task", task, "--log", folder) == exit_codes.USAGE
    said = capsys.readouterr().err
    assert "notes is not a log and has other files in it (mine.txt); use an empty directory" in said
    assert [one.name for one in folder.iterdir()] == ["mine.txt"]


def test_two_logs_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write(tmp_path / "one", [entry(f"s{n}", 0.0) for n in range(8)])
    two = write(tmp_path / "two", [entry(f"s{n}", 1.0 if n else 0.0) for n in range(9)], baseline="direct")
    assert say("eval", "compare", one, two) == exit_codes.ANSWERED
    said = capsys.readouterr().out
    assert "B is better than A by 0.875: the interval does not reach 0." in said
    assert "Better in B: 7" in said
    assert "Left out: 1 sample, 1 only in B." in said
    assert "baseline  none  direct" in said
    assert say("eval", "compare", one, two, "--json") == exit_codes.ANSWERED
    assert json.loads(capsys.readouterr().out)["all"]["difference"] == 0.875
    other = write(tmp_path / "other", [entry("x")])
    assert say("eval", "compare", one, other) == exit_codes.USAGE
    assert "have no samples in common" in capsys.readouterr().err


def test_the_suites_and_the_logs_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert say("eval", "list", "--json") == exit_codes.ANSWERED
    assert "needle" in [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()]
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    assert say("eval", "list", "--logs") == exit_codes.ANSWERED
    assert "No logs in" in capsys.readouterr().err
    write(tmp_path / "evals" / "made-1", [entry("a", 0.5), entry("b", 1.0)])
    assert say("eval", "list", "--logs") == exit_codes.ANSWERED
    assert "made-1  made/main" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["needles", "--model", "oracle"], "there is no suite 'needles'; did you mean needle?"),
        (["gone.jsonl", "--model", "oracle"], "there is no file gone.jsonl"),
        (["/tmp", "--model", "oracle"], "/tmp is a directory; a suite of your own is a .jsonl file"),
        (["needle", "--model", "oracle", "--length", "long"], "'long' is not a length"),
        (["needle", "--model", "oracle", "--length", "10"], "is not between"),
        (["needle"], "rlm eval run: models.main is missing"),
        (["needle", "--model", "openai/x", "--error-rate", "0.1"], "needs --model oracle"),
        (["needle", "--task", "gone.yaml"], "gone.yaml"),
        (["needle", "--model", "oracle", "--epochs", "2", "--cache", "read"], "every epoch the responses of the first"),
    ],
)
def test_mistakes_are_said_before_anything_is_run(
    tmp_path: Path,
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert say("eval", "run", *arguments, "--log", "log") == exit_codes.USAGE
    assert said in capsys.readouterr().err
    assert not (tmp_path / "log" / "header.json").exists()


def test_a_mistake_in_the_settings_has_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = tmp_path / "settings.yaml"
    task.write_text("models: oracle\nbudget:\n  max_iterations: many\n")
    assert say("eval", "run", "needle", "--task", task, "--log", tmp_path / "log") == exit_codes.USAGE
    assert "settings.yaml:3:19" in capsys.readouterr().err


def test_suites_and_logs_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.shell_completion import ShellComplete

    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    write(tmp_path / "evals" / "made-1", [entry("a")])

    def completed(words: list[str], begun: str) -> list[str]:
        return [one.value for one in ShellComplete(rlm, {}, "rlm", "_X").get_completions(words, begun)]

    assert {"needle", "needle-keys"} <= set(completed(["eval", "run"], "nee"))
    assert "count,needle" in completed(["eval", "run"], "count,nee")
    assert completed(["eval", "view"], "ma") == ["made-1"]
    assert "--baseline" in completed(["eval", "run"], "--base")
    assert "retry" in completed(["eval"], "re")


def test_a_log_is_looked_at_in_a_browser(tmp_path: Path) -> None:
    log = write(tmp_path / "mine", [entry("a", 0.5)])
    process = start("eval", "view", log, "--no-open")
    try:
        assert process.stdout is not None
        address, _, fragment = process.stdout.readline().strip().partition("#")
        assert fragment == "/eval"
        with urllib.request.urlopen(f"{address}api/eval", timeout=60) as answer:
            assert json.loads(answer.read())["rows"][0]["score"] == 0.5
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == exit_codes.ANSWERED
    assert said.splitlines() == ["Ctrl-C ends it."]


def test_what_is_no_log_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert say("eval", "view", tmp_path / "gone") == exit_codes.USAGE
    assert "`rlm eval list --logs` lists them" in capsys.readouterr().err
    (tmp_path / "header.json").write_text("[]")
    assert say("eval", "compare", tmp_path, tmp_path) == exit_codes.USAGE
    assert "is not the header of an evaluation" in capsys.readouterr().err
    log = write(tmp_path / "mine", [entry("a")], configuration={})
    (log / "samples.jsonl").write_text(json.dumps({**entry("a").to_dict(), "error": "model:rate: busy"}) + "\n")
    assert say("eval", "retry", log) == exit_codes.USAGE
    assert "its header does not describe the evaluation" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    run = ("eval", "run", "needle", "--model", "oracle", "--log", tmp_path / "file" / "log")
    assert say(*run) == exit_codes.ENVIRONMENT
    assert "file/log cannot be written (Not a directory); use another --log" in capsys.readouterr().err


def test_the_examples_in_the_help_name_suites_that_there_are() -> None:
    from rlm.cli.commands import eval as evals
    from rlm.cli.commands import eval_run
    from rlm.evals.suites import ALL_SUITES

    said = f"{evals.command.help}\n{eval_run.command.help}"
    named = {name for one in re.findall(r"rlm eval run (\S+)", said) for name in one.split(",")}
    assert {"needle", "count"} <= named
    assert {name for name in named if not name.endswith(".jsonl")} <= ALL_SUITES.keys() | {"all"}


def test_the_summary_says_which_tier_answered_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = {"main": ["```python\nSUBMIT(answer=llm_query('which code?', type=int))\n```"]}
    task = settings(tmp_path, json.dumps({**replies, "sub": ["no idea", "1000"]}), adapter="outlines")
    log = tmp_path / "log"
    assert say("eval", "run", suite(tmp_path, 6), "--task", task, "--log", log, "-q") == exit_codes.ANSWERED
    said = capsys.readouterr().out
    assert "Typed answers" in said
    assert re.search(r"llm_query: .*6 of 6 answered \(tier 1 0%, tier 2 0%, tier 3 100%\)", said)
    assert re.search(r"tier 3 answered 100% of llm_query: .*: use a larger model", said)
    assert all(one.tiers for one in read_log(log).entries)
    kept = json.loads((log / "summary.json").read_text())["all"]["tiers"]
    assert [one["tier3_success"] for name, one in kept.items() if name.startswith("llm_query")] == [6]


class Busy(LimitedChat):
    """Writes the code that submits, as often as it is allowed to."""

    def next_play(self) -> Play:
        play = super().next_play()
        return Play(body=completion(SUBMIT)) if play.status == 200 else play


def test_a_busy_server_slows_all_samples_down_and_fails_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-very-secret-key")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    with Busy(4, 0.5) as server:
        model = {"model": "openai/local", "api_base": server.url, "api_key_env": "SOME_KEY", "num_retries": 0}
        task, log = settings(tmp_path, models={"main": model}), tmp_path / "log"
        run = ("eval", "run", suite(tmp_path, 6), "--task", task, "--log", log, "--at-once", "6", "-q")
        assert say(*run) == exit_codes.ANSWERED
        assert server.refused > 0
    assert [one.error for one in read_log(log).entries] == [None] * 6


def test_calls_without_a_price_are_said_once_where_there_is_a_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-very-secret-key")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    with ChatServer() as server:
        server.plays = [Play(body=completion(SUBMIT))]
        model = {"model": "openai/of-unknown-price", "api_base": server.url, "api_key_env": "SOME_KEY"}
        task = settings(tmp_path, models={"main": model})
        run = ("eval", "run", suite(tmp_path, 3), "--task", task, "--log", tmp_path / "log", "--max-cost", "1")
        assert say(*run, "-q") == exit_codes.ANSWERED
    assert capsys.readouterr().err.count("--max-cost: no price is known for 1 call of code-") == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with room for a few lines."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12k", "tmpfs", str(place)], capture_output=True)
    if done.returncode:
        pytest.skip("a file system can be mounted only by root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
def test_a_full_disk_stops_it_and_with_more_room_it_goes_on(
    tmp_path: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task, samples, log = settings(tmp_path), suite(tmp_path, 24), small_disk / "log"
    command = ("eval", "run", samples, "--task", task, "--log", log, "-q")
    assert say(*command) == exit_codes.ENVIRONMENT
    assert (
        "cannot be written (No space left on device); free some space, and the same command" in capsys.readouterr().err
    )
    kept = [one for one in lines_of(log) if one.endswith("\n")]
    assert 0 < len(kept) < 24
    subprocess.run(["mount", "-o", "remount,size=2m", str(small_disk)], check=True)
    assert say(*command) == exit_codes.ANSWERED
    assert lines_of(log)[: len(kept)] == kept
    assert len({json.loads(one)["sample_id"] for one in lines_of(log)}) == len(lines_of(log)) == 24
