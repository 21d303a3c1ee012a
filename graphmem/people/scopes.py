"""Scopes: what agents may learn, and whose lessons they read.

:mod:`graphmem.graph.access` derives the access rights from them.
"""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Mapping, Sequence

from graphmem.errors import ScopeError
from graphmem.graph.access import read_scopes
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import node_id, scope_id
from graphmem.models.scopes import Scope
from graphmem.notebook.frames import Listed


def circle(scopes: Mapping[str, Scope], agent: str) -> list[str] | None:
    """Return a shortest circle of inheritance from an agent to itself, or None."""
    paths = deque([[agent]])
    seen: set[str] = set()
    while paths:
        path = paths.popleft()
        scope = scopes.get(path[-1])
        for source in scope.inherit_from if scope else ():
            if source == agent:
                return [*path, agent]
            if source not in seen:
                seen.add(source)
                paths.append([*path, source])
    return None


class LearningScopes:
    """Sets and reads the scopes of agents in one namespace: ``memory.scopes``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def set(
        self,
        agent: str,
        *,
        can_learn: Sequence[str] | None = None,
        cannot_learn: Sequence[str] = (),
        share_with: Sequence[str] = (),
        inherit_from: Sequence[str] = (),
        min_occurrences: int | None = None,
    ) -> Scope:
        """Set or replace the scope of an agent.

        An agent without a scope learns everything, and reads its own lessons.

        Args:
            agent: name of the agent.
            can_learn: types of tasks that it may learn; ``*`` matches any text; None: all.
            cannot_learn: types of tasks that it may not learn; overrides ``can_learn``.
            share_with: agents that may read its lessons; "*" lets all of them.
            inherit_from: agents whose lessons it reads if they share with it; it also inherits from
                the agents from which these inherit.
            min_occurrences: occurrences that a lesson needs before it reads it.

        Raises:
            ScopeError: it would inherit from itself, directly or through others.
            ValidationError: another field is wrong.
        """
        scope = Scope(
            agent=agent,
            can_learn=can_learn,
            cannot_learn=cannot_learn,
            share_with=share_with,
            inherit_from=inherit_from,
            min_occurrences=min_occurrences,
        )

        def work(tx: Transaction) -> None:
            ns = self._graph.ns
            lock_scopes(tx)
            if scope.inherit_from:
                known = {**read_scopes(tx), scope.agent: scope}
                if names := circle(known, scope.agent):
                    raise ScopeError(
                        "inherit_from",
                        list(scope.inherit_from),
                        f"makes a circle: {' inherits from '.join(map(repr, names))}",
                        "leave one of them out",
                    )
            tx.run(
                "scopes.put",
                id=scope_id(ns, scope.agent),
                agent=scope.agent,
                can_learn=None if scope.can_learn is None else list(scope.can_learn),
                cannot_learn=list(scope.cannot_learn),
                share_with=list(scope.share_with),
                inherit_from=list(scope.inherit_from),
                min_occurrences=scope.min_occurrences,
            )

        self._graph.transact(work)
        return scope

    def list(self) -> Listed[Scope]:
        """Return all scopes, by agent."""
        return Listed(builtins.list(read_scopes(self._graph).values()))

    def get(self, agent: str) -> Scope | None:
        """Return the scope of an agent, or None if it has none.

        Raises:
            ValidationError: it is not the name of an agent.
        """
        name = Scope(agent=agent).agent
        return read_scopes(self._graph, [name]).get(name)

    def remove(self, agent: str) -> bool:
        """Remove the scope of an agent; return whether it had one.

        Raises:
            ValidationError: it is not the name of an agent.
        """
        ids = [scope_id(self._graph.ns, Scope(agent=agent).agent)]

        def work(tx: Transaction) -> int:
            lock_scopes(tx)
            return int(tx.run("scopes.drop", ids=ids)[0]["removed"])

        return self._graph.transact(work) > 0


def lock_scopes(tx: Transaction) -> None:
    """Lock the scopes of a namespace until the transaction ends."""
    identity = node_id(tx.ns, "Lock", "scopes")
    tx.run("scopes.lock", id=identity)


def erase_agents(tx: Transaction, agents: Sequence[str]) -> int:
    """Remove the scopes of agents, and their names from other scopes; return the number removed."""
    lock_scopes(tx)
    ids = [scope_id(tx.ns, agent) for agent in agents]
    removed = tx.run("scopes.drop", ids=ids)
    for agent in agents:
        tx.run("scopes.leave_out", agent=agent)
    return int(removed[0]["removed"])
