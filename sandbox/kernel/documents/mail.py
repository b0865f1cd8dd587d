"""E-mail, by the standard library: the headers and the text; attachments by name. One page."""

from __future__ import annotations

import email.policy
from email.message import EmailMessage
from email.parser import BytesParser

from .model import Document, Page, Table

_HEADERS = ("From", "To", "Cc", "Date", "Subject")


def read(path: str) -> Document:
    """Return the document, read as a whole."""
    with open(path, "rb") as file:
        message = BytesParser(_class=EmailMessage, policy=email.policy.default).parse(file)
    head = [f"{name}: {message[name]}" for name in _HEADERS if message[name] is not None]
    body, tables = _body(message)
    names = [part.get_filename() or "without a name" for part in message.iter_attachments()]
    attached = [f"[attachment: {name}]" for name in names]
    return Document([Page("\n".join([*head, "", body, *attached]), 1, tables, str(message["Subject"] or ""))])


def _body(message: EmailMessage) -> tuple[str, list[Table]]:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return "", []
    try:
        content = part.get_content()
    except (LookupError, UnicodeError, KeyError):
        content = bytes(part.get_payload(decode=True) or b"").decode("latin-1")
    if part.get_content_subtype() != "html":
        return str(content), []
    from .web import of_html

    page = of_html(content).pages[0]
    return str(page), page.tables
