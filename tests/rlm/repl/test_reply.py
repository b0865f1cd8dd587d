"""What is found in a model's reply: its code, its reasoning, and what it should be told."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.repl import reply
from rlm.repl.reply import read_reply


@pytest.mark.parametrize("label", ["python", "py", "repl", "Python3", "", "tool_code", "python {.line}"])
def test_a_fence_of_any_label_is_code(label):
    step = read_reply(f"I will count.\n```{label}\nprint(1)\n```")
    assert (step.code, step.reasoning, step.hints) == ("print(1)", "I will count.", ())


@pytest.mark.parametrize("code", ["# I count the lines", "# first\n\n# then", ""])
def test_a_block_of_comments_is_no_code(code):
    step = read_reply(f"I count.\n```python\n{code}\n```")
    assert step.code is None
    assert step.hints == ((reply.ONLY_COMMENTS,) if code else (reply.NO_CODE,))


def test_comments_beside_code_are_part_of_it():
    assert read_reply("```python\n# count\nprint(1)\n```").code == "# count\nprint(1)"
    assert read_reply("```python\n# to do\n```\n```python\nprint(1)\n```").code == "# to do\nprint(1)"


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
    assert step.hints == (reply.NO_CODE,)


def test_a_submit_in_words_is_told_to_run():
    step = read_reply("I am done. SUBMIT(answer=32) is my answer.")
    assert (step.code, step.hints) == (None, (reply.SUBMIT_IN_WORDS,))


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
    assert step.hints == (reply.INVENTED_OUTPUT,)


def test_a_printed_submit_is_remarked_on():
    assert reply.PRINTED_SUBMIT in read_reply("```python\nprint(f'SUBMIT(answer={n})')\n```").hints


def test_a_block_of_data_before_the_code_is_not_run():
    assert read_reply('The shape:\n```json\n{"a": 1}\n```\n```python\nprint(1)\n```').code == "print(1)"


@given(st.text(max_size=300) | st.text(alphabet="`~ \npython:Output()SUBMIT<think>/", max_size=200))
def test_any_text_is_a_step(text):
    step = read_reply(text)
    assert step.code is not None or step.hints


# -- where a block ends


FENCES = "md = '''\n```\ncode\n```\n'''\nSUBMIT(b=len(md))"


def test_a_fence_in_a_string_does_not_end_the_code():
    step = read_reply(f"So:\n```python\n{FENCES}\n```\nThat is all.")
    assert (step.code, step.reasoning, step.hints) == (FENCES, "So:\n\nThat is all.", ())
    assert read_reply(f"```python\n{FENCES}").code == FENCES
    assert read_reply(f"```\n{FENCES}\n```\n```python\nprint(1)\n```").code == f"{FENCES}\nprint(1)"
    assert read_reply(FENCES).code == FENCES


def test_many_fences_in_a_string_do_not_end_the_code():
    code = 's = """\n' + "it's\n```sh\nls\n```\n" * 200 + '"""\nprint(s)'
    assert read_reply(f"```python\n{code}\n```").code == code


def test_code_that_compiles_nowhere_ends_at_its_first_fence():
    step = read_reply("```python\nx = '''\n```\nthen\n```python\nprint(1)\n```")
    assert step.code == "x = '''\nprint(1)"


LINES = [
    "```",
    "~~~",
    "```python",
    "```text",
    "<think>",
    "</think>",
    "Output: 7",
    "# it's",
    '"""',
    "a\u2028b",
    "\x0c",
    "\x85",
]


@given(st.lists(st.sampled_from(LINES) | st.text(alphabet='ab `~"#<>\u2029', max_size=8), max_size=12))
def test_a_string_is_read_as_it_was_written(lines):
    code = "\n".join(["x = '''", *lines, "'''", "print(x)"])
    step = read_reply(f"Go.\n```python\n{code}\n```")
    assert (step.code, step.reasoning, step.hints) == (code, "Go.", ())


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0c", "\x0b", "\x1c"])
def test_only_a_newline_ends_a_line_of_code(end):
    assert read_reply(f"```python\ns = 'a{end}b'\nSUBMIT(b=len(s))\n```").code == f"s = 'a{end}b'\nSUBMIT(b=len(s))"


