"""The texts of files among the inputs, for evidence: read by a kernel that never ran a cell of the model's.

What code says of a page is a claim. Here the files are read again, in a sandbox of their own, by code of ours alone: a
quote then stands on page 12 because it is there. Bounded in time and size; what is not reached has no place.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sandbox

from ..mounts import File, files_in
from ..mounts.describe import walk
from ..mounts.media import DOCUMENT_SUFFIXES
from ..results import ExecutionResult, Failed

if TYPE_CHECKING:
    from .config import RunConfig

READ_S = 30.0
"""How long all files of a run may take to be read."""

MAX_CHARS = 64_000_000
MAX_FILES = 300
"""The most files that are read. Those that code or output name come first."""

_SEEN_FILES = 20_000
_MEMORY_BYTES = 2 << 30
_PAGE_CHARS = 1_000_000
_READ = f"""
for place, file in enumerate(files):
    try:
        pages = file.pages
        for page in pages:
            name = f"sheet {{page.name}}" if page.name and file.name.lower().endswith((".xlsx", ".xlsm")) else None
            if not give(place, page.number if len(pages) > 1 or name else 0, name, str(page)[:{_PAGE_CHARS}]):
                raise SystemExit
    except (ValueError, OSError, ImportError):
        continue
"""


class DocumentTexts:
    """The inputs of a run with texts in place of files: of a document, one for each page."""

    def __init__(self, inputs: Mapping[str, Any], config: RunConfig, mentioned: Callable[[], str] = lambda: "") -> None:
        """`mentioned` returns what code and output have said so far: the files that it names are read first."""
        self._inputs, self._config, self._mentioned = inputs, config, mentioned
        self._has_files = any(True for name, value in inputs.items() for _ in files_in(value, name))
        self._lock = asyncio.Lock()
        self._texts: dict[str, dict[str, str]] | None = None

    @property
    def known(self) -> Mapping[str, Any]:
        """The inputs with the texts that have been read; the inputs themselves where nothing was."""
        return self._inputs if not self._texts else self._with_texts(self._texts)

    async def prepare(self, result: ExecutionResult[Any]) -> None:
        """Read the files if there is an answer that may be found in them."""
        if not isinstance(result, Failed):
            await self.read()

    async def read(self) -> Mapping[str, Any]:
        """Return the inputs with texts in place of files. They are read once."""
        if not self._has_files:
            return self._inputs
        async with self._lock:
            if self._texts is None:
                try:
                    self._texts = await self._read()
                except Exception:  # evidence is lost, and not the answer
                    logging.getLogger("rlm").exception("the files among the inputs could not be read for evidence")
                    self._texts = {}
        return self.known

    async def _read(self) -> dict[str, dict[str, str]]:
        places, files = self._chosen()
        texts: dict[str, dict[str, str]] = {}
        left = MAX_CHARS

        def give(place: int, number: int, title: str | None, text: str) -> bool:
            nonlocal left
            if not isinstance(text, str) or not 0 <= place < len(places) or left < len(text):
                return False
            left -= len(text)
            name = "" if not number else str(title or f"page {int(number)}")[:100]
            texts.setdefault(places[place], {})[name] = text
            return True

        limits = sandbox.Limits(cell_seconds=READ_S, host_calls=100_000, memory_bytes=_MEMORY_BYTES)
        options: dict[str, Any] = {"limits": limits, "isolation": self._config.isolation, "pool": self._config.pool}
        functions = {"give": give}
        async with sandbox.AsyncSession({"files": files}, functions, policy="off", **options) as session:
            await session.run(_READ, timeout=READ_S)
        return texts

    def _chosen(self) -> tuple[list[str], list[sandbox.File]]:
        """Return the files to read with their places: those that were named first, the small ones before the large."""
        said = self._mentioned()
        found: list[tuple[bool, int, str, str]] = []
        for name, value in self._inputs.items():
            for place, file in files_in(value, name):
                if not file.is_folder:
                    found.append((file.name not in said, file.size, place, file.path))
                    continue
                for below, size in walk(file.path, _SEEN_FILES):
                    unsaid = os.path.basename(below) not in said
                    if not unsaid or below.lower().endswith(DOCUMENT_SUFFIXES):
                        path = os.path.join(file.path, below)
                        found.append((unsaid, size, f"{place}/{below.replace('~', '~0').replace('/', '~1')}", path))
        chosen: dict[str, sandbox.File] = {}
        for _, _, place, path in sorted(found)[:MAX_FILES]:
            with contextlib.suppress(sandbox.InputError):  # it is gone
                chosen[place] = File(path)
        return list(chosen), list(chosen.values())

    def _with_texts(self, texts: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
        """Return the inputs with the texts at the places of their files."""
        readable: dict[str, Any] = {}
        for name, value in self._inputs.items():
            readable[name] = self._replaced(name, value, texts)
        return readable

    def _replaced(self, place: str, value: Any, texts: Mapping[str, Mapping[str, str]]) -> Any:
        if isinstance(value, sandbox.File):
            if not value.is_folder:
                return _of_pages(texts.get(place, {}))
            below = {
                text.removeprefix(f"{place}/"): pages for text, pages in texts.items() if text.startswith(f"{place}/")
            }
            return {name.replace("~1", "/").replace("~0", "~"): _of_pages(pages) for name, pages in below.items()}
        if isinstance(value, Mapping):
            return {name: self._replaced(f"{place}/{name}", inner, texts) for name, inner in value.items()}
        if isinstance(value, list | tuple) and (names := _names(value)):
            return {name: self._replaced(f"{place}/{index}", value[index], texts) for index, name in enumerate(names)}
        if isinstance(value, list | tuple):
            return [self._replaced(f"{place}/{index}", inner, texts) for index, inner in enumerate(value)]
        return value


def _names(values: Sequence[Any]) -> list[str]:
    """Return the names of files, if these are files of different names: evidence then says them, and no numbers."""
    names = [value.name for value in values if isinstance(value, sandbox.File)]
    return names if len(set(names)) == len(values) else []


def _of_pages(pages: Mapping[str, str]) -> Any:
    return pages[""] if pages.keys() == {""} else dict(pages)
