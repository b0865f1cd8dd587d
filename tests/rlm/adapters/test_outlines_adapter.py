"""The three tiers, with scripted models: which tier answers, what the model is asked and held to, what stops it."""

from __future__ import annotations

import asyncio
import copy
import enum
import pickle
import threading
from typing import Annotated, Any, Literal

import dspy
import pytest
from dspy.lm15 import ContextLengthError, TransportError
from dspy.utils.exceptions import AdapterParseError, ContextWindowExceededError, LMTransportError
from pydantic import BaseModel, Field

from rlm import OutlinesAdapter
from rlm.adapters import watch_calls
from rlm.adapters.stream_listener import StreamListener
from tests.support.adapter_models import ConstrainedLM, Cut, model

NOT_CHAT = "I would say it is ACME."
CHAT = "[[ ## vendor ## ]]\nACME\n\n[[ ## total ## ]]\n3.5\n\n[[ ## completed ## ]]"
JSON = '{"vendor": "ACME", "total": 3.5}'


class Invoice(dspy.Signature):
    """Read the invoice."""

    text: str = dspy.InputField()
    vendor: str = dspy.OutputField()
    total: float = dspy.OutputField()


class Mood(dspy.Signature):
    """Say how the review sounds."""

    review: str = dspy.InputField()
    mood: Literal["good", "bad"] = dspy.OutputField()


class Line(BaseModel):
    name: str
    amount: int | None = None


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def ask(lm: Any, adapter: Any, signature: Any = Invoice, **inputs: Any) -> Any:
    with dspy.context(lm=lm, adapter=adapter):
        return dspy.Predict(signature)(**(inputs or {"text": "ACME, 3.50"}))


def counted(adapter: OutlinesAdapter) -> dict[str, int]:
    names = [f"tier{tier}_{what}" for tier in (1, 2, 3) for what in ("success", "failures")]
    return {name: adapter.metrics[name] for name in names if adapter.metrics[name]}


# Which tier answers ------------------------------------------------------------------------------------------------


def test_chat_markers_are_enough() -> None:
    lm, adapter = model(CHAT), OutlinesAdapter()
    answer = ask(lm, adapter)
    assert (answer.vendor, answer.total) == ("ACME", 3.5)
    assert counted(adapter) == {"tier1_success": 1}
    assert len(lm.engine.requests) == 1


class Perhaps(dspy.Signature):
    """Read the invoice, as far as it can be read."""

    text: str = dspy.InputField()
    vendor: str | None = dspy.OutputField()
    total: float | None = dspy.OutputField()


def test_an_answer_without_any_field_is_none_though_all_of_them_are_optional() -> None:
    adapter = OutlinesAdapter()
    answer = ask(model(JSON, JSON), adapter, Perhaps)
    assert (answer.vendor, answer.total) == ("ACME", 3.5)
    assert counted(adapter) == {"tier1_failures": 1, "tier2_success": 1}


def test_an_empty_object_is_no_answer_in_tier_2() -> None:
    adapter = OutlinesAdapter(tiers=(2, 3))
    answer = ask(model("{}", JSON), adapter, Perhaps)
    assert (answer.vendor, answer.total) == ("ACME", 3.5)
    assert counted(adapter) == {"tier2_failures": 1, "tier3_success": 1}


def test_fields_that_are_said_to_be_null_are_an_answer() -> None:
    adapter = OutlinesAdapter()
    answer = ask(model("[[ ## total ## ]]\nnull\n\n[[ ## completed ## ]]"), adapter, Perhaps)
    assert (answer.vendor, answer.total) == (None, None)
    assert counted(adapter) == {"tier1_success": 1}


def test_a_number_that_was_cut_off_is_refused_wherever_it_stands() -> None:
    cut = Cut("[[ ## vendor ## ]]\nACME\n\n[[ ## total ## ]]\n3")
    adapter = OutlinesAdapter()
    assert ask(model(cut, JSON), adapter, "text -> total: float, vendor: str").total == 3.5
    assert counted(adapter) == {"tier1_failures": 1, "tier2_success": 1}


def test_a_number_that_was_cut_off_in_a_second_answer_is_refused() -> None:
    marked = "[[ ## total ## ]]\n1{}"
    lm = model(marked.format("0\n\n[[ ## completed ## ]]"), Cut(marked.format("")), '{"total": 10}', '{"total": 12}')
    adapter = OutlinesAdapter()
    with dspy.context(lm=lm, adapter=adapter):
        answer = dspy.Predict("text -> total: float", n=2)(text="10, 12")
    assert answer.completions.total == [10, 12]
    assert counted(adapter) == {"tier1_failures": 1, "tier2_success": 1}


