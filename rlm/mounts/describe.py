"""Files as a prompt describes them: name, size, kind, shape, and how code reads them.

The host reads no more of a file than its beginning, as text: documents are parsed in the sandbox alone.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from typing import Any

import sandbox

from ..shapes import describe
from ..text import shorten
from ..units import size_text
from .file import File, files_in
from .media import DOCUMENTS, words_for

_LISTED = 12
_COUNTED = 20_000
_NAME_CHARS = 120
_READ_TEXT = "{name}.text is its text, {name}.open() a file object, {name}.path its path"
_READ_DOCUMENT = (
    "{name}.text is its text, {name}.pages a list with the text of each page, {name}.tables its tables (lists of rows),"
    " {name}.path its path"
)
_READ_LIST = "each has .name, .size, .path, .text and .open()"
_READ_FOLDER = (
    '{name}.files is the list of its files and {name}.glob("**/*.txt") those that fit; each has .name, .size, .path,'
    " .text and .open(); {name}[{first!r}] is one of them"
)
_DOCUMENTS = ", documents also .pages (a list of texts) and .tables (lists of rows)"


def describe_files(name: str, value: Any, *, most: int = 12, width: int = 200) -> str:
    """Describe an input that is a file or a folder, or has files in it, in a few lines."""
    if isinstance(value, sandbox.Folder):
        return _folder(name, value)
    if isinstance(value, sandbox.File):
        file = _typed(value)
        kind = file.media_type
        how = (_READ_DOCUMENT if kind in DOCUMENTS else _READ_TEXT).format(name=name)
        shape = _shape(file, kind, most, width)
        return f"{_about(file, kind)}; {how}{shape}"
    return _several(name, value)


def kind_of(value: Any) -> str:
    """Return the type of an input with files, in words."""
    if isinstance(value, sandbox.File):
        return "Folder" if value.is_folder else "File"
    return f"{type(value).__name__} of files"


def _typed(file: sandbox.File) -> File:
    return file if isinstance(file, File) else File(file)


def _quoted(name: str) -> str:
    """Return a name as a literal, which cannot be taken for another line of the prompt."""
    return repr(shorten(name, _NAME_CHARS))


def _about(file: File, kind: str) -> str:
    return f"{_quoted(file.name)}, {words_for(kind)}, {size_text(file.size)}"


def _shape(file: File, kind: str, most: int, width: int) -> str:
    if kind in DOCUMENTS or not kind.startswith(("text/", "application/json", "application/yaml")):
        return ""
    text = file.sample
    if not text:
        return ""
    part = "" if file.size <= len(text.encode()) + 3 else f" (its first {size_text(len(text))})"
    shape = describe(text).text(most=most, width=width).replace("\n", "\n  ")
    return f". The text{part}: {shape}"


def _several(name: str, value: Any) -> str:
    places = list(files_in(value, name))
    files = [file for _, file in places if not file.is_folder]
    total = size_text(sum(file.size for file in files))
    shown = [
        f"  {_key(place, name)}: {_about(_typed(file), _typed(file).media_type)}"
        if not file.is_folder
        else f"  {_key(place, name)}: folder {_quoted(file.name)}"
        for place, file in places[:_LISTED]
    ]
    if len(places) > _LISTED:
        shown.append(f"  and {len(places) - _LISTED:,} more: {_suffixes(file.name for _, file in places)}")
    documents = any(_typed(file).media_type in DOCUMENTS for file in files[:_LISTED])
    how = _READ_LIST + (_DOCUMENTS if documents else "")
    return "\n".join([f"{len(places):,} files, {total}; {how}", *shown])


def _key(place: str, name: str) -> str:
    return name + "".join(f"[{part if part.isdigit() else repr(part)}]" for part in place.split("/")[1:])


def _folder(name: str, folder: sandbox.Folder) -> str:
    found = list(walk(folder.path, _COUNTED + 1))
    listed = sorted(found[:_COUNTED])
    count = f"{len(listed):,} files" if len(found) <= _COUNTED else f"more than {_COUNTED:,} files"
    total = size_text(sum(size for _, size in listed))
    if not listed:
        return f"{_quoted(folder.name)}, a folder without files"
    how = _READ_FOLDER.format(name=name, first=shorten(listed[0][0], _NAME_CHARS))
    if any(name.lower().endswith((".pdf", ".docx", ".xlsx", ".pptx", ".eml")) for name, _ in listed):
        how += _DOCUMENTS
    examples = [f"  {_quoted(name)}, {size_text(size)}" for name, size in listed[:_LISTED]]
    kinds = _suffixes(name for name, _ in listed)
    more = [] if len(listed) <= _LISTED else [f"  and {len(listed) - _LISTED:,} more"]
    return "\n".join([f"{_quoted(folder.name)}, a folder: {count}, {total}: {kinds}. {how}", *examples, *more])


def _suffixes(names: Iterator[str]) -> str:
    counts = Counter(os.path.splitext(name)[1].lower()[:20] or "no suffix" for name in names)
    return ", ".join(f"{number:,} {_plain(suffix)}" for suffix, number in counts.most_common(6))


def _plain(suffix: str) -> str:
    return suffix if suffix.isascii() and suffix.isprintable() else repr(suffix)


def walk(top: str, most: int) -> Iterator[tuple[str, int]]:
    """Yield names and sizes of the files in a folder, at most so many. Links are not followed."""
    remaining, count = [""], 0
    while remaining and count < most:
        place = remaining.pop()
        try:
            with os.scandir(os.path.join(top, place)) as entries:
                for entry in entries:
                    name = f"{place}/{entry.name}" if place else entry.name
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(found.st_mode):
                        remaining.append(name)
                    elif stat.S_ISREG(found.st_mode):
                        count += 1
                        yield name, found.st_size
                    if count >= most:
                        return
        except OSError:
            continue
