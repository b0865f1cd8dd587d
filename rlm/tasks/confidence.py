"""The `confidence` section of a task file: a calibrator, and the answers that are accepted."""

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
    """The condition for accepting extracted answers."""

    error: float = Field(
        gt=0, lt=1, description="The largest share of wrong answers among accepted ones.", examples=[0.1]
    )


class ConfidenceFile(Section):
    """The confidence of extracted answers."""

    calibrator: str = Field(
        description="A file that `rlm eval calibrate` wrote; a relative path is relative to the task file.",
        examples=["calibrator.json"],
    )
    accept_at: AcceptFile | None = Field(
        None, description="Extracted answers below the threshold for this error are not accepted: the run fails."
    )


def read_confidence(
    section: ConfidenceFile | None, document: Document, folder: Path
) -> tuple[Scorer | None, list[TaskProblem]]:
    """Return the calibrator, if the file names one, and the problems of the section."""
    if section is None:
        return None, []
    from ..calibration import CalibratorError, NoRule, scorer_of

    accept_at = section.accept_at.model_dump() if section.accept_at is not None else None
    try:
        return scorer_of(folder / section.calibrator, accept_at), []
    except CalibratorError as error:
        path: tuple[str, ...] = ("confidence", "calibrator")
        message = str(error)
    except NoRule as error:
        path, message = ("confidence", "accept_at", "error"), str(error)
    return None, [document.problem(f"{'.'.join(path)}: {message}", document.value_place(path))]
