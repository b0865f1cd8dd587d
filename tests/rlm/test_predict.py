"""Predict as a dspy module, and dspy's own modules on this sandbox."""

from __future__ import annotations

import asyncio
import inspect
import re
import warnings
from typing import Literal

import dspy
import pytest
from dspy.utils.callback import BaseCallback
from pydantic import BaseModel

import rlm
from rlm.extraction.confidence import Judgement
from rlm.models.scripted import scripted_lm
from rlm.results import Extracted, Failed, Submitted


class Invoice(BaseModel):
    number: str
    total: float


class Read(dspy.Signature):
    """Read the invoice."""

    doc: str = dspy.InputField()
    invoice: Invoice = dspy.OutputField(desc="what it says")
    kind: Literal["paid", "open"] = dspy.OutputField()


SUBMIT_COUNT = "```python\nSUBMIT(count=doc.count('a'))\n```"


@pytest.fixture
def count(pool):
    return rlm.Predict("doc: str -> count: int", pool=pool)


def test_calling_it_gives_a_prediction(count):
    with dspy.context(lm=scripted_lm([SUBMIT_COUNT])):
        prediction = count(doc="banana")
    assert prediction.count == 3
    assert isinstance(prediction.result, Submitted)


def test_run_with_fallback_gives_the_result(count):
    with dspy.context(lm=scripted_lm([SUBMIT_COUNT])):
        match count.run_with_fallback(doc="banana"):
            case Submitted(outputs, iterations, llm_calls):
                assert (outputs.count, iterations, llm_calls) == (3, 1, 0)
            case other:
                pytest.fail(str(other))


async def test_it_runs_inside_an_event_loop_both_ways(count):
    with dspy.context(lm=scripted_lm({"*": SUBMIT_COUNT})):
        assert (await count.arun_with_fallback(doc="aa")).outputs.count == 2
        assert (await count.acall(doc="aa")).count == 2
        assert count.run_with_fallback(doc="aa").outputs.count == 2


def test_typed_signatures_come_back_typed(pool):
    code = "```python\nSUBMIT(invoice={'number': 'A1', 'total': 9.5}, kind='paid')\n```"
    with dspy.context(lm=scripted_lm([code])):
        outputs = rlm.Predict(Read, pool=pool).run_with_fallback(doc="...").outputs
    assert outputs.invoice == Invoice(number="A1", total=9.5)
    assert outputs.kind == "paid"


def test_a_failed_run_is_an_exception_when_called_as_a_module(pool):
    predict = rlm.Predict("doc -> count: int", trigger=rlm.FallbackTrigger(max_iterations=1), pool=pool)
    with (
        dspy.context(lm=scripted_lm(["```python\nx = 1\n```", "no", "no", "no"])),
        pytest.raises(rlm.RunFailed) as caught,
    ):
        predict(doc="x")
    assert isinstance(caught.value.result, Failed)
    assert len(caught.value.result.history) == 1


def test_the_extraction_model_can_be_another(pool):
    extraction = scripted_lm(['{"count": 4}'])
    predict = rlm.Predict(
        "doc -> count: int", trigger=rlm.FallbackTrigger(max_iterations=1), extraction_lm=extraction, pool=pool
    )
    with dspy.context(lm=scripted_lm(["```python\ncount = 4\n```"])):
        result = predict.run_with_fallback(doc="x")
    assert isinstance(result, Extracted)
    assert result.confidence == pytest.approx(0.8)


def test_the_scorer_can_be_replaced(pool):
    predict = rlm.Predict(
        "doc -> count: int",
        trigger=rlm.FallbackTrigger(max_iterations=1),
        confidence=lambda outputs, findings: 0.123,
        pool=pool,
    )
    with dspy.context(lm=scripted_lm(["```python\nx = 1\n```", '{"count": 4}'])):
        assert predict.run_with_fallback(doc="x").confidence == 0.123


