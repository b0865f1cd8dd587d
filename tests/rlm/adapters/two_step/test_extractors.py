"""Which extractor serves a call, and that what it gives has the declared types."""

from __future__ import annotations

import asyncio
import pickle
from typing import Annotated, Any

import cloudpickle
import dspy
import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, create_model

import rlm
from rlm import TwoStepAdapter
from rlm.adapters import TwoStep, TwoStepError
from rlm.adapters.registry import adapter_named
from tests.support.adapter_models import ConstrainedLM, model

A: type[BaseModel] = create_model("Item", a=(int, ...))
B: type[BaseModel] = create_model("Item", b=(str, ...))


def giving(kind: Any, **field: Any) -> Any:
    return dspy.Signature({"q": (str, dspy.InputField()), "item": (kind, dspy.OutputField(**field))})


class Chain(dspy.Module):  # type: ignore[misc]
    """Two predictors with the same outputs."""

    def __init__(self, one: Any = "q -> answer: int", two: Any = "z -> answer: int") -> None:
        super().__init__()
        self.one, self.two = dspy.Predict(one), dspy.Predict(two)

    def forward(self, q: str) -> Any:
        return self.two(**{next(iter(self.two.signature.input_fields)): str(self.one(q=q).answer)})

    async def aforward(self, q: str) -> Any:
        return await self.two.acall(z=str((await self.one.acall(q=q)).answer))


def numbers(*given: int) -> Any:
    return model(*(f'{{"answer": {one}}}' for one in given), name="scripted/small")


def marked(program: Any) -> Any:
    """The program, each of whose extractors can be told by its instructions."""
    for name, extractor in program.extractors.items():
        extractor.signature = extractor.signature.with_instructions(f"Extract for {name}!")
    return program


def served(small: Any) -> list[str]:
    """For whom each extraction was made."""
    return [
        small.engine.system(i).partition("Extract for ")[2].partition("!")[0] for i in range(len(small.engine.requests))
    ]


# By the types --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [False, True])
def test_two_classes_of_one_name_are_extracted_each_with_its_own_schema(many: bool) -> None:
    small = model(*(f'{{"item": {[one] if many else one}}}'.replace("'", '"') for one in ({"a": 3}, {"b": "yes"})))
    adapter = TwoStepAdapter(small)
    with dspy.context(lm=model("three", "yes"), adapter=adapter):
        first = dspy.Predict(giving(list[A] if many else A))(q="x").item  # type: ignore[valid-type]
        second = dspy.Predict(giving(list[B] if many else B))(q="x").item  # type: ignore[valid-type]
    assert (first, second) == (([A(a=3)], [B(b="yes")]) if many else (A(a=3), B(b="yes")))
    assert len(small.engine.requests) == 2
    assert '\\"b\\"' in small.engine.system(1)
    assert '\\"a\\"' not in small.engine.system(1)


def test_kept_extractors_are_distinguished_by_type_too_and_a_model_is_constrained_to_the_right_one() -> None:
    held = ConstrainedLM('{"item": {"a": 3}}', '{"item": {"b": "yes"}}')
    adapter = TwoStepAdapter(held)
    assert adapter.extractor_for(giving(A)) is not adapter.extractor_for(giving(B))
    assert adapter.extractor_for(giving(A)) is adapter.extractor_for(giving(A))
    with dspy.context(lm=model("three", "yes"), adapter=adapter):
        assert dspy.Predict(giving(A))(q="x").item == A(a=3)
        assert dspy.Predict(giving(B))(q="x").item == B(b="yes")
    assert [list(one.model_json_schema()["$defs"]["Item"]["properties"]) for one in held.constraints] == [["a"], ["b"]]


def test_bounds_are_part_of_the_type() -> None:
    low, high = (giving(Annotated[int, Field(ge=bound)]) for bound in (1, 100))
    adapter = TwoStepAdapter()
    assert adapter.extractor_for(low) is not adapter.extractor_for(high)
    for kind in (Annotated[int, Field(ge=1)], Annotated[str, Field(pattern="^a", max_length=3)]):
        assert adapter.extractor_for(giving(kind)) is adapter.extractor_for(giving(kind))


def test_types_that_cannot_be_hashed_do_no_harm() -> None:
    kind = list[Annotated[int, {"not": "hashable"}]]
    with dspy.context(lm=model("three"), adapter=TwoStepAdapter(model('{"item": [3]}'))):
        assert dspy.Predict(giving(kind))(q="x").item == [3]


def test_a_value_of_another_type_is_refused_and_read_again_from_the_text() -> None:
    class Careless(dspy.JSONAdapter):  # type: ignore[misc]
        """Takes what it gets."""

        def parse(self, signature: Any, completion: str) -> Any:
            return {"item": A(a=0)}

    small = model('{"item": {"b": "yes"}}')
    with dspy.context(lm=model("yes"), adapter=TwoStepAdapter(small, extraction_adapter=Careless())):
        assert dspy.Predict(giving(B))(q="x").item == B(b="yes")
    assert len(small.engine.requests) == 1
    adapter = TwoStepAdapter(model('{"item": {"a": 0}}'), extraction_adapter=Careless(), max_attempts=1)
    with dspy.context(lm=model("yes"), adapter=adapter), pytest.raises(TwoStepError) as caught:
        dspy.Predict(giving(B))(q="x")
    assert caught.value.tag == "extraction_validation_failed"


