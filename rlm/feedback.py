"""What a run shows about its mistakes, in words: textual feedback for optimizers that reflect, such as `dspy.GEPA`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .results import ExecutionResult, Extracted, Failed
from .text import count, cut_middle

__all__ = ["feedback_of", "with_feedback"]

_MAX_STEPS = 6
_MAX_CHARS = 300
_DOUBTFUL = 0.5


def feedback_of(result: ExecutionResult[Any]) -> str:
    """Return how a run ended, and what went wrong in it on the way, a line each."""
    return "\n".join([_ending(result), *_steps(result)])


def with_feedback(metric: Callable[..., Any]) -> Callable[..., Any]:
    """Return a metric for `dspy.GEPA` that adds to each score what the runs of `rlm.Predict` show about themselves.

    >>> dspy.GEPA(metric=rlm.feedback.with_feedback(exact_match), auto="light", reflection_lm=lm)
    """

    def scored(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
        import dspy

        score = metric(gold, pred, trace)
        parts = [getattr(score, "feedback", None)]
        value = float(getattr(score, "score", score))
        parts.append(f"The score of this answer is {value:g}.")
        result = getattr(pred, "result", None)
        if result is not None and hasattr(result, "history"):
            parts.append(feedback_of(result))
        return dspy.Prediction(score=value, feedback="\n".join(filter(None, parts)))

    return scored


def _ending(result: ExecutionResult[Any]) -> str:
    after = f"after {count(result.iterations, 'iteration')}"
    if isinstance(result, Failed):
        partial = result.partial_outputs
        refused = "" if partial is None else f" What there was of an answer: {cut_middle(repr(partial), _MAX_CHARS)}"
        return f"The run failed {after}: {result.reason}.{refused}"
    if isinstance(result, Extracted):
        doubtful = [name for name, value in result.field_confidence.items() if value < _DOUBTFUL]
        text = f"The run did not submit: {result.reason}. Its outputs were extracted from what it had printed,"
        text += f" with confidence {result.confidence:.2f}."
        text += f" Doubtful: {', '.join(doubtful)}." if doubtful else ""
        return f"{text} {result.extraction_notes}" if result.extraction_notes else text
    return f"The run submitted its outputs {after}."


def _steps(result: ExecutionResult[Any]) -> Iterator[str]:
    failed = [step for step in result.history if not step.success]
    for step in failed[:_MAX_STEPS]:
        last = step.output.strip().rpartition("\n")[2]
        what = "failed" if step.code else "had no code"
        yield f"Iteration {step.iteration} {what}: {cut_middle(last, _MAX_CHARS)}"
    if len(failed) > _MAX_STEPS:
        yield f"{len(failed) - _MAX_STEPS} more iterations failed."
    for step in result.history:
        for call in step.calls:
            if call.error is not None:
                yield f"In iteration {step.iteration}, {call.name}() failed: {cut_middle(call.error, _MAX_CHARS)}"
                return