def careless(outputs, findings):
    return outputs["count"]


def broken(outputs, findings):
    raise KeyError("weight")


@pytest.mark.parametrize(
    ("scorer", "said"),
    [
        (careless, "the scorer careless gave no confidence: ValueError: a confidence is a number from 0 to 1, not 4"),
        (broken, "the scorer broken gave no confidence: KeyError: 'weight'"),
        (lambda outputs, findings: float("nan"), "a confidence is a number from 0 to 1, not nan"),
        (lambda outputs, findings: "high", "a confidence is a number from 0 to 1, not 'high'"),
        (lambda outputs, findings: Judgement(0.5, {"count": 2}), "a confidence is a number from 0 to 1, not 2"),
    ],
)
def test_what_a_scorer_says_that_is_no_confidence_does_not_come_through_and_loses_no_answer(pool, scorer, said):
    predict = rlm.Predict(
        "doc -> count: int", trigger=rlm.FallbackTrigger(max_iterations=1), confidence=scorer, pool=pool
    )
    with dspy.context(lm=scripted_lm(["```python\nx = 1\n```", '{"count": 4}'])):
        result = predict.run_with_fallback(doc="x")
    assert isinstance(result, Failed)
    assert said in result.reason
    assert (result.confidence, result.partial_outputs, len(result.history)) == (0.0, {"count": 4}, 1)


def test_optimizers_see_the_inner_predictor_and_what_they_change_is_used(count):
    assert [name for name, _ in count.named_predictors()] == ["act"]
    predictor = count.predictors()[0]
    predictor.signature = predictor.signature.with_instructions("Count with great care.")
    predictor.demos = [dspy.Example(conversation="an older task", reply="an older reply"), dspy.Example(doc="b")]
    lm = scripted_lm([SUBMIT_COUNT])
    with dspy.context(lm=lm):
        count(doc="a")
    system = lm._engine_spec.requests[0].system
    assert "Count with great care." in system
    assert "an older reply" in system
    assert system.count("Example:") == 1


def test_callbacks_and_usage_trackers_of_dspy_see_the_inner_predictor(count):
    begun = []

    class Seen(BaseCallback):
        def on_module_start(self, call_id, instance, inputs):
            begun.append(instance)

    with dspy.context(lm=scripted_lm([SUBMIT_COUNT]), callbacks=[Seen()], track_usage=True):
        made = count(doc="four")
    assert begun == [count, count.act]
    assert "scripted/main" in made.get_lm_usage()


def test_a_trace_for_optimizers_is_kept(count):
    with dspy.context(lm=scripted_lm([SUBMIT_COUNT]), trace=[]):
        count(doc="a")
        assert [step[0] for step in dspy.settings.trace] == [count.act]


def test_it_saves_and_loads(count, tmp_path):
    count.act.signature = count.act.signature.with_instructions("Saved words.")
    count.save(tmp_path / "count.json")
    other = rlm.Predict("doc: str -> count: int")
    other.load(tmp_path / "count.json")
    assert other.act.signature.instructions == "Saved words."


def test_set_lm_wins_over_the_context(count):
    count.set_lm(scripted_lm([SUBMIT_COUNT]))
    assert count.run_with_fallback(doc="aaa").outputs.count == 3


def test_without_a_model_it_says_what_to_do(count):
    with dspy.context(lm=None), pytest.raises(ValueError, match=r"dspy\.configure"):
        count.run_with_fallback(doc="a")


