"""The evidence of whole runs, for each ending, from what the host recorded."""

from __future__ import annotations

import json

from rlm.budgets import FallbackTrigger
from rlm.results import Extracted, Failed, Submitted, from_dict
from rlm.signatures import Signature

LOG = "INFO a\nERROR disk is full\nERROR c\n"


async def test_a_submitted_answer_says_where_each_value_came_from(make):
    made = make(
        [
            "lines = doc.splitlines()\nn = sum(1 for line in lines if 'ERROR' in line)",
            "SUBMIT(n=n, first=[x for x in lines if 'disk' in x][0], label='bad', who=llm_query('Who? ' + doc))",
        ],
        signature="doc -> n: int, first: str, label: str, who: str, more: int = 7",
        sub=["Ada"],
    )
    result = await made.run(doc=LOG)
    assert isinstance(result, Submitted)
    found = {piece.field: piece for piece in result.evidence}
    assert {name: piece.kind for name, piece in found.items()} == {
        "n": "computed", "first": "quoted", "label": "typed", "who": "said", "more": "defaulted",
    }  # fmt: skip
    assert [(step.iteration, step.line) for step in found["n"].chain] == [(1, 1), (1, 2), (2, 1)]
    assert LOG[slice(*found["first"].span)] == "ERROR disk is full"
    assert "Who?" in found["who"].note
    assert result.trust == "unverified"


async def test_evidence_survives_json(make):
    made = make(["SUBMIT(answer=len(doc.splitlines()[:2]))"])
    result = await made.run(doc=LOG)
    again = from_dict(json.loads(result.to_json()), Signature.of("doc -> answer: int"))
    assert again.evidence == result.evidence
    assert again.evidence[0].coverage == round(2 / 3, 4)


async def test_the_trace_event_has_the_evidence(make):
    made = make(["SUBMIT(answer=5)"])
    await made.run(doc="")
    assert made.events[-1].data["result"]["evidence"][0]["kind"] == "typed"


async def test_an_extracted_answer_has_the_origin_of_its_variable(make):
    trigger = FallbackTrigger(max_iterations=1)
    extraction = ['{"n": 2, "label": "bad"}']
    made = make(
        ["n = doc.count('ERROR')\nlabel = 'bad'"], "doc -> n: int, label: str", extraction=extraction, trigger=trigger
    )
    result = await made.run(doc=LOG)
    assert isinstance(result, Extracted)
    kinds = {piece.field: piece.kind for piece in result.evidence if piece.is_origin}
    assert kinds == {"n": "computed", "label": "typed"}


async def test_the_refused_values_of_a_failed_run_have_evidence(make):
    made = make(
        ["SUBMIT(n='x' * len(doc))"], "doc -> n: int", trigger=FallbackTrigger(max_iterations=1), extraction=["no"] * 3
    )
    result = await made.run(doc="abc")
    assert isinstance(result, Failed)
    assert [piece.kind for piece in result.evidence] == ["computed"]


async def test_each_value_of_an_extracted_field_has_an_origin_of_its_own(make):
    trigger = FallbackTrigger(max_iterations=1)
    extraction = ['{"found": {"n": 2, "kind": "bad", "first": "ERROR disk is full", "last": "nothing like it"}}']
    code = "found = {'n': doc.count('ERROR'), 'kind': 'bad', 'first': doc.splitlines()[1]}"
    made = make([code], "doc -> found: dict[str, int | str]", extraction=extraction, trigger=trigger)
    result = await made.run(doc=LOG)
    assert isinstance(result, Extracted)
    kinds = {piece.path: piece.kind for piece in result.evidence if piece.is_origin}
    assert kinds == {"/found/n": "computed", "/found/kind": "typed", "/found/first": "quoted", "/found/last": "none"}


async def test_partial_outputs_of_an_extraction_have_evidence_of_their_own(make):
    trigger = FallbackTrigger(max_iterations=2)
    codes = ["n = doc.count('ERROR')", "SUBMIT(n=len(doc), label=3, x=1)"]  # refused: that is not where 2 comes from
    extraction = ['{"n": 2}'] * 3
    made = make(codes, "doc -> n: int, label: list[int]", extraction=extraction, trigger=trigger)
    result = await made.run(doc=LOG)
    assert isinstance(result, Failed)
    assert result.partial_outputs == {"n": 2}
    (origin,) = [piece for piece in result.evidence if piece.is_origin]
    assert (origin.kind, [(step.iteration, step.line) for step in origin.chain]) == ("computed", [(1, 1)])
    assert [piece.variable for piece in result.evidence if piece.kind == "variable"] == ["n"]


async def test_a_slice_of_what_was_computed_is_in_the_evidence_and_the_features(make):
    result = await make(["hits = doc.split()\nSUBMIT(answer=len(hits[:2]))"]).run(doc=LOG)
    assert "only `hits[:2]`" in result.evidence[0].note
    assert result.features["answer"]["cut"] == 1


async def test_a_cell_cannot_claim_evidence(make):
    made = make(["print('answer = len(doc)')\nprint(len(doc))\nSUBMIT(answer=42)"])
    result = await made.run(doc="x" * 42)
    assert [piece.kind for piece in result.evidence] == ["typed"]
