"""How models that run here are spoken to: with a script to complete, and with the data that it failed on."""

from __future__ import annotations

import json
import re

import dspy
import pytest

from rlm.budgets import FallbackTrigger, Ledger
from rlm.events import fan_out
from rlm.models.local.constraint_check import allows
from rlm.models.local.constraints import from_response_format
from rlm.models.profile import ModelProfile
from rlm.models.scripted import AsyncScriptedEngine, ScriptedEngine
from rlm.repl.config import RunConfig
from rlm.repl.hints.code_facts import with_imports
from rlm.repl.hints.rules import NOTHING, CellFacts, finds_nothing, repeats_a_cell, works_on_own_data
from rlm.repl.hints.suggestions import suggest_submit
from rlm.repl.profiles import ScriptProfile, StandardProfile, profile_for
from rlm.repl.reply import read_reply
from rlm.results import Extracted, Submitted
from rlm.signatures import Signature

DOC = "\n".join(f"line {n}: {'ERROR disk full' if n % 7 == 0 else 'ok'}" for n in range(1, 101))
ERRORS = 14
OPENING = "import re\nfrom collections import Counter, defaultdict\n\nlines = doc.splitlines()\n"
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
    """The result of a run with a model that is constrained, its requests, and the events. One script is written."""
    past, observe = options.pop("past", None), options.pop("observe", None)
    made = make([], **{"vote": False, **options})
    if observe is not None:
        object.__setattr__(made.driver, "observe", fan_out(made.events.append, observe))
    made.main = model = Held(*replies)
    object.__setattr__(made.driver, "main_model", model)
    object.__setattr__(made.driver, "extraction_model", model)
    return await made.driver.run({"doc": DOC}, past=past), model.script.requests, made.events


def cell(code, output="", **facts):
    """The facts of a cell that ran without an error."""
    return CellFacts(code, output, True, **facts)


def form_of(request):
    """The grammar of a request, and the texts that it allows."""
    return from_response_format(request.config.response_format)


def script(code):
    """The reply of a model that completes the script of a task over DOC."""
    return f"```python\n{OPENING}{code}\n```"


def test_other_models_are_spoken_to_at_length():
    assert type(profile_for(constrains=False)) is StandardProfile
    assert StandardProfile().reply_settings([]) == {}


async def test_the_prompt_is_a_script_that_shows_the_data_and_the_task(make):
    result, requests, _ = await outcome(make, script("answer = sum('ERROR' in line for line in lines)"))
    shown = requests[0].messages[-1].text
    assert isinstance(result, Submitted)
    assert result.outputs.answer == ERRORS
    assert len(requests) == 1
    assert "#      14 x  line 7: ERROR disk full" in shown
    assert "# Set `answer` (int)." in shown
    assert shown.endswith(f"{OPENING}```\n")


async def test_the_reply_is_begun_and_sets_the_output(make):
    _, requests, _ = await outcome(make, script("answer = len(lines)"))
    form = form_of(requests[0])
    assert allows(form, script("answer = len(lines)"))
    assert allows(form, script("hits = [1]\nanswer = len(hits)\nprint(answer)"))
    assert not allows(form, script("print(len(lines))"))
    assert not allows(form, "```python\nanswer = 5\n```")
    assert not allows(form, "The answer is 5.")


async def test_an_empty_answer_is_refused_once_with_what_is_nearly_there(make):
    nothing = script("answer = sum('error' in line for line in lines)")
    result, requests, _ = await outcome(make, nothing, script("answer = sum('ERROR' in line for line in lines)"))
    prompt = requests[1].messages[-1].text
    assert "answer is 0: nothing was found" in prompt
    assert "'error' is not in doc, but 'ERROR' is, 14 times, as in 'line 7: ERROR disk full'" in prompt
    assert result.outputs.answer == ERRORS
    same, requests, _ = await outcome(make, nothing, nothing)
    assert same.outputs.answer == 0
    assert len(requests) == 2


async def test_an_answer_that_was_written_down_is_refused_once(make):
    result, requests, _ = await outcome(make, script("answer = 14"), script("answer = len(lines) // 7"))
    assert "`answer` is written down in the code" in requests[1].messages[-1].text
    assert result.outputs.answer == ERRORS
    counted = script("answer = 0\nfor line in lines:\n    if 'ERROR' in line:\n        answer += 1")
    _, requests, _ = await outcome(make, counted)
    assert len(requests) == 1


async def test_the_next_script_is_written_anew_at_another_temperature_under_what_the_last_one_failed_on(make):
    replies = [script("answer = missing_one"), script("answer = missing_two"), script("answer = len(lines)")]
    _, requests, _ = await outcome(make, *replies)
    (said,) = [one.text for one in requests[2].messages]
    assert "missing_one" not in said
    assert "# Another script for this failed: name 'missing_two' is not defined\n" in said
    assert "answer = missing_two" not in said
    assert said.endswith(f"{OPENING}```\n")
    assert [(one.config.temperature or 0) > 0.5 for one in requests] == [False, True, True]


async def test_the_first_line_that_did_not_match_is_shown(make):
    code = "answer = sum(int(re.search(r'line (\\d+): ERROR', line).group(1)) for line in lines)"
    _, requests, _ = await outcome(make, script(code), script("answer = 1 + len(lines)"))
    assert "The first line that 'line (\\\\d+): ERROR' does not match is 'line 1: ok'" in requests[1].messages[-1].text


