"""Crystallizing: actions that worked often enough become policies, until they no longer do.

Every episode and outcome updates the counts in its own transaction. So the result does not depend
on their order, on batches, or on the number of recording processes.
"""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import Field

from graphmem.graph.arguments import checked_agent
from graphmem.graph.graph import Transaction
from graphmem.graph.rates import rates_of
from graphmem.models.fields import Input
from graphmem.models.policies import Candidate, CrystallizeReport
from graphmem.policies.base import PolicyBase
from graphmem.policies.streams import Change, apply, lock
from graphmem.store.port import Row

BELOW_SHOWN = 20
_EVENTS = {"created": "crystallized", "updated": "crystallized", "taken_back": "taken_back"}


class Thresholds(Input):
    """The conditions for crystallizing: enough trials, a Wilson lower bound over the threshold."""

    min_events: Annotated[int, Field(ge=1, le=1_000_000_000)]
    threshold: Annotated[float, Field(ge=0, lt=1)]
    z: Annotated[float, Field(gt=0, le=10)]


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
        limits = Thresholds(
            min_events=settings.min_events if min_events is None else min_events,
            threshold=settings.crystallize_above if threshold is None else threshold,
            z=settings.z if z is None else z,
        )
        agent = checked_agent(agent)
        rows = self._graph.transact(lambda tx: _crystallized(tx, agent, limits))
        counts = {(0, 0), *((row["trials"], row["successes"]) for row in rows)}
        more = rates_of(self._graph, counts, "rates.more", **limits.model_dump())
        by_change: dict[str, list[Candidate]] = {name: [] for name in (*_EVENTS, "kept", "below")}
        for row in rows:
            candidate = Candidate(
                **row,
                action=row["action_type"],
                spec=json.loads(row["action_spec"]) if row["action_spec"] else None,
                missing=max(0.0, limits.threshold - row["lower"]),
                more=more[row["trials"], row["successes"]]["more"],
            )
            by_change[row["change"]].append(candidate)
        below = by_change["below"]
        return CrystallizeReport(
            **{name: tuple(by_change[name]) for name in _EVENTS},
            kept=len(by_change["kept"]),
            below=tuple(below[:BELOW_SHOWN]),
            below_count=len(below),
            **limits.model_dump(),
            needed=more[0, 0]["more"],
        )


def _crystallized(tx: Transaction, agent: str | None, limits: Thresholds) -> list[Row]:
    """Write what changes; return all tried policies."""
    streams = [row["stream"] for row in tx.run("events.streams", agent=agent)]
    if not streams:
        return []
    locked = lock(tx, streams)
    rows = tx.run(
        "policies.crystallizing",
        agent=agent,
        min_events=limits.min_events,
        threshold=limits.threshold,
        z_score=limits.z,
    )
    rows = [row for row in rows if row["stream"] in locked]  # others appeared meanwhile
    changes = [
        Change(row["agent"], _EVENTS[row["change"]], {"subject": row["id"], "value": row["lower"]})
        for row in rows
        if row["change"] in _EVENTS
    ]
    if changes:
        apply(tx, changes)
    return rows
