"""The graph as nodes and edges with plain values, for other programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphmem.errors import SettingsError, ValidationError
from graphmem.graph.arguments import check_choice, check_limit, checked_items
from graphmem.graph.graph import Graph, Transaction
from graphmem.kinds import NODE_KINDS, NodeKind
from graphmem.store.paging import PAGE, pages
from graphmem.store.port import Row

if TYPE_CHECKING:
    from networkx import MultiDiGraph

LEARNED = NODE_KINDS[:-2]
"""The kinds that are read where none are named: what was learned, without who did what."""
NODES = 10_000  # most nodes of a network in memory, where no limit is given
EDGES_EACH = 20  # most edges, for each node that the limit allows
NO_LIMIT = 2**31 - 2  # a limit that is never reached
_WITH_EDGES = ("strategy", "task", "heuristic", "anti-pattern", "policy", "episode")
"""The kinds of nodes that edges belong to: ``network.KIND_edges`` lists them."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Network:
    """Reads the network of one namespace."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def to_networkx(
        self, *, kinds: Sequence[NodeKind] | None = None, limit: int | None = NODES
    ) -> MultiDiGraph:
        """Return the graph as a graph of networkx; ``networkx.ego_graph`` cuts out a part.

        A node is an id, and has ``kind``, ``text``, ``trials`` and ``successes``. An edge has
        ``type``, and as far as there are any ``agent``, ``trials``, ``successes`` and ``weight``
        (of CO_OCCURS_WITH, or the similarity of SIMILAR_TO). All are texts and numbers, so that
        networkx can write them as GraphML; a character that XML cannot hold is replaced.

        Args:
            kinds: of "strategy", "task", "heuristic", "anti-pattern", "rule", "policy", "state",
                "agent" and "episode", those to take; default: all but the last two.
            limit: most nodes; there are at most twenty times as many edges. None: any number.

        Raises:
            SettingsError: networkx is not installed (``pip install -e '.[plots]'``).
            ValidationError: an argument is wrong, or there are more nodes or edges.
        """
        try:
            nx: Any = import_module("networkx")
        except ImportError:
            raise SettingsError(
                "networkx is not installed; in a clone of graphmem: pip install -e '.[plots]'"
            ) from None
        check_limit(NODES if limit is None else limit)
        wanted = LEARNED if kinds is None else tuple(checked_items("kinds", kinds))
        for kind in wanted:
            check_choice("kinds", kind, NODE_KINDS)
        most = NO_LIMIT if limit is None else limit

        def work(tx: Transaction) -> MultiDiGraph:
            graph = nx.MultiDiGraph(namespace=tx.ns)
            nodes = _read_nodes(tx, [kind for kind in NODE_KINDS if kind in wanted], most)
            graph.add_nodes_from(nodes.items())
            for values in _read_edges(tx, nodes, min(EDGES_EACH * most, NO_LIMIT)):
                key = " ".join(filter(None, (values["type"], values.get("agent"))))
                graph.add_edge(values.pop("source"), values.pop("target"), key, **values)
            return graph

        return self._graph.view(work)


def _read_nodes(tx: Transaction, kinds: Sequence[NodeKind], most: int) -> dict[str, Row]:
    """Return the values of the nodes by their ids, in the order of kinds and ids."""
    ids: list[str] = []
    for kind in kinds:
        statement = f"network.ids_{kind.replace('-', '_')}"
        ids += [row["id"] for row in tx.run(statement, limit=min(most + 1, NO_LIMIT))]
        _check("nodes", len(ids), most)
    rows = (row for page in pages(ids, PAGE) for row in tx.run("neighbourhood.nodes", ids=page))
    known = {row.pop("id"): _plain_values(row) for row in rows}
    return {identity: known[identity] for identity in ids if identity in known}


def _read_edges(tx: Transaction, nodes: Mapping[str, Row], most: int) -> Iterator[Row]:
    """Yield the edges between nodes, each with its ``source`` and ``target``."""
    number = 0
    kinds: dict[str, list[str]] = {}
    for identity, values in nodes.items():
        kinds.setdefault(values["kind"], []).append(identity)
    for kind in _WITH_EDGES:
        # A strategy has an edge to each of its tasks: too many to read in vain.
        more = {"with_tasks": "task" in kinds} if kind == "strategy" else {}
        statement = f"network.{kind.replace('-', '_')}_edges"
        for page in pages(kinds.get(kind, []), PAGE):
            rows = tx.run(statement, ids=page, limit=most + 1, **more)
            _check("edges", len(rows), most)
            for row in rows:
                if row["source"] in nodes and row["target"] in nodes:
                    number += 1
                    _check("edges", number, most)
                    yield _plain_values(row)


def _check(what: str, number: int, most: int) -> None:
    if number > most:
        remedy = "name fewer kinds (kinds), or give a greater limit"
        raise ValidationError("limit", None, f"there are more than {most:,} {what}", remedy)


def _plain_values(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is there; texts without characters that XML cannot hold."""
    return {
        name: _NOT_XML.sub("\ufffd", value) if isinstance(value, str) else value
        for name, value in row.items()
        if value is not None
    }
