"""The oracle: it reads what it is sent, errs as it was told to, and does its work in the real runtime."""

from __future__ import annotations

import json

import dspy
import pytest

import rlm
from rlm.evals.sample import Sample
from rlm.evals.scorers import score
from rlm.evals.simulated import Oracle, oracle_lm
from rlm.evals.suites import SUITES
from rlm.models.client import ModelError, ask
from rlm.reading.direct import direct_prompt
from rlm.signatures import Signature

SURE = Oracle(error=0.0, bad_code=0.0, wrong_code=0.0, window=1_000_000)


def signature(sample: Sample) -> Signature:
    return Signature.of(sample.signature, instructions=sample.instructions)


async def direct(sample: Sample, settings: Oracle) -> float:
    answer = await ask(oracle_lm(settings), [("user", direct_prompt(signature(sample), sample.inputs))])
    return score(sample, json.loads(answer.text)).total


@pytest.mark.parametrize("length", [4_000, 60_000])
@pytest.mark.parametrize("name", SUITES)
async def test_without_errors_it_is_right(name: str, length: int) -> None:
    """Which also shows that every answer follows from the text alone."""
    for sample in SUITES[name].generate(4, length, 4):
        assert await direct(sample, SURE) == 1.0


@pytest.mark.parametrize("name", SUITES)
def test_in_this_runtime_it_writes_cells_that_do_the_task(name: str) -> None:
    sample = next(SUITES[name].generate(8, 12_000, 1))
    with dspy.context(lm=oracle_lm(SURE)):
        result = rlm.Predict(signature(sample), record=False).run_with_fallback(**sample.inputs)
    assert isinstance(result, rlm.Submitted)
    assert score(sample, result.outputs.model_dump()).total == 1.0
    assert (result.usage.llm_calls > 0) == (name in ("count", "compare", "pairs", "extract"))


@pytest.mark.parametrize("name", ["pairs", "compare"])
def test_the_longest_texts_are_read_within_the_calls_and_bytes_that_there_are(name: str) -> None:
    """More than one call of a function can carry, and about as much as fifty prompts of this window can hold."""
    some = SUITES[name].generate(1, 10_000_000, 3)
    sample = next(one for one in some if "Among the messages of" not in one.instructions)
    with dspy.context(lm=oracle_lm(Oracle(error=0.0, bad_code=0.0, wrong_code=0.0))):
        result = rlm.Predict(signature(sample), record=False).run_with_fallback(**sample.inputs)
    assert isinstance(result, rlm.Submitted)
    assert score(sample, result.outputs.model_dump()).total == 1.0
    assert 40 < result.usage.llm_calls < 50


def test_with_too_few_calls_it_answers_from_what_it_could_read() -> None:
    sample = next(SUITES["pairs"].generate(2, 60_000, 1))
    with dspy.context(lm=oracle_lm(Oracle(error=0.0, bad_code=0.0, wrong_code=0.0, window=2_500))):
        few = rlm.FallbackTrigger(max_llm_calls=4)
        result = rlm.Predict(signature(sample), trigger=few, record=False).run_with_fallback(**sample.inputs)
    assert isinstance(result, rlm.Submitted)
    assert result.usage.llm_calls == 3


@pytest.mark.parametrize("name", ["needle", "count", "extract"])
def test_in_dspy_it_writes_cells_that_do_the_task(name: str) -> None:
    sample = next(SUITES[name].generate(8, 12_000, 1))
    lm = oracle_lm(SURE)
    with dspy.context(lm=lm):
        module = dspy.RLM(signature(sample).to_dspy(), sub_lm=lm, interpreter_factory=dspy.LocalInterpreter)
        made = module(**sample.inputs)
    assert score(sample, {field: made[field] for field in sample.expected}).total == 1.0


def test_dspys_predict_asks_it_directly() -> None:
    sample = next(SUITES["sums"].generate(8, 12_000, 1))
    with dspy.context(lm=oracle_lm(SURE)):
        made = dspy.Predict(signature(sample).to_dspy())(**sample.inputs)
    assert {"office": made.office, "total": made.total} == sample.expected


async def test_it_knows_nothing_but_the_prompt() -> None:
    """Another text under the same question has another answer; without the sentence there is none."""
    first, second = SUITES["needle"].generate(6, 8_000, 2)
    code = str(first.expected["answer"])
    changed = {"doc": first.inputs["doc"].replace(code, "777777")}
    answer = await ask(oracle_lm(SURE), [("user", direct_prompt(signature(first), changed))])
    assert json.loads(answer.text) == {"answer": 777777}
    answer = await ask(oracle_lm(SURE), [("user", direct_prompt(signature(first), second.inputs))])
    assert json.loads(answer.text) == {"answer": 0}


async def test_a_prompt_that_is_longer_than_its_window_is_refused() -> None:
    sample = next(SUITES["needle"].generate(1, 60_000, 1))
    with pytest.raises(ModelError, match="maximum context length is 8000") as raised:
        await direct(sample, Oracle(window=8_000))
    assert raised.value.kind == "context"
    with pytest.raises(dspy.ContextWindowExceededError):
        oracle_lm(Oracle(window=8_000))("word " * 10_000)


