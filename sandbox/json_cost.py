"""The memory that a JSON text takes once it is decoded, estimated from the text. Used by the host and in the kernel.

`[],` is three bytes and becomes more than eighty, so a limit on bytes alone is no limit on memory. The estimate counts
brackets, commas and strings at the speed of `bytes.count`, and never falls far below what CPython takes. It is no
parser: whether the text is JSON at all is found out when it is decoded.
"""

from __future__ import annotations

from itertools import accumulate

SMALL_BYTES = 1 << 12
"""A text up to this size is not looked at: it is counted as the worst text of its length."""

WORST = 55
"""Bytes of memory for each byte of text, at worst: `[[[[…]]]]`."""

_OBJECT, _ARRAY, _STRING, _COMMA, _COLON = 200, 100, 56, 32, 24
_DENSE = 6  # only a text with so much structure for its length is looked at more closely
_SPLIT_STRINGS = 50_000
_ALL = bytes(range(256))
_UNSTRUCTURED, _NOT_BRACKETS = _ALL.translate(None, b'[{,:"'), _ALL.translate(None, b"[]{}")
_DEPTH_CHANGE = [1 if byte in b"[{" else -1 if byte in b"]}" else 0 for byte in range(256)]


def decoded_bytes(text: bytes) -> int:
    """Estimate the memory of a decoded text."""
    size = len(text)
    if size <= SMALL_BYTES:
        return size * WORST
    # In a string one character outside of ASCII makes all of them two or four bytes wide.
    width = (1 if b"\\u" not in text else 4) if text.isascii() else 8
    structure = text.translate(None, _UNSTRUCTURED)
    estimate = width * size + _structure(structure)
    if estimate <= _DENSE * size:
        return estimate
    text = _without_escapes(text)
    strings = text.count(b'"') // 2
    # What looks like structure may be inside of strings; not so where there are very many, all of them short.
    return estimate if strings > _SPLIT_STRINGS else width * size + strings * _STRING + _structure(_outside(text))


def is_deeper(text: bytes, levels: int) -> bool:
    """Return whether a JSON text is nested more deeply than that."""
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    brackets = _outside(_without_escapes(text)).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_DEPTH_CHANGE.__getitem__, brackets)), default=0) > levels


def _without_escapes(text: bytes) -> bytes:
    """Remove what keeps a quotation mark from ending its string."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text


def _outside(text: bytes) -> bytes:
    """Return what is outside of strings."""
    return b"".join(text.split(b'"')[::2])


def _structure(text: bytes) -> int:
    count = text.count
    brackets = _OBJECT * count(b"{") + _ARRAY * count(b"[")
    return brackets + _COMMA * count(b",") + _COLON * count(b":") + _STRING // 2 * count(b'"')
