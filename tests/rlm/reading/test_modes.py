"""Modes: the first cell of a run, what `auto` decides, and what happens when the first cell does not end the run."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest

from rlm import events
from rlm.budgets import FallbackTrigger
from rlm.models.profile import ModelProfile, Price
from rlm.models.scripted import scripted_lm
from rlm.reading import MapPlan
from rlm.reading.choice import advice
from rlm.repl.config import RunConfig
from rlm.repl.loop import RunLoop
from rlm.repl.replay import RecordedRun
from rlm.results import Failed, Submitted
from rlm.signatures import Signature
from rlm.traces import TraceWriter, load, recorded_run

TOPICS = ["money", "weather"]
DOCS = ["I paid the bill", "the rain fell", "my invoice came", "a sunny day"]
PLAN = MapPlan("docs", "What is it about?", TOPICS)


def packed(number, wanted=("money", "weather")):
    return json.dumps({str(index + 1): wanted[index % 2] for index in range(number)})


class Run:
    """A run on scripted models in the real sandbox, with its events."""

    def __init__(self, pool, signature, main, sub=(), **options):
        self.main, self.sub, self.events = scripted_lm(list(main)), scripted_lm(list(sub)), []
        self.config = RunConfig(
            Signature.of(signature), self.main, self.sub, pool=pool, observe=self.events.append, **options
        )

    async def result(self, past=None, **inputs):
        return await RunLoop(self.config, inputs, past=past).run()

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    def asked(self):
        return [request.messages[-1].text for request in self.main._engine_spec.requests]


@pytest.fixture
def make(pool):
    return lambda *args, **options: Run(pool, *args, **options)


async def test_direct_asks_once_with_the_inputs_whole(make):
    run = make("doc, question -> answer: int", ['{"answer": 3}'], mode="direct")
    result = await run.result(doc="three cats " * 40, question="How many cats?")
    assert isinstance(result, Submitted)
    assert result.outputs.answer == 3
    assert len(run.asked()) == 1
    assert "three cats " * 40 in run.asked()[0]
    assert run.of(events.ModeChosen)[0].mode == "direct"


async def test_where_direct_gives_no_answer_the_model_goes_on_with_code(make):
    script = ["I cannot say."] * 3 + ["I count.\n```python\nSUBMIT(answer=doc.count('cat'))\n```"]
    run = make("doc -> answer: int", script, mode="direct")
    result = await run.result(doc="cat " * 100)
    assert isinstance(result, Submitted)
    assert (result.outputs.answer, result.iterations) == (100, 2)


@pytest.mark.parametrize(
    ("signature", "plan", "outputs"),
    [
        ("docs: list[str] -> topics: dict[str, int]", {}, {"topics": {"money": 2, "weather": 2}}),
        ("docs: list[str] -> number: int", {"value": "weather"}, {"number": 2}),
        ("docs: list[str] -> found: list[str]", {"value": ["money"]}, {"found": [DOCS[0], DOCS[2]]}),
        ("docs: list[str] -> all: list[str]", {"reduce": "list"}, {"all": ["money", "weather"] * 2}),
        ("docs: list[str] -> best: str", {"reduce": "top"}, {"best": "money"}),
    ],
)
async def test_a_map_asks_about_each_item_and_code_reduces_the_answers(make, signature, plan, outputs):
    run = make(signature, [], [packed(4)], mode="map", map=MapPlan(**{**PLAN.to_dict(), **plan}))
    result = await run.result(docs=DOCS)
    assert result.outputs_to_dict() == outputs
    assert run.asked() == []
    (started,) = run.of(events.MapStarted)
    assert (started.items, started.model_calls) == (4, 1)
    assert run.of(events.ItemsAnswered)[-1].answers == {"0": "money", "1": "weather", "2": "money", "3": "weather"}


async def test_numbers_are_added_up(make):
    run = make(
        "docs: list[str] -> total: float",
        [],
        ['{"1": 2.5, "2": 1}'],
        mode="map",
        map=MapPlan("docs", "How much?", "float"),
    )
    assert (await run.result(docs=["2.50 paid", "one coin"])).outputs.total == 3.5


async def test_several_outputs_are_folded_by_the_main_model_which_reads_the_judgements(make):
    run = make("docs: list[str] -> a: str, n: int", ['{"a": "x", "n": 2}'], [packed(4)], mode="map", map=PLAN)
    result = await run.result(docs=DOCS)
    assert result.outputs_to_dict() == {"a": "x", "n": 2}
    assert "2 items: money" in run.asked()[0]
    assert "weather: the rain fell" in run.asked()[0]


async def test_lines_are_filtered_before_they_are_asked_about(make):
    plan = MapPlan("log", "What is it about?", TOPICS, "lines", keep="rain|sunny")
    run = make("log -> topics: dict[str, int]", [], [packed(2)], mode="map", map=plan)
    result = await run.result(log="\n".join(DOCS) + "\n\n" + "padding " * 60)
    assert result.outputs_to_dict() == {"topics": {"money": 1, "weather": 1}}
    assert run.of(events.MapStarted)[0].items == 2


async def test_inputs_may_have_the_names_that_the_cell_uses(make):
    plan = MapPlan("items", "What is it about?", TOPICS)
    run = make("items: list[str], answers: int -> found: dict[str, int]", [], [packed(4)], mode="map", map=plan)
    result = await run.result(items=DOCS, answers=1)
    assert result.outputs_to_dict() == {"found": {"money": 2, "weather": 2}}


async def test_a_failed_item_is_no_answer_and_the_model_is_told(make):
    bad = ["nonsense"] * 12  # the pack, then the items one by one, each with its retries
    script = ["I leave it out.\n```python\nSUBMIT(topics={'unknown': failed})\n```"]
    run = make("docs: list[str] -> topics: dict[str, int]", script, bad, mode="map", map=PLAN)
    result = await run.result(docs=DOCS[:3])
    assert result.outputs_to_dict() == {"topics": {"unknown": 3}}
    assert "3 items, 3 failed" in run.asked()[0]


async def test_a_map_beyond_the_budget_asks_nothing(make):
    from rlm.budgets import FallbackTrigger

    trigger = FallbackTrigger(max_llm_calls=2, max_iterations=1)
    run = make("docs: list[str] -> topics: dict[str, int]", [], [], mode="map", map=PLAN, trigger=trigger)
    result = await run.result(docs=["x" * 2_000] * 5)
    assert isinstance(result, Failed)
    assert "5 LLM calls are needed, 2 are left" in result.history[0].output
    assert run.of(events.MapStarted) == []


async def test_a_resumed_map_asks_only_about_items_without_an_answer(make):
    first = make("docs: list[str] -> topics: dict[str, int]", [], [packed(4)], mode="map", map=PLAN)
    await first.result(docs=DOCS)
    digest = first.of(events.MapStarted)[0].digest
    past = RecordedRun("earlier", map_answers={digest: {0: "money", 1: "money", 2: "money"}})
    run = make("docs: list[str] -> topics: dict[str, int]", [], ["weather"], mode="map", map=PLAN)
    result = await run.result(past, docs=DOCS)
    assert result.outputs_to_dict() == {"topics": {"money": 3, "weather": 1}}
    found = {index: answer for event in run.of(events.ItemsAnswered) for index, answer in event.answers.items()}
    assert found == {"0": "money", "1": "money", "2": "money", "3": "weather"}  # so that it can be resumed again


# auto ---------------------------------------------------------------------------------------------------------------

LINES = "\n".join(DOCS * 60)
EACH = {"way": "each", "question": "What is it about?", "answers": TOPICS, "counted": "money"}


async def test_short_inputs_are_read_directly_and_nothing_is_asked_about_them(make):
    run = make("doc -> answer: int", ['{"answer": 1}'], mode="auto")
    await run.result(doc="one cat")
    (chosen,) = run.of(events.ModeChosen)
    assert (chosen.mode, chosen.wanted, chosen.asked) == ("direct", "auto", False)


@pytest.mark.parametrize(
    ("answer", "rest", "mode"),
    [
        ({"way": "read", "question": "", "answers": [], "counted": ""}, ['{"answer": 60}'], "direct"),
        (
            {"way": "code", "question": "", "answers": [], "counted": ""},
            ["Count.\n```python\nSUBMIT(answer=doc.count('rain'))\n```"],
            "repl",
        ),
    ],
)
async def test_auto_goes_by_one_question_to_the_main_model(make, answer, rest, mode):
    run = make("doc, question -> answer: int", [json.dumps(answer), *rest], mode="auto")
    result = await run.result(doc=LINES, question="How often does the rain fall?")
    assert result.outputs_to_dict() == {"answer": 60}
    (chosen,) = run.of(events.ModeChosen)
    assert (chosen.mode, chosen.asked) == (mode, True)
    question = run.asked()[0]
    assert "240 lines" in question
    assert "How often does the rain fall?" in question


async def test_auto_maps_where_each_line_has_to_be_judged(make):
    run = make("doc, question -> answer: int", [json.dumps(EACH)], [packed(20)] * 12, mode="auto")
    result = await run.result(doc=LINES, question="How many are about money?")
    assert result.outputs_to_dict() == {"answer": 120}
    (chosen,) = run.of(events.ModeChosen)
    assert chosen.mode == "map"
    assert chosen.plan["split"] == "lines"


async def test_what_is_too_long_to_be_read_at_once_goes_to_the_repl(make):
    answer = {"way": "read", "question": "", "answers": [], "counted": ""}
    script = [json.dumps(answer), "Search.\n```python\nSUBMIT(answer=len(doc) // len(doc))\n```"]
    run = make("doc -> answer: int", script, mode="auto")
    run.main.profile = ModelProfile(engine=run.main.profile.engine, context_window=4_000)
    assert (await run.result(doc=LINES * 2)).outputs_to_dict() == {"answer": 1}
    assert "too many" in run.of(events.ModeChosen)[0].why


async def test_a_model_that_cannot_say_which_mode_leaves_it_at_the_repl(make):
    script = ["I do not know."] * 3 + ["Count.\n```python\nSUBMIT(answer=doc.count('rain'))\n```"]
    run = make("doc -> answer: int", script, mode="auto")
    assert (await run.result(doc=LINES)).outputs_to_dict() == {"answer": 60}
    assert run.of(events.ModeChosen)[0].mode == "repl"


def test_a_plan_that_does_not_fit_the_signature_is_refused():
    signature = Signature.of("docs: list[str] -> a: str, n: int")
    with pytest.raises(ValueError, match="'dogs' is no input; inputs are docs"):
        MapPlan("dogs", "Which?").for_signature(signature)
    with pytest.raises(ValueError, match="'count' gives one output, and there are 2: use fold"):
        MapPlan("docs", "Which?", reduce="count").for_signature(signature)


async def test_a_map_that_was_cut_off_goes_on_from_its_trace(pool, tmp_path):
    docs = [f"{text} {'x' * 1_600}" for text in DOCS]  # one question each
    config = RunConfig(
        Signature.of("docs: list[str] -> topics: dict[str, int]"),
        scripted_lm([]),
        scripted_lm(["money", "weather"]),
        pool=pool,
        mode="map",
        map=dataclasses.replace(PLAN, parallel=1),
    )
    with TraceWriter(tmp_path) as writer:
        task = None

        def observe(event):
            writer(event)
            if isinstance(event, events.ItemsAnswered) and event.done == 2:
                task.cancel()

        loop = RunLoop(dataclasses.replace(config, observe=observe), {"docs": docs})
        task = asyncio.create_task(loop.run())
        with pytest.raises(asyncio.CancelledError):
            await task
    past = recorded_run(load(tmp_path).run(loop.id))
    assert [set(found.values()) for found in past.map_answers.values()] == [{"money", "weather"}]
    rest = dataclasses.replace(config, sub_model=scripted_lm(["money", "money"]))
    result = await RunLoop(rest, {"docs": docs}, past=past).run()
    assert result.outputs_to_dict() == {"topics": {"money": 3, "weather": 1}}


async def test_auto_reads_directly_where_code_gets_nowhere(make):
    way = json.dumps({"way": "code", "question": "", "answers": [], "counted": ""})
    broken = "I try.\n```python\n1 / 0\n```"
    run = make("doc -> answer: int", [way, *[broken] * 3, '{"answer": 7}'], mode="auto")
    result = await run.result(doc="the answer is seven. " * 200)
    assert isinstance(result, Submitted)
    assert (result.outputs.answer, result.iterations) == (7, 4)
    modes = [(event.mode, event.why) for event in run.of(events.ModeChosen)]
    assert [mode for mode, _ in modes] == ["repl", "direct"]
    assert "code failed 3 times in a row" in modes[1][1]


async def test_a_text_that_does_not_fit_is_left_to_code(make):
    way = json.dumps({"way": "code", "question": "", "answers": [], "counted": ""})
    broken = "I try.\n```python\n1 / 0\n```"
    run = make("doc -> answer: int", [way, *[broken] * 3, "```python\nSUBMIT(answer=len(doc))\n```"], mode="auto")
    result = await run.result(doc="the answer is seven. " * 5_000)
    assert result.outputs.answer == 105_000
    assert [event.mode for event in run.of(events.ModeChosen)] == ["repl"]


@pytest.mark.parametrize(
    ("chars", "answered", "tokens", "calls", "why"),
    [
        (3_000, False, 5_000, 0, "about 937 tokens"),
        (3_000, True, 5_000, 0, None),
        (3_000, True, 50_000, 0, "about 937 tokens"),
        (900_000, False, 50_000, 40, "asked 40 questions"),
        (900_000, True, 50_000, 40, None),
        (900_000, False, 50_000, 3, None),
    ],
)
def test_auto_is_advised_where_it_would_have_helped(chars, answered, tokens, calls, why):
    found = advice({"doc": "x" * chars}, None, answered=answered, tokens=tokens, calls=calls)
    assert (found is None) if why is None else why in found


async def test_a_map_over_more_than_a_call_takes_is_asked_in_parts_and_refused_as_a_whole(make):
    docs = [f"{'the rain fell' if n % 3 else 'I paid'} {'x' * 2_000}" for n in range(1_200)]
    answers = {"the rain fell": '"weather"', "*": '"money"'}
    run = make("docs: list[str] -> number: int", [], answers, mode="map", map=PLAN)
    run.config = dataclasses.replace(run.config, sub_model=scripted_lm(answers))
    run.config = dataclasses.replace(run.config, trigger=dataclasses.replace(run.config.trigger, max_llm_calls=5_000))
    result = await run.result(docs=docs)
    assert result.outputs.number == 400
    started = run.of(events.MapStarted)
    assert len(started) > 1
    assert [event.items for event in started] == sorted((event.items for event in started), reverse=True)
    few = dataclasses.replace(run.config, trigger=dataclasses.replace(run.config.trigger, max_llm_calls=1_000))
    run.config, asked = (
        dataclasses.replace(few, trigger=dataclasses.replace(few.trigger, max_iterations=1)),
        len(started),
    )
    refused = await run.result(docs=docs)
    assert "LLM calls are needed" in refused.history[0].output
    assert len(run.of(events.MapStarted)) == asked


async def test_auto_asks_nothing_where_the_inputs_neither_fit_nor_can_be_mapped(make):
    log = "\n".join(f"2031-05-04 12:00:{n % 60:02d} INFO disk{n} is full" for n in range(4_000))
    run = make("log -> answer: int", ["```python\nSUBMIT(answer=log.count('INFO'))\n```"], mode="auto")
    result = await run.result(log=log)
    assert (result.outputs.answer, len(run.asked())) == (4_000, 1)
    (chosen,) = run.of(events.ModeChosen)
    assert (chosen.mode, chosen.asked) == ("repl", False)
    assert "3,999 items too many to be asked about" in chosen.why


async def test_the_price_of_a_task_file_is_in_the_estimate_and_a_dear_map_is_refused_before(make):
    run = make("docs: list[str] -> topics: dict[str, int]", [], [packed(4)], mode="map", map=PLAN)
    run.sub.profile = dataclasses.replace(run.sub.profile, price=Price(input=1_000, output=5_000))
    result = await run.result(docs=DOCS)
    assert isinstance(result, Submitted)
    (started,) = run.of(events.MapStarted)
    assert started.cost_usd == pytest.approx(0.28, abs=0.15)
    dear = make("docs: list[str] -> topics: dict[str, int]", [], [packed(4)], mode="map", map=PLAN)
    dear.sub.profile = run.sub.profile
    trigger = FallbackTrigger(max_cost_usd=0.01, max_iterations=1)
    dear.config = dataclasses.replace(dear.config, trigger=trigger)
    refused = await dear.result(docs=DOCS)
    assert "a map over 4 items was not started: about $0.2200 are needed" in refused.history[0].output
    assert not dear.sub._engine_spec.requests
