"""Explanations: why something is believed, on what evidence, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

from graphmem.models.fields import Output
from graphmem.models.lessons import Alternative, Verdict
from graphmem.models.reports import Status
from graphmem.text.fencing import fenced

ItemKind = Literal["strategy", "heuristic", "anti-pattern", "rule", "policy"]
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
"""Characters of a text of episodes in what is printed."""


class Why(Output):
    """What a belief stands on: trials, how many of them speak for it, and what that says.

    ``successes`` are the trials that support the belief: those that worked; of an anti-pattern the
    failures with its class of errors; of a rule the episodes for it. ``mean`` is the posterior mean
    of their share, ``lower`` and ``upper`` its Wilson bounds, all in [0, 1].
    """

    trials: int
    successes: int
    mean: float
    lower: float
    upper: float
    status: Status
    sentence: str
    """The same in words."""


class Since(Output):
    """The dates of the evidence: the first and the latest, of so many trials that have a date.

    For a rule over all tasks only the two dates are kept, and ``dated`` is None.
    """

    first: datetime
    last: datetime
    dated: int | None


class Trend(Output):
    """The later half of the dated trials (with the middle one) against the earlier half.

    ``change`` is the difference of the posterior means in [-1, 1]; it is ``certain`` where the
    Wilson bounds of the halves do not overlap. The later half begins at ``later_from``.
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
    """What was known after a number of dated trials, at the time of the last of them."""

    at: datetime
    trials: int
    successes: int
    mean: float
    lower: float
    upper: float


class Evidence(Output):
    """An episode that speaks for or against a belief; its score is in [0, 1].

    ``at`` is its end, else its start. ``error`` is that of the episode, else the last one of its
    steps.
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
    """The part of the trials that one task or agent has (``name``: key of the task)."""

    name: str
    trials: int
    successes: int
    lower: float
    upper: float


class Shares(Output):
    """Trials by task or by agent, those with most trials; ``groups`` counts all of them."""

    rows: tuple[Share, ...] = ()
    groups: int = 0


class Neighbour(Output):
    """What is near in the graph, and how well that does.

    ``weight`` is the cosine of the texts for what is similar, and that of the edge (as of its
    latest episode) for what was used together or is linked; ``episodes`` counts those that used
    both. Rates are as in :class:`Why`.
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
    """What else is known of a policy: where it stands, its value, and its latest updates."""

    state: str
    q: float
    updates: int
    confidence: float
    signals: int
    crystallized: bool
    transitions: tuple[UpdateShown, ...]


class Turn(Output):
    """What would change a verdict: so many trials in a row ``for`` or ``against`` it.

    ``more`` is the smallest such number; 0 where nothing more is needed. ``lower`` and ``upper``
    are the Wilson bounds then, where it is these that decide.
    """

    direction: Literal["for", "against"]
    more: int
    becomes: str
    lower: float | None = None
    upper: float | None = None
    sentence: str


class Explanation(Output):
    """Why something is believed: ``str(explanation)`` says it in words.

    ``agent``, ``task_types``, ``error_class``, ``verdict``, ``task`` and ``source`` say what the
    item is about, where it has that. ``read_as`` is the agent with whose eyes it was read. Samples
    and tables are bounded; ``course`` are the dated trials so far, at 40 places at most.
    ``cypher`` is a query that Neo4j Browser shows as a small graph.
    """

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

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """Return the explanation as text: one fact a line, without characters that are not seen."""
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


def _quoted(text: str) -> str:
    return f'"{fenced(text, _SHOWN)}"'


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
    return f"{_of(share.successes, share.trials)} ({bounds})  {_quoted(share.name)}"


def _neighbour(near: Neighbour) -> str:
    line = f"{near.relation}: {_quoted(near.text)}"
    if near.agent is not None:
        line += f" of agent {_quoted(near.agent)}"
    if near.trials:
        line += f", {_of(near.successes, near.trials)}"
    if near.weight is not None:
        word = "similarity" if near.relation == "similar" else "weight"
        line += f", {word} {near.weight:.2f}"
    if near.episodes is not None:
        line += f", {near.episodes:,} episode(s)"
    return line


def _policy(policy: PolicyFacts) -> Iterator[str]:
    yield (
        f"  value: {policy.q:.4g} after {policy.updates:,} update(s), confidence "
        f"{policy.confidence:.2f} after {policy.signals:,} signal(s), "
        f"{'crystallized' if policy.crystallized else 'not crystallized'}"
    )
    if policy.transitions:
        yield "  updates, the latest:"
    for update in policy.transitions:
        then = "the end" if update.terminal else f"state {update.next_state or 'not given'}"
        yield f"    {_date(update.at)}  reward {update.reward:.4g}, then {then}  ({update.seq})"
