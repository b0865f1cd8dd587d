"""Two steps: two calls, in order; the outputs come from the second; what fails there is said with a tag."""

from __future__ import annotations

import asyncio
import copy
import pickle
import subprocess
import sys
from typing import Annotated, Any, Literal

import dspy
import pytest
from dspy.lm15 import ContextLengthError
from dspy.utils.exceptions import AdapterParseError, ContextWindowExceededError
from pydantic import BaseModel, Field

import rlm
from rlm import OutlinesAdapter, TwoStepAdapter, settings
from rlm.adapters import TwoStep, TwoStepError, watch_calls
from rlm.budgets import BudgetExceeded, FallbackTrigger, Ledger
from tests.support.adapter_models import ConstrainedLM, Cut, model

SAID = "The invoice is from ACME. It comes to 3.50, I think, and is paid."
JSON = '{"vendor": "ACME", "total": 3.5}'


class Invoice(dspy.Signature):
    """Read the invoice."""

    text: str = dspy.InputField(desc="the letter")
    vendor: str = dspy.OutputField(desc="who sent it")
    total: float = dspy.OutputField()


class Line(BaseModel):
    name: str
    amount: int


def main_model(*said: Any) -> Any:
    return model(*(said or (SAID,)), name="scripted/main")


def small_model(*said: Any) -> Any:
    return model(*(said or (JSON,)), name="scripted/small")


def ask(lm: Any, adapter: Any, signature: Any = Invoice, **inputs: Any) -> Any:
    with dspy.context(lm=lm, adapter=adapter):
        return dspy.Predict(signature)(**(inputs or {"text": "ACME, 3.50"}))


# Two calls, in order -----------------------------------------------------------------------------------------------


def test_the_main_model_is_asked_first_and_the_outputs_come_from_the_second() -> None:
    main, small, told = main_model("It is NOT the vendor you think, and 99."), small_model(), []
    with watch_calls(lambda call: told.append((call.step, call.model))):
        answer = ask(main, TwoStepAdapter(small))
    assert (answer.vendor, answer.total) == ("ACME", 3.5)
    assert told == [("answer", "scripted/main"), ("extraction", "scripted/small")]
    assert len(main.engine.requests) == len(small.engine.requests) == 1
    assert "It is NOT the vendor you think, and 99." in small.engine.prompt(0)


async def test_it_is_the_same_asynchronously() -> None:
    main, small, told = main_model(), small_model(), []
    with dspy.context(lm=main, adapter=TwoStepAdapter(small)), watch_calls(lambda call: told.append(call.step)):
        answer = await dspy.Predict(Invoice).acall(text="ACME, 3.50")
    assert (answer.vendor, answer.total) == ("ACME", 3.5)
    assert told == ["answer", "extraction"]


def test_the_main_model_is_asked_in_words_without_markers_or_json() -> None:
    main = main_model()
    ask(main, TwoStepAdapter(small_model()))
    prompt = main.engine.system(0) + main.engine.prompt(0)
    assert "[[ ##" not in prompt
    assert "{" not in prompt
    assert "schema" not in prompt.lower()
    assert "Read the invoice." in prompt
    assert "`vendor` (str): who sent it" in prompt
    assert "text:\nACME, 3.50" in prompt


def test_the_extraction_is_requested_json_at_temperature_0_of_text_alone() -> None:
    small = small_model()
    ask(main_model(), TwoStepAdapter(small))
    (request,) = small.engine.requests
    assert request.config.temperature == 0
    assert "JSON object" in small.engine.prompt(0)
    assert "who sent it" in small.engine.system(0)
    assert "ACME, 3.50" not in small.engine.prompt(0)


def test_typed_schemas_are_kept() -> None:
    outputs = {
        "lines": (list[Line], dspy.OutputField()),
        "state": (Literal["paid", "open"], dspy.OutputField()),
        "note": (str | None, dspy.OutputField()),
    }
    signature = dspy.Signature({"letter": (str, dspy.InputField()), **outputs})
    small = small_model('{"lines": [{"name": "nut", "amount": 2}], "state": "paid", "note": null}')
    answer = ask(main_model(), TwoStepAdapter(small), signature, letter="...")
    assert answer.lines == [Line(name="nut", amount=2)]
    assert (answer.state, answer.note) == ("paid", None)
    assert "amount" in small.engine.system(0)


