"""How models that run here are spoken to: briefly, held to a form, and told exactly what to do next."""

from __future__ import annotations

import json
from dataclasses import replace

import dspy
import pytest

from rlm.budgets import FallbackTrigger
from rlm.models.local.constraint_check import allows
from rlm.models.local.constraints import Constraint, from_response_format
from rlm.models.profile import ModelProfile
from rlm.models.scripted import AsyncScriptedEngine, ScriptedEngine
from rlm.repl.hints.code_facts import with_imports
from rlm.repl.hints.rules import NOTHING, CellFacts, finds_nothing, repeats_a_cell, works_on_own_data
from rlm.repl.hints.suggestions import suggest_submit
from rlm.repl.profiles import StandardProfile, _reply_format, profile_for
from rlm.repl.reply import read_reply
from rlm.results import Extracted, Submitted
from rlm.signatures import Signature

DOC = "\n".join(f"line {n}: {'ERROR disk full' if n % 7 == 0 else 'ok'}" for n in range(1, 101))
COUNT = "I count.\n```python\nn = doc.count('ERROR')\nprint(n)\n```"
LOOK = "I look.\n```python\nprint(doc[:20], doc[-20:])\n```"


class Held(dspy.LM):
    """A scripted model that takes constraints, as one that runs here does. What it was held to is in the requests."""

    def __init__(self, *replies):
        self.script = ScriptedEngine(list(replies))
        self.script.supports_response_schema = True
        self.script.supported_params = frozenset({"response_format", "max_tokens", "temperature"})
        super().__init__(
            "scripted/held", engine=self.script, async_engine=AsyncScriptedEngine(self.script), cache=False
        )
        self.profile = ModelProfile(constrains=True, engine=AsyncScriptedEngine(self.script))

    async def acall(self, prompt=None, *, messages=None, **options):
        options.pop("_outlines_constraint", None)
        return await super().acall(prompt, messages=messages, **options)


async def outcome(make, *replies, **options):
    """The result of a run with a model that is held, what it was asked, and what was told."""
    made = make([], **options)
    made.main = model = Held(*replies)
    object.__setattr__(made.driver, "main_model", model)
    object.__setattr__(made.driver, "extraction_model", model)
    return await made.run(doc=DOC), model.script.requests, made.events


def cell(code, output="", **facts):
    """The facts of a cell that ran without an error."""
    return CellFacts(code, output, True, **facts)


def form_of(request):
    """The grammar of a request, and the texts that it allows."""
    return from_response_format(request.config.response_format)


def test_other_models_are_spoken_to_at_length():
    assert type(profile_for(constrains=False)) is StandardProfile
    assert StandardProfile().reply_settings([], frozenset({"doc"}), "SUBMIT(answer=1)") == {}


async def test_the_prompt_is_less_than_half_of_the_usual_one(make):
    _, requests, _ = await outcome(make, COUNT, "Done.\n```python\nSUBMIT(answer=n)\n```")
    usual = make([COUNT, "SUBMIT(answer=n)"])
    await usual.run(doc=DOC)
    sizes = [len(one.system) + len(one.messages[0].text) for one in (requests[0], usual.asked()[0])]
    assert sizes[0] < sizes[1] / 2
    assert "llm_query" in requests[0].system


async def test_a_conversation_only_grows(make):
    _, requests, _ = await outcome(make, COUNT, "Done.\n```python\nSUBMIT(answer=n)\n```")
    first, second = ([(one.role, one.text) for one in request.messages] for request in requests)
    assert second[: len(first)] == first
    assert requests[0].system == requests[1].system


def test_replies_are_held_to_a_thought_and_one_block():
    form = from_response_format(_reply_format("", None)["response_format"]["json_schema"])
    assert isinstance(form, Constraint)
    assert allows(form, "I submit it.\n```python\nSUBMIT(answer=n)\n```")
    assert allows(form, "```python\nSUBMIT(answer=n) ```")
    assert not allows(form, "I submit it. It is 99.\n```python\nSUBMIT(answer=n)\n```")
    assert not allows(form, "answer = 99\n```python\nSUBMIT(answer=answer)\n```")
    assert not allows(form, "The answer is SUBMIT(answer=99).")
    assert not allows(form, "It is 99.\n```python\nSUBMIT(answer=n)\n```\nOutput: 99")


