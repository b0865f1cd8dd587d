"""One run as one HTML file: the same page with its modules and the data inside. It opens without a server."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import queries
from .bundle import STATIC, bundle

if TYPE_CHECKING:
    from ..traces import RunRecord

MOST_CHARS = 2_000_000
"""A longer text is cut in the file; the trace has all of it."""

_IN_SUMMARY = ("run_started", "run_ended")


@dataclass(frozen=True)
class Page:
    """A page, and what has to be said about it."""

    text: str
    notes: tuple[str, ...] = ()


def export_page(run: RunRecord) -> Page:
    """The page of one run, its child runs included."""
    bodies: dict[str, dict[str, Any]] = {}
    runs: dict[str, dict[str, Any]] = {}
    for one in (run, *queries.descendants(run)):
        events = [
            [event.sequence, event.parent, event.kind, event.time, event.data]
            for event in one.events()
            if event.kind not in _IN_SUMMARY
        ]
        runs[one.id] = {"summary": queries.summary(one), "events": events}
        for digest in _references([runs[one.id]["events"], runs[one.id]["summary"]]):
            if digest not in bodies:
                bodies[digest] = _body(one, digest)
    cut = sum(body.pop("cut") for body in bodies.values())
    notes = (f"{cut} texts were cut after {MOST_CHARS:,} characters.",) if cut else ()
    return Page(_page(run.id, {"root": run.id, "runs": runs, "bodies": bodies}), notes)


def _page(title: str, data: dict[str, Any]) -> str:
    script, style = bundle(), (STATIC / "style.css").read_text(encoding="utf-8")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
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
<style>{style}</style>
</head>
<body>
<noscript>This page needs JavaScript.</noscript>
<div id="page"></div>
<script type="application/json" id="trace">{_embedded(data)}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def _embedded(data: dict[str, Any]) -> str:
    """JSON that cannot end the element it is in, whatever its texts say."""
    text = json.dumps(data, separators=(",", ":"), default=str)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _references(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if isinstance(one.get("$body"), str):
                yield one["$body"]
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _body(run: RunRecord, digest: str) -> dict[str, Any]:
    from ..traces.blobs import BlobNotFound

    try:
        found = run.blob(digest, MOST_CHARS + 1)
    except BlobNotFound:
        return {"kind": "text", "text": "[this text is no longer in the trace]", "cut": False}
    cut = len(found) > MOST_CHARS
    text = found[:MOST_CHARS] if isinstance(found, str) else repr(found[:MOST_CHARS])
    kind = "text" if isinstance(found, str) else "bytes"
    return {"kind": kind, "text": f"{text}\n[cut in this file]" if cut else text, "cut": cut}
