"""The profile of a model: what it can do, and how it is reached, as far as rlm has to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .local.types import LocalModel
    from .rate_limit.bucket import Limit


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """What a model can do. A `dspy.LM` carries it as its attribute `profile`; most models have the default."""

    constrains: bool = False
    """Whether it takes `_outlines_constraint=<type>`, and writes nothing else."""

    local: LocalModel | None = None
    """The weights, for a model in this process. Two models with the same ones share memory and cached prompts."""

    engine: Any = None
    """An asynchronous engine of this process, which can be called without dspy."""

    small: bool = False
    """Whether it is a small local model, which does better with short prompts and a constrained answer."""

    context_window: int | None = None
    """Tokens of prompt and answer together, where that is known."""

    key_env: str | None = None
    """The environment variable with the API key, where the task file names one."""

    rate_limit: Limit | None = None
    """Requests and tokens per minute, where the task file sets them."""

    def __deepcopy__(self, memo: dict[int, Any]) -> ModelProfile:
        """Return the profile itself: copies of a model share its weights and its engine."""
        return self


_DEFAULT = ModelProfile()


def profile_of(lm: Any) -> ModelProfile:
    """Return the profile of a model; the default for a model that carries none."""
    profile = getattr(lm, "profile", None)
    return profile if isinstance(profile, ModelProfile) else _DEFAULT
