"""`rlm.Predict` where DSPy programs are used: predictions, evaluation, streams, callbacks, optimizers' feedback."""

from __future__ import annotations

import asyncio
import copy
import datetime
import json
import pickle
from typing import Any

import dspy
import orjson
import pytest
from dspy.utils.callback import BaseCallback

import rlm
from rlm.feedback import feedback_of, with_feedback
from rlm.models.scripted import scripted_lm
from tests.support.skilled_model import skilled_lm

SUBMIT = "I submit it.\n```python\nSUBMIT(n=len(doc))\n```"
LOOK = "I look.\n```python\nprint(doc[:3])\n```"
FAIL = "I divide.\n```python\n1 / 0\n```"
NOTHING = "null"


def predict(replies: list[str], pool: Any, signature: str = "doc -> n: int", **options: Any) -> rlm.Predict:
    lm = scripted_lm(replies)
    return rlm.Predict(signature, lm=lm, extraction_lm=scripted_lm({"*": NOTHING}), pool=pool, **options)


# Predictions ---------------------------------------------------------------------------------------------------------


def test_a_prediction_is_json_with_what_the_run_did(pool):
    prediction = predict([LOOK, SUBMIT], pool)(doc="abcd")
    written = json.loads(json.dumps(prediction.toDict()))
    assert written == {
        "n": 4,
        "trajectory": [
            {"reasoning": "I look.", "code": "print(doc[:3])", "output": "abc"},
            {"reasoning": "I submit it.", "code": "SUBMIT(n=len(doc))", "output": ""},
        ],
        "final_reasoning": "I submit it.",
    }
    assert prediction.trajectory == written["trajectory"]
    orjson.dumps(dict(prediction.items()))  # as `dspy.streaming.streaming_response` does


def test_the_result_is_reachable_and_no_part_of_the_prediction(pool):
    prediction = predict([SUBMIT], pool)(doc="abcd")
    assert isinstance(prediction.result, rlm.Submitted)
    assert "result" not in prediction
    for other in (prediction.copy(n=5), copy.deepcopy(prediction), pickle.loads(pickle.dumps(prediction))):
        assert other.result.to_dict() == prediction.result.to_dict()
    assert prediction.copy(n=5).n == 5


def test_an_output_may_have_the_name_of_what_is_added(pool):
    code = "```python\nSUBMIT(result=1, trajectory='mine')\n```"
    prediction = predict([code], pool, "doc -> result: int, trajectory: str")(doc="x")
    assert (prediction.result, prediction.trajectory) == (1, "mine")


def test_dates_in_a_prediction_are_written_as_json(pool):
    prediction = predict(["```python\nSUBMIT(day='2026-01-02')\n```"], pool, "doc -> day: date")(doc="x")
    assert prediction.day == datetime.date(2026, 1, 2)
    assert prediction.toDict()["day"] == "2026-01-02"


def exact(example: Any, prediction: Any, trace: Any = None) -> bool:
    return bool(example.n == prediction.n)


def examples(*docs: str) -> list[Any]:
    return [dspy.Example(doc=doc, n=len(doc)).with_inputs("doc") for doc in docs]


def test_evaluations_can_be_saved(pool, tmp_path):
    evaluate = dspy.Evaluate(devset=examples("ab", "abc"), metric=exact, num_threads=1, display_progress=False)
    result = evaluate(predict([SUBMIT, SUBMIT], pool), save_as_json=str(tmp_path / "e.json"))
    assert result.score == 100
    rows = json.loads((tmp_path / "e.json").read_text())
    assert [row["pred_n"] for row in rows] == [2, 3]


# Streams -------------------------------------------------------------------------------------------------------------


def test_a_scripted_model_can_be_streamed(pool):
    async def read() -> list[Any]:
        return [part async for part in dspy.streamify(predict([LOOK, SUBMIT], pool))(doc="text")]

    parts = asyncio.run(asyncio.wait_for(read(), 60))
    text = "".join(part.choices[0].delta.content or "" for part in parts[:-1])
    assert len(parts) > 5
    assert "print(doc[:3])" in text
    assert parts[-1].n == 4