def test_an_output_called_text_does_no_harm() -> None:
    small = small_model('{"text": "found"}')
    signature = dspy.Signature("letter -> text")
    assert ask(main_model(), TwoStepAdapter(small), signature, letter="...").text == "found"
    assert SAID in small.engine.prompt(0)


def test_each_of_several_answers_is_extracted() -> None:
    main, small = main_model("One.", "Two."), small_model(JSON, '{"vendor": "Bolt", "total": 2}')
    with dspy.context(lm=main, adapter=TwoStepAdapter(small)):
        answer = dspy.Predict(Invoice, n=2)(text="...")
    assert answer.completions.vendor == ["ACME", "Bolt"]


def test_chain_of_thought_is_extracted_with_the_rest() -> None:
    small = small_model('{"reasoning": "It says so.", "vendor": "ACME", "total": 3.5}')
    with dspy.context(lm=main_model(), adapter=TwoStepAdapter(small)):
        assert dspy.ChainOfThought(Invoice)(text="...").reasoning == "It says so."


def test_native_tool_calls_are_not_extracted() -> None:
    from dspy.lm15 import Message, Response, ToolCallPart, Usage

    from tests.support.adapter_models import Engine

    class Calling(Engine):
        supports_function_calling = True

        def complete(self, request: Any) -> Any:
            self.requests.append(request)
            message = Message.assistant([ToolCallPart(id="1", name="length", input={"x": "abc"})])
            return Response(None, request.model, message, "tool_call", Usage(input_tokens=1, output_tokens=1))

    main = dspy.LM("scripted/main", engine=Calling(), cache=False, num_retries=0)
    inputs = {"q": (str, dspy.InputField()), "tools": (list[dspy.Tool], dspy.InputField())}
    signature = dspy.Signature({**inputs, "calls": (dspy.ToolCalls, dspy.OutputField())})
    tool = dspy.Tool(len, name="length", desc="length", args={"x": {"type": "string"}})
    adapter = TwoStepAdapter(small_model(), use_native_function_calling=True)
    answer = ask(main, adapter, signature, q="?", tools=[tool])
    assert answer.calls.tool_calls[0].name == "length"


def test_parse_is_the_second_step_alone() -> None:
    assert TwoStepAdapter(small_model()).parse(Invoice, SAID) == {"vendor": "ACME", "total": 3.5}


def test_a_listener_hears_the_main_model_only() -> None:
    main, small = main_model(), small_model()

    async def listen() -> list[Any]:
        with dspy.context(lm=main, adapter=TwoStepAdapter(small)):
            program = dspy.streamify(dspy.Predict(Invoice))
            return [part async for part in program(text="...")]

    *heard, answer = asyncio.run(listen())
    assert "".join(chunk.choices[0].delta.content or "" for chunk in heard) == SAID
    assert answer.vendor == "ACME"


# How it is configured ----------------------------------------------------------------------------------------------


def test_the_extraction_model_is_configured_once() -> None:
    small = small_model()
    rlm.configure(two_step_extraction_lm=small)
    assert ask(main_model(), TwoStepAdapter()).vendor == "ACME"


def test_without_an_extraction_model_the_main_model_is_not_even_asked() -> None:
    main = main_model()
    with pytest.raises(TwoStepError) as caught:
        ask(main, TwoStepAdapter())
    assert caught.value.tag == "extraction_lm_not_configured"
    assert "rlm.configure(two_step_extraction_lm=...)" in str(caught.value)
    assert main.engine.requests == []


def test_the_name_of_an_extraction_model_is_refused_before_the_main_model_is_paid_for() -> None:
    main = main_model()
    with pytest.raises(TypeError, match=r"such as dspy\.LM\('openai/small'\)"):
        ask(main, TwoStepAdapter("openai/small"))
    assert main.engine.requests == []


def test_the_settings_are_there_with_the_package() -> None:
    code = "import rlm\nwith rlm.settings.context(two_step_extraction_lm=1): print(rlm.settings.current())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "two_step_extraction_lm=1" in done.stdout


