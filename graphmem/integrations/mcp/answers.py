"""What the tools return: fields for programs, and the same as text for a model.

Each form stays within a number of tokens; ``more`` says what was left out, and how to get it. In
the text, a fence that episodes cannot close surrounds everything that they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, Field

from graphmem.ids import canonical_json
from graphmem.lessons.prompt import PREAMBLE
from graphmem.models.fields import Output
from graphmem.printable import counted, percent
from graphmem.text.fencing import CLOSE, ELLIPSIS, OPEN, fenced
from graphmem.text.tokens import count_tokens

T = TypeVar("T", bound=BaseModel)

Rate = Annotated[float, AfterValidator(lambda rate: round(rate, 4))]
"""A number with its meaningful digits only: each digit costs tokens."""
SHOWN = 300
"""Characters of one text for a model."""
EPISODES = 3
"""Ids of episodes with an item; graphmem_evidence has more."""
ASIDE = 120
"""Tokens kept for the fence, for the sentence on what was left out, and for names of fields."""
_FIELD = 9
"""Tokens of the name of a field, with what stands around it."""
_FLOAT = 4
_SPARE = 20
"""Tokens by which the same answer can be longer the next time, for instance of a new choice."""
MOST = 100_000
"""Tokens that can be asked for."""


class Answer(Output):
    """An answer: ``more`` says what was left out, and how to get it."""

    more: str | None = None

    def __str__(self) -> str:
        lines = list(self.lines())
        text = "\n".join((PREAMBLE, OPEN, *lines, CLOSE)) if lines else self.nothing()
        return text if self.more is None else f"{text}\n{self.more}"

    def lines(self) -> Iterator[str]:
        """Yield the text inside the fence, line by line."""
        yield from ()

    def nothing(self) -> str:
        """Return what to say if there are no lines."""
        return "Nothing is known of this."


class Item(Output):
    """A recalled strategy, rule, heuristic or policy.

    ``expected`` is the expected success rate on the task, in [0, 1]; ``said`` has the counts behind
    it. ``episodes`` are ids of the latest ones.
    """

    id: str
    kind: str
    text: str
    expected: Rate
    said: str
    episodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = self.said
        if self.kind == "strategy":
            said += f", expected {percent(self.expected)}"
        return f"- {self.kind}: {fenced(self.text, SHOWN)} ({fenced(said, SHOWN)}) [{self.id}]"


class Warn(Output):
    """A strategy to avoid, the class of errors it fails with, and what did better."""

    id: str
    strategy: str
    error: str
    failures: int
    trials: int
    instead: str | None = None

    def __str__(self) -> str:
        better = f"; instead: {fenced(self.instead, SHOWN)}" if self.instead else ""
        return (
            f"- avoid: {fenced(self.strategy, SHOWN)} (failed {self.failures} of {self.trials} "
            f"with {fenced(self.error, SHOWN)}{better}) [{self.id}]"
        )


class Recalled(Answer):
    """Strategies and lessons for a task, the best first, and what to avoid; empty: nothing fits."""

    items: tuple[Item, ...] = ()
    warnings: tuple[Warn, ...] = ()
    task_type: str | None = None

    def lines(self) -> Iterator[str]:
        """Yield items, then warnings."""
        yield from map(str, (*self.items, *self.warnings))


class Prompt(Answer):
    """What is known of a task, as text for a system prompt; "" if nothing is."""

    context: str

    def __str__(self) -> str:
        return self.context or self.nothing()


class Candidate(Output):
    """A candidate: the expected success rate with its interval, and how likely it is taken."""

    text: str
    expected: Rate
    low: Rate
    high: Rate
    propensity: Rate
    why: str

    def __str__(self) -> str:
        return f"- {fenced(self.text, SHOWN)}: {fenced(self.why, SHOWN)}"


class Chosen(Answer):
    """The strategy to try now.

    ``choice`` is its name for graphmem_learn, for when you know how it went; null if the server
    does not learn.
    """

    choice: str | None = Field(description="Give this to graphmem_learn as `choice`.")
    strategy: Candidate
    others: tuple[Candidate, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the strategy with its reason, then the others."""
        yield f"take: {fenced(self.strategy.text, SHOWN)}"
        yield f"because: {fenced(self.strategy.why, SHOWN)}"
        yield from map(str, self.others)

    def __str__(self) -> str:
        if self.choice is None:
            return super().__str__()
        return (
            f"{super().__str__()}\nWhen it is done, call graphmem_learn with the same task, "
            f"choice={self.choice}, and success or score."
        )