def test_advice_that_was_followed_is_not_given_again() -> None:
    adapter = OutlinesAdapter(tiers=(2, 3))
    ask(model(*[JSON] * 5), adapter)
    for _ in range(5):
        ask(model(JSON), adapter)
    assert "begins at tier 2" in adapter.metrics.summary()
    assert "begin there" not in adapter.metrics.summary()


def test_tier_1_is_asked_exactly_as_dspys_chat_adapter_asks() -> None:
    ours, theirs = model(CHAT), model(CHAT)
    ask(ours, OutlinesAdapter())
    ask(theirs, dspy.ChatAdapter())
    assert ours.engine.system(0) == theirs.engine.system(0)
    assert ours.engine.prompt(0) == theirs.engine.prompt(0)


def test_json_answers_where_chat_markers_fail() -> None:
    lm, adapter = model(NOT_CHAT, f"Here it is:\n```json\n{JSON}\n```"), OutlinesAdapter()
    assert ask(lm, adapter).total == 3.5
    assert counted(adapter) == {"tier1_failures": 1, "tier2_success": 1}


def test_json_takes_what_dspy_would_take() -> None:
    lm = model(NOT_CHAT, '{"vendor": "ACME", "total": "3.5"}')
    assert ask(lm, OutlinesAdapter()).total == 3.5


def test_a_model_that_can_be_constrained_is_in_tier_3() -> None:
    lm, adapter = ConstrainedLM(NOT_CHAT, "no JSON either", JSON), OutlinesAdapter()
    answer = ask(lm, adapter)
    assert (answer.vendor, answer.total) == ("ACME", 3.5)
    assert counted(adapter) == {"tier1_failures": 1, "tier2_failures": 1, "tier3_success": 1}
    assert lm.constraints[:2] == [None, None]


def test_the_tiers_prompts_share_everything_up_to_the_last_sentences() -> None:
    lm = ConstrainedLM(NOT_CHAT, "no", JSON)
    ask(lm, OutlinesAdapter())
    engine = lm.engine
    assert engine.system(0) == engine.system(1) == engine.system(2)
    inputs = "[[ ## text ## ]]\nACME, 3.50\n\nRespond with"
    assert all(engine.prompt(index).startswith(inputs) for index in range(3))
    assert engine.prompt(1) == engine.prompt(2)
    assert engine.prompt(0) != engine.prompt(1)


async def test_it_falls_back_the_same_way_asynchronously() -> None:
    lm, adapter = ConstrainedLM(NOT_CHAT, "no", JSON), OutlinesAdapter()
    with dspy.context(lm=lm, adapter=adapter):
        answer = await dspy.Predict(Invoice).acall(text="ACME, 3.50")
    assert answer.vendor == "ACME"
    assert counted(adapter) == {"tier1_failures": 1, "tier2_failures": 1, "tier3_success": 1}


async def test_the_synchronous_call_works_inside_a_running_loop() -> None:
    assert ask(ConstrainedLM(NOT_CHAT, "no", JSON), OutlinesAdapter()).vendor == "ACME"


def test_only_the_tiers_that_are_wanted_are_used() -> None:
    lm, adapter = ConstrainedLM(JSON), OutlinesAdapter(tiers=(3,))
    assert ask(lm, adapter).vendor == "ACME"
    assert counted(adapter) == {"tier3_success": 1}


@pytest.mark.parametrize("tiers", [(), (3, 1), (1, 1), (0,), (1, 4)])
def test_odd_tiers_are_refused(tiers: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="tiers are"):
        OutlinesAdapter(tiers=tiers)


def test_when_no_tier_answers_the_error_says_what_each_of_them_got() -> None:
    lm, adapter = ConstrainedLM(NOT_CHAT, "no JSON", '{"vendor": "ACME"}'), OutlinesAdapter()
    with pytest.raises(AdapterParseError) as caught:
        ask(lm, adapter)
    assert "tier 2: there is no JSON value" in str(caught.value)
    assert "tier 3: the answer does not fit: At path '/total'" in str(caught.value)
    assert counted(adapter) == {"tier1_failures": 1, "tier2_failures": 1, "tier3_failures": 1}
    assert adapter.metrics["unanswered"] == 1


