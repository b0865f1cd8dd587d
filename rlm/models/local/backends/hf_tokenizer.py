"""Tokenizers of Hugging Face, for MLX folders and for transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..chat_template import render
from ..grammar import Grammars
from ..token_table import token_table
from ..types import Turns


class HfTokenizer:
    """A fast tokenizer, with the tokens that end a text."""

    def __init__(self, tokenizer: Any, eos: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._eos = eos

    def encode(self, turns: Turns | str) -> list[int]:
        """Return the tokens of a conversation, up to the beginning of the answer, or of a plain text."""
        if isinstance(turns, str):
            return list(self._tokenizer.encode(turns))
        return render(self._tokenizer, turns)

    def decoder(self) -> Callable[[int], str]:
        """Return a function that is called with one token after the other, and returns the text that each adds."""
        from tokenizers.decoders import DecodeStream

        stream, backend = DecodeStream(skip_special_tokens=True), self._tokenizer.backend_tokenizer
        return lambda token: stream.step(backend, token) or ""

    def grammars(self) -> Grammars:
        """Return the compiled constraints for these tokens."""
        return Grammars(token_table(self._tokenizer, sorted(self._eos)))
