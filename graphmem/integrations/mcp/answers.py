"""What the tools return: fields for programs, and the same as text for a model.

Each form stays within a number of tokens; ``more`` says what was left out, and how to get it. In
the text, a fence that episodes cannot close surrounds everything that they hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from pydantic import BaseModel, Field

from graphmem.ids import canonical_json
from graphmem.lessons.prompt import PREAMBLE
from graphmem.models.fields import Output
from graphmem.printable import counted
from graphmem.text.fencing import CLOSE, ELLIPSIS, OPEN, fenced
from graphmem.text.secrets import masked
from graphmem.text.tokens import count_tokens

Row = dict[str, Any]
SHOWN = 300
"""Characters of one text for a model."""
ASIDE = 120
"""Tokens kept for the fence, for the sentence on what was left out, and for names of fields."""
_SPARE = 20
"""Tokens by which the same answer can be longer the next time, for instance of a new choice."""
MOST = 100_000
"""Tokens that can be asked for."""


class Answer(Output):
    """An answer: ``more`` says what was left out, and how to get it."""

    more: str | None = None

    def __str__(self) -> str:
        lines = self.lines()
        text = "\n".join((PREAMBLE, OPEN, *lines, CLOSE)) if lines else "Nothing is known of this."
        return text if self.more is None else f"{text}\n{self.more}"

    def lines(self) -> list[str]:
        """Return what is inside the fence, line by line."""
        raise NotImplementedError


class Text(Answer):
    """A text whose lines hold fenced texts."""

    text: str

    def lines(self) -> list[str]:
        """Return its lines."""
        return self.text.splitlines()


class Prompt(Text):
    """What is known of a task, as text for a system prompt; "" if nothing is."""

    def __str__(self) -> str:
        return self.text or super().__str__()


class Rows(Answer):
    """A list, the best or latest first; rates are in [0, 1], ``id`` is for other tools."""

    rows: tuple[Row, ...] = ()

    def lines(self) -> list[str]:
        """Return a row a line."""
        return [*map(describe_row, self.rows)]


class Choices(Rows):
    """The strategy to try now, then the other candidates.

    ``choice`` is its name for graphmem_learn, for when you know how it went; null if the server
    does not learn.
    """

    choice: str | None = Field(description="Give this to graphmem_learn as `choice`.")

    def __str__(self) -> str:
        if self.choice is None:
            return super().__str__()
        return (
            f"{super().__str__()}\nTake the first. When it is done, call graphmem_learn with the "
            f"same task, choice={self.choice}, and success or score."
        )


def row_of(model: BaseModel, *names: str, **more: Any) -> Row:
    """Return a row with fields of a model, its numbers with their meaningful digits only."""
    known = model.model_dump(mode="json", include={*names, "id"})
    fields = masked({name: known[name] for name in (*names, "id")} | more)
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in fields.items()
    }


def describe_row(row: Row) -> str:
    """Return a row as a line; its texts are fenced."""
    fields = [
        (name, fenced(value if isinstance(value, str) else canonical_json(value), SHOWN))
        for name, value in row.items()
        if name not in ("id", "kind", "evidence") and value not in (None, "", [])
    ]
    (_, first), *others = fields
    kind = f"{row['kind']}: " if "kind" in row else ""
    about = ", ".join(f"{name} {text}" for name, text in others)
    return f"- {kind}{first} ({about}) [{row['id']}]"


def fit(
    rows: Iterable[Row], max_tokens: int, tool: str, limit: int | None = None
) -> tuple[tuple[Row, ...], str | None]:
    """Return the first rows that fit a number of tokens in both forms, and what was left out.

    The first row is always there, with its texts cut if necessary: an answer that says only "too
    long" helps nobody. A limit that is given was reached.
    """
    rows = tuple(rows)
    costs = [count_tokens(canonical_json(row)) for row in rows]
    kept = _first(costs, max_tokens - ASIDE)
    more = describe_rest(len(rows) - kept, "row", tool, sum(costs))
    if rows and not kept:
        return (_shorten_row(rows[0], max_tokens - ASIDE),), more
    if limit is not None and limit < 100:
        beyond = f"There can be more; ask {tool} with limit={min(2 * limit, 100)}."
        more = f"{more} {beyond}" if more else beyond
    return rows[:kept], more


def fit_lines(text: str, max_tokens: int, tool: str) -> tuple[str, str | None]:
    """Return the first lines of a text that fit, and what was left out."""
    lines, tokens = text.splitlines(), max_tokens - ASIDE
    costs = [  # in JSON
        count_tokens(line) + line.count('"') + line.count("\\") + 1 for line in lines
    ]
    kept = _first(costs, tokens)
    part = "\n".join(lines[:kept]) if kept else text[: max(4 * tokens, 20)] + ELLIPSIS
    return part, describe_rest(len(lines) - kept, "line", tool, sum(costs))


def describe_rest(left: int, what: str, tool: str, tokens: int) -> str | None:
    """Return a sentence on what was left out, and how to get it, or None."""
    if not left:
        return None
    enough = min(-(-(ASIDE + tokens + _SPARE) // 100) * 100, MOST)
    asked = f"ask {tool} with max_tokens={enough}"
    return f"{counted(left, what)} cut or left out; for all, {asked}."


def _first(costs: list[int], tokens: int) -> int:
    """Return how many of the first costs fit."""
    return sum(total <= tokens for total in accumulate(costs))


def _shorten_row(row: Row, tokens: int) -> Row:
    """Return a row without lists, and with texts that fit for sure."""
    names = [name for name, value in row.items() if isinstance(value, str | dict) and name != "id"]
    limit = max(tokens // (2 * len(names)), 20)
    short = {name: value for name, value in row.items() if not isinstance(value, list)}
    for name in names:
        text = row[name] if isinstance(row[name], str) else canonical_json(row[name])
        short[name] = text if len(text) <= limit else text[: limit - 1] + ELLIPSIS
    return short
