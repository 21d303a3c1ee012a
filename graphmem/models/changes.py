"""Changes: when a strategy began to work better or worse."""

from __future__ import annotations

from datetime import datetime

from graphmem.models.fields import Output
from graphmem.printable import percent


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
    def said(self) -> str:
        """Its counts and its time (UTC): ``30 of 30 until 30 Sep 2026, 0 of 30 since``."""
        ended = self.until or self.since
        form = "%H:%M, %-d %b %Y" if ended.date() == self.since.date() else "%-d %b %Y"
        when = f"{'until' if self.until else 'before'} {ended:{form}}"
        before = f"{self.successes_before} of {self.trials_before} {when}"
        return f"{before}, {self.successes_since} of {self.trials_since} since"

    @property
    def sentence(self) -> str:
        """The same with its certainty."""
        return f"{self.said} (certain to {percent(self.certainty)})"
