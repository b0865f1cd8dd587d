"""PowerPoint presentations, by python-pptx: a page for each slide, its notes included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pptx

from .model import Document, Page, Pages, Table, refuse_bomb

_DEPTH = 20


def read(path: str) -> Document:
    """Return the document; a slide is read when it is looked at."""
    refuse_bomb(path)
    slides = list(pptx.Presentation(path).slides)

    def page(number: int) -> Page:
        slide = slides[number]
        texts: list[str] = []
        tables: list[Table] = []
        for shape in _shapes(slide.shapes, 0):
            if getattr(shape, "has_table", False) and shape.has_table:
                rows = [[cell.text for cell in row.cells] for row in shape.table.rows]
                tables.append(Table(rows, page=number + 1))
                texts.append("\n".join("\t".join(row) for row in rows))
            elif shape.has_text_frame:
                texts.append(shape.text_frame.text)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            texts.append(slide.notes_slide.notes_text_frame.text)
        title = slide.shapes.title
        return Page("\n".join(filter(None, texts)), number + 1, tables, title.text if title is not None else "")

    return Document(Pages(len(slides), page))


def _shapes(shapes: Any, depth: int) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes") and depth < _DEPTH:
            yield from _shapes(shape.shapes, depth + 1)
        else:
            yield shape
