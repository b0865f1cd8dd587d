"""HTML, by lxml: the text that a reader sees, and the tables. One page."""

from __future__ import annotations

from typing import Any

import lxml.etree
import lxml.html

from .model import MAX_CELLS, Document, Page, Table

_UNSEEN = frozenset(["script", "style", "head", "noscript", "template"])
_SHORT = ("a", "b", "i", "q", "s", "u", "em", "tt", "bdi", "bdo", "dfn", "kbd", "sub", "sup", "var")
_INLINE = frozenset(
    [*_SHORT, "abbr", "cite", "code", "data", "font", "label", "mark", "samp", "small", "span", "strong", "time"]
)


def read(path: str) -> Document:
    """Return the document, read as a whole."""
    with open(path, "rb") as file:
        return of_html(file.read())


def of_html(content: bytes | str) -> Document:
    """Return the document in an HTML text."""
    if not content.strip():
        return Document([Page("", 1)])
    parser = lxml.html.HTMLParser(no_network=True, recover=True)
    try:
        root = lxml.html.document_fromstring(content, parser=parser)
    except (lxml.etree.ParserError, ValueError):
        root = lxml.html.document_fromstring(content.encode() if isinstance(content, str) else content)
    return Document([Page(text_of(root), 1, [Table(rows) for rows in _tables(root)])])


def text_of(root: Any) -> str:
    """Return the text of an element, with a line for each block. Not by recursion: elements nest to any depth."""
    parts: list[str] = []
    unseen = 0
    for event, node in lxml.etree.iterwalk(root, events=("start", "end", "comment", "pi")):
        if event in ("comment", "pi"):
            if not unseen and node.tail:
                parts.append(node.tail)
            continue
        name = node.tag if isinstance(node.tag, str) else ""
        if event == "start":
            unseen += name in _UNSEEN
            if not unseen:
                parts += ([] if name in _INLINE else ["\t" if name in ("td", "th") else "\n"]) + [node.text or ""]
            continue
        unseen -= name in _UNSEEN
        if not unseen:
            parts += ([] if name in _INLINE or name in ("td", "th") else ["\n"]) + [node.tail or ""]
    lines = (" ".join(line.split(" ")).strip() for line in "".join(parts).splitlines())
    return "\n".join(line for line in lines if line)


def _tables(root: Any) -> list[list[list[str]]]:
    found: list[list[list[str]]] = []
    cells = 0
    for table in root.iter("table"):
        rows = []
        for row in table.iter("tr"):
            values = [" ".join(text_of(cell).split()) for cell in row if cell.tag in ("td", "th")]
            cells += len(values) + 1
            if cells > MAX_CELLS:
                return found
            rows.append(values)
        if rows:
            found.append(rows)
    return found
