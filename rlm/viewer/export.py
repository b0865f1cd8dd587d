"""Export of one run as one HTML file: the same page with script, style and data inside. It opens without a server."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import queries
from .bundle import script, style

if TYPE_CHECKING:
    from ..traces import RunRecord

MAX_CHARS = 2_000_000
"""Longer texts are cut in the file."""

_IN_SUMMARY = ("run_started", "run_ended")


@dataclass(frozen=True)
class Page:
    """A page as HTML, and notes for the user."""

    text: str
    notes: tuple[str, ...] = ()


def export_page(run: RunRecord) -> Page:
    """Return the page of one run with its note, its child runs included."""
    from ..traces.notes import Notes

    written = Notes(run.file.path.parents[1]).all()
    blobs: dict[str, dict[str, Any]] = {}
    runs: dict[str, dict[str, Any]] = {}
    for record in (run, *queries.descendants(run)):
        events = [
            [event.sequence, event.parent, event.kind, event.time, event.data]
            for event in record.events()
            if event.kind not in _IN_SUMMARY
        ]
        note = written.get(record.id)
        summary = {**queries.summary(record), "note": None if note is None else note.to_dict()}
        runs[record.id] = {"summary": summary, "events": events}
        for digest in _references([runs[record.id]["events"], runs[record.id]["summary"]]):
            if digest not in blobs:
                blobs[digest] = _blob(record, digest)
    cut = sum(blob.pop("cut") for blob in blobs.values())
    notes = (f"{cut} texts were cut after {MAX_CHARS:,} characters.",) if cut else ()
    return Page(_page(run.id, {"root": run.id, "runs": runs, "blobs": blobs}), notes)


def _page(title: str, data: dict[str, Any]) -> str:
    code, css = script(), style()
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(code)}'",
            f"style-src '{_digest(css)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{html.escape(title)}</title>
<style>{css}</style>
</head>
<body>
<noscript>This page needs JavaScript.</noscript>
<div id="page"></div>
<script type="application/json" id="trace">{_embedded(data)}</script>
<script type="module">{code}</script>
</body>
</html>
"""


def _embedded(data: dict[str, Any]) -> str:
    """Return JSON whose texts cannot end the element that contains it."""
    text = json.dumps(data, separators=(",", ":"), default=str)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _references(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if isinstance(item.get("$body"), str):
                yield item["$body"]
            stack += item.values()
        elif isinstance(item, list):
            stack += item


def _blob(run: RunRecord, digest: str) -> dict[str, Any]:
    from ..traces.blobs import BlobNotFound

    try:
        blob = run.blob(digest, MAX_CHARS + 1)
    except BlobNotFound:
        return {"kind": "text", "text": "[this text is no longer in the trace]", "cut": False}
    cut = len(blob) > MAX_CHARS
    text = blob[:MAX_CHARS] if isinstance(blob, str) else repr(blob[:MAX_CHARS])
    kind = "text" if isinstance(blob, str) else "bytes"
    return {"kind": kind, "text": f"{text}\n[cut in this file]" if cut else text, "cut": cut}
