"""What files say of strategies: priors, which are no outcomes."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from graphmem.models.fields import Line, Name, Output
from graphmem.text.fencing import fenced

Advice = Literal["do", "avoid"]
MAX_COUNT = 1_000_000_000
"""Most trials that a file may tell of a strategy."""
_Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
_SHOWN = 60


class PriorRecord(Line):
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


class SkillImport(Output):
    """The answer of ``skills.import_``: what the source now says.

    ``skills`` is the number of kinds of tasks, ``priors`` that of strategies. ``replaced`` is how
    many priors of the source gave way. Without a change nothing was written.
    """

    source: str
    files: int
    skills: int
    priors: int
    avoid: int
    """How many of the priors say to avoid the strategy."""
    replaced: int
    changed: bool
