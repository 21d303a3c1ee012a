"""The estimate of one strategy on a task, and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter

from graphmem.graph.telling import Conclusion, conclude, describe_evidence
from graphmem.models.forecasts import Change, Prior
from graphmem.store.port import Row


@dataclass(frozen=True, slots=True)
class Estimate:
    """What to expect of one strategy on a task; a rate is the one before it, moved by outcomes."""

    id: str | None
    """Id of the strategy, or of what it is merged into; None if the memory does not have it."""
    text: str
    texts: tuple[str, ...]
    """The texts of all strategies that count as this one."""
    trials: int
    successes: int
    type_trials: int
    type_successes: int
    near_trials: int
    near_successes: int
    here_trials: int
    here_successes: int
    lenders: tuple[Row, ...]
    """Similar strategies that lend their outcomes, the most similar first."""
    priors: tuple[Prior, ...]
    """What imported files say of it on such tasks, the nearest first."""
    strategy_rate: float
    prior: float
    near: float
    probability: float
    """The estimate."""
    concentration: float
    """How many trials on this task the estimate is worth; it makes the interval."""
    worth: float
    """The same worth, with tasks that look alike counted as one."""
    lower: float
    """The Wilson bound of the estimate at :data:`STANDARD_ERRORS`, with that worth."""
    task_type: str | None
    change: Change | None
    """The change that it assumes: on the task, else on all tasks."""
    nearest: Row | None
    """The nearest task where it was tried, with its outcomes: a row of :attr:`Estimates.near`;
    ``others`` tells whether those on less similar tasks are worth half a trial or more."""
    weight: float
    """Its weight among several strategies that are used together."""
    usual: bool
    """Whether it worked at times, and no less often than others on the type, else on all tasks.

    What every run uses fails as often as the runs do, with the same errors, and is not their cause.
    """
    common: bool
    """Whether it is a tool (or tools alone) that nearly every run on the task and near ones uses,
    and works no better and no worse than the others, at two standard errors: then it is no advice.
    """

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
        return conclude(self)

    @property
    def evidence(self) -> str:
        """The counts that moved it, and where they are from: ``26 of 30 here``."""
        return describe_evidence(self)

    @property
    def said(self) -> str:
        """The conclusion and the counts that it rests on: ``likely: 26 of 30 here``."""
        return f"{self.conclusion}: {self.evidence}"

    @property
    def order(self) -> tuple[float | str, ...]:
        """Sorts estimates by what is expected (one half if too little is known), then certainty."""
        known = self.conclusion != "too little known"
        return -round(self.probability, 2) if known else -0.5, -self.lower, self.text