def test_an_extractor_whose_types_were_changed_does_not_get_past_the_declared_ones() -> None:
    small = model('{"item": "3"}', '{"item": 3}')
    adapter = TwoStepAdapter(small)
    extractor = adapter.extractor_for(giving(int))
    extractor.signature = extractor.signature.with_updated_fields("item", str)
    with dspy.context(lm=model("three"), adapter=adapter):
        assert dspy.Predict(giving(int))(q="x").item == 3
    assert len(small.engine.requests) == 2


def test_a_validator_that_is_made_for_text_costs_no_call() -> None:
    kind = list[Annotated[int, BeforeValidator(lambda text: int(text.strip("#")))]]
    small = model('{"item": ["#3"]}')
    with dspy.context(lm=model("three"), adapter=TwoStepAdapter(small)):
        assert dspy.Predict(giving(kind))(q="x").item == [3]
    assert len(small.engine.requests) == 1


def test_a_finished_value_is_not_changed_by_the_check() -> None:
    kind = list[Annotated[int, AfterValidator(lambda number: number * 100)]]
    with dspy.context(lm=model("three"), adapter=TwoStepAdapter(model('{"item": [3]}'))):
        assert dspy.Predict(giving(kind))(q="x").item == [300]


# By the predictor that is calling ------------------------------------------------------------------------------------


def test_each_predictor_has_an_extractor_of_its_own() -> None:
    small = numbers(3, 4)
    program = marked(TwoStep(Chain(), TwoStepAdapter(small)))
    program.extractors["one"].demos = [dspy.Example(text="It is twelve.", answer=12)]
    with dspy.context(lm=model("three", "four")):
        assert program(q="x").answer == 4
    assert served(small) == ["one", "two"]
    shown = ["It is twelve." in str([one.text for one in request.messages]) for request in small.engine.requests]
    assert shown == [True, False]


def test_it_is_the_same_asynchronously_and_side_by_side() -> None:
    small = numbers(*[3] * 8)
    program = marked(TwoStep(Chain(), TwoStepAdapter(small)))

    async def both() -> None:
        with dspy.context(lm=model(*["three"] * 8)):
            await asyncio.gather(*(program.acall(q="x") for _ in range(4)))

    asyncio.run(both())
    assert sorted(served(small)) == ["one"] * 4 + ["two"] * 4


def test_predictors_of_one_signature_are_distinguished() -> None:
    signature = dspy.Signature("q -> answer: int")
    small = numbers(3, 4)
    program = marked(TwoStep(Chain(signature, signature), TwoStepAdapter(small)))
    with dspy.context(lm=model("three", "four")):
        program(q="x")
    assert served(small) == ["one", "two"]


@pytest.mark.parametrize("kind", [dspy.BestOfN, dspy.Refine])
def test_copies_that_a_program_makes_of_its_predictors_use_the_same_extractors(kind: Any) -> None:
    signature = dspy.Signature("q -> answer: int")
    small = numbers(3, 4)
    inner = kind(Chain(signature, signature), N=1, reward_fn=_happy, threshold=1.0)
    program = marked(TwoStep(inner, TwoStepAdapter(small)))
    with dspy.context(lm=model("three", "four")):
        assert program(q="x").answer == 4
    assert served(small) == ["module.one", "module.two"]


def _happy(args: Any, answer: Any) -> float:
    return 1.0


def test_a_predictor_that_takes_anothers_place_takes_its_extractor() -> None:
    small = numbers(3, 4)
    program = marked(TwoStep(Chain(), TwoStepAdapter(small)))
    program.program.one = dspy.Predict("q -> answer: int")
    with dspy.context(lm=model("three", "four")):
        program(q="x")
    assert served(small) == ["one", "two"]


def test_a_predictor_that_is_called_for_other_outputs_does_not_use_its_extractor() -> None:
    small = model('{"name": "Ann"}')
    program = marked(TwoStep("q -> answer: int", TwoStepAdapter(small)))
    with dspy.context(lm=model("Ann.")):
        assert program(q="x", signature=dspy.Signature("q -> name")).name == "Ann"
    assert served(small) == [""]


def test_a_predictor_whose_descriptions_were_changed_keeps_its_extractor() -> None:
    small = model('{"item": 3}')
    program = marked(TwoStep(giving(Annotated[int, Field(ge=1)]), TwoStepAdapter(small)))
    predictor = program.program
    predictor.signature = predictor.signature.with_updated_fields("item", desc="how many").with_instructions("Count.")
    program.load_state(program.dump_state())
    with dspy.context(lm=model("three")):
        assert program(q="x").item == 3
    assert served(small) == ["self"]


