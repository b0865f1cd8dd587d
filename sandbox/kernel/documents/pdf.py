"""PDF: the text of pages by pdfium, tables with ruled lines by pdfplumber."""

from __future__ import annotations

import contextlib
from typing import Any

import pypdfium2

from .model import MAX_CELLS, Document, NoDocument, Page, Pages, Table


def read(path: str) -> Document:
    """Return the document; its pages are read when they are looked at."""
    try:
        pdf = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        locked = "password" in str(error).lower()
        raise NoDocument("the PDF has a password" if locked else f"the PDF is damaged: {error}") from None

    def page(number: int) -> Page:
        return Page(_text(pdf, number), number + 1, lambda: _tables(path, number))

    return Document(Pages(len(pdf), page))


def _text(pdf: Any, number: int) -> str:
    try:
        opened = pdf[number]
    except pypdfium2.PdfiumError:
        return ""  # a page that is damaged: the others can be read
    try:
        text = opened.get_textpage()
        with contextlib.closing(text):
            found: str = text.get_text_bounded()
            return found.replace("\r\n", "\n").replace("\r", "\n").replace("\ufffe", "-")
    finally:
        opened.close()


def _tables(path: str, number: int) -> list[Table]:
    import pdfplumber

    with pdfplumber.open(path, pages=[number + 1]) as pdf:
        found = pdf.pages[0].extract_tables() if pdf.pages else []
    tables = []
    for rows in found:
        plain = [[(value or "").strip() for value in row] for row in rows]
        if sum(map(len, plain)) <= MAX_CELLS:
            tables.append(Table(plain, page=number + 1))
    return tables
