"""The scripts and styles of the page, joined into one file each: thirty requests take longer than a large trace."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

STATIC = Path(__file__).parent / "static"
SCRIPT = "page.js"
STYLE = "page.css"
"""The names under which `index.html` requests them."""

STYLES = ("base", "controls", "lists", "evaluation", "run", "steps", "tree", "compare", "ask", "narrow")
"""The style sheets in order: the last one overrides the others."""

_IMPORT = re.compile(r'^import \{\s*([^}]+?)\s*\} from "(\.[a-z_./]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def script(entry: str = "app") -> str:
    """Join the modules: each becomes a function that returns its exports, after the modules that it imports."""
    joined: dict[str, str] = {}

    def add(module: str) -> None:
        if module in joined:
            return
        source = (STATIC / f"{module}.js").read_text(encoding="utf-8")
        folder = posixpath.dirname(module)
        for _, path in _IMPORT.findall(source):
            add(posixpath.normpath(posixpath.join(folder, path)))
        exports = ", ".join(name for _, name in _EXPORT.findall(source))
        body = _IMPORT.sub(lambda match: f"const {{ {match[1]} }} = {_variable(folder, match[2])};", source)
        body = _EXPORT.sub(r"\1", body)
        joined[module] = f"const {_variable('', module)} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();\n"

    add(entry)
    return "".join(joined.values())


def style() -> str:
    """Join the style sheets."""
    return "".join((STATIC / "css" / f"{name}.css").read_text(encoding="utf-8") for name in STYLES)


def _variable(folder: str, path: str) -> str:
    """Return the variable that holds the exports of a module."""
    return "from_" + posixpath.normpath(posixpath.join(folder, path)).replace("/", "_")
