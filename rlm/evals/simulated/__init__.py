"""The oracle: a model with a set error rate that does the generated suites, for comparing harnesses with each other.

It is a real `dspy.LM` with an engine of its own. It reads what it is sent and nothing else: it is told neither the
sample nor its answer. Asked directly, it finds facts in the prompt, misreads some of them, the more the longer the
prompt is, and refuses what is longer than its window. As the main model of an RLM (this runtime's, or dspy.RLM) it
writes cells that do the task, some of them bad; as their sub model it reads messages and letters with the same error.

What it shows is what a harness makes of a model: windows, errors in code, retries, fallbacks, tokens and calls. What it
cannot show is how clever a model is: it knows the suites' way of putting things, and its plan is always a sound one.
"""

from __future__ import annotations

from typing import Any

from ...models.profile import ModelProfile
from .settings import Oracle

__all__ = ["ORACLE", "Oracle", "oracle_lm"]


ORACLE = "oracle"
"""What it is called as a model: on the command line, in logs, and by the calibrators that were fitted on them."""


def oracle_lm(settings: Oracle | None = None) -> Any:
    """A `dspy.LM` that answers as an oracle of these settings does."""
    import dspy

    from .engine import AsyncOracleEngine, OracleEngine

    engine = OracleEngine(settings or Oracle())
    own = AsyncOracleEngine(engine)
    lm = dspy.LM(ORACLE, engine=engine, async_engine=own, cache=False, num_retries=0)
    lm.profile = ModelProfile(engine=own)
    return lm
