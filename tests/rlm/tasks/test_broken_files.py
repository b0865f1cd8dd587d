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
    assert "a.pdf is a PDF; extract its text first" in problems(tmp_path, text)[0]


def test_all_bad_checks_are_reported(tmp_path: Any) -> None:
    found = problems(tmp_path, f'{HEAD}{MODEL}checks: ["n >", "m > 0", "len(doc) > 0", "import os"]\n')
    assert len(found) == 4
    assert [f"checks[{index}]" in one for index, one in enumerate(found)] == [True] * 4


@pytest.mark.parametrize("key", ["url", "csv"])
def test_a_source_that_there_is_not_is_a_warning_where_any_value_is_taken(tmp_path: Any, key: str) -> None:
    (tmp_path / "task.yaml").write_text(f"signature: 'doc -> n: int'\ninputs: {{doc: {{{key}: a}}}}\n{MODEL}")
    (warning,) = load(tmp_path / "task.yaml").warnings
    assert f"inputs.doc is a mapping with the key '{key}'; sources are file, glob, stdin, json, value." in str(warning)


def test_an_unknown_provider_is_said_once_of_all_roles(tmp_path: Any) -> None:
    from rlm.cli.preflight import model_warnings

    (tmp_path / "task.yaml").write_text(f"{HEAD}models: opnai/gpt-5\n")
    assert model_warnings(load(tmp_path / "task.yaml")) == [
        "the main model opnai/gpt-5: the provider 'opnai' is not known here; did you mean openai?"
    ]
