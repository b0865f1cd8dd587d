"""The reference pages that are generated from the code: task files, events, errors, REPL functions, Python names."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {
    "RLM_HOME": "The folder for rlm's own files: traces, ledgers, converted models, the list of models. Default: the "
    "platform's folder for user data.",
    "RLM_TRACE": "`off` records no run.",
    "RLM_OTEL": "`1` sends runs as OpenTelemetry spans: see [telemetry](../telemetry.md).",
    "RLM_MODEL": "The model that `make run` uses for its last task: a GGUF file, a server or an API model.",
    "RLM_DEBUG": "`1` shows tracebacks of internal errors, and errors of observers.",
}
"""Environment variables that change what rlm does, apart from the keys of providers."""

_WIDTH = 90
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_OUTSIDE = "examples|notebooks|tests|benchmarks|rlm|sandbox|CHANGELOG|README|LICENSE|SECURITY|CONTRIBUTING"


def write(folder: Path) -> None:
    """Write the pages, where their text is not there yet."""
    pages = {
        "task_file.md": task_file(),
        "events.md": events(),
        "errors.md": errors(),
        "repl_functions.md": repl_functions(),
        "python.md": python(),
        "environment.md": environment(),
    }
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def link_to_repository(app: Any, page: str, source: list[str]) -> None:
    """Turn links to files outside of `docs/` into code: they have no page here."""
    up = r"(?:\.\./){" + str(page.count("/") + 1) + "}"
    source[0] = re.sub(rf"\[([^\]]+)\]\({up}((?:{_OUTSIDE})[^)]*)\)", r"\1 (`\2`)", source[0])


def python() -> str:
    """Return the page of the public Python names."""
    import rlm

    described = [
        name for name in sorted(rlm.__all__, key=str.lower) if name not in rlm.errors.__all__ and name != "__version__"
    ]
    parts = [
        "# Python",
        "Every public name of the package `rlm`, and of the package `sandbox`, which can be used alone. There are "
        "pages for [exceptions](errors.md) and [events](events.md).",
        "## rlm",
        *(_described("rlm", name, getattr(rlm, name)) for name in described),
        "## sandbox",
    ]
    import sandbox

    parts += [_described("sandbox", name, getattr(sandbox, name)) for name in sandbox.__all__]
    return _page(parts)


def _described(module: str, name: str, thing: Any) -> str:
    """Describe a public name: how it is called, what it does, its fields and its methods."""
    if inspect.isclass(thing) and thing.__name__ != name:
        return f"### {name}\n\nAnother name for `{thing.__name__}`."
    call = f"{module}.{name}{_signature(thing)}"
    if len(call) > _WIDTH:
        call = re.sub(r", (?=[*\w]+[=,)]|\*, )", ",\n    ", call.replace("(", "(\n    ", 1))
    parts = [f"### {name}", f"```python\n{call}\n```", _text(thing)]
    if inspect.isclass(thing):
        parts += [_fields_of(thing), *(_member(*member) for member in _members(thing))]
    return "\n\n".join(part for part in parts if part)


def _fields_of(kind: type) -> str:
    """Return the fields of a dataclass with their docstrings, which are in the source only."""
    if not dataclasses.is_dataclass(kind):
        return ""
    documented: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        path = inspect.getsourcefile(base) if base.__module__.split(".")[0] in ("rlm", "sandbox") else None
        if path is not None:
            documented |= {name: about for name, _, about in _attributes(Path(path)).get(base.__name__, ())}
    fields = [field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")]
    return "\n".join(f"- `{name}`{': ' if documented.get(name) else ''}{documented.get(name, '')}" for name in fields)


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class that a class of ours defines, in the order of the source."""
    seen = set()
    for base in kind.__mro__:
        if base.__module__.split(".")[0] not in ("rlm", "sandbox"):
            continue
        for name, member in vars(base).items():
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if name.startswith("_") or name in seen or not inspect.isfunction(function) or not function.__doc__:
                continue
            seen.add(name)
            yield name, member


def _member(name: str, member: Any) -> str:
    if isinstance(member, property):
        return f"**{name}** (property)\n: " + _text(member.fget).replace("\n", "\n  ")
    return f"**{name}**`{_signature(member, bound=True)}`\n: " + _text(member).replace("\n", "\n  ")


def _signature(thing: Any, *, bound: bool = False) -> str:
    try:
        signature = inspect.signature(getattr(thing, "__func__", thing))
    except (TypeError, ValueError):
        return ""
    parameters = list(signature.parameters.values())[bound:]
    parameters = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return _ADDRESS.sub("", str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)))


def _text(thing: Any) -> str:
    """Return a docstring as Markdown: the parameters after `Args:` as a list."""
    text = inspect.cleandoc(getattr(thing, "__doc__", None) or "")
    head, found, arguments = text.partition("\nArgs:\n")
    if not found:
        return text
    listed = re.sub(r"^    (\w+): ", r"- `\1`: ", arguments, flags=re.MULTILINE)
    return f"{head.rstrip()}\n\n{textwrap.dedent(listed)}"


