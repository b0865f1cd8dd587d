"""The tokenizer and the chat template of a GGUF file, as files for transformers and mlx-lm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .errors import WeightsError
from .reader import Gguf

# How text is split before the merges, by the name in the file.
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SPLITS = {
    "qwen2": _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _REST,
    "llama-bpe": _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _REST,
}
KNOWN = ("smollm", *_SPLITS)

_CONTROL, _USER_DEFINED = 3, 4
# Files name one end token; models were trained with more. These control tokens all end a turn.
_ENDS = frozenset({"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"})


def write_tokenizer(gguf: Gguf, folder: Path) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`."""
    from tokenizers import AddedToken, Tokenizer, decoders, models

    tokens, kinds = gguf.fields["tokenizer.ggml.tokens"], gguf.fields["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ", 1)) for merge in gguf.fields["tokenizer.ggml.merges"]]
    try:
        tokenizer = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=merges))
    except Exception as error:  # the library has no exception class of its own
        raise WeightsError(f"{gguf.path.name} has a damaged tokenizer ({error}); fetch the file again") from None
    _set_splits(tokenizer, gguf.fields["tokenizer.ggml.pre"])
    tokenizer.decoder = decoders.ByteLevel()
    pairs = list(zip(tokens, kinds, strict=True))
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t, kind in pairs if kind == _CONTROL]
    )
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t, kind in pairs if kind == _USER_DEFINED])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(_config(gguf), indent=1), encoding="utf-8")


def check_tokenizer(gguf: Gguf) -> None:
    """Raise `WeightsError` if the tokenizer cannot be converted."""
    model, pre = gguf.fields.get("tokenizer.ggml.model"), gguf.fields.get("tokenizer.ggml.pre")
    if model != "gpt2" or pre not in KNOWN:
        raise WeightsError(
            f"{gguf.path.name} has a tokenizer ({model}, {pre}) that cannot be converted for MLX; run it with llama.cpp"
        )


def end_tokens(gguf: Gguf) -> list[int]:
    """Return the tokens that end a reply, the one that the file names first."""
    named = [gguf.fields.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot")]
    pairs = zip(gguf.fields["tokenizer.ggml.tokens"], gguf.fields["tokenizer.ggml.token_type"], strict=True)
    known = [number for number, (token, kind) in enumerate(pairs) if kind == _CONTROL and token in _ENDS]
    return list(dict.fromkeys(int(number) for number in (*named, *known) if number is not None))


def _set_splits(tokenizer: Any, pre: str) -> None:
    from tokenizers import Regex, normalizers, pre_tokenizers

    if pre == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        splits = [digits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    else:
        split = pre_tokenizers.Split(Regex(_SPLITS[pre]), "isolated")
        splits = [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)


def _config(gguf: Gguf) -> dict[str, Any]:
    tokens = gguf.fields["tokenizer.ggml.tokens"]
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": gguf.architecture_field("context_length"),
        "clean_up_tokenization_spaces": False,
        "chat_template": gguf.fields.get("tokenizer.chat_template"),
    }
    for ours, theirs in (("eos", "eos"), ("bos", "bos"), ("pad", "padding"), ("unk", "unknown")):
        number = gguf.fields.get(f"tokenizer.ggml.{theirs}_token_id")
        if number is not None:
            config[f"{ours}_token"] = tokens[number]
    return config
