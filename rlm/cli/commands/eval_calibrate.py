"""`rlm eval calibrate`: fit a calibrator of the confidence in answers on evaluation logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import exit_codes
from ..eval_options import LogType, read
from ..options import NumberRange

if TYPE_CHECKING:
    from ...calibration import Answer, Report
    from ...evals.log import EvalLog


@click.command("calibrate", short_help="Fit the confidence in answers on logs.")
@click.argument("logs", type=LogType(), metavar="LOG...", nargs=-1, required=True)
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path), default="calibrator.json", show_default=True,
    help="Where to write the calibrator, if it is accepted.",
)  # fmt: skip
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Plot the calibration before and after, as an SVG file.",
)
@click.option(
    "--method", type=click.Choice(["auto", "isotonic", "logistic"]), default="auto", show_default=True,
    help="Isotonic on the score of the formula, logistic on the evidence, or the better of the two.",
)  # fmt: skip
@click.option(
    "--right", type=NumberRange(0, 1, min_open=True), default=1.0, show_default=True,
    help="The least score at which a field counts as right.",
)  # fmt: skip
@click.option(
    "--error", type=NumberRange(0, 1, min_open=True, max_open=True), multiple=True, default=(0.05, 0.1, 0.2),
    help="Print the threshold of `accept_at` for this error. Repeatable.",
)  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of the split of the samples.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
def command(
    logs: tuple[Path, ...],
    out: Path,
    plot: Path | None,
    method: str,
    right: float,
    error: tuple[float, ...],
    seed: int,
    as_json: bool,
) -> int:
    """Fit a calibrator on logs: the probability that an answer is right. `confidence:` names its file.

    Submitted and extracted answers are fitted together, and the report has the measures of each.

    It is fitted on one half of the samples and tested on the other: a calibrator that does not improve the Brier score
    there beyond chance is refused (exit code 1), and nothing is written.

    \b
    Example:
      rlm eval run all --length 16k --count 50 --model openai/gpt-5-mini --max-iterations 3 --log short-runs
      rlm eval calibrate short-runs --out calibrator.json --plot calibrator.svg
    """
    if plot is not None and plot.suffix.lower() != ".svg":
        raise click.UsageError(f"--plot writes an SVG file; name it {plot.with_suffix('.svg').name}")
    from ...calibration import TooFewSamples, answers_of, calibrate, save
    from ..console import print_json, print_page, writing

    read_logs = [read(log) for log in logs]
    answers = answers_of((entry.to_dict() for log in read_logs for entry in log.entries), right)
    try:
        report = calibrate(answers, method=method, seed=seed, fitted_on=_origin(read_logs, right))
    except TooFewSamples as problem:
        click.echo(f"No calibrator: {problem}\n{_endings(read_logs, answers)}", err=True)
        return exit_codes.NO_ANSWER
    if report.calibrator is not None:
        with writing(out):
            save(report.calibrator, out)
    if plot is not None:
        from ...calibration.plot import svg

        with writing(plot):
            plot.write_text(svg(report), encoding="utf-8")
    if as_json:
        print_json({"accepted": report.accepted, "out": str(out) if report.accepted else None, **_facts(report)})
    else:
        from ..pages.calibration import calibration_page

        print_page(calibration_page(report, error, str(out), str(plot) if plot is not None else None))
    return exit_codes.ANSWERED if report.accepted else exit_codes.NO_ANSWER


def _origin(logs: Sequence[EvalLog], right: float) -> dict[str, Any]:
    """Return the description of the data that a calibrator was fitted on."""
    from ... import __version__

    suites = sorted({entry.suite for log in logs for entry in log.entries})
    models = sorted({str(model) for log in logs for model in log.header.get("models", {}).values()})
    return {"rlm": __version__, "logs": [log.name for log in logs], "suites": suites, "models": models, "right": right}


def _facts(report: Report) -> dict[str, Any]:
    return {"method": report.method, "way": report.way, "ways": dict(report.ways), **report.to_dict()}


def _endings(logs: Sequence[EvalLog], answers: Sequence[Answer]) -> str:
    endings = [entry.ending for log in logs for entry in log.entries]
    counts = ", ".join(f"{endings.count(name):,} {name.lower()}" for name in sorted(set(endings))) or "none"
    return f"Runs in the logs: {counts}; {len(answers):,} answers with evidence."
