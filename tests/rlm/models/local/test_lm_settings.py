"""What a local model is told besides the prompt, and what becomes of it when the model is copied. Real weights."""

from __future__ import annotations

import copy
import logging
import time
from decimal import Decimal
from typing import Any, Literal

import dspy
import pytest
from dspy.lm15 import Message, Request

from rlm.adapters import OutlinesAdapter, ask_typed
from rlm.models.local.engine import response_of
from rlm.models.local.types import Settings, seconds_queued

# The first test of a process also converts and loads the weights.
pytestmark = pytest.mark.weights


def test_a_deep_copy_shares_the_weights_and_nothing_else(lm: Any) -> None:
    lm = lm.copy(stop=["x"])
    lm("Hi", max_tokens=2)
    made = copy.deepcopy(lm)
    assert made.local is lm.local
    assert made.model is lm.model
    assert made.kwargs == lm.kwargs
    made.kwargs["stop"].append("y")
    assert lm.kwargs["stop"] == ["x"]
    assert len(made.history) == 1  # as a deep copy of a dspy.LM
    assert made("Yes or no?", _outlines_constraint=Literal["yes", "no"])[0] in {"yes", "no"}
    assert (len(made.history), len(lm.history)) == (2, 1)
    assert made.dump_state() == {**lm.dump_state(), "stop": ["x", "y"]}


def test_programs_with_a_local_model_in_them_are_copied(llama_lm: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Program(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ask = dspy.Predict("q -> a")
            self.ask.lm = llama_lm

    with caplog.at_level(logging.WARNING):
        made = Program().deepcopy()
    assert made.ask.lm.local is llama_lm.local
    assert made.ask.lm is not llama_lm
    assert not caplog.records
    held = copy.deepcopy(dspy.Predict("q -> a", two_step_extraction_lm=llama_lm))
    assert held.config["two_step_extraction_lm"].local is llama_lm.local
    two = copy.deepcopy([llama_lm, llama_lm])
    assert two[0] is two[1]


def test_penalties_reach_the_server(llama_lm: Any) -> None:
    if not llama_lm.local.has_penalties:
        pytest.skip("llama-cpp-python is installed, and its loop has no penalties")
    asked = Settings(12), Settings(12, frequency_penalty=2.0), Settings(12, presence_penalty=2.0)
    plain, *others = [llama_lm.local.submit("the the the the the", one).result().text for one in asked]
    assert all(text != plain for text in others)
    assert "frequency_penalty" in llama_lm.supported_params
    prompt = "Say the word the four times."
    by_call = llama_lm(prompt, max_tokens=20, frequency_penalty=2.0)
    assert by_call == llama_lm.copy(frequency_penalty=2.0)(prompt, max_tokens=20)
    assert by_call != llama_lm(prompt, max_tokens=20)


def test_penalties_that_a_backend_does_not_have_are_refused(mlx_lm: Any) -> None:
    said = r"has no frequency_penalty: leave it out, or run a GGUF file on llama\.cpp's server"
    with pytest.raises(dspy.LMUnsupportedFeatureError, match=said):
        mlx_lm("Hi", frequency_penalty=1.0)
    with pytest.raises(dspy.LMUnsupportedFeatureError, match="has no presence_penalty"):
        mlx_lm.model("Hi", presence_penalty=1.0)
    assert mlx_lm("Hi", frequency_penalty=0.0, max_tokens=2)
    assert "frequency_penalty" not in mlx_lm.supported_params


def test_a_temperature_below_zero_is_refused(lm: Any) -> None:
    with pytest.raises(ValueError, match="temperature is -1"):
        lm.model("Hi", temperature=-1)


def test_log_probabilities_are_refused(lm: Any) -> None:
    with pytest.raises(dspy.LMUnsupportedFeatureError, match="no log probabilities"):
        lm("Hi", logprobs=True)


def test_the_response_says_how_long_it_waited_for_the_model(mlx_lm: Any) -> None:
    """The second is asked for before the first is done, so it waited from then until the first had its last word."""
    asked: list[Any] = []
    said: list[float] = []

    def say(_: str) -> bool:
        if not asked:
            asked.extend([mlx_lm.local.submit("Once", Settings(2)), time.perf_counter()])
        said.append(time.perf_counter())
        return True

    mlx_lm.local.submit("Once upon a time", Settings(6), None, say).result()
    second, when = asked
    request = Request(model=mlx_lm.model, messages=(Message.user("Once"),))
    assert len(said) > 1
    assert seconds_queued(response_of(request, second.result())) >= said[-1] - when > 0
    assert seconds_queued(object()) == 0.0


async def test_a_number_and_a_set_are_requested_by_type(llama_lm: Any) -> None:
    lm = llama_lm.copy(max_tokens=60)
    paid = await ask_typed(lm, "Bob paid 12.50. What did he pay?", Decimal)
    assert isinstance(paid.value, Decimal)
    signature = dspy.Signature(
        {"text": (str, dspy.InputField()), "colours": (set[Literal["red", "blue"]], dspy.OutputField())}
    )
    adapter = OutlinesAdapter(tiers=(3,))
    with dspy.context(lm=lm.copy(temperature=1.0, seed=1), adapter=adapter):
        answer = dspy.Predict(signature)(text="The flag is red and blue.")
    assert isinstance(answer.colours, set)
    assert answer.colours <= {"red", "blue"}
