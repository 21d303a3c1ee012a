"""Scopes: what agents may learn, and whose lessons they read.

What is decided here is a pure function of the scopes of a namespace (:class:`Scopes`). Learning
asks :func:`check` in its own transaction, reading asks :meth:`Scopes.view`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphmem.errors import ScopeError
from graphmem.ids import node_id
from graphmem.layout import now_millis
from graphmem.models.scopes import Scope
from graphmem.queries import procedure
from graphmem.store.port import Row, Store, Transaction

Run = Callable[..., list[Row]]
"""``transaction.run`` or ``store.read``."""


def scope_id(namespace: str, agent: str) -> str:
    """Return the id of the LearningScope node of an agent."""
    return node_id(namespace, "LearningScope", agent)


@dataclass(frozen=True, slots=True)
class View:
    """Which lessons somebody reads."""

    agents: tuple[str, ...] | None
    """Those of these agents, in the order of their names; None: of all."""
    scope: Scope | None
    """Whose types of tasks count; None: all types."""

    @property
    def min_occurrences(self) -> int | None:
        """Occurrences that a lesson needs, where the scope says so."""
        return None if self.scope is None else self.scope.min_occurrences

    def allows(self, task_type: str) -> bool:
        """Return whether lessons on tasks of a type are read."""
        return self.scope is None or self.scope.allows(task_type)


class Scopes(Mapping[str, Scope]):
    """The scopes of a namespace, by agent."""

    def __init__(self, scopes: Iterable[Scope] = ()) -> None:
        self._scopes = {scope.agent: scope for scope in scopes}

    def __getitem__(self, agent: str) -> Scope:
        return self._scopes[agent]

    def __iter__(self) -> Iterator[str]:
        return iter(self._scopes)

    def __len__(self) -> int:
        return len(self._scopes)

    def view(self, agent: str | None) -> View:
        """Return what an agent reads; None reads everything.

        It reads its own lessons, and those of the agents that it inherits from, directly or
        through others, as far as these share with it; and only on types of tasks that it may
        learn. An agent without a scope reads its own, on all types.
        """
        if agent is None:
            return View(agents=None, scope=None)
        shared = [
            name
            for name in self.ancestors(agent)
            if name in self._scopes and self._scopes[name].shares_with(agent)
        ]
        return View(agents=tuple(sorted({agent, *shared})), scope=self._scopes.get(agent))

    def ancestors(self, agent: str) -> set[str]:
        """Return the agents that one inherits from, directly or through others."""
        found: set[str] = set()
        waiting = [agent]
        while waiting:
            scope = self._scopes.get(waiting.pop())
            for name in scope.inherit_from if scope else ():
                if name not in found:
                    found.add(name)
                    waiting.append(name)
        return found


def circle(scopes: Mapping[str, Scope], agent: str) -> list[str] | None:
    """Return a shortest circle of inheritance from an agent to itself, or None."""
    before: dict[str, str] = {}
    waiting = [agent]
    while waiting:
        following = []
        for name in waiting:
            scope = scopes.get(name)
            for source in scope.inherit_from if scope else ():
                if source == agent:
                    path = [name]
                    while path[-1] != agent:
                        path.append(before[path[-1]])
                    return [*reversed(path), agent]
                if source not in before:
                    before[source] = name
                    following.append(source)
        waiting = following
    return None


def refusal(scopes: Mapping[str, Scope], agent: str, task_type: str) -> ScopeError | None:
    """Return why an agent may not learn a type of task, or None where it may."""
    scope = scopes.get(agent)
    if scope is None or scope.allows(task_type):
        return None
    return ScopeError(
        "task_type",
        task_type,
        f"is a type of task that agent {agent!r} may not learn",
        "change its scope, let another agent learn it, or give another task_type",
    )


def check(scopes: Mapping[str, Scope], rows: Iterable[Mapping[str, Any]]) -> None:
    """Refuse rows ``{agent_name, type}`` that are outside the scope of their agent.

    Raises:
        ScopeError: an agent may not learn a type of task; it names both.
    """
    for row in rows:
        if error := refusal(scopes, row["agent_name"], row["type"]):
            raise error


def read_scopes(run: Run, namespace: str, agents: Collection[str] | None = None) -> Scopes:
    """Return the scopes of some agents, or of all, in one statement.

    Args:
        run: ``transaction.run`` or ``store.read``.
        namespace: whose scopes.
        agents: names; None: all.
    """
    if agents is None:
        return Scopes(map(_scope, run(procedure("scopes.list"), ns=namespace)))
    ids = sorted(scope_id(namespace, agent) for agent in agents)
    return Scopes(map(_scope, run(procedure("scopes.of"), ns=namespace, ids=ids)))


def read_view(run: Run, namespace: str, agent: str | None) -> View:
    """Return what an agent reads; None reads everything, and takes no statement."""
    if agent is None:
        return Scopes().view(None)
    return read_scopes(run, namespace).view(agent)


def _scope(row: Row) -> Scope:
    return Scope(**row)


class Scoper:
    """Sets and reads the scopes of one namespace."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def set(self, scope: Scope) -> Scope:
        """Set or replace the scope of an agent, durably.

        Raises:
            ScopeError: it would inherit from itself, directly or through others.
        """
        self._store.apply_schema()
        now = now_millis()

        def work(tx: Transaction) -> None:
            ns = self._namespace
            lock_scopes(tx, self._namespace, now)
            if scope.inherit_from:
                known = {**read_scopes(tx.run, ns), scope.agent: scope}
                if found := circle(known, scope.agent):
                    raise ScopeError(
                        "inherit_from",
                        list(scope.inherit_from),
                        f"makes a circle: {' inherits from '.join(map(repr, found))}",
                        "leave one of them out",
                    )
            tx.run(
                procedure("scopes.put"),
                ns=ns,
                now=now,
                id=scope_id(ns, scope.agent),
                agent=scope.agent,
                can_learn=None if scope.can_learn is None else list(scope.can_learn),
                cannot_learn=list(scope.cannot_learn),
                share_with=list(scope.share_with),
                inherit_from=list(scope.inherit_from),
                min_occurrences=scope.min_occurrences,
            )

        self._store.transact(work)
        return scope

    def list(self) -> builtins.list[Scope]:
        """Return all scopes, by agent."""
        return builtins.list(self.all().values())

    def all(self) -> Scopes:
        """Return all scopes."""
        return read_scopes(self._store.read, self._namespace)

    def get(self, agent: str) -> Scope | None:
        """Return the scope of an agent, or None where it has none."""
        name = Scope(agent=agent).agent
        return read_scopes(self._store.read, self._namespace, [name]).get(name)

    def remove(self, agent: str) -> bool:
        """Remove the scope of an agent; return whether it had one."""
        ids = [scope_id(self._namespace, Scope(agent=agent).agent)]
        self._store.apply_schema()
        now = now_millis()

        def work(tx: Transaction) -> int:
            lock_scopes(tx, self._namespace, now)
            return int(tx.run(procedure("scopes.drop"), ns=self._namespace, ids=ids)[0]["removed"])

        return self._store.transact(work) > 0


def lock_scopes(tx: Transaction, namespace: str, now: int) -> None:
    """Keep others from changing scopes of a namespace until the transaction ends."""
    identity = node_id(namespace, "Lock", "scopes")
    tx.run(procedure("scopes.lock"), ns=namespace, now=now, id=identity)


def erase_agents(tx: Transaction, namespace: str, agents: Sequence[str]) -> int:
    """Remove the scopes of agents, and their names from other scopes; return how many went."""
    lock_scopes(tx, namespace, now_millis())
    ids = [scope_id(namespace, agent) for agent in agents]
    removed = tx.run(procedure("scopes.drop"), ns=namespace, ids=ids)
    for agent in agents:
        tx.run(procedure("scopes.leave_out"), ns=namespace, agent=agent)
    return int(removed[0]["removed"])
