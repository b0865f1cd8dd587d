"""Validation of a document against the schema of task files, with a message for each mistake."""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pydantic
from pydantic_core import ErrorDetails

from ..json_values import locate, preview_typed
from ..models.profile import KEY_VARIABLES, OTHER_CREDENTIALS, provider_of
from ..text import near_name, suggestion
from .errors import TaskProblem
from .schema import SOURCES, ConfidenceFile, ScriptFile, TaskFile, json_schema
from .yaml_document import Document, Path

if TYPE_CHECKING:
    from ..extraction.confidence import Scorer


_SECRET = re.compile(
    r"(?!max_)(.*[_-])?(api[_-]?key|key|token|secret|password|credentials?|authorization|bearer)", re.IGNORECASE
)
_ADVICE = "a key never belongs in the file; "
_WORDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
}
_EXAMPLES = {"signature": '`signature: "doc: str -> answer: str"`'}


def validate_task(document: Document) -> tuple[TaskFile | None, list[TaskProblem], set[Path]]:
    """Return the file as far as it is valid, its problems, and the paths that were left out because of them."""
    value = document.value
    if not isinstance(value, dict):
        message = "a task file is a mapping that begins with `signature:`; `rlm init` writes an example"
        return None, [document.problem(message, document.value_place(()))], set()
    # A section whose lines are all comments is null, and counts as left out.
    given = {key: inner for key, inner in value.items() if inner is not None}
    problems, bad = _secrets(document, given)
    given = _without(given, bad)
    try:
        return TaskFile.model_validate(given), problems, bad
    except pydantic.ValidationError as error:
        faults = error.errors(include_url=False)
    for fault in faults:
        path = _path(given, fault)
        problems.append(_explain(document, _schema_of(TaskFile), fault, path))
        # The other inputs are still read.
        bad.add(path[:2] if path[0] == "inputs" and len(path) > 1 else path[:1])
    try:
        return TaskFile.model_validate(_without(given, bad)), problems, bad
    except pydantic.ValidationError:
        return None, problems, bad


def validate_script(document: Document) -> list[TaskProblem]:
    """Return the problems of a file of replies."""
    try:
        ScriptFile.model_validate(document.value)
    except pydantic.ValidationError as error:
        schema, value = _schema_of(ScriptFile), document.value
        return [_explain(document, schema, fault, _path(value, fault)) for fault in error.errors(include_url=False)]
    return []


