"""Predicted outcomes, what they rest on (counts, changes, what files say), and calibration."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from graphmem.models.fields import Input, Name, Output
from graphmem.printable import percent
from graphmem.text import answers
from graphmem.text.fencing import fenced

BaselineName = Literal["global", "task", "strategy", "cell"]
Advice = Literal["do", "avoid"]
_Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
_SHOWN = 60  # most characters of the name of a source
CERTAIN = 0.95
"""The least certainty of a change that is told as one."""


class Change(Output):
    """A change in how often a strategy works.

    ``task`` is None if it changed on all tasks; where a task was asked about, the outcomes may be
    those on tasks like it. The outcomes from ``since`` on are the present run; ``until`` is the
    time of the last outcome before it (None: it has no time). ``certainty`` in [0, 1] is the
    probability that there was a change at all; what an estimate assumes may be uncertain.
    """

    strategy: str
    task: str | None
    since: datetime
    until: datetime | None
    trials_before: int
    successes_before: int
    trials_since: int
    successes_since: int
    certainty: float

    @property
    def certain(self) -> bool:
        """Whether it is told as a change: it is certain to 95 %."""
        return self.certainty >= CERTAIN

    @property
    def trials(self) -> int:
        """All outcomes, before and since."""
        return self.trials_before + self.trials_since

    @property
    def counts_since(self) -> tuple[int, int]:
        """Trials and successes of the present run."""
        return self.trials_since, self.successes_since

    @property
    def said(self) -> str:
        """Its counts and its time (UTC): ``30 of 30 until 30 Sep 2026, 0 of 30 since``.

        One that is not certain has no time: ``0 of the latest 3, 9 of 10 before``.
        """
        before = f"{self.successes_before} of {self.trials_before}"
        if not self.certain:
            latest = f"{self.successes_since} of the latest {self.trials_since}"
            if self.trials_since == 1:
                latest = f"the latest {'worked' if self.successes_since else 'failed'}"
            return f"{latest}, {before} before"
        ended = self.until or self.since
        form = "%H:%M, %-d %b %Y" if ended.date() == self.since.date() else "%-d %b %Y"
        when = f"{'until' if self.until else 'before'} {ended:{form}}"
        return f"{before} {when}, {self.successes_since} of {self.trials_since} since"

    @property
    def sentence(self) -> str:
        """The same with its certainty."""
        return f"{self.said} (certain to {percent(self.certainty)})"


class PriorRecord(Input):
    """What a source says of a strategy on a kind of task: a line of an export."""

    held: Literal["prior"] = "prior"
    source: Name
    kind: Name
    about: Name | None = None
    """The description of the kind of task."""
    text: Name
    verdict: Advice
    trials: _Count = 0
    successes: _Count = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.successes > self.trials:
            raise ValueError(f"has {self.successes} successes in {self.trials} trials")
        return self


class Prior(Output):
    """What an imported file says of a strategy on a kind of task like the one asked about.

    ``trials`` and ``successes`` are the counts of the file (0 and 0: it tells none). ``worth`` is
    what it counts for in the estimate, in trials: with all other files less than 4.
    """

    source: str
    kind: str
    verdict: Advice
    trials: int
    successes: int
    worth: float

    @property
    def rate(self) -> float:
        """How often the strategy works, by the file."""
        return self.successes / self.trials if self.trials else float(self.verdict == "do")

    @property
    def said(self) -> str:
        """The same in words: ``from team-playbook: do (12 of 13 worked)``."""
        counts = f" ({self.successes} of {self.trials} worked)" if self.trials else ""
        return f"from {fenced(self.source, _SHOWN)}: {self.verdict}{counts}"


class Borrowed(Output):
    """The data that a task or strategy without trials borrows from a similar one.

    The similar one's trials and successes are weighted by ``similarity`` in (0, 1].
    """

    id: str
    text: str
    similarity: float
    weight: float
    """What one of its outcomes counts for, from 0 (not near) to 1 (the same text)."""
    trials: int
    successes: int


class TaskBasis(Output):
    """The data of a task: its trials are episodes, with ``uses`` of strategies that ``worked``.

    ``rate`` in (0, 1) is shrunk toward the overall rate. ``known``: the memory has the task.
    """

    text: str
    known: bool
    trials: int
    successes: int
    uses: int
    worked: int
    rate: float
    borrowed: tuple[Borrowed, ...]


class OutcomeCounts(Output):
    """How often a strategy was tried and worked, by the agents that the caller may read."""

    text: str
    trials: int
    """On all tasks; for a rule, the episodes for or against it."""
    successes: int
    type_trials: int = 0
    """On tasks of its type; 0 if it has none."""
    type_successes: int = 0
    near_trials: int = 0
    near_successes: int = 0
    here_trials: int = 0
    here_successes: int = 0


class StrategyBasis(OutcomeCounts):
    """The data of a strategy, over all tasks and (``here_``) on this task.

    ``rate`` is shrunk toward the overall rate. ``prior`` is the probability expected from task and
    strategy, ``probability`` the same updated by the trials on this task. All are in (0, 1). If
    several strategies are given, ``weight`` is the share of this one in the mean of the logits.
    ``change`` is the change that ``probability`` assumes, if any; it may be uncertain.
    """

    known: bool
    rate: float
    prior: float
    near: float
    probability: float
    weight: float
    change: Change | None
    borrowed: tuple[Borrowed, ...]
    priors: tuple[Prior, ...] = ()
    """What imported files say of it on such tasks."""


class PoolingStrengths(Output):
    """How strongly rates are pooled, and where these strengths come from.

    ``task``, ``strategy`` and ``cell`` are the weights of the pooled rate, in trials. If
    ``fitted`` is false, the defaults are in force: there are fewer than 100 trials, or the fit is
    not certainly better. ``gain`` says by how much the strengths fitted to ``trials`` trials lower
    the log loss of the defaults; ``score`` is the same in standard errors.
    """

    task: float
    strategy: float
    cell: float
    fitted: bool
    trials: int
    gain: float
    score: float


class PredictionBasis(Output):
    """The data behind a predicted outcome.

    ``trials`` and ``successes`` count all strategies on all tasks, as far as the agent may read
    them; ``rate`` and ``type_rate``, in (0, 1), are those of the other strategies.
    """

    trials: int
    successes: int
    rate: float
    task_type: str | None
    type_trials: int
    type_successes: int
    type_rate: float
    task: TaskBasis
    strategies: tuple[StrategyBasis, ...]
    strengths: PoolingStrengths
    agents: tuple[str, ...] | None
    """The agents whose episodes count; None: all."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The same in words, a sentence a line."""
        return tuple(answers.basis(self))


