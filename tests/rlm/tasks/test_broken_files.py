"""What is said of task files that were broken on purpose: where the mistake is, and what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from rlm.tasks import TaskError, load

HEAD = "signature: 'doc: str -> n: int'\ninputs: {doc: x}\n"
MODEL = "models: openai/gpt-5-mini\n"


def problems(folder: Any, text: str) -> list[str]:
    (folder / "task.yaml").write_text(text)
    with pytest.raises(TaskError) as caught:
        load(folder / "task.yaml")
    return [str(problem).partition("task.yaml:")[2] for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("max_iterations: 5", "3:1: max_iterations is not known; it belongs under `budget:`"),
        ("memory_bytes: 1GB", "3:1: memory_bytes is not known; it belongs under `sandbox:`"),
        ("budgets: {}", "3:1: budgets is not known; did you mean budget?"),
    ],
)
def test_a_key_of_a_section_at_the_top_names_the_section(tmp_path: Any, key: str, said: str) -> None:
    assert said in problems(tmp_path, f"{HEAD}{key}\n{MODEL}")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("anthropic/claude-sonnet-4-5", "name the variable that holds it: `api_key_env: ANTHROPIC_API_KEY`"),
        ("of-our-own/model", "name the variable that holds it: `api_key_env: OPENAI_API_KEY`"),
        ("bedrock/some.model", "bedrock takes credentials of AWS: AWS_ACCESS_KEY_ID"),
        ("vertex_ai/gemini", "vertex_ai takes the default credentials of Google Cloud"),
        ("azure/deployment", "(`api_key_env: AZURE_API_KEY`), with `api_base:` and `api_version:`"),
    ],
)
def test_a_key_in_the_file_gets_the_advice_of_its_provider(tmp_path: Any, model: str, said: str) -> None:
    (problem,) = problems(tmp_path, f"{HEAD}models: {{main: {{model: {model}, api_key: sk-secret}}}}\n")
    assert "a key never belongs in the file" in problem
    assert said in problem
    assert "sk-secret" not in problem


@pytest.mark.parametrize("word", ["yes", "No", "on", "off"])
def test_a_word_of_yaml_1_1_for_a_bool_gets_the_right_words(tmp_path: Any, word: str) -> None:
    text = f"signature: 'ok: bool -> n: int'\ninputs: {{ok: {word}}}\n{MODEL}"
    assert problems(tmp_path, text) == [f'2:14: inputs.ok: expected bool, got "{word}" (a string); write true or false']


def test_a_pdf_is_named_although_its_bytes_are_utf8(tmp_path: Any) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4\n\0\1")
    text = f"signature: 'doc: str -> n: int'\ninputs: {{doc: {{file: a.pdf}}}}\n{MODEL}"
    assert "a.pdf is a PDF; have code read it" in problems(tmp_path, text)[0]


def test_all_bad_checks_are_reported(tmp_path: Any) -> None:
    found = problems(tmp_path, f'{HEAD}{MODEL}checks: ["n >", "m > 0", "len(doc) > 0", "import os"]\n')
    assert len(found) == 4
    assert [f"checks[{index}]" in one for index, one in enumerate(found)] == [True] * 4


@pytest.mark.parametrize("key", ["url", "csv"])
def test_a_source_that_there_is_not_is_a_warning_where_any_value_is_taken(tmp_path: Any, key: str) -> None:
    (tmp_path / "task.yaml").write_text(f"signature: 'doc -> n: int'\ninputs: {{doc: {{{key}: a}}}}\n{MODEL}")
    (warning,) = load(tmp_path / "task.yaml").warnings
    known = "sources are file, glob, folder, stdin, json, value, mcp."
    assert f"inputs.doc is a mapping with the key '{key}'; {known}" in str(warning)


def test_an_unknown_provider_is_said_once_of_all_roles(tmp_path: Any) -> None:
    from rlm.cli.preflight import model_warnings

    (tmp_path / "task.yaml").write_text(f"{HEAD}models: opnai/gpt-5\n")
    assert model_warnings(load(tmp_path / "task.yaml")) == [
        "the main model opnai/gpt-5: the provider 'opnai' is not known here; did you mean openai?"
    ]


TASK = 'signature: "doc -> answer: str"\nmodels: openai/gpt-5-mini\ninputs: {doc: hi}\n'
BROKEN: dict[str, tuple[str, list[str]]] = {
    "empty": ("", ["1:1: a task file is a mapping that begins with `signature:`; `rlm init` writes an example"]),
    "only comment": (
        "# x\n",
        ["1:1: a task file is a mapping that begins with `signature:`; `rlm init` writes an example"],
    ),
    "list": ("- a\n", ["1:1: a task file is a mapping that begins with `signature:`; `rlm init` writes an example"]),
    "text": ("hello\n", ["1:1: a task file is a mapping that begins with `signature:`; `rlm init` writes an example"]),
    "number": ("3\n", ["1:1: a task file is a mapping that begins with `signature:`; `rlm init` writes an example"]),
    "tab": ('signature:\t"a -> b"\n\tmodels: x\n', ["1:11: a tab; indent with spaces"]),
    "unclosed": ('signature: "a -> b\n', ["1:12: a quote is opened here and never closed"]),
    "brace": (
        "signature: a -> b\ninputs: {a: 1\n",
        ["3:1: the bracket opened in line 2, column 9 is not closed, or a ',' is missing before this"],
    ),
    "dupkey": (TASK + "models: x/y\n", ["4:1: 'models' is already in line 2; keep one"]),
    "two docs": (
        TASK + '---\nsignature: "doc -> answer: str"\nmodels: openai/gpt-5-mini\ninputs: {doc: hi}\n',
        ["4:1: a second document ('---'); a file holds one"],
    ),
    "sig none": (
        "models: openai/gpt-5-mini\n",
        ['1:1: signature is missing; add `signature: "doc: str -> answer: str"`'],
    ),
    "sig list": (TASK.replace('"doc -> answer: str"', "[a]"), ["1:12: signature must be text, not a list"]),
    "sig noarrow": (
        TASK.replace(" -> answer: str", ""),
        ["1:12: signature: this is neither 'inputs -> outputs', as in 'doc: str -> title: str', nor module:Class"],
    ),
    "sig noout": (TASK.replace(" answer: str", ""), ["1:19: signature: no outputs after '->'"]),
    "sig type": (TASK.replace("tr", "trin"), ["1:28: signature: unknown type 'strin'; did you mean 'str'?"]),
    "sig dup": (TASK.replace("answer", "doc"), ["1:20: signature: 'doc' is a field already"]),
    "sig kw": (
        TASK.replace("answer", "class"),
        ["1:20: signature: 'class' is a keyword of Python; name the field otherwise"],
    ),
    "sig reserved": (
        TASK.replace("answer", "SUBMIT"),
        ["1:12: signature: signature 'Task': 'SUBMIT' would hide a name of the REPL; rename it"],
    ),
    "input missing": (
        TASK.replace("doc: hi", ""),
        ["3:1: input doc (str) is missing; add it under `inputs:`, or with -i doc=VALUE"],
    ),
    "input extra": (
        TASK.replace("hi", "hi, dok: x"),
        ["3:19: inputs.dok is not an input of the signature; did you mean doc?"],
    ),
    "input typo": (
        TASK.replace("{doc", "{dok"),
        [
            "3:1: input doc (str) is missing; add it under `inputs:`, or with -i doc=VALUE",
            "3:10: inputs.dok is not an input of the signature; did you mean doc?",
        ],
    ),
    "input type": (TASK.replace('"doc', '"doc: int'), ['3:15: inputs.doc: expected int, got "hi" (a string)']),
    "input 2src": (
        TASK.replace("hi", '{file: doc.txt, glob: "*"}'),
        ["3:31: inputs.doc has two sources; keep one of file, glob, folder, stdin, json, value, mcp"],
    ),
    "input list": (
        TASK.replace("{doc: hi}", "[a]"),
        [
            "3:1: input doc (str) is missing; add it under `inputs:`, or with -i doc=VALUE",
            "3:9: inputs must be a mapping, not a list",
        ],
    ),
    "model int": (TASK.replace("openai/gpt-5-mini", "3"), ["2:9: models must be a mapping, not 3 (an integer)"]),
    "model key": (
        TASK.replace("openai/gpt-5-mini", "{main: {model: openai/gpt-5-mini, api_key: sk-xyzxyzxyz}}"),
        [
            "2:43: models.main.api_key: a key never belongs in the file; name the variable that holds "
            "it: `api_key_env: OPENAI_API_KEY`"
        ],
    ),
    "model role": (
        TASK.replace("openai/gpt-5-mini", "{man: openai/gpt-5-mini}"),
        ["2:10: models.man is not known; did you mean main?"],
    ),
    "model opt": (
        TASK.replace("openai/gpt-5-mini", "{main: {model: openai/gpt-5-mini, temprature: 1}}"),
        ["2:43: models.main.temprature is not known; did you mean temperature?"],
    ),
    "model temp": (
        TASK.replace("openai/gpt-5-mini", "{main: {model: openai/gpt-5-mini, temperature: hot}}"),
        ['2:56: models.main.temperature must be a number, not "hot" (a string)'],
    ),
    "model singular": (TASK.replace("ls", "l"), ["2:1: model is not known; did you mean models?"]),
    "top typo": (TASK + "budgt: {max_iterations: 3}\n", ["4:1: budgt is not known; did you mean budget?"]),
    "budget typo": (
        TASK + "budget: {max_iteration: 3}\n",
        ["4:10: budget.max_iteration is not known; did you mean max_iterations?"],
    ),
    "budget neg": (
        TASK + "budget: {max_iterations: -3}\n",
        ["4:26: budget.max_iterations must be greater than or equal to 0, not -3 (an integer)"],
    ),
    "budget str": (
        TASK + "budget: {max_iterations: many}\n",
        ['4:26: budget.max_iterations must be a whole number, not "many" (a string)'],
    ),
    "budget bool": (
        TASK + "budget: {max_iterations: yes}\n",
        ['4:26: budget.max_iterations must be a whole number, not "yes" (a string)'],
    ),
    "budget dur": (
        TASK + "budget: {max_duration: 5 minutes}\n",
        ["4:24: budget.max_duration: a duration is a number of seconds or a text such as 90s, 5m or 1h30m"],
    ),
    "budget float": (
        TASK + "budget: {max_iterations: 2.5}\n",
        ["4:26: budget.max_iterations must be a whole number, not 2.5 (a number)"],
    ),
    "budget list": (TASK + "budget: [3]\n", ["4:9: budget must be a mapping, not a list"]),
    "limits typo": (
        TASK + "sandbox: {limits: {cell_second: 3}}\n",
        ["4:11: sandbox.limits is not known; write the limits under `sandbox:` itself"],
    ),
    "limits top": (
        TASK + "limits: {cell_seconds: 3}\n",
        ["4:1: limits is not known; limits of the kernel belong under `sandbox:`"],
    ),
    "policy": (TASK + "policy: none\n", ["4:1: policy is not known; it belongs under `sandbox:`"]),
    "check typo": (
        TASK + "checks: [\"anwser != ''\"]\n",
        ["4:11: checks[0]: 'anwser' is not an output; did you mean answer?"],
    ),
    "check syntax": (
        TASK + 'checks: ["answer ==", "len(answer", "answer = 3", "import os"]\n',
        [
            "4:11: checks[0]: not a Python expression: invalid syntax",
            "4:27: checks[1]: not a Python expression: '(' was never closed",
            "4:45: checks[2]: `=` assigns a value; `==` compares",
            "4:52: checks[3]: not a Python expression: invalid syntax",
        ],
    ),
    "mode": (TASK + "mode: fast\n", ["4:7: mode must be 'repl', 'auto', 'direct' or 'map', not \"fast\" (a string)"]),
    "adapter": (
        TASK + "adapter: outline\n",
        [
            "4:10: adapter must be 'chat', 'json', 'outlines' or 'two-step', not \"outline\" (a string); "
            "did you mean outlines?"
        ],
    ),
    "plans": (
        TASK + "plans: {count: 0}\n",
        ["4:16: plans.count must be greater than or equal to 1, not 0 (an integer)"],
    ),
    "conf": (
        TASK + "confidence: {accept_at: 2}\n",
        ["4:1: confidence.calibrator is missing", "4:25: confidence.accept_at must be a mapping, not 2 (an integer)"],
    ),
    "agree": (TASK + "agree: 0\n", ["4:8: agree must be greater than or equal to 1, not 0 (an integer)"]),
    "retries": (
        TASK.replace("openai/gpt-5-mini", "{main: {model: openai/gpt-5-mini, num_retries: -1}}"),
        ["2:56: models.main.num_retries must be greater than or equal to 0, not -1 (an integer)"],
    ),
    "anchor": (TASK + "x: *nope\n", ["4:4: *nope: aliases are not read here; write the value again"]),
    "bomb": (
        "a: &a [x, x]\nb: &b [*a, *a]\n" + TASK,
        ["2:8: *a: aliases are not read here; write the value again"],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_gets_a_message_with_the_place_and_what_to_write(tmp_path: Any, name: str) -> None:
    text, said = BROKEN[name]
    assert problems(tmp_path, text) == said
