"""Which parser reads a file: by its first bytes, and by its name where these say nothing."""

from __future__ import annotations

import importlib

from .model import Document, NoDocument

_ZIPPED = {".docx": "word", ".xlsx": "sheets", ".xlsm": "sheets", ".pptx": "slides"}
_NAMED = {".html": "web", ".htm": "web", ".xhtml": "web", ".eml": "mail"}
_NEEDED = {
    "pdf": ("PDF", "pypdfium2"),
    "word": ("Word documents", "python-docx"),
    "sheets": ("Excel workbooks", "openpyxl"),
    "slides": ("PowerPoint presentations", "python-pptx"),
    "web": ("HTML", "lxml"),
    "mail": ("e-mail", "lxml"),
}


def kind_of(name: str, beginning: bytes) -> str | None:
    """Return which parser reads a file with this name and these first bytes; None for plain text and all others."""
    suffix = name[name.rfind(".") :].lower() if "." in name else ""
    if b"%PDF-" in beginning[:1024]:
        return "pdf"
    if beginning[:4] == b"PK\x03\x04":
        return _ZIPPED.get(suffix)
    return _NAMED.get(suffix)


def open_document(path: str, name: str) -> Document | None:
    """Return the document in a file; None if it is none. Raise `NoDocument` for one that cannot be read."""
    with open(path, "rb") as file:
        kind = kind_of(name, file.read(1024))
    if kind is None:
        return None
    what, package = _NEEDED[kind]
    try:
        parser = importlib.import_module(f".{kind}", __package__)
    except ImportError as error:
        raise NoDocument(f"{name}: {what} cannot be read without {package} ({error})") from None
    try:
        document: Document = parser.read(path)
        return document
    except (MemoryError, NoDocument):
        raise
    except Exception as error:  # parsers raise whatever a damaged file makes them stumble over
        raise NoDocument(f"{name} cannot be read as {what} ({type(error).__name__}: {str(error)[:200]})") from None
