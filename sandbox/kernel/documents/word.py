"""Word documents, by python-docx. Pages are where the document was broken, or was last shown to break."""

from __future__ import annotations

from typing import Any

import docx
from docx.oxml.ns import qn

from .model import MAX_PAGES, Document, Page, Table, refuse_bomb

_BREAK, _RENDERED = qn("w:br"), qn("w:lastRenderedPageBreak")
_TEXT, _TAB, _TYPE = qn("w:t"), qn("w:tab"), qn("w:type")


def read(path: str) -> Document:
    """Return the document, read as a whole."""
    refuse_bomb(path)
    pages: list[list[str]] = [[]]
    tables: list[list[Table]] = [[]]

    def turn() -> None:
        if len(pages) < MAX_PAGES and any(pages[-1]):
            pages.append([])
            tables.append([])

    for block in docx.Document(path).iter_inner_content():
        if hasattr(block, "rows"):
            rows = [_row(row) for row in block.rows]
            tables[-1].append(Table(rows, page=len(pages)))
            pages[-1].append("\n".join("\t".join(row) for row in rows))
        else:
            _paragraph(block._p, pages, turn)
    return Document(
        [
            Page("\n".join(text), number + 1, found)
            for number, (text, found) in enumerate(zip(pages, tables, strict=True))
        ]
    )


def _paragraph(element: Any, pages: list[list[str]], turn: Any) -> None:
    parts: list[str] = []
    for node in element.iter():
        if node.tag == _TEXT:
            parts.append(node.text or "")
        elif node.tag == _TAB:
            parts.append("\t")
        elif node.tag == _RENDERED or (node.tag == _BREAK and node.get(_TYPE) == "page"):
            if "".join(parts).strip():
                pages[-1].append("".join(parts))
            parts = []
            turn()
        elif node.tag == _BREAK:
            parts.append("\n")
    pages[-1].append("".join(parts))


def _row(row: Any) -> list[str]:
    seen, found = set(), []
    for cell in row.cells:  # a merged cell is there once for each place that it takes
        found.append("" if cell._tc in seen else cell.text)
        seen.add(cell._tc)
    return found