def errors() -> str:
    """Return the page of exceptions: their tree, and what each one means."""
    from rlm import errors

    tree = inspect.cleandoc(errors.__doc__ or "").partition("\n\n")[2].partition("\n\nExceptions of")[0]
    rows = []
    for name in errors.__all__:
        kind = getattr(errors, name)
        about = inspect.cleandoc(kind.__doc__ or "").replace("\n\n", "<br>").replace("\n", " ").replace("|", "\\|")
        rows.append(f"| `{name}` | `{kind.__bases__[0].__name__}` | {about} |")
    return _page(
        [
            "# Errors",
            "Every exception that rlm raises on purpose is an `rlm.RlmError`, and can be imported from `rlm`. Messages "
            "say what happened, where, and what to do; the attributes named below carry the same as data.",
            "```text\n" + textwrap.dedent(tree) + "\n```",
            "\n".join(["| exception | base | meaning |", "|---|---|---|", *rows]),
            "The command line turns them into exit codes: 2 for a file or an option, 4 for the environment (a missing "
            "key, package or isolation), 1 for a run without an acceptable answer, 3 for an error of rlm itself.",
        ]
    )


def events() -> str:
    """Return the page of events: each kind with its fields."""
    from rlm import events

    documented = _attributes(Path(events.__file__))
    parts = ["# Events", inspect.cleandoc(events.__doc__ or "").partition("\n\nAn observer")[0]]
    for kind, event in events.KINDS.items():
        rows = [
            f"| `{name}` | `{_short(annotation)}` | {about} |" for name, annotation, about in documented[event.__name__]
        ]
        table = "\n".join(["| field | type | |", "|---|---|---|", *rows]) if rows else ""
        parts += [f"## {event.__name__}", f"Recorded as `{kind}`. {inspect.cleandoc(event.__doc__ or '')}", table]
    return _page(parts)


def _attributes(path: Path) -> dict[str, list[tuple[str, str, str]]]:
    """Return name, annotation and docstring of the attributes of each class of a module."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ClassDef):
            continue
        attributes = found[node.name] = []
        for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
            if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
                continue
            if ast.unparse(statement.annotation).startswith("ClassVar"):
                continue
            about = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                about = inspect.cleandoc(str(following.value.value)).replace("\n", " ")
            attributes.append((statement.target.id, ast.unparse(statement.annotation), about.replace("|", "\\|")))
    return found


def _short(annotation: str) -> str:
    return annotation.replace("|", "\\|")


def repl_functions() -> str:
    """Return the page of the functions that a model has in its REPL, with the words that the model reads."""
    parts = [
        "# Functions of the REPL",
        "What model-written code can call, beside Python and the tools of the task. Those that ask a model or end the "
        "run are executed in the host; the others run in the kernel.",
    ]
    for path, title in (("tools.py", "In the host"), ("kernel_helpers.py", "In the kernel")):
        tree = ast.parse((ROOT / "rlm/repl" / path).read_text(encoding="utf-8"))
        parts += [f"## {title}", *(_function(node) for node in _functions(tree))]
    return _page(parts)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    from rlm.repl.tools import RESERVED

    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name in RESERVED
            and ast.get_docstring(node)
        ):
            yield node


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    arguments = ast.unparse(node.args).removeprefix("self, ").removeprefix("self")
    return f"### {node.name}\n\n```python\n{node.name}({arguments})\n```\n\n{ast.get_docstring(node)}"


def environment() -> str:
    """Return the page of environment variables."""
    rows = [f"| `{name}` | {about} |" for name, about in ENVIRONMENT.items()]
    return _page(
        [
            "# Environment variables",
            "\n".join(["| variable | meaning |", "|---|---|", *rows]),
            "Keys of providers are read from the variables that the providers document (`OPENAI_API_KEY`, ...), or "
            "from the one that a task file names in `api_key_env`.",
        ]
    )


def task_file() -> str:
    """Return the page of task files: every section and key of their JSON schema."""
    from rlm.tasks.schema import json_schema

    schema = json_schema()
    parts = [
        "# Task files",
        "A task file is YAML. `rlm init` writes a commented one, `rlm check` finds mistakes in one, and this comment "
        "in its first line makes editors with a YAML language server complete and check it:",
        "```yaml\n# yaml-language-server: $schema=task.schema.json\n```",
        "where `rlm schema > task.schema.json` writes the schema.",
        "## The file",
        _keys(schema),
    ]
    for name, section in sorted(schema.get("$defs", {}).items()):
        if "properties" in section:
            title = section.get("title", name).removesuffix("File")
            parts += [f"## {title}", section.get("description", ""), _keys(section)]
    return _page(parts)


def _keys(section: Mapping[str, Any]) -> str:
    rows = []
    for name, field in section.get("properties", {}).items():
        default = f" Default: `{field['default']}`." if field.get("default") not in (None, {}, []) else ""
        example = f" Example: `{field['examples'][0]}`." if field.get("examples") else ""
        needed = " **Required.**" if name in section.get("required", ()) else ""
        about = f"{field.get('description', '')}{needed}{default}{example}".replace("|", "\\|").replace("\n", " ")
        rows.append(f"| `{name}` | {_type_of(field)} | {about} |")
    return "\n".join(["| key | type | |", "|---|---|---|", *rows])


def _type_of(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2].removesuffix("File")
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    for union in ("anyOf", "oneOf"):
        if union in field:
            kinds = dict.fromkeys(_type_of(branch) for branch in field[union])
            return " or ".join(kind for kind in kinds if kind != "null") or "null"
    if field.get("type") == "array":
        return f"list of {_type_of(field.get('items', {}))}"
    values = field.get("additionalProperties")
    if field.get("type") == "object" and isinstance(values, dict) and "$ref" in values:
        return f"mapping of names to {_type_of(values)}"
    kind = field.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _page(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