async def test_a_reply_begins_with_the_input_until_that_was_read(make):
    _, requests, _ = await outcome(make, COUNT, "Done.\n```python\nSUBMIT(answer=n)\n```")
    first, second = map(form_of, requests[:2])
    assert allows(first, "I look in doc for lines with ERROR.\n```python\nprint(1)\n```")
    assert not allows(first, "The budget is 100.\n```python\nprint(100)\n```")
    assert not allows(second, "I look in doc for lines with ERROR.\n```python\nprint(1)\n```")


async def test_a_value_that_could_be_the_answer_takes_one_word_to_submit(make):
    yes = "Is that the answer? Yes.\n```python\nSUBMIT(answer=n)\n```"
    result, requests, _ = await outcome(make, COUNT, yes)
    assert isinstance(result, Submitted)
    form = form_of(requests[1])
    assert allows(form, yes)
    assert allows(form, "Is that the answer? No, I count lines.\n```python\nprint(len(doc.splitlines()))\n```")
    assert not allows(form, "Is that the answer? Yes.\n```python\nSUBMIT(answer=99)\n```")


async def test_a_model_that_is_stuck_is_given_another_temperature(make):
    _, requests, _ = await outcome(
        make, LOOK, LOOK, "Done.\n```python\nSUBMIT(answer=14)\n```", trigger=FallbackTrigger(max_iterations=5)
    )
    assert [one.config.temperature or 0 for one in requests][:2] == [0, 0]
    assert requests[2].config.temperature > 0.5
    assert allows(form_of(requests[2]), "I try another way: peek.\n```python\nprint(doc[:9])\n```")


async def test_the_last_reply_is_told_to_submit(make):
    _, requests, _ = await outcome(
        make, COUNT, "Done.\n```python\nSUBMIT(answer=n)\n```", trigger=FallbackTrigger(max_iterations=2)
    )
    assert requests[1].messages[-1].text.endswith("This is your last reply: call SUBMIT now.")


async def test_an_answer_that_was_printed_is_read_off_in_the_conversation(make):
    result, requests, _ = await outcome(make, COUNT, '{"answer": 14}', trigger=FallbackTrigger(max_iterations=1))
    assert isinstance(result, Extracted)
    assert result.outputs.answer == 14
    assert result.confidence > 0.75
    said = [one.text for one in requests[1].messages]
    assert said[0] == requests[0].messages[0].text
    assert said[-1].startswith("Output:\n14")
    assert 'Give the answer as JSON: {"answer": ...}' in said[-1]


async def test_what_was_read_off_and_never_printed_is_not_trusted(make):
    result, _, _ = await outcome(make, COUNT, '{"answer": 99}', trigger=FallbackTrigger(max_iterations=1))
    assert isinstance(result, Extracted)
    assert result.confidence <= 0.5


async def test_numbers_that_were_made_up_are_noted_though_they_were_printed(make):
    made_up = "It is.\n```python\nanswer = 300\nprint(answer)\n```"
    result, requests, _ = await outcome(make, made_up, '{"answer": 300}', trigger=FallbackTrigger(max_iterations=1))
    assert isinstance(result, Extracted)
    assert "No code has read" in result.extraction_notes
    told = requests[1].messages[-1].text
    assert "data that you wrote into it yourself" in told
    assert "SUBMIT(answer=answer)" not in told


async def test_the_tiers_of_a_run_are_told(make):
    result, _, events = await outcome(make, COUNT, "Done.\n```python\nSUBMIT(answer=n)\n```")
    assert isinstance(result, Submitted)
    told = [event.data["by_signature"] for event in events if event.kind == "tiers"]
    assert told[0]["the next step"]["tier3_success"] == 2
    assert json.dumps(told[0])


# -- the parts


