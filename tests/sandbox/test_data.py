"""Inputs in, variables out."""

from __future__ import annotations

import hashlib
import os
import threading
import time

import pytest

import sandbox

TEXT = "Zürich, 東京, 🎲 " * 60_000


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(10**30),
        1.5,
        "",
        "ü\ud800",
        [1, [2, {"a": None}]],
        {"b": [True]},
        b"",
        b"\x00\xff" * 10,
        TEXT,
        TEXT.encode(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_input_arrives_as_it_was(open_session, value):
    session = open_session(inputs={"given": value})
    expected = ascii(value) if len(str(value)) < 1000 else None
    if expected is None:
        raw = value if isinstance(value, bytes) else value.encode()
        expected = repr(hashlib.sha256(raw).hexdigest())
        code = "import hashlib\nhashlib.sha256(given if isinstance(given, bytes) else given.encode()).hexdigest()"
        assert session.run(code).value_repr == expected
    else:
        assert session.run("ascii(given)").value_repr == repr(expected)
    assert session.run("type(given).__name__").value_repr == repr(type(value).__name__)


def test_bytearray_and_memoryview_arrive_as_bytes(open_session):
    session = open_session(inputs={"a": bytearray(b"x"), "b": memoryview(b"y")})
    assert session.run("a, b").value_repr == "(b'x', b'y')"


def test_a_lazy_text_reads_like_a_str(open_session):
    session = open_session(inputs={"doc": sandbox.Text(TEXT, lazy=True)})
    code = "len(doc), doc[8:10], doc.count('🎲'), doc.find('東京'), 'Zürich' in doc, doc[-4:]"
    assert session.run(code).value_repr == repr(
        (len(TEXT), TEXT[8:10], TEXT.count("🎲"), TEXT.find("東京"), True, TEXT[-4:])
    )
    assert session.run("doc[:14].upper()").value_repr == repr(TEXT[:14].upper())


def test_one_text_serves_several_sessions(open_session):
    text = sandbox.Text(TEXT)
    blob = sandbox.Blob(b"\x01" * 1_000_000)
    for _ in range(3):
        assert (
            open_session(inputs={"doc": text, "raw": blob}).run("len(doc), len(raw)").value_repr
            == f"({len(TEXT)}, 1000000)"
        )


def test_a_sealed_input_cannot_be_changed():
    text = sandbox.Text("abc")
    with pytest.raises(OSError):
        os.pwrite(text.descriptor, b"X", 0)
    with pytest.raises(OSError):
        os.ftruncate(text.descriptor, 0)
    assert text.read() == b"abc"


def test_a_hundred_megabytes_arrive(open_session):
    text = "0123456789" * 10_000_000
    assert open_session(inputs={"doc": text}).run("len(doc), doc[-3:]").value_repr == "(100000000, '789')"


def _writers() -> int:
    return sum(thread.name == "rlm-input" for thread in threading.enumerate())


def _wait_for_writers(count: int) -> None:
    end = time.monotonic() + 20
    while _writers() != count and time.monotonic() < end:
        time.sleep(0.01)
    assert _writers() == count


def test_a_large_ascii_text_arrives_whole_and_leaves_no_thread(open_session):
    before = _writers()
    text = "".join(f"{number:x}\n" for number in range(700_000))
    session = open_session(inputs={"doc": text, "other": text[::-1]})
    code = "import hashlib\n[hashlib.sha256(one.encode()).hexdigest() for one in (doc, other)]"
    expected = [hashlib.sha256(one.encode()).hexdigest() for one in (text, text[::-1])]
    assert session.run(code).value_repr == repr(expected)
    assert session.run("{doc: 1}[doc], doc.isascii(), doc + 'ü' > doc").value_repr == "(1, True, True)"
    _wait_for_writers(before)
    session.set(doc=text[1:])
    assert session.run("len(doc)").value_repr == str(len(text) - 1)
    _wait_for_writers(before)


def test_a_kernel_that_does_not_read_its_text_keeps_no_thread_once_the_session_is_closed(open_session):
    before = _writers()
    session = open_session(policy="off")
    session.run("import sandbox.kernel.inputs as inputs\ninputs._streamed = lambda descriptor, size: 'mine'")
    session.set(doc="x" * 5_000_000)
    assert session.run("doc").value_repr == "'mine'"
    assert _writers() == before + 1  # it waits for a reader, and holds nobody up
    session.close()
    _wait_for_writers(before)


def test_inputs_can_be_changed_by_the_code_without_changing_the_callers(open_session):
    given = {"items": [1, 2]}
    session = open_session(inputs=given)
    assert session.run("items.append(3)\nitems").value_repr == "[1, 2, 3]"
    assert given == {"items": [1, 2]}


def test_descriptors_are_let_go(open_session):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        session = open_session(inputs={"doc": TEXT, "raw": b"x" * 1000})
        session.run("len(doc)")
        session.close()
    assert len(os.listdir("/proc/self/fd")) <= before + 30  # the pool may have refilled meanwhile


def test_variables_are_described_with_their_values(open_session):
    session = open_session(inputs={"doc": TEXT}, functions={"ask": print})
    session.run(
        "n = 3\nname = 'Ada'\nitems = [1, {'a': None}]\nimport pandas as pd\nframe = pd.DataFrame({'x': [1, 2]})"
    )
    variables = session.variables()
    assert list(variables) == ["doc", "n", "name", "items", "pd", "frame"]
    assert (variables["n"].type, variables["n"].value, variables["n"].has_value) == ("int", 3, True)
    assert (variables["items"].value, variables["items"].size) == ([1, {"a": None}], 2)
    assert (variables["doc"].size, variables["doc"].has_value) == (len(TEXT), False)
    assert variables["frame"].type == "pandas.DataFrame"
    assert variables["frame"].size == (2, 1)


def test_variables_do_not_run_the_code_of_any_object(open_session):
    session = open_session(policy="off")
    session.run(
        "ran = []\n"
        "class Hostile:\n"
        "    def __getattribute__(self, name): ran.append(name); raise RuntimeError\n"
        "    def __repr__(self): ran.append('repr'); return 'x'\n"
        "    def __len__(self): ran.append('len'); return 1\n"
        "    def __eq__(self, other): ran.append('eq'); return True\n"
        "    __hash__ = None\n"
        "    def __reduce__(self): ran.append('reduce'); return (print, ())\n"
        "thing = Hostile()\n"
        "inside = [thing, {'k': thing}]\n"
    )
    variables = session.variables()
    assert "Hostile" in variables["thing"].type
    assert session.run("ran").value_repr == "[]"


def test_variables_can_be_read_after_a_cell_was_stopped(open_session):
    session = open_session(limits=sandbox.Limits(cell_seconds=0.3))
    session.run("partial = {'total': 7}\nwhile True: pass")
    assert session.variables()["partial"].value == {"total": 7}


def test_a_lying_kernel_cannot_break_the_reader():
    from sandbox.variables import read_variables

    lies = [
        {"name": 5}, "text", None, {"name": "a", "type": 3, "size": [True, "x"], "preview": None, "has_value": "yes"},
        {"name": "b\ud800", "size": [1, 2], "preview": "x" * 10**6},
    ]  # fmt: skip
    variables = read_variables({"variables": lies})
    assert list(variables) == ["a", "b?"]
    assert (variables["a"].size, variables["a"].has_value) == (None, False)
    assert len(variables["b?"].preview) == 100_000
    assert read_variables({"variables": "x"}) == {}
    assert read_variables({}) == {}
