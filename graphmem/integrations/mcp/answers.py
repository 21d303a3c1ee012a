"""What the tools return: fields for programs, and the same as text for a model.

Each form stays within a number of tokens; ``more`` says what was left out, and how to get it. In
the text, a fence that episodes cannot close surrounds everything that they hold. Rows have fields
of the library's own models.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from graphmem.ids import canonical_json
from graphmem.lessons.prompt import PREAMBLE
from graphmem.models.fields import Output
from graphmem.models.lessons import Alternative
from graphmem.printable import counted, percent
from graphmem.text.fencing import CLOSE, ELLIPSIS, OPEN, fenced
from graphmem.text.tokens import count_tokens

Rate = Annotated[float, AfterValidator(lambda rate: round(rate, 4))]
"""A number with its meaningful digits only: each digit costs tokens."""
SHOWN = 300
"""Characters of one text for a model."""
ASIDE = 120
"""Tokens kept for the fence, for the sentence on what was left out, and for names of fields."""
_SPARE = 20
"""Tokens by which the same answer can be longer the next time, for instance of a new choice."""
MOST = 100_000
"""Tokens that can be asked for."""


class Row(Output):
    """A line of an answer; as a text it is fenced."""

    model_config = ConfigDict(from_attributes=True)

    id: str

    def __str__(self) -> str:
        fields = ((name, str(value)) for name, value in self if name != "id" and value is not None)
        text = ", ".join(f"{name} {fenced(value, SHOWN)}" for name, value in fields)
        return f"- {text} [{self.id}]"


R = TypeVar("R", bound=Row)


class Answer(Output):
    """An answer: ``more`` says what was left out, and how to get it."""

    more: str | None = None

    def __str__(self) -> str:
        lines = [*map(str, self.lines())]
        text = "\n".join((PREAMBLE, OPEN, *lines, CLOSE)) if lines else "Nothing is known of this."
        return text if self.more is None else f"{text}\n{self.more}"

    def lines(self) -> Iterable[object]:
        """Return what is inside the fence, line by line."""
        return ()


class Item(Row):
    """A recalled strategy, rule, heuristic or policy.

    ``mean`` is the expected success rate on the task, in [0, 1]; ``said`` has the counts behind it.
    ``evidence`` are ids of the latest episodes.
    """

    kind: str
    text: str
    mean: Rate
    said: str
    evidence: Annotated[tuple[str, ...], AfterValidator(lambda ids: ids[:3])] = ()

    def __str__(self) -> str:
        said = self.said
        if self.kind == "strategy":
            said += f", expected {percent(self.mean)}"
        return f"- {self.kind}: {fenced(self.text, SHOWN)} ({fenced(said, SHOWN)}) [{self.id}]"


def _name_alternative(better: object) -> object:
    return better.strategy if isinstance(better, Alternative) else better


class Warn(Row):
    """A strategy to avoid, how it fails, and what did better."""

    strategy: str
    sentence: str
    better_alternative: Annotated[str | None, BeforeValidator(_name_alternative)] = None

    def __str__(self) -> str:
        better = self.better_alternative
        instead = f"; instead: {fenced(better, SHOWN)}" if better else ""
        sentence = fenced(self.sentence, SHOWN)
        return f"- avoid: {fenced(self.strategy, SHOWN)} ({sentence}{instead}) [{self.id}]"


class Recalled(Answer):
    """Strategies and lessons for a task, the best first, and what to avoid; empty: nothing fits."""

    items: tuple[Item, ...] = ()
    warnings: tuple[Warn, ...] = ()
    task_type: str | None = None

    def lines(self) -> Iterable[object]:
        """Return items, then warnings."""
        return (*self.items, *self.warnings)


class Prompt(Answer):
    """What is known of a task, as text for a system prompt; "" if nothing is."""

    context: str

    def __str__(self) -> str:
        return self.context or super().__str__()


class Text(Answer):
    """A text whose lines hold fenced texts."""

    text: str

    def lines(self) -> Iterable[object]:
        """Return its lines."""
        return self.text.splitlines()


class Candidate(Row):
    """A candidate: the expected success rate with its interval, and how likely it is taken."""

    text: str
    probability: Rate
    low: Rate
    high: Rate
    propensity: Rate
    why: str


class Chosen(Answer):
    """The strategy to try now.

    ``choice`` is its name for graphmem_learn, for when you know how it went; null if the server
    does not learn.
    """

    choice: str | None = Field(description="Give this to graphmem_learn as `choice`.")
    strategy: Candidate
    others: tuple[Candidate, ...] = ()

    def lines(self) -> Iterable[object]:
        """Return the strategy with its reason, then the others."""
        taken = fenced(self.strategy.text, SHOWN), fenced(self.strategy.why, SHOWN)
        return (f"take: {taken[0]}", f"because: {taken[1]}", *self.others)

    def __str__(self) -> str:
        if self.choice is None:
            return super().__str__()
        return (
            f"{super().__str__()}\nWhen it is done, call graphmem_learn with the same task, "
            f"choice={self.choice}, and success or score."
        )


class Episode(Row):
    """An episode in which a strategy was applied; its score is in [0, 1]."""

    at: datetime | None
    task: str
    agent: str
    success: bool
    score: Rate
    error: str | None


class Ranked(Row):
    """A strategy, its counts, and the Wilson bounds of its success rate, in [0, 1]."""

    text: str
    successes: int
    trials: int
    lower: Rate
    upper: Rate


class Entry(Row):
    """An entry of a level."""

    level: str
    key: str | None
    content: Any
    tags: tuple[str, ...] = ()


class Listing(Answer, Generic[R]):
    """A list, the best or latest first."""

    items: tuple[R, ...] = ()

    def lines(self) -> Iterable[object]:
        """Return an item a line."""
        return self.items


def fit(
    rows: Iterable[R], max_tokens: int, tool: str, limit: int | None = None
) -> tuple[tuple[R, ...], str | None]:
    """Return the first rows that fit a number of tokens in both forms, and what was left out.

    The first row is always there, with its texts cut if necessary: an answer that says only "too
    long" helps nobody.

    Args:
        rows: the rows.
        max_tokens: the number of tokens.
        tool: the tool that gives more.
        limit: the limit that the rows reached; None: there are no others.
    """
    rows = tuple(rows)
    costs = [count_tokens(row.model_dump_json()) for row in rows]
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
    part = "\n".join(lines[:kept]) if kept else shorten(text, max(4 * tokens, 20))
    return part, describe_rest(len(lines) - kept, "line", tool, sum(costs))


def describe_rest(left: int, what: str, tool: str, tokens: int) -> str | None:
    """Return a sentence on what was left out, and how to get it, or None."""
    if not left:
        return None
    enough = min(-(-(ASIDE + tokens + _SPARE) // 100) * 100, MOST)
    asked = f"ask {tool} with max_tokens={enough}"
    return f"{counted(left, what)} cut or left out; for all, {asked}."


def shorten(text: str, limit: int = SHOWN) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= limit else text[: limit - 1] + ELLIPSIS


def _first(costs: list[int], tokens: int) -> int:
    """Return how many of the first costs fit."""
    fitting = 0
    for cost in costs:
        tokens -= cost
        if tokens < 0:
            break
        fitting += 1
    return fitting


def _shorten_row(row: R, tokens: int) -> R:
    """Return a row without lists, and with texts cut until it fits."""
    row = row.model_copy(update={name: () for name, value in row if isinstance(value, tuple)})
    limit = max(4 * tokens, SHOWN)
    while count_tokens(row.model_dump_json()) > tokens and limit > 20:
        texts = {
            name: value if isinstance(value, str) else canonical_json(value)
            for name, value in row
            if name != "id" and isinstance(value, str | list | dict)
        }
        row = row.model_copy(update={name: shorten(text, limit) for name, text in texts.items()})
        limit //= 2
    return row
