"""Searches on a model whose skill depends on what its instructions say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rlm.runner
from rlm.batch.task_binding import TaskBinder
from rlm.models.scripted import scripted_lm
from rlm.optimize import OptimizeError, Split, optimize, read_labeled_rows, split_rows
from rlm.optimize.search import compare_scores
from rlm.repl.learned import read_learned, write_learned
from rlm.tasks import TaskError, load
from tests.support.skilled_model import skilled_lm

TASK = """\
signature: "doc: str -> n: int"
models: openai/skilled
budget: {max_iterations: 2}
"""
BETTER = "Count the words, not the characters."
WORDS = "I count words.\n```python\nSUBMIT(n=len(doc.split()))\n```"
CHARACTERS = "I count.\n```python\nSUBMIT(n=len(doc))\n```"


def skill(prompt: str) -> str:
    return WORDS if "the words, not" in prompt or "I count words." in prompt else CHARACTERS


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task whose model counts characters, unless it is told to count words or sees an example of that."""
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RLM_TRACE", "off")
    path = tmp_path / "task.yaml"
    path.write_text(TASK)
    return path


def rows_of(folder: Path, count: int = 12) -> Path:
    path = folder / "rows.jsonl"
    docs = [" ".join(["word"] * (n + 2)) for n in range(count)]
    path.write_text("".join(json.dumps({"doc": doc, "n": len(doc.split())}) + "\n" for doc in docs))
    return path


def made(task: Path, monkeypatch: pytest.MonkeyPatch, skill: Any = skill) -> tuple[Any, Split, Any]:
    lm = skilled_lm(skill)
    monkeypatch.setattr(rlm.runner, "make_model", lambda spec, role, had=0: lm)
    read, rows = read_labeled_rows(task, rows_of(task.parent), TaskBinder())
    return read, split_rows(rows, seed=0, test_share=0.25, validation_share=0.25), lm


REFLECTION = {
    "gepa": {"*": json.dumps({"new_instruction": BETTER})},
    "copro": {
        "*": f"[[ ## proposed_instruction ## ]]\n{BETTER}\n\n[[ ## proposed_prefix_for_output_field ## ]]\nReply:\n\n"
        "[[ ## completed ## ]]"
    },
}


@pytest.mark.parametrize("optimizer", ["gepa", "copro"])
def test_better_instructions_are_found_and_tested_on_rows_kept_back(
    task: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str
) -> None:
    read, split, _ = made(task, monkeypatch)
    found = optimize(
        read, split, optimizer=optimizer, runs=24, reflection_lm=scripted_lm(REFLECTION[optimizer]), threads=2
    )
    assert found.kept
    assert found.learned.instructions == BETTER
    assert (found.test.before, found.test.after, found.test.rows) == (0.0, 1.0, 3)
    assert found.leaks == ()


