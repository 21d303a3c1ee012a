"""Policies: what to do in a state, learned by TD(0) from rewards and counted from outcomes."""

from __future__ import annotations

from collections.abc import Iterable

from graphmem.errors import ValidationError
from graphmem.graph.arguments import MOST, check_limit, checked_items, checked_number
from graphmem.models.policies import LinkedPolicy, Policy
from graphmem.notebook.frames import Listed
from graphmem.policies.replay import DECAY, INITIAL_WEIGHT, STRENGTHEN
from graphmem.policies.streams import Change
from graphmem.policies.updates import Updates
from graphmem.policies.values import Action

__all__ = ["Action", "Policies"]

MAX_DEPTH = 10


class Policies(Updates):
    """Learns, ranks and links the policies of one namespace: ``memory.policies``.

    A state is a dict of features or a fingerprint. An action is a type, with ``spec`` (any JSON) if
    the type alone does not identify it. Each agent has its own policies. Episodes link policies;
    the methods that link by hand take a Policy or its id (NotFoundError: it is not there).
    """

    def link(self, a: Policy | str, b: Policy | str, *, weight: float = INITIAL_WEIGHT) -> float:
        """Link two policies of an agent; an existing edge keeps its weight. Return the weight.

        Weights are in [0, 1].
        """
        return self._join("linked", a, b, checked_number("weight", weight, 0, 1))

    def strengthen(self, a: Policy | str, b: Policy | str, *, delta: float = STRENGTHEN) -> float:
        """Add ``delta``, over 0, to the weight of an edge, up to 1; create it if there is none."""
        if not (more := checked_number("delta", delta, 0)):
            raise ValidationError("delta", delta, "must be over 0")
        return self._join("strengthened", a, b, more)

    def weaken(
        self, a: Policy | str, b: Policy | str | None = None, *, factor: float = DECAY
    ) -> float:
        """Multiply the weight of an edge, or without ``b`` of all edges of ``a``, by a factor.

        An edge whose weight falls below 0.001 is removed. Return the weight of the edge (0 if it
        was removed), or without ``b`` the number of removed edges. The factor is in [0, 1].
        """
        factor = checked_number("factor", factor, 0, 1)
        if b is not None:
            return self._join("weakened", a, b, factor)
        first = self._policy(a)
        others = [linked.id for linked in self.linked(first, limit=MOST)]
        return float(self._write(first, "weakened", others, factor).count(0.0)) if others else 0.0

    def unlink(self, a: Policy | str, b: Policy | str) -> None:
        """Remove the edge between two policies, if there is one."""
        self._join("unlinked", a, b, None)

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

        Each hop multiplies by the weight of the edge and ``decay_per_hop``; the strongest of
        several paths counts. At depth 0 the policies themselves are returned.

        Args:
            policies: the start, with an activation of 1 each.
            depth: hops, from 0 to 10.
            decay_per_hop: in [0, 1).
            threshold: smaller activations are neither passed on nor returned.
        """
        if type(depth) is not int or not 0 <= depth <= MAX_DEPTH:
            raise ValidationError("depth", depth, f"must be from 0 to {MAX_DEPTH}")
        decay = checked_number("decay_per_hop", decay_per_hop, 0, 1)
        if decay == 1.0:
            raise ValidationError("decay_per_hop", decay_per_hop, "must be under 1")
        floor = checked_number("threshold", threshold)
        seeds = {self._policy(policy).id: 1.0 for policy in checked_items("policies", policies)}
        reached, frontier = dict(seeds), dict(seeds)
        for _ in range(depth):
            start = [{"id": key, "energy": energy} for key, energy in sorted(frontier.items())]
            rows = self._graph.read("policies.spread", rows=start, decay=decay)
            frontier = {
                row["id"]: row["energy"]
                for row in rows
                if row["energy"] > max(reached.get(row["id"], 0.0), 0.0) and row["energy"] >= floor
            }
            reached.update(frontier)
        if depth == 0:
            return reached
        return {key: energy for key, energy in reached.items() if key not in seeds}

    def _join(self, kind: str, a: Policy | str, b: Policy | str, value: float | None) -> float:
        """Change the edge between two policies; return its weight."""
        first, second = self._policy(a), self._policy(b)
        if first.id == second.id:
            raise ValidationError("b", second.id, "is the same policy", "give two different ones")
        if first.agent != second.agent:
            problem = f"is of another agent than {first.agent!r}"
            raise ValidationError("b", second.agent, problem, "agents do not mix")
        return self._write(first, kind, [second.id], value)[0]

    def _write(
        self, policy: Policy, kind: str, others: list[str], value: float | None
    ) -> list[float]:
        facts = [{"subject": policy.id, "other": other, "value": value} for other in others]
        answers = self._apply(*(Change(policy.agent, kind, fact) for fact in facts))
        return [weight for _, weight in answers]