def test_a_stream_can_be_served(pool):
    async def read() -> list[str]:
        stream = dspy.streamify(predict([SUBMIT], pool))(doc="text")
        return [part async for part in dspy.streaming.streaming_response(stream)]

    *_, last, end = asyncio.run(asyncio.wait_for(read(), 60))
    assert json.loads(last.removeprefix("data: "))["prediction"]["n"] == 4
    assert "[DONE]" in end


def test_a_scripted_model_is_streamed_by_dspys_own_modules_too():
    async def read() -> list[Any]:
        listener = dspy.streaming.StreamListener(signature_field_name="answer")
        with dspy.context(lm=scripted_lm(["[[ ## answer ## ]]\none two three\n\n[[ ## completed ## ]]"])):
            program = dspy.streamify(dspy.Predict("question -> answer"), stream_listeners=[listener])
            return [part async for part in program(question="?")]

    *chunks, prediction = asyncio.run(asyncio.wait_for(read(), 60))
    assert "".join(chunk.chunk for chunk in chunks).split() == ["one", "two", "three"]
    assert prediction.answer == "one two three"


# Callbacks -----------------------------------------------------------------------------------------------------------


class Recording(BaseCallback):
    """Writes down what it is told, with the call that each is a part of."""

    def __init__(self) -> None:
        self.started: dict[str, tuple[str, Any, str | None]] = {}
        self.ended: dict[str, tuple[Any, Any]] = {}

    def named(self, name: str) -> list[str]:
        return [call_id for call_id, (what, _, _) in self.started.items() if what == name]


def _note(name: str) -> None:
    from dspy.utils.callback import ACTIVE_CALL_ID

    def start(self: Recording, call_id: str, instance: Any, inputs: Any) -> None:
        self.started[call_id] = (name, inputs, ACTIVE_CALL_ID.get())

    def end(self: Recording, call_id: str, outputs: Any, exception: Any = None) -> None:
        self.ended[call_id] = (outputs, exception)

    setattr(Recording, f"on_{name}_start", start)
    setattr(Recording, f"on_{name}_end", end)


for _name in ("tool", "interpreter_execute", "interpreter_tool_call", "lm", "module"):
    _note(_name)


def test_tools_cells_and_models_are_seen_by_callbacks_each_inside_of_what_called_it(pool):
    def shout(text: str) -> str:
        """Say it louder, or as a model would."""
        return str(dspy.settings.lm(f"Shout {text}")[0])

    replies = ["```python\nprint(shout('hi'), llm_query('who?'))\n```", FAIL, SUBMIT]
    seen = Recording()
    program = predict(replies, pool, tools=[shout], sub_lm=scripted_lm({"*": "me"}), max_iterations=4)
    with dspy.context(callbacks=[seen], lm=scripted_lm({"*": "HI"})):
        assert program(doc="abc").n == 3

    def parents(call_id: str) -> list[str]:
        chain = []
        while (call_id := seen.started[call_id][2]) is not None:
            chain.append(seen.started[call_id][0])
        return chain

    (tool,) = seen.named("tool")
    assert seen.started[tool][1] == {"kwargs": {"text": "hi"}}
    assert seen.ended[tool] == ("HI", None)
    assert parents(tool)[:2] == ["interpreter_tool_call", "interpreter_execute"]
    inside = [call_id for call_id in seen.named("lm") if seen.started[call_id][2] == tool]
    assert len(inside) == 1
    names = [seen.started[call_id][1]["tool_name"] for call_id in seen.named("interpreter_tool_call")]
    assert names == ["shout", "llm_query", "SUBMIT"]
    cells = seen.named("interpreter_execute")
    assert [seen.started[cell][1]["code"] for cell in cells] == [
        "print(shout('hi'), llm_query('who?'))",
        "1 / 0",
        "SUBMIT(n=len(doc))",
    ]
    assert [seen.ended[cell][0] for cell in cells] == ["HI me", None, ""]
    assert "ZeroDivisionError" in str(seen.ended[cells[1]][1])
    assert all(parents(cell) == ["module"] for cell in cells)
    assert seen.started.keys() == seen.ended.keys()


