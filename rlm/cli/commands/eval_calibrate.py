"""`rlm eval calibrate`: how likely extracted answers are right, learnt from logs whose right answers are known."""

from __future__ import annotations

import json
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


@click.command("calibrate", short_help="Learn from logs how far to trust extracted answers.")
@click.argument("logs", type=LogType(), metavar="LOG...", nargs=-1, required=True)
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path), default="calibrator.json", show_default=True,
    help="Where to write the calibrator, if it is accepted.",
)  # fmt: skip
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw it before and after, as an SVG file."
)
@click.option(
    "--method", type=click.Choice(["auto", "isotonic", "logistic"]), default="auto", show_default=True,
    help="Isotonic on the formula's score, logistic on the evidence, or the better one.",
)  # fmt: skip
@click.option(
    "--right", type=NumberRange(0, 1, min_open=True), default=1.0, show_default=True,
    help="From which score on a field counts as right.",
)  # fmt: skip
@click.option(
    "--error", type=NumberRange(0, 1, min_open=True, max_open=True), multiple=True, default=(0.05, 0.1, 0.2),
    help="Say which threshold `accept_at` would have for this error; may be given several times.",
)  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="What the samples are split by.")
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
    """Learn from logs how likely an extracted answer is right, and write that to a file for `confidence:`.

    One half of the samples is fitted on, the other decides: a calibrator that does not improve the Brier score there
    beyond chance is refused (exit code 1), and nothing is written.

    \b
    Example:
      rlm eval run all --length 16k --count 50 --model openai/gpt-5-mini --max-iterations 3 --log short-runs
      rlm eval calibrate short-runs --out calibrator.json --plot calibrator.svg
    """
    if plot is not None and plot.suffix.lower() != ".svg":
        raise click.UsageError(f"--plot: the picture is an SVG; call it {plot.with_suffix('.svg').name}")
    from ...calibration import TooLittle, answers_of, calibrate, save

    found = [read(log) for log in logs]
    answers = answers_of((one.to_dict() for log in found for one in log.entries), right)
    try:
        report = calibrate(answers, method=method, seed=seed, fitted_on=_origin(found, right))
    except TooLittle as problem:
        click.echo(f"No calibrator: {problem}\n{_endings(found, answers)}", err=True)
        return exit_codes.NO_ANSWER
    if report.calibrator is not None:
        _write(out, lambda: save(_calibrator(report), out))
    if plot is not None:
        from ...calibration.plot import svg

        _write(plot, lambda: plot.write_text(svg(report), encoding="utf-8"))
    if as_json:
        click.echo(
            json.dumps({"accepted": report.accepted, "out": str(out) if report.accepted else None, **_facts(report)})
        )
    else:
        from ..pages.calibration import page
        from ..pages.evaluation import show

        show(page(report, error, str(out), str(plot) if plot is not None else None))
    return exit_codes.ANSWERED if report.accepted else exit_codes.NO_ANSWER


def _calibrator(report: Report) -> Any:
    assert report.calibrator is not None
    return report.calibrator


def _write(path: Path, write: Any) -> None:
    try:
        write()
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror or error}") from None


def _origin(logs: Sequence[EvalLog], right: float) -> dict[str, Any]:
    """What a calibrator says it was fitted on."""
    from ... import __version__

    suites = sorted({entry.suite for log in logs for entry in log.entries})
    models = sorted({str(model) for log in logs for model in log.header.get("models", {}).values()})
    return {"rlm": __version__, "logs": [log.name for log in logs], "suites": suites, "models": models, "right": right}


def _facts(report: Report) -> dict[str, Any]:
    return {"method": report.method, "way": report.way, "ways": dict(report.ways), **report.to_dict()}


def _endings(logs: Sequence[EvalLog], answers: Sequence[Answer]) -> str:
    endings = [entry.ending for log in logs for entry in log.entries]
    counts = ", ".join(f"{endings.count(one):,} {one.lower()}" for one in sorted(set(endings))) or "none"
    said = f"Runs in the logs: {counts}; {len(answers):,} extracted answers with evidence."
    if endings.count("Submitted") <= len(answers):
        return said
    return f"{said} A smaller budget, as in `--max-iterations 3`, makes more runs end with an extraction."
