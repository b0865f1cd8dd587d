"""Files and folders of the host that a session may read: which ones, and where its kernel finds them.

Covers: what a path led to when it was named, by device and inode, so that nothing else is shown in its place later.

Does not cover: how a kernel is given them (`isolation.namespaces`, `isolation.landlock`), and how its code reads them
(`kernel/files.py`). Their content is the host's: it can be changed while a session reads it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import InputError

INSIDE = "/files"
"""Where a private root has them."""

MAX_MOUNTS = 10_000
_REFUSED = ("/proc", "/sys", "/dev")
_NAME_BYTES = 200


class File:
    """A file for the code of a session, which reads it in place: nothing is copied. It is an input, or part of one.

    The path is followed now, through links; what it leads to must be a regular file, and must still be that file when
    the session is opened.
    """

    _wanted = "a regular file"
    is_folder = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        given = os.fspath(path)
        if not isinstance(given, str) or not given:
            raise InputError(f"{given!r} is not the path of {self._wanted}")
        self.path = os.path.realpath(os.path.expanduser(given))
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except (OSError, ValueError) as error:
            raise InputError(f"{given} cannot be read ({getattr(error, 'strerror', None) or error})") from None
        if not (stat.S_ISDIR if self.is_folder else stat.S_ISREG)(found.st_mode):
            raise InputError(f"{given} is not {self._wanted}{self._instead(found.st_mode)}")
        if self.path == "/" or any(f"{self.path}/".startswith(f"{place}/") for place in _REFUSED):
            raise InputError(f"{given} is part of the system, and cannot be given to a session")
        self.name = os.path.basename(self.path)
        self.size = found.st_size
        self.modified_ns = found.st_mtime_ns
        self.identity = (found.st_dev, found.st_ino)

    def _instead(self, mode: int) -> str:
        return "; a directory is a Folder" if stat.S_ISDIR(mode) else ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, File) and (self.path, self.identity) == (other.path, other.identity)

    def __hash__(self) -> int:
        return hash((self.path, self.identity))

    def __fspath__(self) -> str:
        return self.path


class Folder(File):
    """A folder for the code of a session, with all that is in it; what is added later can be read, too.

    Links in it that lead out of it lead nowhere.
    """

    _wanted = "a directory"
    is_folder = True

    def _instead(self, mode: int) -> str:
        return "; a single one is a File" if stat.S_ISREG(mode) else ""


@dataclass(frozen=True, slots=True)
class Mount:
    """One of them, as the kernel of a session gets it."""

    source: str
    """The path on the host. It has no link in it."""

    target: str
    """The path in a private root. Without one, the kernel uses that of the host."""

    identity: tuple[int, int]
    is_folder: bool = False

    def to_json(self) -> list[Any]:
        """As plain values, for the fork server."""
        return [self.source, self.target, *self.identity, self.is_folder]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> Mount:
        """Return what `to_json` made."""
        source, target, device, inode, is_folder = values
        return cls(source, target, (device, inode), is_folder)

    def check(self, found: os.stat_result) -> None:
        """Raise `OSError` if this is not what the path led to when it was named."""
        if (found.st_dev, found.st_ino) != self.identity:
            raise OSError(0, f"{self.source} was replaced by another file since it was named as an input")


def refuse_devices(mounts: Iterable[Mount]) -> None:
    """Raise `InputError` for a folder with a device in it. In a private root nothing there is a device."""
    for mount in mounts:
        remaining = [mount.source] if mount.is_folder else []
        while remaining:
            with contextlib.suppress(OSError), os.scandir(remaining.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        remaining.append(entry.path)
                    elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                        mode = entry.stat(follow_symlinks=False).st_mode
                        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                            raise InputError(f"{entry.path} is a device; a folder with devices cannot be given here")


class Places:
    """The places of files in the private root, by input: `/files/report/2024.pdf`."""

    def __init__(self) -> None:
        self.mounts: list[Mount] = []
        self.files: list[File] = []
        self._taken: dict[tuple[str, str], int] = {}
        self._numbers: dict[File, int] = {}

    def add(self, name: str, file: File) -> int:
        """Return the number of the mount for this file, which the input of that name has."""
        known = self._numbers.get(file)
        if known is not None:
            return known
        if len(self.mounts) >= MAX_MOUNTS:
            raise InputError(f"more than {MAX_MOUNTS:,} files; give the folder that has them, as a Folder")
        plain = _plain_name(file.name)
        number = self._taken[name, plain] = self._taken.get((name, plain), 0) + 1
        # No input has a name with a hyphen, so that this is no other's folder.
        target = f"{INSIDE}/{name}{f'-{number}' if number > 1 else ''}/{plain}"
        self.mounts.append(Mount(file.path, target, file.identity, file.is_folder))
        self.files.append(file)
        self._numbers[file] = len(self.mounts) - 1
        return self._numbers[file]


def _plain_name(name: str) -> str:
    """Return a name with the characters that paths in prompts and programs can have; its end stays as it is."""
    text = "".join(char if char.isprintable() and char not in "\\/" else "_" for char in name)
    while len(text.encode()) > _NAME_BYTES:
        stem, dot, suffix = text.rpartition(".")
        text = f"{stem[: len(stem) * 3 // 4]}{dot}{suffix}" if stem and len(suffix) < 20 else text[: len(text) * 3 // 4]
    return text if text not in ("", ".", "..") else "_"
