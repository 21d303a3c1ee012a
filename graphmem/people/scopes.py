"""Scopes: what agents may learn, and whose lessons they read.

:mod:`graphmem.graph.access` derives the access rights from them.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from graphmem.errors import ScopeError
from graphmem.graph.access import Scopes, read_scopes
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import node_id, scope_id
from graphmem.models.people import Scope
from graphmem.notebook.lists import Listed


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
        given = dict(locals())
        del given["self"]
        scope = Scope(**given)

        def work(tx: Transaction) -> None:
            _lock(tx)
            known = Scopes([*read_scopes(tx).values(), scope]) if scope.inherit_from else Scopes()
            for source in scope.inherit_from:
                if scope.agent in {source, *known.ancestors(source)}:
                    raise ScopeError(
                        "inherit_from",
                        source,
                        f"makes a circle: {source!r} inherits from {scope.agent!r}",
                        "leave it out",
                    )
            tx.run("scopes.put", id=scope_id(tx.ns, scope.agent), **scope.model_dump(mode="json"))

        self._graph.transact(work)
        return scope

    def list(self) -> Listed[Scope]:
        """Return all scopes, by agent."""
        return Listed(builtins.list(read_scopes(self._graph).values()))

    def get(self, agent: str) -> Scope | None:
        """Return the scope of an agent, or None if it has none."""
        name = Scope(agent=agent).agent
        return read_scopes(self._graph, [name]).get(name)

    def remove(self, agent: str) -> bool:
        """Remove the scope of an agent; return whether it had one."""
        name = Scope(agent=agent).agent
        return self._graph.transact(lambda tx: erase_agent(tx, name, named=False)) > 0


def erase_agent(tx: Transaction, agent: str, *, named: bool = True) -> int:
    """Remove the scope of an agent, and its name from others if ``named``; return the number."""
    _lock(tx)
    return int(tx.run("scopes.drop", agents=[agent], named=named)[0]["removed"])


def _lock(tx: Transaction) -> None:
    tx.run("scopes.lock", id=node_id(tx.ns, "Lock", "scopes"))
