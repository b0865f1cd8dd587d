"""Scripts in files: read as task files are."""

from __future__ import annotations

import pytest

from rlm.models.client import ask
from rlm.models.scripted import load_script, scripted_lm


def test_words_that_look_like_switches_are_texts(tmp_path):
    path = tmp_path / "replies.yaml"
    path.write_text("main: [yes, no, on, off, 2026-11-16, 12:30:45, y]\nsub: {on: off}\n")
    assert load_script(path) == {
        "main": ["yes", "no", "on", "off", "2026-11-16", "12:30:45", "y"],
        "sub": {"on": "off"},
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("main: [true]", "main is a list of texts"),
        ("main: [1]", "main is a list of texts"),
        ("main: [a\n", "line 2, column 1"),
        ("main: [a]\nmain: [b]", "line 2, column 1: 'main' is here already"),
        ("main: &a [x]\nsub: *a", "aliases are not read here"),
        ("other: [a]", "a script is a mapping with main, sub and extraction"),
        ("", "a script is a mapping"),
    ],
)
def test_what_is_wrong_with_a_script_is_said(tmp_path, text, problem):
    path = tmp_path / "replies.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"replies\.yaml: ") as caught:
        load_script(path)
    assert problem in str(caught.value)


async def test_a_scripted_model_answers_in_order():
    lm = scripted_lm(["one", "two"])
    assert [(await ask(lm, [("user", "x")])).text for _ in range(2)] == ["one", "two"]
    assert len(lm.history) == 2