# What the model is held to -----------------------------------------------------------------------------------------


def test_several_outputs_are_one_model() -> None:
    lm = ConstrainedLM(JSON)
    ask(lm, OutlinesAdapter(tiers=(3,)))
    (constraint,) = lm.constraints
    assert issubclass(constraint, BaseModel)
    assert list(constraint.model_fields) == ["vendor", "total"]
    assert constraint.model_json_schema()["required"] == ["vendor", "total"]


def messages(lm: ConstrainedLM) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in lm.engine.requests[0].messages]


def test_a_single_choice_is_constrained_to_itself_where_it_would_stand_in_json() -> None:
    lm = ConstrainedLM("bad")
    assert ask(lm, OutlinesAdapter(tiers=(3,)), Mood, review="boring").mood == "bad"
    assert lm.constraints == [Literal["good", "bad"]]
    begun = ("assistant", '```json\n{"mood": "')
    assert messages(lm) == [("user", "Say how the review sounds.\n\nReview: boring"), begun]


def test_a_choice_of_numbers_is_begun_without_a_quote() -> None:
    lm = ConstrainedLM("2")
    stars = dspy.Signature("review -> stars: Literal[1, 2]")
    assert ask(lm, OutlinesAdapter(tiers=(3,)), stars, review="boring").stars == 2
    assert messages(lm)[-1] == ("assistant", '```json\n{"stars":')


def test_a_model_that_is_constrained_first_reads_the_task_and_the_inputs() -> None:
    lm = ConstrainedLM(JSON)
    ask(lm, OutlinesAdapter(tiers=(3,)))
    assert lm.engine.system(0) == ""
    assert messages(lm) == [("user", "Read the invoice.\n\nText: ACME, 3.50"), ("assistant", "```json\n")]


def test_what_fields_mean_and_what_examples_show_is_in_the_short_prompt() -> None:
    class Told(dspy.Signature):
        """Read the note."""

        text: str = dspy.InputField()
        due: int = dspy.OutputField(desc="the day of the month")

    lm = ConstrainedLM('{"due": 4}')
    predict = dspy.Predict(Told)
    predict.demos = [dspy.Example(text="by the 9th", due=9)]
    with dspy.context(lm=lm, adapter=OutlinesAdapter(tiers=(3,))):
        assert predict(text="by the 4th").due == 4
    assert messages(lm) == [
        ("user", "Read the note.\n- due: the day of the month\n\nText: by the 9th"),
        ("assistant", '```json\n{"due": 9}\n```'),
        ("user", "Text: by the 4th"),
        ("assistant", "```json\n"),
    ]


def test_after_other_tiers_the_prompt_keeps_the_beginning_that_is_in_the_models_cache() -> None:
    lm = ConstrainedLM(NOT_CHAT, "no", JSON)
    assert ask(lm, OutlinesAdapter()).vendor == "ACME"
    assert lm.engine.system(2) == lm.engine.system(0)


def test_a_choice_after_other_tiers_is_requested_in_words() -> None:
    lm = ConstrainedLM(NOT_CHAT, "no", "bad")
    assert ask(lm, OutlinesAdapter(), Mood, review="boring").mood == "bad"
    assert "one of these, and nothing else: good; bad" in lm.engine.prompt(2)


def test_a_single_choice_can_be_constrained_as_json_instead() -> None:
    lm = ConstrainedLM('{"mood": "bad"}')
    assert ask(lm, OutlinesAdapter(tiers=(3,), choices_as_json=True), Mood, review="boring").mood == "bad"
    assert list(lm.constraints[0].model_fields) == ["mood"]
    assert messages(lm)[-1] == ("assistant", "```json\n")


def test_a_single_enum_is_constrained_without_json() -> None:
    signature = dspy.Signature({"thing": (str, dspy.InputField()), "colour": (Colour, dspy.OutputField())})
    lm = ConstrainedLM("blue")
    assert ask(lm, OutlinesAdapter(tiers=(3,)), signature, thing="sky").colour is Colour.BLUE
    assert lm.constraints == [Colour]


