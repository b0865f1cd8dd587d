"""Task files: what they give, and what is said about those that are wrong."""

from __future__ import annotations

import dataclasses
import datetime
import io
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from rlm.budgets import FallbackTrigger
from rlm.tasks import Overrides, Task, TaskError, json_schema, load
from rlm.tasks.schema import BudgetFile, SandboxFile
from rlm.tasks.yaml_document import MAX_BYTES
from rlm.units import parse_duration, parse_size, size_text
from sandbox import Limits

GOOD = """\
signature: "doc: str -> answer: int"
inputs: {doc: some text}
models: openai/gpt-5-mini
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Writes files into a folder of their own, which is the working directory; gives the path of the first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def write(text: str, **others: str) -> str:
        Path("task.yaml").write_text(textwrap.dedent(text))
        for name, content in others.items():
            Path(name.replace("__", ".")).write_text(textwrap.dedent(content))
        return "task.yaml"

    yield write
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def problems(path: str, overrides: Overrides | None = None) -> list[str]:
    with pytest.raises(TaskError) as caught:
        load(path, overrides)
    return [str(one) for one in caught.value.problems]


# What a file gives -------------------------------------------------------------------------------------------------


def test_a_short_file_is_enough(write: Any) -> None:
    task = load(write(GOOD))
    assert task.inputs == {"doc": "some text"}
    assert task.models.main.model == task.models.sub.model == task.models.extraction.model == "openai/gpt-5-mini"
    assert task.trigger == FallbackTrigger()
    assert task.limits == Limits()
    assert (task.isolation, task.policy, task.depth, task.checks, task.tools) == ("auto", "enforce", 1, [], {})
    assert task.path == Path("task.yaml").absolute()


def test_every_key_arrives_in_the_task(write: Any) -> None:
    path = write(
        """\
        signature: "doc: str, n: int = 3 -> answer: int, why: str"
        instructions: Count.
        inputs: {doc: text}
        models:
          main: {model: openai/a, temperature: 0.5, api_base: "http://localhost:1/v1", api_key_env: MY_KEY,
                 timeout: 2m, options: {top_k: 3}}
          sub: openai/b
        budget: {preset: strict, max_duration: 1h30m, max_cost_usd: 0.5}
        sandbox: {memory_bytes: 512MB, cell_seconds: 5, isolation: landlock, policy: warn}
        tools: ["kit:look"]
        checks: ["answer >= 0", "len(why) > 2 and all(c for c in why)"]
        depth: 2
        """,
        kit__py="def look(x): return x + 1",
    )
    task = load(path)
    assert task.signature.instructions == "Count."
    assert task.inputs == {"doc": "text", "n": 3}
    main = task.models.main
    assert (main.model, main.api_key_env) == ("openai/a", "MY_KEY")
    assert main.options == {"temperature": 0.5, "api_base": "http://localhost:1/v1", "timeout": 120.0, "top_k": 3}
    assert (task.models.sub.model, task.models.extraction) == ("openai/b", main)
    assert task.trigger == dataclasses.replace(FallbackTrigger.strict(), max_duration=5400.0, max_cost_usd=0.5)
    assert task.limits == Limits(memory_bytes=512_000_000, cell_seconds=5.0)
    assert (task.isolation, task.policy, task.depth) == ("landlock", "warn", 2)
    assert task.tools["look"](1) == 2
    assert len(task.checks) == 2


def test_the_key_is_read_when_it_is_used_and_is_in_no_text(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(GOOD.replace("openai/gpt-5-mini", "{main: {model: openai/a, api_key_env: MY_KEY}}"))
    task = load(path)
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    assert task.models.main.lm_options() == {"api_key": "sk-very-secret"}
    assert "sk-very-secret" not in repr(task)


def test_an_endpoint_of_ones_own_needs_no_key(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(GOOD.replace("openai/gpt-5-mini", "{main: {model: openai/a, api_base: 'http://localhost:1/v1'}}"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert load(path).models.main.lm_options()["api_key"]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    assert "api_key" not in load(path).models.main.lm_options()


def test_inputs_come_from_values_files_globs_json_and_standard_input(write: Any) -> None:
    path = write(
        """\
        signature: >-
          doc: str, parts: list[str], by_name: dict[str, str], rows: list[dict[str, int]], day: date,
          piped: str, options: dict[str, Any] -> answer: str
        inputs:
          doc: {file: a.txt}
          parts: {glob: "*.txt"}
          by_name: {glob: "*.txt"}
          rows: {json: rows.json}
          day: 2026-11-16
          piped: {stdin: true}
          options: {value: {file: not a file}}
        models: m
        """,
        a__txt="first",
        b__txt="second",
        rows__json='[{"n": 1}]',
    )
    task = load(path, read_stdin=lambda: "from the pipe")
    assert task.inputs == {
        "doc": "first",
        "parts": ["first", "second"],
        "by_name": {"a.txt": "first", "b.txt": "second"},
        "rows": [{"n": 1}],
        "day": datetime.date(2026, 11, 16),
        "piped": "from the pipe",
        "options": {"file": "not a file"},
    }


def test_files_are_found_by_whole_paths_and_from_home(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "a.txt").write_text("A")
    monkeypatch.setenv("HOME", str(home))
    path = write(
        f"""\
        signature: "one: str, all: dict[str, str], some: list[str] -> answer: str"
        inputs: {{one: {{file: ~/a.txt}}, all: {{glob: "{home}/*.txt"}}, some: {{glob: ~/*.txt}}}}
        models: m
        """
    )
    monkeypatch.chdir(home)
    inputs = load(tmp_path / path).inputs
    assert inputs == {"one": "A", "all": {"home/a.txt": "A"}, "some": ["A"]}


def test_paths_are_relative_to_the_file(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(GOOD.replace("some text", "{file: a.txt}"), a__txt="here")
    monkeypatch.chdir("/")
    assert load(tmp_path / "task.yaml").inputs == {"doc": "here"}


def test_words_mean_what_editors_say_they_mean(write: Any) -> None:
    path = write(
        """\
        signature: "a: str, b: str, c: str, d: float, e: int -> x: int"
        inputs: {a: no, b: 12:30:45, c: 2026-01-01, d: 1e3, e: 0x10}
        models: m
        """
    )
    assert load(path).inputs == {"a": "no", "b": "12:30:45", "c": "2026-01-01", "d": 1000.0, "e": 16}


def test_a_signature_class_is_imported_from_beside_the_file(write: Any) -> None:
    # By its shape, as `Signature.of` asks for it; a real dspy class is used in the tests of signatures.
    module = """\
        from types import SimpleNamespace
        from pydantic import BaseModel
        from pydantic.fields import FieldInfo

        def field(kind):
            return FieldInfo(annotation=kind)

        class Count(BaseModel):
            pass

        Count.input_fields = {"doc": field(str)}
        Count.output_fields = {"answer": field(int)}
        Count.instructions = "Count the words."
        """
    path = write(GOOD.replace('"doc: str -> answer: int"', "shapes_of_a_task:Count"), shapes_of_a_task__py=module)
    task = load(path)
    assert task.signature.name == "Count"
    assert [one.name for one in task.signature.outputs] == ["answer"]


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("nowhere_at_all:Count", "there is no module 'nowhere_at_all'"),
        ("beside:Cuont", "has no 'Cuont'; did you mean Count?"),
        ("beside:Count", "ZeroDivisionError"),
        ("ending:Count", "'ending' cannot be imported: SystemExit: 0"),
        ("json:loads", "a signature is a dspy.Signature class"),
        ("just words", "neither 'inputs -> outputs'"),
        ("'doc: str'", "'->' and the outputs are missing"),
        ("doc:str", "'->' and the outputs are missing"),
        ("'doc: str, n: int'", "'->' and the outputs are missing"),
    ],
)
def test_a_signature_that_cannot_be_imported_is_explained(write: Any, reference: str, said: str) -> None:
    beside = {"beside__py": "class Count: pass\n1 / 0\n", "ending__py": "class Count: pass\nraise SystemExit(0)\n"}
    path = write(GOOD.replace('"doc: str -> answer: int"', reference), **beside)
    (problem,) = problems(path)
    assert problem.startswith("task.yaml:1:12: signature: ")
    assert said in problem


def test_reading_a_task_does_not_import_dspy_or_its_tools(write: Any) -> None:
    path = write(GOOD + "tools: ['kit:look']\n", kit__py="raise SystemExit('imported')\ndef look(): pass\n")
    code = f"import sys; from rlm.tasks import load; load({path!r}); sys.exit('dspy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# What the command line changes -------------------------------------------------------------------------------------


def test_options_replace_what_the_file_says(write: Any) -> None:
    path = write(
        """\
        signature: "doc: str, n: int, tags: list[str], day: date -> answer: int"
        inputs: {doc: {file: missing.txt}, n: 1}
        models: {main: m, sub: s}
        budget: {max_iterations: 9, max_tokens: 5}
        """,
        a__txt="from a file",
    )
    given = {"doc": "@a.txt", "n": "5", "tags": '["x"]', "day": "2026-01-02"}
    task = load(path, Overrides(given, {"main": "other"}, {"max_iterations": 2}))
    assert task.inputs == {"doc": "from a file", "n": 5, "tags": ["x"], "day": datetime.date(2026, 1, 2)}
    assert (task.models.main.model, task.models.sub.model) == ("other", "s")
    assert (task.trigger.max_iterations, task.trigger.max_tokens) == (2, 5)


def test_text_stays_text_where_the_signature_takes_text(write: Any) -> None:
    path = write(GOOD)
    assert load(path, Overrides({"doc": "5"})).inputs == {"doc": "5"}
    assert load(path, Overrides({"doc": "@@home"})).inputs == {"doc": "@home"}
    assert load(path, Overrides({"doc": "@-"}), read_stdin=lambda: "piped").inputs == {"doc": "piped"}


def test_problems_with_options_name_the_option(write: Any) -> None:
    path = write('signature: "doc: str, n: int -> answer: int"\nmodels: m\n')
    found = problems(path, Overrides({"doc": "@missing.txt", "n": "ten", "nn": "1"}))
    assert found[0].startswith("-i doc: missing.txt cannot be read")
    assert '-i n: expected int, got "ten" (a string)' in found
    assert "-i nn: inputs.nn is not an input of the signature; did you mean n?" in found


def test_a_value_inside_an_option_is_pointed_at(write: Any) -> None:
    path = write('signature: "rows: list[dict[str, int]] -> answer: int"\nmodels: m\n')
    (problem,) = problems(path, Overrides({"rows": '[{"a": 1}, {"a": "one"}]'}))
    assert problem == '-i rows: inputs.rows.1.a: expected a valid integer, got "one" (a string)'


def test_a_model_of_the_command_line_takes_the_place_of_the_script(write: Any) -> None:
    task = load(
        write(GOOD.replace("openai/gpt-5-mini", "{scripted: gone.yaml}")), Overrides(models={"main": "openai/x"})
    )
    assert {task.models.main.model, task.models.sub.model, task.models.extraction.model} == {"openai/x"}
    assert task.models.scripted is None


# What is wrong -----------------------------------------------------------------------------------------------------


def test_all_problems_are_said_at_once_with_their_place_and_fix(write: Any) -> None:
    path = write(
        """\
        signature: "doc: str, n: itn -> answer: int"
        inputs:
          doc: {file: missing.txt}
        models:
          main: {model: openai/a, temperture: 1}
        budget:
          max_iteration: 3
          max_duration: 5 minutes
          max_llm_calls: many
          preset: strickt
        sandbox: {memory_bytes: 512XB}
        tools: ["kit:look", bad]
        checks: ["answer >="]
        depht: 2
        """
    )
    found = problems(path)
    assert found[0] == "task.yaml:1:26: signature: unknown type 'itn'; did you mean 'int'?"
    assert found[1].startswith("task.yaml:3:8: inputs.doc: ")
    assert "missing.txt cannot be read (No such file or directory)" in found[1]
    assert found[2] == "task.yaml:5:27: models.main.temperture is not known; did you mean temperature?"
    assert found[3] == "task.yaml:7:3: budget.max_iteration is not known; did you mean max_iterations?"
    assert found[4].startswith("task.yaml:8:17: budget.max_duration: a duration is")
    assert found[5] == 'task.yaml:9:18: budget.max_llm_calls must be a whole number, not "many" (a string)'
    assert found[6].endswith("did you mean strict?")
    assert found[7].startswith("task.yaml:11:25: sandbox.memory_bytes: a size is")
    assert found[8].startswith("task.yaml:12:9: tools[0]: there is no module 'kit'")
    assert found[9] == "task.yaml:12:21: tools[1]: 'bad' is not of the form module:name"
    assert found[10] == "task.yaml:13:11: checks[0]: not a Python expression: invalid syntax"
    assert found[11] == "task.yaml:14:1: depht is not known; did you mean depth?"
    assert len(found) == 12


def test_problems_with_inputs_are_at_the_line_of_the_input(write: Any) -> None:
    path = write(
        """\
        signature: "doc: str, n: int, rows: list[dict[str, int]], other: str -> answer: int"
        inputs:
          doc: {fil: a.txt}
          n: ten
          rows:
            - {a: 1}
            - {a: one}
          nn: 3
        models: m
        """
    )
    assert problems(path) == [
        "task.yaml:2:1: input other (str) is missing; add it under `inputs:`, or with -i other=VALUE",
        "task.yaml:3:9: inputs.doc.fil is not a source of an input; did you mean file?",
        'task.yaml:4:6: inputs.n: expected int, got "ten" (a string)',
        'task.yaml:7:11: inputs.rows.1.a: expected a valid integer, got "one" (a string)',
        "task.yaml:8:3: inputs.nn is not an input of the signature; did you mean n?",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "api_key: sk-12345",
        "api_key_env: sk-12345",
        "api_base: 'https://me:sk-12345@x/v1'",
        "api_base: 'https://x/v1?key=sk-12345'",
        "options: {token: sk-12345}",
    ],
)
def test_a_key_in_the_file_is_refused_with_advice_and_not_repeated(write: Any, line: str) -> None:
    model = f"{{model: openai/a, {line}}}"
    elsewhere = GOOD + f"adapter: {{name: two-step, model: {model}}}\n"
    for text in (GOOD.replace("openai/gpt-5-mini", f"{{main: {model}}}"), elsewhere):
        (problem,) = problems(write(text))
        assert "api_key_env" in problem
        assert "12345" not in problem


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "task.yaml:1:1: a task file is a mapping that begins with `signature:`"),
        ("- a\n- b\n", "task.yaml:1:1: a task file is a mapping"),
        ("models: m\n", 'task.yaml:1:1: signature is missing; add `signature: "doc: str -> answer: str"`'),
        ("signature: a: b\n", "task.yaml:1:13: a second ': ' in this line; put a text"),
        ("signature: 'a\nmodels: m\n", "task.yaml:1:12: a quote is opened here and never closed"),
        ("signature: 'a's'\n", "task.yaml:1:15: a text goes on after its end; check its quotes"),
        ("inputs: {a: [1, 2}\n", "task.yaml:1:18: the bracket opened in line 1, column 13 is not closed"),
        ("a: [1,,2]\n", "task.yaml:1:7: a value is missing before ,"),
        ("a:\n  b: 1\n   c: 2\n", "task.yaml:3:5: a key does not fit here; check the indentation"),
        ("a:\n  - 1\n - 2\n", "task.yaml:3:2: this does not line up with what stands above it"),
        ("a: - 1\n", "task.yaml:1:4: a list begins in a line of its own, or is written as [a, b]"),
        ("a: @me\n", "task.yaml:1:4: a text cannot begin with @; put it into quotes"),
        ('a: "\\d"\n', "task.yaml:1:6: \\d means nothing in double quotes; use single quotes, or \\\\d"),
        ("a:\n\t- b\n", "task.yaml:2:1: a tab; indent with spaces"),
        ("a: 1\n---\nb: 2\n", "task.yaml:2:1: a second document"),
        ("a: &x 1\nb: *x\n", "task.yaml:2:4: *x: aliases are not read here"),
        ("a: !!python/object:os.system ls\n", "task.yaml:1:4: tags such as 'python/object:os.system'"),
        ("a: !!int x\n", "task.yaml:1:4: 'x' cannot be read as a value"),
        ("a: " + "[" * 60 + "\n", "nested more than 40 deep"),
        ("a: \x01\n", "task.yaml:1:4: a character that YAML does not allow"),
        ("true: 1\n", "task.yaml:1:1: a key must be text; put it into quotes"),
        (GOOD + "depth: 1\ndepth: 2\n", "task.yaml:5:1: 'depth' is already in line 4; keep one"),
        (GOOD + "depth: 99\n", "task.yaml:4:8: depth must be less than or equal to 10, not 99"),
        (GOOD.replace("models: openai/gpt-5-mini", "models:"), "task.yaml:3:1: models.main is missing; add a model"),
        (GOOD.replace("openai/gpt-5-mini", "{main: {temperature: 1}}"), "give either model"),
        (GOOD.replace("openai/gpt-5-mini", "{sub: m}"), "models.main is missing"),
        (
            GOOD.replace("openai/gpt-5-mini", "{main: {model: m, options: {model: n}}}"),
            "task.yaml:3:36: models.main.options: model is a key of its own: write it beside `options`",
        ),
        (GOOD.replace("openai/gpt-5-mini", "[{api_key: sk-1}]"), "models must be a mapping, not a list"),
        (GOOD.replace("answer: int", "SUBMIT: int"), "would hide a name of the REPL"),
        (GOOD.replace("some text", "{file: .}"), "is a directory; several files are read with `glob: "),
        (GOOD.replace("some text", "{file: task.yaml, encoding: klingon}"), "there is no encoding 'klingon'"),
        (
            GOOD.replace("some text", "{file: task.yaml, encodin: x}"),
            "inputs.doc.encodin is not known; did you mean enc",
        ),
        (GOOD.replace("some text", "{glob: '*.nothing'}"), "matches '*.nothing'"),
        (GOOD.replace("some text", "{glob: '/nowhere/*'}"), "no file in / matches '/nowhere/*'"),
        (GOOD.replace("some text", "{glob: .}"), "is not a pattern for files, such as"),
        (GOOD.replace("some text", "{json: task.yaml}"), "task.yaml:1:1 is not JSON"),
        (GOOD.replace("some text", "{stdin: false}"), "inputs.doc.stdin must be True"),
    ],
)
def test_bad_files_are_explained(write: Any, text: str, said: str) -> None:
    assert said in "\n".join(problems(write(text)))


def test_a_working_directory_that_is_gone_is_a_file_that_is_gone(tmp_path: Path) -> None:
    code = "import os, sys; os.rmdir(os.getcwd()); from rlm.cli import main; main(['check', 'task.yaml'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "task.yaml: cannot be read (No such file or directory)\n")


def test_a_file_that_is_not_there_or_not_text_is_explained(tmp_path: Path) -> None:
    assert "cannot be read" in problems(str(tmp_path / "no.yaml"))[0]
    (tmp_path / "latin.yaml").write_bytes(b"# first\n# caf\xe9\n")
    assert problems(str(tmp_path / "latin.yaml"))[0].endswith("latin.yaml:2:1: is not UTF-8; save it as UTF-8")
    (tmp_path / "big.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    assert "put long inputs into files of their own" in problems(str(tmp_path / "big.yaml"))[0]


def test_a_file_in_another_encoding_is_read_when_it_says_so(write: Any) -> None:
    path = write(GOOD.replace("some text", "{file: a.txt, encoding: latin-1}"))
    Path("a.txt").write_bytes(b"caf\xe9")
    assert load(path).inputs == {"doc": "café"}
    write(GOOD.replace("some text", "{file: a.txt}"))
    assert "is not utf-8 (byte 3); if it has another encoding, name it: `encoding: latin-1`" in problems(path)[0]


def test_an_input_has_one_source(write: Any) -> None:
    (problem,) = problems(write(GOOD.replace("some text", "{file: a.txt, glob: '*.txt'}")))
    assert (
        problem == "task.yaml:2:29: inputs.doc has two sources; keep one of file, glob, folder, stdin, json, value, mcp"
    )


@pytest.mark.parametrize(
    ("piped", "said"),
    [(b"caf\xe9", "inputs.doc: standard input is not utf-8"), (None, "inputs.doc: standard input is closed")],
)
def test_standard_input_is_utf8_or_it_is_said(
    write: Any, monkeypatch: pytest.MonkeyPatch, piped: bytes | None, said: str
) -> None:
    path = write(GOOD.replace("some text", "{stdin: true}"))
    # In the C locale, Python lets anything pass.
    stream = None if piped is None else io.TextIOWrapper(io.BytesIO(piped), "utf-8", errors="surrogateescape")
    monkeypatch.setattr(sys, "stdin", stream)
    (problem,) = problems(path)
    assert said in problem


def test_standard_input_is_for_one_input_only(write: Any) -> None:
    path = write('signature: "a: str, b: str -> c: str"\ninputs: {a: {stdin: true}, b: {stdin: true}}\nmodels: m\n')
    (problem,) = problems_of(path, read_stdin=lambda: "x")
    assert "another input reads standard input already" in problem


def test_a_check_of_the_file_leaves_standard_input_alone(write: Any) -> None:
    path = write('signature: "a: str, b: int -> c: str"\ninputs: {a: {stdin: true}, b: 1}\nmodels: m\n')
    assert load(path, read_stdin=None).inputs == {"b": 1}


def problems_of(path: str, **options: Any) -> list[str]:
    with pytest.raises(TaskError) as caught:
        load(path, **options)
    return [str(one) for one in caught.value.problems]


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("answr > 0", "task.yaml:4:11: checks[0]: 'answr' is not an output; did you mean answer?"),
        ("answer > 0 and doc", "task.yaml:4:26: checks[0]: 'doc' is an input; checks see the outputs only"),
        ("answer = 3", "`=` assigns a value; `==` compares"),
        ("1 > 0", "uses none of the outputs (answer)"),
        ("import os", "not a Python expression"),
        ("answer > __import__('os').getpid()", "task.yaml:4:20: checks[0]: the sandbox refuses it: `__import__`"),
    ],
)
def test_checks_are_expressions_over_the_outputs(write: Any, check: str, said: str) -> None:
    assert said in problems(write(GOOD + f'checks: ["{check}"]\n'))[0]


@pytest.mark.parametrize("check", ["answer in range(10)", "[x for x in [answer] if x]", "(lambda y: y)(answer)"])
def test_checks_may_use_builtins_and_names_of_their_own(write: Any, check: str) -> None:
    assert load(write(GOOD + f'checks: ["{check}"]\n')).checks == [check]


def test_a_signature_over_several_lines_is_pointed_into(write: Any) -> None:
    path = write("signature: |\n  doc: str,\n  n: itn -> answer: int\nmodels: m\n")
    assert problems(path)[0].startswith("task.yaml:3:6: signature: unknown type 'itn'")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "task.yaml:3:20: models.scripted: replies.yaml: cannot be read"),
        ("main: [1]\n", "replies.yaml:1:8: main[0] must be text, not 1 (an integer)"),
        ("mian: [a]\n", "replies.yaml:1:1: mian is not known; did you mean main?"),
        ("sub: {a: 1}\n", "replies.yaml:1:10: sub.a must be text"),
        ("main: [\n", "replies.yaml:2:1: "),
        ("- a\n", "replies.yaml:1:1: the file must be a mapping"),
    ],
)
def test_a_script_is_checked_with_the_file(write: Any, script: str | None, said: str) -> None:
    path = write(GOOD.replace("openai/gpt-5-mini", "{scripted: replies.yaml}"))
    if script is not None:
        Path("replies.yaml").write_text(script)
    assert any(one.startswith(said) for one in problems(path)), problems(path)


def test_a_script_stands_for_all_models(write: Any) -> None:
    path = write(GOOD.replace("openai/gpt-5-mini", "{scripted: r.yaml}"), r__yaml="main: [a]\nsub: {'*': b}\n")
    models = load(path).models
    assert models.main == models.sub == models.extraction
    assert models.scripted == Path("r.yaml").absolute()
    assert str(models.main) == "scripted (r.yaml)"


@pytest.mark.parametrize(
    ("tools", "module", "said"),
    [
        ("kit:SUBMIT", "def SUBMIT(): pass", "'SUBMIT' is a name of the REPL"),
        ("kit:doc", "def doc(): pass", "'doc' is an input, too"),
        ("kit:a, other:a", "def a(): pass", "there is already a tool 'a'"),
        ("kit:loook", "def look(): pass", "did you mean look?"),
        ("kit:look", "def look(: pass", "does not compile"),
    ],
)
def test_tools_are_looked_at_without_being_imported(write: Any, tools: str, module: str, said: str) -> None:
    path = write(GOOD + f"tools: [{', '.join(map(repr, tools.split(', ')))}]\n", kit__py=module, other__py=module)
    assert said in "\n".join(problems(path))


@pytest.mark.parametrize(
    ("module", "said"), [("tool = 3", "is not a function but int"), ("1 / 0\ntool = 3", "ZeroDivision")]
)
def test_a_tool_that_cannot_be_used_is_a_problem_of_the_file(write: Any, module: str, said: str) -> None:
    task: Task = load(write(GOOD + "tools: ['kit:tool']\n", kit__py=module))
    with pytest.raises(TaskError, match=said):
        _ = task.tools


def test_a_module_that_is_shadowed_is_not_taken_for_the_one_beside_the_file(write: Any) -> None:
    task = load(write(GOOD + "tools: ['json:look']\n", json__py="def look(): pass"))
    with pytest.raises(TaskError, match="the name 'json' is taken by"):
        _ = task.tools


# One source of truth -----------------------------------------------------------------------------------------------


def test_the_budget_section_is_the_trigger() -> None:
    fields = {name: field.default for name, field in BudgetFile.model_fields.items() if name != "preset"}
    assert fields == FallbackTrigger().to_dict()


def test_the_sandbox_section_is_the_limits() -> None:
    fields = {name: field.default for name, field in SandboxFile.model_fields.items()}
    own = {"isolation": "auto", "policy": "enforce", "packages": None}
    assert {name: fields.pop(name) for name in own} == own
    assert fields == dataclasses.asdict(Limits())


def test_the_schema_is_one_that_editors_can_use() -> None:
    schema = json_schema()
    jsonschema_rs.validator_for(schema)  # refuses what is no schema
    described = [*schema["properties"].items()]
    described += [pair for one in schema["$defs"].values() for pair in one["properties"].items()]
    assert [name for name, field in described if not field.get("description")] == []


@pytest.mark.parametrize(
    ("document", "fits"),
    [
        ({"signature": "a -> b", "inputs": {"a": {"file": "x"}}, "models": "m"}, True),
        ({"signature": "a -> b", "inputs": {"a": 3}, "models": {"main": {"model": "m"}, "sub": "s"}}, True),
        ({"signature": "a -> b", "budget": {"max_duration": "5m"}, "sandbox": {"memory_bytes": "1GB"}}, True),
        ({"signature": "a -> b", "budget": {"max_iteration": 5}}, False),
        ({"signature": "a -> b", "models": {"main": {"model": "m", "api_key": "x"}}}, False),
        ({"models": "m"}, False),
    ],
)
def test_the_schema_says_what_the_reader_says(document: dict[str, Any], fits: bool) -> None:
    assert jsonschema_rs.validator_for(json_schema()).is_valid(document) is fits


@pytest.mark.parametrize(
    ("text", "seconds"), [("5m", 300.0), ("1h30m", 5400.0), ("90", 90.0), ("1.5 s", 1.5), ("250ms", 0.25), (7, 7)]
)
def test_durations(text: Any, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)
    document = {"signature": "a -> b", "budget": {"max_duration": text}}
    assert jsonschema_rs.validator_for(json_schema()).is_valid(document)


@pytest.mark.parametrize(
    ("text", "size"), [("512MB", 512_000_000), ("1 GiB", 1024**3), ("1.5k", 1500), ("10b", 10), (7, 7)]
)
def test_sizes(text: Any, size: int) -> None:
    assert parse_size(text) == size
    document = {"signature": "a -> b", "sandbox": {"file_bytes": text}}
    assert jsonschema_rs.validator_for(json_schema()).is_valid(document)


@pytest.mark.parametrize("text", ["512.0 MB", "1.5 KB", "999 B", "20.0 GB", "1 GiB", "4 KiB", "640 MiB"])
def test_sizes_are_printed_as_they_are_read(text: str) -> None:
    assert size_text(parse_size(text)) == text


@pytest.mark.parametrize(
    ("parse", "text"), [(parse_duration, "soon"), (parse_duration, "5x"), (parse_size, "5x"), (parse_size, "lots")]
)
def test_what_is_no_duration_or_size_is_refused(parse: Any, text: str) -> None:
    with pytest.raises(ValueError, match="such as"):
        parse(text)


# Adapters ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["chat", "json", "outlines", "two-step"])
def test_an_adapter_is_named(write: Any, name: str) -> None:
    task = load(write(GOOD + f"adapter: {name}\n"))
    assert task.adapter is not None
    assert (task.adapter.name, task.adapter.model) == (name, None)
    assert load(write(GOOD)).adapter is None


def test_two_step_has_a_model_of_its_own(write: Any) -> None:
    task = load(write(GOOD + "adapter: {name: two-step, model: {model: openai/gpt-5-nano, temperature: 0}}\n"))
    assert task.adapter is not None
    assert task.adapter.model is not None
    assert (task.adapter.model.model, task.adapter.model.options) == ("openai/gpt-5-nano", {"temperature": 0})


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("xml", "adapter must be 'chat', 'json', 'outlines' or 'two-step', not \"xml\""),
        ("{name: json, model: openai/gpt-5-nano}", "only two-step has a second model"),
        ("{model: openai/gpt-5-nano}", "adapter.name is missing"),
        ("{name: two-step, model: ./gone.gguf}", "adapter.model: "),
        ("{name: two-step, modell: x}", "did you mean"),
    ],
)
def test_an_adapter_that_is_wrong_is_said_where(write: Any, written: str, said: str) -> None:
    found = problems(write(GOOD + f"adapter: {written}\n"))
    assert len(found) == 1
    assert said in found[0]
    assert ":4:" in found[0]


def test_the_script_of_an_adapter_is_checked_with_the_file(write: Any) -> None:
    task = GOOD + "adapter: {name: two-step, model: {scripted: words.yaml}}\n"
    (missing,) = problems(write(task))
    assert missing.startswith("task.yaml:4:45: adapter.model.scripted: words.yaml: cannot be read")
    (wrong,) = problems(write(task, words__yaml="main: 5\n"))
    assert wrong.startswith("words.yaml:1:7: main must be a list")


def test_the_schema_for_editors_knows_adapters() -> None:
    check = jsonschema_rs.validator_for(json_schema())
    good = {"signature": "doc -> answer", "models": "openai/gpt-5-mini"}
    assert check.is_valid({**good, "adapter": "two-step"})
    assert check.is_valid({**good, "adapter": {"name": "two-step", "model": "openai/gpt-5-nano"}})
    assert not check.is_valid({**good, "adapter": "xml"})


# Sources of inputs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{globb: '*.txt'}", "task.yaml:2:16: inputs.doc.globb is not a source of an input; did you mean glob?"),
        ("{url: 'http://x'}", "inputs.doc.url is not a source of an input; known are file, glob, folder, stdin, json"),
        ("{csv: a.csv, encoding: utf-8}", "inputs.doc.csv is not a source of an input; known are file"),
        ("{a: 1, b: 2}", "inputs.doc: expected str, got "),
    ],
)
def test_an_unknown_source_is_named(write: Any, entry: str, said: str) -> None:
    (problem,) = problems(write(GOOD.replace("some text", entry)))
    assert said in problem


def test_a_misspelt_source_that_fits_the_signature_is_a_warning(write: Any) -> None:
    task = load(
        write('signature: "docs: dict[str, str] -> n: int"\ninputs: {docs: {globb: "*.txt"}}\nmodels: openai/a\n')
    )
    assert task.inputs == {"docs": {"globb": "*.txt"}}
    (warning,) = task.warnings
    assert str(warning).startswith("task.yaml:2:17: inputs.docs is a mapping with the key 'globb'; did you mean glob?")
    assert load(write(GOOD)).warnings == ()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: os.mkfifo(path), "is not a regular file; pipe it in with `stdin: true` or -i NAME=@-"),
        (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
        (lambda path: path.mkdir(), "is a directory; several files are read with `glob: "),
        (lambda path: path.write_bytes(b"%PDF-1.7\n\xff\xfe"), "is a PDF; have code read it"),
        (lambda path: path.write_bytes(b"\xff\0\0\0"), "is not text in utf-8: it has zero bytes"),
    ],
    ids=["fifo", "device", "directory", "pdf", "binary"],
)
def test_what_is_no_text_file_is_refused_at_once(write: Any, make: Callable[[Path], Any], said: str) -> None:
    path = write(GOOD.replace("some text", "{file: strange}"))
    make(Path("strange"))
    (problem,) = problems(path)
    assert said in problem
    (problem,) = problems(path, Overrides(inputs={"doc": "@strange"}))
    assert said in problem


def test_an_input_that_is_too_large_is_refused(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlm.tasks.inputs.MAX_BYTES", 5)
    path = write(GOOD.replace("some text", "{file: a.txt}"), a__txt="123456")
    assert "is larger than 5 B" in problems(path)[0]
    monkeypatch.setattr(sys, "stdin", io.StringIO("123456"))
    assert "standard input is larger than 5 B" in problems(path, Overrides(inputs={"doc": "@-"}))[0]


def test_other_names_of_standard_input_and_descriptors_are_read(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("piped"))
    assert load(write(GOOD.replace("some text", "{file: /dev/stdin}"))).inputs == {"doc": "piped"}
    reader, writer = os.pipe()
    os.write(writer, b"substituted")
    os.close(writer)
    task = load(write(GOOD), Overrides(inputs={"doc": f"@/dev/fd/{reader}"}))  # what <(command) is in a shell
    os.close(reader)
    assert task.inputs == {"doc": "substituted"}


def test_all_bad_checks_are_reported(write: Any) -> None:
    found = problems(write(GOOD + "checks: ['answer >', 'doc == 1', 'm > 1', '1 == 1']\n"))
    assert [problem.split(": ")[1] for problem in found] == ["checks[0]", "checks[1]", "checks[2]", "checks[3]"]


def test_a_signature_module_that_raises_is_reported_with_its_error(write: Any) -> None:
    text = GOOD.replace('"doc: str -> answer: int"', "sigs:Sig")
    (problem,) = problems(write(text, sigs__py="Sig = 1 / 0\n"))
    assert "signature: 'sigs' cannot be imported: ZeroDivisionError: division by zero" in problem