def test_the_nearest_setting_counts() -> None:
    configured, around, own, called = (small_model(f'{{"vendor": "{name}", "total": 1}}') for name in "abcd")
    rlm.configure(two_step_extraction_lm=configured)
    with settings.context(two_step_extraction_lm=around):
        assert ask(main_model(), TwoStepAdapter()).vendor == "b"
        assert ask(main_model(), TwoStepAdapter(own)).vendor == "c"
        with dspy.context(lm=main_model(), adapter=TwoStepAdapter(own)):
            assert dspy.Predict(Invoice, two_step_extraction_lm=called)(text="...").vendor == "d"
    assert ask(main_model(), TwoStepAdapter()).vendor == "a"


def test_request_defaults_and_the_adapter_can_be_set_as_well() -> None:
    chat = "[[ ## vendor ## ]]\nACME\n\n[[ ## total ## ]]\n3.5\n\n[[ ## completed ## ]]"
    small = small_model(chat)
    defaults = {"temperature": 0.7, "max_tokens": 77}
    rlm.configure(
        two_step_extraction_lm=small,
        two_step_extraction_adapter=dspy.ChatAdapter(),
        two_step_extraction_request_defaults=defaults,
    )
    assert ask(main_model(), TwoStepAdapter()).total == 3.5
    config = small.engine.requests[0].config
    assert (config.temperature, config.max_tokens) == (0.7, 77)


def test_the_extraction_can_be_constrained() -> None:
    small, adapter = ConstrainedLM(JSON), OutlinesAdapter(tiers=(3,))
    told: list[str] = []
    asked: list[str] = []
    with watch_calls(lambda call: told.append(call.step), before=lambda step, lm: asked.append(step)):
        assert ask(main_model(), TwoStepAdapter(small, extraction_adapter=adapter)).total == 3.5
    assert adapter.metrics["tier3_success"] == 1
    assert told == asked == ["answer", "tier3"]


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="no setting two_step_lm; the settings are two_step_extraction_adapter"):
        rlm.configure(two_step_lm=None)


def test_other_adapters_know_nothing_of_it() -> None:
    rlm.configure(two_step_extraction_lm=small_model())
    main = main_model(JSON)
    assert ask(main, dspy.JSONAdapter()).vendor == "ACME"
    assert len(main.engine.requests) == 1


# What fails --------------------------------------------------------------------------------------------------------


def test_an_answer_that_only_needs_better_reading_costs_no_call() -> None:
    small = small_model("[[ nothing ]] but then: {'vendor': 'ACME', 'total': 3.5,} as you see")
    assert ask(main_model(), TwoStepAdapter(small)).total == 3.5
    assert len(small.engine.requests) == 1


def test_a_wrong_answer_is_requested_again_with_what_is_wrong() -> None:
    small, told = small_model("I cannot see one.", '{"vendor": "ACME"}', JSON), []
    with watch_calls(lambda call: told.append(call.step)):
        assert ask(main_model(), TwoStepAdapter(small)).total == 3.5
    assert told == ["answer", "extraction", "retry", "retry"]
    assert "was not accepted" in small.engine.prompt(1)
    assert "/total" in small.engine.prompt(2)
    assert [request.config.temperature for request in small.engine.requests] == [0, 0, 0]


async def test_retries_work_asynchronously_too() -> None:
    with dspy.context(lm=main_model(), adapter=TwoStepAdapter(small_model("hm", JSON))):
        assert (await dspy.Predict(Invoice).acall(text="...")).total == 3.5


def test_nothing_to_read_is_a_failed_parse() -> None:
    with pytest.raises(TwoStepError) as caught:
        ask(main_model(), TwoStepAdapter(small_model("no", "no", "no")))
    assert caught.value.tag == "extraction_parse_failed"
    assert "no JSON value" in caught.value.reason


def test_values_that_do_not_fit_are_a_failed_validation() -> None:
    wrong = '{"vendor": "ACME", "total": "a lot"}'
    with pytest.raises(TwoStepError) as caught:
        ask(main_model(), TwoStepAdapter(small_model(wrong, wrong), max_attempts=2))
    assert caught.value.tag == "extraction_validation_failed"
    assert "/total" in caught.value.reason


