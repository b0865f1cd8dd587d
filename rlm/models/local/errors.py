"""The errors of local models, all of them errors of dspy.

dspy.LMError
├── LMConfigurationError
│   └── LocalModelError          the model cannot be loaded
│       ├── MissingExtra         the packages of its backend are not installed
│       ├── MissingModel         there is no model at the path
│       ├── DoesNotFit           the weights need more memory than is free
│       └── UnsupportedConstraint  a type cannot be turned into a grammar
└── ConstraintViolated           a constrained answer is not what its constraint allows
"""

from __future__ import annotations

from dspy.utils.exceptions import LMConfigurationError, LMError

from ...errors import RlmError


class LocalModelError(RlmError, LMConfigurationError):  # type: ignore[misc]
    """A local model cannot be loaded."""

    def __init__(self, message: str, *, model: str | None = None) -> None:
        LMConfigurationError.__init__(self, message, model=model)


class MissingExtra(LocalModelError):
    """The packages of a backend are not installed; `extra` installs them."""

    def __init__(self, extra: str, reason: str) -> None:
        command = f"pip install 'rlm-kernel[{extra}]'"
        super().__init__(reason if command in reason else f"{reason}. Install it with: {command}")
        self.extra = extra


class MissingModel(LocalModelError):
    """There is no model at this path."""


class DoesNotFit(LocalModelError):
    """The weights need more memory than is free."""


class UnsupportedConstraint(LocalModelError):
    """A type cannot be turned into a grammar."""


class ConstraintViolated(RlmError, LMError):  # type: ignore[misc]
    """A constrained answer is not what its constraint allows. It is never returned as an answer."""
