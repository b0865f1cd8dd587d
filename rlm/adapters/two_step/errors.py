"""The error of the two-step adapter, with a tag for what failed."""

from __future__ import annotations

from typing import Any, Literal

from dspy.utils.exceptions import AdapterParseError, DSPyError

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
        Exception.__init__(self, f"{tag}: {message}{f' ({reason})' if reason else ''}. {advice}")


class TwoStepParseError(TwoStepError, AdapterParseError):  # type: ignore[misc]
    """The answer of the extraction model cannot be used. dspy and its optimizers know it as an `AdapterParseError`."""

    def __init__(self, tag: Tag, reason: str = "", *, signature: Any = None, lm_response: str = "") -> None:
        TwoStepError.__init__(self, tag, reason)
        DSPyError.__init__(self, str(self))
        self.adapter_name = "TwoStepAdapter"
        self.signature = signature
        self.lm_response = lm_response
        self.parsed_result = None

    def __reduce__(self) -> tuple[Any, ...]:
        # A signature that was made of a text cannot be imported where the error is unpickled.
        restore, (kind, args, attributes) = super().__reduce__()
        return restore, (kind, args, {**attributes, "signature": None})