async def test_an_answer_that_no_code_gave_is_not_trusted(make):
    broken = script("answer = missing")
    result, *_ = await outcome(make, broken, '{"answer": 99}', trigger=FallbackTrigger(max_iterations=1))
    assert isinstance(result, Extracted)
    assert result.confidence <= 0.5


async def test_the_tiers_of_a_run_are_emitted(make):
    result, _, events = await outcome(make, script("answer = missing"), script("answer = len(lines)"))
    assert isinstance(result, Submitted)
    counters = [event.data["by_signature"] for event in events if event.kind == "tiers"]
    assert counters[0]["the next step"]["tier3_success"] == 2
    assert json.dumps(counters[0])


def begun(doc, **inputs):
    """What a model reads of a task over a text."""
    signature = Signature.of(f"{', '.join(['doc: str', *(f'{name}: str' for name in inputs)])} -> answer: int")
    budget = Ledger(FallbackTrigger()).remaining(0)
    config = RunConfig(signature, main_model=None)
    conversation = ScriptProfile().begin(config, {"doc": doc, **inputs}, {}, "", budget)
    return conversation.turns[0].text


def test_lines_with_words_of_the_question_are_shown_however_they_are_spelled():
    doc = "\n".join(["12:00 gate opened by guard number five"] * 900 + ["12:01 Failed password for root"] * 3)
    shown = begun(doc, question="How often did a password fail?")
    assert "#       3 x  12:01 Failed password for root" in shown.partition("Lines about the task")[2]
    assert shown.index("# Task: How often did a password fail?") > shown.index("Failed password for root")


def test_words_of_a_line_are_numbered_and_places_with_few_values_listed():
    doc = "\n".join(f"{n % 60:02d}:01 {'WARN' if n % 5 == 0 else 'INFO'} disk{n} is {n} full" for n in range(1, 300))
    shown = begun(doc)
    assert "[0] '01:01' [1] 'INFO' [2] 'disk1'" in shown
    assert "line.split()[1] is one of 'INFO', 'WARN'" in shown


def test_a_field_with_many_values_is_described_with_its_number_and_what_each_ends_with():
    rows = [f"12:00:{n % 60:02d} part{n % 40}: block {n} took {n * 7} ms" for n in range(300)]
    shown = begun("\n".join(rows), question="What is the sum of all ms that a block took?")
    assert "line.split()[0] has 60 values, such as '12:00:00', '12:00:01'" in shown
    assert "line.split()[1] has 40 values, such as 'part0:', 'part1:'; each ends with ':': .rstrip(':')" in shown
    assert "line.split()[3]" not in shown  # of the message
    pattern = re.search(r'as a pattern for re.search: r"(.+)"', shown)[1]
    assert [re.search(pattern, row).groups() for row in rows[:2]] == [("0", "0"), ("1", "7")]


@pytest.mark.parametrize(
    ("doc", "first"),
    [
        ("city,people\nRome,5\nOslo,7\nLima,9\n" * 20, "rows = list(csv.DictReader(doc.splitlines()))"),
        ("\n".join(json.dumps({"a": n, "b": "x"}) for n in range(50)), "records = [json.loads(line) for line in doc"),
        (json.dumps({"items": list(range(200))}), "data = json.loads(doc)"),
    ],
    ids=["csv", "json lines", "json"],
)
def test_a_script_begins_with_the_input_taken_apart(doc, first):
    assert first in begun(doc).rpartition("# Set")[2]


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


def test_the_same_error_in_another_cell_is_the_same():
    from rlm.history import REPLHistoryEntry

    before = REPLHistoryEntry(1, None, "1/0", 'File "<cell 1>", line 1\nZeroDivisionError', False)
    assert repeats_a_cell(cell("1/0", 'File "<cell 2>", line 1\nZeroDivisionError', history=[before]))
    assert not repeats_a_cell(cell("2/0", 'File "<cell 2>", line 1\nZeroDivisionError', history=[before]))


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("login id=user-123", "'login id=user-' is, 2 times, as in 'login id=user-672'"),
        ("reading: 17 units", "'reading:' is, 1 times, as in 'reading: 17345 units'"),
        ("readings", "'reading' is, 1 times"),
        ("nowhere", "look for less"),
    ],
)
def test_a_search_that_finds_nothing_is_told_what_there_is(wanted, hint):
    doc = "filler line\n" * 20 + "login id=user-672\nreading: 17345 units\nlogin id=user-9\n"
    code = f"hits = [line for line in doc.splitlines() if {wanted!r} in line]\nprint(len(hits), hits)"
    assert hint in finds_nothing(cell(code, "0 []\n", inputs={"doc": doc}))


@pytest.mark.parametrize(
    "output",
    ["AttributeError: 'NoneType' object has no attribute 'group'", "IndexError: list index out of range", "Not found."],
)
def test_code_that_goes_on_after_finding_nothing_is_told_the_same(output):
    doc = "filler line\n" * 20 + "The budget of the north team is 471 coins.\n"
    code = "print(re.search(r'budget of the north team: (\\d+)', doc).group(1))"
    hint = finds_nothing(cell(code, output, inputs={"doc": doc}))
    assert "Its beginning 'budget of the north team' does, as in 'The budget of the north team is 471 coins.'" in hint
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