def test_a_single_pattern_is_constrained_to_a_regular_expression() -> None:
    outlines = pytest.importorskip("outlines")
    kind = Annotated[str, Field(pattern=r"^\d{3}-\d{4}$")]
    signature = dspy.Signature({"text": (str, dspy.InputField()), "phone": (kind, dspy.OutputField())})
    lm = ConstrainedLM("555-1234")
    assert ask(lm, OutlinesAdapter(tiers=(3,)), signature, text="call 555-1234").phone == "555-1234"
    assert lm.constraints == [outlines.types.Regex(r"\d{3}-\d{4}")]


def test_a_pattern_counts_in_every_tier() -> None:
    kind = Annotated[str, Field(pattern=r"^\d{3}-\d{4}$")]
    signature = dspy.Signature({"text": (str, dspy.InputField()), "phone": (kind, dspy.OutputField())})
    chat = "[[ ## phone ## ]]\n{}\n\n[[ ## completed ## ]]"
    lm, adapter = model(chat.format("it is 5551234"), '{"phone": "555-1234"}'), OutlinesAdapter()
    assert ask(lm, adapter, signature, text="call 555-1234").phone == "555-1234"
    assert counted(adapter) == {"tier1_failures": 1, "tier2_success": 1}


def test_a_choice_that_cannot_stand_by_itself_is_constrained_as_json() -> None:
    signature = dspy.Signature({"q": (str, dspy.InputField()), "yes": (Literal[True, False], dspy.OutputField())})
    lm = ConstrainedLM('{"yes": true}')
    assert ask(lm, OutlinesAdapter(tiers=(3,)), signature, q="?").yes is True


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (list[int], "[1, 2]", [1, 2]),
        (Line, '{"name": "nut", "amount": null}', Line(name="nut")),
        (list[Line], '[{"name": "nut", "amount": 2}]', [Line(name="nut", amount=2)]),
        (int | None, "null", None),
        (Literal["a", "b"] | None, '"b"', "b"),
        (dict[str, int], '{"x": 1}', {"x": 1}),
        (bool, "true", True),
        (Colour, '"red"', Colour.RED),
    ],
)
def test_types_work_in_tier_3_next_to_other_outputs(kind: Any, written: str, value: Any) -> None:
    outputs = {"note": (str, dspy.OutputField()), "found": (kind, dspy.OutputField())}
    signature = dspy.Signature({"q": (str, dspy.InputField()), **outputs})
    lm = ConstrainedLM(f'{{"note": "ok", "found": {written}}}')
    answer = ask(lm, OutlinesAdapter(tiers=(3,)), signature, q="?")
    assert answer.found == value
    assert type(answer.found) is type(value)


def test_chain_of_thought_works_through_all_tiers() -> None:
    adapter = OutlinesAdapter()
    lm = ConstrainedLM(NOT_CHAT, "no", '{"reasoning": "It says so.", "vendor": "ACME", "total": 3.5}')
    with dspy.context(lm=lm, adapter=adapter):
        answer = dspy.ChainOfThought(Invoice)(text="ACME, 3.50")
    assert (answer.reasoning, answer.vendor) == ("It says so.", "ACME")
    assert list(lm.constraints[2].model_fields) == ["reasoning", "vendor", "total"]


def test_dspys_reasoning_type_is_written_as_text() -> None:
    outputs = {"why": (dspy.Reasoning, dspy.OutputField()), "total": (int, dspy.OutputField())}
    signature = dspy.Signature({"q": (str, dspy.InputField()), **outputs})
    lm = ConstrainedLM('{"why": "because", "total": 3}')
    answer = ask(lm, OutlinesAdapter(tiers=(3,)), signature, q="?")
    assert isinstance(answer.why, dspy.Reasoning)
    assert answer.why == "because"


def test_examples_are_shown_in_the_form_that_is_requested() -> None:
    lm = ConstrainedLM(NOT_CHAT, "no", JSON)
    with dspy.context(lm=lm, adapter=OutlinesAdapter()):
        predict = dspy.Predict(Invoice)
        predict.demos = [dspy.Example(text="Bolt, 2", vendor="Bolt", total=2.0)]
        predict(text="ACME, 3.50")
    shown = [request.messages[1].text for request in lm.engine.requests]
    assert "[[ ## vendor ## ]]\nBolt" in shown[0]
    assert shown[1] == shown[2] == '{"vendor": "Bolt", "total": 2.0}'


