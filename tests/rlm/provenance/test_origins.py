"""The origin of values: kinds, chains, parts that were read, and places in the inputs."""

from __future__ import annotations

from typing import Any

import pytest

from rlm.provenance.dataflow import Cell, analyze
from rlm.provenance.graph import Part
from rlm.provenance.origins import Call, Origin, origin_of_variable, origins

LOG = "10:00 INFO start\n10:01 ERROR disk 7 is full\n10:02 INFO stop\n" * 10
INPUTS: dict[str, Any] = {"log": LOG, "docs": ["The ship left Bergen in May.", "It came back in June."]}


def judge(*codes: str, calls: tuple[Call, ...] = (), given: tuple[str, ...] | None = None, **outputs: Any) -> Any:
    program = analyze([Cell(number, code) for number, code in enumerate(codes, 1)], INPUTS, ["look_up"])
    found = origins(outputs, program, INPUTS, calls, given=given)
    return found[0] if len(found) == 1 else {one.path: one for one in found}


def chain(origin: Origin) -> list[tuple[int, int]]:
    return [(place.iteration, place.line) for place in origin.chain]


def test_the_chain_leads_from_the_input_to_submit() -> None:
    origin = judge("lines = log.splitlines()\n", "n = len(lines)", "x = 1\nSUBMIT(answer=n)", answer=30)
    assert (origin.kind, origin.inputs, chain(origin)) == ("computed", ("log",), [(1, 1), (2, 1), (3, 2)])
    assert [place.code for place in origin.chain] == ["lines = log.splitlines()", "n = len(lines)", "SUBMIT(answer=n)"]


def test_a_text_of_an_input_is_quoted_with_its_place() -> None:
    origin = judge(
        "SUBMIT(answer=[line for line in log.splitlines() if 'disk' in line][0])", answer="10:01 ERROR disk 7 is full"
    )
    assert origin.kind == "quoted"
    quote = origin.quote
    assert (quote.input, quote.line, LOG[quote.start : quote.end]) == ("log", 2, "10:01 ERROR disk 7 is full")


def test_the_place_in_a_list_of_texts_is_a_pointer() -> None:
    quote = judge("SUBMIT(answer=docs[1].split()[-1].strip('.'))", answer="June").quote
    assert (quote.input, quote.start, quote.text) == ("docs/1", 16, "June")


def test_a_long_literal_that_stands_in_an_input_is_quoted_and_a_short_one_typed() -> None:
    assert (
        judge("print(docs[0])", "SUBMIT(answer='The ship left Bergen')", answer="The ship left Bergen").kind == "quoted"
    )
    short = judge("print(docs[0])", "SUBMIT(answer='Bergen')", answer="Bergen")
    assert (short.kind, short.quote.input) == ("typed", "docs/0")


def test_a_literal_that_a_condition_chose_says_so() -> None:
    origin = judge("if 'ERROR' in log:\n    a = 'yes'\nelse:\n    a = 'no'\nSUBMIT(answer=a)", answer="yes")
    assert (origin.kind, origin.is_chosen, origin.inputs) == ("typed", True, ("log",))
    assert not judge("SUBMIT(answer='yes')", answer="yes").is_chosen


def test_what_stays_as_it_was_set_is_defaulted() -> None:
    assert judge("n = 0\nfor line in log.splitlines():\n    n += 1\nSUBMIT(answer=n)", answer=0).kind == "defaulted"
    assert (
        judge("d = {}\nfor w in log.split():\n    d[w] = 1\nSUBMIT(answer=d.get('x', 5))", answer=5).kind == "defaulted"
    )
    assert (
        judge("hits = []\nfor w in log.split():\n    hits.append(w)\nSUBMIT(answer=hits)", answer=[]).kind
        == "defaulted"
    )


def test_a_field_that_was_not_given_is_defaulted() -> None:
    found = judge("SUBMIT(a=len(log))", given=("a",), a=4, b=3)
    assert [found[path].kind for path in (("a",), ("b",))] == ["computed", "defaulted"]


def test_the_answer_of_a_model_is_said_with_its_call() -> None:
    call = Call(1, "llm_query", '[["Who?"], {}]', "Ada Lovelace")
    origin = judge("who = llm_query('Who? ' + log)", "SUBMIT(answer=who.strip())", calls=(call,), answer="Ada Lovelace")
    assert (origin.kind, origin.call, origin.calls) == ("said", call, 1)


def test_a_count_over_the_answers_of_a_model_depends_on_them() -> None:
    origin = judge("SUBMIT(answer=sum(llm_query(d) == 'yes' for d in docs))", answer=2)
    assert (origin.kind, origin.calls, origin.inputs) == ("said", 1, ("docs",))