def test_bootstrapping_gives_each_extractor_its_own_examples() -> None:
    program = TwoStep(Chain(), TwoStepAdapter(numbers(3, 4)))
    optimizer = dspy.BootstrapFewShot(
        metric=lambda example, answer, trace=None: answer.answer == 4, max_bootstrapped_demos=1, max_labeled_demos=0
    )
    with dspy.context(lm=model("It is three.", "It is four.")):
        compiled = optimizer.compile(program, trainset=[dspy.Example(q="x", answer=4).with_inputs("q")])
    found = {name: [(one["text"], one["answer"]) for one in each.demos] for name, each in compiled.extractors.items()}
    assert found == {"one": [("It is three.", 3)], "two": [("It is four.", 4)]}
    compiled.adapter.extraction_lm = small = numbers(5, 6)
    with dspy.context(lm=model("five", "six")):
        compiled(q="y")
    first, second = (str([one.text for one in request.messages]) for request in small.engine.requests)
    assert ("It is three." in first, "It is four." in first) == (True, False)
    assert ("It is three." in second, "It is four." in second) == (False, True)


def test_an_extractor_that_a_module_of_ones_own_keeps_is_used() -> None:
    small = numbers(3)
    adapter = TwoStepAdapter(small)
    kept = adapter.extractor_for("q -> answer: int")
    kept.signature = kept.signature.with_updated_fields("answer", desc="in digits").with_instructions("Extract for me!")
    with dspy.context(lm=model("three"), adapter=adapter):
        dspy.Predict("z -> answer: int")(z="x")
    assert served(small) == ["me"]


def test_an_adapter_can_be_pickled_with_its_extractors() -> None:
    adapter = TwoStepAdapter()
    adapter.extractor_for("q -> answer: int")
    other = pickle.loads(cloudpickle.dumps(adapter))
    other.extraction_lm = numbers(3)
    with dspy.context(lm=model("three"), adapter=other):
        assert dspy.Predict("q -> answer: int")(q="x").answer == 3


# What it is asked through --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["adapter", "configured", "predictor", "extractor", "named"])
def test_a_model_that_can_be_constrained_is_wherever_it_was_given(how: str) -> None:
    held = ConstrainedLM('{"answer": 3}')
    adapter, options = TwoStepAdapter(), {}
    if how == "adapter":
        adapter = TwoStepAdapter(held)
    elif how == "named":
        adapter = adapter_named("two-step", held)
    elif how == "configured":
        rlm.configure(two_step_extraction_lm=held)
    elif how == "predictor":
        options = {"two_step_extraction_lm": held}
    else:
        adapter.extractor_for("q -> answer: int").lm = held
    with dspy.context(lm=model("three"), adapter=adapter):
        assert dspy.Predict("q -> answer: int", **options)(q="x").answer == 3
    (constraint,) = held.constraints
    assert list(constraint.model_fields) == ["answer"]


async def test_it_is_constrained_asynchronously_too() -> None:
    held = ConstrainedLM('{"answer": 3}')
    with dspy.context(lm=model("three"), adapter=TwoStepAdapter(held)):
        assert (await dspy.Predict("q -> answer: int").acall(q="x")).answer == 3
    assert held.constraints[0] is not None


def test_an_adapter_that_was_given_is_used_for_such_a_model_too() -> None:
    held = ConstrainedLM('{"answer": 3}')
    with dspy.context(lm=model("three"), adapter=TwoStepAdapter(held, extraction_adapter=dspy.JSONAdapter())):
        assert dspy.Predict("q -> answer: int")(q="x").answer == 3
    assert held.constraints == [None]


def test_a_type_without_a_constraint_is_requested_as_json() -> None:
    held = ConstrainedLM('{"calls": {"tool_calls": [{"name": "length", "args": {"x": "abc"}}]}}')
    signature = dspy.Signature({"q": (str, dspy.InputField()), "calls": (dspy.ToolCalls, dspy.OutputField())})
    with dspy.context(lm=model("Take the length."), adapter=TwoStepAdapter(held)):
        assert dspy.Predict(signature)(q="x").calls.tool_calls[0].name == "length"
    assert held.constraints == [None]


def test_a_constrained_answer_that_does_not_fit_goes_through_the_retry_loop() -> None:
    held = ConstrainedLM("three", '{"answer": 3}')
    with dspy.context(lm=model("three"), adapter=TwoStepAdapter(held)):
        assert dspy.Predict("q -> answer: int")(q="x").answer == 3
    assert len(held.engine.requests) == 2


def test_what_was_wrong_is_reported_to_a_constrained_model_in_the_users_words() -> None:
    held = ConstrainedLM('{"other": 3}', '{"answer": 3}')
    with dspy.context(lm=model("It is three."), adapter=TwoStepAdapter(held)):
        assert dspy.Predict("question -> answer: int")(question="How many?").answer == 3
    first, again = held.engine.requests
    assert first.messages[-1].role == "assistant"
    assert again.messages[-1].role == "user"
    assert again.messages[-1].text.startswith(first.messages[-2].text)
    assert "answer" in again.messages[-1].text.removeprefix(first.messages[-2].text)
