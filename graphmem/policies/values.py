"""Reads policies: the best in a state, values at a time, history."""

from __future__ import annotations

import builtins
import json
import math
import random
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, get_args

from graphmem.errors import ValidationError
from graphmem.graph.arguments import (
    check_choice,
    check_flag,
    check_limit,
    check_text,
    checked_agent,
    checked_items,
    checked_number,
)
from graphmem.graph.graph import Transaction
from graphmem.graph.rates import rates_of
from graphmem.ids import from_millis
from graphmem.models.fields import millis
from graphmem.models.policies import Point, Policy, State
from graphmem.notebook.frames import Listed
from graphmem.policies.base import Action, Named, PolicyBase, policy_of
from graphmem.policies.cycles import clocks
from graphmem.policies.rebuilding import blank, opened, replayed
from graphmem.policies.streams import StateKey
from graphmem.store.port import Row

Explore = Literal["ucb", "epsilon"]
DECAY_RATE, DECAY_STRENGTH = 0.1, 0.5
"""The exponent of the decay of values by days, and how much confidence slows it."""
_OF_EDGES = ("linked", "strengthened", "weakened", "unlinked")
"""Kinds of events that change only an edge, not the policies at its ends."""


class Values(PolicyBase):
    """Reads policies; ``best`` and ``get`` count a read of the returned policy."""

    def get(
        self,
        state: State | Policy,
        action: str | None = None,
        *,
        spec: Any = None,
        agent: str = "default",
    ) -> Policy | None:
        """Return a policy, or None if there is none: this action was never tried or set.

        Args:
            state: features or fingerprint; without ``action`` a policy or its id.
            action: the type of action.
            spec: further identification of the action, as JSON.
            agent: whose policy.
        """
        if action is not None and not isinstance(state, Policy):
            identity = self._key(agent, state, action, spec).id
        else:
            given = state.id if isinstance(state, Policy) else state
            check_text("policy", given)
            identity = str(given)
        rows = self._graph.read("policies.get", id=identity)
        if not rows:
            return None
        self._reads.note("Policy", identity)
        return policy_of(rows[0])

    def best(
        self,
        state: State,
        *,
        agent: str = "default",
        actions: Sequence[Action] | None = None,
        explore: Explore | None = None,
        epsilon: float = 0.1,
        width: float = 1.0,
        at: datetime | None = None,
        stored: bool = False,
        rng: random.Random | None = None,
    ) -> Policy | None:
        """Return the best known action in a state, or None if there is none.

        Actions are ranked by their values now (:meth:`list`): decayed, with the bonuses of their
        cycles. The time that this takes does not depend on other states.

        Args:
            state: features or fingerprint.
            agent: whose policies.
            actions: the possible actions; untried ones then count with a value of 0, and all other
                actions are left out.
            explore: "ucb" adds ``width * sqrt(ln(all tries) / own tries)`` (UCB1; Auer,
                Cesa-Bianchi and Fischer 2002), an untried action comes first; "epsilon" takes a
                random action with probability ``epsilon``.
            epsilon: in [0, 1].
            width: factor of the exploration bonus, from 0.
            at: rank by the values at this time, with time zone; default: now.
            stored: rank by the stored values, which neither decay nor have cycles.
            rng: random number generator; default: Python's.

        Raises:
            ValidationError: an argument is wrong.
        """
        if explore is not None:
            check_choice("explore", explore, get_args(Explore))
        if rng is not None and not isinstance(rng, random.Random):
            raise ValidationError("rng", rng, "is not a random.Random", "give one, or None")
        place = StateKey.of(self._graph.ns, state)
        name = Named(agent=agent).agent
        when = self._when(at, stored)
        share = checked_number("epsilon", epsilon, 0, 1)
        wide = checked_number("width", width, 0)
        chance = rng or random
        candidates = self._candidates(place, name, actions, when)
        if not candidates:
            return None
        if explore == "epsilon" and chance.random() < share:
            best = chance.choice(candidates)
        elif explore == "ucb":
            best = _upper(candidates, wide)
        else:
            best = max(candidates, key=lambda policy: policy.score)
        self._reads.note("Policy", best.id)
        return best

    def list(
        self,
        state: State | None = None,
        *,
        agent: str | None = None,
        at: datetime | None = None,
        stored: bool = False,
        pressure: float = 0.0,
        limit: int = 1_000,
    ) -> Listed[Policy]:
        """Return the policies in a state, or of all states, best first.

        ``score`` is the value at a time: it decays with the days since its last update, more slowly
        if confidence is high. The bonuses of its cycles (``memory.cycles``) and of ``pressure``
        (for each day of waiting) are added. Stored values do not change. Without a state the scores
        are the stored values.

        Args:
            state: features or fingerprint; default: all states.
            agent: whose policies; default: all agents'.
            at: the time, with time zone; default: now.
            stored: the scores are the stored values.
            pressure: the bonus for each day since the last update, any number.
            limit: most policies to return.

        Raises:
            ValidationError: an argument is wrong, or there is a time and no state.
        """
        name = checked_agent(agent)
        when = self._when(at, stored)
        waiting = checked_number("pressure", pressure)
        check_limit(limit)
        if state is not None:
            place = StateKey.of(self._graph.ns, state)
            found = self._read(place, name, when, pressure=waiting)
            return Listed(found[:limit])
        if at is not None or pressure:
            raise ValidationError("state", None, "is missing", "values at a time are of one state")
        rows = self._graph.read("policies.list", agent=name, limit=limit)
        return Listed([policy_of(row) for row in rows])

    def seen(
        self,
        state: State,
        action: str | None = None,
        *,
        spec: Any = None,
        agent: str = "default",
    ) -> bool:
        """Return whether an agent tried an action in a state (without ``action``: any action).

        The answer comes from an index of the graph, so it is always exact. The procedure
        ``policies.seen`` answers for many ids of policies at once.
        """
        if action is not None:
            ids = [self._key(agent, state, action, spec).id]
            return bool(self._graph.read("policies.seen", ids=ids))
        return any(policy.updates + policy.trials for policy in self.list(state, agent=agent))

    def history(self, policies: Policy | str | Iterable[Policy | str]) -> Listed[Point]:
        """Return the state of one or several policies after every event, in order.

        All events of an agent's stream are replayed, because a value depends on the values of other
        states; so the time grows with the stream. Episodes are events of the policies that they
        took; events of edges are left out. ``at`` is the time of the event, else the time of
        recording. Erased events and unrecorded updates are missing.

        Args:
            policies: policies or their ids.

        Raises:
            NotFoundError: a policy is not there.
        """
        if isinstance(policies, Policy | str):
            policies = [policies]
        agents: dict[str, builtins.list[str]] = {}
        for known in map(self._policy, checked_items("policies", policies)):
            agents.setdefault(known.agent, []).append(known.id)
        points: builtins.list[Point] = []
        for agent, ids in agents.items():
            points += self._graph.view(lambda tx, agent=agent, ids=ids: _points(tx, agent, ids))  # type: ignore[misc]
        return Listed(points)

    def _when(self, at: datetime | None, stored: bool) -> int | None:
        """Return the time of the values to rank by, or None for the stored values."""
        check_flag("stored", stored)
        if stored and at is not None:
            raise ValidationError("at", at, "does not go with stored=True", "leave out one")
        if stored:
            return None
        moment = millis(Named(at=at).at)
        return self._graph.now() if moment is None else moment

    def _read(
        self, place: StateKey, agent: str | None, when: int | None, **more: Any
    ) -> builtins.list[Policy]:
        """Return policies with their values at a time; only cycles need clocks."""
        given = {
            "state_id": place.id,
            "agent": agent,
            "at": when,
            "rate": DECAY_RATE,
            "strength": DECAY_STRENGTH,
            **more,
        }
        rows = self._graph.read("policies.values", **given)
        zones = {zone for row in rows for zone in row["timezones"]}
        if zones and (moment := from_millis(when)):
            given["clocks"] = clocks(moment, sorted(zones))
            rows = self._graph.read("policies.values", **given)
        return [policy_of(row) for row in rows]

    def _candidates(
        self,
        place: StateKey,
        agent: str,
        actions: Sequence[Action] | None,
        when: int | None,
    ) -> builtins.list[Policy]:
        """Return the possible actions in a state, tried ones first, best first."""
        known = self._read(place, agent, when, only_active=True)
        if actions is None:
            return known
        keys = {
            key.id: key
            for key in (
                self._key(agent, place.fingerprint, action)
                for action in checked_items("actions", actions)
            )
        }
        tried = {policy.id: policy for policy in known}
        ordered = [tried[key] for key in keys if key in tried]
        ordered.sort(key=lambda policy: -policy.score)  # of equal ones the first named
        untried = [
            Policy(
                id=key.id,
                agent=key.agent,
                state=key.state.fingerprint,
                action=key.action,
                spec=json.loads(key.spec) if key.spec else None,
            )
            for key in keys.values()
            if key.id not in tried
        ]
        return [*ordered, *untried]