def dotted(path: Path) -> str:
    """Return a path as text: `inputs.rows[2].name`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text or "the file"


def _secrets(document: Document, given: dict[str, Any]) -> tuple[list[TaskProblem], set[Path]]:
    """Return the problems and paths of keys in the file. Their values are never shown."""
    plans = given.get("plans")
    named = [path for section in ("models", "adapter") for path in _keys(given.get(section), (section,))]
    named += _keys(plans.get("models"), ("plans", "models")) if isinstance(plans, dict) else ()
    found = [path for path in named if _SECRET.fullmatch(str(path[-1]))]
    problems = [
        document.problem(f"{dotted(path)}: {_ADVICE}{_key_advice(given, path)}", document.key_place(path))
        for path in found
    ]
    return problems, set(found)


def _key_advice(given: Any, path: Path) -> str:
    """Return where the key of a model belongs, by its provider."""
    entry = given
    for step in path[:-1]:
        entry = entry[step]
    model = entry.get("model") if isinstance(entry, dict) else None
    provider = provider_of(model) if isinstance(model, str) else None
    if provider in OTHER_CREDENTIALS:
        return OTHER_CREDENTIALS[provider]
    variable = KEY_VARIABLES.get(provider or "", ("OPENAI_API_KEY",))[0]
    return f"name the variable that holds it: `api_key_env: {variable}`"


def _keys(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from _keys(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _keys(inner, (*path, index))


def _without(value: Any, paths: set[Path]) -> Any:
    """Return a copy without the entries at some paths."""
    if not isinstance(value, dict):
        return value
    return {
        key: _without(inner, {path[1:] for path in paths if path[0] == key and len(path) > 1})
        for key, inner in value.items()
        if (key,) not in paths
    }


def _path(value: Any, fault: ErrorDetails) -> Path:
    path, _ = locate(value, fault["loc"])
    return (*path, fault["loc"][-1]) if fault["type"] == "missing" else path


def _explain(document: Document, schema: dict[str, Any], fault: ErrorDetails, path: Path) -> TaskProblem:
    name = dotted(path)
    if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        hint = suggestion(str(path[-1]), _known(schema, path[:-1]))
        if path[0] == "inputs" and path[-1] in SOURCES:
            message = f"{dotted(path[:-1])} has two sources; keep one of {', '.join(SOURCES)}"
            return document.problem(message, document.key_place(path))
        if path[0] == "inputs":
            hint += " (a plain mapping is written under `value:`)"
        section = _section_of(schema, str(path[-1])) if len(path) == 1 else None
        if path == ("limits",):
            hint = "; limits of the kernel belong under `sandbox:`"
        elif path == ("sandbox", "limits"):
            hint = "; write the limits under `sandbox:` itself"
        if section is not None:
            hint = f"; it belongs under `{section}:`"
        return document.problem(f"{name} is not known{hint}", document.key_place(path))
    if fault["type"] == "missing":
        example = _EXAMPLES.get(str(path[-1]))
        return document.problem(
            f"{name} is missing" + (f"; add {example}" if example else ""), document.key_place(path)
        )
    place = document.value_place(path)
    if fault["type"] == "value_error":
        return document.problem(f"{name}: {fault['msg'].removeprefix('Value error, ')}", place)
    wanted = _WORDS.get(fault["type"]) or fault["msg"].removeprefix("Input should be ")
    hint = ""
    if fault["type"] == "literal_error" and isinstance(fault["input"], str):
        near = near_name(fault["input"], re.findall(r"'([^']*)'", wanted))
        hint = f"; did you mean {near}?" if near else ""
    return document.problem(f"{name} must be {wanted}, not {_shown(fault['input'])}{hint}", place)


def _section_of(schema: dict[str, Any], key: str) -> str | None:
    """Return the section that has a key of this name, where exactly one has."""
    found = [
        section
        for section in _known(schema, ())
        if section not in ("inputs", "adapter") and key in _known(schema, (section,))
    ]
    return found[0] if len(found) == 1 else None


def _shown(value: Any) -> str:
    # The content of a list or a mapping is not shown: under `models` it could be a key.
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    return preview_typed(value)


@functools.cache
def _schema_of(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    return json_schema(model)


def _known(schema: dict[str, Any], path: Path) -> list[str]:
    """Return the keys that the JSON schema allows at a path."""
    nodes = [schema]
    for step in path:
        nodes = [inner for node in nodes for inner in _below(schema, node, step)]
    return [key for node in nodes for key in node.get("properties", {})]


def _below(schema: dict[str, Any], node: dict[str, Any], step: str | int) -> Iterator[dict[str, Any]]:
    inner = node.get("items") if isinstance(step, int) else node.get("properties", {}).get(step)
    inner = inner or node.get("additionalProperties")
    yield from _branches(schema, inner) if isinstance(inner, dict) else ()


def _branches(schema: dict[str, Any], node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]
    yield node
    for branch in node.get("anyOf", ()):
        yield from _branches(schema, branch)


def read_confidence(
    section: ConfidenceFile | str | None, document: Document, folder: pathlib.Path
) -> tuple[Scorer | None, list[TaskProblem]]:
    """Return the calibrator, if the file names one, and the problems of the section."""
    if section is None:
        return None, []
    from ..calibration import CalibratorError, NoThreshold, scorer_of
    from ..calibration.io import calibrator_path

    path: tuple[str, ...] = ("confidence",) if isinstance(section, str) else ("confidence", "calibrator")
    name = section if isinstance(section, str) else section.calibrator
    accept_at = None if isinstance(section, str) or section.accept_at is None else section.accept_at.model_dump()
    try:
        return scorer_of(calibrator_path(name, folder), accept_at), []
    except CalibratorError as error:
        message = str(error)
    except NoThreshold as error:
        path, message = ("confidence", "accept_at", "error"), str(error)
    return None, [document.problem(f"{'.'.join(path)}: {message}", document.value_place(path))]
