"""Chat templates: messages into the text format that a model was trained on."""

from __future__ import annotations

import re
from typing import Any

from .types import Turns

_CONTROL = re.compile(
    r"<(?=\|[^|<>\s]{1,40}\|>|/?s>|(?:start|end)_of_turn>|(?:bos|eos|pad|unk|endoftext|end_of_text)>)|\[(?=/?INST\])"
)
_BREAK = "\u200b"


def without_control_tokens(text: str) -> str:
    """Break the control tokens in a text: in a document `<|im_end|>` is text, and must not end the message."""
    return _CONTROL.sub(lambda match: match[0] + _BREAK, text)


def render(tokenizer: Any, turns: Turns) -> list[int]:
    """Return the tokens of a conversation, up to the beginning of the answer."""
    if not getattr(tokenizer, "chat_template", None):
        return list(tokenizer.encode(plain_prompt(turns)))
    from jinja2 import TemplateError

    try:
        return _apply_template(tokenizer, turns)
    except TemplateError:
        # Some templates refuse a system message, or two messages of one role in a row.
        return _apply_template(tokenizer, alternating(turns))


def split_prefill(turns: Turns) -> tuple[Turns, str]:
    """Split a trailing assistant message, which is the beginning of the answer, from the conversation."""
    if len(turns) > 1 and turns[-1][0] == "assistant":
        return turns[:-1], turns[-1][1]
    return turns, ""


def plain_prompt(turns: Turns) -> str:
    """Return the text of a conversation for a model without a chat template."""
    messages, prefill = split_prefill(turns)
    return "\n\n".join(text for _, text in messages) + "\n\n" + prefill


def alternating(turns: Turns) -> Turns:
    """Return the conversation for a strict template: no system message, and alternating roles."""
    merged: list[tuple[str, str]] = []
    for role, text in turns:
        role = "user" if role == "system" else role
        if merged and merged[-1][0] == role:
            merged[-1] = (role, f"{merged[-1][1]}\n\n{text}")
        else:
            merged.append((role, text))
    return tuple(merged)


def as_messages(turns: Turns) -> list[dict[str, str]]:
    """Return messages as chat templates take them."""
    return [{"role": role, "content": text} for role, text in turns]


def _apply_template(tokenizer: Any, turns: Turns) -> list[int]:
    messages, prefill = split_prefill(turns)
    text = tokenizer.apply_chat_template(as_messages(messages), tokenize=False, add_generation_prompt=True)
    return list(tokenizer.encode(text + prefill, add_special_tokens=False))
