"""Strategies that belong together: communities of those used together, or with texts alike."""

from __future__ import annotations

from collections.abc import Collection

from graphmem.errors import ValidationError
from graphmem.graph.arguments import check_limit
from graphmem.graph.graph import Graph, Transaction
from graphmem.models.reports import Community
from graphmem.network.selection import no_networkx
from graphmem.notebook.frames import Listed
from graphmem.store.paging import pages
from graphmem.store.port import Row

BONDS = 50_000
"""Most pairs that are looked at, the strongest first."""
_SEED = 1
_DIGITS = 4
"""Digits of similarities: servers keep fewer than the embedded engine."""
_PAGE = 1_000


class Communities:
    """Finds communities of strategies in one namespace."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def communities(self, limit: int = 20, *, resolution: float = 1.0) -> Listed[Community]:
        """Return groups of strategies that belong together, the largest first.

        Strategies belong together that were used in the same episodes (CO_OCCURS_WITH: each counts
        1) or whose texts are alike (SIMILAR_TO: the similarity counts). Louvain's method finds the
        groups, of the 50,000 strongest pairs; the same graph gives the same groups. A strategy
        without such a pair is in none, and merged strategies count as one. Texts that were not
        embedded yet are not linked; :meth:`similar` and :meth:`recall` do that.

        Args:
            limit: most groups to return.
            resolution: over 1 for smaller groups, under 1 for larger ones; over 0, at most 100.

        Raises:
            SettingsError: networkx is not installed (``pip install -e '.[plots]'``).
            ValidationError: an argument is wrong.
        """
        check_limit(limit)
        number = isinstance(resolution, int | float) and not isinstance(resolution, bool)
        if not number or not 0 < resolution <= 100:
            raise ValidationError("resolution", resolution, "is no number over 0, at most 100")
        try:
            import networkx as nx
        except ImportError:
            raise no_networkx("communities") from None

        def work(tx: Transaction) -> Listed[Community]:
            bonds = tx.run("analysis.bonds", limit=BONDS)
            ids = sorted({row[end] for row in bonds for end in ("one_id", "other_id")})
            # Numbers in order of ids: sets of texts have another order in each process.
            place = {identity: number for number, identity in enumerate(ids)}
            graph = nx.Graph()
            graph.add_nodes_from(range(len(ids)))
            for row in sorted(bonds, key=lambda row: (row["one_id"], row["other_id"])):
                row["similarity"] = round(row["similarity"], _DIGITS)
                weight = row["together"] + row["similarity"]
                graph.add_edge(place[row["one_id"]], place[row["other_id"]], weight=weight)
            found = nx.community.louvain_communities(
                graph, weight="weight", resolution=resolution, seed=_SEED
            )
            groups = [sorted(ids[number] for number in group) for group in found if len(group) > 1]
            groups.sort(key=lambda group: (-len(group), group))
            return Listed(_describe(tx, set(group), bonds) for group in groups[:limit])

        return self._graph.view(work)


def _describe(tx: Transaction, ids: set[str], bonds: Collection[Row]) -> Community:
    members = [
        row for page in pages(sorted(ids), _PAGE) for row in tx.run("network.uses", ids=page)
    ]
    members.sort(key=lambda row: (-row["uses"], row["text"], row["id"]))
    inside = [row for row in bonds if row["one_id"] in ids and row["other_id"] in ids]
    return Community(
        strategies=tuple(row["text"] for row in members),
        ids=tuple(row["id"] for row in members),
        uses=sum(row["uses"] for row in members),
        successes=sum(row["successes"] for row in members),
        together=sum(row["together"] for row in inside),
        alike=sum(row["similarity"] > 0 for row in inside),
    )
