"""Answers as HTML, for notebooks: tables and inline SVG, without scripts.

Everything from a memory passes :func:`escaped`. Text and lines have the colour of the page, so that
they can be read on light and on dark pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from pydantic import BaseModel

from graphmem.notebook.drawings import course, interval, level_map, reliability
from graphmem.notebook.frames import as_json, fields
from graphmem.printable import printable

TEXT = 300
"""Most characters of a text to show; the answer itself has the rest."""
ROWS = 50
"""Most rows of a table to show."""
DEPTH = 4
"""How deep to show answers within answers."""

_BORDER = "1px solid rgba(128,128,128,.4)"
_CELL = f"padding:2px 8px;border-bottom:{_BORDER};text-align:"
_BOUNDS = (("lower", "mean", "upper"), ("low", "probability", "high"), ("low", "value", "high"))
"""Fields of a row that are drawn as an interval."""


def escaped(text: str, limit: int = TEXT) -> str:
    """Return a text for HTML: shortened, without anything that a browser would obey or hide."""
    short = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return escape(printable(short)).replace("\n", "<br>")


def answer(shown: BaseModel) -> str:
    """Return an answer as HTML."""
    return _frame(_heading(type(shown).__name__) + _body(shown, 0))


def rows(shown: Sequence[Any]) -> str:
    """Return a list of answers or of rows as HTML."""
    return _frame(_table([fields(row) for row in shown]) if shown else "<p>nothing</p>")


def note(title: str, facts: Mapping[str, Any], more: str = "") -> str:
    """Return a heading with facts, and a text below them, as HTML."""
    return _frame(_heading(title) + _facts(facts) + (f"<p>{escaped(more)}</p>" if more else ""))


def _frame(inner: str) -> str:
    # The classes keep MathJax, which notebooks run over outputs, from reading dollars in texts.
    return (
        '<div class="graphmem tex2jax_ignore mathjax_ignore" '
        f'style="overflow-x:auto;line-height:1.4">{inner}</div>'
    )


def _heading(name: str) -> str:
    return f"<strong>{escaped(_words(name))}</strong>"


def _words(name: str) -> str:
    """Return the name of a class or a field in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name).strip().capitalize()


def _body(shown: BaseModel, depth: int) -> str:
    """Return the fields of an answer: first short ones, then pictures, then tables."""
    facts, parts = {}, []
    for name, value in fields(shown).items():
        if value is None or value in ((), {}, ""):
            continue
        if _is_table(value):
            part = _table([fields(one) for one in value])
        elif isinstance(value, BaseModel):
            part = _body(value, depth + 1) if depth < DEPTH else ""
        elif isinstance(value, Mapping) and depth < DEPTH:
            part = _facts(value)
        else:
            facts[name] = value
            continue
        title = f"{_words(name)} ({len(value)})" if _is_table(value) else _words(name)
        opened = " open" if depth == 0 and _is_table(value) else ""
        parts.append(f"<details{opened}><summary>{escaped(title)}</summary>{part}</details>")
    return _facts(facts) + _picture(shown) + "".join(parts)


def _is_table(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], BaseModel)


def _facts(facts: Mapping[str, Any]) -> str:
    lines = "".join(
        f'<tr><th style="{_CELL}left;font-weight:normal;opacity:.75">{escaped(_words(str(name)))}'
        f'</th><td style="{_CELL}left">{_cell(value)}</td></tr>'
        for name, value in _first(facts.items())
    )
    return _as_table(lines) + _more(len(facts)) if lines else ""


def _table(shown: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a table; rows with bounds get a picture of these."""
    names = list(dict.fromkeys(name for row in shown[:ROWS] for name in row))
    filled = [name for name in names if any(row.get(name) is not None for row in shown[:ROWS])]
    filled.sort(key=lambda name: name == "id")  # stable: only ids go to the end
    bounds = next((those for those in _BOUNDS if set(those) <= set(filled)), None)
    heads = [_words(name) for name in filled] + ([""] if bounds else [])
    head = "".join(f'<th style="{_CELL}left">{escaped(name)}</th>' for name in heads)
    lines = [f"<tr>{head}</tr>"]
    for row in _first(shown):
        cells = [
            f'<td style="{_CELL}{_side(row.get(name))}">{_cell(row.get(name))}</td>'
            for name in filled
        ]
        if bounds:
            cells.append(f"<td>{interval(*(row.get(name) for name in bounds))}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return _as_table("".join(lines)) + _more(len(shown))


def _as_table(lines: str) -> str:
    return f'<table style="border-collapse:collapse;margin:4px 0"><tbody>{lines}</tbody></table>'


def _first(items: Iterable[Any]) -> Iterator[Any]:
    for place, item in enumerate(items):
        if place == ROWS:
            return
        yield item


def _more(count: int) -> str:
    return f"<p>and {count - ROWS:,} more</p>" if count > ROWS else ""


def _side(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "right"
    return "left;min-width:12em" if isinstance(value, str) and " " in value else "left"


def _cell(value: Any) -> str:
    """Return a value as a cell, as the command line prints it."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = value
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, int | float):
        text = _number(value)
    elif isinstance(value, datetime):
        text = f"{value:%Y-%m-%d %H:%M}"
    elif isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        text = ", ".join(value)
    else:
        text = as_json(value)
    return escaped(text)


def _number(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**18 else str(value)
    return f"{value:.3f}" if abs(value) < 1e6 else f"{value:.3g}"


def _picture(shown: BaseModel) -> str:
    """Return the picture of an answer that has one."""
    held = fields(shown)
    if points := held.get("course"):
        return course(points)
    if bins := held.get("bins"):
        return reliability(bins)
    if "edges" in held and _is_table(held["levels"]):
        return level_map(held["levels"], held["edges"], escaped)
    return ""
