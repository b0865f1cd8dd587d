"""Signatures: read from dspy and from text, checked going in and coming out."""

from __future__ import annotations

import datetime
import enum
import json
import pickle
import subprocess
import sys
import threading
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from rlm.signatures import REQUIRED, Field, InvalidInputs, InvalidOutputs, Signature, SignatureError


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    name: str
    born: datetime.date
    friends: list[Person] = []


RICH = Signature(
    "Rich",
    "Read the document.",
    (Field("doc"),),
    (
        Field("title", str, "the title"),
        Field("count", int),
        Field("share", float),
        Field("found", bool),
        Field("kind", Literal["a", "b"]),
        Field("color", Color),
        Field("tags", list[str]),
        Field("sizes", dict[str, int]),
        Field("author", Person),
        Field("note", str | None),
        Field("day", datetime.date),
        Field("at", datetime.datetime),
    ),
)
RICH_VALUES: dict[str, Any] = {
    "title": "On Ice",
    "count": 3,
    "share": 0.5,
    "found": True,
    "kind": "a",
    "color": "red",
    "tags": ["x", "y"],
    "sizes": {"k": 1},
    "author": {"name": "Ann", "born": "1970-01-02", "friends": [{"name": "Bo", "born": "1971-01-02"}]},
    "note": None,
    "day": "2026-03-04",
    "at": "2026-03-04T05:06:07",
}


def outputs(text: str, **types: Any) -> tuple[Any, ...]:
    return tuple(field.type for field in Signature.of(f"x -> {text}", types=types).outputs)


# Text ----------------------------------------------------------------------------------------------------------------


def test_text_gives_names_types_and_defaults() -> None:
    signature = Signature.of("doc: str, question, top: int = 3 -> answer: int, tags: list[str]")
    assert signature.inputs == (Field("doc"), Field("question"), Field("top", int, "", 3))
    assert signature.outputs == (Field("answer", int), Field("tags", list[str]))
    assert "`doc`" in signature.instructions
    assert "`tags`" in signature.instructions


def test_text_knows_the_usual_types() -> None:
    assert outputs("a: str, b: int, c: float, d: bool") == (str, int, float, bool)
    assert outputs("a: list[dict[str, int]]") == (list[dict[str, int]],)
    assert outputs("a: List[int], b: Dict[str, float]") == (list[int], dict[str, float])
    assert outputs("a: Optional[int], b: int | None, c: str | int") == (int | None, int | None, str | int)
    assert outputs("a: date, b: datetime") == (datetime.date, datetime.datetime)
    assert outputs("a: tuple[int, ...], b: tuple[int, str], c: set[str]") == (
        tuple[int, ...],
        tuple[int, str],
        set[str],
    )
    assert outputs("a: Literal['x -> y', \"b, c\", 3, True]") == (Literal["x -> y", "b, c", 3, True],)


def test_text_takes_types_that_the_caller_names() -> None:
    types = {"Person": Person, "shapes.Color": Color}
    assert outputs("a: list[Person], b: shapes.Color", **types) == (list[Person], Color)


def test_text_may_have_several_lines_and_no_inputs() -> None:
    signature = Signature.of("\n  -> \n a: int,\n b: list[\n  str],\n")
    assert [field.name for field in signature.outputs] == ["a", "b"]
    assert signature.inputs == ()


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("doc -> answer: strr", 15, "did you mean 'str'"),
        ("é: str, b: Thing -> c", 11, "unknown type 'Thing'"),
        ("a,\n  b: Thing -> c", 8, "line 2, column 6"),
        ("a: list[int -> b", 7, "not closed"),
        ("a] -> b", 1, "closes nothing"),
        ("a -> b -> c", 7, "second '->'"),
        ("a -> b: Literal['x]", 16, "never closed"),
        ("a b -> c", 2, "name: type"),
        ("a, a -> b", 3, "already"),
        ("a -> a", 5, "already"),
        ("a -> ", 5, "no outputs"),
        ("a: 'str' -> b", 3, "without quotes"),
        ("a: __import__('os').system('x') -> b", 3, "not a type"),
        ("a: int = print(1) -> b", 9, "literal"),
        ("a -> b: dict[str]", 8, "takes 2"),
        ("a -> b: str[int]", 8, "takes no"),
        ("a -> b: Literal[1.5]", 16, "Literal"),
        ("a # b -> c", 2, "comments"),
        ("a -> _b", 5, "underscore"),
        ("a -> model_dump", 5, "pydantic"),
    ],
)
def test_a_mistake_in_text_is_shown_where_it_is(text: str, position: int, words: str) -> None:
    with pytest.raises(SignatureError) as caught:
        Signature.of(text)
    assert caught.value.position == position
    assert words in str(caught.value)
    assert str(caught.value).endswith("^")


