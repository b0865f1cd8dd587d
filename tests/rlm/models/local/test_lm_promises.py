"""What the design of OutlinesLM promises, with real weights on both engines: direct calls, no constraint, turns."""

from __future__ import annotations

import enum
import json
import threading
import warnings
from dataclasses import dataclass
from typing import Any, Literal, Optional

import dspy
import pytest
from dspy.lm15 import Config, Message, Request
from outlines import inputs, types
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

from rlm.models import OutlinesLM
from rlm.models.local.errors import ConstraintViolated
from rlm.models.local.types import Settings

# The first test of a process also converts and loads the weights.
pytestmark = pytest.mark.weights

PROMPT = "Bob Jones, 41, of Leeds."


class Person(BaseModel):
    name: str
    age: int


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Aged:
    age: int


class Sized(TypedDict):
    size: Literal["small", "large"]


DIRECT = [
    (Person, Person.model_validate_json),
    (Literal["Paris", "London", "Rome"], TypeAdapter(Literal["Paris", "London", "Rome"]).validate_python),
    (Colour, Colour),
    (int, int),
    (bool, json.loads),
    (Optional[bool], json.loads),  # noqa: UP045
    (Aged, lambda text: Aged(**json.loads(text))),
    (Sized, TypeAdapter(Sized).validate_json),
    (types.Regex(r"\d{3}-\d{4}"), lambda text: int(text.replace("-", ""))),
    (types.CFG('start: NUMBER " + " NUMBER\nNUMBER: /[1-9][0-9]{0,2}/'), lambda text: text.index(" + ")),
    (types.JsonSchema({"type": "array", "items": {"type": "boolean"}, "maxItems": 2}), json.loads),
    (types.digit, int),
]


@pytest.mark.parametrize(("output_type", "read"), DIRECT, ids=lambda one: getattr(one, "__name__", type(one).__name__))
def test_the_model_is_called_directly_with_any_output_type(lm: Any, output_type: Any, read: Any) -> None:
    text = lm.model(PROMPT, output_type, max_tokens=40)
    assert isinstance(text, str)
    read(text)  # raises where it is not of the type


def test_a_conversation_can_be_given_directly(lm: Any) -> None:
    chat = inputs.Chat([{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROMPT}])
    assert lm.model(chat, Aged, max_tokens=40) == '{"age": 41}'


def test_an_answer_that_was_begun_is_continued(lm: Any) -> None:
    begun = (Message.user("Say the alphabet."), Message.assistant("A, B, C, D,"))
    response = lm(Request(model=lm.model, messages=begun, config=Config(max_tokens=6)))
    assert response.message.text.lstrip().startswith("E")


def test_direct_answers_come_in_pieces(lm: Any) -> None:
    pieces = list(lm.model.stream(PROMPT, Sized, max_tokens=40))
    assert len(pieces) > 2
    assert "".join(pieces) == lm.model(PROMPT, Sized, max_tokens=40)
    with pytest.raises(ConstraintViolated, match="cut off"):
        list(lm.model.stream(PROMPT, Sized, max_tokens=3))


def test_a_listener_that_leaves_frees_the_model(lm: Any) -> None:
    story = lm.model.stream("Tell me a long story.", max_tokens=900)
    assert next(story)
    story.close()
    assert lm.model("Yes or no?", Literal["yes", "no"]) in {"yes", "no"}


def test_without_a_constraint_the_model_writes_freely(lm: Any) -> None:
    (free,) = lm("Say hello.", max_tokens=6)
    (none,) = lm("Say hello.", max_tokens=6, _outlines_constraint=None)
    assert free == none == lm.model("Say hello.", max_tokens=6)
    assert lm.history[-1]["response"].provider_data["forced_tokens"] == 0


def test_the_constraint_of_one_call_is_not_that_of_the_next(lm: Any) -> None:
    (free,) = lm("Say hello.", max_tokens=6)
    assert lm("Say hello.", _outlines_constraint=Literal["yes", "no"])[0] in {"yes", "no"}
    assert lm("Say hello.", max_tokens=6) == [free]
    assert "_outlines_constraint" not in lm.kwargs


def test_what_dspy_has_given_up_is_not_used(lm: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        lm(PROMPT, _outlines_constraint=Literal["a", "b"])
    assert "forward" not in vars(OutlinesLM)
    assert "aforward" not in vars(OutlinesLM)


@pytest.mark.parametrize(
    ("options", "said"), [({"max_new_tokens": 4}, "max_new_tokens: no option"), ({"tools": []}, "it takes max_tokens")]
)
def test_an_option_that_means_nothing_is_refused(lm: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        lm.model(PROMPT, **options)


def test_where_outlines_has_no_model_its_backends_are_refused(llama_lm: Any) -> None:
    if llama_lm.local.backend == "llamacpp" and type(llama_lm.local).__name__ != "LlamaServerModel":
        pytest.skip("llama-cpp-python is installed, and Outlines has a model for it")
    for ask in (llama_lm.model, llama_lm.model.stream):
        with pytest.raises(ValueError, match=r"Outlines has no model for .* leave it out"):
            ask(PROMPT, Person, "outlines_core")


def test_one_stop_sequence_may_be_a_text(lm: Any) -> None:
    whole = lm.model("Count: 1, 2, 3, 4", max_tokens=10)
    stop = whole[3:6]
    assert lm.model("Count: 1, 2, 3, 4", max_tokens=10, stop=stop) == whole[: whole.index(stop)]


def test_mlx_answers_one_request_at_a_time(mlx_lm: Any) -> None:
    """While the first is being written, the second has been asked for and has not begun."""
    second: list[Any] = []
    asked, begun = threading.Event(), []

    def say(_: str) -> bool:
        assert asked.wait(60)
        begun.append(second[0].running() or second[0].done())
        return True

    first = mlx_lm.local.submit("Once upon a time", Settings(4), None, say)
    second.append(mlx_lm.local.submit("Once upon a time", Settings(4)))
    asked.set()
    assert second[0].result().text == first.result().text
    assert begun
    assert not any(begun)


def test_llama_cpps_server_answers_requests_together(llama_lm: Any) -> None:
    """Each listener waits for the other's first word: if they were answered in turn, neither would hear it."""
    heard = threading.Barrier(2, timeout=60)
    met = threading.Event()

    def say(_: str) -> bool:
        if not met.is_set():
            heard.wait()
            met.set()
        return True

    asked = [llama_lm.local.submit(f"Once upon {what}", Settings(4), None, say) for what in ("a time", "a hill")]
    assert all(one.result().output_tokens > 0 for one in asked)
    assert not heard.broken
    assert met.is_set()


def test_a_context_that_is_too_long_starts_no_fallback(lm: Any) -> None:
    from rlm import OutlinesAdapter

    adapter = OutlinesAdapter(tiers=(1, 2, 3))
    before = len(lm.history)
    with dspy.context(lm=lm, adapter=adapter), pytest.raises(dspy.ContextWindowExceededError):
        dspy.Predict("text -> answer: int")(text="word " * (lm.local.context + 10))
    counted = {name: n for name, n in adapter.metrics.items() if name.endswith(("success", "failures")) and n}
    assert counted == {}
    assert len(lm.history) == before