def test_a_fence_on_the_last_line_of_the_code_is_a_fence():
    assert read_reply("Done.\n```python\nn = 5\nSUBMIT(answer=n) ```").code == "n = 5\nSUBMIT(answer=n)"


def test_numbers_that_a_model_makes_up_are_called_what_they_are():
    made_up = "north = 100\nsouth = 200\nprint(north + south)"
    assert "does not read `doc`" in works_on_own_data(cell(made_up, inputs={"doc": DOC}, unread=frozenset({"doc"})))
    assert (
        works_on_own_data(cell("size = 100\nprint(doc[:size])", inputs={"doc": DOC}, unread=frozenset({"doc"}))) is None
    )
    assert works_on_own_data(cell("import re\nprint(re)", inputs={"doc": DOC}, unread=frozenset({"doc"}))) is None


def test_an_expression_that_was_printed_can_be_submitted():
    number, text = Signature.of("doc -> answer: int"), Signature.of("doc -> answer: str")
    assert suggest_submit(number, cell("print(len(hits))", "2\n")) == "SUBMIT(answer=len(hits))"
    assert suggest_submit(number, cell("print(len(hits), hits[:3])", "1 ['the code is 5']\n")) is None
    assert suggest_submit(text, cell("print(best[0])", "user-7\n")) == "SUBMIT(answer=best[0])"
    assert suggest_submit(number, cell("print(best[0])", "user-7\n")) is None
    assert suggest_submit(number, cell("print(f'total: {n}')", "total: 7\n")) is None


async def test_a_variable_that_was_set_in_words_only_is_said_to_be_missing(make):
    _, requests, _ = await outcome(
        make, "It is.\n```python\nprint(doc[:9])\nSUBMIT(answer=total)\n```", "So.\n```python\nSUBMIT(answer=14)\n```"
    )
    assert "No variable is called `total`" in requests[1].messages[-1].text


async def test_text_around_a_number_is_told_how_to_take_the_number_out(make):
    read = "It is.\n```python\nlines = doc.splitlines()\nint(lines[0].split()[-1])\n```"
    _, requests, _ = await outcome(make, read, "So.\n```python\nSUBMIT(answer=14)\n```")
    assert r"Take it out: int(re.search(r'\d+', lines[0]).group())" in requests[1].messages[-1].text
    assert allows(
        form_of(requests[1]), "I take the number out of each line with re.search first.\n```python\nn = 1\n```"
    )
    assert not allows(form_of(requests[1]), "I sum.\n```python\nn = 1\n```")


async def test_a_value_picked_from_a_sample_is_refused_once(make):
    look = "I look.\n```python\nlines = doc.splitlines()\nprint(len(lines), lines[:2])\n```"
    pick = "It is.\n```python\nbest = 7\nSUBMIT(answer=best)\n```"
    result, requests, _ = await outcome(make, look, pick, pick)
    assert "Only 2 of the 100 in `lines` were shown" in requests[2].messages[-1].text
    assert isinstance(result, Submitted)
    show = "It is.\n```python\nbest = 7\nprint(best)\n```"
    _, requests, _ = await outcome(make, look, show, pick)
    assert "Only 2 of the 100 in `lines` were shown" in requests[2].messages[-1].text
    assert "SUBMIT(answer=best)" not in requests[2].messages[-1].text
    computed, requests, _ = await outcome(make, look, "So.\n```python\nSUBMIT(answer=len(lines))\n```")
    assert computed.outputs.answer == 100
    assert len(requests) == 2


async def test_after_each_cell_the_model_is_reminded_of_what_is_wanted(make):
    options = {"signature": "doc: str, question: str -> answer: int"}
    asking = make([], **options)
    asking.main = model = Held(LOOK, COUNT, "So.\n```python\nSUBMIT(answer=n)\n```")
    asking.driver = replace(asking.driver, main_model=model)
    await asking.run(doc=DOC, question="How many lines are errors?")
    told = [request.messages[-1].text for request in model.script.requests]
    assert ["Wanted: How many lines are errors?" in text for text in told] == [False, True, True]


