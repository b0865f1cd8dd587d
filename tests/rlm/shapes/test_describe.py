"""`describe`: what each kind of value is taken for, and what is said of it."""

from __future__ import annotations

import json
import types

import pytest

from rlm.shapes import describe, kernel_source

CSV = "name,age,city\nann,31,Oslo\nbob,,Rome\ncid,28,Oslo\n"
LOG = "".join(f"2031-01-02 10:00:{number:02d} ERROR disk {number} is full\n" for number in range(30))
RECORDS = [{"id": number, "user": {"name": "ann" if number % 2 else "bob"}} for number in range(10)] + [{"id": 10}]
MAIL = "From: ann@example.org\nTo: bob@example.org\nSubject: lunch\nDate: Mon, 3 Mar 2031\n\nAt noon?\n"
PYTHON = "import os\n\n\ndef size(path):\n    return os.stat(path).st_size\n\n\nclass Walker:\n    pass\n"
MARKDOWN = "# Ships\n\nThey sail.\n\n```\n# not a heading\n```\n\n## Sails\n\nThey fill.\n"
PROSE = "\n".join(
    ["It was late in the year when they left the harbor, and the wind had turned. Nobody spoke of it."] * 2
    + ["The older of the two sisters had packed bread, a lamp and a book; the younger one had packed nothing."] * 2
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (LOG, "log"),
        (CSV, "CSV"),
        (CSV.replace(",", "\t"), "TSV"),
        (CSV.replace(",", ";"), "CSV"),
        (json.dumps(RECORDS), "JSON"),
        ("\n".join(map(json.dumps, RECORDS)), "JSON lines"),
        (MAIL, "mail"),
        (PYTHON, "source code"),
        (MARKDOWN, "Markdown"),
        (PROSE, "prose"),
        ("x" * 3000, "one line"),
        ("red\nblue\ngreen\n", "lines"),
        ("", "empty text"),
    ],
)
def test_a_text_is_taken_for_what_it_is(text: str, kind: str) -> None:
    assert describe(text).kind == kind


def test_a_log_with_commas_is_no_table() -> None:
    text = "".join(f"2016-09-28 04:30:{number:02d}, Info    CBS  Session {number} opened\n" for number in range(40))
    assert describe(text).kind == "log"


def test_columns_have_types_ranges_and_gaps() -> None:
    shape = describe(CSV)
    assert shape.rows == 3
    assert [(column.name, column.type, column.present) for column in shape.columns] == [
        ("name", "str", 3),
        ("age", "int", 2),
        ("city", "str", 3),
    ]
    assert shape.columns[1].range == "28 to 31"
    assert shape.columns[2].range == '"Oslo" x 2, "Rome" x 1'
    assert "in 2 of 3" in shape.text()


def test_rows_with_line_ends_inside_of_quotes_are_counted_as_rows() -> None:
    shape = describe('name,note,n\nann,"two\nlines",1\nbob,"one, line",2\n')
    assert shape.rows == 2
    assert [column.type for column in shape.columns] == ["str", "str", "int"]


def test_keys_of_records_have_their_presence() -> None:
    for value in (RECORDS, json.dumps(RECORDS), "\n".join(map(json.dumps, RECORDS))):
        shape = describe(value)
        assert shape.rows == 11
        found = {column.name: (column.type, column.present) for column in shape.columns}
        assert found == {"id": ("int", 11), "user": ("dict", 10), "user.name": ("str", 10)}
        assert "user.name (str, in 10 of 11)" in shape.text()


def test_headings_are_those_outside_of_code() -> None:
    assert describe(MARKDOWN).headings == ("# Ships", "## Sails")
    assert describe(PYTHON).headings == ("def size", "class Walker")


def test_odd_characters_are_counted() -> None:
    notes = "\n".join(describe("a\r\nb\ufffd\r\nc\x00 d\u00a0e\rf").notes)
    for note in ("2 lines end with", "1 times \\r without", "1 x the replacement", "1 x NUL", "1 x a no-break"):
        assert note in notes


def test_bytes_say_where_they_are_not_utf8() -> None:
    assert "Byte 3 is b'\\xff'" in describe(b"abc\xff").text()
    assert describe("naïve\n".encode("utf-16")).size.endswith("probably UTF-16")
    assert describe(LOG.encode()).size.endswith("30 lines of a log, 1,250 characters")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NoneType: None"),
        (3, "int: 3"),
        ([3, 1, 2], "list of 3 items of type int, from 1 to 3"),
        ([3, "x"], "list of 2 items: int x 1, str x 1"),
        ([], "an empty list"),
        ({"a": [1, 2]}, "a: list of 2 items of type int, from 1 to 2"),
        (dict.fromkeys(range(100), 1.5), "dict with 100 keys to values of type float"),
        (object, "type: type"),
    ],
)
def test_any_value_is_described(value: object, text: str) -> None:
    assert text in describe(value).text()


def test_descriptions_are_limited() -> None:
    shape = describe("\n".join(f"{word} {'y' * 500} {word}" for word in "abcdefghijklmnop" for _ in range(3)))
    lines = shape.text(most=4, width=80).split("\n")
    assert len(lines) < 12
    assert all(len(line) < 120 for line in lines)
    assert len(describe({f"key {number}": 1 for number in range(1000)}).text()) < 2000


def test_control_characters_of_examples_are_spelled_out() -> None:
    assert "\x1b" not in describe("\x1b[31mred 1\n\x1b[31mred 2\n\x1b[31mred 3\n").text()


def test_frames_have_columns() -> None:
    pandas = pytest.importorskip("pandas")
    shape = describe(pandas.DataFrame({"n": [1, 2], "s": ["x", "y"]}))
    assert shape.size == "DataFrame of 2 rows and 2 columns"
    assert [column.name for column in shape.columns] == ["n", "s"]


@pytest.mark.parametrize("value", [LOG, CSV, RECORDS, MARKDOWN, MAIL, PROSE, b"abc\xff", None, [1, 2]])
def test_the_source_for_the_kernel_describes_alike(value: object) -> None:
    module = types.ModuleType("shapes")
    exec(compile(kernel_source(), "<shapes>", "exec"), module.__dict__)
    assert str(module.describe(value)) == str(describe(value))
