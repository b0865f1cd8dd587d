"""The `confidence` section of a task file: the calibrator it names, and which answers can be accepted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from .errors import TaskProblem
from .schema.section import Section
from .yaml_document import Document

if TYPE_CHECKING:
    from ..extraction.confidence import Scorer


class AcceptFile(Section):
    """Which extracted answers can be accepted."""

    error: float = Field(
        gt=0, lt=1, description="The largest share of wrong answers among those that are accepted.", examples=[0.1]
    )


class ConfidenceFile(Section):
    """How far to trust an answer that was extracted."""

    calibrator: str = Field(
        description="A file that `rlm eval calibrate` wrote; a relative path is relative to the task file.",
        examples=["calibrator.json"],
    )
    accept_at: AcceptFile | None = Field(
        None, description="Extracted answers below the threshold for this error are not acceptable: the run fails."
    )


def read_confidence(
    written: ConfidenceFile | None, document: Document, folder: Path
) -> tuple[Scorer | None, list[TaskProblem]]:
    """What scores the answers, unless the formula does; and what is wrong with it."""
    if written is None:
        return None, []
    from ..calibration import CalibratorError, NoRule, scorer_of

    accept_at = written.accept_at.model_dump() if written.accept_at is not None else None
    try:
        return scorer_of(folder / written.calibrator, accept_at), []
    except CalibratorError as error:
        path: tuple[str, ...] = ("confidence", "calibrator")
        said = str(error)
    except NoRule as error:
        path, said = ("confidence", "accept_at", "error"), str(error)
    return None, [document.problem(f"{'.'.join(path)}: {said}", document.value_place(path))]