class OutcomePrediction(Output):
    """The probability that a strategy works on a task.

    ``probability`` is in (0, 1); ``low`` and ``high`` are its 95 % credible interval (of the rate,
    not of the next outcome). ``trials`` counts the trials of the strategy on this very task (of
    several strategies: the smallest count).
    """

    probability: float
    low: float
    high: float
    trials: int
    basis: PredictionBasis


class CalibrationBin(Output):
    """Episodes, or predictions of the ledger, whose probability is in [low, high).

    In the last bin it is in [low, high].

    ``mean`` is the mean of the probabilities, ``share`` the share of successes; both are None in an
    empty bin. ``lower`` and ``upper`` are the Wilson bounds of the share.
    """

    low: float
    high: float
    count: int
    successes: int
    mean: float | None
    share: float | None
    lower: float
    upper: float


class Baseline(Output):
    """The scores of a simple predictor on the same episodes, as in :class:`Calibration`.

    ``gain`` is by how much the memory's Brier score is lower, ``gain_error`` its standard error
    over tasks (over episodes below 20 tasks); None with less than two episodes.
    """

    name: BaselineName
    brier: float | None
    log_loss: float | None
    auc: float | None
    ece: float | None
    gain: float | None
    gain_error: float | None


class Calibration(Output):
    """How well outcomes were predicted, each from other episodes; None without episodes.

    ``brier`` is the mean squared distance of probability and outcome, from 0 (perfect) to 1;
    ``log_loss`` the mean negative logarithm (in nats) of the probability of the actual outcome;
    ``auc`` the probability that a success got a higher probability than a failure (None if all are
    equal); ``ece`` the mean distance of probability and share over 10 bins, weighted by their
    counts. ``verdict`` says whether the memory predicts better than the best simple rate, and what
    to do if that is better by more than two standard errors.
    """

    verdict: str
    episodes: int
    successes: int
    brier: float | None
    log_loss: float | None
    auc: float | None
    ece: float | None
    bins: tuple[CalibrationBin, ...]
    z: float
    """Normal quantile (z) of the bounds of the bins."""
    baselines: tuple[Baseline, ...]
    strengths: PoolingStrengths
    """The strengths in force at the end, fitted on the whole history."""
