"""Runs the Python of documentation pages: `run_snippets.py FOLDER PAGE...`. Prints a JSON line for a block that failed.

The blocks of a page run one after another in one namespace, in FOLDER. Comments of a page, which readers do not see:

    <!-- snippet: before          code that runs before the next block: what the page takes for granted
    text = "..."
    -->
    <!-- snippet: not run: needs weights -->      the next block is only compiled
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PART = re.compile(
    r"^<!-- snippet: before\n(?P<before>.*?)^-->$"
    r"|^<!-- snippet: not run: (?P<reason>[^\n]+) -->$"
    r"|^```python\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def blocks(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the line, the code, and whether it is run, of each block and each comment with code."""
    reason = None
    for match in _PART.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        if match["reason"] is not None:
            reason = match["reason"]
        elif match["before"] is not None:
            yield line, match["before"], True
        else:
            yield line, match["code"], reason is None
            reason = None


def run(code: str, name: str, line: int, namespace: dict[str, Any], loop: asyncio.AbstractEventLoop) -> None:
    """Run a block; `await` is allowed in it, as in a notebook."""
    compiled = compile("\n" * (line - 1) + code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    awaited = eval(compiled, namespace)
    if inspect.iscoroutine(awaited):
        loop.run_until_complete(awaited)


def main() -> None:
    """Run every page, and report."""
    folder, *pages = map(Path, sys.argv[1:])
    pages = [page.absolute() for page in pages]
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    loop = asyncio.new_event_loop()
    for page in pages:
        namespace: dict[str, Any] = {"__name__": "__main__"}
        for line, code, is_run in blocks(page.read_text(encoding="utf-8")):
            try:
                if is_run:
                    with contextlib.redirect_stdout(io.StringIO()):
                        run(code, page.name, line, namespace, loop)
                else:
                    compile(code, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            except Exception:
                print(
                    json.dumps({"page": page.name, "line": line, "error": traceback.format_exc(limit=-3)}), flush=True
                )
                break  # what comes after it on the page may need it


if __name__ == "__main__":
    main()