def test_a_model_of_ones_own_need_not_be_asynchronous(count):
    class Own(dspy.BaseLM):
        def forward(self, prompt=None, messages=None, **kwargs):
            message = {"role": "assistant", "content": "```python\nSUBMIT(count=7)\n```"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return {"model": "own", "choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}

    with dspy.context(lm=Own(model="own")), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert count(doc="x").count == 7


def test_many_threads_can_share_one_predict(count):
    from concurrent.futures import ThreadPoolExecutor

    count.set_lm(scripted_lm({"*": SUBMIT_COUNT}))
    with ThreadPoolExecutor(6) as executor:
        counts = list(executor.map(lambda n: count.run_with_fallback(doc="a" * n).outputs.count, range(12)))
    assert counts == list(range(12))


@pytest.mark.parametrize("name", ["result", "self", "base"])
def test_an_output_can_have_any_name(pool, name):
    with dspy.context(lm=scripted_lm([f"```python\nSUBMIT({name}=7)\n```"])):
        prediction = rlm.Predict(f"doc -> {name}: int", pool=pool)(doc="x")
    assert prediction[name] == 7


def test_an_input_can_be_named_self(pool):
    predict = rlm.Predict("self: int -> n: int", pool=pool)
    with dspy.context(lm=scripted_lm({"*": "```python\nSUBMIT(n=self)\n```"})):
        assert predict.run_with_fallback(self=4).outputs.n == 4
        assert asyncio.run(predict.arun_with_fallback(self=5)).outputs.n == 5


@pytest.mark.parametrize("name", ["SUBMIT", "doc"])
def test_a_tool_with_a_name_that_is_taken_is_refused_at_once(name):
    with pytest.raises(ValueError, match=f"tools: '{name}' is "):
        rlm.Predict("doc -> n: int", tools={name: len})


def reply(code):
    return f"A thought.\n```python\n{code}\n```"


def test_settings_that_cannot_work_are_refused_at_once():
    with pytest.raises(TypeError, match=r"sub_lm=dspy\.LM\('openai/small'\)"):
        rlm.Predict("doc -> n: int", sub_lm="openai/small")
    with pytest.raises(TypeError, match="has no name"):
        rlm.Predict("doc -> n: int", tools=[7])
    with pytest.raises(ValueError, match="two functions are called 'reply'"):
        rlm.Predict("doc -> n: int", tools=[reply, reply])
    with pytest.raises(ValueError, match="give max_iterations in the trigger"):
        rlm.Predict("doc -> n: int", max_iterations=3, trigger=rlm.FallbackTrigger())
    with pytest.raises(ValueError, match=r"'look up' is not a Python name.*'seven' is no function"):
        rlm.Predict("doc -> n: int", tools={"look up": reply, "seven": dict.update})


def test_tools_can_be_a_list_and_the_model_an_argument(pool):
    def look(name: str) -> int:
        """Look it up."""
        return len(name)

    lm = scripted_lm([reply("SUBMIT(n=look('four'))")])
    assert rlm.Predict("doc -> n: int", lm=lm, tools=[look], max_iterations=2, pool=pool)(doc="x").n == 4


def test_editors_see_every_parameter():
    parameters = inspect.signature(rlm.Predict).parameters
    assert list(parameters)[:3] == ["signature", "lm", "sub_lm"]
    assert all(f" {name}:" in rlm.Predict.__doc__ or f"`{name}`" in rlm.Predict.__doc__ for name in parameters)


def test_a_tool_of_dspy_is_the_function_that_it_wraps(pool):
    def look(name: str) -> int:
        """Look it up."""
        return len(name)

    lm = scripted_lm(["```python\nSUBMIT(n=look('pear'))\n```"])
    with dspy.context(lm=lm):
        assert rlm.Predict("doc -> n: int", tools={"look": dspy.Tool(look)}, pool=pool)(doc="x").n == 4
    assert "- look(name: str) -> int: Look it up." in lm._engine_spec.requests[0].system


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("m > 3", "check 'm > 3': 'm' is not an output; known are n"),
        ("n >", "check 'n >': not a Python expression: invalid syntax"),
        ("n = 3", "check 'n = 3': `=` assigns a value; `==` compares"),
        ("doc > 3", "check 'doc > 3': 'doc' is an input; checks see the outputs only"),
    ],
)
def test_a_check_that_no_outputs_could_pass_is_refused_at_once(check, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        rlm.Predict("doc -> n: int", checks=["n >= 0", check])


def test_what_is_not_a_trigger_is_refused_at_once():
    with pytest.raises(TypeError, match=re.escape("trigger is a rlm.FallbackTrigger(...), not 5")):
        rlm.Predict("doc -> n: int", trigger=5)


def test_it_is_shown_by_its_signature():
    assert repr(rlm.Predict("doc, size: int -> n: int")) == "<rlm.Predict Task: doc, size -> n>"


def test_one_check_can_be_given_as_it_is(pool):
    with dspy.context(lm=scripted_lm(["```python\nSUBMIT(n=12)\n```"])):
        assert rlm.Predict("doc -> n: int", checks="n > 10", pool=pool)(doc="x").n == 12


INTERRUPTED = """
import os, signal, sys
import dspy, rlm
from rlm.extraction.confidence import Judgement
from rlm.models.scripted import scripted_lm

def observe(event):
    if event.kind == "history":
        os.kill(os.getpid(), signal.SIGINT)

predict = rlm.Predict("doc -> count: int", observe=observe, record=sys.argv[1] == "record")
with dspy.context(lm=scripted_lm({"*": "```python\\nn = 41\\n```"})):
    predict.run_with_fallback(doc="x")
"""


INTERRUPTED_IN_A_LOOP = """
import asyncio, os, signal
import dspy, rlm
from rlm.extraction.confidence import Judgement
from rlm.models.scripted import scripted_lm

def observe(event):
    if event.kind == "cell_started":
        os.kill(os.getpid(), signal.SIGINT)

async def cell_of_a_notebook():
    with dspy.context(lm=scripted_lm({"*": "```python\\nimport time\\ntime.sleep(100)\\n```"})):
        rlm.Predict("doc -> count: int", observe=observe).run_with_fallback(doc="x")

asyncio.new_event_loop().run_until_complete(cell_of_a_notebook())
"""


def interrupted(record, script=INTERRUPTED):
    import subprocess
    import sys

    return subprocess.run([sys.executable, "-c", script, record], capture_output=True, text=True, timeout=60).stderr


@pytest.mark.processes
def test_ctrl_c_says_how_to_go_on_with_the_run(pool):
    said = interrupted("record")
    assert "KeyboardInterrupt" in said
    run_id = re.search(r"Run (\w+) is on record\. .*Predict\(\.\.\.\)\.resume\('\1'\)", said)[1]
    with dspy.context(lm=scripted_lm(["```python\nSUBMIT(count=n + 1)\n```"])):
        result = rlm.Predict("doc -> count: int", pool=pool).resume(run_id)
    assert isinstance(result, Submitted), result
    assert result.outputs.count == 42


@pytest.mark.processes
def test_ctrl_c_ends_the_run_also_where_an_event_loop_waits_for_it_as_in_a_notebook():
    said = interrupted("record", INTERRUPTED_IN_A_LOOP)  # within its time
    assert "KeyboardInterrupt" in said
    assert "is on record" in said


@pytest.mark.processes
def test_ctrl_c_promises_nothing_where_nothing_is_on_record():
    said = interrupted("off")
    assert "KeyboardInterrupt" in said
    assert "resume" not in said


def test_nothing_heavy_is_imported_with_the_package():
    import subprocess
    import sys

    code = "import sys, rlm; print([name for name in ('dspy', 'pydantic', 'zmq', 'rich') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_async_runs_do_not_mix_their_models(pool):
    async def one(n):
        with dspy.context(lm=scripted_lm([f"```python\nSUBMIT(count={n})\n```"])):
            return (await rlm.Predict("doc -> count: int", pool=pool).arun_with_fallback(doc="x")).outputs.count

    async def all_of_them():
        return await asyncio.gather(*(one(n) for n in range(5)))

    assert asyncio.run(all_of_them()) == [0, 1, 2, 3, 4]
