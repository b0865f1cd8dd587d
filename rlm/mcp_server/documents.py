"""The files that a caller may name: regular text files below the allowed folders.

Covered: `..`, absolute paths and links that lead elsewhere, also those that are changed meanwhile: each file is opened
step by step from an allowed folder, without following links. Not covered: what hard links show, and files that are
there because somebody else may write into an allowed folder.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import RlmError
from ..text import count
from ..units import size_text

MAX_FILES = 10_000
MAX_BYTES = 200_000_000
_MAX_DEPTH = 40
_MAX_LEFT_OUT = 1_000
_LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages"})
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotReadable(RlmError, ValueError):
    """A path cannot be read for a caller: it is outside of the allowed folders, or no text file."""


@dataclass
class Documents:
    """Texts by the names that code and evidence have for them."""

    texts: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    """The whole path of each."""

    left_out: list[str] = field(default_factory=list)
    """Files of named folders that were not read, with the reason."""

    size: int = 0


class Folders:
    """The allowed folders, and what is below them."""

    def __init__(self, folders: Sequence[str | Path]) -> None:
        """The folders must exist. Links in their own paths are followed, once and for all."""
        self.roots = tuple(dict.fromkeys(Path(folder).resolve(strict=True) for folder in folders))
        for root in self.roots:
            if not root.is_dir():
                raise NotReadable(f"{root} is not a folder")

    def within(self, others: Sequence[str | Path] | None) -> Folders:
        """Return the folders that are below these and below others; these, where there are no others."""
        if others is None:
            return self
        found = []
        for other in others:
            try:
                path = Path(other).resolve(strict=True)
            except OSError:
                continue
            for root in self.roots:
                if path.is_relative_to(root):
                    found.append(path)
                elif root.is_relative_to(path):
                    found.append(root)
        return Folders([path for path in found if path.is_dir()])

    def allows(self, path: str | Path) -> bool:
        """Return whether a path is below one of the folders."""
        return any(Path(path).is_relative_to(root) for root in self.roots)

    def read(self, names: Sequence[str]) -> Documents:
        """Return the texts of files and folders. Raise `NotReadable`."""
        if not names:
            raise NotReadable("name at least one file or folder in `paths`")
        documents = Documents()
        for name in names:
            root, steps = self._place(name)
            with _opened(root, steps[:-1]) as parent:
                self._read(parent, root, steps, documents)
        if not documents.texts:
            why = "; ".join(documents.left_out[:5]) or "there is no file"
            raise NotReadable(f"no text file is in {', '.join(names[:5])}: {why}")
        return documents

    def _place(self, name: str) -> tuple[Path, tuple[str, ...]]:
        """Return the folder that a name is in, and the steps from there. Links are resolved, and must not lead out."""
        if "\0" in name or len(name) > 4_096:
            raise NotReadable("this is not a path")
        given = Path(name)
        if not self.roots:
            raise NotReadable("no folder may be read: the client's roots and those of `rlm mcp --root` share none")
        for candidate in [given] if given.is_absolute() else [root / given for root in self.roots]:
            try:
                path = candidate.resolve(strict=True)
            except (OSError, RuntimeError):
                continue
            for root in self.roots:
                if path.is_relative_to(root):
                    return root, path.relative_to(root).parts
        listed = ", ".join(map(str, self.roots))
        raise NotReadable(f"{name!r:.300} does not exist below a folder that may be read; these may: {listed}")

    def _read(self, parent: int, root: Path, steps: tuple[str, ...], documents: Documents) -> None:
        if not steps:
            self._read_folder(parent, root, (), documents)
            return
        try:
            with _opened_at(steps[-1], parent, _DIRECTORY) as folder:
                self._read_folder(folder, root, steps, documents)
                return
        except NotADirectoryError:
            pass
        except OSError as error:
            raise NotReadable(f"{root.joinpath(*steps)} cannot be read: {error.strerror}") from None
        if (problem := self._read_file(parent, root, steps, documents)) is not None:
            raise NotReadable(f"{root.joinpath(*steps)} {problem}")

    def _read_folder(self, folder: int, root: Path, steps: tuple[str, ...], documents: Documents) -> None:
        """Read the files below a folder. Hidden ones, links and what holds installed packages are left out."""
        for name in sorted(os.listdir(folder)):
            if name.startswith(".") or name in _LEFT_OUT or len(steps) > _MAX_DEPTH:
                continue
            try:
                mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    _leave_out(documents, (*steps, name), "is a link")
                    continue
                if stat.S_ISDIR(mode):
                    with _opened_at(name, folder, _DIRECTORY) as inner:
                        self._read_folder(inner, root, (*steps, name), documents)
                    continue
                problem = self._read_file(folder, root, (*steps, name), documents)
            except OSError as error:
                problem = f"cannot be read: {error.strerror}"
            if problem is not None:
                _leave_out(documents, (*steps, name), problem)

    def _read_file(self, parent: int, root: Path, steps: tuple[str, ...], documents: Documents) -> str | None:
        """Read one file; return why it is left out. Raise `NotReadable` where there is too much of all."""
        try:
            with _opened_at(steps[-1], parent, _FILE) as descriptor:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return "is not a regular file"
                with open(descriptor, "rb", closefd=False) as file:
                    content = file.read(MAX_BYTES - documents.size + 1)
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        if documents.size + len(content) > MAX_BYTES:
            raise NotReadable(f"more than {size_text(MAX_BYTES)} of text; name fewer files")
        if len(documents.texts) >= MAX_FILES:
            raise NotReadable(f"more than {count(MAX_FILES, 'file')}; name fewer")
        if b"\0" in content[:8_192]:
            return "is not text"
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return "is not UTF-8 text"
        documents.size += len(content)
        path = root.joinpath(*steps)
        name = path.relative_to(root).as_posix() if len(self.roots) == 1 else str(path)
        documents.texts[name], documents.paths[name] = text, str(path)
        return None


def _leave_out(documents: Documents, steps: tuple[str, ...], why: str) -> None:
    if len(documents.left_out) < _MAX_LEFT_OUT:
        documents.left_out.append(f"{'/'.join(steps)} {why}")


@contextlib.contextmanager
def _opened(root: Path, steps: Sequence[str]) -> Iterator[int]:
    """Open a folder below a root, step by step and without following links."""
    descriptor = os.open(root, _DIRECTORY)
    try:
        for step in steps:
            inner = os.open(step, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    except OSError as error:
        raise NotReadable(f"{root.joinpath(*steps)} cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _opened_at(name: str, parent: int, flags: int) -> Iterator[int]:
    descriptor = os.open(name, flags, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
