"""Explanations: the evidence for a belief, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

from graphmem.kinds import ItemKind
from graphmem.models.fields import Output
from graphmem.models.forecasts import OutcomePrediction
from graphmem.models.lessons import Alternative, Verdict
from graphmem.models.reports import Status
from graphmem.printable import counted, percent
from graphmem.text.fencing import fenced

Relation = Literal[
    "similar",
    "used together",
    "merged",
    "recommended",
    "warned against",
    "same state",
    "linked",
]
_SHOWN = 100
"""Most characters of one text of an episode in printed explanations."""
_LINE = 1_000
"""Characters of a sentence on what an estimate rests on."""
_WORDING = 60
"""Characters of the wording of a task beside its key."""
_LESSONS = {
    "recommended": "recommended for tasks of type",
    "warned against": "warned against because of",
}


class Why(Output):
    """The evidence for a belief: trials, how many support it, and the bounds that follow.

    ``successes`` counts the trials that support the belief: those that worked; for an anti-pattern
    the failures with its class of errors; for a rule the supporting episodes. ``mean`` is the
    posterior mean of their share, ``lower`` and ``upper`` its Wilson bounds, all in [0, 1].
    """

    trials: int
    successes: int
    mean: float
    lower: float
    upper: float
    status: Status
    sentence: str
    """The same as a sentence."""


class Since(Output):
    """The dates of the first and the latest trial; ``dated`` counts the trials with a date.

    For a general rule only the two dates are stored, and ``dated`` is None.
    """

    first: datetime
    last: datetime
    dated: int | None


class Trend(Output):
    """The later half of the dated trials (with the middle trial) compared with the earlier half.

    Of a strategy with more than 2,000 trials it compares the latest 2,000.
    ``change`` is the difference of the posterior means in [-1, 1]; it is ``certain`` if the Wilson
    bounds of the halves do not overlap. The later half begins at ``later_from``.
    """

    direction: Literal["rises", "falls", "steady"]
    change: float
    certain: bool
    earlier_trials: int
    earlier_successes: int
    later_trials: int
    later_successes: int
    later_from: datetime


class CoursePoint(Output):
    """The counts and bounds after a number of dated trials, at the time of the last.

    Of a strategy with more than 2,000 trials it counts the latest 2,000.
    """

    at: datetime
    trials: int
    successes: int
    mean: float
    lower: float
    upper: float


class Evidence(Output):
    """An episode for or against a belief; its score is in [0, 1].

    ``at`` is its end, else its start. ``error`` is the error of the episode, else the last error of
    its steps.
    """

    id: str
    task: str
    agent: str
    at: datetime | None
    score: float
    success: bool
    error: str | None
    source_key: str | None


class Share(Output):
    """The trials of one task or agent (``name``: key of the task, ``text``: its wording)."""

    name: str
    text: str | None = None
    trials: int
    successes: int
    lower: float
    upper: float


class Shares(Output):
    """Trials by task or agent, most trials first; ``groups`` counts all tasks or agents."""

    rows: tuple[Share, ...] = ()
    groups: int = 0


class Neighbour(Output):
    """A neighbour in the graph, and its success rate.

    ``weight`` is the cosine of the texts for similar items, else the weight of the edge as of its
    latest episode. ``episodes`` counts the episodes that used both. Rates are as in :class:`Why`.
    """

    relation: Relation
    id: str
    text: str
    agent: str | None = None
    weight: float | None = None
    episodes: int | None = None
    trials: int = 0
    successes: int = 0
    lower: float | None = None
    upper: float | None = None


class UpdateShown(Output):
    """One TD update of a policy; ``next_state`` is a fingerprint."""

    seq: int
    reward: float
    terminal: bool
    next_state: str | None
    success: bool | None
    at: datetime | None


class PolicyFacts(Output):
    """The state, value and latest updates of a policy."""

    state: str
    q: float
    updates: int
    confidence: float
    signals: int
    crystallized: bool
    transitions: tuple[UpdateShown, ...]


class Turn(Output):
    """How many trials in a row ``for`` or ``against`` a belief would change its verdict.

    ``more`` is the smallest such number, 0 if none is needed. ``lower`` and ``upper`` are the
    Wilson bounds after them, if the verdict depends on bounds.
    """

    direction: Literal["for", "against"]
    more: int
    becomes: str
    lower: float | None = None
    upper: float | None = None
    sentence: str


class Explanation(Output):
    """The evidence for a belief; ``str(explanation)`` is its text.

    ``agent``, ``task_types``, ``error_class``, ``verdict``, ``task`` and ``source`` describe the
    item, as far as its kind has them. ``read_as`` is the agent whose access rights applied. Samples
    and tables are bounded; ``course`` shows the dated trials at 40 points at most. ``cypher`` is a
    query that Neo4j Browser shows as a small graph.
    """

    _rows = "supporting"

    kind: ItemKind
    id: str
    text: str
    agent: str | None
    task_types: tuple[str, ...]
    error_class: str | None
    verdict: Verdict | None
    task: str | None
    source: str | None
    read_as: str | None
    why: Why
    since: Since | None
    trend: Trend | None
    course: tuple[CoursePoint, ...]
    supporting: tuple[Evidence, ...]
    opposing: tuple[Evidence, ...]
    by_task: Shares
    by_agent: Shares
    neighbours: tuple[Neighbour, ...]
    better_alternative: Alternative | None
    policy: PolicyFacts | None
    what_would_change: tuple[Turn, ...]
    cypher: str
    on_task: str | None = None
    """The task for which it is explained."""
    expected: OutcomePrediction | None = None
    """What to expect of its strategy on that task, and what that rests on."""

    def __str__(self) -> str:
        return self.to_text()

    def _frame_rows(self) -> Sequence[Evidence]:
        return (*self.supporting, *self.opposing)

    def to_text(self) -> str:
        """Return the explanation as text: one fact a line, without invisible characters."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.kind} {_quoted(self.text)}{self._about()}"
        yield f"  why: {self.why.sentence}"
        if self.since is not None:
            first, last = _date(self.since.first), _date(self.since.last)
            dated = self.since.dated
            yield f"  since: {first} to {last}" + (f" ({dated:,} with a date)" if dated else "")
        if self.trend is not None:
            yield f"  trend: {_trend(self.trend)}"
        if self.policy is not None:
            yield from _policy(self.policy)
        for name, episodes in (("for", self.supporting), ("against", self.opposing)):
            if episodes:
                yield f"  {name}, the latest:"
                yield from (f"    {_episode(episode)}" for episode in episodes)
        for name, shares in (("task", self.by_task), ("agent", self.by_agent)):
            if shares.rows and not (name == "agent" and self.agent is not None):
                more = shares.groups - len(shares.rows)
                yield f"  by {name}:" if not more else f"  by {name} ({more:,} more):"
                yield from (f"    {_share(share)}" for share in shares.rows)
        if self.neighbours:
            yield "  near it:"
            yield from (f"    {_neighbour(near)}" for near in self.neighbours)
        if self.better_alternative is not None:
            better = self.better_alternative
            worked = f"{better.successes:,} of {better.trials:,} on the same {better.ground}"
            yield f"  better: {_quoted(better.strategy)} ({worked}, {better.lift:+.2f})"
        if self.on_task is not None and self.expected is not None:
            one = self.expected
            yield (
                f"  on {_quoted(self.on_task)}: expected {percent(one.probability)} "
                f"({percent(one.low)} to {percent(one.high)})"
            )
            yield from (f"    {fenced(line, _LINE)}" for line in one.basis.lines)
        if self.what_would_change:
            yield "  what would change this:"
            yield from (f"    {turn.sentence}" for turn in self.what_would_change)

    def _about(self) -> str:
        parts = [f"[{self.verdict}]"] if self.verdict else []
        if self.agent is not None:
            parts.append(f"of agent {_quoted(self.agent)}")
        if self.error_class is not None:
            parts.append(f"that ends in {_quoted(self.error_class)}")
        if self.task_types and self.kind != "rule":
            parts.append(f"on {_joined(self.task_types)}")
        if self.kind == "rule":
            parts.append("for all tasks" if self.task is None else f"of task {_quoted(self.task)}")
        if self.policy is not None:
            parts.append(f"in state {fenced(self.policy.state, _SHOWN)}")
        if self.read_as is not None:
            parts.append(f"as agent {_quoted(self.read_as)} may read it")
        return "".join(f", {part}" for part in parts)


