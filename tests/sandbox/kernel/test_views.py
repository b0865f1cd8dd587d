from __future__ import annotations

import mmap
import pickle
import re
import threading
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from sandbox.kernel.views import TextView

# Few different characters, so that needles are found: one to four bytes long, every kind of line end, lone surrogates.
ALPHABET = "aab \n\r\x0b\x1c\x85\u2028é€\U0001f600\ud800\udfff"
texts = st.text("ab\n", max_size=60) | st.text(ALPHABET, max_size=60) | st.text(st.characters(), max_size=40)
needles = st.text("ab", max_size=3) | st.text(ALPHABET, max_size=3) | st.text(st.characters(), max_size=2)
bounds = st.none() | st.integers(-70, 70)
steps = st.sampled_from([1, 4, 5, 7, 16, 64])


def view(text: str, step: int = 4) -> TextView:
    """A view with an index so fine that every text crosses it."""
    return TextView(text.encode("utf-8", "surrogatepass"), step=step, ascii_only=text.isascii() and step % 2 == 0)


def outcome(act: Any) -> Any:
    """What something returns, or the kind of exception that it raises."""
    try:
        return act()
    except Exception as error:
        return type(error)


@settings(deadline=None)
@given(texts, steps)
@example("", 4)
def test_a_view_reads_as_the_text_does(text: str, step: int) -> None:
    seen = view(text, step)
    assert len(seen) == len(text)
    assert bool(view(text)) == bool(text)
    assert str(seen) == text
    assert list(seen) == list(text)
    assert f"{seen}|{seen:>70}" == f"{text}|{text:>70}"
    assert seen + "x" == text + "x"
    assert "x" + seen == "x" + text
    assert pickle.loads(pickle.dumps(seen)) == text
    assert list(reversed(seen)) == list(reversed(text))
    assert [seen[i] for i in range(len(text))] == list(text)


@settings(deadline=None)
@given(texts, bounds, bounds, st.none() | st.integers(-5, 5), steps)
def test_indices_and_slices_are_those_of_the_text(text: str, a: Any, b: Any, c: Any, step: int) -> None:
    assert outcome(lambda: view(text, step)[a:b:c]) == outcome(lambda: text[a:b:c])
    if a is not None:
        assert outcome(lambda: view(text, step)[a]) == outcome(lambda: text[a])


@settings(deadline=None)
@given(texts, needles, bounds, bounds, steps)
@example("aaaaa", "aa", None, None, 4)
@example("ab" * 100, "b" + "ab" * 40, 3, None, 4)
@example("\ud83d\ude00", "\ude00", None, None, 4)
@example("ab", "", 3, None, 4)
@example("ab", "", 2, 1, 4)
def test_finding_gives_what_the_text_gives(text: str, needle: str, a: Any, b: Any, step: int) -> None:
    for name in ("find", "rfind", "index", "rindex", "count", "startswith", "endswith"):
        expected = outcome(lambda name=name: getattr(text, name)(needle, a, b))
        assert outcome(lambda name=name: getattr(view(text, step), name)(needle, a, b)) == expected, name
    pair = (needle, needle[:1])
    assert view(text, step).startswith(pair, a, b) == text.startswith(pair, a, b)
    assert view(text, step).endswith(pair, a, b) == text.endswith(pair, a, b)
    assert (needle in view(text, step)) == (needle in text)


@settings(deadline=None)
@given(texts, st.integers(0, 60), st.integers(1, 30), steps)
def test_what_is_in_the_text_is_found_in_the_view(text: str, start: int, length: int, step: int) -> None:
    needle, seen = text[start : start + length], view(text * 3, step)
    assert seen.find(needle) == (text * 3).find(needle)
    assert seen.rfind(needle) == (text * 3).rfind(needle)
    assert seen.count(needle) == (text * 3).count(needle)
    assert seen.find(view(needle)) == (text * 3).find(needle)  # type: ignore[arg-type]


@settings(deadline=None)
@given(texts, st.booleans(), steps)
@example("a\r" + "\n" * 9 + "long line without an end", False, 4)
@example("\r\n" * 20, True, 5)
def test_lines_are_those_of_splitlines(text: str, keepends: bool, step: int) -> None:
    assert list(view(text, step).lines(keepends)) == text.splitlines(keepends)


@settings(deadline=None)
@given(texts, texts, steps)
def test_equality_and_hash_are_those_of_the_text(text: str, other: str, step: int) -> None:
    seen = view(text, step)
    assert seen == text
    assert text == seen
    assert seen == view(text, 64)
    assert hash(seen) == hash(text)
    assert {text: 1}[seen] == 1  # type: ignore[index]
    assert (seen == other) == (text == other)
    assert (seen == view(other)) == (text == other)
    assert (seen != text + "a") is True
    assert seen != 1


