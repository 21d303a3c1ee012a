"""Pictures in SVG for notebooks: an interval, a course of bounds, a curve of calibration.

Lines and letters have the colour of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphmem.printable import counted

_BLUE = "#3d8fd1"
_WIDTH, _HEIGHT = 420, 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 12, 10, 22


def interval(low: float | None, middle: float | None, high: float | None) -> str:
    """Return a bar from ``low`` to ``high`` on a line from 0 to 1, with a dot at ``middle``."""
    if low is None or middle is None or high is None:
        return ""
    one, dot, other = (4 + 92 * min(max(value, 0.0), 1.0) for value in (low, middle, high))
    return _svg(
        100,
        14,
        f"{low:.2f} to {high:.2f}",
        '<line x1="4" y1="7" x2="96" y2="7" stroke="currentColor" opacity=".25"/>'
        f'<line x1="{one:.1f}" y1="7" x2="{other:.1f}" y2="7" stroke="{_BLUE}" stroke-width="4"/>'
        f'<circle cx="{dot:.1f}" cy="7" r="3" fill="currentColor"/>',
    )


def course(points: Sequence[Any]) -> str:
    """Return the bounds of each point as a band, with the rate as a line."""

    def x(place: int) -> float:
        return _LEFT + place / max(len(points) - 1, 1) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _TOP + (1 - value) * (_HEIGHT - _TOP - _BOTTOM)

    axes = "".join(
        f'<line x1="{_LEFT}" y1="{y(value):.1f}" x2="{_WIDTH - _RIGHT}" y2="{y(value):.1f}" '
        f'stroke="currentColor" opacity=".3"/>{_letters(_LEFT - 6, y(value) + 4, name, "end")}'
        for value, name in ((0.0, "0"), (0.5, "0.5"), (1.0, "1"))
    )
    upper, rate, lower = (
        [f"{x(place):.1f},{y(value):.1f}" for place, value in enumerate(values)]
        for values in zip(
            *((one.upper, one.successes / one.trials, one.lower) for one in points), strict=True
        )
    )
    last = points[-1]
    return _svg(
        _WIDTH,
        _HEIGHT,
        f"success rate over time, of the latest {counted(last.trials, 'trial')}: "
        f"{last.lower:.2f} to {last.upper:.2f}",
        axes
        + f'<polygon points="{" ".join(upper + lower[::-1])}" fill="{_BLUE}" opacity=".3"/>'
        + f'<polyline points="{" ".join(rate)}" fill="none" stroke="{_BLUE}" stroke-width="2"/>'
        + _letters(_LEFT, _HEIGHT - 6, f"{points[0].at:%Y-%m-%d}")
        + _letters(_WIDTH - _RIGHT, _HEIGHT - 6, f"{last.at:%Y-%m-%d}", "end"),
    )


def reliability(bins: Sequence[Any]) -> str:
    """Return the share of each bin over its mean probability, with bounds; the diagonal is best."""
    size = _HEIGHT + 40
    most = max((one.count for one in bins), default=0) or 1

    def place(value: float) -> tuple[float, float]:
        inner = size - _LEFT - _RIGHT
        return _LEFT + value * inner, _TOP + (1 - value) * (size - _TOP - _BOTTOM)

    (left, bottom), (right, top) = place(0), place(1)
    parts = [
        f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" fill="none" '
        'stroke="currentColor" opacity=".4"/>',
        f'<line x1="{left}" y1="{bottom}" x2="{right}" y2="{top}" stroke="currentColor" '
        'stroke-dasharray="4" opacity=".5"/>',
        _letters(left - 6, bottom, "0", "end"),
        _letters(left - 6, top + 8, "1", "end"),
        _letters(right, size - 6, "predicted", "end"),
    ]
    for one in bins:
        if one.mean is None or one.share is None:
            continue
        x, y = place(one.mean)[0], place(one.share)[1]
        radius = 2 + 4 * (one.count / most) ** 0.5
        parts.append(
            f'<line x1="{x:.1f}" y1="{place(one.lower)[1]:.1f}" x2="{x:.1f}" '
            f'y2="{place(one.upper)[1]:.1f}" stroke="{_BLUE}" opacity=".6"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{_BLUE}"/>'
        )
    return _svg(size, size, "share of successes over the predicted probability", "".join(parts))


def _letters(x: float, y: float, text: str, anchor: str = "start") -> str:
    """Return a text, which is HTML already, at a place."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" fill="currentColor" '
        f'text-anchor="{anchor}">{text}</text>'
    )


def _svg(width: float, height: float, title: str, inner: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"><title>{title}</title>'
        f"{inner}</svg>"
    )
