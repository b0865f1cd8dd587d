"""llguidance's table of a tokenizer's tokens, with a cache of the tokens' bytes on disk.

llguidance writes the tokenizer out, reads it and builds it a second time only to learn these bytes. The cached ones are
used while the tokenizer's files and the libraries that read them are the same. A damaged file is written again, and
where no file can be written nothing is cached.
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

from ...files import home, write_atomic

_FORMAT = 1
_READ_BY = ("llguidance", "tokenizers", "transformers")
_TOKENIZER_FILES = ("*.json", "*.txt", "*.model", "*.jinja")


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """The bytes of every token, and the tokens that are not text."""

    tokens: Sequence[bytes]
    special: Sequence[int]


def token_table(tokenizer: Any, eos: list[int]) -> Any:
    """Return llguidance's tokenizer for a fast tokenizer of Hugging Face."""
    import llguidance.hf

    file = _file(tokenizer)
    cached = None if file is None else _read(file)
    if cached is not None:
        wrapper = llguidance.TokenizerWrapper(_CachedTokenizer(tokenizer, cached, eos))
        return llguidance.LLTokenizer(wrapper, eos_token=eos)
    table = llguidance.hf.from_tokenizer(tokenizer, eos_token=eos)
    if file is not None:
        _write(file, _bytes_of(table))
    return table


class _CachedTokenizer:
    """A tokenizer in the form that llguidance takes from Python."""

    bos_token_id = None

    def __init__(self, tokenizer: Any, table: TokenBytes, eos: list[int]) -> None:
        self._tokenizer = tokenizer.backend_tokenizer
        self.eos_token_id = eos[0]
        self.tokens = table.tokens
        self.special_token_ids = table.special

    def __call__(self, text: bytes) -> list[int]:
        return list(self._tokenizer.encode(text.decode(), add_special_tokens=False).ids)


def _bytes_of(table: Any) -> TokenBytes:
    tokens = range(table.vocab_size)
    special = [token for token in tokens if table.is_special_token(token)]
    return TokenBytes([table.decode_bytes([token]) for token in tokens], special)


def _file(tokenizer: Any) -> Path | None:
    """Return the cache file of a tokenizer; None if it was not read from a folder."""
    folder = Path(tokenizer.name_or_path)
    if not folder.is_dir():
        return None
    digest = hashlib.sha256(" ".join([str(_FORMAT), *map(version, _READ_BY)]).encode())
    for file in sorted(path for pattern in _TOKENIZER_FILES for path in folder.glob(pattern)):
        content = file.read_bytes()
        digest.update(f"\n{file.name} {len(content)}\n".encode() + content)
    return home() / "tokens" / f"{digest.hexdigest()[:32]}.tokens"


def _read(file: Path) -> TokenBytes | None:
    """Return the content of the file; None if it is missing or damaged."""
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


def _write(file: Path, table: TokenBytes) -> None:
    parts = (
        json.dumps([len(token) for token in table.tokens]).encode(),
        json.dumps(list(table.special)).encode(),
        b"".join(table.tokens),
    )
    with contextlib.suppress(OSError):  # a full or read-only disk: the table is used without the cache
        file.parent.mkdir(parents=True, exist_ok=True)
        content = b"\n".join((_digest(*parts).encode(), *parts))
        write_atomic(file, content, mode=0o600, durable=False)  # a damaged table is recognised, and written again


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\n".join(parts)).hexdigest()