def test_values_of_one_mapping_have_origins_of_their_own() -> None:
    found = judge(
        "SUBMIT(answer={'a': log.count('a'), 'b': 12, 'c': {'d': docs[0]}})",
        answer={"a": 10, "b": 12, "c": {"d": INPUTS["docs"][0]}},
    )
    kinds = {path[1:]: origin.kind for path, origin in found.items()}
    assert kinds == {("a",): "computed", ("b",): "typed", ("c", "d"): "quoted"}


def test_a_mapping_that_was_changed_later_is_no_longer_told_apart() -> None:
    found = judge("d = {'a': log.count('a'), 'b': 0}\nd['b'] = 12", "SUBMIT({'answer': d})", answer={"a": 10, "b": 12})
    assert [found["answer", key].kind for key in "ab"] == ["computed", "typed"]


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("SUBMIT(answer=log[:100].count('E'))", Part("log", "characters", None, 100)),
        ("SUBMIT(answer=len([x for x in log.splitlines()[5:20]]))", Part("log", "lines", 5, 20)),
        ("lines = log.strip().split('\\n')\nSUBMIT(answer=len(lines[:10]))", Part("log", "lines", None, 10)),
        (
            "n = 0\nfor line in log.splitlines():\n    n += 1\n    if n > 3:\n        break\nSUBMIT(answer=n)",
            Part("log", "lines", stops_early=True),
        ),
        ("SUBMIT(answer=len(docs[0]))", Part("docs", "items", 0, 1)),
        ("SUBMIT(answer=len(peek(log, 50, 10)))", Part("log", "characters", 50, 60)),
        (
            "def f(text):\n    return text.count('E')\nhead = log[:100]\nSUBMIT(answer=f(head))",
            Part("log", "characters", None, 100),
        ),
    ],
)
def test_a_part_of_an_input_is_named(code: str, part: Part) -> None:
    origin = judge(code, answer=77)
    assert (origin.kind, origin.parts) == ("computed", (part,))


@pytest.mark.parametrize(
    "code",
    [
        "SUBMIT(answer=log[:].count('E'))",
        "head = log[:100]\nSUBMIT(answer=log.count(head))",
        "SUBMIT(answer=len(log.splitlines()))",
        "SUBMIT(answer=log.split()[3])",
        "for i in range(0, len(log), 50):\n    n = len(log[i:i + 50])\nSUBMIT(answer=n)",
    ],
)
def test_an_input_that_was_read_whole_has_no_parts(code: str) -> None:
    assert judge(code, answer=77).parts == ()


@pytest.mark.parametrize(
    ("code", "cuts"),
    [
        ("hits = [x for x in log.splitlines() if 'E' in x]\nSUBMIT(answer=len(hits[:3]))", ("hits[:3]",)),
        ("hits = log.split('E')\nSUBMIT(answer=len(hits[-2:]))", ("hits[-2:]",)),
        ("hits = log.split('E')\nfor x in hits:\n    n = len(x)\n    break\nSUBMIT(answer=n)", ("for x in hits:",)),
        ("n = sum(int(x[:4]) for x in log.splitlines())\nSUBMIT(answer=n)", ()),
        ("def f(x):\n    return x[:4]\nSUBMIT(answer=len(f(log)))", ()),
        ("rows = log.split('E')\nSUBMIT(answer=len(rows[1:]))", ()),
        ("SUBMIT(answer=log[:100].count('E'))", ()),
    ],
)
def test_a_slice_of_what_was_computed_is_named(code: str, cuts: tuple[str, ...]) -> None:
    origin = judge(code, answer=77)
    assert (origin.kind, origin.cuts) == ("computed", cuts)


def test_of_several_calls_of_submit_the_least_counts() -> None:
    assert judge("if log:\n    SUBMIT(answer=len(log))\nelse:\n    SUBMIT(answer=5)", answer=5).kind == "typed"
    assert judge("if log:\n    SUBMIT(answer=len(log))\nelse:\n    SUBMIT(answer=5)", answer=7).kind == "computed"


def test_code_that_cannot_be_followed_is_named() -> None:
    origin = judge("exec('x = 1')", "SUBMIT(answer=len(log))", answer=7)
    assert origin.kind == "none"
    assert "`exec('x = 1')` in cell 1" in origin.note


def test_the_origin_of_a_variable_after_the_last_cell() -> None:
    program = analyze([Cell(1, "n = log.count('ERROR')\nm = 12")], INPUTS)
    kinds = [
        origin_of_variable(name, (name,), value, program, INPUTS).kind
        for name, value in (("n", 10), ("m", 12), ("k", 1))
    ]
    assert kinds == ["computed", "typed", "none"]