@pytest.mark.parametrize("text", ["a", "", "x" * 30_000 + " -> b", "a: " + "list[" * 40 + "]" * 40 + " -> b"])
def test_text_that_is_no_signature_is_refused(text: str) -> None:
    with pytest.raises(SignatureError):
        Signature.of(text)


def test_text_cannot_run_code(tmp_path: Any) -> None:
    target = tmp_path / "made"
    for text in (
        f"a: open({str(target)!r}, 'w') -> b",
        f"a: int = open({str(target)!r}, 'w') -> b",
        f"a: list[open({str(target)!r}, 'w')] -> b",
        f"a): pass\nopen({str(target)!r}, 'w')\ndef f(b -> c",
    ):
        with pytest.raises(SignatureError):
            Signature.of(text)
    assert not target.exists()


@given(st.text(max_size=60) | st.text("abc:,->[]()'\"|= \nintlistr", max_size=40))
def test_any_text_is_a_signature_or_a_signature_error(text: str) -> None:
    try:
        assert Signature.of(text).outputs
    except SignatureError:
        pass


# Names ---------------------------------------------------------------------------------------------------------------


def test_names_of_the_repl_are_refused() -> None:
    with pytest.raises(SignatureError, match="'SUBMIT' would hide a name of the REPL"):
        Signature.of("doc -> SUBMIT: int", reserved={"SUBMIT", "llm_query"})
    with pytest.raises(SignatureError, match="llm_query"):
        Signature.of("llm_query -> a", reserved={"SUBMIT", "llm_query"})
    Signature.of("doc -> answer", reserved={"SUBMIT"})


def test_fields_may_be_called_like_old_methods_of_pydantic() -> None:
    signature = Signature.of("copy: str -> json: str, schema: int, model_name: str")
    made = signature.check_outputs({"json": "x", "schema": 1, "model_name": "m"})
    assert (made.json, made.schema, made.model_name) == ("x", 1, "m")  # type: ignore[attr-defined]
    assert signature.outputs_to_json(made) == {"json": "x", "schema": 1, "model_name": "m"}


# dspy ----------------------------------------------------------------------------------------------------------------


def test_a_dspy_class_is_read_with_everything_it_says() -> None:
    import dspy

    class Ask(dspy.Signature):  # type: ignore[misc]
        """Answer from the document."""

        doc: str = dspy.InputField(desc="what to read")
        top: int = dspy.InputField(default=3)
        answer: int = dspy.OutputField(desc="how many", ge=0)
        tags: list[str] = dspy.OutputField()

    signature = Signature.of(Ask)
    assert (signature.name, signature.instructions) == ("Ask", "Answer from the document.")
    assert signature.inputs == (Field("doc", str, "what to read"), Field("top", int, "", 3))
    assert [field.description for field in signature.outputs] == ["how many", ""]
    assert signature.to_dspy() is Ask
    with pytest.raises(InvalidOutputs, match="At path '/answer': expected int"):
        signature.check_outputs({"answer": -1, "tags": []})


def test_text_becomes_a_dspy_class_and_comes_back_the_same() -> None:
    signature = Signature.of("doc, top: int = 3 -> answer: int, note: str | None", instructions="Count.", name="Count")
    made = signature.to_dspy()
    assert (made.__name__, made.instructions) == ("Count", "Count.")
    again = Signature.of(made)
    assert again.inputs == signature.inputs
    assert [(field.name, field.type) for field in again.outputs] == [("answer", int), ("note", str | None)]


def test_other_things_are_no_signature() -> None:
    for thing in (None, 3, object(), int, Person):
        with pytest.raises(SignatureError, match=r"dspy\.Signature class or text"):
            Signature.of(thing)