def test_the_line_ends_of_other_systems_are_newlines():
    step = read_reply("One:\r\n```python\r\nx = 1\r\n```\r\nTwo:\r\n```python\r\nprint(x)\r\n```\r\n")
    assert (step.code, step.reasoning) == ("x = 1\nprint(x)", "One:\n\nTwo:")


def test_a_block_on_one_line_is_code_if_it_says_so():
    assert read_reply("Done: \n```python SUBMIT(b=5)```").code == "SUBMIT(b=5)"
    assert read_reply("```SUBMIT(b=5)```").hints == (reply.SUBMIT_IN_WORDS,)


# -- thoughts


@pytest.mark.parametrize(
    "code",
    ["x = doc.split('<think>')\nSUBMIT(b=len(x))", "x = re.sub('<think>.*?</think>', '', doc)\nSUBMIT(b=len(x))"],
)
def test_a_thought_in_code_is_code(code):
    assert read_reply(f"<think>first</think>So:\n```python\n{code}\n```").code == code
    assert read_reply(code).code == code


def test_a_fence_right_behind_a_thought_opens_a_block():
    step = read_reply("<think>So\n```python\nbad()\n```\n</think>```python\ngood()\n```<think>more</think>")
    assert (step.code, step.reasoning) == ("good()", "So\n```python\nbad()\n```\n\nmore")
    step = read_reply("<think>So\n```python\nbad()\n```\n</think> ```python\ngood()\n```")
    assert (step.code, step.reasoning) == ("good()", "So\n```python\nbad()\n```")


# -- outputs that the model made up, and blocks that are not Python


CODE = "```python\nn = len(doc)\nprint(n)\n```\n"
SUBMITS = "\n```python\nSUBMIT(b=42)\n```"


@pytest.mark.parametrize(
    "claim",
    [
        "Observation: 42",
        "**Observations:**\n42",
        "Observation: the document has many lines.",
        "Output: the number of lines.",
        "The output is:\n```\ncount = 42\n```",
        "The output is: 42",
        "The output was 42.",
        "The result will be 1,042, so:",
        "which prints\n```\ncount = 42\n```",
        "This prints: 42",
        "It printed `42`.",
        "prints:\n\n    42",
        "stdout:\n42",
        "### REPL output:\n42",
        "Expected output:\n42",
        "Out[1]: 42",
        "Result: The Name of the Rose",
        "Result: not found",
        "The code prints 'a b'.",
        "📤 Output: 42",
        "```\n42\n```",
        "```\nFound 1 item\n```",
        "We see\n```\ntotal: 5\n```",
        "```\n['a', 'b']\n```",
        "```whatever\n42 lines\n```",
        "```tool_output\n42\n```",
    ],
)
def test_what_a_model_says_that_its_code_printed_ends_the_code(claim):
    step = read_reply(f"Count.\n{CODE}{claim}{SUBMITS}")
    assert step.code == "n = len(doc)\nprint(n)"
    assert step.hints == (reply.INVENTED_OUTPUT,)
    assert read_reply(f"Count.\n{CODE}{claim}").hints == (reply.INVENTED_OUTPUT,)


@pytest.mark.parametrize(
    "prose",
    [
        "Result: is used below.",
        "Result: we use it",
        "Result: it's what the next block submits.",
        "The result is stored in `n`.",
        "The output is short, so I submit it:",
        "This prints the first 100 characters.",
        "This prints 100,000 characters at most.",
        "It prints 3 lines of it, then:",
        "Print 5.",
        "The outputs are counted now.",
        "Returns: the number of lines.",
        "I look at the output: then I submit.",
    ],
)
def test_prose_between_two_blocks_is_prose(prose):
    step = read_reply(f"Count.\n{CODE}{prose}{SUBMITS}")
    assert step.code == "n = len(doc)\nprint(n)\nSUBMIT(b=42)"
    assert step.hints == ()
    assert prose in step.reasoning


def test_an_output_after_broken_code_ends_it_too():
    step = read_reply("```\nprint(n\n```\nOutput: 42" + SUBMITS)
    assert (step.code, step.hints) == ("print(n", (reply.INVENTED_OUTPUT,))