def _quoted(text: str, limit: int = _SHOWN) -> str:
    return f'"{fenced(text, limit)}"'


def _joined(names: Sequence[str]) -> str:
    few = ", ".join(_quoted(name) for name in names[:5])
    return few if len(names) <= 5 else f"{few} and {len(names) - 5:,} more"


def _date(moment: datetime | None) -> str:
    return "no date   " if moment is None else moment.strftime("%Y-%m-%d")


def _of(successes: int, trials: int) -> str:
    return f"{successes:,} of {trials:,}"


def _trend(trend: Trend) -> str:
    halves = (
        f"{_of(trend.earlier_successes, trend.earlier_trials)} earlier, "
        f"{_of(trend.later_successes, trend.later_trials)} from {_date(trend.later_from)} on"
    )
    if trend.direction == "steady":
        return f"steady ({halves})"
    sure = "the bounds do not overlap" if trend.certain else "not certain, the bounds overlap"
    return f"{trend.direction} by {abs(trend.change):.2f} ({halves}; {sure})"


def _episode(episode: Evidence) -> str:
    line = f"{_date(episode.at)}  score {episode.score:.2f}  {_quoted(episode.task)}"
    line += f" by {_quoted(episode.agent)}"
    if episode.error is not None:
        line += f": {fenced(episode.error, _SHOWN)}"
    return f"{line}  ({episode.id})"


def _share(share: Share) -> str:
    bounds = f"{share.lower:.2f} to {share.upper:.2f}"
    wording = "" if share.text is None else f"  {_quoted(share.text, _WORDING)}"
    return f"{_of(share.successes, share.trials)} ({bounds})  {_quoted(share.name)}{wording}"


def _neighbour(near: Neighbour) -> str:
    line = f"{_LESSONS.get(near.relation, f'{near.relation}:')} {_quoted(near.text)}"
    if near.agent is not None:
        line += f" by agent {_quoted(near.agent)}"
    if near.trials:
        line += f", {_of(near.successes, near.trials)}"
    if near.weight is not None:
        word = "similarity" if near.relation == "similar" else "weight"
        line += f", {word} {near.weight:.2f}"
    if near.episodes is not None:
        line += f", {counted(near.episodes, 'episode')}"
    return line


def _policy(policy: PolicyFacts) -> Iterator[str]:
    yield (
        f"  value: {policy.q:.4g} after {counted(policy.updates, 'update')}, confidence "
        f"{policy.confidence:.2f} after {counted(policy.signals, 'signal')}, "
        f"{'crystallized' if policy.crystallized else 'not crystallized'}"
    )
    if policy.transitions:
        yield "  updates, the latest:"
    for update in policy.transitions:
        then = "the end" if update.terminal else f"state {update.next_state or 'not given'}"
        yield f"    {_date(update.at)}  reward {update.reward:.4g}, then {then}  ({update.seq})"
