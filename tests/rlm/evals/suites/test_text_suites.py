"""The suites on texts in a folder: answers computed a second way, lengths, and what is missing from a folder."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

import rlm
from rlm.evals import EvalLogError
from rlm.evals.scorers import contains, score
from rlm.evals.suites import TEXT_SUITES, Corpora, CorpusMissing
from rlm.evals.suites.corpora import LABELS
from rlm.evals.suites.oolong_pairs import TASKS, read_condition
from rlm.signatures import Signature

COUNT = {"oolong": 90, "oolong-pairs": 20, "ruler": 11, "logs": 40}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Corpora:
    folder = tmp_path_factory.mktemp("texts")
    for name in ("questions", "prose", "logs"):
        (folder / name).mkdir()
    asked = [f"{label}:kind Which {label.lower()} has the number {n} ?" for n in range(60) for label in LABELS]
    (folder / "questions" / "train.txt").write_text("\n".join(asked))
    (folder / "prose" / "one.txt").write_text("A sentence about the harbour. Another one about ships.\n" * 400)
    rows = [
        (n, "INFO" if n % 3 else "WARN", f"disk{n % 7}", f"read of block {n % 11} took {n % 5} ms") for n in range(300)
    ]
    (folder / "logs" / "App.log").write_text("\n".join(f"{level} {name}: {text}" for _, level, name, text in rows))
    head = "LineId,Level,Component,Content,EventId,EventTemplate\n"
    template = "read of block <*> took <*> ms"
    lines = (f"{n},{level},{name},{text},E1,{template}" for n, level, name, text in rows)
    (folder / "logs" / "App.log_structured.csv").write_text(head + "\n".join(lines))
    return Corpora(folder)


@pytest.mark.parametrize("name", TEXT_SUITES)
def test_samples_are_typed_scored_and_of_their_length(name: str, corpora: Corpora) -> None:
    samples = list(TEXT_SUITES[name].generate(3, 9_000, COUNT[name], corpora))
    again = list(TEXT_SUITES[name].generate(3, 9_000, COUNT[name], corpora))
    assert samples == again
    assert len({sample.id for sample in samples}) == COUNT[name]
    for sample in samples:
        signature = Signature.of(sample.signature, instructions=sample.instructions)
        signature.check_inputs(sample.inputs)
        signature.check_outputs(sample.expected)
        assert score(sample, sample.expected).total == 1
        assert json.dumps(sample.to_dict())
        (text,) = sample.inputs.values()
        assert len(text) <= 9_000 * 1.02
        assert name == "logs" or len(text) >= 9_000 * 0.98


def labels_of(context: str) -> list[tuple[int, str]]:
    """Return the users and labels of the lines: the questions of these tests name their labels."""
    found = re.findall(r"User: (\d+) \|\| Instance: Which (\w+) ", context)
    return [(int(user), LABELS[label.upper()]) for user, label in found]


def test_counts_of_oolong_are_those_of_the_lines(corpora: Corpora) -> None:
    counted = 0
    for sample in TEXT_SUITES["oolong"].generate(3, 12_000, 120, corpora):
        lines = labels_of(sample.inputs["context"])
        assert len(lines) == sample.meta["lines"]
        counts, answer = Counter(label for _, label in lines), sample.expected["answer"]
        if whole := re.match(
            r"In the above data, how many data points should be classified as label '(.+)'", sample.instructions
        ):
            assert answer == counts[whole[1]]
            assert sample.scoring == {"answer": "number"}
            counted += 1
        elif most := re.match(
            r"In the above data, which of the labels is the (most|least) common", sample.instructions
        ):
            best = (max if most[1] == "most" else min)(counts.values())
            assert [label for label in LABELS.values() if counts[label] == best] == [answer]
            counted += 1
        elif user := re.match(r"In the above data, which user is represented most often", sample.instructions):
            assert user
            by_user = Counter(user for user, _ in lines).most_common(2)
            assert (by_user[0][0], by_user[0][1] > by_user[1][1]) == (answer, True)
            counted += 1
    assert counted >= 10


def test_pairs_are_those_that_the_words_of_a_task_ask_for(corpora: Corpora) -> None:
    samples = list(TEXT_SUITES["oolong-pairs"].generate(5, 12_000, 20, corpora))
    assert [sample.meta["task"] for sample in samples] == list(range(1, 21))
    assert all(task in sample.instructions for task, sample in zip(TASKS, samples, strict=True))

    def users(sample, fits):
        by_user: dict[int, Counter[str]] = {}
        for user, label in labels_of(sample.inputs["context"]):
            by_user.setdefault(user, Counter())[label] += 1
        return {user for user, counts in by_user.items() if fits(counts)}

    first = users(samples[0], lambda counts: counts["numeric value"] or counts["location"])
    assert samples[0].expected["answer"] == [list(pair) for pair in combinations(sorted(first), 2)]
    one = users(samples[10], lambda counts: counts["entity"] and counts["abbreviation"])
    other = users(samples[10], lambda counts: counts["entity"] == 1)
    wanted = {tuple(sorted((a, b))) for a in one for b in other if a != b}
    assert {tuple(pair) for pair in samples[10].expected["answer"]} == wanted
    last = users(samples[19], lambda counts: counts["location"] and counts["entity"] and counts["abbreviation"] == 1)
    both = users(samples[19], lambda counts: counts["numeric value"] and counts["human being"])
    assert {tuple(pair) for pair in samples[19].expected["answer"]} == {
        tuple(sorted((a, b))) for a in last for b in both if a != b
    }


def test_dates_of_pairs_count() -> None:
    import datetime

    from rlm.evals.suites.labelled_lines import Line

    def line(day: str, label: str) -> Line:
        return Line(datetime.date.fromisoformat(day), 1, label, "?")

    by_user = {
        1: [line("2023-01-07", "human being")],
        2: [line("2022-01-01", "location")],
        3: [line("2023-01-06", "human being"), line("2023-05-01", "human being")],
    }
    assert read_condition(TASKS[3]).pairs(by_user) == [[1, 2]]
    with pytest.raises(ValueError, match="no condition"):
        read_condition("where both users are tall")


def test_ruler_hides_what_it_asks_for_and_scores_as_ruler_does(corpora: Corpora) -> None:
    samples = {sample.meta["task"]: sample for sample in TEXT_SUITES["ruler"].generate(2, 9_000, 11, corpora)}
    assert len(samples) == 11
    for name, sample in samples.items():
        assert all(value in sample.inputs["context"] for value in sample.expected["answer"]), name
    words = Counter(samples["cwe"].inputs["context"].split()[1::2])
    assert {word for word, _ in words.most_common(10)} == set(samples["cwe"].expected["answer"])
    coded = Counter(word for word in samples["fwe"].inputs["context"].split() if word != "...")
    assert [word for word, _ in coded.most_common(3)] == samples["fwe"].expected["answer"]
    assert contains(["12", "345"], ["it is 345", "no"]) == 0.5
    assert contains(["Abc"], "xabcx") == 1


def test_a_folder_without_the_texts_is_named_with_what_is_wanted(tmp_path: Path, corpora: Corpora) -> None:
    with pytest.raises(CorpusMissing, match=r"has no TREC questions .*--texts"):
        next(TEXT_SUITES["oolong"].generate(1, 9_000, 1, Corpora(tmp_path)))
    with pytest.raises(CorpusMissing, match="suite ruler is on real texts"):
        next(TEXT_SUITES["ruler"].generate(1, 9_000, 1))
    with pytest.raises(EvalLogError, match="logs is on real texts: give their folder with --texts"):
        rlm.evaluate("logs", models={"main": "oracle"}, lengths=[4_000], count=1, log=tmp_path / "log", trace=False)


def test_a_log_knows_the_texts_that_it_was_started_with(tmp_path: Path, corpora: Corpora) -> None:
    (tmp_path / "logs").mkdir()
    for name in ("App.log", "App.log_structured.csv"):
        (tmp_path / "logs" / name).write_text((corpora.folder / "logs" / name).read_text())
    replies = tmp_path / "replies.yaml"
    replies.write_text("main: ['```python\\nSUBMIT(answer=1)\\n```', '```python\\nSUBMIT(answer=1)\\n```']\n")
    task = tmp_path / "settings.yaml"
    task.write_text("models: {scripted: replies.yaml}\n")
    options = {"task": task, "lengths": [4_000], "count": 1, "log": tmp_path / "log", "trace": False, "texts": tmp_path}
    log = rlm.evaluate("logs", **options)
    assert (log.complete, log.header["texts"]) == (True, str(tmp_path))
    with (tmp_path / "logs" / "App.log_structured.csv").open("a") as file:
        file.write("\n")
    with pytest.raises(EvalLogError, match=r"other settings|has changed since"):
        rlm.evaluate("logs", **options)