# What is checked ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["", "ACME", '{"vendor": "ACME"}', '{"vendor": 1, "total": 3.5}', JSON[:-1]])
def test_what_tier_3_returns_is_checked_though_the_model_was_constrained(said: str) -> None:
    adapter = OutlinesAdapter(tiers=(3,))
    with pytest.raises(AdapterParseError):
        ask(ConstrainedLM(said), adapter)
    assert adapter.metrics["tier3_failures"] == 1


def test_a_choice_that_is_none_is_refused() -> None:
    with pytest.raises(AdapterParseError):
        ask(ConstrainedLM("goo"), OutlinesAdapter(tiers=(3,)), Mood, review="x")


@pytest.mark.parametrize("tiers", [(2,), (3,)])
def test_an_answer_that_was_cut_off_is_a_failure(tiers: tuple[int, ...]) -> None:
    with pytest.raises(AdapterParseError, match="cut off"):
        ask(ConstrainedLM(Cut(JSON)), OutlinesAdapter(tiers=tiers))


def test_a_typed_field_that_was_cut_off_is_a_failure_of_tier_1() -> None:
    cut = Cut("[[ ## vendor ## ]]\nACME\n\n[[ ## total ## ]]\n3")
    lm, adapter = model(cut, JSON), OutlinesAdapter()
    assert ask(lm, adapter).total == 3.5
    assert counted(adapter) == {"tier1_failures": 1, "tier2_success": 1}


def test_what_follows_the_end_of_a_chat_answer_may_be_cut() -> None:
    adapter = OutlinesAdapter()
    assert ask(model(Cut(CHAT + "\nAnd further")), adapter).total == 3.5


# What does not start a fallback ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(ContextLengthError("too long"), ContextWindowExceededError), (TransportError("no route"), LMTransportError)],
)
@pytest.mark.parametrize("before", [0, 1, 2])
def test_errors_of_the_model_pass_through_from_every_tier(
    raised: Exception, expected: type[Exception], before: int
) -> None:
    lm = ConstrainedLM(*[NOT_CHAT, "no"][:before], raised)
    with pytest.raises(expected):
        ask(lm, OutlinesAdapter())
    assert len(lm.engine.requests) == before + 1


def test_nothing_is_asked_again_after_text_was_streamed() -> None:
    lm, adapter = model(NOT_CHAT, JSON), OutlinesAdapter()
    heard: list[Any] = []

    async def listen() -> None:
        with dspy.context(lm=lm, adapter=adapter):
            program = dspy.streamify(dspy.Predict(Invoice))
            async for part in program(text="ACME, 3.50"):
                heard.append(part)

    with pytest.raises(AdapterParseError):
        asyncio.run(listen())
    assert heard
    assert len(lm.engine.requests) == 1
    assert counted(adapter) == {"tier1_failures": 1}


def test_one_field_can_be_listened_to() -> None:
    lm, adapter = model(CHAT), OutlinesAdapter()
    lm.engine.pieces = 7

    async def listen() -> list[Any]:
        with dspy.context(lm=lm, adapter=adapter):
            program = dspy.streamify(dspy.Predict(Invoice), stream_listeners=[StreamListener("vendor")])
            return [part async for part in program(text="ACME, 3.50")]

    heard = asyncio.run(listen())
    assert "".join(part.chunk for part in heard if isinstance(part, dspy.streaming.StreamResponse)) == "ACME"
    assert heard[-1].total == 3.5


def test_the_keywords_of_a_call_are_the_same_for_every_tier_and_for_the_caller() -> None:
    lm, keywords = ConstrainedLM(NOT_CHAT, "no", JSON), {"temperature": 0.3}
    OutlinesAdapter()(lm, keywords, Invoice, [], {"text": "ACME, 3.50"})
    assert keywords == {"temperature": 0.3}
    assert [request.config.temperature for request in lm.engine.requests] == [0.3, 0.3, 0.3]


# What tier 3 is not for --------------------------------------------------------------------------------------------


def test_tool_calls_skip_tier_3() -> None:
    inputs = {"q": (str, dspy.InputField()), "tools": (list[dspy.Tool], dspy.InputField())}
    signature = dspy.Signature({**inputs, "calls": (dspy.ToolCalls, dspy.OutputField())})
    lm, adapter = ConstrainedLM("nothing", "nothing again"), OutlinesAdapter()
    with pytest.raises(AdapterParseError):
        ask(lm, adapter, signature, q="?", tools=[dspy.Tool(len, name="len", desc="length", args={})])
    assert lm.constraints == [None, None]
    assert counted(adapter) == {"tier1_failures": 1, "tier2_failures": 1}
    assert adapter.metrics["tier3_skipped"] == 1


