"""What a server answers as values of the REPL: typed where the server says so, bounded, and without known secrets."""

from __future__ import annotations

import json
from typing import Any

from ..redaction import Redactor
from ..text import clean, shorten
from .errors import McpToolError
from .listing import McpTool

_MAX_ERROR = 2_000


def value_of(tool: McpTool, result: Any, max_bytes: int) -> Any:
    """Return the value of a `CallToolResult`. Raise `McpToolError` for an error, or for more than fits."""
    if result.is_error:
        texts = [part.text for part in result.content if part.type == "text"]
        said = shorten(clean(Redactor().text("\n".join(texts)[: 4 * _MAX_ERROR])), _MAX_ERROR)
        raise McpToolError(f"{tool.name}(): {said or 'the tool failed, and does not say why'}")
    if result.structured_content is not None:
        value = result.structured_content
        wrapped = tool.wrapped and isinstance(value, dict) and list(value) == ["result"]
        return _checked(tool.name, value["result"] if wrapped else value, max_bytes)
    parts = [_part(part) for part in result.content]
    if all(isinstance(part, str) for part in parts):
        return _checked(tool.name, "\n".join(parts), max_bytes)
    return _checked(tool.name, parts[0] if len(parts) == 1 else parts, max_bytes)


def resource_value(uri: str, result: Any, max_bytes: int) -> Any:
    """Return the value of a resource: its text, or what its parts are."""
    parts = [_resource(content) for content in result.contents]
    texts = [part["text"] for part in parts if "text" in part]
    value = "\n".join(texts) if len(texts) == len(parts) else parts
    return _checked(f"the resource {uri}", value, max_bytes)


def _part(part: Any) -> Any:
    """Return a part of a result: a text as it is, anything else as a dict."""
    if part.type == "text":
        return part.text
    if part.type in ("image", "audio"):
        return {"type": part.type, "mime_type": part.mime_type, "data": part.data}
    if part.type == "resource":
        return _resource(part.resource)
    return part.model_dump(mode="json", by_alias=False, exclude_none=True)


def _resource(contents: Any) -> dict[str, Any]:
    about = {"uri": str(contents.uri), "mime_type": contents.mime_type}
    text = getattr(contents, "text", None)
    return {**about, "text": text} if text is not None else {**about, "data": contents.blob}


def _checked(what: str, value: Any, max_bytes: int) -> Any:
    """Return a value without known secrets. Raise `McpToolError` if it is larger than allowed."""
    text = json.dumps(value, ensure_ascii=False)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        limit = f"at most {max_bytes:,} are taken (`max_result_bytes`)"
        raise McpToolError(f"{what}: the MCP server answered with {size:,} bytes; {limit}. Ask it for less.")
    redacted = Redactor().input(text)
    return value if redacted == text else json.loads(redacted)
