"""The plot of a calibrator as SVG: calibration, and risk against coverage, before and after.

It is written without a plotting package: two kinds of lines in four frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from ..stats import wilson_interval
from .metrics import ScoredLevel, bins, risk_coverage
from .select import Report

_SIDE, _GAP, _LEFT, _TOP = 250, 90, 70, 70
_BEFORE, _AFTER, _INK, _LINE = "#8c959f", "#0969da", "#1f2328", "#d0d7de"
_MAX_POINTS = 100

Point = tuple[float, float]


def svg(report: Report) -> str:
    """Return the plot: fields above, whole answers below; calibration left, risk and coverage right."""
    parts = [
        _text(_LEFT, 28, f"Confidence before (the formula) and after ({report.method})", size=16, weight="600"),
        *_legend(_LEFT, 48),
    ]
    for row, (title, before, after) in enumerate(
        (
            ("fields", report.before.fields, report.after.fields),
            ("whole answers", report.before.answers, report.after.answers),
        )
    ):
        top = _TOP + row * (_SIDE + _GAP) + 20
        parts += _reliability(_LEFT, top, title, before, after)
        parts += _risk(_LEFT + _SIDE + _GAP, top, title, before, after)
    width, height = _LEFT + 2 * _SIDE + _GAP + 30, _TOP + 2 * (_SIDE + _GAP)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif">'
    )
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>"]) + "\n"


def _reliability(x: float, y: float, title: str, before: ScoredLevel, after: ScoredLevel) -> list[str]:
    parts = _frame(x, y, f"{title}: calibration", "confidence", "share that is correct")
    parts.append(_curve(x, y, [(0, 0), (1, 1)], _LINE, dashed=True))
    for level, color in ((before, _BEFORE), (after, _AFTER)):
        filled = [group for group in bins(level.scores, level.correct) if group is not None]
        parts.append(_curve(x, y, [(group.mean, group.correct) for group in filled], color, opacity=0.35))
        for group in filled:
            radius = 2 + 9 * (group.n / len(level.scores)) ** 0.5
            left, down = _position(x, y, group.mean, group.correct)
            low, high = wilson_interval(round(group.correct * group.n), group.n)
            parts.append(_curve(x, y, [(group.mean, low), (group.mean, high)], color, opacity=0.5))
            parts.append(
                f'<circle cx="{left:.1f}" cy="{down:.1f}" r="{radius:.1f}" fill="{color}" fill-opacity="0.55">'
                f"<title>{group.n} of {len(level.scores)}: confidence {group.mean:.2f}, "
                f"correct {group.correct:.2f}</title></circle>"
            )
    return parts


def _risk(x: float, y: float, title: str, before: ScoredLevel, after: ScoredLevel) -> list[str]:
    parts = _frame(x, y, f"{title}: risk and coverage", "share accepted", "share of these that is wrong")
    for level, color in ((before, _BEFORE), (after, _AFTER)):
        curve = risk_coverage(level.scores, level.correct)
        step = max(1, len(curve) // _MAX_POINTS)
        parts.append(_curve(x, y, [*curve[:-1:step], curve[-1]], color))
    return parts


def _frame(x: float, y: float, title: str, across: str, up: str) -> list[str]:
    parts = [
        f'<rect x="{x}" y="{y}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="{_LINE}"/>',
        _text(x, y - 10, title, size=13, weight="600"),
        _text(x + _SIDE / 2, y + _SIDE + 34, across, anchor="middle"),
        f'<g transform="translate({x - 38} {y + _SIDE / 2}) rotate(-90)">{_text(0, 0, up, anchor="middle")}</g>',
    ]
    for tick in (0.0, 0.5, 1.0):
        left, down = _position(x, y, tick, tick)
        parts += [
            _text(left, y + _SIDE + 16, f"{tick:g}", anchor="middle"),
            _text(x - 8, down + 4, f"{tick:g}", anchor="end"),
        ]
    return parts


def _legend(x: float, y: float) -> list[str]:
    return [
        f'<circle cx="{x + 5}" cy="{y - 4}" r="5" fill="{_BEFORE}"/>',
        _text(x + 16, y, "before"),
        f'<circle cx="{x + 75}" cy="{y - 4}" r="5" fill="{_AFTER}"/>',
        _text(x + 86, y, "after, on held-out samples"),
    ]


def _position(x: float, y: float, across: float, up: float) -> Point:
    return x + across * _SIDE, y + (1 - up) * _SIDE


def _curve(x: float, y: float, points: Sequence[Point], color: str, *, dashed: bool = False, opacity: float = 1) -> str:
    path = " ".join(f"{left:.1f},{down:.1f}" for left, down in (_position(x, y, *point) for point in points))
    dash = ' stroke-dasharray="4 4"' if dashed else ""
    return (
        f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2" stroke-opacity="{opacity:g}"{dash}/>'
    )


def _text(x: float, y: float, text: str, *, size: int = 12, weight: str = "400", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{_INK}">{escape(text)}</text>'
    )
