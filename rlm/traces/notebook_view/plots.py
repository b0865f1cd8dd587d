"""Charts of recorded runs: budget over time, cost by call, calibration of confidence. They need the extra `plots`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import RlmError
from ...result_html import COLOURS
from .chart_rows import LIMITS, Row, budget_rows, calibration_rows, call_rows, run_rows, safe, trigger_rows

if TYPE_CHECKING:
    import altair as alt

    from ..run import RunRecord

MAX_ROWS = 4_000
"""Altair embeds the data in the notebook, and refuses more than 5,000 rows."""

ROLES = {"main": "#0969da", "sub": "#8250df", "extraction": "#9a6700"}
"""The color of each role of a model, in all charts; child runs have the same in a lighter shade."""

_WIDTH, _HEIGHT = 560, 240


class PlotsMissing(RlmError, ImportError):
    """Altair is not installed; the message names the command that installs it."""


def budget(run: RunRecord) -> alt.LayerChart:
    """Chart the usage of each limit that is set over time, and when the trigger fired."""
    alt = _altair()
    lines = (
        _chart(budget_rows(run))
        .mark_line(point=True, interpolate="step-after")
        .encode(
            x=alt.X("second:Q", title="seconds since the start", scale=alt.Scale(zero=False)),
            y=alt.Y("share:Q", title="used of the limit", axis=alt.Axis(format="%")),
            color=alt.Color("limit:N", title="limit", sort=list(LIMITS)),
            tooltip=_tooltips(["limit"], ["used", "of", "iteration"]),
        )
    )
    fired = _chart(trigger_rows(run)).encode(x="second:Q", tooltip=_tooltips(["why"]))
    red = COLOURS["failed"]
    rule = fired.mark_rule(color=red, strokeDash=[4, 3])
    reason = fired.mark_text(align="right", dx=-6, y=10, color=red).encode(text="why:N")
    title = f"Run {safe(run.id)}: budget over time"
    return _layer(lines, rule, reason).properties(width=_WIDTH, height=_HEIGHT, title=title)


def cost(run: RunRecord) -> alt.Chart:
    """Chart the cost of each request to a model, child runs included; in tokens if no price is known."""
    alt = _altair()
    rows, title = call_rows(run), f"Run {safe(run.id)}: cost by call"
    amount, unit = ("cost", "US dollars") if any(row["cost"] is not None for row in rows) else ("tokens", "tokens")
    if amount == "tokens":
        title = f"Run {safe(run.id)}: tokens by call (no price is known)"
    elif unpriced := sum(row["cost"] is None for row in rows):
        title += f" ({unpriced:,} of {len(rows):,} calls have no known price)"
    if len(rows) > MAX_ROWS:
        most_expensive = sorted(rows, key=lambda row: row[amount] or 0, reverse=True)[:MAX_ROWS]
        rows, title = (
            sorted(most_expensive, key=lambda row: row["call"]),
            f"{title} (the {MAX_ROWS:,} most expensive of {len(rows):,})",
        )
    return (
        _chart(rows)
        .mark_bar()
        .encode(
            x=alt.X("call:O", title="call, in order", axis=alt.Axis(labelOverlap=True, labelAngle=0)),
            y=alt.Y(f"{amount}:Q", title=unit),
            color=alt.Color("role:N", title="role", scale=_role_colors(rows)),
            opacity=alt.Opacity("child:N", legend=None, scale=alt.Scale(domain=[False, True], range=[1, 0.5])),
            tooltip=_tooltips(["run", "role", "model"], ["iteration", "read", "written", "cost", "seconds"]),
        )
        .properties(width=_WIDTH, height=_HEIGHT, title=title)
    )


def confidence(
    runs: Iterable[RunRecord], right: Callable[[RunRecord], bool] | None = None
) -> alt.Chart | alt.LayerChart:
    """Chart confidence by ending or, with `right`, the share of right answers for each bin of confidence.

    `right(run)` returns whether the answer of a run is right. Confidence is calibrated if the bars end on the line; the
    rules are intervals of 95% (Wilson).
    """
    ended = [run for run in runs if run.confidence is not None]
    return _by_ending(ended) if right is None else _by_being_right(ended, right)


def _by_ending(runs: list[RunRecord]) -> alt.Chart:
    alt = _altair()
    rows = run_rows(runs[:MAX_ROWS])
    present = [ending for ending in COLOURS if any(row["ending"] == ending for row in rows)]
    colours = alt.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    return (
        _chart(rows)
        .transform_calculate(jitter="random()")  # to separate runs of the same confidence
        .mark_circle(size=70, opacity=0.7)
        .encode(
            x=alt.X("confidence:Q", scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("ending:N", title=None, sort=present),
            yOffset=alt.YOffset("jitter:Q", scale=alt.Scale(domain=[-0.5, 1.5])),
            color=alt.Color("ending:N", scale=colours, legend=None),
            tooltip=_tooltips(["run", "task", "ending"], ["confidence", "iterations", "tokens"]),
        )
        .properties(width=_WIDTH, height=60 * max(1, len(present)), title=f"Confidence by ending, {len(rows):,} runs")
    )


def _by_being_right(runs: list[RunRecord], right: Callable[[RunRecord], bool]) -> alt.LayerChart:
    alt = _altair()
    rows, unit = calibration_rows(runs, right), alt.Scale(domain=[0, 1])
    bars = (
        _chart(rows)
        .mark_bar(opacity=0.7)
        .encode(
            x=alt.X("from:Q", title="confidence", scale=unit),
            x2="to",
            y2=alt.datum(0),
            y=alt.Y("right:Q", title="share of right answers", scale=unit, axis=alt.Axis(format="%")),
            tooltip=_tooltips([], ["from", "to", "right", "runs"]),
        )
    )
    counts = (
        _chart(rows)
        .transform_calculate(middle="(datum.from + datum.to) / 2", label="'n = ' + datum.runs")
        .mark_text(dy=-8)
        .encode(x="middle:Q", y=alt.datum(0), text="label:N")
    )
    ends: list[Row] = [{"confidence": 0, "right": 0}, {"confidence": 1, "right": 1}]
    line = _chart(ends).mark_line(strokeDash=[4, 3], color=COLOURS["unfinished"])
    errors = (
        _chart(rows)
        .transform_calculate(middle="(datum.from + datum.to) / 2")
        .mark_rule()
        .encode(x="middle:Q", y="low:Q", y2="high:Q", tooltip=_tooltips([], ["low", "high"]))
    )
    layers = (bars, errors, line.encode(x="confidence:Q", y="right:Q"), counts)
    return _layer(*layers).properties(width=360, height=300, title=f"Confidence and being right, {len(runs):,} runs")


def _role_colors(rows: list[Row]) -> Any:
    present = {str(row["role"]) for row in rows}
    roles = [role for role in ROLES if role in present] + sorted(present - ROLES.keys())
    alt = _altair()
    return alt.Scale(domain=roles, range=[ROLES.get(role, COLOURS["unfinished"]) for role in roles])


def _chart(rows: list[Row]) -> alt.Chart:
    alt = _altair()
    from .static_charts import StaticChart

    return StaticChart(alt.Data(values=rows))


def _layer(*charts: alt.Chart) -> alt.LayerChart:
    from .static_charts import layer

    return layer(*charts)


def _tooltips(texts: Sequence[str], numbers: Sequence[str] = ()) -> list[Any]:
    alt = _altair()
    return [*(alt.Tooltip(f"{name}:N") for name in texts), *(alt.Tooltip(f"{name}:Q") for name in numbers)]


def _altair() -> Any:
    try:
        import altair
    except ModuleNotFoundError:
        raise PlotsMissing("charts need Altair. Install it with: pip install 'rlm-kernel[plots]'") from None
    return altair
