"""The error of the two-step adapter, with a tag for what failed."""

from __future__ import annotations

from typing import Literal

from ...extraction.errors import ExtractionError

Tag = Literal["extraction_lm_not_configured", "extraction_parse_failed", "extraction_validation_failed"]

_MESSAGES: dict[Tag, tuple[str, str]] = {
    "extraction_lm_not_configured": (
        "there is no model to extract with",
        "Set one with rlm.configure(two_step_extraction_lm=...), or pass it to this adapter: "
        "TwoStepAdapter(extraction_lm=...).",
    ),
    "extraction_parse_failed": (
        "the answer of the extraction model cannot be parsed",
        "Look at its answers with inspect_history() on the model; raise its max_tokens, or choose a larger one.",
    ),
    "extraction_validation_failed": (
        "the values of the extraction model do not fit the outputs",
        "Say in the signature what the main model has to answer, or choose a larger extraction model.",
    ),
}


class TwoStepError(ExtractionError):
    """The second step failed: `tag` names the failure, and `reason` the cause."""

    def __init__(self, tag: Tag, reason: str = "") -> None:
        self.tag: Tag = tag
        self.reason = reason
        message, advice = _MESSAGES[tag]
        super().__init__(f"{tag}: {message}{f' ({reason})' if reason else ''}. {advice}")
