"""How small models go wrong in a REPL: each way is caught, told to the model in words it can act on, and got over."""

from __future__ import annotations

import pytest

from rlm.budgets import FallbackTrigger
from rlm.repl.hints.code_facts import names_read
from rlm.repl.hints.rules import CellFacts, works_on_own_data
from rlm.repl.hints.suggestions import suggest_submit
from rlm.repl.prompts import long_inputs
from rlm.results import Extracted, Submitted
from rlm.signatures import Signature
from sandbox import Variable

DOC = "\n".join(f"line {n}: {'ERROR disk full' if n % 7 == 0 else 'ok'}" for n in range(1, 101))
ERRORS = 14
COUNT = "n = sum('ERROR' in line for line in doc.splitlines())\nprint(n)"


def fenced(code):
    return f"```python\n{code}\n```"


async def outcome(make, replies, **options):
    """The result of a run with these replies, and what the model was told after each of them."""
    made = make(replies, **options)
    result = await made.run(doc=DOC)
    told = [event.data["told"] for event in made.events if event.kind == "history"]
    return result, told


async def test_an_input_that_is_overwritten_with_invented_text_stays_as_it_is(make):
    overwritten = fenced('doc = """line 1: ERROR\nline 2: ok\nline 3: ERROR"""\nprint(doc.count("ERROR"))')
    result, told = await outcome(make, [overwritten, fenced(f"{COUNT}\nSUBMIT(answer=n)")])
    assert result.outputs.answer == ERRORS
    assert "`doc` holds the real data already, and cannot be assigned to" in told[0]


async def test_a_submit_that_is_printed_is_told_to_be_called(make):
    result, told = await outcome(make, [fenced(f"{COUNT}\nprint(f'SUBMIT(answer={{n}})')"), fenced("SUBMIT(answer=n)")])
    assert result.outputs.answer == ERRORS
    assert "call SUBMIT(...) itself, without print" in told[0]
    assert "SUBMIT(answer=n)" in told[0]


async def test_a_submit_that_is_only_written_down_does_not_count(make):
    replies = ["The answer is SUBMIT(answer=99), as the log shows.", fenced(f"{COUNT}\nSUBMIT(answer=n)")]
    made = make({"code block": replies[1], "*": replies[0]})
    made.main._engine_spec.script = replies
    result = await made.run(doc=DOC)
    assert result.outputs.answer == ERRORS
    assert "It only counts when it runs" in made.last_observation()


async def test_code_without_a_fence_is_code(make):
    made = make([])
    made.main._engine_spec.script = [COUNT, "SUBMIT(answer=n)"]
    result = await made.run(doc=DOC)
    assert result.outputs.answer == ERRORS


async def test_a_value_from_nowhere_is_refused_until_the_input_was_read(make):
    result, told = await outcome(make, ["SUBMIT(answer=32)", f"{COUNT}\nSUBMIT(answer=n)"])
    assert isinstance(result, Submitted)
    assert result.outputs.answer == ERRORS
    assert "No code of yours has read `doc` yet" in told[0]


async def test_and_is_never_returned_as_if_it_were_computed(make):
    result, _ = await outcome(
        make,
        ["SUBMIT(answer=32)"] * 2,
        trigger=FallbackTrigger(max_iterations=2),
        extraction=['{"answer": 32}'],
    )
    assert isinstance(result, Extracted)
    assert result.confidence <= 0.5


@pytest.mark.parametrize("cell", ["n = 32", "lines = ['ERROR'] * 32\nn = len(lines)\nprint(n)"])
async def test_what_the_model_put_into_variables_itself_is_no_evidence(make, cell):
    result, _ = await outcome(
        make, [fenced(cell)], trigger=FallbackTrigger(max_iterations=1), extraction=['{"answer": 32}']
    )
    assert isinstance(result, Extracted)
    assert result.confidence == 0.5
    assert "No code has read doc" in result.extraction_notes


async def test_the_extraction_sees_the_inputs_where_no_cell_has_run(make):
    made = make(
        ["I think it is seven."],
        signature="question: str -> answer: int",
        trigger=FallbackTrigger(max_iterations=1),
        extraction=['{"answer": 7}'],
    )
    await made.run(question="how many dwarfs are there?")
    (attempt,) = [event.data for event in made.events if event.kind == "extraction_attempt"]
    assert "how many dwarfs are there?" in attempt["prompt"]


async def test_a_short_input_that_the_prompt_shows_needs_no_reading(make):
    made = make(["SUBMIT(answer=4)"], signature="question: str -> answer: int")
    result = await made.run(question="2 + 2?")
    assert result.outputs.answer == 4


