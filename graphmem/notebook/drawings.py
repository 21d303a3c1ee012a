"""Pictures in SVG for notebooks: a course of bounds, a curve of calibration, a map of levels.

This module lays them out without a library, from the models of a course, of bins and of a map.
Lines and letters have the colour of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphmem.printable import counted

_BLUE = "#3d8fd1"
_WIDTH, _HEIGHT = 420, 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 12, 10, 22
_BOX, _ROW, _GAP = 170, 54, 60
BOXES = 60
"""Most levels to draw; the table below has all."""


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
    """Return the bounds after each number of trials, as a band with the mean as a line."""
    most = max(points[-1].trials, 2)
    first = min(points[0].trials, most - 1)

    def x(point: Any) -> float:
        share = float(point.trials - first) / (most - first)
        return float(_LEFT + share * (_WIDTH - _LEFT - _RIGHT))

    upper = [f"{x(point):.1f},{_y(point.upper):.1f}" for point in points]
    lower = [f"{x(point):.1f},{_y(point.lower):.1f}" for point in reversed(points)]
    mean = [f"{x(point):.1f},{_y(point.mean):.1f}" for point in points]
    last = points[-1]
    return _svg(
        _WIDTH,
        _HEIGHT,
        f"success rate after {counted(last.trials, 'trial')}: {last.lower:.2f} to {last.upper:.2f}",
        _axes()
        + f'<polygon points="{" ".join(upper + lower)}" fill="{_BLUE}" opacity=".3"/>'
        + f'<polyline points="{" ".join(mean)}" fill="none" stroke="{_BLUE}" stroke-width="2"/>'
        + _letters(_LEFT, _HEIGHT - 6, f"{points[0].trials:,} ({points[0].at:%Y-%m-%d})")
        + _letters(_WIDTH - _RIGHT, _HEIGHT - 6, f"{last.trials:,} ({last.at:%Y-%m-%d})", "end"),
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


def level_map(
    levels: Sequence[Any], edges: Sequence[Any], escape_text: Callable[[str, int], str]
) -> str:
    """Return levels as boxes, each to the right of those that it pulls from."""
    names = [level.name for level in levels[:BOXES]]
    arrows = [edge for edge in edges if edge.source in names and edge.target in names]
    column = dict.fromkeys(names, 0)
    for _ in range(min(len(names), 12)):  # an end also for a circle, which an import can close
        for edge in arrows:
            if edge.source != edge.target:
                column[edge.target] = min(
                    max(column[edge.target], column[edge.source] + 1), len(names) - 1, 11
                )
    contents = {
        level.name: f"{counted(level.entries, 'entry')}, {level.pending:,} pending"
        for level in levels
    }
    place: dict[str, tuple[int, int]] = {}
    for name in names:
        above = sum(column[name] == column[other] for other in place)
        place[name] = (4 + column[name] * (_BOX + _GAP), 4 + above * _ROW)
    parts = ['<g stroke="currentColor" fill="none" opacity=".6">']
    for edge in arrows:
        (x, y), (to_x, to_y) = place[edge.source], place[edge.target]
        end = f"{to_x} {to_y + 20}"
        parts.append(f'<path d="M{x + _BOX} {y + 20} L{end} m-7 -4 l7 4 l-7 4"/>')
    parts.append("</g>")
    for name, (x, y) in place.items():
        parts.append(
            f'<rect x="{x}" y="{y}" width="{_BOX}" height="40" rx="6" fill="{_BLUE}" '
            f'fill-opacity=".18" stroke="{_BLUE}"/>'
            + _letters(x + 8, y + 17, escape_text(name, 24))
            + _letters(x + 8, y + 32, contents[name])
        )
    width = max(x for x, _ in place.values()) + _BOX + 4
    height = max(y for _, y in place.values()) + _ROW
    return _svg(width, height, f"{len(names)} of {len(levels)} levels", "".join(parts))


def _y(value: float) -> float:
    return _TOP + (1 - value) * (_HEIGHT - _TOP - _BOTTOM)


def _axes() -> str:
    return "".join(
        f'<line x1="{_LEFT}" y1="{_y(value):.1f}" x2="{_WIDTH - _RIGHT}" y2="{_y(value):.1f}" '
        f'stroke="currentColor" opacity=".3"/>{_letters(_LEFT - 6, _y(value) + 4, name, "end")}'
        for value, name in ((0.0, "0"), (0.5, "0.5"), (1.0, "1"))
    )


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
