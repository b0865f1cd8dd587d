"""Chat templates: messages into the text that a model was trained on."""

from __future__ import annotations

import re
from typing import Any

from .types import Turns

_CONTROL = re.compile(
    r"<(?=\|[^|<>\s]{1,40}\|>|/?s>|(?:start|end)_of_turn>|(?:bos|eos|pad|unk|endoftext|end_of_text)>)|\[(?=/?INST\])"
)
_BREAK = "\u200b"


def words_only(text: str) -> str:
    """A text in which nothing is read as a control token: in a document `<|im_end|>` is words, and ends no message."""
    return _CONTROL.sub(lambda found: found[0] + _BREAK, text)


def render(tokenizer: Any, turns: Turns) -> list[int]:
    """The tokens of a conversation, up to where the model goes on."""
    if not getattr(tokenizer, "chat_template", None):
        return list(tokenizer.encode(untemplated(turns)))
    from jinja2 import TemplateError

    try:
        return _templated(tokenizer, turns)
    except TemplateError:
        # Some templates refuse a system message, or two messages of one role in a row.
        return _templated(tokenizer, plainer(turns))


def begun(turns: Turns) -> tuple[Turns, str]:
    """The conversation up to the answer, and the answer's beginning: an assistant's message at the end is that."""
    if len(turns) > 1 and turns[-1][0] == "assistant":
        return turns[:-1], turns[-1][1]
    return turns, ""


def untemplated(turns: Turns) -> str:
    """The text of a conversation for a model without a chat template."""
    asked, beginning = begun(turns)
    return "\n\n".join(text for _, text in asked) + "\n\n" + beginning


def plainer(turns: Turns) -> Turns:
    """The same conversation for a strict template: the system's words open the first user message, roles alternate."""
    merged: list[tuple[str, str]] = []
    for role, text in turns:
        role = "user" if role == "system" else role
        if merged and merged[-1][0] == role:
            merged[-1] = (role, f"{merged[-1][1]}\n\n{text}")
        else:
            merged.append((role, text))
    return tuple(merged)


def _templated(tokenizer: Any, turns: Turns) -> list[int]:
    asked, beginning = begun(turns)
    messages = [{"role": role, "content": text} for role, text in asked]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) + beginning
    return list(tokenizer.encode(text, add_special_tokens=False))