def test_a_fields_own_constraints_are_validated() -> None:
    kind = Annotated[int, Field(ge=1)]
    signature = dspy.Signature({"q": (str, dspy.InputField()), "count": (kind, dspy.OutputField())})
    small = small_model('{"count": 0}', '{"count": 4}')
    assert ask(main_model(), TwoStepAdapter(small), signature, q="?").count == 4
    with pytest.raises(TwoStepError) as caught:
        ask(main_model(), TwoStepAdapter(small_model('{"count": 0}'), max_attempts=1), signature, q="?")
    assert caught.value.tag == "extraction_validation_failed"


def test_an_extraction_that_was_cut_off_is_not_believed() -> None:
    small = small_model(Cut('{"vendor": "ACME Corporati'), JSON)
    assert ask(main_model(), TwoStepAdapter(small)).vendor == "ACME"
    assert len(small.engine.requests) == 2


def test_an_empty_first_answer_is_dspys_error() -> None:
    from dspy.lm15 import Message, Response, ThinkingPart, Usage

    from tests.support.adapter_models import Engine

    class Silent(Engine):
        def complete(self, request: Any) -> Any:
            message = Message.assistant([ThinkingPart("hm")])
            return Response(None, request.model, message, "stop", Usage(input_tokens=1, output_tokens=0))

    small = small_model()
    with pytest.raises(AdapterParseError):
        ask(dspy.LM("scripted/main", engine=Silent(), cache=False, num_retries=0), TwoStepAdapter(small))
    assert small.engine.requests == []


@pytest.mark.parametrize("step", [1, 2])
def test_errors_of_either_model_pass_through(step: int) -> None:
    too_long = ContextLengthError("too long")
    main = main_model(too_long) if step == 1 else main_model()
    with pytest.raises(ContextWindowExceededError):
        ask(main, TwoStepAdapter(small_model(too_long)))


def test_the_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(TwoStepError("extraction_parse_failed", "why")))
    assert (error.tag, error.reason) == ("extraction_parse_failed", "why")


# Budgets -----------------------------------------------------------------------------------------------------------


def test_the_second_call_is_counted_in_a_budget_and_can_be_refused_by_it() -> None:
    ledger = Ledger(FallbackTrigger(max_llm_calls=3))
    small = small_model(JSON, JSON)
    counting = watch_calls(
        lambda call: ledger.record_usage(call.tokens_in, call.tokens_out, call.cost_usd),
        before=lambda step, lm: ledger.reserve_call(),
    )
    with counting:
        ask(main_model(), TwoStepAdapter(small))
        assert ledger.usage().model_calls == 2
        with pytest.raises(BudgetExceeded):
            ask(main_model(), TwoStepAdapter(small))
    assert len(small.engine.requests) == 1
    assert ledger.usage().tokens_in >= small.history[0]["usage"]["prompt_tokens"] > 0


# Optimizers --------------------------------------------------------------------------------------------------------


def demo(**values: Any) -> Any:
    return dspy.Example(**values).with_inputs("text")


def test_the_main_models_examples_become_the_extractors() -> None:
    main, small = main_model(), small_model()
    with dspy.context(lm=main, adapter=TwoStepAdapter(small)):
        predict = dspy.Predict(Invoice)
        predict.demos = [demo(text="Bolt, 2", vendor="Bolt", total=2.0)]
        predict(text="ACME, 3.50")
    shown = [message.text for message in main.engine.requests[0].messages]
    assert shown[1] == "The vendor: Bolt\nThe total: 2.0"
    read = [message.text for message in small.engine.requests[0].messages]
    assert "The vendor: Bolt\nThe total: 2.0" in read[0]
    assert '"vendor": "Bolt"' in read[1]


def test_the_extractor_is_a_predictor_that_a_walk_finds_and_that_is_used() -> None:
    small = small_model()
    program = TwoStep(Invoice, TwoStepAdapter(small))
    predictors = dict(program.named_predictors())
    assert len(predictors) == 2
    extractor = next(
        one
        for one in predictors.values()
        if "vendor" in one.signature.output_fields
        and one.signature.input_fields.keys() == {"text"}
        and "Extract" in one.signature.instructions
    )
    extractor.signature = extractor.signature.with_instructions("Copy the values out.")
    extractor.demos = [dspy.Example(text="Nut sold it for 1.", vendor="Nut", total=1.0)]
    with dspy.context(lm=main_model()):
        assert program(text="...").vendor == "ACME"
    assert "Copy the values out." in small.engine.system(0)
    assert "Nut sold it for 1." in str(small.engine.requests[0].messages[0].text)