class Learnt(Answer):
    """The learned episode; ``created`` is false if its source key was learned before."""

    episode_id: str
    created: bool

    def __str__(self) -> str:
        return f"learned as {self.episode_id}" if self.created else f"known as {self.episode_id}"


class Put(Answer):
    """The entry; ``created`` is false if its key had it already."""

    entry_id: str
    created: bool

    def __str__(self) -> str:
        return f"{'added' if self.created else 'there already'}: {self.entry_id}"


class Explained(Answer):
    """The evidence for a belief: its verdict, counts and bounds, and all of it as text."""

    id: str
    kind: str
    text: str
    trials: int
    successes: int
    lower: Rate
    upper: Rate
    status: str
    explanation: str

    def lines(self) -> Iterator[str]:
        """Yield the explanation; its texts are fenced already."""
        yield from self.explanation.splitlines()


class EpisodeRow(Output):
    """An episode in which a strategy was applied; its score is in [0, 1]."""

    id: str
    task: str
    agent: str
    at: str | None
    score: Rate
    success: bool
    error: str | None

    def __str__(self) -> str:
        error = f": {fenced(self.error, SHOWN)}" if self.error else ""
        when = self.at[:10] if self.at else "no date"
        task, agent = fenced(self.task, SHOWN), fenced(self.agent, SHOWN)
        return f"- {when}, score {self.score:.2f}, {task}, by {agent}{error} [{self.id}]"


