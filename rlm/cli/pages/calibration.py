"""A calibrator: measures before and after, thresholds with coverage and error, and the weights of the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from ..console import count
from .tables import fits, heading, table_of

if TYPE_CHECKING:
    from ...calibration import Calibrator, Report
    from ...calibration.metrics import BrierDifference, ScoredLevel

_HELD_OUT = "on held-out samples"
_COVERAGES = (0.25, 0.5, 0.75, 1.0)
_WEIGHTS = 8


def calibration_page(report: Report, errors: Sequence[float], out: str, plot: str | None) -> RenderableType:
    """Return the report of `rlm eval calibrate`."""
    verdict = Text("accepted", "bold green") if report.accepted else Text("refused", "bold red")
    parts: list[RenderableType] = [
        heading(Text.assemble(("Calibrator", "bold"), " · ", verdict)),
        _Measures(report),
        Text(""),
        Text.assemble("From fields to the whole answer: ", (report.way, "bold"), f" ({_ways(report)})"),
        _difference("Brier score of fields", report.fields),
        _difference("Brier score of answers", report.answers),
        *_endings(report),
        Text(""),
    ]
    if report.calibrator is None:
        parts.append(Text("Nothing was written: on held-out samples it is not better beyond chance.", "red"))
        parts.append(Text("More samples may change that; so may models whose errors leave evidence.", "dim"))
    else:
        parts += [_rules(report.calibrator, errors), Text(""), _evidence(report.calibrator), Text("")]
        parts.append(Text(f"Written to {out}. In a task file: `confidence: {{calibrator: {out}}}`."))
    if plot is not None:
        parts.append(Text(f"Drawn in {plot}."))
    return Group(*parts)


class _Measures:
    """The measures before and after, for fields and answers. A narrow terminal gets a separate table for coverage."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names, measured, errors = self._columns()
        whole = {**names, **measured, **{f"error at {share}": cells for share, cells in errors.items()}}
        if fits(whole, options.max_width):
            yield table_of(whole, left=names)
            return
        yield table_of({**names, **measured}, left=names)
        yield Text("")
        yield table_of({"error at a coverage of": names[_HELD_OUT], **errors}, left=("error at a coverage of",))

    def _columns(self) -> tuple[dict[str, list[Text]], dict[str, list[Text]], dict[str, list[Text]]]:
        """Return the columns of names, of measures, and of the error at each coverage."""
        report, rows = self._report, []
        for level in ("fields", "answers"):
            before: ScoredLevel = getattr(report.before, level)
            shown = count(len(before.scores), level[:-1])
            right = f"{shown}, {sum(before.correct) / len(before.correct):.0%} right"
            rows.append((Text(right, "bold"), [Text("")] * (3 + len(_COVERAGES))))
            rows.append((Text("  formula"), [Text(cell) for cell in _row(before)]))
            for method, scored in report.methods.items():
                style = "bold" if method == report.method else "dim"
                rows.append((Text(f"  {method}", style), [Text(cell, style) for cell in _row(getattr(scored, level))]))
        heads = ("ECE", "Brier", "AUROC", *(f"{share:.0%}" for share in _COVERAGES))
        columns = [(head, [cells[at] for _, cells in rows]) for at, head in enumerate(heads)]
        return {_HELD_OUT: [name for name, _ in rows]}, dict(columns[:3]), dict(columns[3:])


def _endings(report: Report) -> list[RenderableType]:
    """Return the measures of the answers of each ending, where there are both."""
    if len(report.endings) < 2:
        return []
    columns: dict[str, list[Text]] = {"answers": [], "right": [], "ECE": [], "Brier": [], "AUROC": []}
    for ending, scored in report.endings.items():
        for name, level in zip(("without", "with"), (scores.answers for scores in scored), strict=True):
            measured = level.measures()
            shown = f"{ending.lower()}, {name} the calibrator"
            auroc = "-" if measured.auroc is None else f"{measured.auroc:.3f}"
            cells = (
                shown,
                f"{measured.right:.0%} of {measured.n}",
                f"{measured.ece:.3f}",
                f"{measured.brier:.3f}",
                auroc,
            )
            for column, cell in zip(columns.values(), cells, strict=True):
                column.append(Text(cell))
    return [Text(""), table_of(columns, left=("answers",))]


def _row(level: ScoredLevel) -> list[str]:
    from ...calibration.metrics import risk_at, risk_coverage

    measured, curve = level.measures(), risk_coverage(level.scores, level.correct)
    auroc = "-" if measured.auroc is None else f"{measured.auroc:.3f}"
    risks = [f"{risk_at(curve, share):.1%}" for share in _COVERAGES]
    return [f"{measured.ece:.3f}", f"{measured.brier:.3f}", auroc, *risks]


def _ways(report: Report) -> str:
    return "Brier " + ", ".join(f"{way} {loss:.3f}" for way, loss in report.ways.items())


def _difference(what: str, difference: BrierDifference) -> Text:
    return Text.assemble(
        f"{what}: ",
        (f"{difference.mean:+.3f}", "bold green" if difference.improved else "bold red"),
        f" (95% interval {difference.low:+.3f} to {difference.high:+.3f}; below zero is better)",
    )


def _rules(calibrator: Calibrator, errors: Sequence[float]) -> Table:
    from ...calibration import NoThreshold

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("accept_at error", "threshold", "accepts", "wrong", "at most"):
        table.add_column(name, justify="right", no_wrap=True)
    for error in errors:
        try:
            rule = calibrator.accepting(error).rule
        except NoThreshold:
            table.add_row(f"{error:.0%}", "none", "-", "-", "-", style="dim")
            continue
        assert rule is not None
        cells = (f"{rule.threshold:.2f}", f"{rule.coverage:.0%}", f"{rule.seen:.1%}", f"{rule.bound:.1%}")
        table.add_row(f"{error:.0%}", *cells)
    return table


def _evidence(calibrator: Calibrator) -> Table:
    from ...calibration import FEATURES
    from ...calibration.calibrator import Logistic

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    curve = calibrator.curve
    if not isinstance(curve, Logistic):
        table.add_column("formula", justify="right")
        table.add_column("right", justify="right")
        for score, p in curve.points:
            table.add_row(f"{score:.2f}", f"{p:.2f}")
        return table
    table.add_column("odds", justify="right", no_wrap=True)
    table.add_column("where")
    strongest = sorted(curve.weights.items(), key=lambda item: -abs(item[1]))[:_WEIGHTS]
    for name, weight in sorted(strongest, key=lambda item: -item[1]):
        times = 2.718281828 ** abs(weight)
        table.add_row(f"{'x' if weight > 0 else '/'}{times:.3g}", FEATURES[name])
    return table
