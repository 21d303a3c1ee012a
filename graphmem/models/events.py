"""Events: every change of a policy, strategy or level, numbered in the stream of its agent."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from graphmem.models.changes import Change
from graphmem.models.fields import Output

EventKind = Literal[
    "episode",
    "changed",
    "erased",
    "transition",
    "outcome",
    "set",
    "signal",
    "crystallized",
    "taken_back",
    "linked",
    "strengthened",
    "weakened",
    "unlinked",
    "entry",
    "level",
    "pull",
    "maintained",
]


class Event(Output):
    """One change.

    ``subject`` is the id of the policy, entry or episode (kind ``episode``: the strategies of that
    episode changed). ``agent`` is the name of the agent, or of the level that changed. ``other`` is
    the id of the policy at the other end of an edge. ``value`` of an erasure is the
    number of episodes. ``facts`` holds the fields of a transition: next_state, reward, alpha ...
    """

    id: str
    agent: str
    seq: int
    """Number in the agent's stream, from 1; only erased events leave gaps."""
    kind: EventKind
    subject: str | None
    other: str | None = None
    value: float | None = None
    success: bool | None = None
    recorded_at: datetime
    at: datetime | None = None
    facts: dict[str, JsonValue] = {}  # noqa: RUF012 - pydantic copies it
    changes: tuple[Change, ...] = ()
    """What began to work better or worse, and became certain with this episode; only for who asks
    for events of kind ``changed``, which are such episodes."""
    deliveries: int = 1
    """How often a consumer of the group received it; more than 1 after a re-claim."""


class Pending(Output):
    """Events that a consumer received and has not acknowledged."""

    consumer: str
    agent: str
    count: int
    claimed_at: datetime
    deliveries: int