def test_tool_calls_are_read_by_tier_2() -> None:
    inputs = {"q": (str, dspy.InputField()), "tools": (list[dspy.Tool], dspy.InputField())}
    signature = dspy.Signature({**inputs, "calls": (dspy.ToolCalls, dspy.OutputField())})
    written = '{"calls": {"tool_calls": [{"name": "len", "args": {"x": "abc"}}]}}'
    answer = ask(
        model("nothing", written),
        OutlinesAdapter(),
        signature,
        q="?",
        tools=[dspy.Tool(len, name="len", desc="length", args={})],
    )
    assert answer.calls.tool_calls[0].args == {"x": "abc"}


def test_several_answers_are_one_in_tier_3_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    lm, adapter = ConstrainedLM(JSON), OutlinesAdapter(tiers=(3,))
    with dspy.context(lm=lm, adapter=adapter):
        answer = dspy.Predict(Invoice, n=3)(text="ACME, 3.50")
    assert len(answer.completions.vendor) == 1
    assert "n=3 answers were requested; tier 3 gives one" in caplog.text


def test_several_answers_are_given_by_tier_1() -> None:
    lm = model(CHAT, CHAT)
    with dspy.context(lm=lm, adapter=OutlinesAdapter()):
        answer = dspy.Predict(Invoice, n=2)(text="ACME, 3.50")
    assert len(answer.completions.vendor) == 2


# Learning where to begin -------------------------------------------------------------------------------------------


def test_by_default_nothing_is_learned() -> None:
    lm, adapter = model(*[NOT_CHAT, JSON] * 8), OutlinesAdapter()
    for _ in range(8):
        ask(lm, adapter)
    assert adapter.metrics["tier1_failures"] == 8
    assert adapter.metrics.by_signature["Invoice"]["start_tier"] == 1


def test_a_signature_that_fails_tier_1_on_a_model_begins_lower_on_it() -> None:
    lm, adapter = model(*[NOT_CHAT, JSON] * 5, JSON, JSON), OutlinesAdapter(learn=True)
    for _ in range(7):
        ask(lm, adapter)
    assert adapter.metrics["tier1_failures"] == 5
    assert adapter.metrics["tier2_success"] == 7
    assert adapter.metrics.by_signature["Invoice"]["start_tier"] == 2
    assert "begins at tier 2" in adapter.metrics.summary()
    other = model(CHAT, name="scripted/other")
    ask(other, adapter)
    assert adapter.metrics.by_model["scripted/other"]["tier1_success"] == 1


def test_where_tier_2_fails_as_well_tier_3_begins() -> None:
    lm, adapter = ConstrainedLM(*[NOT_CHAT, "no", JSON] * 5, JSON), OutlinesAdapter(learn=True)
    for _ in range(6):
        ask(lm, adapter)
    assert len(lm.engine.requests) == 16
    assert adapter.metrics.by_signature["Invoice"]["start_tier"] == 3


def test_now_and_then_a_tier_that_was_left_out_is_tried_again() -> None:
    lm, adapter = model(*[NOT_CHAT, JSON] * 5, *[JSON] * 15, CHAT), OutlinesAdapter(learn=True)
    for _ in range(21):
        ask(lm, adapter)
    assert adapter.metrics["tier1_success"] == 1
    assert lm.engine.script == []


# As part of dspy ---------------------------------------------------------------------------------------------------


def test_refine_can_make_one_of_its_class() -> None:
    lm, adapter = model(CHAT, CHAT), OutlinesAdapter()
    with dspy.context(lm=lm, adapter=adapter):
        program = dspy.Refine(dspy.Predict(Invoice), N=2, reward_fn=lambda given, answer: 1.0, threshold=0.5)
        assert program(text="ACME, 3.50").vendor == "ACME"
    assert adapter.metrics["tier1_success"] == 1


def test_it_can_be_copied_and_pickled_with_its_numbers() -> None:
    adapter = OutlinesAdapter(learn=True)
    ask(model(CHAT), adapter)
    for other in (copy.deepcopy(adapter), pickle.loads(pickle.dumps(adapter))):
        ask(model(CHAT), other)
        assert other.metrics["tier1_success"] == 2
    assert adapter.metrics["tier1_success"] == 1


