"""Hashes of the files that a run is given, computed beside it, and how files differ from those of an earlier run."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import sandbox

from ..units import size_text
from .file import files_in

_PIECE = 1 << 20
MAX_BYTES = 8 << 30
"""More than this is not hashed; sizes and times are compared."""

MAX_FILES = 100_000
WAIT_S = 10.0
"""How long a run that has ended waits for the hashes of its files."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What one file or folder of the inputs was."""

    path: str
    size: int
    """Bytes; of a folder, those of all its files."""

    modified_ns: int
    sha256: str | None = None
    """None where there was too much to be hashed, or no time for it. Of a folder, the hash of all names and files."""

    files: int | None = None
    """How many files a folder had."""

    changed: bool = False
    """Whether it changed while it was hashed: the run may have read one or the other."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FileRecord:
        """Return what `to_dict` described; what is missing in it is unknown."""
        names = ("path", "size", "modified_ns", "sha256", "files", "changed")
        return cls(**{name: values[name] for name in names if name in values})


class FileHashes:
    """The files of one run, hashed by a thread while the model is asked."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self._files = [(place, file) for name, value in inputs.items() for place, file in files_in(value, name)]
        self._stopped = threading.Event()

    def __bool__(self) -> bool:
        return bool(self._files)

    async def records(self) -> dict[str, FileRecord]:
        """Return what each file was, by its place in the inputs. After `stop`, what is left is not hashed."""
        return await asyncio.to_thread(self._records)

    def stop(self) -> None:
        """Hash no more."""
        self._stopped.set()

    def _records(self) -> dict[str, FileRecord]:
        room = MAX_BYTES
        found: dict[str, FileRecord] = {}
        known: dict[sandbox.File, FileRecord] = {}
        for place, file in self._files:
            if file not in known:
                known[file] = self._of(file, room)
                room -= known[file].size
            found[place] = known[file]
        return found

    def _of(self, file: sandbox.File, room: int) -> FileRecord:
        try:
            return self._of_folder(file, room) if file.is_folder else self._of_file(file, room)
        except OSError:
            return FileRecord(file.path, file.size, file.modified_ns, changed=True)

    def _of_file(self, file: sandbox.File, room: int) -> FileRecord:
        about = FileRecord(file.path, file.size, file.modified_ns)
        digest = self._digest(file.path, None, file.size, room)
        if digest is None:
            return about
        found = os.stat(file.path, follow_symlinks=False)
        now = (found.st_dev, found.st_ino), found.st_size, found.st_mtime_ns
        changed = now != (file.identity, file.size, file.modified_ns)
        return FileRecord(file.path, file.size, file.modified_ns, digest, None, changed)

    def _of_folder(self, folder: sandbox.File, room: int) -> FileRecord:
        """Hash the names and contents of all files, in the order of their names. Links are hashed by their names."""
        whole, total, count, modified = hashlib.sha256(), 0, 0, folder.modified_ns
        complete = True
        for above, _, names, descriptor in _walk(folder.path):
            for name in sorted(names):
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if not stat.S_ISREG(found.st_mode):
                    continue
                count, total, modified = count + 1, total + found.st_size, max(modified, found.st_mtime_ns)
                digest = None
                if complete and count <= MAX_FILES:
                    digest = self._digest(name, descriptor, found.st_size, room - total)
                complete = complete and digest is not None
                relative = os.fsencode(os.path.relpath(os.path.join(above, name), folder.path))
                whole.update(f"{len(relative)}:".encode() + relative + (digest or "").encode())
        return FileRecord(folder.path, total, modified, whole.hexdigest() if complete else None, count)

    def _digest(self, path: str, directory: int | None, size: int, room: int) -> str | None:
        if size > room or self._stopped.is_set():
            return None
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        digest = hashlib.sha256()
        with open(os.open(path, flags, dir_fd=directory), "rb", buffering=0) as file:
            left = size + _PIECE  # a file that grows has an end all the same
            while left > 0 and (piece := file.read(_PIECE)):
                digest.update(piece)
                left -= len(piece)
                if self._stopped.is_set():
                    return None
        return digest.hexdigest()


def _walk(top: str) -> Any:
    for above, folders, names, descriptor in os.fwalk(top, follow_symlinks=False):
        folders.sort()
        yield above, folders, names, descriptor


def differences(recorded: Mapping[str, FileRecord], now: Mapping[str, FileRecord]) -> list[str]:
    """Say which files are not what they were, and in what."""
    found = []
    for place, record in now.items():
        before = recorded.get(place)
        if before is not None and (what := _difference(before, record)) is not None:
            found.append(f"{place} ({record.path}): {what}")
    return found


def _difference(before: FileRecord, now: FileRecord) -> str | None:
    if before.sha256 is not None and now.sha256 is not None:
        if before.sha256 == now.sha256:
            return None
        if before.files != now.files:
            return f"it had {before.files:,} files and has {now.files:,}"
        if before.size == now.size:
            return f"it has the same size, {size_text(now.size)}, and another content"
        return f"it had {before.size:,} bytes and has {now.size:,}"
    if before.size != now.size and (before.files is None) == (now.files is None):
        return f"it had {before.size:,} bytes and has {now.size:,}"
    return "it was written since, and its content was not hashed" if before.modified_ns != now.modified_ns else None
