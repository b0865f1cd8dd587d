"""The suites: the same everywhere, of the right length, varied, and typed."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zlib
from collections import Counter

import pytest

from rlm.evals.sample import Sample
from rlm.evals.scorers import SCORERS, score
from rlm.evals.suites import SUITES
from rlm.evals.suites.dice import Dice
from rlm.evals.suites.messages import SAYINGS, TOPICS, message
from rlm.evals.suites.prose import paragraphs
from rlm.signatures import Signature

PINNED = "642d6e050ca829fb547e0c9f4e808b15f378744af78e2db1cf1e4d0be087d932"
"""Of one sample of each suite: whoever changes what is generated changes what published scores mean."""


def digest() -> str:
    found = hashlib.sha256()
    for suite in SUITES.values():
        for sample in suite.generate(7, 6_000, 1):
            found.update(json.dumps(sample.to_dict(), sort_keys=True).encode())
    return found.hexdigest()


def test_samples_are_the_same_in_every_process() -> None:
    code = "from tests.rlm.evals.suites.test_suites import digest; print(digest())"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("1", "2")
    ]
    assert {*runs, digest()} == {PINNED}


@pytest.mark.parametrize("name", SUITES)
def test_every_sample_is_a_task_with_an_answer_that_fits(name: str) -> None:
    suite = SUITES[name]
    signature = Signature.of(suite.signature)
    ids = set()
    for sample in suite.generate(3, 5_000, 12):
        signature.check_inputs(sample.inputs)
        signature.check_outputs(sample.expected)
        assert sample.expected.keys() == sample.scoring.keys() == {field.name for field in signature.outputs}
        assert {*sample.scoring.values()} <= {*SCORERS}
        assert score(sample, sample.expected).total == 1.0
        assert Sample.from_dict(json.loads(json.dumps(sample.to_dict()))) == sample
        ids.add(sample.id)
    assert len(ids) == 12
    assert "\n" not in suite.about


@pytest.mark.parametrize("length", [4_000, 20_000, 300_000])
@pytest.mark.parametrize("name", SUITES)
def test_lengths_are_hit_within_two_percent(name: str, length: int) -> None:
    for sample in SUITES[name].generate(11, length, 10 if length < 100_000 else 1):
        made = sum(len(text) for text in sample.inputs.values())
        assert abs(made - length) <= 0.02 * length


@pytest.mark.parametrize("name", ["needle-keys", "pairs"])
def test_ten_million_characters(name: str) -> None:
    sample = next(SUITES[name].generate(1, 10_000_000, 1))
    assert abs(len(sample.inputs["doc"]) - 10_000_000) <= 200_000
    assert sample.expected["answer"]


@pytest.mark.parametrize("length", [3_999, 10_000_001])
def test_a_length_that_cannot_be_made_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=r"not between 4,000 and 10,000,000"):
        next(SUITES["needle"].generate(1, length, 1))


def test_a_longer_series_begins_with_the_shorter_one() -> None:
    short, long = (list(SUITES["hops"].generate(5, 4_000, count)) for count in (2, 4))
    assert long[:2] == short
    assert len({sample.inputs["doc"] for sample in long}) == 4


def test_the_filler_hardly_repeats_itself() -> None:
    text = "\n".join(paragraphs(Dice("filler"), 400_000))
    sentences = [one for line in text.splitlines() for one in line.split(". ")]
    assert len(set(sentences)) > 0.999 * len(sentences)
    assert len(text) < 5 * len(zlib.compress(text.encode(), 9))


def test_no_single_word_gives_a_topic_away() -> None:
    dice = Dice("words")
    made = [(topic, message(dice, topic)) for topic in TOPICS for _ in range(400)]
    in_topic: Counter[tuple[str, str]] = Counter()
    everywhere: Counter[str] = Counter()
    for topic, text in made:
        for word in set(text.lower().replace(",", " ").replace(".", " ").split()):
            in_topic[topic, word] += 1
            everywhere[word] += 1
    best = {topic: max(2 * hits / (400 + everywhere[word]) for (t, word), hits in in_topic.items() if t == topic)
            for topic in TOPICS}  # fmt: skip
    assert max(best.values()) < 0.6, best


def test_the_topic_itself_is_not_written_in_a_message() -> None:
    dice = Dice("names")
    said = [(topic, message(dice, topic).lower()) for topic in TOPICS for _ in range(300)]
    share = sum(topic in text for topic, text in said) / len(said)
    assert share < 0.05
    assert all(len(sayings) >= 12 for sayings in SAYINGS.values())


def test_a_needle_is_there_once_and_has_distractors() -> None:
    for sample in SUITES["needle"].generate(2, 30_000, 5):
        doc, code = sample.inputs["doc"], str(sample.expected["answer"])
        assert doc.count(code) == 1
        assert doc.count("access code") + doc.count("door number") == 4


def test_variables_are_the_ones_that_hold_the_value_at_the_end() -> None:
    for sample in SUITES["variables"].generate(2, 30_000, 5):
        held: dict[str, str] = {}
        for line in sample.inputs["doc"].splitlines():
            if line.startswith("VAR "):
                name, _, source = line[4:].partition(" = ")
                held[name] = held[source[4:]] if source.startswith("VAR ") else source
        value = sample.instructions.partition("have the value ")[2].split()[0]
        assert sorted(name for name, one in held.items() if one == value) == sample.expected["answer"]
        assert len(sample.expected["answer"]) == 5


def test_the_common_words_are_clearly_the_most_common() -> None:
    for sample in SUITES["words"].generate(2, 5_000, 20):
        words = Counter(sample.inputs["doc"].partition("\n")[2].split())
        ranks = words.most_common(4)
        assert sorted(word for word, _ in ranks[:3]) == sample.expected["answer"]
        assert ranks[2][1] > ranks[3][1]