def test_a_copy_of_a_program_has_an_extractor_of_its_own() -> None:
    small = small_model(JSON, JSON)
    program = TwoStep(dspy.ChainOfThought("text -> vendor, total: float"), TwoStepAdapter(small))
    other = program.deepcopy()
    for _, predictor in other.named_predictors():
        predictor.signature = predictor.signature.with_instructions("Changed.")
    assert all(one.signature.instructions != "Changed." for _, one in program.named_predictors())
    assert other.adapter.extraction_lm is small


def test_saved_state_has_the_extractor_in_it() -> None:
    program = TwoStep(Invoice)
    program.extractors["self"].demos = [{"text": "Nut sold it.", "vendor": "Nut", "total": 1.0}]
    state = program.dump_state()
    other = TwoStep(Invoice)
    other.load_state(state)
    assert other.extractors["self"].demos[0]["vendor"] == "Nut"


def test_bootstrapping_finds_examples_for_both_steps() -> None:
    main = model(*["The vendor is ACME and the total 3.5."] * 4, name="scripted/main")
    small = small_model(*[JSON] * 4)
    student = TwoStep(Invoice, TwoStepAdapter(small))
    examples = [demo(text=f"ACME, 3.50 ({number})", vendor="ACME", total=3.5) for number in range(2)]
    optimizer = dspy.BootstrapFewShot(
        metric=lambda example, answer, trace=None: answer.vendor == example.vendor,
        max_bootstrapped_demos=1,
        max_labeled_demos=0,
    )
    with dspy.context(lm=main):
        compiled = optimizer.compile(student, trainset=examples)
    found = {name: one.demos for name, one in compiled.named_predictors()}
    extractor = next(demos for name, demos in found.items() if name.startswith("extractors"))
    assert extractor[0]["text"] == "The vendor is ACME and the total 3.5."
    assert extractor[0]["vendor"] == "ACME"


def test_one_extractor_serves_all_signatures_with_the_same_outputs() -> None:
    adapter = TwoStepAdapter(small_model())
    other = Invoice.with_instructions("Read it well.")
    assert adapter.extractor_for(Invoice) is adapter.extractor_for(other)
    assert adapter.extractor_for("a -> b") is not adapter.extractor_for(Invoice)


def test_a_copied_adapter_shares_the_models() -> None:
    small = small_model()
    adapter = TwoStepAdapter(small)
    adapter.extractor_for(Invoice)
    other = copy.deepcopy(adapter)
    assert other.extraction_lm is small
    assert other.extractor_for(Invoice) is not adapter.extractor_for(Invoice)


# As dspy's adapter -------------------------------------------------------------------------------------------------


def test_dspys_name_for_the_extraction_model_works_too() -> None:
    small = small_model()
    assert ask(main_model(), TwoStepAdapter(extraction_model=small)).vendor == "ACME"
    with pytest.raises(TypeError, match="extraction_model is another name"):
        TwoStepAdapter(small, extraction_model=small)


def test_an_answer_that_cannot_be_used_is_dspys_parse_error() -> None:
    adapter = TwoStepAdapter(small_model("no", "no", "no"))
    with pytest.raises(AdapterParseError) as caught:
        ask(main_model(), adapter)
    assert isinstance(caught.value, TwoStepError)
    assert caught.value.signature is Invoice
    assert caught.value.lm_response == "no"
    with pytest.raises(TwoStepError) as unconfigured:
        ask(main_model(), TwoStepAdapter())
    assert not isinstance(unconfigured.value, AdapterParseError)


def test_an_optimizer_that_collects_traces_keeps_the_failure() -> None:
    from dspy.teleprompt.bootstrap_trace import FailedPrediction, bootstrap_trace_data

    program = dspy.Predict(Invoice)
    example = dspy.Example(text="a bill").with_inputs("text")
    with dspy.context(lm=main_model(), adapter=TwoStepAdapter(small_model("no", "no", "no"))):
        (data,) = bootstrap_trace_data(program, [example], metric=lambda *_: 1.0, capture_failed_parses=True)
    assert isinstance(data["prediction"], FailedPrediction)
    assert data["score"] == -1
