"""The retry loop: one budget for every kind of failure, feedback that says everything, and metrics either way."""

from __future__ import annotations

import datetime
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rlm.extraction import ExtractionMetrics, ExtractionOrchestrator, MaxRetriesExceeded, Problem, Reply, Schema

SCHEMA = Schema(
    {
        "type": "object",
        "properties": {
            "user": {
                "type": "object",
                "properties": {"age": {"type": "integer"}, "name": {"type": "string"}},
                "required": ["age", "name"],
            },
            "note": {"type": "string"},
        },
        "required": ["user"],
    }
)
GOOD = {"user": {"age": 36, "name": "Ada"}}
BAD = {"user": {"age": "abc"}}
GOOD_TEXT, BAD_TEXT = json.dumps(GOOD), json.dumps(BAD)


class Model:
    """Answers from a list and keeps the prompts."""

    def __init__(self, *answers: str | Reply | dict[str, Any] | list[Any]) -> None:
        self.answers = [answer if isinstance(answer, str | Reply) else json.dumps(answer) for answer in answers]
        self.prompts: list[str] = []

    async def __call__(self, prompt: str) -> str | Reply:
        self.prompts.append(prompt)
        return self.answers[len(self.prompts) - 1]


async def failure(model: Model, attempts: int | None = None, **options: Any) -> MaxRetriesExceeded:
    orchestrator = ExtractionOrchestrator(SCHEMA, **options).max_attempts(attempts or len(model.answers))
    with pytest.raises(MaxRetriesExceeded) as caught:
        await orchestrator.extract(model, "Who?")
    return caught.value


# ---------------------------------------------------------------------- the contract of the seed


async def test_a_valid_first_answer_is_returned_with_its_metrics() -> None:
    model = Model(GOOD)
    value, metrics = await ExtractionOrchestrator(SCHEMA).extract(model, "Who?")
    assert value == GOOD
    assert model.prompts == ["Who?"]
    assert (metrics.attempts, metrics.parse_failures, metrics.schema_failures, metrics.callback_failures) == (
        1,
        0,
        0,
        0,
    )
    assert metrics.tokens_in == 1
    assert metrics.tokens_out == (len(GOOD_TEXT) + 3) // 4
    assert metrics.seconds >= 0


async def test_the_schema_may_be_a_plain_dict_and_the_model_any_asynchronous_function() -> None:
    async def answer(prompt: str) -> str:
        return "7"

    value, _ = await ExtractionOrchestrator({"type": "integer"}).max_attempts(1).extract(answer, "How many?")
    assert value == 7


async def test_the_feedback_has_every_error_the_schema_the_submission_and_the_counter() -> None:
    model = Model(BAD, GOOD)
    value, metrics = await ExtractionOrchestrator(SCHEMA).max_attempts(5).extract(model, "Who?")
    assert value == GOOD
    feedback = model.prompts[1]
    assert "At path '/user/age': expected an integer, got \"abc\" (a string)" in feedback
    assert "At path '/user/name': this field is missing" in feedback
    assert SCHEMA.text in feedback
    assert BAD_TEXT in feedback
    assert "Attempt 1 of 5" in feedback
    assert "attempt 2 of 5" in feedback
    assert (metrics.attempts, metrics.schema_failures) == (2, 1)


async def test_each_prompt_begins_with_the_one_before() -> None:
    model = Model("no idea", BAD, "{", GOOD)
    await ExtractionOrchestrator(SCHEMA).max_attempts(4).extract(model, "Who?")
    for earlier, later in zip(model.prompts, model.prompts[1:], strict=False):
        assert later.startswith(earlier)
        assert len(later) > len(earlier)


async def test_parse_schema_and_callback_failures_share_one_budget() -> None:
    model = Model("no idea", BAD, GOOD)
    error = await failure(model, callback=lambda value: "too old")
    assert len(model.prompts) == 3
    metrics = error.metrics
    assert (metrics.parse_failures, metrics.schema_failures, metrics.callback_failures) == (1, 1, 1)
    assert [attempt.failure for attempt in error.history] == ["parse", "schema", "callback"]


async def test_giving_up_carries_everything() -> None:
    error = await failure(Model(BAD, {"user": {"age": 1}}, "garbage"))
    assert error.attempts == 3
    assert [attempt.raw_output for attempt in error.history] == [BAD_TEXT, '{"user": {"age": 1}}', "garbage"]
    assert error.raw_output == "garbage"
    assert error.best_invalid == {"user": {"age": 1}}
    assert isinstance(error.metrics, ExtractionMetrics)
    assert error.metrics.tokens_in > error.metrics.tokens_out > 0
    assert error.history[-1].feedback == ""
    assert "3 attempts" in str(error)


