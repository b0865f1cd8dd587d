"""The oracle: a simulated model with a configured error rate that solves the generated suites, to compare harnesses.

It is a `dspy.LM` with an engine of its own, which reads only the requests: it knows neither the sample nor its answer.
Asked directly, it finds facts in the prompt, misreads some of them (more in longer prompts), and refuses prompts that
are longer than its context window. As the main model of an RLM (of this runtime, or dspy.RLM) it writes cells that
solve the task, some of them faulty; as a sub model it reads messages and letters with the same error rate.

It shows how a harness uses a model: context windows, errors in code, retries, fallbacks, tokens and calls. It does not
show how capable a model is: it knows the phrasing of the suites, and its strategy is always sound.
"""

from __future__ import annotations

from typing import Any

from ...models.profile import ModelProfile
from .settings import Oracle

__all__ = ["ORACLE", "Oracle", "oracle_lm"]


ORACLE = "oracle"
"""The name of the model on the command line, in logs and in calibrators."""


def oracle_lm(settings: Oracle | None = None) -> Any:
    """Return a `dspy.LM` that answers as an oracle with these settings."""
    import dspy

    from .engine import AsyncOracleEngine, OracleEngine

    engine = OracleEngine(settings or Oracle())
    own = AsyncOracleEngine(engine)
    lm = dspy.LM(ORACLE, engine=engine, async_engine=own, cache=False, num_retries=0)
    lm.profile = ModelProfile(engine=own)
    return lm
