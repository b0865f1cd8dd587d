"""GGUF files on llama.cpp through llama-cpp-python, which exposes logits: the decode loop is that of this package."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..chat_template import alternating, as_messages, plain_prompt, split_prefill
from ..decoding import CachedModel, Sampler
from ..errors import LocalModelError, MissingExtra
from ..generator import LoadedModel, TokenModel
from ..hardware import default_threads
from ..sampling import numpy_sampler
from ..types import Settings, Turns


def llama_model(file: Path, name: str, context: int, threads: int | None = None) -> TokenModel:
    """Load the weights of a GGUF file. It generates one answer at a time."""
    try:
        import llguidance.llamacpp  # noqa: F401
        import outlines  # noqa: F401
    except ImportError as error:
        raise MissingExtra("llamacpp", f"a GGUF file needs {error.name}, which is not installed") from error
    return TokenModel(name, "llamacpp", lambda model: _load(model, file, context, threads or default_threads()))


class LlamaCachedModel(CachedModel):
    """A model of llama.cpp with its key-value cache."""

    def __init__(self, llama: Any, eos: frozenset[int]) -> None:
        import llama_cpp

        super().__init__(eos)
        self._api = llama_cpp
        self._llama = llama
        self._context = llama._ctx.ctx
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._size = llama.n_vocab()

    def sampler(self, settings: Settings) -> Sampler:
        """Return a sampler in NumPy."""
        return numpy_sampler(settings)

    def _advance(self, tokens: list[int]) -> Any:
        batch = self._api.llama_batch_get_one((self._api.llama_token * len(tokens))(*tokens), len(tokens))
        code = self._api.llama_decode(self._context, batch)
        if code != 0:
            raise LocalModelError(f"llama.cpp could not decode a batch of {len(tokens)} tokens (code {code})")
        logits = self._api.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(logits, shape=(self._size,))

    def _truncate(self, size: int) -> int:
        if self._api.llama_memory_seq_rm(self._memory, 0, size, -1):
            return size
        self._api.llama_memory_clear(self._memory, True)
        return 0


class LlamaTokenizer:
    """The tokenizer and the chat template of a GGUF file."""

    def __init__(self, llama: Any) -> None:
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        self._llama = llama
        template = llama.metadata.get("tokenizer.chat_template")
        end = llama._model.token_get_text(llama.token_eos())
        self._template = Jinja2ChatFormatter(template=template, eos_token=end, bos_token="") if template else None

    def encode(self, turns: Turns | str) -> list[int]:
        """Return the tokens of a conversation, up to the beginning of the answer, or of a plain text."""
        if isinstance(turns, str) or self._template is None:
            text = turns if isinstance(turns, str) else plain_prompt(turns)
            return list(self._llama.tokenize(text.encode(), special=True))
        try:
            text = self._render(turns)
        except Exception:  # of the template: it refuses a system message, or two messages of one role in a row
            text = self._render(alternating(turns))
        return list(self._llama.tokenize(text.encode(), add_bos=not self._llama._model.add_bos_token(), special=True))

    def decoder(self) -> Callable[[int], str]:
        """Return a function that is called with one token after the other, and returns the text that each adds."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return lambda token: decoder.decode(self._llama.detokenize([token], special=False))

    def _render(self, turns: Turns) -> str:
        messages, prefill = split_prefill(turns)
        assert self._template is not None
        return str(self._template(messages=as_messages(messages)).prompt) + prefill


def _load(model: TokenModel, file: Path, context: int, threads: int) -> LoadedModel:
    import llama_cpp
    from llguidance.llamacpp import lltokenizer_from_vocab

    from ..grammar import Grammars
    from ..outlines_models import NamedLlamaCpp

    try:
        llama = llama_cpp.Llama(
            str(file), n_ctx=context, n_threads=threads, n_threads_batch=threads, n_batch=512, verbose=False
        )
    except (ValueError, OSError) as error:
        raise LocalModelError(f"{file} is not a model that llama.cpp can load: {error}") from error
    vocab = llama_cpp.llama_model_get_vocab(llama._model.model)
    ends = {llama.token_eos(), llama_cpp.llama_vocab_eot(vocab)} - {-1}
    return LoadedModel(
        model=LlamaCachedModel(llama, frozenset(ends)),
        tokenizer=LlamaTokenizer(llama),
        grammars=Grammars(lltokenizer_from_vocab(vocab, eos_token=sorted(ends))),
        context=context,
        outlines=NamedLlamaCpp(model, llama),
    )
