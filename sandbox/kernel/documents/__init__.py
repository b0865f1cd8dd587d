"""Documents as text: pages and tables of PDF, Word, Excel, PowerPoint, HTML and e-mail files, each with its number.

Parsers of files are attack surface: they run here, in the kernel, behind every layer of the sandbox, and are imported
when a document is first read. What a hostile document can do is what any cell can do: use up the time and memory of its
session.
"""

from __future__ import annotations

from .model import Document, NoDocument, Page, Table
from .reading import kind_of, open_document

__all__ = ["Document", "NoDocument", "Page", "Table", "kind_of", "open_document"]
