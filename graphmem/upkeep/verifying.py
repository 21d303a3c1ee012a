"""Verifies and rebuilds derived data, part by part; and reads the counts of a memory.

An interrupted rebuild leaves every page either unchanged or rebuilt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from graphmem.advice.strengths import Strengths
from graphmem.graph.derived import COUNTED, TASKS, Page, Paged, Rebuilt, Verified, Work
from graphmem.graph.graph import Graph
from graphmem.ids import from_millis
from graphmem.lessons.general_rules import Consolidated
from graphmem.levels.topology import LevelCheck
from graphmem.models import Difference, RebuildReport, Stats, VerifyReport
from graphmem.people import Supersessions
from graphmem.policies.cycles import Cycles
from graphmem.policies.streams import StreamPolicies
from graphmem.search.vectors import Vectors
from graphmem.store.port import SCHEMA_VERSION
from graphmem.upkeep.counts import Counts, Facts, resettle

Progress = Callable[[int, int], None]
LISTED = 100
"""Differences of a kind that a report lists; the others are only counted."""
LOOSE = (
    *(f"maintenance.drop_loose_{kind}" for kind in ("heuristics", "anti_patterns", "tallies")),
    "lessons_maintenance.hold_rules",
)
"""What mends the edges by which items are found, since no page has items that lost theirs."""


class Whole:
    """A part like those of pages, but that opens its own transactions."""

    kinds = ()

    def __init__(
        self,
        kind: str,
        rebuild: Callable[[], int],
        verify: Callable[[Counter[str]], Iterable[Difference]] = lambda _: (),
        follows: Sequence[str] = (),
    ) -> None:
        self._kind, self._rebuild, self._verify = kind, rebuild, verify
        self.follows = follows

    def work(self) -> Work:
        """Return everything as one page."""
        return Work([Page()])

    def verify(self, page: Page) -> Verified:  # noqa: ARG002 - there is one
        """Compare it, if there is anything to compare."""
        checked: Counter[str] = Counter()
        return Verified(self._verify(checked), checked)

    def rebuild(self, page: Page) -> Rebuilt:  # noqa: ARG002 - there is one
        """Derive and store it again."""
        return Rebuilt({self._kind: self._rebuild()})


class Maintainer:
    """Verifies and rebuilds the derived data of one namespace."""

    def __init__(self, graph: Graph, vectors: Vectors, strengths: Strengths) -> None:
        self._graph = graph
        cycles = Cycles(graph)
        self._parts: tuple[Paged | Whole, ...] = (
            Facts(graph),
            Counts(graph),
            StreamPolicies(graph),
            Consolidated(graph),
            Supersessions(graph),
            LevelCheck(graph),
            Whole("cycles", lambda: graph.transact(cycles.renew)),
            Whole("predictions", lambda: int(graph.write("predictions.drop_about")[0]["removed"])),
            Whole("pooling", lambda: strengths.refit().trials, strengths.verify, COUNTED),
            Whole("similar", vectors.rebuild, vectors.verify, (TASKS.name,)),
        )

    def stats(self) -> Stats:
        """Return the counts of the namespace."""
        rows = self._graph.read("maintenance.stats")
        counts = {row["name"]: row["value"] for row in rows}
        first, last = counts.pop("first_at", None), counts.pop("last_at", None)
        version = self._graph.read("schema.version")
        store = self._graph.store
        return Stats(
            url=store.url,
            engine=f"{store.capabilities.engine} {store.capabilities.version}",
            namespace=self._graph.ns,
            schema_version=version[0]["version"] if version else SCHEMA_VERSION,
            first_at=from_millis(first),
            last_at=from_millis(last),
            snapshot_age=store.snapshot_age,
            **{name: value or 0 for name, value in counts.items()},
        )

    def verify(self, *, on_progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Derive every number from the facts again and compare; also check the facts.

        It works in pages, so that what it holds does not grow with the number of episodes.

        Args:
            on_progress: called with the number of facts that were read, and of all to read. An
                episode is read for itself, its task, its agent, and each of its strategies.
        """
        differences: list[Difference] = []
        differing: Counter[str] = Counter()
        checked = Counter({name: 0 for part in self._parts for name in part.kinds})
        for part, page in self._work(on_progress):
            if any(differing[kind] for kind in part.follows):
                continue
            verified = part.verify(page)
            for difference in verified.differences:
                differing[difference.kind] += 1
                if differing[difference.kind] <= LISTED:
                    differences.append(difference)
            for name, count in verified.checked.items():
                checked[name] += count
        return VerifyReport(
            ok=not differences,
            differences=tuple(differences),
            more=differing.total() - len(differences),
            differing=dict(differing),
            checked=dict(checked),
        )

    def rebuild(self, on_progress: Progress | None = None) -> RebuildReport:
        """Derive everything from the facts and store it, with the present settings."""
        self._graph.transact(resettle)
        self._graph.reload()
        written: Counter[str] = Counter()
        removed = 0
        for name in LOOSE:
            self._graph.write(name)
        for part, page in self._work(on_progress):
            rebuilt = part.rebuild(page)
            written.update(rebuilt.written)
            removed += rebuilt.removed
        counts = {name: written[name] for name in RebuildReport.model_fields}
        return RebuildReport(**{**counts, "removed": removed})

    def _work(self, on_progress: Progress | None) -> Iterator[tuple[Paged | Whole, Page]]:
        """Yield the pages of each part, and report how many of the facts were read."""
        work = [(part, part.work()) for part in self._parts]
        total, done = sum(of_part.size for _, of_part in work), 0
        for part, of_part in work:
            for page in of_part.pages:
                yield part, page
                done += page.size
                if on_progress and page.size:
                    on_progress(done, max(done, total))  # more may be there by now
