"""What is found in a model's reply: its code, its reasoning, and what it should be told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.repl import reply
from rlm.repl.reply import read_reply


@pytest.mark.parametrize("label", ["python", "py", "repl", "Python3", "", "tool_code", "python {.line}"])
def test_a_fence_of_any_label_is_code(label):
    step = read_reply(f"I will count.\n```{label}\nprint(1)\n```")
    assert (step.code, step.reasoning, step.remarks) == ("print(1)", "I will count.", ())


def test_several_blocks_are_run_as_one():
    assert read_reply("First\n```python\nx = 1\n```\nthen\n```python\nprint(x)\n```").code == "x = 1\nprint(x)"


def test_tildes_and_long_fences_and_an_open_end_are_fences_too():
    assert read_reply("~~~\nx = 1\n~~~").code == "x = 1"
    assert read_reply("````python\ns = '```'\n````").code == "s = '```'"
    assert read_reply("```python\nprint('cut off').").code == "print('cut off')."


def test_an_indented_block_is_taken_to_the_margin():
    assert (
        read_reply("1. So:\n   ```python\n   for i in x:\n       print(i)\n   ```").code == "for i in x:\n    print(i)"
    )


def test_thinking_is_reasoning_and_never_code():
    step = read_reply("<think>maybe ```python\nbad()\n```</think>Now:\n```python\ngood()\n```")
    assert step.code == "good()"
    assert "maybe" in step.reasoning


@pytest.mark.parametrize(
    "text",
    [
        "SUBMIT(answer=32)",
        "n = 5\nSUBMIT(answer=n)",
        "import re\nprint(re.findall('x', doc))",
        "for i in doc:\n    pass",
    ],
)
def test_bare_code_without_a_fence_is_code(text):
    assert read_reply(text).code == text


@pytest.mark.parametrize("text", ["The answer is 42.", "", "hello", "42", "yes", "Let me think (about it)."])
def test_a_reply_without_code_says_so(text):
    step = read_reply(text)
    assert step.code is None
    assert step.remarks == (reply.NO_CODE,)


def test_a_submit_in_words_is_told_to_run():
    step = read_reply("I am done. SUBMIT(answer=32) is my answer.")
    assert (step.code, step.remarks) == (None, (reply.SUBMIT_IN_WORDS,))


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(n)\n```\nOutput:\n```\n7\n```\n```python\nSUBMIT(answer=7)\n```",
        "```python\nprint(n)\n```\n```output\n7\n```\n```python\nSUBMIT(answer=7)\n```",
        "```python\nprint(n)\n```\n**Result:** 7\n\n```python\nSUBMIT(answer=7)\n```",
    ],
)
def test_an_output_that_the_model_made_up_ends_its_code(text):
    step = read_reply(text)
    assert step.code == "print(n)"
    assert step.remarks == (reply.INVENTED_OUTPUT,)


def test_a_printed_submit_is_remarked_on():
    assert reply.PRINTED_SUBMIT in read_reply("```python\nprint(f'SUBMIT(answer={n})')\n```").remarks


def test_a_block_of_data_before_the_code_is_not_run():
    assert read_reply('The shape:\n```json\n{"a": 1}\n```\n```python\nprint(1)\n```').code == "print(1)"


@given(st.text(max_size=300) | st.text(alphabet="`~ \npython:Output()SUBMIT<think>/", max_size=200))
def test_any_text_is_a_step(text):
    step = read_reply(text)
    assert step.code is not None or step.remarks
