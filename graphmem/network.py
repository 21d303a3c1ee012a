"""The graph as nodes and edges with plain values, for other programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphmem.errors import SettingsError, ValidationError
from graphmem.graph.arguments import (
    check_choice,
    check_limit,
    check_text,
    checked_items,
    checked_text,
)
from graphmem.graph.graph import Graph, Transaction
from graphmem.graph.lookup import HasId, Items, task_ids
from graphmem.kinds import NODE_KINDS, NodeKind
from graphmem.store.paging import PAGE, pages
from graphmem.store.port import Row

if TYPE_CHECKING:
    from networkx import MultiDiGraph

LEARNED = NODE_KINDS[:-2]
"""The kinds that are read where none are named: what was learned, without who did what."""
NODES = 10_000  # most nodes of a network in memory, where no limit is given
EDGES_EACH = 20  # most edges, for each node that the limit allows
HOPS = 6  # most steps around an item
NO_LIMIT = 2**31 - 2  # a limit that is never reached
_WITH_EDGES = ("strategy", "task", "heuristic", "anti-pattern", "policy", "episode")
"""The kinds of nodes that edges belong to: ``network.KIND_edges`` lists them."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Network:
    """Reads the network of one namespace."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._items = Items(graph)

    def to_networkx(
        self,
        around: HasId | str | Sequence[HasId | str] | None = None,
        *,
        hops: int = 1,
        kinds: Sequence[NodeKind] | None = None,
        limit: int | None = NODES,
    ) -> MultiDiGraph:
        """Return the graph, or what is around items, as a graph of networkx.

        A node is an id, and has ``kind``, ``text``, ``trials`` and ``successes``. An edge has
        ``type``, and as far as there are any ``agent``, ``trials``, ``successes`` and ``weight``
        (of CO_OCCURS_WITH, or the similarity of SIMILAR_TO). All are texts and numbers, so that
        networkx can write them as GraphML; a character that XML cannot hold is replaced.

        Args:
            around: an id, a text, an object with an id, or several; None: the whole namespace.
            hops: how many steps around them, from 0 to 6.
            kinds: of "strategy", "task", "heuristic", "anti-pattern", "rule", "policy", "state",
                "agent" and "episode", those to take; default: all but the last two.
            limit: most nodes; there are at most twenty times as many edges. None: any number.

        Raises:
            NotFoundError: there is no such item.
            SettingsError: networkx is not installed (``pip install -e '.[plots]'``).
            ValidationError: an argument is wrong, or there are more nodes or edges.
        """
        try:
            nx: Any = import_module("networkx")
        except ImportError:
            raise SettingsError(
                "networkx is not installed; in a clone of graphmem: pip install -e '.[plots]'"
            ) from None
        if type(hops) is not int or not 0 <= hops <= HOPS:
            raise ValidationError("hops", hops, f"is no whole number from 0 to {HOPS}")
        check_limit(NODES if limit is None else limit)
        limit = NO_LIMIT if limit is None else limit
        wanted = LEARNED if kinds is None else tuple(checked_items("kinds", kinds))
        for kind in wanted:
            check_choice("kinds", kind, NODE_KINDS)
        starts = None if around is None else self._starts(around)
        ordered = tuple(kind for kind in NODE_KINDS if kind in wanted)
        selection = _Selection(starts, hops, ordered, limit, min(EDGES_EACH * limit, NO_LIMIT))

        def work(tx: Transaction) -> MultiDiGraph:
            graph = nx.MultiDiGraph(namespace=tx.ns)
            nodes = selection.read_nodes(tx)
            graph.add_nodes_from(nodes.items())
            for values in selection.read_edges(tx, nodes):
                key = " ".join(filter(None, (values["type"], values.get("agent"))))
                graph.add_edge(values.pop("source"), values.pop("target"), key, **values)
            return graph

        return self._graph.view(work)

    def _starts(self, around: HasId | str | Sequence[HasId | str]) -> list[str]:
        one = isinstance(around, str | HasId)
        items: list[Any] = [around] if one else [*checked_items("around", around)]  # type: ignore[arg-type]
        if not items:
            raise ValidationError("around", items, "is empty", "or give None for all")
        return [identity for item in items for identity in self._ids_of(item)]

    def _ids_of(self, item: HasId | str) -> list[str]:
        text = item if isinstance(item, str) else getattr(item, "id", None)
        if not isinstance(text, str):
            raise ValidationError("around", item, "has no id", "give an id, a text, or an item")
        check_text("around", text)
        if self._graph.read("neighbourhood.nodes", ids=[text]):
            return [text]
        if row := next(self._items.find(text), None):
            return [row["id"]]
        if tasks := task_ids(self._graph, str(checked_text("around", text))):
            return tasks
        raise self._items.missing(text)


@dataclass(frozen=True)
class _Selection:
    """Which nodes to read: all of some kinds, or those around some nodes."""

    starts: list[str] | None
    hops: int
    kinds: tuple[NodeKind, ...]
    most_nodes: int
    most_edges: int

    def read_nodes(self, tx: Transaction) -> dict[str, Row]:
        """Return the values of the nodes by their ids, in the order of kinds and ids."""
        ids = self._all(tx) if self.starts is None else self._around(tx)
        rows = (row for page in pages(ids, PAGE) for row in tx.run("neighbourhood.nodes", ids=page))
        known = {row.pop("id"): _plain_values(row) for row in rows}
        return {identity: known[identity] for identity in ids if identity in known}

    def read_edges(self, tx: Transaction, nodes: Mapping[str, Row]) -> Iterator[Row]:
        """Yield the edges between nodes, each with its ``source`` and ``target``."""
        number = 0
        kinds: dict[str, list[str]] = {}
        for identity, values in nodes.items():
            kinds.setdefault(values["kind"], []).append(identity)
        for kind in _WITH_EDGES:
            # A strategy has an edge to each of its tasks: too many to read in vain.
            more = {"with_tasks": "task" in kinds} if kind == "strategy" else {}
            statement = f"network.{kind.replace('-', '_')}_edges"
            for row in self._read_edges(tx, statement, kinds.get(kind, []), **more):
                if row["source"] in nodes and row["target"] in nodes:
                    number += 1
                    self._check("edges", number, self.most_edges)
                    yield _plain_values(row)

    def _check(self, what: str, number: int, most: int) -> None:
        if number > most:
            part = "what is around an item (around)" if self.starts is None else "fewer hops"
            remedy = f"take a part: {part}, or fewer kinds (kinds); or give a greater limit"
            raise ValidationError("limit", None, f"there are more than {most:,} {what}", remedy)

    def _read_edges(
        self, tx: Transaction, statement: str, ids: Sequence[str], **given: Any
    ) -> Iterator[Row]:
        for page in pages(ids, PAGE):
            rows = tx.run(statement, ids=page, limit=self.most_edges + 1, **given)
            self._check("edges", len(rows), self.most_edges)
            yield from rows

    def _all(self, tx: Transaction) -> list[str]:
        limit = min(self.most_nodes + 1, NO_LIMIT)
        found: list[str] = []
        for kind in self.kinds:
            rows = tx.run(f"network.ids_{kind.replace('-', '_')}", limit=limit)
            found += [row["id"] for row in rows]
            self._check("nodes", len(found), self.most_nodes)
        return found

    def _around(self, tx: Transaction) -> list[str]:
        found: dict[str, NodeKind] = {}
        new = sorted(set(self.starts or ()))
        for step in range(self.hops + 1):
            for page in pages(new, PAGE):
                for row in tx.run("neighbourhood.nodes", ids=page):
                    if step == 0 or row["kind"] in self.kinds:
                        found[row["id"]] = row["kind"]
            self._check("nodes", len(found), self.most_nodes)
            if step == self.hops:
                break
            by_kind: dict[str, list[str]] = {}
            for identity in new:
                if identity in found:
                    by_kind.setdefault(found[identity].replace("-", "_"), []).append(identity)
            ends: set[str] = set()
            for kind, known in by_kind.items():
                for row in self._read_edges(tx, f"neighbourhood.{kind}_edges", known):
                    ends |= {row["source"], row["target"]}
            new = sorted(ends - found.keys())
        return sorted(found, key=lambda identity: (NODE_KINDS.index(found[identity]), identity))


def _plain_values(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is there; texts without characters that XML cannot hold."""
    return {
        name: _NOT_XML.sub("\ufffd", value) if isinstance(value, str) else value
        for name, value in row.items()
        if value is not None
    }
