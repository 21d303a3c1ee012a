"""Answers in notebooks: lists of them, and HTML, which is tables and inline SVG without scripts.

Everything from a memory passes :func:`escape_text`. Text and lines have the colour of the page, so
that they can be read on light and on dark pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any, TypeVar

from pydantic import BaseModel

from graphmem.printable import printable
from graphmem.text.answers import printed
from graphmem.text.cells import cell, name_field

TEXT = 300  # most characters of a text to show; the answer itself has the rest
CELL = 120  # most characters of a text in a row of a table
ROWS = 50  # most rows of a table to show
DEPTH = 4  # how deep to show answers within answers

_BORDER = "1px solid rgba(128,128,128,.4)"
_CELL = f"padding:2px 8px;border-bottom:{_BORDER};vertical-align:top;text-align:"
_BOUNDS = (
    ("lower", "share", "upper"),
    ("lower", "mean", "upper"),
    ("lower", "confidence", "upper"),
    ("low", "probability", "high"),
    ("low", "value", "high"),
)
"""Fields that are one thing, drawn as an interval."""
_FOR_PROGRAMS = frozenset({"cypher", "freshness", "relevance", "worth"})
"""Fields that a notebook leaves out; the answer and its frame have them."""
_ID = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{20}\b")  # `Memory.show` takes the beginning
_BLUE = "#3d8fd1"
T = TypeVar("T")


class Listed(list[T]):
    """A list of answers, or of rows: a line for each if printed, a table in a notebook."""

    def __str__(self) -> str:
        return printed(self) if self else "[]"

    def _repr_html_(self) -> str:
        return rows(self)


def escape_text(text: str, limit: int = TEXT) -> str:
    """Return a text for HTML: shortened, without anything that a browser would obey or hide."""
    short = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return escape(printable(short)).replace("\n", "<br>")


def answer(shown: BaseModel) -> str:
    """Return an answer as HTML."""
    return _frame(f"<strong>{_title(type(shown).__name__)}</strong>" + _body(shown, 0))


def rows(shown: Sequence[Any]) -> str:
    """Return a list of answers or of rows as HTML."""
    return _frame(_table([_columns(row) for row in shown]) if shown else "<p>nothing</p>")


def _frame(inner: str) -> str:
    # The classes keep MathJax, which notebooks run over outputs, from reading dollars in texts.
    return (
        '<div class="graphmem tex2jax_ignore mathjax_ignore" '
        f'style="overflow-x:auto;line-height:1.4">{inner}</div>'
    )


def _title(name: str) -> str:
    return escape_text(name_field(name).capitalize())


def _body(shown: BaseModel, depth: int) -> str:
    """Return the fields of an answer: first short ones, then tables."""
    facts, parts = {}, []
    for name, value in _columns(shown).items():
        if value is None or value in ((), {}, ""):
            continue
        title, opened = name_field(name).capitalize(), ""
        if isinstance(value, tuple) and isinstance(value[0], BaseModel):
            part = _table([_columns(one) for one in value])
            title, opened = f"{title} ({len(value)})", "" if depth else " open"
        elif isinstance(value, BaseModel):
            part = _body(value, depth + 1) if depth < DEPTH else ""
        elif isinstance(value, Mapping) and depth < DEPTH:
            part = _facts(value)
        else:
            facts[name] = value
            continue
        parts.append(f"<details{opened}><summary>{escape_text(title)}</summary>{part}</details>")
    return _facts(facts) + "".join(parts)


class _Html(str):
    """A text that is HTML already."""

    __slots__ = ()


def _show_interval(low: float | None, middle: float | None, high: float | None) -> _Html | None:
    if low is None or middle is None or high is None:
        return None if middle is None else _Html(cell(middle))
    return _Html(f"{cell(middle)} {draw_interval(low, middle, high)} {low:.2f} to {high:.2f}")


def _columns(shown: Any) -> dict[str, Any]:
    """Return the fields of an answer, in which a rate with its bounds is one, as "31 of 38" is."""
    if not isinstance(shown, BaseModel):
        return dict(shown) if isinstance(shown, Mapping) else {"value": shown}
    values = {name: value for name, value in shown if name not in _FOR_PROGRAMS}
    bounds = next((those for those in _BOUNDS if set(those) <= set(values)), ("", "", ""))
    joined: dict[str, Any] = {}
    for name, value in values.items():
        kind = next((end for end in ("trials", "successes") if name.endswith(end)), None)
        of = name.removesuffix(kind) if kind else ""
        trials, successes = values.get(f"{of}trials"), values.get(f"{of}successes")
        if of and "said" in values:
            continue  # that says it in words
        if name == "occurrences":
            joined["failed"] = f"{value:,} of {value + values['successes']:,}"
        elif name == bounds[1]:
            joined[name] = _show_interval(*(values[one] for one in bounds))
        elif kind and isinstance(trials, int) and isinstance(successes, int):
            joined[f"{of}worked"] = f"{successes:,} of {trials:,}" if trials else None
        elif name not in bounds and not (name == "successes" and "occurrences" in values):
            joined[name] = value
    return joined


def _facts(facts: Mapping[str, Any]) -> str:
    style = f"{_CELL}left;font-weight:normal;opacity:.75"
    lines = "".join(
        f'<tr><th style="{style}">{_title(str(name))}</th>'
        f'<td style="{_CELL}left">{_cell(value)}</td></tr>'
        for name, value in islice(facts.items(), ROWS)
    )
    return _as_table(lines, len(facts)) if lines else ""


def _table(shown: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in shown[:ROWS] for name in row))
    filled = [name for name in names if any(row.get(name) is not None for row in shown[:ROWS])]
    filled.sort(key=lambda name: name == "id")  # stable: only ids go to the end
    first = shown[0] if shown else {}
    head = "".join(
        f'<th style="{_CELL}{_side(first.get(name))}">{_title(name)}</th>' for name in filled
    )
    lines = [f"<tr>{head}</tr>"]
    for row in shown[:ROWS]:
        cells = [
            f'<td style="{_CELL}{_side(row.get(name))}">{_cell(row.get(name), brief=True)}</td>'
            for name in filled
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return _as_table("".join(lines), len(shown))


def _as_table(lines: str, count: int) -> str:
    more = f"<p>and {count - ROWS:,} more</p>" if count > ROWS else ""
    style = "border-collapse:collapse;margin:4px 0"
    return f'<table style="{style}"><tbody>{lines}</tbody></table>{more}'


def _side(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "right"
    return "left;min-width:8em" if isinstance(value, str | tuple) else "left;white-space:nowrap"


def _cell(value: Any, *, brief: bool = False) -> str:
    """Return a value as a cell, as the command line prints it; ``brief`` in a row of many."""
    if isinstance(value, _Html):
        return value
    text = cell(getattr(value, "strategy", value) if brief else value, CELL if brief else TEXT)
    return escape_text(_ID.sub(r"\1", text) if brief else text)


def draw_interval(low: float | None, middle: float | None, high: float | None) -> str:
    """Return a bar from ``low`` to ``high`` on a line from 0 to 1, with a dot at ``middle``."""
    if low is None or middle is None or high is None:
        return ""
    one, dot, other = (4 + 92 * min(max(value, 0.0), 1.0) for value in (low, middle, high))
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" width="100" height="14" '
        f'viewBox="0 0 100 14"><title>{low:.2f} to {high:.2f}</title>'
        '<line x1="4" y1="7" x2="96" y2="7" stroke="currentColor" opacity=".25"/>'
        f'<line x1="{one:.1f}" y1="7" x2="{other:.1f}" y2="7" stroke="{_BLUE}" stroke-width="4"/>'
        f'<circle cx="{dot:.1f}" cy="7" r="3" fill="currentColor"/></svg>'
    )