async def test_it_errs_the_more_the_longer_the_prompt_is() -> None:
    settings = Oracle(error=0.02, doubling=4_000, window=1_000_000)
    assert settings.misreading_rate(0) == 0.02
    assert settings.misreading_rate(8_000) == pytest.approx(0.06)
    assert Oracle(error=0.5).misreading_rate(10**9) == 0.9
    short = [await direct(sample, settings) for sample in SUITES["sums"].generate(2, 4_000, 12)]
    long = [await direct(sample, settings) for sample in SUITES["sums"].generate(2, 100_000, 12)]
    assert sum(long) < sum(short) < 12


async def test_a_misread_letter_fits_the_signature_and_has_wrong_values() -> None:
    """Wrong values in the right form: what scores nothing."""
    sure, wrong = SURE, Oracle(error=0.9, window=1_000_000)
    for sample in SUITES["extract"].generate(4, 4_000, 5):
        prompt = direct_prompt(signature(sample), sample.inputs)
        right, misread = [json.loads((await ask(oracle_lm(one), [("user", prompt)])).text) for one in (sure, wrong)]
        signature(sample).check_outputs(misread)
        assert score(sample, right).total == 1.0
        assert score(sample, misread).total < 0.5


async def test_the_same_request_has_the_same_answer_in_any_order() -> None:
    samples = list(SUITES["count"].generate(3, 20_000, 3))
    settings = Oracle(error=0.2, seed=5)
    there = [await direct(sample, settings) for sample in samples]
    back = [await direct(sample, settings) for sample in reversed(samples)]
    assert there == back[::-1]
    others = [[await direct(one, Oracle(error=0.2, seed=seed)) for one in samples] for seed in range(6, 12)]
    assert any(other != there for other in others)


def test_bad_code_costs_iterations_and_is_recovered_from() -> None:
    ends, iterations = [], 0
    for sample in SUITES["needle-keys"].generate(3, 8_000, 6):
        lm = oracle_lm(Oracle(error=0.0, bad_code=0.5, wrong_code=0.0, seed=2))
        with dspy.context(lm=lm):
            result = rlm.Predict(signature(sample), record=False).run_with_fallback(**sample.inputs)
        ends.append(score(sample, result.outputs.model_dump()).total)
        iterations += result.iterations
    assert ends == [1.0] * 6
    assert iterations > 6 * 3


def test_what_was_found_is_extracted_when_the_run_is_cut_off() -> None:
    sample = next(SUITES["needle-keys"].generate(3, 8_000, 1))
    with dspy.context(lm=oracle_lm(SURE)):
        predict = rlm.Predict(signature(sample), trigger=rlm.FallbackTrigger(max_iterations=2), record=False)
        result = predict.run_with_fallback(**sample.inputs)
    assert isinstance(result, rlm.Extracted)
    assert result.outputs.answer == sample.expected["answer"]


def test_wrong_code_runs_to_a_wrong_answer() -> None:
    scores = []
    for sample in SUITES["sums"].generate(3, 8_000, 3):
        with dspy.context(lm=oracle_lm(Oracle(error=0.0, bad_code=0.0, wrong_code=1.0))):
            result = rlm.Predict(signature(sample), record=False).run_with_fallback(**sample.inputs)
        assert isinstance(result, rlm.Submitted)
        scores.append(score(sample, result.outputs.model_dump()).fields["total"])
    assert max(scores) < 0.01


async def test_it_goes_on_from_the_summary_of_a_shortened_conversation() -> None:
    """The markers of what was done stand in the first message then."""
    sample = next(SUITES["needle"].generate(3, 8_000, 1))
    system = "You work in a Python REPL."
    task = f"# Task\n{sample.instructions}"
    summary = "[The conversation was shortened here. All variables are still in the REPL.]\n"
    said = {
        "": "re.finditer",
        "Iteration 1: 6 lines of code, printed: 'found 3 facts, such as'": "outputs = find_code(facts",
        "Iteration 2: 9 lines of code, printed: 'outputs: {\"answer\": 5}'": "SUBMIT(**outputs)",
    }
    for done, code in said.items():
        turns = [("user", f"{task}\n\n{summary}{done}"), ("assistant", "I go on."), ("user", "Output:\n(nothing)")]
        assert code in (await ask(oracle_lm(SURE), turns, system=system)).text


@pytest.mark.parametrize("wrong", [{"error": 1.5}, {"bad_code": -0.1}, {"window": 0}])
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"from 0 to 1|above 0"):
        Oracle(**wrong)  # type: ignore[arg-type]


async def test_what_it_does_not_understand_it_says() -> None:
    answer = await ask(oracle_lm(SURE), [("user", "Write a poem about the sea.")])
    assert answer.text == "I do not understand what is asked."