async def test_three_attempts_unless_told_otherwise() -> None:
    model = Model(*["no"] * 9)
    with pytest.raises(MaxRetriesExceeded):
        await ExtractionOrchestrator(SCHEMA).extract(model, "Who?")
    assert len(model.prompts) == 3


def test_the_fluent_methods_leave_the_original_as_it_was() -> None:
    first = ExtractionOrchestrator(SCHEMA)
    assert first.max_attempts(5) is not first
    assert first.schema is first.max_attempts(5).schema
    with pytest.raises(ValueError, match="at least 1"):
        first.max_attempts(0)


async def test_what_the_model_function_raises_passes_through() -> None:
    async def broken(prompt: str) -> str:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await ExtractionOrchestrator(SCHEMA).extract(broken, "Who?")


# ---------------------------------------------------------------------- callbacks


async def accept_from_the_second(value: Any, seen: list[Any]) -> str | None:
    seen.append(value)
    return None if len(seen) > 1 else "not this one"


async def test_a_callback_may_be_asynchronous() -> None:
    seen: list[Any] = []
    model = Model(GOOD, GOOD)
    await ExtractionOrchestrator(SCHEMA, callback=lambda v: accept_from_the_second(v, seen)).extract(model, "Who?")
    assert "not this one" in model.prompts[1]


def _raises(value: Any) -> None:
    raise ValueError("age is unlikely")


@pytest.mark.parametrize(
    "callback",
    [
        lambda value: "age is unlikely",
        lambda value: ["age is unlikely"],
        lambda value: [Problem("/user/age", "age is unlikely")],
        _raises,
    ],
    ids=["sentence", "sentences", "problems", "ValueError"],
)
async def test_a_rejection_is_told_to_the_model(callback: Callable[[Any], Any]) -> None:
    model = Model(GOOD, GOOD)
    error = await failure(model, callback=callback)
    assert "age is unlikely" in model.prompts[1]
    assert error.best_invalid == GOOD


@pytest.mark.parametrize("verdict", [True, False])
async def test_a_callback_does_not_answer_with_yes_or_no(verdict: bool) -> None:
    with pytest.raises(TypeError, match=f"must return None to accept a value, .* not {verdict}"):
        await ExtractionOrchestrator(SCHEMA, callback=lambda value: verdict).extract(Model(GOOD), "Who?")  # type: ignore[arg-type, return-value]


async def test_an_agent_that_answers_with_something_else_is_named() -> None:
    async def agent(prompt: str) -> Any:
        return None

    with pytest.raises(TypeError, match="must return a str or a Reply, not NoneType"):
        await ExtractionOrchestrator(SCHEMA).extract(agent, "Who?")


async def test_a_callback_never_sees_an_invalid_value() -> None:
    seen: list[Any] = []
    await ExtractionOrchestrator(SCHEMA, callback=seen.append).extract(Model(BAD, "no", GOOD), "Who?")
    assert seen == [GOOD]


# ---------------------------------------------------------------------- patches

FIX = [{"op": "replace", "path": "/user/age", "value": 36}, {"op": "add", "path": "/user/name", "value": "Ada"}]


async def test_a_fix_may_come_as_a_patch() -> None:
    model = Model(BAD, FIX)
    value, metrics = await ExtractionOrchestrator(SCHEMA).extract(model, "Who?")
    assert "JSON Patch" in model.prompts[1]
    assert value == GOOD
    assert metrics.patches_applied == 1


async def test_patches_build_on_each_other() -> None:
    value, metrics = await ExtractionOrchestrator(SCHEMA).extract(Model(BAD, FIX[:1], FIX[1:]), "Who?")
    assert value == GOOD
    assert (metrics.patches_applied, metrics.schema_failures) == (2, 2)


async def test_a_patch_that_does_not_apply_is_explained_and_the_value_shown_again() -> None:
    model = Model(BAD, [{"op": "replace", "path": "/person/age", "value": 1}], FIX)
    value, metrics = await ExtractionOrchestrator(SCHEMA).extract(model, "Who?")
    assert value == GOOD
    added = model.prompts[2].removeprefix(model.prompts[1])
    assert "At path '/person/age': operation 1 of the patch (replace) does not apply" in added
    assert "At path '/user/name': this field is missing" in added
    assert BAD_TEXT in added
    assert (metrics.parse_failures, metrics.patches_applied) == (1, 1)


async def test_a_patch_without_anything_to_patch_is_no_answer() -> None:
    model = Model(FIX, [{"op": "increase", "path": "/user/age"}])
    error = await failure(model)
    assert error.metrics.patches_applied == 0
    assert "JSON Patch" not in model.prompts[1]


async def test_a_cut_patch_is_not_applied() -> None:
    model = Model(BAD, json.dumps(FIX)[:-20], GOOD)
    value, metrics = await ExtractionOrchestrator(SCHEMA).extract(model, "Who?")
    assert value == GOOD
    assert (metrics.truncations, metrics.patches_applied) == (1, 0)


