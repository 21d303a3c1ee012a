"""Crystallizing: actions that worked often enough become policies, until they no longer do.

Every episode and outcome updates the counts in its own transaction. So the result does not depend
on their order, on batches, or on the number of recording processes.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from graphmem.errors import ValidationError
from graphmem.graph.arguments import checked_agent
from graphmem.graph.graph import Transaction
from graphmem.graph.rates import rates_of
from graphmem.models.policies import Candidate, CrystallizeReport
from graphmem.policies.base import PolicyBase
from graphmem.policies.streams import Draft, apply, lock
from graphmem.store.port import Row

BELOW_SHOWN = 20
MAX_EVENTS = 1_000_000_000
_WROTE = {"created": "crystallized", "updated": "crystallized", "taken_back": "taken_back"}


class Thresholds(NamedTuple):
    """The conditions for crystallizing: enough trials, a Wilson lower bound over the threshold."""

    min_events: int
    threshold: float
    z: float


class Crystallizing(PolicyBase):
    """Crystallizes actions that worked often enough into policies."""

    def crystallize(
        self,
        agent: str | None = None,
        *,
        min_events: int | None = None,
        threshold: float | None = None,
        z: float | None = None,
    ) -> CrystallizeReport:
        """Crystallize actions that worked often enough; take back those that no longer do.

        Trials are episodes with steps that have a state (once for every action in a state),
        outcomes given to :meth:`observe`, and updates with ``success``. A policy without updates
        and without a set value gets its lower bound as its value.

        Args:
            agent: only this agent; default: all agents, each separately.
            min_events: required trials; default: the setting (3).
            threshold: the Wilson lower bound must exceed this; default: the setting (0.6).
            z: normal quantile of the bound; default: the setting (1.96). At 1.96, 3 successes in 3
                trials have a lower bound of .438; the report has the number of trials that a
                threshold needs.

        Raises:
            ValidationError: a threshold is out of range.
        """
        settings = self._graph.settings
        limits = _check(
            settings.min_events if min_events is None else min_events,
            settings.crystallize_above if threshold is None else threshold,
            settings.z if z is None else z,
        )
        agent = checked_agent(agent)
        rows = self._graph.read("events.streams", agent=agent)
        crystallized: list[Row] = []
        if rows:
            streams = [row["stream"] for row in rows]
            crystallized = self._graph.transact(
                lambda tx: self._crystallized(tx, streams, agent, limits)
            )
        by_change: dict[str, list[Candidate]] = {name: [] for name in (*_WROTE, "kept", "below")}
        counts = {(0, 0), *((row["trials"], row["successes"]) for row in crystallized)}
        more = rates_of(self._graph, counts, "rates.more", **limits._asdict())
        for row in crystallized:
            needed = more[row["trials"], row["successes"]]["more"]
            by_change[row["change"]].append(_candidate(row, limits, needed))
        return CrystallizeReport(
            created=tuple(by_change["created"]),
            updated=tuple(by_change["updated"]),
            taken_back=tuple(by_change["taken_back"]),
            kept=len(by_change["kept"]),
            below=tuple(by_change["below"][:BELOW_SHOWN]),
            below_count=len(by_change["below"]),
            min_events=limits.min_events,
            threshold=limits.threshold,
            z=limits.z,
            needed=more[0, 0]["more"],
        )

    def _crystallized(
        self, tx: Transaction, streams: list[str], agent: str | None, limits: Thresholds
    ) -> list[Row]:
        locked = lock(tx, streams)
        rows = tx.run(
            "policies.crystallizing",
            agent=agent,
            min_events=limits.min_events,
            threshold=limits.threshold,
            z_score=limits.z,
        )
        rows = [row for row in rows if row["stream"] in locked]  # others appeared meanwhile
        drafts: dict[str, Draft] = {}
        for row in rows:
            if row["change"] in _WROTE:
                draft = drafts.setdefault(row["agent"], Draft(row["agent"]))
                fact = {"subject": row["id"], "value": row["lower"]}
                draft.events.append((_WROTE[row["change"]], fact))
        if drafts:
            apply(tx, drafts.values())
        return rows


def _check(min_events: int, threshold: float, z: float) -> Thresholds:
    if type(min_events) is not int or not 1 <= min_events <= MAX_EVENTS:
        raise ValidationError("min_events", min_events, f"must be from 1 to {MAX_EVENTS:,}")
    if not 0 <= _number("threshold", threshold) < 1:
        raise ValidationError("threshold", threshold, "must be in [0, 1)")
    if not 0 < _number("z", z) <= 10:
        raise ValidationError("z", z, "must be over 0 and at most 10")
    return Thresholds(min_events, float(threshold), float(z))


def _number(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValidationError(name, value, "must be a number")
    return value


def _candidate(row: Row, limits: Thresholds, more: int) -> Candidate:
    return Candidate(
        id=row["id"],
        agent=row["agent"],
        state=row["state"],
        action=row["action_type"],
        spec=json.loads(row["action_spec"]) if row["action_spec"] else None,
        trials=row["trials"],
        successes=row["successes"],
        lower=row["lower"],
        missing=max(0.0, limits.threshold - row["lower"]),
        more=more,
    )
