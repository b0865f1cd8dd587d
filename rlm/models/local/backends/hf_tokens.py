"""Tokenizers of Hugging Face's kind: for MLX folders and for transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..chat_template import render
from ..grammar import Grammars
from ..token_table import token_table
from ..types import Turns


class HfTokens:
    """A fast tokenizer, with the tokens that end a text."""

    def __init__(self, tokenizer: Any, eos: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._eos = eos

    def prompt(self, turns: Turns | str) -> list[int]:
        """The tokens of a conversation, up to where the answer begins, or of a plain text."""
        if isinstance(turns, str):
            return list(self._tokenizer.encode(turns))
        return render(self._tokenizer, turns)

    def writer(self) -> Callable[[int], str]:
        """A function that is given one token after the other, and says what text each adds."""
        from tokenizers.decoders import DecodeStream

        stream, backend = DecodeStream(skip_special_tokens=True), self._tokenizer.backend_tokenizer
        return lambda token: stream.step(backend, token) or ""

    def grammars(self) -> Grammars:
        """Constraints, compiled for these tokens."""
        return Grammars(token_table(self._tokenizer, sorted(self._eos)))
