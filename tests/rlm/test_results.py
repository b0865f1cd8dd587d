"""The three ways a run ends."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field

from rlm import results
from rlm.budgets import MaxIterations, Timeout
from rlm.history import CallRecord, REPLHistoryEntry, VariableChanges
from rlm.results import Evidence, ExecutionResult, Extracted, Failed, Submitted, Usage
from rlm.signatures import InvalidOutputs, Signature

SIGNATURE = Signature.of("doc -> answer: int, day: date | None, tags: list[str]")
OUTPUTS = SIGNATURE.check_outputs({"answer": 3, "day": "2026-01-02", "tags": ["ä"]})
USAGE = Usage(100, 20, 0.01, 12.5, llm_calls=4, model_calls=6, unpriced_calls=1)
ENTRY = REPLHistoryEntry(
    1, "look", "print(1)", "1\n", True, (CallRecord("llm_query", 0.5, None),), VariableChanges(("x",), (), ("y",))
)

SUBMITTED = Submitted(OUTPUTS, 5, 4, usage=USAGE, run_id="r1")
EXTRACTED = Extracted(
    OUTPUTS,
    0.8,
    MaxIterations(20, 20),
    "from `total`",
    evidence=(
        Evidence("/answer", "variable", "3", variable="total"),
        Evidence("/tags/0", "history", "ä", iteration=2, span=(4, 5)),
    ),
    usage=USAGE,
    run_id="r2",
)
FAILED = Failed("the answer is not JSON", {"answer": "3"}, (ENTRY,), usage=USAGE, run_id="r3")


def name_of(result: ExecutionResult[Any]) -> str:
    match result:
        case Submitted(outputs, iterations, llm_calls):
            return f"submitted {outputs.answer} {iterations} {llm_calls}"
        case Extracted(outputs=outputs, confidence=confidence, reason=MaxIterations(limit=limit)):
            return f"extracted {outputs.answer} {confidence} {limit}"
        case Extracted(_, _, Timeout(), notes):
            return f"late {notes}"
        case Failed(reason, partial, history):
            return f"failed {reason} {partial} {len(history)}"


def test_results_are_matched_on() -> None:
    assert name_of(SUBMITTED) == "submitted 3 5 4"
    assert name_of(EXTRACTED) == "extracted 3 0.8 20"
    assert name_of(Extracted(OUTPUTS, 0.5, Timeout(301.0, 300.0))) == "late None"
    assert name_of(FAILED) == "failed the answer is not JSON {'answer': '3'} 1"


def test_outputs_are_there_however_they_were_obtained() -> None:
    assert [result.outputs for result in (SUBMITTED, EXTRACTED, FAILED)] == [OUTPUTS, OUTPUTS, None]


def test_only_an_extracted_result_was_extracted() -> None:
    assert [result.was_extracted for result in (SUBMITTED, EXTRACTED, FAILED)] == [False, True, False]


def test_confidence_is_one_computed_or_zero() -> None:
    assert [result.confidence for result in (SUBMITTED, EXTRACTED, FAILED)] == [1.0, 0.8, 0.0]


def test_a_failure_keeps_what_there_is() -> None:
    assert FAILED.partial_outputs == {"answer": "3"}
    assert FAILED.history == (ENTRY,)


def test_map_changes_outputs_and_nothing_else() -> None:
    mapped = EXTRACTED.map(lambda outputs: outputs.answer)  # type: ignore[attr-defined]
    assert mapped == dataclasses.replace(EXTRACTED, outputs=3)  # type: ignore[arg-type]
    assert SUBMITTED.map(lambda outputs: outputs.tags).outputs == ["ä"]  # type: ignore[attr-defined]
    assert FAILED.map(lambda outputs: 1 / 0) is FAILED


@pytest.mark.parametrize("result", [SUBMITTED, EXTRACTED, FAILED])
def test_every_result_comes_back_from_json(result: ExecutionResult[Any]) -> None:
    assert results.from_json(result.to_json(), SIGNATURE) == result
    assert results.from_dict(result.to_dict(), SIGNATURE) == result
    data = json.loads(result.to_json())
    assert data["run_id"] == result.run_id
    assert data["usage"]["tokens_in"] == 100
    assert data["confidence"] == result.confidence


@pytest.mark.parametrize("result", [SUBMITTED, EXTRACTED, FAILED])
def test_results_are_frozen(result: ExecutionResult[Any]) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.run_id = "other"  # type: ignore[misc]


def test_outputs_are_checked_again_when_they_come_back() -> None:
    data = SUBMITTED.to_dict()
    data["outputs"]["answer"] = "three"
    with pytest.raises(InvalidOutputs, match="/answer"):
        results.from_dict(data, SIGNATURE)
    with pytest.raises(ValueError, match="'lost' is no result"):
        results.from_dict(data | {"status": "lost"}, SIGNATURE)


def test_aliases_and_computed_fields_come_back() -> None:
    class Person(BaseModel):
        model_config = ConfigDict(extra="forbid")
        name: str = Field(alias="fullName")

        @computed_field  # type: ignore[prop-decorator]
        @property
        def initial(self) -> str:
            return self.name[0]

    signature = Signature.of("doc -> who: Person", types={"Person": Person})
    outputs = signature.check_outputs({"who": {"fullName": "Ann"}})
    result = Submitted(outputs, 1, 0)
    assert results.from_json(result.to_json(), signature) == result
    assert signature.outputs_from_json(signature.outputs_to_json(outputs)) == outputs
    assert signature.check_outputs(outputs) == outputs


def test_text_that_cannot_be_encoded_is_still_written() -> None:
    failed = Failed("x", None, (dataclasses.replace(ENTRY, output="\ud800"),))
    text = failed.to_json()
    assert results.from_json(text.encode(), SIGNATURE) == failed


def test_mapped_outputs_are_written_as_far_as_json_goes() -> None:
    assert SUBMITTED.map(lambda _: {"x": {1, 2}, "f": float("nan"), "o": object}).to_dict()["outputs"]["x"] == [1, 2]
    assert json.loads(SUBMITTED.map(lambda _: float("nan")).to_json())["outputs"] is None


def test_evidence_names_its_field() -> None:
    assert [one.field for one in EXTRACTED.evidence] == ["answer", "tags"]


@pytest.mark.parametrize("result", [SUBMITTED, EXTRACTED, FAILED])
def test_results_can_be_pickled(result: ExecutionResult[Any]) -> None:
    again = pickle.loads(pickle.dumps(result))
    assert again == result
    assert type(again.outputs) is type(result.outputs)


def test_outputs_that_another_process_has_pickled_have_their_types() -> None:
    code = (
        "import pickle, sys\n"
        "from rlm.signatures import Signature\n"
        "from rlm.results import Evidence\n"
        "made = Signature.of('doc -> found: list[Evidence], day: date | None = None', types={'Evidence': Evidence})\n"
        "outputs = made.check_outputs({'found': [{'path': '/a', 'kind': 'history', 'quote': 'x'}]})\n"
        "sys.stdout.buffer.write(pickle.dumps([outputs, outputs]))\n"
    )
    written = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    one, other = pickle.loads(written.stdout)
    assert one == other
    assert one.found == [Evidence("/a", "history", "x")]
    assert one.day is None
    assert one.model_fields_set == {"found"}
    with pytest.raises(ValueError, match="frozen"):
        one.day = None
