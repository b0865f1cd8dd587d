"""The tools of a server as functions: names, signatures and descriptions, made from what the server lists.

Everything in a listing is a claim of the server, and hostile: names cannot hide a function or a variable, texts are
bounded, cleaned and quoted.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..redaction import Redactor
from ..text import clean, shorten
from .schemas import annotation, is_parameter, is_readable, properties_of, signature
from .settings import McpServer

_MAX_NAME = 64
_MAX_TOOL_NAME = 128
_MAX_DESCRIPTION = 2_000
_MAX_PARAMETER = 200
_MAX_DOC = 6_000
_ASKS = "A person is asked before it is called: make many calls at once, with mcp_batch."


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool of a server, as code calls it."""

    server: str
    tool: str
    """Its name at the server."""

    name: str
    """The name of the function, which begins with that of the server."""

    signature: str
    doc: str
    parameters: tuple[str, ...]
    """The names of its parameters in the order in which code may give them by place."""

    read_only: bool = False
    """Whether the server says that it changes nothing."""

    wrapped: bool = False
    """Whether the result is the one value `result` of an object, which is returned by itself."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as it is recorded."""
        return {**asdict(self), "parameters": list(self.parameters)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> McpTool:
        """Return the tool in a record."""
        return cls(**{**data, "parameters": tuple(data["parameters"])})


def read_listing(name: str, server: McpServer, listed: Iterable[Any]) -> tuple[McpTool, ...]:
    """Return the tools that a server has listed and a run may use, by their names."""
    found: dict[str, McpTool] = {}
    for tool in sorted(listed, key=lambda one: str(one.name)):
        if len(tool.name) <= _MAX_TOOL_NAME and tool.name not in found and server.offers(tool.name):
            found[tool.name] = _tool(name, server, tool)
    return tuple(found.values())


def _tool(server: str, settings: McpServer, listed: Any) -> McpTool:
    schema, output = listed.input_schema, listed.output_schema
    wrapped = _is_wrapped(output)
    returned = output["properties"]["result"] if wrapped else output
    shown = _one_line(signature(schema, {**returned, "$defs": output.get("$defs")} if wrapped else returned), 2_000)
    name = function_name(server, listed.name)
    read_only = listed.annotations is not None and listed.annotations.read_only_hint is True
    asks = not settings.allows(listed.name) and not (read_only and settings.trust_annotations)
    return McpTool(
        server,
        listed.name,
        name,
        shown,
        _doc(server, listed, name, shown, asks),
        tuple(filter(is_parameter, properties_of(schema))) if is_readable(schema) else (),
        read_only=read_only,
        wrapped=wrapped,
    )


def function_name(server: str, tool: str) -> str:
    """Return the name of a tool's function: that of the server, then that of the tool, in ASCII."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", tool).strip("_") or "tool"
    name = plain if plain.startswith(f"{server}_") else f"{server}_{plain}"
    return name[:_MAX_NAME]


def with_free_names(tools: Iterable[McpTool], taken: Collection[str]) -> tuple[McpTool, ...]:
    """Return the tools, with other names for functions that would hide something or each other."""
    used = {*taken, *dir(builtins), *keyword.kwlist}
    renamed = []
    for tool in tools:
        name, number = tool.name, 1
        while name in used:
            number += 1
            name = f"{tool.name}_{number}"
        used.add(name)
        doc = tool.doc.replace(f"{tool.name}(", f"{name}(", 1)
        renamed.append(tool if name == tool.name else replace(tool, name=name, doc=doc))
    return tuple(renamed)


def _doc(server: str, listed: Any, name: str, shown: str, asks: bool) -> str:
    """Return what `help` prints: how the function is called, and what the server says about it, as a quotation."""
    parts = [
        f"{name}{shown}",
        *([_ASKS] if asks else []),
        f"The tool {_one_line(listed.name, 130)!r} of the MCP server {server!r}, in its words:",
    ]
    said = [_quoted(listed.description or "", _MAX_DESCRIPTION)] if listed.description else []
    if is_readable(listed.input_schema):
        for parameter, (part, _) in properties_of(listed.input_schema).items():
            about = part.get("description") if isinstance(part, Mapping) else None
            text = f"{_one_line(parameter, 60)} ({annotation(part, listed.input_schema)})"
            text += f": {_one_line(about, _MAX_PARAMETER)}" if isinstance(about, str) else ""
            said.append(_quoted(text, 400))
    else:
        said.append("> (its schema is too large to be shown; give the arguments by name)")
    return shorten("\n".join([*parts, *(said or ["> (nothing)"])]), _MAX_DOC)


def _quoted(text: str, most: int) -> str:
    cleaned = shorten(clean(Redactor().text(text[: 4 * most])).strip(), most)
    return "\n".join(f"> {line}" for line in cleaned.splitlines() or [""])


def _one_line(text: str, most: int) -> str:
    return shorten(" ".join(clean(text[: 4 * most]).split()), most)


def _is_wrapped(schema: Any) -> bool:
    if not is_readable(schema) or not isinstance(schema.get("properties"), Mapping):
        return False
    return list(schema["properties"]) == ["result"] and isinstance(schema["properties"]["result"], Mapping)