def test_mipro_chooses_among_instructions(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    proposal = scripted_lm({"*": f"[[ ## proposed_instruction ## ]]\n{BETTER}\n\n[[ ## completed ## ]]"})
    read, split, _ = made(task, monkeypatch)
    found = optimize(read, split, optimizer="mipro", runs=15, reflection_lm=proposal, threads=1)
    assert (found.kept, found.test.before, found.test.after) == (True, 0.0, 1.0)
    assert BETTER in found.learned.instructions


def test_simba_learns_from_runs_that_differ(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other answer is right without advice, so runs of one row differ."""
    asked: list[str] = []

    def moody(prompt: str) -> str:
        asked.append(prompt)
        return WORDS if skill(prompt) == WORDS or len(asked) % 2 else CHARACTERS

    advice = {"*": json.dumps({"discussion": "-", "module_advice": {"act": BETTER}})}
    read, split, _ = made(task, monkeypatch, moody)
    found = optimize(read, split, optimizer="simba", runs=40, reflection_lm=scripted_lm(advice), threads=1)
    assert found.runs > len(split.validation)
    assert found.test.after == 1.0 if found.kept else found.test.difference == 0.0


def test_labeled_examples_reach_the_model(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, split, lm = made(task, monkeypatch)
    optimize(read, split, optimizer="labeled", runs=10, threads=1)
    assert any(
        "Example of the task, with the right answer:\ndoc = word word" in text for text in lm._engine_spec.prompts
    )


def test_examples_are_learned_from_runs_that_were_right(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is right about the shortest text by chance; its reply is the example for the others."""

    def lucky(prompt: str) -> str:
        return WORDS if "I count words." in prompt or '"word word"' in prompt else CHARACTERS

    read, split, _ = made(task, monkeypatch, lucky)
    rows = sorted([*split.train, *split.validation, *split.test], key=lambda row: row.expected["n"])
    split = Split(tuple(rows[:6]), tuple(rows[6:9]), tuple(rows[9:]))
    found = optimize(read, split, optimizer="bootstrap", runs=20, threads=1)
    assert found.kept
    assert [demo["reply"] for demo in found.learned.demos][:1] == [WORDS]
    assert (found.test.before, found.test.after) == (0.0, 1.0)


def test_an_interrupted_search_makes_no_run_twice(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, split, lm = made(task, monkeypatch)
    store = task.parent / "runs.jsonl"
    options: dict[str, Any] = {"optimizer": "copro", "runs": 24, "store": store, "threads": 1}
    first = optimize(read, split, reflection_lm=scripted_lm(REFLECTION["copro"]), **options)
    asked = len(lm._engine_spec.prompts)
    store.write_text(store.read_text() + '{"key": "to')  # killed while it wrote
    second = optimize(read, split, reflection_lm=scripted_lm(REFLECTION["copro"]), **options)
    assert len(lm._engine_spec.prompts) == asked
    assert (second.learned, second.test) == (first.learned, first.test)
    assert second.repeated == second.runs == first.runs


def test_what_is_no_better_is_not_taken(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, split, _ = made(task, monkeypatch)
    worse = {"*": json.dumps({"new_instruction": "Guess."})}
    found = optimize(read, split, optimizer="gepa", runs=12, reflection_lm=scripted_lm(worse), threads=1)
    assert (found.kept, found.learned.instructions, found.test.difference) == (False, "", 0.0)


def test_answers_of_training_rows_in_instructions_are_leaks(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlm.optimize.leaks import find_leaks
    from rlm.optimize.rows import LabeledRow

    rows = [LabeledRow(f"row {n}", {}, {"name": f"Maren {n}", "kind": "brig", "tons": 400 + n}) for n in range(20)]
    text = "The ship of row 3 is maren 3, a brig of 407 tons; there are 4070 others."
    assert find_leaks(text, "Name the ship.", rows) == ["Maren 3", "407"]
    assert find_leaks(text, "Is it Maren 3, of 407?", rows) == []


def test_rows_without_an_answer_and_too_few_rows_are_named(task: Path) -> None:
    data = task.parent / "rows.jsonl"
    data.write_text('{"doc": "a"}\n{"text": "a", "n": 1}\n{"n": 1}\nnonsense\n')
    with pytest.raises(TaskError) as raised:
        read_labeled_rows(task, data, TaskBinder())
    text = str(raised.value)
    assert "rows.jsonl:1: has no right output; give columns named like the outputs (n)" in text
    assert "rows.jsonl:2: input 'text' is no input of the signature" in text
    assert "rows.jsonl:3: has no inputs" in text
    assert "rows.jsonl:4: is not JSON" in text
    with pytest.raises(OptimizeError, match="too few"):
        optimize(None, Split((), (), ()))


def test_right_outputs_of_a_csv_file_have_their_types(task: Path) -> None:
    data = task.parent / "rows.csv"
    data.write_text("doc,n\none two,2\n")
    _, rows = read_labeled_rows(task, data, TaskBinder())
    assert (rows[0].inputs, rows[0].expected) == ({"doc": "one two"}, {"n": 2})


def test_a_task_uses_what_was_learned(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlm.repl.learned import Learned

    _, _, lm = made(task, monkeypatch)
    demos = ({"doc": "x" * 5000, "n": 1}, {"conversation": "asked", "reply": "answered"})
    write_learned(task.parent / "found.json", Learned("Count the words, not the rest.", demos), {})
    task.write_text(f"{TASK}learned: found.json\ninputs: {{doc: one two three}}\n")
    result = rlm.run_task(task)
    assert result.outputs.n == 3
    prompt = lm._engine_spec.prompts[-1]
    assert prompt.startswith("Count the words, not the rest.")
    assert "Example of the task, with the right answer:\ndoc = xxx" in prompt
    assert "x" * 5000 not in prompt
    assert "Example:\nasked\nanswered" in prompt


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 99}', '{"format": 1, "instructions": 3, "demos": []}'])
def test_a_damaged_file_is_named(task: Path, content: str) -> None:
    (task.parent / "found.json").write_text(content)
    task.write_text(f"{TASK}learned: found.json\ninputs: {{doc: a}}\n")
    with pytest.raises(TaskError, match=r"task.yaml:4:.*found\.json"):
        load(task)
    with pytest.raises(ValueError, match=r"found\.json"):
        read_learned(task.parent / "found.json")


def test_scores_are_compared_row_by_row() -> None:
    scores = compare_scores([0.0, 0.5, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0], seed=1)
    assert (scores.before, scores.after, scores.difference) == (0.375, 1.0, 0.625)
    assert 0 < scores.low < scores.difference < scores.high <= 1
    assert scores.better > 0.99
