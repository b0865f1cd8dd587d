"""How a main model is spoken to. All that is different for models that run here is decided in this room.

They read a few dozen tokens a second and lose the thread easily, so they get a short prompt, short outputs and a form
that their replies are held to: a thought, one code block, and nothing after it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .conversation import Conversation

MAX_OUTPUT_CHARS = 8_000
BRIEF_OUTPUT_CHARS = 800
BRIEF_REPLY_TOKENS = 240
STUCK_TEMPERATURE = 0.8

FORM = r"""start: THOUGHT? "```python\n" CODE "```"
THOUGHT: /{opening}[^`\n.=]{1,90}\.?\n/
CODE: /[^`]+/
"""
"""One sentence, and no code in it: in a second one small models begin to make up what they will find. Backticks end the
code wherever they come, for such a model often closes its block on the last line itself."""


OFFER = r"""start: "Is that the answer? " (yes | no)
yes: {offer}
no: THOUGHT "```python\n" CODE "```"
THOUGHT: /No, [^`\n.=]{1,90}\.?\n/
CODE: /[^`]+/
"""
"""After a value was printed that could be the answer: a word from the model, and it is submitted. Small models often
print the answer and begin again."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a model is spoken to, and how it may answer."""

    brief: bool = False
    output_chars: int = MAX_OUTPUT_CHARS
    """How much of what a cell printed is shown."""

    def settings(self, conversation: Conversation) -> Mapping[str, Any]:
        """For the next reply in a conversation: the form that it is held to, if this model can be.

        A model that is stuck writes the same again at a temperature of 0, so it is given a higher one.
        """
        if not self.brief:
            return {}
        held = _held(conversation.opening, conversation.offer)
        return {**held, "temperature": STUCK_TEMPERATURE} if conversation.stuck else held


def manner_of(model: Any) -> Manner:
    """Brief for a model that runs here and can be held to a form."""
    return _BRIEF if getattr(model, "constrains", False) else _FULL


_FULL, _BRIEF = Manner(), Manner(True, BRIEF_OUTPUT_CHARS)


@functools.lru_cache(maxsize=256)
def _held(opening: str, offer: str) -> Mapping[str, Any]:
    from ..models.local.constraints import Constraint

    if offer:
        form = OFFER.replace("{offer}", json.dumps(f"Yes.\n```python\n{offer}\n```", ensure_ascii=False))
    else:
        form = FORM.replace("{opening}", re.escape(opening).replace("/", r"\/").replace("`", ""))
        form = form.replace("?", "", 1) if opening else form
    held = Constraint("lark", form).response_format()
    asked = {"type": "json_schema", "json_schema": {"name": held["name"], "schema": held["schema"]}}
    return {"response_format": asked, "max_tokens": BRIEF_REPLY_TOKENS}
