"""The texts of the questions about plans, in files of their own."""

from __future__ import annotations

import functools
from importlib.resources import files
from string import Template


@functools.cache
def template(name: str) -> Template:
    """Return the text in `name.md`."""
    return Template(files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8"))
