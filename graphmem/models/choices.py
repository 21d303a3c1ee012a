"""Choices: the strategy to take now, how likely it was taken, and the other candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from graphmem.models.fields import Output
from graphmem.models.lessons import AntiPattern

Explore = Literal["thompson", "greedy", "ucb", "epsilon"]


class Considered(Output):
    """A candidate, and what is believed of it on the task.

    ``probability`` in (0, 1) is the expected success rate on the task; ``low`` and ``high`` are its
    95 % credible interval. In choosing, that rate counts for ``worth`` (over 0) trials; this leaves
    out how much tasks differ, because trials on other tasks cannot tell that. ``propensity`` in [0,
    1] is the probability with which the way to choose takes this candidate. ``known`` says whether
    the memory has the strategy. ``why`` says in a sentence which outcomes moved these numbers.
    ``warnings`` are anti-patterns against the strategy; they change no number, because the numbers
    include its failures already.
    """

    id: str
    text: str
    known: bool
    probability: float
    low: float
    high: float
    worth: float
    propensity: float
    here_trials: int
    """Trials of the strategy on this task."""
    here_successes: int
    near_trials: int
    """Trials on near tasks."""
    near_successes: int
    type_trials: int
    """Trials on tasks of its type; 0 if it has none."""
    type_successes: int
    trials: int
    """Trials on all tasks, by the agents that the caller may read."""
    successes: int
    why: str
    warnings: tuple[AntiPattern, ...]


class Choice(Considered):
    """The candidate that was taken, and how; the others, the most likely ones first.

    Give it to ``learn`` as the strategy: the episode then keeps with which probability, and in
    which way, the strategy was chosen. Its ``propensity`` is over 0. Nothing is written until then.
    """

    _rows = "others"

    task: str
    explore: Explore
    others: tuple[Considered, ...]

    @property
    def candidates(self) -> dict[str, float]:
        """The propensities of all candidates by text, the taken one first; they sum to 1."""
        return {one.text: one.propensity for one in (self, *self.others)}

    def _frame_rows(self) -> Sequence[Considered]:
        taken = {name: getattr(self, name) for name in Considered.model_fields}
        return (Considered.model_construct(**taken), *self.others)
