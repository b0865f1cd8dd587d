"""Kinds of files, by their first bytes and their names. Nothing is parsed."""

from __future__ import annotations

import mimetypes

_MAGIC = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\x1f\x8b", "application/gzip"),
    (b"PAR1", "application/vnd.apache.parquet"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
)
_OFFICE = "application/vnd.openxmlformats-officedocument."
_NAMES = {
    ".docx": f"{_OFFICE}wordprocessingml.document",
    ".xlsx": f"{_OFFICE}spreadsheetml.sheet",
    ".pptx": f"{_OFFICE}presentationml.presentation",
    ".eml": "message/rfc822",
    ".md": "text/markdown",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
_WORDS = {
    "application/pdf": "PDF",
    _NAMES[".docx"]: "Word document",
    _NAMES[".xlsx"]: "Excel workbook",
    _NAMES[".pptx"]: "PowerPoint presentation",
    "message/rfc822": "e-mail",
    "text/html": "HTML",
    "text/csv": "CSV",
    "application/json": "JSON",
    "application/octet-stream": "binary",
}
DOCUMENT_SUFFIXES = (".pdf", ".docx", ".xlsx", ".xlsm", ".pptx", ".html", ".htm", ".eml")
DOCUMENTS = frozenset(["application/pdf", _NAMES[".docx"], _NAMES[".xlsx"], _NAMES[".pptx"], "message/rfc822"])
"""Kinds of files whose text is not what is in them as it stands."""


def media_type(name: str, beginning: bytes) -> str:
    """Return the media type of a file with this name and these first bytes."""
    for mark, kind in _MAGIC:
        if beginning.startswith(mark):
            return kind
    suffix = name[name.rfind(".") :].lower() if "." in name else ""
    if suffix in _NAMES and not (suffix in (".docx", ".xlsx", ".pptx") and beginning[:2] != b"PK"):
        return _NAMES[suffix]
    if beginning.startswith(b"PK\x03\x04"):
        return "application/zip"
    guessed = mimetypes.types_map.get(suffix)
    if b"\0" in beginning:
        return guessed if guessed and not guessed.startswith("text/") else "application/octet-stream"
    return guessed or "text/plain"


def words_for(kind: str) -> str:
    """Return a media type as a prompt has it: `PDF`, `text/x-python`."""
    return _WORDS.get(kind, kind)