async def test_a_value_that_the_model_wrote_down_is_no_evidence(make):
    cells = [LOOK, "I see.\n```python\nanswer = 77\n```", '{"answer": 77}']
    said, *_ = await outcome(make, *cells, trigger=FallbackTrigger(max_iterations=2))
    assert isinstance(said, Extracted)
    assert said.confidence == 0.5
    cells = [LOOK, "I count.\n```python\nanswer = 77\nanswer = doc.count('ERROR')\n```", '{"answer": 14}']
    found, *_ = await outcome(make, *cells, trigger=FallbackTrigger(max_iterations=2))
    assert found.confidence == 0.8


def test_the_same_error_in_another_cell_is_the_same():
    from rlm.history import REPLHistoryEntry

    before = REPLHistoryEntry(1, None, "1/0", 'File "<cell 1>", line 1\nZeroDivisionError', False)
    assert repeats_a_cell(cell("1/0", 'File "<cell 2>", line 1\nZeroDivisionError', history=[before]))
    assert not repeats_a_cell(cell("2/0", 'File "<cell 2>", line 1\nZeroDivisionError', history=[before]))


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("login id=user-123", "'login id=user-' is, 2 times, as in 'login id=user-672'"),
        ("reading: 17 units", "'reading:' is, 1 times, as in 'reading: 17345 units'"),
        ("readings", "'reading' is, 1 times"),
        ("nowhere", "look for less"),
    ],
)
def test_a_search_that_finds_nothing_is_told_what_there_is(wanted, told):
    doc = "filler line\n" * 20 + "login id=user-672\nreading: 17345 units\nlogin id=user-9\n"
    code = f"hits = [line for line in doc.splitlines() if {wanted!r} in line]\nprint(len(hits), hits)"
    assert told in finds_nothing(cell(code, "0 []\n", inputs={"doc": doc}))


@pytest.mark.parametrize(
    "output",
    ["AttributeError: 'NoneType' object has no attribute 'group'", "IndexError: list index out of range", "Not found."],
)
def test_code_that_goes_on_after_finding_nothing_is_told_the_same(output):
    doc = "filler line\n" * 20 + "The budget of the north team is 471 coins.\n"
    code = "print(re.search(r'budget of the north team: (\\d+)', doc).group(1))"
    told = finds_nothing(cell(code, output, inputs={"doc": doc}))
    assert "'budget of the north team' is, 1 times, as in 'The budget of the north team is 471 coins.'" in told
    assert finds_nothing(cell("print(doc.missing())", output, inputs={"doc": doc})) is None


def test_imports_that_everybody_knows_need_not_be_written():
    assert with_imports("print(re.findall('a', doc))", {"doc"}) == "import re\nprint(re.findall('a', doc))"
    assert with_imports("Counter(doc)", ()) == "from collections import Counter\nCounter(doc)"
    for whole in ("import re\nre.findall('a', doc)", "re = 5\nprint(re)", "print(other)", "this is no code"):
        assert with_imports(whole, ()) == whole
    assert with_imports("re.findall('a', doc)", {"re"}) == "re.findall('a', doc)"


def test_a_search_that_finds_something_is_told_nothing():
    assert finds_nothing(cell("print(doc.count('a'))", "3\n", inputs={"doc": "a" * 1000})) is None


def test_only_how_an_output_ends_says_that_a_search_found_nothing():
    doc = "the end of all\n" * 1_000
    code = "print(doc.find('the end of it'))"
    assert finds_nothing(cell(code, "ValueError: page not found", inputs={"doc": doc})) is not None
    assert finds_nothing(cell(code, "it was not found" + " no" * 200_000, inputs={"doc": doc})) is None


def test_a_very_long_text_is_not_looked_through_while_other_runs_wait():
    code = "print([line for line in doc.splitlines() if 'the end of it' in line])"
    assert "'the end of'" in finds_nothing(cell(code, "[]", inputs={"doc": "the end of all\n" * 1_000}))
    assert finds_nothing(cell(code, "[]", inputs={"doc": "the end of all\n" * 400_000})) == NOTHING