def test_an_unlabelled_block_of_python_is_code_after_another():
    assert read_reply(f"{CODE}then\n```\nSUBMIT(b=n)\n```").code == "n = len(doc)\nprint(n)\nSUBMIT(b=n)"


@pytest.mark.parametrize("label", ["bash", "sh", "shell", "Bash", "sql", "js", "c", "c++", "rust", "", "install"])
def test_a_block_that_is_not_python_is_not_run(label):
    step = read_reply(f"Install:\n```{label}\npip install foo\n```\nthen\n```python\nSUBMIT(b=3)\n```")
    assert (step.code, step.reasoning) == ("SUBMIT(b=3)", "Install:\n\nthen")
    assert step.hints == (reply.NOT_RUN.format("`pip install foo`"),)


def test_a_block_in_another_language_after_the_code_is_not_run():
    step = read_reply("```python\nx = 1\n```\n```bash\nls\n```\n```sql\nselect 1\n```\n```python\nprint(x)\n```")
    assert (step.code, step.hints) == ("x = 1\nprint(x)", (reply.NOT_RUN.format("`ls` (and 1 more)"),))


def test_a_reply_in_another_language_has_no_code():
    step = read_reply("```bash\nls -la\n```")
    assert (step.code, step.hints) == (None, (reply.NOT_RUN.format("`ls -la`"), reply.NO_CODE))


@pytest.mark.parametrize("label", ["python", "", "whatever"])
def test_a_single_block_that_is_not_python_is_code(label):
    step = read_reply(f"```{label}\nfor x in\n```")
    assert (step.code, step.hints) == ("for x in", ())


def test_a_sentence_that_parses_as_a_declaration_is_not_code():
    assert read_reply("Answer: 42").hints == (reply.NO_CODE,)


# -- hostile replies


PIECES = [
    "```",
    "~~~",
    "````",
    "```python",
    "```bash",
    "```x`",
    "\n",
    "\n\n",
    " ",
    "\t",
    "\r",
    "<think>",
    "</think>",
    "Output:",
]
PIECES += [
    "Result: ",
    "the output is ",
    "prints",
    "'''",
    '"""',
    "'",
    '"',
    "\\",
    "#",
    "x = 1",
    "SUBMIT(",
    ")",
    "print(",
    "7",
]
PIECES += ["-", "\0", "\ud800", "\u2028", "\x0c", "é"]


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join) | st.text(max_size=200))
def test_no_reply_raises(text):
    step = read_reply(text)
    assert step.code is not None or step.hints


HOSTILE = r"""
import resource
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from rlm.repl.reply import read_reply

CODE, Q = "```python\nprint(1)\n```\n", "\'" * 3
pieces = ["-\n", "- ", "\n", " ", "|---|\n", "_", "*", "`", "```\n", "```x\n", "```x`\n", "~~~\n```\n", "````\n```\n"]
pieces += ["<think>", "<think>\n```\n", "</think>```", "<think></think>```\n", "Output"]
pieces += ["output is ", "the ", "which prints ", "Result: a\n", "Result: a b c\n", "SUBMIT ", "print (", "("]
pieces += ["'", '"', Q, Q + "\n```\n", "\\" + Q + "\n```\n", "```\nx y\n```\n", "```bash\nls\n```\n", "``` ", "\r"]
pieces += ["```python\n\\" + Q + "\n```\n", "```python\nx x " + Q + "\n```\n", "```python x```\n", "x y\n", "\\"]
texts = [(head, piece) for head in ("", CODE) for piece in pieces]
for head in ("Output", "prints ", "prints [", "output is 1", "``` "):
    texts += [(CODE + head, piece) for piece in (" ", "1,", "] ", "_*")]
for head in ("```python\n" + Q, "```\nprint(\n```\n"):
    texts += [(head, piece) for piece in (" ", "\n", "'", "```\n", "```x\n\\" + Q + "\n```\n")]
for head, piece in texts:
    read_reply(head + piece * (200_000 // len(piece)) + "x")
print("read", len(texts))
"""


def test_hostile_replies_take_time_that_grows_with_their_length_only():
    # A search that is quadratic takes minutes of processor time for a single one of them.
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, timeout=110, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "read 110\n"
