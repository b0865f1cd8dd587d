"""The one error of the two-step adapter, with a tag that says what failed."""

from __future__ import annotations

from typing import Literal

from ...extraction.errors import ExtractionError

Tag = Literal["extraction_lm_not_configured", "extraction_parse_failed", "extraction_validation_failed"]

_WORDS: dict[Tag, tuple[str, str]] = {
    "extraction_lm_not_configured": (
        "there is no model to extract with",
        "Set one with rlm.configure(two_step_extraction_lm=...), or give it to this adapter: "
        "TwoStepAdapter(extraction_lm=...).",
    ),
    "extraction_parse_failed": (
        "the extraction model gave nothing that can be read",
        "Look at its answers with inspect_history() on the model; raise its max_tokens, or choose a larger one.",
    ),
    "extraction_validation_failed": (
        "what the extraction model gave does not fit the outputs",
        "Say in the signature what the main model has to answer, or choose a larger extraction model.",
    ),
}


class TwoStepError(ExtractionError):
    """The second step failed. `tag` says how, in one word; `reason` says why."""

    def __init__(self, tag: Tag, reason: str = "") -> None:
        self.tag: Tag = tag
        self.reason = reason
        what, advice = _WORDS[tag]
        super().__init__(f"{tag}: {what}{f' ({reason})' if reason else ''}. {advice}")

    def __reduce__(self) -> tuple[type[TwoStepError], tuple[Tag, str]]:
        return type(self), (self.tag, self.reason)
