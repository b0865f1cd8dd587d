"""Events made from the objects of a run: its start, its variables, its budget, its extraction attempts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sandbox import CellResult, Variable, WrittenFile

from ..budgets import Ledger
from ..events import (
    AttemptProblem,
    BudgetUsed,
    CellEnded,
    CellError,
    ExtractionAttempted,
    FilesWritten,
    ModelNames,
    RunSettings,
    RunStarted,
    SignatureInfo,
    VariableInfo,
    VariablesChanged,
)
from ..extraction.retry import Attempt
from ..history import VariableChanges
from ..models.profile import name_of
from ..mounts.output import OutputFile
from ..signatures import Signature

if TYPE_CHECKING:
    from .config import RunConfig
    from .replay import RecordedRun


def run_started(
    run_id: str,
    config: RunConfig,
    ledger: Ledger,
    inputs: Mapping[str, Any],
    past: RecordedRun | None = None,
    *,
    parent: str | None = None,
    parent_call: int | None = None,
    loop_id: str | None = None,
    baseline: str | None = None,
) -> RunStarted:
    """Describe what a run starts from. The inputs are the live values."""
    models = (config.main_model, config.sub_model or config.main_model, config.extraction_model or config.main_model)
    return RunStarted(
        run_id,
        signature=config.signature.once("info", lambda: _signature(config.signature)),
        inputs=dict(inputs),
        depth=ledger.depth,
        models=ModelNames(*map(name_of, models)),
        trigger=ledger.trigger,
        settings=RunSettings(
            isolation=config.isolation if config.kernel_name is None else f"kernel {config.kernel_name}",
            policy=config.policy,
            depth=config.depth,
            limits=dataclasses.asdict(config.limits),
            checks=list(config.checks),
            tools=sorted(config.tools),
            guidance=config.guidance,
        ),
        task=dict(config.task) if config.task is not None else None,
        parent=parent,
        parent_call=parent_call,
        resumed_from=past.run_id if past is not None else None,
        spent=past.usage if past is not None else None,
        loop_id=loop_id,
        baseline=baseline,
    )


def variables_changed(
    run_id: str, iteration: int, changes: VariableChanges, variables: Mapping[str, Variable]
) -> VariablesChanged:
    """Describe the variables that a cell bound, changed and deleted."""
    return VariablesChanged(
        run_id,
        iteration=iteration,
        added={name: _variable(variables[name]) for name in changes.added},
        changed={name: _variable(variables[name]) for name in changes.changed},
        removed=list(changes.removed),
    )


def cell_ended(run_id: str, iteration: int, output: str, result: CellResult) -> CellEnded:
    """Describe the end of a cell."""
    error = None if (fault := result.error) is None else CellError(fault.name, fault.message, fault.line)
    limit = None if result.limit is None else str(result.limit)
    return CellEnded(run_id, iteration, output, result.ok, result.seconds, error, limit)


def files_written(run_id: str, files: Sequence[WrittenFile]) -> FilesWritten:
    """Describe the files that code wrote."""
    described = [OutputFile(file.name, file.content) for file in files]
    about = [
        {
            "name": file.name,
            "size": file.size,
            "sha256": file.sha256,
            "media_type": file.media_type,
            **({} if written.problem is None else {"problem": written.problem}),
        }
        for file, written in zip(described, files, strict=True)
    ]
    return FilesWritten(run_id, about, {file.name: file.content for file in files if file.content is not None})


def budget_used(run_id: str, ledger: Ledger, iterations: int) -> BudgetUsed:
    """Describe what has been used, beside the limits."""
    usage, limits = ledger.usage(), ledger.trigger
    return BudgetUsed(
        run_id,
        iterations=iterations,
        max_iterations=limits.max_iterations,
        llm_calls=usage.llm_calls,
        max_llm_calls=limits.max_llm_calls,
        seconds=usage.seconds,
        max_duration=limits.max_duration,
        tokens=usage.tokens,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        max_tokens=limits.max_tokens,
        cost_usd=usage.cost_usd,
        max_cost_usd=limits.max_cost_usd,
    )


def extraction_attempted(run_id: str, attempt: Attempt, prompt: str) -> ExtractionAttempted:
    """Describe one attempt at an extraction."""
    problems = [AttemptProblem(problem.path, str(problem)) for problem in attempt.problems]
    if attempt.failure and not problems:
        problems = [AttemptProblem("", attempt.message)]
    return ExtractionAttempted(run_id, number=attempt.number, prompt=prompt, text=attempt.raw_output, problems=problems)


def _signature(signature: Signature) -> SignatureInfo:
    sides = [[f"{field.name}: {field.type_text}" for field in side] for side in (signature.inputs, signature.outputs)]
    return SignatureInfo(
        name=signature.name,
        instructions=signature.instructions,
        inputs=[field.name for field in signature.inputs],
        outputs=[field.name for field in signature.outputs],
        text=" -> ".join(", ".join(side) for side in sides),
        schema=signature.output_schema(),
    )


def _variable(variable: Variable) -> VariableInfo:
    return VariableInfo(variable.type, variable.size, variable.preview)