class Episodes(Answer):
    """The latest episodes of a strategy."""

    episodes: tuple[EpisodeRow, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield an episode a line."""
        yield from map(str, self.episodes)


class Ranked(Output):
    """A strategy, its counts, and the Wilson bounds of its success rate, in [0, 1]."""

    id: str
    text: str
    trials: int
    successes: int
    lower: Rate
    upper: Rate

    def __str__(self) -> str:
        return (
            f"- {fenced(self.text, SHOWN)}: {self.successes} of {self.trials} "
            f"({self.lower:.2f} to {self.upper:.2f}) [{self.id}]"
        )


class Page(Answer):
    """Strategies, the best lower bound first; ``next_cursor`` gets the next page, if any."""

    strategies: tuple[Ranked, ...] = ()
    next_cursor: str | None = None

    def lines(self) -> Iterator[str]:
        """Yield a strategy a line."""
        yield from map(str, self.strategies)


class State(Answer):
    """What the memory holds, and where."""

    url: str
    engine: str
    namespace: str
    agent: str | None
    read_only: bool
    episodes: int
    tasks: int
    strategies: int
    version: str

    def __str__(self) -> str:
        return (
            f"graphmem {self.version}: {self.episodes} episodes, {self.tasks} tasks, "
            f"{self.strategies} strategies in {self.url} ({self.engine}, namespace "
            f"{self.namespace}{', read only' if self.read_only else ''})"
        )


class Erased(Answer):
    """How much was removed, for good."""

    episodes: int
    strategies_and_more: tuple[str, ...] = Field(
        description="Labels of nodes that nothing else supported, and that were removed too."
    )

    def __str__(self) -> str:
        return f"erased {counted(self.episodes, 'episode')}"


class Held(Output):
    """An entry of a level."""

    id: str
    level: str
    key: str | None
    content: Any
    tags: tuple[str, ...] = ()

    def __str__(self) -> str:
        tags = f" ({', '.join(fenced(tag, SHOWN) for tag in self.tags)})" if self.tags else ""
        return (
            f"- {fenced(self.level, SHOWN)}: {fenced(str(self.content), SHOWN)}{tags} [{self.id}]"
        )


class Entries(Answer):
    """Entries of levels, the best first."""

    entries: tuple[Held, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield an entry a line."""
        yield from map(str, self.entries)


class Map(Answer):
    """The levels that may be read, as a tree."""

    tree: str

    def lines(self) -> Iterator[str]:
        """Yield the tree, line by line."""
        yield from self.tree.splitlines()


class Kept(NamedTuple, Generic[T]):
    """The rows of an answer that fit, how many were left out, and the tokens that all need."""

    rows: tuple[T, ...]
    left: int
    tokens: int

    def more(self, what: str, tool: str) -> str | None:
        """Return a sentence on what was left out, and how to get it, or None."""
        return describe_rest(self.left, what, tool, self.tokens)


def fitting(rows: Iterable[T], max_tokens: int) -> Kept[T]:
    """Return the first rows that fit a number of tokens in both forms.

    The first row is always there, with its texts cut if necessary: an answer that says only "too
    long" helps nobody.
    """
    rows = list(rows)
    costs = [_cost(row) for row in rows]
    left, taken = max_tokens - ASIDE, 0
    for cost in costs:
        left -= cost
        if left < 0:
            break
        taken += 1
    needed = ASIDE + sum(costs)
    if rows and not taken:
        return Kept((_shorten_row(rows[0], max_tokens - ASIDE),), len(rows), needed)
    return Kept(tuple(rows[:taken]), len(rows) - taken, needed)


def describe_rest(left: int, what: str, tool: str, tokens: int) -> str | None:
    """Return a sentence on what was left out, and how to get it, or None."""
    if not left:
        return None
    enough = min(-(-(tokens + _SPARE) // 100) * 100, MOST)
    asked = f"ask {tool} with max_tokens={enough}"
    return f"{counted(left, what)} cut or left out; for all, {asked}."


def suggest_limit(limit: int, tool: str) -> str | None:
    """Return a sentence on what is beyond a limit; None if no more can be asked for."""
    if limit >= 100:
        return None
    return f"There can be more; ask {tool} with limit={min(2 * limit, 100)}."


def sentences(*said: str | None) -> str | None:
    """Return the sentences that are there."""
    return " ".join(filter(None, said)) or None


def cut_lines(text: str, max_tokens: int, tool: str, beside: int) -> tuple[str, str | None]:
    """Return the first lines of a text that fit beside other fields, and what was left out."""
    lines = text.splitlines()
    costs = [count_tokens(line) + 1 for line in lines]  # one for how JSON ends a line
    left, taken = max_tokens - ASIDE - beside, 0
    kept = shorten(text, max(4 * left, 20))
    for cost in costs:
        left -= cost
        if left < 0:
            break
        taken += 1
        kept = "\n".join(lines[:taken])
    return kept, describe_rest(len(lines) - taken, "line", tool, ASIDE + beside + sum(costs))


def shorten(text: str, limit: int = SHOWN) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= limit else text[: limit - 1] + ELLIPSIS


def _cost(row: BaseModel) -> int:
    """Return about the tokens of a row as JSON, which takes more than its text.

    Texts repeat from call to call, so their tokens are mostly known.
    """
    return sum(_FIELD + _tokens(value) for _, value in row)


def _tokens(value: Any) -> int:
    if isinstance(value, float):
        return _FLOAT
    if isinstance(value, tuple):
        return sum(4 + _tokens(one) for one in value)
    text = value if isinstance(value, str) else canonical_json(value)
    return count_tokens(text) + text.count('"') + text.count("\\") + text.count("\n")


def _shorten_row(row: T, tokens: int) -> T:
    """Return a row without lists, and with texts cut until it fits."""
    row = row.model_copy(update={name: () for name, value in row if isinstance(value, tuple)})
    limit = max(4 * tokens, SHOWN)
    while _cost(row) > tokens and limit > 20:
        texts = {
            name: value if isinstance(value, str) else canonical_json(value)
            for name, value in row
            if name != "id" and isinstance(value, str | list | dict)
        }
        row = row.model_copy(update={name: shorten(text, limit) for name, text in texts.items()})
        limit //= 2
    return row