def test_callbacks_of_one_predictor_see_its_tools_and_a_bad_callback_stops_nothing(pool, caplog):
    class Bad(Recording):
        def on_tool_start(self, call_id: str, instance: Any, inputs: Any) -> None:
            raise ValueError("a bad callback")

    seen = Recording()
    program = predict(["```python\nlook(1, b=2)\n```", SUBMIT], pool, tools={"look": lambda a, b: a + b})
    program.callbacks = [Bad(), seen]
    assert program(doc="abc").n == 3
    (tool,) = seen.named("tool")
    assert seen.started[tool][1] == {"kwargs": {"a": 1, "b": 2}}
    assert seen.ended[tool] == (3, None)
    assert "a bad callback" in caplog.text


# Failures ------------------------------------------------------------------------------------------------------------


def test_a_failed_run_can_be_a_prediction_without_outputs(pool):
    program = predict([FAIL, LOOK], pool, max_iterations=2, on_failure="prediction")
    prediction = program(doc="abc")
    assert prediction.n is None
    assert isinstance(prediction.result, rlm.Failed)
    assert prediction.trajectory[0]["code"] == "1 / 0"
    with pytest.raises(rlm.RunFailed):
        predict([FAIL], pool, max_iterations=1)(doc="abc")
    with pytest.raises(ValueError, match="on_failure"):
        rlm.Predict("doc -> n: int", on_failure="ignore")


def test_feedback_says_how_a_run_ended_and_what_failed(pool):
    failed = predict([FAIL, "only words"], pool, max_iterations=2).run_with_fallback(doc="abc")
    text = feedback_of(failed)
    assert "The run failed after 2 iterations" in text
    assert "Iteration 1 failed: ZeroDivisionError: division by zero" in text
    assert "Iteration 2 had no code" in text
    submitted = predict(["```python\nSUBMIT(n='many')\n```", SUBMIT], pool).run_with_fallback(doc="abc")
    text = feedback_of(submitted)
    assert text.startswith("The run submitted its outputs after 2 iterations.")
    assert "SUBMIT" in text


def test_feedback_of_an_extraction_names_its_confidence(pool):
    models = {"lm": scripted_lm([LOOK]), "extraction_lm": scripted_lm({"*": '{"n": 3}'})}
    program = rlm.Predict("doc -> n: int", **models, max_iterations=1, pool=pool)
    assert "did not submit: 1 of 1 iteration used" in feedback_of(program.run_with_fallback(doc="abc"))


def test_gepa_reflects_on_runs_that_failed(pool):
    """The reflection model sees the steps of the run and what is said about its failure."""
    reflection = scripted_lm({"*": '{"new_instruction": "Always submit len(doc)."}'})
    program = rlm.Predict(
        "doc -> n: int",
        lm=skilled_lm(lambda prompt: SUBMIT if "Always submit" in prompt else FAIL),
        extraction_lm=scripted_lm({"*": NOTHING}),
        max_iterations=1,
        on_failure="prediction",
        pool=pool,
    )
    gepa = dspy.GEPA(
        metric=with_feedback(exact),
        reflection_lm=reflection,
        max_metric_calls=12,
        num_threads=1,
        reflection_minibatch_size=2,
        track_stats=False,
    )
    better = gepa.compile(program, trainset=examples("a", "ab"), valset=examples("abc", "abcd"))
    asked = "\n".join(str(request.messages) for request in reflection._engine_spec.requests)
    assert "ZeroDivisionError" in asked
    assert "The run failed after 1 iteration" in asked
    assert better(doc="abcde").n == 5
