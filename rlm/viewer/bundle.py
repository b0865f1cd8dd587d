"""The page's own files. Its modules are sent as one: thirty small requests take longer than a large trace."""

from __future__ import annotations

import re
from pathlib import Path

STATIC = Path(__file__).parent / "static"
BUNDLE = "page.js"
"""The name under which the page asks for its modules."""

_IMPORT = re.compile(r'^import \{\s*([^}]+?)\s*\} from "\./([a-z]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def bundle(first: str = "app") -> str:
    """The modules as one: each in a function of its own, in the order in which they need each other."""
    made: dict[str, str] = {}

    def add(name: str) -> None:
        if name in made:
            return
        source = (STATIC / f"{name}.js").read_text(encoding="utf-8")
        for _, other in _IMPORT.findall(source):
            add(other)
        names = ", ".join(name for _, name in _EXPORT.findall(source))
        inside = _EXPORT.sub(r"\1", _IMPORT.sub(r"const { \1 } = from_\2;", source))
        made[name] = f"const from_{name} = (() => {{\n{inside}\nreturn {{ {names} }};\n}})();\n"

    add(first)
    return "".join(made.values())