def test_nothing_imports_dspy_until_it_is_asked_for() -> None:
    code = (
        "import sys\n"
        "import rlm.signatures, rlm.budgets, rlm.history, rlm.results\n"
        "import rlm.extraction.prompt, rlm.extraction.confidence\n"
        "s = rlm.signatures.Signature.of('doc -> answer: int')\n"
        "s.check_outputs({'answer': 1}), s.output_schema()\n"
        "assert 'dspy' not in sys.modules and 'litellm' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Outputs -------------------------------------------------------------------------------------------------------------


def test_outputs_of_every_type_round_trip_through_json() -> None:
    made = RICH.check_outputs(RICH_VALUES)
    assert made.color is Color.RED  # type: ignore[attr-defined]
    assert made.author.friends[0].born == datetime.date(1971, 1, 2)  # type: ignore[attr-defined]
    text = json.dumps(RICH.outputs_to_json(made))
    assert RICH.outputs_from_json(text) == made
    assert RICH.check_outputs(made) == made


def test_typed_values_are_taken_as_they_are() -> None:
    typed = RICH_VALUES | {
        "author": Person(name="Ann", born=datetime.date(1970, 1, 2)),
        "day": datetime.date(2026, 3, 4),
        "color": Color.BLUE,
        "tags": ("x",),
    }
    made = RICH.check_outputs(typed)
    assert (made.day, made.color, made.tags) == (datetime.date(2026, 3, 4), Color.BLUE, ["x"])  # type: ignore[attr-defined]


def test_every_problem_is_named_with_its_place() -> None:
    with pytest.raises(InvalidOutputs) as caught:
        RICH.check_outputs(
            RICH_VALUES
            | {
                "count": "3",
                "found": 1,
                "kind": "c",
                "color": "green",
                "tags": ["x", 2],
                "author": {"name": "Ann", "born": "1970", "friends": [{"name": 5, "born": "1971-01-02"}]},
                "day": "4 March",
                "extra": 1,
            }
        )
    places = {problem.path for problem in caught.value.problems}
    expected = {"/count", "/found", "/kind", "/color", "/tags/1", "/author/friends/0/name", "/day", "/extra"}
    assert expected <= places
    text = str(caught.value)
    assert "'/count': " + 'expected int, got "3" (a string)' in text
    assert "'/kind': " + 'expected one of "a", "b", got "c" (a string)' in text
    assert "At path '/extra': expected nothing (there is no such field), got 1 (an integer)" in text


def test_a_missing_field_is_named_and_a_nullable_one_may_be_left_out() -> None:
    values = {name: value for name, value in RICH_VALUES.items() if name not in ("count", "note")}
    with pytest.raises(InvalidOutputs, match="At path '/count': expected int, got nothing") as caught:
        RICH.check_outputs(values)
    assert len(caught.value.problems) == 1
    assert RICH.check_outputs(values | {"count": 1}).note is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (int, [5, 5.0], ["5", True, 5.5, None, 1e300]),
        (float, [5, 5.5], ["5", True, float("nan"), float("inf")]),
        (bool, [True], [1, "true"]),
        (str, ["5"], [5, "\ud800"]),
        (datetime.date, ["2026-01-02"], ["2026", 20260102, "2.1.2026"]),
        (datetime.datetime, ["2026-01-02T03:04:05Z", "2026-01-02 03:04"], ["1767322800", 1767322800]),
        (int | str, [5, "5", 5.0], [5.5, None]),
        (list[int], [[1, 2.0]], [["1"], "12", {"0": 1}]),
        (dict[str, datetime.date], [{"a": "2026-01-02"}], [{"a": "2026"}]),
        (list[Person] | None, [None, [{"name": "A", "born": "2026-01-02"}]], [[{"name": "A", "born": "2026"}]]),
    ],
)
def test_what_fits_a_type_and_what_does_not(kind: Any, good: list[Any], bad: list[Any]) -> None:
    signature = Signature("T", "", (), (Field("x", kind),))
    for value in good:
        signature.check_outputs({"x": value})
    for value in bad:
        with pytest.raises(InvalidOutputs, match="/x"):
            signature.check_outputs({"x": value})


def test_a_whole_float_is_an_int_afterwards() -> None:
    signature = Signature.of("x -> n: int, ns: list[dict[str, int]]")
    made = signature.check_outputs({"n": 16.0, "ns": [{"a": 2.0}]})
    assert repr(made) == "TaskOutputs(n=16, ns=[{'a': 2}])"


def test_problems_in_a_union_are_one_problem_at_the_place_in_the_value() -> None:
    signature = Signature("T", "", (), (Field("x", list[Person | int]),))
    with pytest.raises(InvalidOutputs) as caught:
        signature.check_outputs({"x": [{"name": "A"}, "z"]})
    assert {problem.path for problem in caught.value.problems} == {"/x/0", "/x/0/born", "/x/1"}


def test_what_json_cannot_carry_is_named() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (object(), circle, {"a": [float("nan")]}, json):
        with pytest.raises(InvalidOutputs, match="/x"):
            Signature.of("-> x: Any").check_outputs({"x": value})


def test_an_output_type_that_json_cannot_carry_is_refused() -> None:
    with pytest.raises(SignatureError, match="TOutputs: a field has a type that JSON cannot carry"):
        _ = Signature("T", "", (), (Field("x", threading.Thread),)).output_model


def test_what_is_no_object_is_refused() -> None:
    for value in ("text", [1], None, '{"answer": 1'):
        with pytest.raises(InvalidOutputs):
            Signature.of("-> answer: int").outputs_from_json(value)  # type: ignore[arg-type]