async def test_invented_data_is_called_what_it_is(make):
    pasted = 'lines = ["line 1: ERROR", "line 2: ok", "a", "b", "c", "d", "e", "f"]\nprint(len(lines))'
    result, told = await outcome(make, [pasted, f"{COUNT}\nSUBMIT(answer=n)"])
    assert result.outputs.answer == ERRORS
    assert "data that you wrote into it yourself" in told[0]
    assert "`doc`" in told[0]


async def test_a_result_that_was_printed_comes_with_the_call_that_submits_it(make):
    _, told = await outcome(make, [COUNT, "SUBMIT(answer=n)"])
    assert "If that is the answer, run this:\n```python\nSUBMIT(answer=n)\n```" in told[0]


async def test_a_cell_that_prints_nothing_shows_its_variables(make):
    _, told = await outcome(make, [COUNT.splitlines()[0], "SUBMIT(answer=n)"])
    assert "nothing was printed" in told[0]
    assert f"Variables now: n = {ERRORS}" in told[0]


async def test_a_last_expression_is_shown(make):
    _, told = await outcome(make, ["n = doc.count('ERROR')\nn", "SUBMIT(answer=n)"])
    assert f"Output:\n{ERRORS}" in told[0]
    assert "SUBMIT(answer=n)" in told[0]


async def test_an_answer_that_was_printed_and_never_submitted_is_extracted_with_confidence(make):
    result, _ = await outcome(
        make, [COUNT] * 2, trigger=FallbackTrigger(max_iterations=2), extraction=[f'{{"answer": {ERRORS}}}']
    )
    assert isinstance(result, Extracted)
    assert result.outputs.answer == ERRORS
    assert result.confidence == pytest.approx(0.99)


async def test_the_same_code_again_is_called_what_it_is(make):
    _, told = await outcome(make, ["print(doc[:20])", "print(doc[:20])", f"{COUNT}\nSUBMIT(answer=n)"])
    assert "exactly this code before" not in told[0]
    assert "exactly this code before" in told[1]


async def test_the_prompt_says_that_the_long_input_has_not_been_seen(make):
    made = make(["SUBMIT(answer=len(doc))"], signature="question: str, doc: str -> answer: int")
    await made.run(doc=DOC, question="how long?")
    assert "You have not seen doc yet: do not guess" in made.asked()[0].messages[0].text


async def test_reading_a_short_input_does_not_count_as_reading_the_long_one(make):
    made = make(
        ["print(question)\nSUBMIT(answer=3)", f"{COUNT}\nSUBMIT(answer=n)"],
        signature="question: str, doc: str -> answer: int",
    )
    result = await made.run(doc=DOC, question="How many lines are errors?")
    assert (result.outputs.answer, result.iterations) == (ERRORS, 2)


# -- the parts


def test_names_are_read_where_they_are_loaded():
    assert names_read("x = len(doc)", {"doc"}) == {"doc"}
    assert names_read("doc = 'mine'", {"doc"}) == set()
    assert names_read("def f():\n    return [d for d in doc]", {"doc"}) == {"doc"}
    assert names_read("this is no code", {"doc"}) == set()


def test_inputs_that_the_prompt_does_not_show_whole():
    short, long = {"a": "x", "b": [1, 2], "c": 5}, {"d": "x" * 1000, "e": list(range(1000)), "f": ["y" * 500]}
    assert long_inputs({**short, **long}) == ("d", "e", "f")


def test_a_table_beside_work_on_the_input_is_no_invented_data():
    months = "months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug']\n"
    facts = {"inputs": {"doc": DOC}, "unread": frozenset({"doc"})}
    assert works_on_own_data(CellFacts(months + "print(len(doc))", "", True, **facts)) is None
    assert works_on_own_data(CellFacts(months + "print(months)", "", True, **facts)) is not None
    assert works_on_own_data(CellFacts("x = 1", "", True, **facts)) is None


def test_only_a_printed_variable_of_the_right_type_is_suggested():
    signature = Signature.of("doc -> answer: int")
    known = {
        "n": Variable("n", "int", None, "14", 14, True),
        "name": Variable("name", "str", 2, "'14'", "14", True),
    }

    def suggestion(signature, output, changed):
        return suggest_submit(signature, CellFacts("", output, True, changed=changed, variables=known))

    assert suggestion(signature, "found 14", ["n", "name"]) == "SUBMIT(answer=n)"
    assert suggestion(signature, "found it", ["n"]) is None
    assert suggestion(signature, "14", ["name"]) is None
    assert suggestion(Signature.of("doc -> a: int, b: int"), "14", ["n"]) is None
