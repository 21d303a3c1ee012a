"""Nodes and edges of a namespace, or of what is around some items, with plain values.

A node has its kind, its text, and its trials and successes; an edge its type, and as far as it has
them the agent, trials, successes and weight. Nodes are read first, then edges, a page at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmem.errors import SettingsError, ValidationError
from graphmem.graph.arguments import check_choice, check_text, checked_items, checked_text
from graphmem.graph.graph import Graph, Transaction
from graphmem.graph.lookup import HasId, Items, task_ids
from graphmem.kinds import NODE_KINDS, NodeKind
from graphmem.printable import counted
from graphmem.store.paging import PAGE, pages

if TYPE_CHECKING:
    from networkx import MultiDiGraph

LEARNED = NODE_KINDS[:-2]
"""The kinds that are read where none are named: what was learned, without who did what."""
NODES = 10_000
"""Most nodes of a network in memory, where no limit is given."""
EDGES_EACH = 20
"""Most edges, for each node that the limit allows."""
CHART, LINES = 200, 500
"""Most nodes and edges of a chart, where no limit is given: Mermaid draws no more edges."""
HOPS = 6
"""Most steps around an item."""
EVERY = 2**31 - 2
"""A limit that is never reached."""
_IDS: dict[NodeKind, str] = {
    "strategy": "network.strategy",
    "task": "network.task",
    "heuristic": "network.heuristic",
    "anti-pattern": "network.anti_pattern",
    "rule": "network.rule",
    "policy": "network.policy",
    "state": "network.state",
    "agent": "network.agent",
    "episode": "network.episode",
}
"""What lists the nodes of a kind."""
_EDGES: dict[NodeKind, str] = {
    "strategy": "network.strategy_edges",
    "task": "network.task_edges",
    "heuristic": "network.heuristic_edges",
    "anti-pattern": "network.anti_pattern_edges",
    "policy": "network.policy_edges",
    "episode": "network.episode_edges",
}
"""What lists the edges that belong to nodes of a kind; to the others belong none."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Node(NamedTuple):
    """A node: its id, and its values by name, none of them null."""

    id: str
    values: dict[str, Any]


class Edge(NamedTuple):
    """An edge: the ids of its ends, and its values by name, none of them null."""

    source: str
    target: str
    values: dict[str, Any]


