"""Reads policies: the best in a state, values at a time, history."""

from __future__ import annotations

import json
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
    checked_items,
)
from graphmem.graph.graph import Transaction
from graphmem.graph.rates import PRIOR, rates_of
from graphmem.ids import from_millis, to_millis
from graphmem.models.fields import Input, Moment
from graphmem.models.policies import Point, Policy, State
from graphmem.notebook.frames import Listed
from graphmem.policies import replay
from graphmem.policies.base import Action, PolicyBase, finite, policy_of, positive, split, unit
from graphmem.policies.cycles import clocks
from graphmem.policies.rebuilding import blank, opened, replayed
from graphmem.policies.streams import PolicyKey, StateKey
from graphmem.store.port import Row

Explore = Literal["ucb", "epsilon"]
DECAY_RATE, DECAY_STRENGTH = 0.1, 0.5
"""The exponent of the decay of values by days, and how much confidence slows it."""
_OF_EDGES = ("linked", "strengthened", "weakened", "unlinked")
"""Kinds of events that change only an edge, not the policies at its ends."""


class _Dated(Input):
    at: Moment | None = None


class Asking(PolicyBase):
    """Reads policies; ``best`` and ``get`` count a read of the returned policy."""

    def get(
        self, state: State, action: str, *, spec: Any = None, agent: str = "default"
    ) -> Policy | None:
        """Return a policy, or None if this action was never tried or set."""
        key = self._key(agent, state, action, spec)
        rows = self._graph.read("policies.get", id=key.id)
        if not rows:
            return None
        self._reads.note("Policy", key.id)
        return policy_of(rows[0])

    def by_id(self, policy_id: str) -> Policy:
        """Return a policy by its id.

        Raises:
            NotFoundError: there is none.
        """
        check_text("policy_id", policy_id)
        return self._get(policy_id)

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

        Actions are ranked by their values now (:meth:`values`): decayed, with the bonuses of their
        cycles. The time that this takes does not depend on other states.

        Args:
            state: features or fingerprint.
            agent: whose policies.
            actions: the possible actions; untried ones then count with a value of 0, and all other
                actions are left out.
            explore: "ucb" adds ``width * sqrt(ln(all tries) / own tries)``; "epsilon" takes a
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
        agent = self._agent(agent)
        when = self._when(at, stored)
        chance = rng or random
        best: Policy | None
        if explore == "ucb":
            best = self._explored(place, agent, actions, when, positive("width", width))
        elif explore == "epsilon" and chance.random() < unit("epsilon", epsilon):
            known = self._candidates(place, agent, actions, when)
            best = chance.choice(known) if known else None
        elif actions is not None:
            known = self._candidates(place, agent, actions, when)
            best = max(known, key=lambda policy: policy.score) if known else None
        else:
            best = next(iter(self._valued("policies.best", place, agent, when)), None)
        if best is not None:
            self._reads.note("Policy", best.id)
        return best

    def _when(self, at: datetime | None, stored: bool) -> int | None:
        """Return the time of the values to rank by, or None for the stored values."""
        check_flag("stored", stored)
        if stored and at is not None:
            raise ValidationError("at", at, "does not go with stored=True", "leave out one")
        if stored:
            return None
        moment = _Dated(at=at).at
        return self._graph.now() if moment is None else to_millis(moment)

    def _valued(
        self, name: str, place: StateKey, agent: str | None, when: int | None, **more: Any
    ) -> list[Policy]:
        """Return policies with their values at a time; only where there are cycles read clocks."""
        given = {
            "state_id": place.id,
            "agent": agent,
            "at": when,
            "rate": DECAY_RATE,
            "strength": DECAY_STRENGTH,
            **more,
        }
        rows = self._graph.read(name, **given)
        moment = from_millis(when)
        if moment is not None and any(row["cyclic"] for row in rows):
            zones = self._graph.read("cycles.timezones_in", state_id=place.id)
            given["clocks"] = clocks(moment, [row["timezone"] for row in zones])
            if name == "policies.best":
                name, given["only_active"] = "policies.values", True
            rows = self._graph.read(name, **given)
        return [policy_of(row) for row in rows]

    def _explored(
        self,
        place: StateKey,
        agent: str,
        actions: Sequence[Action] | None,
        when: int | None,
        width: float,
    ) -> Policy | None:
        """Return the action with the highest bound; an untried one comes first."""
        ids = None
        if actions is not None:
            known = self._candidates(place, agent, actions, when)
            for policy in known:
                if policy.updates + policy.trials == 0:
                    return policy
            ids = [policy.id for policy in known]
        found = self._valued("policies.explore", place, agent, when, width=width, ids=ids)
        return next(iter(found), None)

    def _candidates(
        self,
        place: StateKey,
        agent: str,
        actions: Sequence[Action] | None,
        when: int | None,
    ) -> list[Policy]:
        """Return the possible actions in a state, tried ones first, best first."""
        known = self._valued("policies.values", place, agent, when, only_active=True)
        if actions is None:
            return known
        by_id = {policy.id: policy for policy in known}
        tried, untried = [], []
        for action in checked_items("actions", actions):
            name, spec = split(action)
            key = self._key(agent, place.fingerprint, name, spec)
            if key.id in by_id:
                tried.append(by_id[key.id])
            else:
                untried.append(self._untried(key))
        tried.sort(key=lambda policy: -policy.score)
        return [*tried, *untried]

    def _untried(self, key: PolicyKey) -> Policy:
        prior = PRIOR[0] / sum(PRIOR)
        return Policy(
            id=key.id,
            agent=key.agent,
            state=key.state.fingerprint,
            features=None,
            action=key.action,
            spec=json.loads(key.spec) if key.spec else None,
            q=0.0,
            score=0.0,
            updates=0,
            trials=0,
            successes=0,
            mean=prior,
            lower=0.0,
            upper=1.0,
            status="tentative",
            confidence=replay.INITIAL_CONFIDENCE,
            signals=0,
            crystallized=False,
            last_updated_at=None,
        )

    def values(
        self,
        state: State,
        *,
        at: datetime | None = None,
        agent: str | None = None,
        pressure: float = 0.0,
        stored: bool = False,
    ) -> Listed[Policy]:
        """Return all policies in a state, best first, with their values at a time as ``score``.

        A value decays with the days since its last update, or more slowly if confidence is high.
        The bonuses of its cycles (``memory.cycles``) and of ``pressure`` (for each day of waiting)
        are added. Stored values do not change.

        Args:
            state: features or fingerprint.
            at: the time, with time zone; default: now.
            agent: whose policies; default: all agents'.
            pressure: the bonus for each day since the last update, any number.
            stored: the scores are the stored values.

        Raises:
            ValidationError: an argument is wrong.
        """
        place = StateKey.of(self._graph.ns, state)
        if agent is not None:
            agent = self._agent(agent)
        waited = finite("pressure", pressure)
        when = self._when(at, stored)
        return Listed(self._valued("policies.values", place, agent, when, pressure=waited))

    def top(self, *, agent: str | None = None, limit: int = 20) -> Listed[Policy]:
        """Return the policies of the namespace with the highest values."""
        check_limit(limit)
        rows = self._graph.read(
            "policies.list", agent=None if agent is None else self._agent(agent), limit=limit
        )
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

        The answer comes from an index of the graph, so it is always exact.
        """
        if action is None:
            rows = self._graph.read(
                "policies.seen_state",
                state_id=StateKey.of(self._graph.ns, state).id,
                agent=self._agent(agent),
            )
            return bool(rows and rows[0]["seen"])
        return self.seen_many([(state, (action, spec))], agent=agent)[0]

    def seen_many(
        self, pairs: Iterable[tuple[State, Action]], *, agent: str = "default"
    ) -> list[bool]:
        """Return for each (state, action) whether an agent tried it."""
        ids = []
        for index, pair in enumerate(checked_items("pairs", pairs)):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise ValidationError(f"pairs.{index}", pair, "must be (state, action)")
            state, action = pair
            name, spec = split(action)
            ids.append(self._key(agent, state, name, spec).id)
        rows = self._graph.read("policies.seen", ids=ids)
        known = {row["id"] for row in rows}
        return [identity in known for identity in ids]

    def history(self, policy: Policy | str) -> Listed[Point]:
        """Return the state of a policy (given itself or its id) after every event, in order.

        All events of the agent's stream are replayed, because a value depends on the values of
        other states; so the time grows with the stream. Episodes are events of the policies that
        they took; events of edges are left out. ``at`` is the time of the event, else the time of
        recording. Erased events and unrecorded updates are missing.

        Raises:
            NotFoundError: the policy is not there.
        """
        [points] = self.history_many([policy]).values()
        return Listed(points)

    def history_many(self, policies: Iterable[Policy | str]) -> dict[str, list[Point]]:
        """Return the histories of policies by id, with one replay for each agent.

        Raises:
            NotFoundError: a policy is not there.
        """
        agents: dict[str, list[str]] = {}
        histories: dict[str, list[Point]] = {}
        for policy in checked_items("policies", policies):
            known = self.by_id(policy.id if isinstance(policy, Policy) else policy)
            histories[known.id] = []
            agents.setdefault(known.agent, []).append(known.id)
        for agent, ids in agents.items():
            histories |= self._graph.view(
                lambda tx, agent=agent, ids=ids: self._points(tx, agent, ids)  # type: ignore[misc]
            )
        return histories

    def _points(self, tx: Transaction, agent: str, ids: Sequence[str]) -> dict[str, list[Point]]:
        points: dict[str, list[Row]] = {identity: [] for identity in ids}
        stream = opened(tx, agent)
        if stream is not None:
            table = blank(tx.run("maintenance.stored_policies", stream=stream["stream"]))
            for event, error in replayed(tx, stream, table):
                about = event["policies"] if event["kind"] == "episode" else (event["subject"],)
                for identity in points.keys() & about:
                    if event["kind"] not in _OF_EDGES and identity in table.entries:
                        points[identity].append(_point(event, error, table.entries[identity]))
        rows = [row for own in points.values() for row in own]
        rates = rates_of(tx, ((row["trials"], row["successes"]) for row in rows))
        for row in rows:
            rate = rates[row["trials"], row["successes"]]
            row |= {name: rate[name] for name in ("mean", "lower", "upper")}
        return {identity: [Point(**row) for row in own] for identity, own in points.items()}


def _point(event: Row, error: float | None, entry: replay.Entry) -> Row:
    """Return what an event made of a policy."""
    return {
        "seq": event["seq"],
        "kind": event["kind"],
        "at": from_millis(event["created_at"] if event["at"] is None else event["at"]),
        "q": entry.q,
        "td_error": error,
        "updates": entry.updates,
        "trials": entry.trials,
        "successes": entry.successes,
        "confidence": entry.confidence,
    }
