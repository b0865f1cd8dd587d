"""`verify`: a second program checks what was submitted, in the same session."""

from __future__ import annotations

from typing import Any

import pytest

import rlm
import sandbox
from rlm.budgets import FallbackTrigger
from rlm.models.scripted import scripted_lm
from rlm.repl.config import RunConfig
from rlm.repl.loop import RunLoop
from rlm.results import Evidence, Submitted, from_json
from rlm.signatures import Signature

FIRST = "n = doc.count('a')\nSUBMIT(answer=n)"


async def run(pool: sandbox.Pool, *codes: str, **options: Any) -> tuple[Any, list[str]]:
    model = scripted_lm([f"```python\n{code}\n```" for code in codes])
    config = RunConfig(Signature.of("doc -> answer: int"), model, pool=pool, verify=True, **options)
    result = await RunLoop(config, {"doc": "banana"}).run()
    return result, ["\n".join(message.text or "" for message in one.messages) for one in model._engine_spec.requests]


def second(result: Any) -> Evidence:
    (piece,) = [piece for piece in result.evidence if piece.kind == "program"]
    return piece  # type: ignore[no-any-return]


async def test_a_second_program_that_agrees_verifies_the_value(pool: sandbox.Pool) -> None:
    result, asked = await run(pool, FIRST, "SUBMIT(answer=sum(char == 'a' for char in doc))")
    assert isinstance(result, Submitted)
    assert (result.outputs.answer, result.trust) == (3, "verified: a second program gave the same")
    assert (second(result).verdict, second(result).inputs) == ("agrees", ("doc",))
    assert len(asked) == 2
    assert "second program" in asked[1]
    assert "SUBMIT(answer=n)" not in asked[1].rsplit("second program", 1)[1]
    assert result.features["answer"]["confirmed"] == 1
    read = from_json(result.to_json(), Signature.of("doc -> answer: int"))
    assert read.to_dict() == result.to_dict()


async def test_the_first_value_stays_the_answer_where_the_second_differs(pool: sandbox.Pool) -> None:
    result, _ = await run(pool, FIRST, "print(doc[0])", "SUBMIT(answer=len(doc))")
    assert (result.outputs.answer, result.trust) == (3, "disputed: a second program gave another value")
    assert (second(result).verdict, second(result).quote) == ("differs", "6")
    (origin,) = [piece for piece in result.evidence if piece.is_origin]
    assert (origin.kind, origin.chain[0].code) == ("computed", "n = doc.count('a')"), "the evidence is of the first"
    assert (result.iterations, result.features["answer"]["contradicted"]) == (3, 1)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("SUBMIT(answer=n)", "it goes by what cell 1 of the first program made"),
        ("SUBMIT(answer=max(n, doc.count('b')))", "it goes by what cell 1 of the first program made"),
        ("SUBMIT(answer=3)", "the value is written in the code"),
        ("exec('x = 3')\nSUBMIT(answer=x)", "its origin is not known"),
    ],
)
async def test_a_program_that_repeats_the_first_value_checks_nothing(pool: sandbox.Pool, code: str, why: str) -> None:
    result, _ = await run(pool, FIRST, code, policy="off")
    assert (result.trust, second(result).verdict, second(result).note) == ("unverified", "not independent", why)
    assert "confirmed" not in result.features["answer"]


async def test_an_import_of_the_first_program_may_be_used_by_the_second(pool: sandbox.Pool) -> None:
    result, _ = await run(pool, f"import re\n{FIRST}", "SUBMIT(answer=len(re.findall('a', doc)))")
    assert second(result).verdict == "agrees"


async def test_an_answer_survives_that_there_is_no_second_program(pool: sandbox.Pool) -> None:
    result, _ = await run(pool, FIRST, trigger=FallbackTrigger(max_iterations=1))
    assert (result.outputs.answer, second(result).verdict, result.trust) == (3, None, "unverified")
    assert "1 of 1 iteration used" in (second(result).note or "")
    result, _ = await run(pool, FIRST, "1 / 0", "1 / 0", "1 / 0")
    assert (result.outputs.answer, second(result).note) == (3, "the second program submitted nothing")
    result, _ = await run(pool, FIRST)  # the model has no more replies
    assert result.outputs.answer == 3
    assert "there was no second program" in (second(result).note or "")


async def test_checks_that_were_true_are_evidence(pool: sandbox.Pool) -> None:
    result, _ = await run(pool, FIRST, FIRST, checks=("answer >= 0", "1 < 2"))
    assert [(piece.path, piece.quote) for piece in result.evidence if piece.kind == "check"] == [
        ("/answer", "answer >= 0")
    ]
    assert result.features["answer"]["checked"] == 1


def test_predict_takes_it(pool: sandbox.Pool) -> None:
    model = scripted_lm([f"```python\n{code}\n```" for code in (FIRST, "SUBMIT(answer=len(doc.split('a')) - 1)")])
    made = rlm.Predict("doc -> answer: int", lm=model, verify=True, pool=pool)
    assert made.run_with_fallback(doc="banana").trust.startswith("verified")
