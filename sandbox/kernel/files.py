"""Files and folders that a session was given, as its code has them. They are read in place, and cannot be written.

What may be opened is the operating system's affair (`isolation/`): nothing here is trusted for it.
"""

from __future__ import annotations

import codecs
import fnmatch
import mmap
import os
import stat
from collections.abc import Iterator
from typing import IO, Any

from . import previews, reflection
from .views import TextView

VIEW_BYTES = 8 << 20
"""Of a larger text, only what is looked at is decoded."""

_LISTED = 1_000_000
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class NotText(ValueError):
    """A file has no text: it is not text in an encoding that is known, nor a document that can be read."""


class File:
    """A file: .name, .size, .path, .text, .open(), .read(); of a document also .pages and .tables.

    It can be given to functions that take a path.
    """

    __slots__ = ("_cache", "_map", "name", "path", "size")

    def __init__(self, path: str, name: str, size: int) -> None:
        self.path, self.name, self.size = path, name, size
        self._cache: dict[str, Any] = {}
        self._map: mmap.mmap | None = None
        if size > VIEW_BYTES:  # now: what is mapped before the first cell is no memory of the session's
            self._map_it()

    def open(self, mode: str = "rb", encoding: str | None = None, errors: str | None = None) -> IO[Any]:
        """Open the file to read: bytes, or text with mode "r"."""
        return open(self.path, mode, encoding=encoding or (None if "b" in mode else "utf-8"), errors=errors)

    def read(self) -> bytes:
        """Return the whole content."""
        with self.open() as file:
            content: bytes = file.read()
            return content

    @property
    def text(self) -> Any:
        """The text of the file, or of the document in it.

        That of a large file reads like a `str`, and is decoded where it is looked at.
        """
        if "text" not in self._cache:
            document = self._document
            self._cache["text"] = self._read_text() if document is None else document.text
        return self._cache["text"]

    @property
    def pages(self) -> Any:
        """The pages of a document (slides, sheets): texts with .number and .tables. A plain text is one page."""
        document = self._document
        if document is not None:
            return document.pages
        if "pages" not in self._cache:
            from .documents import Page

            self._cache["pages"] = [Page(str(self.text), 1)]
        return self._cache["pages"]

    @property
    def tables(self) -> Any:
        """The tables of a document: lists of rows, with .page and .cell(row, column). They are read as they are asked
        for."""
        document = self._document
        return [] if document is None else document.tables

    @property
    def _document(self) -> Any:
        if "document" not in self._cache:
            from .documents import open_document  # parsers are imported when a document is first read

            self._cache["document"] = open_document(self.path, self.name)
        return self._cache["document"]

    @property
    def lines(self) -> Iterator[str]:
        """The lines of the text, one by one."""
        text = self.text
        return iter(text.lines() if isinstance(text, TextView) else text.splitlines())

    def __fspath__(self) -> str:
        return self.path

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<File {self.name!r}, {self.size:,} bytes>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, File) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    def _map_it(self) -> None:
        try:
            with open(self.path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
        except (OSError, ValueError):
            self._map = None  # it is read as a whole, where there is room for that

    def _read_text(self) -> Any:
        if self._map is not None:
            head = self._map[: 1 << 16]
            if b"\0" not in head and not head.startswith(tuple(mark for mark, _ in _BOMS)) and is_utf8(self._map):
                return TextView(self._map)
        content = self.read()
        for mark, encoding in _BOMS:
            if content.startswith(mark):
                return _decoded(content, encoding)
        if b"\0" in content[: 1 << 16]:
            raise NotText(f"{self.name} is not text: it begins {content[:40]!r}; .open() reads its bytes")
        try:
            return _decoded(content, "utf-8")
        except UnicodeDecodeError:
            return _decoded(content, "latin-1")


class Folder:
    """A folder: .path, .files, .glob("**/*.txt"), and folder["a/b.txt"]. It can be given to functions that take a path.

    Iterating over it gives its files, those in folders below included. Links and what is no regular file are left out.
    """

    __slots__ = ("_files", "name", "path")

    def __init__(self, path: str, name: str, size: int = 0) -> None:
        self.path, self.name = path, name
        self._files: dict[str, File] | None = None

    @property
    def files(self) -> list[File]:
        """All files, in the order of their names; those in folders below included."""
        return list(self._listed().values())

    def glob(self, pattern: str) -> list[File]:
        """Return the files whose name in the folder fits a pattern: "*.txt" here, "**/*.txt" also in folders below."""
        listed = self._listed()
        return [file for name, file in listed.items() if _fits(name, pattern)]

    def __getitem__(self, name: str) -> File:
        listed = self._listed()
        if name not in listed:
            near = [other for other in listed if name.rpartition("/")[2] in other][:5]
            raise KeyError(f"{name!r} is not in the folder{f'; there are {near}' if near else ''}")
        return listed[name]

    def __iter__(self) -> Iterator[File]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self._listed())

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        return name in self._listed()

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        count = "" if self._files is None else f", {len(self._files):,} files"
        return f"<Folder {self.name!r}{count}>"

    def _listed(self) -> dict[str, File]:
        if self._files is None:
            found = dict(_walk(self.path, ""))
            self._files = {name: found[name] for name in sorted(found)}
        return self._files


