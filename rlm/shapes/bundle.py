"""The modules of this package as the source of one, for the kernel, which cannot import them."""

from __future__ import annotations

import functools
import re
from importlib.resources import files

_MODULES = ("shape", "lines", "texts", "tables", "describe")
_LEFT_OUT = re.compile(r"^from (?:__future__ import annotations|\.\w+ import .*)\n", re.MULTILINE)


@functools.cache
def kernel_source() -> str:
    """Return the source of `describe` and of all that it uses, in one module."""
    sources = [files(__package__).joinpath(f"{name}.py").read_text(encoding="utf-8") for name in _MODULES]
    parts = [_LEFT_OUT.sub("", source) for source in sources]
    return "\n".join(parts)
