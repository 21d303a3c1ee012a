"""Access rights: who may learn and read what, derived from a namespace's learning scopes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphmem.config import Settings
from graphmem.errors import ScopeError
from graphmem.graph.arguments import checked_agent
from graphmem.graph.graph import Reader
from graphmem.ids import scope_id
from graphmem.models.forecasts import Change
from graphmem.models.people import Scope
from graphmem.store.port import Row


@dataclass(frozen=True, slots=True)
class View:
    """What a reader may read."""

    agents: tuple[str, ...] | None
    """The agents whose lessons it may read, in order of name; None: all."""
    scope: Scope | None
    """The scope that limits the types of tasks; None: all types."""
    reader: str | None = None
    """The agent that reads; None: an administrator."""

    @property
    def min_occurrences(self) -> int | None:
        """Occurrences that a lesson needs, if the scope sets a number."""
        return None if self.scope is None else self.scope.min_occurrences

    def allows(self, *task_types: str) -> bool:
        """Return whether the reader may read lessons on tasks of these types."""
        return self.scope is None or all(map(self.scope.allows, task_types))

    def trials(self, settings: Settings) -> int:
        """Return the number of trials that a heuristic needs."""
        return self.min_occurrences or settings.min_occurrences

    def failures(self, settings: Settings) -> int:
        """Return the number of failures that an anti-pattern needs."""
        return max(settings.anti_pattern_failures, self.min_occurrences or 1)

    def filters(self, reader: Reader) -> dict[str, Any]:
        """Return the readable ``agents`` and ``types`` of tasks; None: all."""
        types: list[str] | None = None
        if self.scope and (self.scope.can_learn is not None or self.scope.cannot_learn):
            rows = reader.read("scopes.task_types")
            types = sorted(row["type"] for row in rows if self.allows(row["type"]))
        return {"agents": self.agents, "types": types}

    def tasks(self, reader: Reader, ids: Sequence[str], *, untried: bool = False) -> dict[str, Row]:
        """Return those of some tasks that the reader may read: rows {id, text, task_type}."""
        if not ids:
            return {}
        if self.agents is None:
            rows = reader.read("lookup.tasks", ids=ids)
        else:
            rows = reader.read("access.tasks", ids=ids, agents=self.agents)
            told = [row for row in rows if row["text"] is not None]
            # The others have a wording or type from an episode that may not be read.
            others = {*ids} if untried else {row["id"] for row in rows}
            others -= {row["id"] for row in told}
            rows = told
            if others:
                query = {"ids": sorted(others), "agents": self.agents}
                rows += reader.read("access.described_tasks", "some", **query)
        return {row["id"]: row for row in rows if self.allows(row["task_type"])}

    def strategies(self, reader: Reader, ids: Sequence[str]) -> set[str]:
        """Return those of some strategies that agents applied whose lessons the reader may read."""
        if self.agents is None or not ids:
            return set(ids)
        rows = reader.read("access.strategies", ids=ids, **self.filters(reader))
        return {row["id"] for row in rows}


EVERYTHING = View(agents=None, scope=None)  # the view of a reader that names no agent
ChangeFinder = Callable[[Collection[str], View], Mapping[str, Change]]
"""Finds how strategies (ids) changed, by what is read in a view: ``Changes.find``."""


class Scopes(dict[str, Scope]):
    """The scopes of a namespace, by agent."""

    def __init__(self, scopes: Iterable[Scope] = ()) -> None:
        super().__init__((scope.agent, scope) for scope in scopes)

    def view(self, agent: str | None) -> View:
        """Return what an agent may read; None reads everything.

        An agent reads its own lessons, and those of agents that it inherits from, directly or
        through others, if these share with it; and only on types of tasks that it may learn. An
        agent without a scope reads its own lessons, on all types.
        """
        if agent is None:
            return EVERYTHING
        above = (self[name] for name in self.ancestors(agent) if name in self)
        shared = {scope.agent for scope in above if scope.shares_with(agent)}
        return View(tuple(sorted({agent, *shared})), self.get(agent), agent)

    def ancestors(self, agent: str) -> set[str]:
        """Return the agents from which one inherits, directly or through others."""
        ancestors: set[str] = set()
        waiting = [agent]
        while waiting:
            scope = self.get(waiting.pop())
            for name in scope.inherit_from if scope else ():
                if name not in ancestors:
                    ancestors.add(name)
                    waiting.append(name)
        return ancestors


def refusal(scopes: Mapping[str, Scope], agent: str, task_type: str) -> ScopeError | None:
    """Return the error if an agent may not learn a type of task, else None."""
    scope = scopes.get(agent)
    if scope is None or scope.allows(task_type):
        return None
    problem = f"is a type of task that agent {agent!r} may not learn"
    remedy = "change its scope, let another agent learn it, or give another task_type"
    return ScopeError("task_type", task_type, problem, remedy)


def read_scopes(reader: Reader, agents: Collection[str] | None = None) -> Scopes:
    """Return the scopes of some agents (names), or of all, in one statement."""
    only = {}
    if agents is not None:
        only = {"ids": sorted(scope_id(reader.ns, agent) for agent in agents)}
    return Scopes(Scope(**row) for row in reader.read("scopes.list", **only))


def read_view(reader: Reader, agent: str | None) -> View:
    """Return what an agent may read; None reads everything, and needs no statement."""
    name = checked_agent(agent)
    return (Scopes() if name is None else read_scopes(reader)).view(name)