def test_outputs_are_frozen_and_their_model_is_made_once_among_threads() -> None:
    signature = Signature.of("-> answer: int")
    models = []
    threads = [threading.Thread(target=lambda: models.append(signature.output_model)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(models)) == 1
    with pytest.raises(ValueError, match="frozen"):
        signature.check_outputs({"answer": 1}).answer = 2  # type: ignore[attr-defined]


def test_the_schema_holds_every_field_and_forbids_others() -> None:
    schema = RICH.output_schema()
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == [field.name for field in RICH.outputs]
    assert schema["properties"]["title"] == {"type": "string", "description": "the title"}
    assert "note" not in schema["required"]
    assert "Person" in schema["$defs"]


def test_the_field_list_says_types_in_words() -> None:
    lines = RICH.field_list().splitlines()
    assert lines[0] == "- title (str): the title"
    assert '- kind (one of "a", "b")' in lines
    assert '- color (one of "red", "blue")' in lines
    assert "- sizes (dict from str to int)" in lines
    assert "- note (str or null), optional" in lines
    assert "- author (Person {name: str, born: date (YYYY-MM-DD), friends: list of Person {" in RICH.field_list()


def test_a_signature_can_be_pickled() -> None:
    RICH.check_outputs(RICH_VALUES)
    again = pickle.loads(pickle.dumps(RICH))
    assert again == RICH
    assert again.outputs[0].default is REQUIRED
    made = again.check_outputs(RICH_VALUES)
    assert again.outputs_to_json(made) == RICH.outputs_to_json(RICH.check_outputs(RICH_VALUES))


# Inputs --------------------------------------------------------------------------------------------------------------


def test_inputs_are_typed_and_defaults_filled_in() -> None:
    signature = Signature.of(
        "doc, day: date, people: list[Person], top: int = 3, note: str | None -> a", types={"Person": Person}
    )
    made = signature.check_inputs({"doc": "x", "day": "2026-01-02", "people": [{"name": "A", "born": "1970-01-02"}]})
    assert made == {
        "doc": "x",
        "day": datetime.date(2026, 1, 2),
        "people": [Person(name="A", born=datetime.date(1970, 1, 2))],
        "top": 3,
        "note": None,
    }
    day = datetime.date(2026, 1, 2)
    assert signature.check_inputs({"doc": "x", "day": day, "people": []})["day"] is day


def test_bad_missing_and_unknown_inputs_are_all_named() -> None:
    with pytest.raises(InvalidInputs) as caught:
        Signature.of("doc, top: int, day: date -> a").check_inputs({"top": "3", "day": "soon", "dok": "x"})
    text = str(caught.value)
    assert "doc: str, top: int" in text
    assert "At path '/doc': expected str, got nothing" in text
    assert "'/top': " + 'expected int, got "3" (a string)' in text
    assert "At path '/day': expected date (YYYY-MM-DD)" in text
    assert "'/dok': " + 'expected nothing (there is no such input), got "x" (a string)' in text


def test_inputs_of_types_that_pydantic_does_not_know_are_checked_by_class() -> None:
    class Frame:
        pass

    signature = Signature("T", "", (Field("frame", Frame),), (Field("a"),))
    frame = Frame()
    assert signature.check_inputs({"frame": frame})["frame"] is frame
    with pytest.raises(InvalidInputs, match="At path '/frame': expected Frame"):
        signature.check_inputs({"frame": 3})


def test_defaults_are_not_shared_between_runs() -> None:
    signature = Signature.of("words: list[str] = ['a'] -> a")
    signature.check_inputs({})["words"].append("b")
    assert signature.check_inputs({})["words"] == ["a"]


def test_a_large_input_is_not_copied() -> None:
    text = "x" * 10_000_000
    assert Signature.of("doc -> a").check_inputs({"doc": text})["doc"] is text


@pytest.mark.parametrize(
    "type_", [str, int, float, bool, datetime.date, Color, Person, list[int], int | None, dict[str, int]]
)
def test_takes_says_what_checking_would(type_):
    signature = Signature("Task", "", (Field("x", type_),), (Field("y"),))
    values = [
        "5",
        "red",
        "2026-01-02",
        "2020",
        "\ud800",
        "",
        5,
        5.0,
        5.5,
        2.0**60,
        float("nan"),
        True,
        None,
        [1],
        [1.0],
    ]
    values += [["1"], {"a": 1}, {"name": "A", "born": "1970-01-02"}, {"name": "A"}, Color.RED, datetime.date.min, {1}]
    for value in values:
        try:
            signature.check_inputs({"x": value})
            fits = True
        except InvalidInputs:
            fits = False
        assert signature.takes("x", value) is fits, value


def test_no_value_is_taken_for_an_input_that_is_not_there():
    assert not Signature.of("doc -> a").takes("dok", "x")