class Network:
    """Reads the network of one namespace."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._items = Items(graph)

    def to_networkx(
        self, around: HasId | str | Sequence[HasId | str] | None, **how: Any
    ) -> MultiDiGraph:
        """Return a graph of networkx; see :meth:`Memory.to_networkx`."""
        try:
            import networkx as nx
        except ImportError:
            raise missing("to_networkx") from None
        asked = self.asked(around, **how)

        def work(tx: Transaction) -> MultiDiGraph:
            graph = nx.MultiDiGraph(namespace=tx.ns)
            read = asked.read(tx)
            graph.add_nodes_from(read.nodes())
            for source, target, values in read.edges():
                key = " ".join(filter(None, (values["type"], values.get("agent"))))
                graph.add_edge(source, target, key, **values)
            return graph

        return self._graph.view(work)

    def asked(
        self,
        around: HasId | str | Sequence[HasId | str] | None = None,
        *,
        hops: int = 1,
        kinds: Sequence[NodeKind] | None = None,
        limit: int | None = NODES,
        chart: bool = False,
    ) -> Asked:
        """Return a question, with checked arguments; without a limit a chart has one of its own.

        Raises:
            NotFoundError: there is no such item.
            ValidationError: an argument is wrong.
        """
        if type(hops) is not int or not 0 <= hops <= HOPS:
            raise ValidationError("hops", hops, f"is no whole number from 0 to {HOPS}")
        if limit is not None and (type(limit) is not int or not 1 <= limit < EVERY):
            raise ValidationError("limit", limit, "is no whole number from 1", "or give None")
        wanted = LEARNED if kinds is None else tuple(checked_items("kinds", kinds))
        for kind in wanted:
            check_choice("kinds", kind, NODE_KINDS)
        starts = None if around is None else self._starts(around)
        kinds = tuple(kind for kind in NODE_KINDS if kind in wanted)
        return Asked(starts, hops, kinds, limit, chart=chart)

    def _starts(self, around: HasId | str | Sequence[HasId | str]) -> list[str]:
        given = [around] if isinstance(around, str | HasId) else [*checked_items("around", around)]
        if not given:
            raise ValidationError("around", given, "is empty", "or give None for all")
        return [identity for item in given for identity in self._meant(item)]

    def _meant(self, item: HasId | str) -> list[str]:
        """Return the ids of the nodes that an object, an id or a text means."""
        known = item if isinstance(item, str) else getattr(item, "id", None)
        if not isinstance(known, str):
            raise ValidationError("around", item, "has no id", "give an id, a text, or an item")
        check_text("around", known)
        if self._graph.read("neighbourhood.nodes", ids=[known]):
            return [known]
        if found := next(self._items.find(known), None):
            return [found["id"]]
        if tasks := task_ids(self._graph, str(checked_text("around", known))):
            return tasks
        raise self._items.missing(known)


class Asked:
    """A question for a network."""

    def __init__(
        self,
        starts: list[str] | None,
        hops: int,
        kinds: tuple[NodeKind, ...],
        limit: int | None,
        *,
        chart: bool = False,
    ) -> None:
        self.starts = starts
        self.hops = hops
        self.kinds = kinds
        self._why = ""
        self.limit = EVERY if limit is None else limit
        self.edges = min(EDGES_EACH * self.limit, EVERY)
        """Most edges."""
        if chart and limit is None:
            self.limit, self.edges = CHART, LINES
            self._why = ", as nobody could read a larger chart"

    def read(self, tx: Transaction) -> Read:
        """Find which nodes there are.

        Raises:
            ValidationError: there are more than the limit.
        """
        return Read(tx, self, self._all(tx) if self.starts is None else self._around(tx))

    def many_nodes(self, nodes: str) -> ValidationError:
        """Return the error for a network with too many nodes."""
        return self._refusal(f"{nodes}, but at most {self.limit:,} are taken")

    def many_edges(self, nodes: int) -> ValidationError:
        """Return the error for a network with too many edges between so many nodes."""
        return self._refusal(
            f"more edges at {counted(nodes, 'node')} than the {self.edges:,} that are taken"
        )

    def _refusal(self, there: str) -> ValidationError:
        part = "what is around an item (around)" if self.starts is None else "fewer steps (hops)"
        return ValidationError(
            "limit",
            None,
            f"there are {there}{self._why}",
            f"take a part: {part}, or fewer kinds (kinds); or give a greater limit",
        )

    def _all(self, tx: Transaction) -> dict[NodeKind, list[str]]:
        found: dict[NodeKind, list[str]] = {}
        left = self.limit
        for kind in self.kinds:
            most = min(left + 1, EVERY)
            found[kind] = [row["id"] for row in tx.run(_IDS[kind], limit=most)]
            left -= len(found[kind])
            if left < 0:
                rows = tx.run("network.counts")
                there = {row["kind"]: row["nodes"] for row in rows if row["kind"] in self.kinds}
                each = ", ".join(f"{kind} {count:,}" for kind, count in there.items() if count)
                raise self.many_nodes(f"{sum(there.values()):,} nodes ({each})")
        return found

    def _around(self, tx: Transaction) -> dict[NodeKind, list[str]]:
        found: dict[str, NodeKind] = {}
        new = sorted(set(self.starts or ()))
        for step in range(self.hops + 1):
            for page in pages(new, PAGE):
                rows = tx.run("neighbourhood.nodes", ids=page)
                found |= {
                    row["id"]: row["kind"] for row in rows if step == 0 or row["kind"] in self.kinds
                }
            if len(found) > self.limit:
                raise self.many_nodes(f"{len(found):,} nodes and more")
            if step == self.hops:
                break
            ends: set[str] = set()
            for page in pages([identity for identity in new if identity in found], PAGE):
                rows = tx.run("neighbourhood.edges", ids=page, limit=self.edges + 1)
                if len(rows) > self.edges:
                    raise self.many_edges(len(found))
                ends.update(row[end] for row in rows for end in ("source", "target"))
            new = sorted(ends - found.keys())
        return {
            kind: sorted(identity for identity in found if found[identity] == kind)
            for kind in NODE_KINDS
        }


class Read:
    """The nodes and edges of a network, of which the ids are known."""

    def __init__(self, tx: Transaction, asked: Asked, ids: dict[NodeKind, list[str]]) -> None:
        self._tx = tx
        self._asked = asked
        self._ids = ids

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes, by kind and id."""
        for ids in self._ids.values():
            for page in pages(ids, PAGE):
                rows = self._tx.run("neighbourhood.nodes", ids=page)
                for row in sorted(rows, key=lambda row: row["id"]):
                    yield Node(row.pop("id"), _plain(row))

    def edges(self) -> Iterator[Edge]:
        """Yield the edges between these nodes.

        Raises:
            ValidationError: they are more than the limit of nodes allows.
        """
        inside = {identity for ids in self._ids.values() for identity in ids}
        left = self._asked.edges
        # A strategy has an edge to each of its tasks: more than the limit, where none is wanted.
        wanted = {"strategy": {"with_tasks": bool(self._ids.get("task"))}}
        for kind, name in _EDGES.items():
            for page in pages(self._ids.get(kind, []), PAGE):
                more = wanted.get(kind, {})
                rows = self._tx.run(name, ids=page, limit=self._asked.edges + 1, **more)
                for row in rows:
                    if row["source"] in inside and row["target"] in inside:
                        left -= 1
                        yield Edge(row.pop("source"), row.pop("target"), _plain(row))
                if left < 0 or len(rows) > self._asked.edges:
                    raise self._asked.many_edges(len(inside))


def missing(what: str) -> SettingsError:
    """Return the error where networkx is not there."""
    return SettingsError(
        f"{what} needs networkx, which is not installed; "
        "in a clone of graphmem: pip install -e '.[plots]'"
    )


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is there; texts without characters that XML cannot hold."""
    return {
        name: _NOT_XML.sub("\ufffd", value) if isinstance(value, str) else value
        for name, value in row.items()
        if value is not None
    }