def _upper(policies: Sequence[Policy], width: float) -> Policy:
    """Return the policy with the highest upper confidence bound, which is its score."""
    tries = {policy.id: policy.updates + policy.trials for policy in policies}
    for policy in policies:
        if not tries[policy.id]:
            return policy
    total = math.log(sum(tries.values()))
    bounds = [policy.score + width * math.sqrt(total / tries[policy.id]) for policy in policies]
    best = max(range(len(policies)), key=bounds.__getitem__)
    return policies[best].model_copy(update={"score": bounds[best]})


def _points(tx: Transaction, agent: str, ids: Sequence[str]) -> list[Point]:
    """Return the points of some policies of an agent."""
    stream = opened(tx, agent)
    rows: list[Row] = []
    if stream is not None:
        table = blank(tx.run("maintenance.stored_policies", stream=stream["stream"]))
        for event, error in replayed(tx, stream, table):
            about = event["policies"] if event["kind"] == "episode" else (event["subject"],)
            for identity in ids:
                if identity not in about or event["kind"] in _OF_EDGES:
                    continue
                if (entry := table.entries.get(identity)) is not None:
                    at = event["created_at"] if event["at"] is None else event["at"]
                    place = {"policy": identity, "at": from_millis(at), "td_error": error}
                    rows.append(
                        {**entry.row(), "seq": event["seq"], "kind": event["kind"], **place}
                    )
    rates = rates_of(tx, ((row["trials"], row["successes"]) for row in rows))
    return [Point(**{**rates[row["trials"], row["successes"]], **row}) for row in rows]