def test_threads_count_correctly_and_do_not_mix_their_calls() -> None:
    adapter, told = OutlinesAdapter(), []

    def work(number: int) -> None:
        lm = ConstrainedLM(*[NOT_CHAT, "no", f'{{"vendor": "{number}", "total": {number}}}'] * 20)
        with watch_calls(lambda call: told.append(call.step)):
            assert [ask(lm, adapter).vendor for _ in range(20)] == [str(number)] * 20

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert adapter.metrics["tier3_success"] == 80
    assert adapter.metrics["tier1_failures"] == 80
    assert len(told) == 240


def test_seconds_and_tokens_are_counted_by_tier() -> None:
    lm, adapter = model(NOT_CHAT, JSON), OutlinesAdapter()
    ask(lm, adapter)
    for tier in (1, 2):
        usage = lm.history[tier - 1]["usage"]
        assert adapter.metrics[f"tier{tier}_tokens_in"] == usage["prompt_tokens"] > 0
        assert adapter.metrics[f"tier{tier}_tokens_out"] == usage["completion_tokens"] > 0
        assert adapter.metrics[f"tier{tier}_seconds"] > 0
    assert adapter.metrics["tier3_tokens_in"] == 0


def test_without_dspys_history_the_tiers_work_and_only_tokens_are_unknown() -> None:
    lm, adapter = model(NOT_CHAT, "no", JSON), OutlinesAdapter()
    with dspy.context(disable_history=True):
        assert ask(lm, adapter).total == 3.5
    assert counted(adapter) == {"tier1_failures": 1, "tier2_failures": 1, "tier3_success": 1}
    assert adapter.metrics["tier1_tokens_in"] == 0


# Answers that do not end -------------------------------------------------------------------------------------------


class Guests(dspy.Signature):
    """List the guests."""

    text: str = dspy.InputField()
    guests: list[str] = dspy.OutputField()


def test_a_model_that_says_the_same_again_and_again_is_bounded() -> None:
    again = Cut('{"guests": ["Ivan", ' + '"nobody", ' * 6 + '"nob')
    lm, adapter = ConstrainedLM(again, '{"guests": ["Ivan", "nobody"]}'), OutlinesAdapter(tiers=(3,))
    assert ask(lm, adapter, Guests, text="Ivan came.").guests == ["Ivan", "nobody"]
    whole, ended = lm.constraints
    assert issubclass(whole, BaseModel)
    assert ended["properties"]["guests"]["maxItems"] == 8
    assert ended["properties"]["guests"]["items"]["maxLength"] > 12
    assert counted(adapter) == {"tier3_success": 1}
    assert adapter.metrics["tier3_tokens_out"] > len(again) // 4  # both answers are counted


def test_an_answer_that_is_only_too_long_is_not_shortened() -> None:
    lm = ConstrainedLM(Cut('{"guests": ["Ivan", "Olga", "Pia", "Ida", "Max", "Uwe'))
    with pytest.raises(AdapterParseError, match="raise max_tokens"):
        ask(lm, OutlinesAdapter(tiers=(3,)), Guests, text="many")
    assert len(lm.constraints) == 1


def test_and_one_that_goes_on_all_the_same_is_refused() -> None:
    again = Cut('{"guests": [' + '"nobody", ' * 6)
    with pytest.raises(AdapterParseError, match="raise max_tokens"):
        ask(ConstrainedLM(again, again), OutlinesAdapter(tiers=(3,)), Guests, text="many")


# As dspy's adapter -------------------------------------------------------------------------------------------------


def test_without_the_json_fallback_chat_markers_have_to_do() -> None:
    lm, adapter = model(NOT_CHAT, JSON), OutlinesAdapter(use_json_adapter_fallback=False)
    with pytest.raises(AdapterParseError):
        ask(lm, adapter)
    assert len(lm.engine.requests) == 1
    assert ask(model(NOT_CHAT, JSON), OutlinesAdapter(use_json_adapter_fallback=True)).vendor == "ACME"


def test_an_answer_that_says_it_is_complete_leaves_out_what_is_optional() -> None:
    signature = dspy.Signature({"q": (str, dspy.InputField()), "note": (str | None, dspy.OutputField(default=None))})
    lm = model("[[ ## completed ## ]]")
    assert ask(lm, OutlinesAdapter(), signature, q="?").note is None
    assert len(lm.engine.requests) == 1