PATTERNS = [
    *(
        "a",
        "b*",
        "a|",
        "^",
        "$",
        r"\Z",
        r"\A.",
        r"(?m)^.",
        r"(?m)$",
        r"\b",
        r"(?<=a)b",
        r"(?<!a)b",
        r"a(?=b)",
        r"a(?!b)",
    ),
    *(
        r"(a)|(?P<x>b)",
        r"[ab]+",
        r"(?:ab)+",
        r"\s+",
        r".",
        r"(?s).*",
        r"(?s)a.*",
        r"(?i)A",
        r"[^a]{2,3}",
        r"é|€",
        r"a??",
    ),
]


@settings(deadline=None)
@given(texts, st.sampled_from(PATTERNS), st.integers(4, 10), steps)
def test_matches_are_those_of_the_text(text: str, pattern: str, longest: int, step: int) -> None:
    def facts(match: Any) -> Any:
        groups = range(match.re.groups + 1)
        return [match.span(g) for g in groups], match.group(), match.groups(), match.groupdict(), match.lastgroup

    text *= 4
    expected = [facts(match) for match in re.finditer(pattern, text)]
    seen = view(text, step)
    assert [facts(match) for match in seen.finditer(pattern, longest=longest)] == expected
    assert [facts(match) for match in seen.finditer(re.compile(pattern))] == expected
    first = seen.search(pattern, longest=longest)
    assert (None if first is None else facts(first)) == (expected[0] if expected else None)


@settings(deadline=None)
@given(st.text("ab", min_size=1, max_size=400), st.sampled_from(["a*", "[ab]+", "(?:ab)+", "a+b?", "b(?=a)", "^a|b$"]))
def test_a_match_longer_than_its_window_is_found_whole(text: str, pattern: str) -> None:
    spans = [match.span() for match in view(text, 4).finditer(pattern, longest=4)]
    assert spans == [match.span() for match in re.finditer(pattern, text)]


def test_a_match_knows_its_groups_and_positions() -> None:
    match = view(". " * 500 + "key=value").search(r"(?P<k>\w+)=(\w+)(!)?", longest=50)
    assert match is not None
    plain = re.search(r"(?P<k>\w+)=(\w+)(!)?", ". " * 500 + "key=value")
    assert plain is not None
    assert (match.start(), match.end(2), match.span("k")) == (plain.start(), plain.end(2), plain.span("k"))
    assert (match.start(3), match[2], match.expand(r"\2")) == (-1, "value", "value")
    with pytest.raises(AttributeError):
        _ = match.string
    assert view("ABC").search("b", re.IGNORECASE) is not None


@settings(deadline=None)
@given(texts, needles)
def test_other_methods_of_str_work_too(text: str, needle: str) -> None:
    seen = view(text)
    assert seen.split() == text.split()
    assert outcome(lambda: seen.split(needle)) == outcome(lambda: text.split(needle))
    assert seen.splitlines() == text.splitlines()
    assert seen.replace("a", needle) == text.replace("a", needle)
    assert (seen.upper(), seen.strip(), seen.isdigit()) == (text.upper(), text.strip(), text.isdigit())
    assert outcome(seen.encode) == outcome(text.encode)


def test_what_str_does_not_have_a_view_does_not_have() -> None:
    with pytest.raises(AttributeError, match="no attribute 'read'"):
        view("a").read()
    with pytest.raises(TypeError):
        view("a").find(b"a")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _ = 1 in view("1")  # type: ignore[operator]
    with pytest.raises(AttributeError):
        view("a").name = 1  # type: ignore[attr-defined]
    assert "lower" in dir(view("a"))
    assert "lines" in dir(view("a"))


def test_the_repr_is_short() -> None:
    assert repr(view("The quick")) == "<TextView 9 chars: 'The quick'>"
    assert repr(TextView(b"x" * 104_857)) == f"<TextView 104,857 chars: '{'x' * 40}'…>"


def test_any_buffer_can_be_viewed(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("naïve €".encode())
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    for buffer in (mapped, path.read_bytes(), bytearray(path.read_bytes()), memoryview(path.read_bytes())):
        assert TextView(buffer) == "naïve €"
        assert TextView(buffer).find("€") == 6


def test_opening_and_near_reads_look_at_the_beginning_alone() -> None:
    seen = TextView(b"a" * 10_000_000)
    assert len(seen._at.starts) == 1
    assert (seen[:1000], seen[5], seen.startswith("aaa"), seen.find("a", 10)) == ("a" * 1000, "a", True, 10)
    assert next(seen.lines())[:1] == "a"
    assert len(seen._at.starts) == 2


def test_threads_may_read_at_once() -> None:
    text = "aé€\U0001f600" * 2000
    seen = view(text, 16)
    results: list[bool] = []

    def read(offset: int) -> None:
        results.append(all(seen[i] == text[i] for i in range(offset, len(text), 97)) and len(seen) == len(text))

    threads = [threading.Thread(target=read, args=(offset,)) for offset in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8
    assert seen._at.starts == sorted(set(seen._at.starts))
