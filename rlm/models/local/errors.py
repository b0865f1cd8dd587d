"""Every way in which a local model fails before or after it has answered. All are dspy errors."""

from __future__ import annotations

from dspy.utils.exceptions import LMConfigurationError, LMError


class LocalModelError(LMConfigurationError):  # type: ignore[misc]
    """A local model cannot be loaded."""


class MissingExtra(LocalModelError):
    """The packages of this backend are not installed."""

    def __init__(self, extra: str, reason: str) -> None:
        super().__init__(f"{reason}. Install it with: pip install 'rlm-kernel[{extra}]'")
        self.extra = extra


class MissingModel(LocalModelError):
    """There is no model at this path."""


class DoesNotFit(LocalModelError):
    """The weights need more memory than is free."""


class UnsupportedConstraint(LocalModelError):
    """This type cannot be turned into a grammar."""


class ConstraintViolated(LMError):  # type: ignore[misc]
    """The backend says it is done, and the text is not what the constraint allows. Never passed on as an answer."""
