"""Changes: when a strategy began to work better or worse."""

from __future__ import annotations

from datetime import datetime

from graphmem.models.fields import Output
from graphmem.text import answers


class Change(Output):
    """A change in how often a strategy works.

    ``task`` is None if it changed on all tasks. The outcomes from ``since`` on are the present run;
    ``until`` is the time of the last outcome before it (None: it has no time). ``certainty`` in [0,
    1] is the probability that there was a change at all.
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
    def sentence(self) -> str:
        """The same in words."""
        return answers.change(self)
