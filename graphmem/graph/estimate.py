"""Success rates, and the estimate of one strategy on a task: what its outcomes mean as advice.

The formulas of rates are procedures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

from graphmem.graph.graph import Reader
from graphmem.models.forecasts import Change, Prior
from graphmem.numerics import wilson_lower
from graphmem.store.port import Row
from graphmem.text.fencing import fenced

Counts = tuple[int, int]  # trials and successes

PRIOR = (1.0, 1.0)  # successes and failures of the Beta prior of a mean (Laplace)
ESTABLISHED_ABOVE, REFUTED_BELOW = 0.6, 0.4
"""What is established has its lower bound above, what is refuted its upper bound below.

``cypher/formulas.cypher`` has the same defaults.
"""
LATEST = 32  # how many latest outcomes are kept, in which a change can be found
HEURISTIC_ABOVE = 0.5  # a heuristic, or an anti-pattern, is shown while its posterior mean is above

Conclusion = Literal[
    "likely",
    "about as often as not",
    "rarely",
    "too little known",
    "stopped working",
    "works again",
]
"""What outcomes tell of a strategy on a task."""
STOPPED: Final = "stopped working"
STANDARD_ERRORS = 1.0  # the normal quantile of the bounds of an estimate, as recall uses them
LIKELY, RARELY = 0.6, 0.4  # what is expected from the one on is likely, under the other one rare
NEARLY_ALL = 0.9  # a tool that this share of runs use tells runs apart by little
WIDE = 0.45  # with a greater distance of the bounds, too little is known of what has few outcomes
ENOUGH = 5  # so many outcomes are known well; on the task itself they leave little to say to others
MOVED = 0.2  # where an estimate is so far from a rate, something else moved it
PRIORS = 2  # so many files are named that say something of a strategy
NAMED = 60  # characters of the text of another task or strategy

Pair = tuple[float, float]  # trials and successes, or what they are worth
NOTHING: Pair = (0.0, 0.0)


class NearCell(NamedTuple):
    """The outcomes of a strategy on a near task."""

    trials: int
    successes: int
    weight: float
    """What one outcome counts for on the task that is asked about, under 1."""
    latest: Sequence[int] = ()
    """Time * 2 + success, ascending."""


@dataclass(slots=True)
class Estimate:
    """What is known of one strategy on a task, and what to expect of it.

    A rate is the one before it, moved by outcomes.
    """

    id: str | None = None
    """Id of the strategy, or of what it is merged into; None if the memory does not have it."""
    text: str = ""
    texts: tuple[str, ...] = ()
    """The texts of all strategies that count as this one."""
    lenders: list[Row] = field(default_factory=list)
    """Similar strategies, the nearest first: {id, text, similarity, weight, trials, successes}."""
    priors: Sequence[Prior] = ()
    """What imported files say of it on such tasks, the nearest first."""
    trials: int = 0
    successes: int = 0
    effective: Pair = NOTHING
    """What its outcomes of all tasks are worth."""
    type_trials: int = 0
    type_successes: int = 0
    everything: Pair = NOTHING
    """Its part of what all outcomes count elsewhere."""
    typed: Pair = NOTHING
    """Its part of what those on the type of the task count."""
    here_trials: int = 0
    here_successes: int = 0
    here: Pair = NOTHING
    """Its part of what those on the task count."""
    near_trials: int = 0
    near_successes: int = 0
    around_trials: int = 0
    """On near tasks and less similar ones."""
    around: Pair = NOTHING
    """What all these outcomes are worth on this task."""
    cells: list[NearCell] = field(default_factory=list)
    """These outcomes, by task."""
    gone: Pair = NOTHING
    """What of :attr:`effective` counts as near."""
    lent: Pair = NOTHING
    """What similar strategies lend."""
    latest: Sequence[int] = ()
    """Its latest outcomes on all tasks: time * 2 + success, ascending."""
    here_latest: Sequence[int] = ()
    """The same on the task."""
    strategy_rate: float = 0.5
    prior: float = 0.5
    near: float = 0.5
    probability: float = 0.5
    """The estimate."""
    concentration: float = 0.0
    """How many trials on this task the estimate is worth; it makes the interval."""
    worth: float = 0.0
    """The same worth, with tasks that look alike counted as one."""
    lower: float = 0.0
    """The Wilson bound of the estimate at :data:`STANDARD_ERRORS`, with that worth."""
    task_type: str | None = None
    change: Change | None = None
    """The change that it assumes: on the task, on tasks like it, or on all tasks."""
    nearest: Row | None = None
    """The nearest task where it was tried, with its outcomes: {id, text, trials, successes,
    similarity, weight of one outcome}. If these are few, those on ``tasks`` about as near count
    with them; ``others`` tells whether those on less similar tasks are worth half a trial or more.
    """
    usual: bool = False
    """Whether it worked at times, and no less often than others on the type, else on all tasks.

    What every run uses fails as often as the runs do, with the same errors, and is not their cause.
    """
    common: bool = False
    """Whether it is a tool (or tools alone) that nearly every run on the task and near ones uses,
    and works no better and no worse than the others, at two standard errors: then it is no advice.
    """

    @property
    def weight(self) -> float:
        """Its weight among several strategies that are used together."""
        return weight_of(self.trials)

    @property
    def seen(self) -> tuple[int, int]:
        """Its successes and trials on the task and near ones, or on the type if there are more."""
        won = self.here_successes + self.near_successes
        near = won, self.here_trials + self.near_trials
        return max(near, (self.type_successes, self.type_trials), key=itemgetter(1))

    @property
    def nearby(self) -> bool:
        """Whether it was tried on the task or on near ones."""
        return self.here_trials + self.near_trials > 0

    @property
    def conclusion(self) -> Conclusion:
        """What its outcomes tell of it now."""
        seen = self.seen[1]
        change = self.change if self.change and self.change.certain else None
        before = change.successes_before / change.trials_before if change else HEURISTIC_ABOVE
        if self.probability < RARELY and before > HEURISTIC_ABOVE:
            return STOPPED
        if seen < ENOUGH:
            p, n = self.probability, min(self.worth, seen + 1.0)
            lower, other = (wilson_lower(rate, n, STANDARD_ERRORS) for rate in (p, 1.0 - p))
            if not seen or 1.0 - other - lower > WIDE:
                return "too little known"
        if self.probability < RARELY:
            return "rarely"
        if self.probability < LIKELY:
            return "about as often as not"
        return "works again" if change and 0.0 < before <= HEURISTIC_ABOVE else "likely"

    @property
    def evidence(self) -> str:
        """The counts that moved it, and where they are from: ``26 of 30 here``."""
        near, here = self.nearest, self.here_trials
        alike = _quoted(near["text"]) if near else ""
        if near and near["tasks"] > 1:
            alike = f"on tasks like this one, nearest {alike}"
        elif near:
            alike = f"on {alike}, like this one"
        if self.change:
            where = alike if near and near["trials"] == self.trials else "on all tasks"
            if self.change.task:
                where = "on tasks like this one"
            tells = self.change.said + ("" if here == self.change.trials else f", {where}")
            if self.change.certain or self.change.trials == self.trials:
                return tells
            own = f"; {self.here_successes} of {here} here" if 0 < here < self.change.trials else ""
            return f"{tells}{own}; {self.successes} of {self.trials} in all"
        priors = [prior.said for prior in self.priors[:PRIORS]]
        if not self.trials and priors:
            return "; ".join(["no own outcomes yet", *priors])
        if not self.trials:
            lent = [row for row in self.lenders if row["weight"]]
            if not lent:
                return "never tried"
            won, trials = (sum(row[name] for row in lent) for name in ("successes", "trials"))
            others = " and others" * (len(lent) > 1)
            return f"never tried; {won} of {trials} by {_quoted(lent[0]['text'])}{others}, like it"
        won, rest = self.near_successes, self.near_trials
        few = here < ENOUGH or abs(self.here_successes / here - self.probability) > MOVED
        parts = [(self.here_successes, here, "here", here)]
        if near:
            parts.append((near["successes"], near["trials"], alike, few))
            won, rest = won - near["successes"], rest - near["trials"]
        moves = few and rest and not (near and not near["others"])
        parts.append((won, rest, "on less similar tasks", moves))
        told = sum([trials for _, trials, _, tells in parts if tells])
        typed = few and self.type_trials > here + self.near_trials
        parts.append((self.type_successes, self.type_trials, f"on {self.task_type} tasks", typed))
        told = self.type_trials if typed else told
        where = "in all" if told else "on other tasks, none like this one"
        parts.append((self.successes, self.trials, where, few and self.trials > told))
        said = [f"{won} of {trials} {where}" for won, trials, where, tells in parts if tells]
        return "; ".join([*said, *(priors if few else ())])

    @property
    def said(self) -> str:
        """The conclusion and the counts that it rests on: ``likely: 26 of 30 here``."""
        return f"{self.conclusion}: {self.evidence}"

    @property
    def order(self) -> tuple[float | str, ...]:
        """Sorts estimates by what is expected (one half if too little is known), then certainty."""
        known = self.conclusion != "too little known"
        return -round(self.probability, 2) if known else -0.5, -self.lower, self.text


def _quoted(text: str) -> str:
    return f"'{fenced(text, NAMED)}'"


def is_common(one: Estimate, everything: Mapping[str, int], runs: int) -> bool:
    """Return whether nearly all runs used a tool, and it is no better and no worse than others."""
    if not one.trials or one.here_trials + one.near_trials < NEARLY_ALL * runs:
        return False
    n, k, others, won = _compare(one, everything)
    if not others:
        return True
    rate = mean_of(k + won, n + others)
    error = sqrt(rate * (1.0 - rate) * (1.0 / n + 1.0 / others))
    return abs(k / n - won / others) <= 2.0 * error


def is_usual(one: Estimate, everything: Mapping[str, int]) -> bool:
    """Return whether a strategy worked at times, and no less often than the others there."""
    n, k, others, won = _compare(one, everything)
    return others > 0 and k > 0 and k * others >= won * n


def _compare(one: Estimate, everything: Mapping[str, int]) -> tuple[int, int, int, int]:
    """Return its trials and successes, and those of all others: on the type, else on all tasks."""
    if one.type_trials:
        n, k, of = one.type_trials, one.type_successes, "type_"
    else:
        n, k, of = one.trials, one.successes, ""
    return n, k, everything[f"{of}trials"] - n, everything[f"{of}successes"] - k


def weight_of(trials: int) -> float:
    """Return the weight of what was tried so often among several that are used together."""
    return 1.0 / (trials + 1) ** 2


def mean_of(successes: float, trials: float) -> float:
    """Return the posterior mean of a rate."""
    return (successes + PRIOR[0]) / (trials + sum(PRIOR))


def rates_of(
    reader: Reader, counts: Iterable[Counts], name: str = "rates.weigh", **params: Any
) -> dict[Counts, Row]:
    """Return the rows of ``rates.weigh`` (mean, bounds, status) or ``rates.more`` by counts."""
    rows = [{"trials": trials, "successes": won} for trials, won in sorted(set(counts))]
    rated = reader.read(name, rows=rows, **params) if rows else []
    return {(row.pop("trials"), row.pop("successes")): row for row in rated}


def follow(
    reader: Reader,
    rows: Sequence[Row],
    key: str,
    rate: str,
    changes: Mapping[str, Change],
    count: Callable[[Row, Change], Counts] = lambda _, made: made.counts_since,
) -> list[Row]:
    """Return rows of strategies (ids in ``key``) as they hold now, the best first.

    Where a strategy changed, the bounds, the mean (in ``rate``) and the status are those of its
    present run, whose outcomes ``count`` counts; ``change`` tells the rest.
    """
    found = [(row, changes.get(row[key])) for row in rows]
    since = [count(row, made) if made else None for row, made in found]
    rated = rates_of(reader, filter(None, since))
    told: list[Row] = []
    for (row, made), counts in zip(found, since, strict=True):
        now: Row = {"change": made}
        if counts:
            rates = rated[counts]
            now |= {name: rates[name] for name in ("lower", "upper", "status")}
            now[rate] = rates["mean"]
        told.append(row | now)
    return sorted(told, key=lambda row: (-row["lower"], -row[rate], row["id"]))