def _walk(top: str, below: str) -> Iterator[tuple[str, File]]:
    """Yield the files of a folder by their names in it. Not by recursion: folders can be as deep as they like."""
    remaining, count = [below], 0
    while remaining:
        place = remaining.pop()
        try:
            entries = list(os.scandir(os.path.join(top, place)))
        except OSError:
            continue
        for entry in entries:
            name = f"{place}/{entry.name}" if place else entry.name
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(found.st_mode):
                remaining.append(name)
            elif stat.S_ISREG(found.st_mode):
                count += 1
                if count > _LISTED:
                    return
                yield name, FolderFile(entry.path, name, found.st_size)


class FolderFile(File):
    """A file of a folder. Its name is that in the folder; of many files, none is mapped before it is read."""

    __slots__ = ()

    def __init__(self, path: str, name: str, size: int) -> None:
        self.path, self.name, self.size = path, name, size
        self._cache = {}
        self._map = None

    def _read_text(self) -> Any:
        if self.size > VIEW_BYTES and self._map is None:
            self._map_it()
        return super()._read_text()


def _fits(name: str, pattern: str) -> bool:
    parts, wanted = name.split("/"), pattern.strip("/").split("/")
    places = {0}
    for want in wanted:
        if want == "**":
            places = {later for place in places for later in range(place, len(parts))}
        else:
            places = {place + 1 for place in places if place < len(parts) and fnmatch.fnmatchcase(parts[place], want)}
    return len(parts) in places


def _decoded(content: bytes, encoding: str) -> str:
    return content.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def is_utf8(buffer: Any) -> bool:
    """Return whether a buffer is UTF-8, a piece at a time."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    step, size = 1 << 20, len(buffer)
    try:
        for start in range(0, size, step):
            decoder.decode(buffer[start : start + step], start + step >= size)
    except UnicodeDecodeError:
        return False
    return True


_file_name, _file_size = (File.__dict__[name].__get__ for name in ("name", "size"))
(_folder_name,) = (Folder.__dict__[name].__get__ for name in ("name",))


def _draw_file(sketch: previews.Sketch, file: Any) -> None:
    size = _file_size(file)
    sketch.add(f"<File {reflection.text(_file_name(file))!r}, {size if type(size) is int else '?'} bytes>")


def _draw_folder(sketch: previews.Sketch, folder: Any) -> None:
    sketch.add(f"<Folder {reflection.text(_folder_name(folder))!r}>")


previews.register(File, _draw_file, wrapped=False)
previews.register(Folder, _draw_folder, wrapped=False)
