"""Reads policies: the best in a state, values at a time, history, and the edges between them."""

from __future__ import annotations

import builtins
import json
import math
import random
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import check_flag, check_limit, checked_agent, checked_items
from graphmem.graph.graph import Graph, Transaction
from graphmem.graph.reads import Reads
from graphmem.ids import from_millis
from graphmem.models.fields import Amount, Finite, Json, Moment, Name, Rate, Unit, checked, millis
from graphmem.models.policies import EdgeKind, LinkedPolicy, Point, Policy, State
from graphmem.notebook import Listed
from graphmem.policies.cycles import clocks
from graphmem.policies.replay import Table
from graphmem.policies.streams import PolicyKey, StateKey, open_stream, replay_events
from graphmem.store.port import Row

Action = str | tuple[str, Any]  # an action type, or a pair of a type and a spec (JSON)
Explore = Literal["ucb", "epsilon"]
MAX_DEPTH = 10
_Depth = Annotated[int, Field(ge=0, le=MAX_DEPTH)]
DECAY_RATE, DECAY_STRENGTH = 0.1, 0.5  # the exponent by days, and how much confidence slows it


class Values:
    """Reads the policies of one namespace; ``best`` and ``get`` count that as a read."""

    def __init__(self, graph: Graph, reads: Reads) -> None:
        self._graph = graph
        self._reads = reads

    def _key(self, agent: str, state: State, action: Action, spec: Any = None) -> PolicyKey:
        if isinstance(action, tuple):
            if len(action) != 2:
                problem = "must be a type, or a pair of type and spec"
                raise ValidationError("action", action, problem)
            action, spec = action
        name, more = checked("action", action, Name), checked("spec", spec, Json)
        return PolicyKey.of(self._graph.ns, checked("agent", agent, Name), state, name, more)

    def _find(self, policy: object) -> Policy | None:
        identity = policy.id if isinstance(policy, Policy) else checked("policy", policy, Name)
        rows = self._graph.read("policies.get", id=identity)
        return policy_of(rows[0]) if rows else None

    def _policy(self, policy: Policy | str) -> Policy:
        """Return a policy that is given itself or by its id, or raise NotFoundError."""
        if (known := self._find(policy)) is None:
            identity = getattr(policy, "id", policy)
            raise NotFoundError(f"no policy {identity!r} in namespace {self._graph.ns!r}")
        return known

    def get(
        self,
        state: State | Policy,
        action: str | None = None,
        *,
        spec: Any = None,
        agent: str = "default",
    ) -> Policy | None:
        """Return the policy of an action in a state, or None: it was never tried or set.

        Without ``action`` the state is a policy or its id.
        """
        if action is not None and not isinstance(state, Policy):
            state = self._key(agent, state, action, spec).id
        known = self._find(state)
        if known is not None:
            self._reads.note("Policy", [known.id])
        return known

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

        Actions are ranked by their values at a time (:meth:`list`).

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
        """
        checked("explore", explore, Explore | None)
        if rng is not None and not isinstance(rng, random.Random):
            raise ValidationError("rng", rng, "is not a random.Random", "give one, or None")
        share = checked("epsilon", epsilon, Unit)
        wide = checked("width", width, Amount)
        asked = self._asked(state, checked("agent", agent, Name), at, stored)
        rows: Sequence[Row] | None = None
        if actions is None and explore is None:
            rows = self._graph.read("policies.best", **asked)
        if rows is None or (rows and rows[0]["cyclic"]):
            rows = self._read(asked | {"only_active": True})
        candidates = [policy_of(row) for row in rows]
        if actions is not None:
            candidates = self._candidates(state, agent, actions, candidates)
        if not candidates:
            return None
        best = candidates[0]
        if explore == "epsilon" and (rng or random).random() < share:
            best = (rng or random).choice(candidates)
        elif explore == "ucb":
            best = _upper(candidates, wide)
        self._reads.note("Policy", [best.id])
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
        check_flag("stored", stored)
        waiting = checked("pressure", pressure, Finite)
        check_limit(limit)
        if state is not None:
            rows = self._read(self._asked(state, name, at, stored) | {"pressure": waiting})[:limit]
        elif at is not None or pressure:
            raise ValidationError("state", None, "is missing", "values at a time are of one state")
        else:
            rows = self._graph.read("policies.list", agent=name, limit=limit)
        return Listed([policy_of(row) for row in rows])

    def seen(
        self, state: State, action: str | None = None, *, spec: Any = None, agent: str = "default"
    ) -> bool:
        """Return whether an agent tried an action in a state (without ``action``: any action).

        The procedure ``policies.seen`` answers for many ids of policies at once.
        """
        if action is not None:
            ids = [self._key(agent, state, action, spec).id]
            return bool(self._graph.read("policies.seen", ids=ids))
        return any(policy.updates + policy.trials for policy in self.list(state, agent=agent))

    def history(self, policy: Policy | str) -> Listed[Point]:
        """Return a policy after every event, in order.

        All events of its agent's stream are replayed, so the time grows with the stream. Episodes
        are events of the policies that they took; events of edges are left out. ``at`` is the time
        of the event, else the time of recording. Erased events and unrecorded updates are missing.

        Raises:
            NotFoundError: the policy is not there.
        """
        known = self._policy(policy)

        def work(tx: Transaction) -> builtins.list[Point]:
            if (stream := open_stream(tx, known.agent)) is None:
                return []
            table = Table.of(tx.run("maintenance.stored_policies", stream=stream["stream"]))
            points = []
            for event, error in replay_events(tx, stream, table):
                about = event["policies"] if event["kind"] == "episode" else (event["subject"],)
                if known.id in about and event["kind"] not in get_args(EdgeKind):
                    at = from_millis(event["created_at"] if event["at"] is None else event["at"])
                    place = {"seq": event["seq"], "kind": event["kind"], "at": at}
                    row = table.entries[known.id].row()
                    points.append(Point(**{**row, **place, "td_error": error}))
            return points

        return Listed(self._graph.view(work))

    def linked(self, policy: Policy | str, *, limit: int = 100) -> Listed[LinkedPolicy]:
        """Return the policies linked with one, strongest first."""
        check_limit(limit)
        start = [{"id": self._policy(policy).id, "energy": 1.0}]
        rows = self._graph.read("policies.spread", rows=start, decay=1.0, limit=limit)
        return Listed([LinkedPolicy(weight=row["energy"], **row) for row in rows])

    def propagate(
        self,
        policies: Iterable[Policy | str],
        *,
        depth: int = 1,
        decay_per_hop: float = 0.5,
        threshold: float = 0.0,
    ) -> dict[str, float]:
        """Spread activation from policies over their edges; return the activation of others by id.

        The policies have an activation of 1 each. Each of ``depth`` hops, from 0 to 10, multiplies
        by the weight of the edge and ``decay_per_hop``, in [0, 1); the strongest of several paths
        counts. Activations under ``threshold`` are neither passed on nor returned. At depth 0 the
        policies themselves are returned.
        """
        checked("depth", depth, _Depth)
        decay = checked("decay_per_hop", decay_per_hop, Rate)
        floor = checked("threshold", threshold, Finite)
        seeds = {self._policy(policy).id: 1.0 for policy in checked_items("policies", policies)}
        reached, frontier = dict(seeds), dict(seeds)
        for _ in range(depth):
            start = [{"id": key, "energy": energy} for key, energy in sorted(frontier.items())]
            frontier = {
                row["id"]: row["energy"]
                for row in self._graph.read("policies.spread", rows=start, decay=decay)
                if row["energy"] > max(reached.get(row["id"], 0.0), 0.0) and row["energy"] >= floor
            }
            reached.update(frontier)
        if depth == 0:
            return reached
        return {key: energy for key, energy in reached.items() if key not in seeds}

    def _asked(
        self, state: State, agent: str | None, at: datetime | None, stored: bool
    ) -> dict[str, Any]:
        """Return whose policies to rank by their values at which time; None: the stored values."""
        check_flag("stored", stored)
        if stored and at is not None:
            raise ValidationError("at", at, "does not go with stored=True", "leave out one")
        moment = self._graph.now() if at is None else millis(checked("at", at, Moment))
        place = {"state_id": StateKey.of(self._graph.ns, state).id, "agent": agent}
        when = {"at": None if stored else moment}
        return {**place, **when, "rate": DECAY_RATE, "strength": DECAY_STRENGTH}

    def _read(self, asked: dict[str, Any]) -> builtins.list[Row]:
        """Return policies with their values at a time, best first; only cycles need clocks."""
        rows = self._graph.read("policies.values", **asked)
        zones = {zone for row in rows for zone in row["timezones"]}
        if zones and (moment := from_millis(asked["at"])):
            now = clocks(moment, sorted(zones))
            rows = self._graph.read("policies.values", **asked, clocks=now)
        return rows

    def _candidates(
        self, state: State, agent: str, actions: Sequence[Action], policies: Sequence[Policy]
    ) -> builtins.list[Policy]:
        """Return the possible actions in a state, best first; of equal ones first those tried."""
        tried = {policy.id: policy for policy in policies}
        found: dict[str, Policy] = {}
        for action in checked_items("actions", actions):
            key = self._key(agent, state, action)
            found[key.id] = tried.get(key.id) or Policy(
                id=key.id,
                agent=key.agent,
                state=key.state.fingerprint,
                action=key.action_type,
                spec=json.loads(key.action_spec) if key.action_spec else None,
            )
        return sorted(found.values(), key=lambda one: (-one.score, one.id not in tried))


def policy_of(row: Row) -> Policy:
    """Return the policy of a procedure's row."""
    shown = {"action": row["action_type"], "q": row["q_value"]}
    shown["features"] = json.loads(row["features"]) if row["features"] else None
    shown["spec"] = json.loads(row["action_spec"]) if row["action_spec"] else None
    return Policy(**{**row, **shown, "last_updated_at": from_millis(row["last_updated_at"])})


def _upper(policies: Sequence[Policy], width: float) -> Policy:
    """Return the policy with the highest upper confidence bound, which is its score."""
    tries = [policy.updates + policy.trials for policy in policies]
    if 0 in tries:
        return policies[tries.index(0)]
    total = math.log(sum(tries))
    bounds = [
        policy.score + width * math.sqrt(total / own)
        for policy, own in zip(policies, tries, strict=True)
    ]
    best = bounds.index(max(bounds))
    return policies[best].model_copy(update={"score": bounds[best]})
