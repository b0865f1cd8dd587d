"""What the documentation shows works: its Python runs against a stand-in for a provider, its commands exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from tests.support.adapter_models import ReplyingServer
from tests.support.repository import ROOT

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PAGES = [page for page in PAGES if not page.is_relative_to(ROOT / "docs/reference") and "_build" not in page.parts]
_SHELL = re.compile(r"^```(sh|console|bash|)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_VALUES = ("1", "'text'", "1.5", "['text']", "{'text': 1}", "True", "[1]")
_LOG = "".join(f"2026-11-03 10:{n:02} {'ERROR' if n % 9 == 0 else 'INFO'} request {n}\n" for n in range(60))


def standing_in(body: dict[str, Any]) -> tuple[int, Any]:
    """Answer like a model that submits values of one type after another; with JSON where a schema is given."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    if fields := re.findall(r"SUBMIT\(([^)]*\.\.\.)\)", text):
        inputs = re.findall(r"`(\w+)`", (re.findall(r"Given (`.*?), produce", text) or [""])[0])
        value = _VALUES[text.count("I submit it.") % len(_VALUES)]
        given = ", ".join(f"{name}={value}" for name in re.findall(r"(\w+)=\.\.\.", fields[-1]))
        read = ", ".join(f"len(str({name}))" for name in inputs)
        return 200, f"I submit it.\n```python\nprint({read})\nSUBMIT({given})\n```"
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
    return 200, json.dumps(example(schema, schema)) if schema else '{"answer": 1}'


def example(schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """Return a value of a JSON schema."""
    if "$ref" in schema:
        return example(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "enum" in schema or "const" in schema:
        return schema.get("enum", [schema.get("const")])[0]
    if "anyOf" in schema:
        return example(schema["anyOf"][0], root)
    kind = schema.get("type")
    if kind == "object":
        return {name: example(part, root) for name, part in schema.get("properties", {}).items()}
    return {"array": [], "integer": 1, "number": 1.5, "boolean": True, "null": None}.get(str(kind), "text")


@pytest.fixture
def provider() -> Iterator[ReplyingServer]:
    with ReplyingServer(standing_in) as server:
        yield server


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_the_python_of_all_pages_runs(provider, tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(_LOG)
    environment = {
        **os.environ,
        "OPENAI_API_KEY": "sk-none",
        "OPENAI_BASE_URL": provider.url,
        "OPENAI_API_BASE": provider.url,
        "RLM_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, str(ROOT / "tests/docs/run_snippets.py"), str(tmp_path), *map(str, PAGES)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    failed = [json.loads(line) for line in done.stdout.splitlines()]
    assert not failed, "\n\n".join(f"{one['page']}:{one['line']}\n{one['error']}" for one in failed)
    assert provider.requests


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for language, block in _SHELL.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                line = line.strip()
                if line.startswith("$ rlm ") or (language and line.startswith("rlm ")):
                    yield page.name, line.removeprefix("$ ")


@pytest.mark.parametrize(("page", "line"), list(commands()))
def test_the_commands_of_all_pages_exist(page: str, line: str) -> None:
    from rlm.cli.main import rlm

    words = shlex.split(line, comments=True)
    for end in ("|", ">", "&&", "||", "&", "<"):
        words = words[: words.index(end)] if end in words else words
    command: click.Command = rlm
    context = click.Context(rlm, info_name="rlm")
    rest = words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        if found is None:
            break
        command, rest = found, rest[1:]
        context = click.Context(command, parent=context, info_name=command.name)
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    options |= {"-h", "--help", "-V", "--version"}
    used = [word.partition("=")[0] for word in rest if re.match(r"--?[A-Za-z]", word)]
    assert (isinstance(command, click.Command) and command is not rlm) or not rest or rest[0].startswith("-"), line
    assert set(used) <= options, f"{page}: {line}"


def test_every_environment_variable_is_documented() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import reference_pages
    finally:
        sys.path.pop(0)
    source = "\n".join(path.read_text() for name in ("rlm", "sandbox") for path in (ROOT / name).rglob("*.py"))
    read = set(re.findall(r"""["'](RLM_[A-Z_]+)["']""", source))
    assert read - set(reference_pages.ENVIRONMENT) <= {"RLM_COMPLETE"}, "docs/reference_pages.py: ENVIRONMENT"
