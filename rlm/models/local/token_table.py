"""llguidance's table of a tokenizer's tokens: slow to make, so the bytes of each token are kept on disk.

Made anew, the tokenizer is written out, read and built a second time only to learn them. What is kept is used while
the tokenizer's files and the libraries that read them are the same. A file that is damaged is made again, and where
none can be written nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ...files import write_atomic
from ...paths import home

_FORMAT = 1
_READ_BY = ("llguidance", "tokenizers", "transformers")
_TOKENIZER_FILES = ("*.json", "*.txt", "*.model", "*.jinja")


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """The bytes of every token, and which tokens are no text."""

    tokens: Sequence[bytes]
    special: Sequence[int]


def token_table(tokenizer: Any, eos: list[int]) -> Any:
    """llguidance's own tokenizer for a fast one of Hugging Face's kind."""
    import llguidance.hf

    kept = _file(tokenizer)
    known = None if kept is None else _read(kept)
    if known is not None:
        return llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Known(tokenizer, known, eos)), eos_token=eos)
    table = llguidance.hf.from_tokenizer(tokenizer, eos_token=eos)
    if kept is not None:
        _write(kept, _bytes_of(table))
    return table


class _Known:
    """A tokenizer as llguidance wants one from Python."""

    bos_token_id = None

    def __init__(self, tokenizer: Any, known: TokenBytes, eos: list[int]) -> None:
        self._tokenizer = tokenizer.backend_tokenizer
        self.eos_token_id = eos[0]
        self.tokens = known.tokens
        self.special_token_ids = known.special

    def __call__(self, text: bytes) -> list[int]:
        return list(self._tokenizer.encode(text.decode(), add_special_tokens=False).ids)


def _bytes_of(table: Any) -> TokenBytes:
    every = range(table.vocab_size)
    return TokenBytes(
        [table.decode_bytes([token]) for token in every], [token for token in every if table.is_special_token(token)]
    )


def _file(tokenizer: Any) -> Path | None:
    """Where the bytes of this tokenizer are kept; nowhere, if it was not read from a folder."""
    folder = Path(tokenizer.name_or_path)
    if not folder.is_dir():
        return None
    digest = hashlib.sha256(" ".join([str(_FORMAT), *map(version, _READ_BY)]).encode())
    for file in sorted(one for pattern in _TOKENIZER_FILES for one in folder.glob(pattern)):
        content = file.read_bytes()
        digest.update(f"\n{file.name} {len(content)}\n".encode() + content)
    return home() / "tokens" / f"{digest.hexdigest()[:32]}.tokens"


def _read(file: Path) -> TokenBytes | None:
    """What is in the file; nothing, if there is none or if it is damaged."""
    try:
        digest, lengths, special, joined = file.read_bytes().split(b"\n", 3)
        if digest.decode() != _digest(lengths, special, joined):
            return None
    except (OSError, ValueError):
        return None
    tokens, at = [], 0
    for length in json.loads(lengths):
        tokens.append(joined[at : at + length])
        at += length
    return TokenBytes(tokens, json.loads(special))


def _write(file: Path, known: TokenBytes) -> None:
    """Keep it, whole or not at all."""
    parts = (
        json.dumps([len(token) for token in known.tokens]).encode(),
        json.dumps(list(known.special)).encode(),
        b"".join(known.tokens),
    )
    with contextlib.suppress(OSError):  # a disk that is full or not ours: the table is there all the same
        file.parent.mkdir(parents=True, exist_ok=True)
        content = b"\n".join((_digest(*parts).encode(), *parts))
        write_atomic(file, content, mode=0o600, durable=False)  # a damaged table is recognised, and made again


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\n".join(parts)).hexdigest()