async def test_a_patch_saves_most_of_the_output() -> None:
    long = BAD | {"note": "word " * 400}
    _, patched = await ExtractionOrchestrator(SCHEMA).extract(Model(long, FIX), "Who?")
    _, whole = await ExtractionOrchestrator(SCHEMA).extract(Model(long, GOOD | {"note": "word " * 400}), "Who?")
    assert patched.tokens_out < whole.tokens_out * 0.6


# ---------------------------------------------------------------------- bounded feedback, and cut answers


async def test_the_schema_is_sent_whole_once_and_then_only_where_it_failed() -> None:
    model = Model(BAD, BAD, BAD, GOOD)
    await ExtractionOrchestrator(SCHEMA).max_attempts(4).extract(model, "Who?")
    assert model.prompts[3].count(SCHEMA.text) == 1
    third = model.prompts[2].removeprefix(model.prompts[1])
    assert '- for \'/user/age\': {"type": "integer"}' in third
    assert '"note"' not in third


async def test_a_schema_that_the_prompt_has_already_is_not_sent_again() -> None:
    model = Model(BAD, GOOD)
    orchestrator = ExtractionOrchestrator(SCHEMA)
    await orchestrator.extract(model, f"Who? {orchestrator.schema.text}")
    assert model.prompts[1].count(orchestrator.schema.text) == 1
    assert "The parts of the schema (given above)" in model.prompts[1]


async def test_a_long_submission_is_cut_in_the_middle_with_a_count() -> None:
    model = Model(BAD | {"note": "x" * 50_000}, GOOD)
    await ExtractionOrchestrator(SCHEMA).extract(model, "Who?")
    assert len(model.prompts[1]) < 8_000
    assert "characters left out" in model.prompts[1]


@pytest.mark.parametrize("cut", [Reply(GOOD_TEXT, truncated=True), GOOD_TEXT[:-5], "```json\n" + GOOD_TEXT[:-9]])
async def test_a_cut_answer_is_refused_and_a_shorter_one_asked_for(cut: str | Reply) -> None:
    model = Model(cut, GOOD)
    value, metrics = await ExtractionOrchestrator(SCHEMA).extract(model, "Who?")
    assert value == GOOD
    assert "shorter" in model.prompts[1]
    assert "JSON Patch" not in model.prompts[1]
    assert (metrics.truncations, metrics.parse_failures) == (1, 1)


async def test_a_cut_answer_is_never_asked_for_again_with_the_same_prompt() -> None:
    model = Model(*[Reply(BAD_TEXT, truncated=True)] * 4)
    error = await failure(model)
    assert len(set(model.prompts)) == 4
    assert error.metrics.truncations == 4


async def test_tokens_are_taken_from_the_reply_where_it_says_them() -> None:
    _, metrics = await ExtractionOrchestrator(SCHEMA).extract(
        Model(Reply(GOOD_TEXT, tokens_in=11, tokens_out=7)), "Who?"
    )
    assert (metrics.tokens_in, metrics.tokens_out) == (11, 7)


# ---------------------------------------------------------------------- typed


async def test_extract_typed_gives_an_instance() -> None:
    pydantic = pytest.importorskip("pydantic")
    event = pydantic.create_model("Event", day=(datetime.date, ...), title=(str, ...))
    model = Model('{"day": "31.1.", "title": "x"}', "{'day': '2024-01-31', 'title': 'x'}")
    value, metrics = await ExtractionOrchestrator.for_type(event).extract_typed(event, model, "When?")
    assert isinstance(value, event)
    assert value.day == datetime.date(2024, 1, 31)  # type: ignore[attr-defined]
    assert metrics.attempts == 2


async def test_what_only_the_type_refuses_is_retried_in_the_same_budget() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Even(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        sizes: list[int | None]

        @pydantic.field_validator("sizes")
        @classmethod
        def even(cls, sizes: list[int]) -> list[int]:
            if any(size % 2 for size in sizes):
                raise ValueError("sizes must be even")
            return sizes

    model = Model({"sizes": [1]}, {"sizes": [2]})
    value, metrics = await ExtractionOrchestrator.for_type(Even).extract_typed(Even, model, "?")
    assert value.sizes == [2]
    assert metrics.callback_failures == 1
    assert "At path '/sizes': " in model.prompts[1]
    assert "sizes must be even" in model.prompts[1]


async def test_extractions_can_run_at_once() -> None:
    import asyncio

    orchestrator = ExtractionOrchestrator(SCHEMA)
    runs: list[Awaitable[tuple[Any, ExtractionMetrics]]] = [
        orchestrator.extract(Model(BAD, {"user": {"age": n, "name": "x"}}), "?") for n in range(50)
    ]
    found = await asyncio.gather(*runs)
    assert [value["user"]["age"] for value, _ in found] == list(range(50))
