"""Verifies and rebuilds what is derived from episodes, part by part; and takes the shares of some.

The work is done in pages of nodes, each in a transaction that locks these nodes. Nodes with many
episodes have fewer in a page. An interrupted rebuild leaves every page either unchanged or rebuilt.
Of erased episodes only the shares are taken away: the time depends on what goes, not what stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphmem.advice.estimate import Strengths
from graphmem.config import KEPT
from graphmem.episodes.rows import classes_of, failures_of, hashed, read_contents
from graphmem.graph.arguments import Progress, check_function
from graphmem.graph.derived import (
    ANTI_PATTERNS,
    COUNTED,
    HEURISTICS,
    KINDS,
    LABELS,
    RECENT,
    SHARED,
    STRATEGIES,
    TALLIES,
    TASKS,
    Kind,
    Page,
    Paged,
    Rebuilt,
    Verified,
    upkeep,
)
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import canonical_json, digest, from_millis, stream_id
from graphmem.lessons.general_rules import Consolidated
from graphmem.levels.topology import LevelCheck
from graphmem.models.reports import Difference, RebuildReport, Stats, VerifyReport
from graphmem.policies.cycles import Cycles
from graphmem.policies.streams import StreamPolicies, lock, took
from graphmem.search.edges import queue_changes
from graphmem.search.vectors import Vectors
from graphmem.store.paging import pages, ranges, weighed
from graphmem.store.port import SCHEMA_VERSION, Row

USES = 20_000  # episodes of the nodes in a page: an engine holds a row for each use
WRITTEN = 4_000
"""The same on a server, which holds what a transaction writes: some ten nodes and edges a use."""
RANGE = 20_000  # ids of nodes to read at once
EPISODES = 1_000  # episodes in a page of these
ITEMS = 2_000  # episodes and steps in a page of these
_FEW = 50  # most values that narrow a derivation; an engine looks through them one by one
_PAGE = 1_000
_EPISODES = Kind("episodes", "Episode")  # facts, of which some fields follow from others
Contents = Mapping[str, Row]  # of episodes, by id
_OPPOSING = ("successes", "odds")  # counts of opposing successes, and what follows from them


class Facts(Paged):
    """The episodes of one namespace."""

    kinds = ("episodes",)

    def work(self) -> tuple[Iterable[Page], int]:
        """Return the ids of episodes."""
        rows = self._graph.read("maintenance.sizes")
        count = sum(row["nodes"] for row in rows if row["label"] == "Episode")
        return self._pages(count), count

    def _pages(self, count: int) -> Iterator[Page]:
        for first, beyond in ranges(count, RANGE):
            rows = self._graph.read("maintenance.ids_episodes", first=first, beyond=beyond)
            weights = ((row["id"], 1 + row["uses"]) for row in rows)
            for page in weighed(weights, ITEMS, EPISODES):
                yield Page(page, len(page))

    def compare(self, tx: Transaction, page: Page) -> Verified:
        """Compare episodes with the hash of their content, and with what follows from it."""
        contents = read_contents(tx, page.items)
        differences = list(_took_differences(tx, page.items, contents))
        for row, right in _counted(tx, page.items, contents):
            held = contents.get(row["id"])
            actual = None if held is None else digest(canonical_json(hashed(held)))
            was, should = {**row, "content_hash": actual}, {**row, **right}
            differences += _EPISODES.differences({row["id"]: was}, {row["id"]: should})
        return Verified(differences, {"episodes": len(page.items)})

    def mend(self, tx: Transaction, page: Page) -> Rebuilt:
        """Let episodes count by their latest outcome, under the right classes."""
        contents = read_contents(tx, page.items)
        counted = _counted(tx, page.items, contents)
        if rows := [{**row, **right} for row, right in counted if row != {**row, **right}]:
            tx.run("settling.put", rows=rows)
        return Rebuilt()


def counted_classes(held: Mapping[str, Any]) -> Row:
    """Return the classes under which an episode counts, and those of its uses that failed."""
    return {**classes_of(held), "failed": [failed or "" for failed in failures_of(held)]}


def _counted(tx: Transaction, ids: list[str], contents: Contents) -> Iterator[tuple[Row, Row]]:
    """Yield what episodes count by, as stored, and what it should be."""
    # The latest of each comes last.
    outcomes = {row["episode"]: row["outcome"] for row in tx.run("settling.told", ids=ids)}
    for row in tx.run("maintenance.classes", ids=ids):
        held, told = contents.get(row["id"]), outcomes.get(row["id"], {})
        yield row, {} if held is None else {**told, **counted_classes({**held, **told})}


def _took_differences(tx: Transaction, ids: list[str], contents: Contents) -> Iterator[Difference]:
    rows = tx.run("maintenance.stored_took", ids=ids)
    stored = {
        f"{row['episode']} {row['policy']}": [row["steps"], row["first"]]
        for row in rows
        if row["policy"] is not None
    }
    expected = {}
    for episode in {row["episode"] for row in rows if row["noted"]} & contents.keys():
        steps = (
            (step.get("state"), step.get("action_type"), step.get("action"))
            for step in contents[episode].get("steps", ())
        )
        for taken, count, first in took(tx.ns, contents[episode]["agent"], steps):
            expected[f"{episode} {taken.id}"] = [count, first]
    for key in sorted(stored.keys() | expected.keys()):
        was, should = stored.get(key, []), expected.get(key, [])
        if was != should:
            yield Difference(kind="took", key=key, field="steps", stored=was, expected=should)


class Counts(Paged):
    """The counts on the nodes of one namespace, kind by kind."""

    kinds = tuple(kind.name for kind in KINDS)

    def work(self) -> tuple[Iterable[Page], int]:
        """Return the ids of nodes, by label; those with many episodes have fewer in a page."""
        rows = self._graph.read("maintenance.sizes")
        nodes = {row["label"]: row["nodes"] for row in rows if row["label"] in LABELS}
        return self._pages(nodes), sum(row["uses"] for row in rows if row["label"] in LABELS)

    def _pages(self, nodes: Mapping[str, int]) -> Iterator[Page]:
        for label in LABELS:
            most = min(USES, WRITTEN) if self._graph.must_lock else USES
            for first, beyond in ranges(nodes.get(label, 0), RANGE):
                rows = self._graph.read(upkeep("ids", label), first=first, beyond=beyond)
                uses = {row["id"]: row["uses"] for row in rows}
                for ids in weighed(uses.items(), most):
                    yield Page((label, ids), sum(uses[key] for key in ids))

    def compare(self, tx: Transaction, page: Page) -> Verified:
        """Compare the derived items of nodes with the facts."""
        label, ids = page.items
        if self._graph.must_lock:  # lock this page against writers
            _lock(tx, label, ids)
        differences: list[Difference] = []
        counted = {}
        for kind in _kinds_of(label):
            expected = [row for row in kind.derive(tx, ids) if row.get("uses") != 0]
            counted[kind.name] = len(expected)
            differences += kind.compare(kind.stored(tx, ids), expected)
        if label == "Strategy":
            right = not differences
            differences += [
                Difference(kind="strategies", key=row.pop("id"), field="merged_into", **row)
                for row in tx.run("maintenance.merged", ids=ids)
            ]
            if right:  # it adds up numbers of the heuristics
                rows = tx.run("maintenance.opposing", ids=ids)
                was, should = (
                    {row["id"]: {name: row[start + name] for name in _OPPOSING} for row in rows}
                    for start in ("", "right_")
                )
                differences += ANTI_PATTERNS.differences(was, should)
        return Verified(differences, counted)

    def mend(self, tx: Transaction, page: Page) -> Rebuilt:
        """Write what the facts say of some nodes, and remove those without any fact."""
        verified = self.compare(tx, page)
        return derive(tx, *page.items) if verified.differences else Rebuilt(verified.checked)


def _kinds_of(label: str) -> list[Kind]:
    return [kind for kind in KINDS if kind.label == label]


def derive(tx: Transaction, label: str, ids: Sequence[str]) -> Rebuilt:
    """Write what the facts say of some nodes, and remove those without any fact."""
    _lock(tx, label, ids)
    for kind in _kinds_of(label):
        kind.clear(tx, ids)
    with queue_changes(tx, label, ids):
        removed = _drop(tx, label, ids)
        written = {kind.name: kind.put(tx, kind.derive(tx, ids)) for kind in _kinds_of(label)}
    return Rebuilt(written, removed)


def _drop(tx: Transaction, label: str, ids: Sequence[str]) -> int:
    """Remove those of some nodes that no episode supports; return how many."""
    dropped = tx.run(upkeep("drop", label), ids=list(ids))
    return int(dropped[0]["removed"]) if dropped else 0


class Shares:
    """The shares of some episodes, read before these are removed."""

    def __init__(self, tx: Transaction, episodes: Sequence[str]) -> None:
        self._tx, self._episodes = tx, episodes
        self.rows = {kind.name: kind.derive(tx, episodes, "share") for kind in SHARED}

    def take(self, label: str, ids: Sequence[str]) -> int:
        """Take the shares from nodes of a label that the episodes were linked to."""
        if label not in ("Strategy", "Task", "Agent"):
            return sum(derive(self._tx, label, page).removed for page in pages(ids))
        removed = 0
        for page in pages(ids, _PAGE):
            if label == "Strategy":
                self._tx.run("lessons.unmerge", ids=page, unused=True)
            with queue_changes(self._tx, label, page):
                removed += _drop(self._tx, label, page)
                there = set(page)
                gone = {
                    kind.name: [row for row in self.rows[kind.name] if row[kind.home] in there]
                    for kind in SHARED
                    if kind.label == label
                }
                for kind in SHARED:
                    for some in pages(gone.get(kind.name, ()), _PAGE):
                        self.take_rows(kind, some)
                for some in pages(gone.get(HEURISTICS.name, ()), _PAGE):
                    self._tx.run("shares.weigh_anti_patterns", rows=some)
                self._renew_recent(gone.get(TASKS.name, []))
        return removed

    def take_rows(self, kind: Kind, rows: list[Row]) -> None:
        """Take shares from items; derive those anew of which a share does not tell everything."""
        keys = kind.take(self._tx, rows)
        rows = [row for row in rows if kind.key_of(row) in keys]
        if not rows:
            return
        narrow: dict[str, Any] = {}
        for name, column in kind.narrowed.items():
            values = sorted({row[column] for row in rows})
            narrow[name] = values if len(values) <= _FEW else None
        homes = sorted({row[kind.home] for row in rows})
        derived = kind.derive(self._tx, homes, **narrow)
        renewed = [row for row in derived if kind.key_of(row) in keys]
        if renewed and kind.linked:
            self._tx.run(f"shares.set_{kind.name}", rows=renewed)
            self._tx.run(f"maintenance.link_{kind.name}", rows=renewed)
        else:
            kind.put(self._tx, renewed)

    def replace(self, before: Shares, at: int) -> None:
        """Put the shares of an episode that stays in the place of those that it had ``before``.

        Its lessons have lost their links to it, and get new ones; ``at`` is its place among others.
        """
        (episode,) = self._episodes
        link = {"episode": episode, "at": at}
        for kind in SHARED:
            was, now = (kind.by_key(shares.rows[kind.name]) for shares in (before, self))
            fresh = [now[key] for key in now.keys() - was.keys()]
            if kind is HEURISTICS:
                evidence = [
                    {"id": row["id"], **link, "supports": row["successes"] > 0}
                    for row in now.values()
                ]
                self._add("evidence", evidence)
            elif kind is ANTI_PATTERNS:
                self._add_anti_patterns(fresh)
                self._add("failures", [{"id": row["id"], **link} for row in now.values()])
            lost = [_lost(row, now.get(key)) for key, row in was.items() if row != now.get(key)]
            self.take_rows(kind, lost)
        self._tx.run("shares.weigh_anti_patterns", rows=self.rows[HEURISTICS.name])
        for kind in (STRATEGIES, TALLIES):
            ids = [kind.key_of(row) for row in self.rows[kind.name]]
            self._tx.run(f"shares.weigh_{kind.name}", ids=ids)

    def _add_anti_patterns(self, rows: list[Row]) -> None:
        stored = ANTI_PATTERNS.stored(self._tx, sorted({row["strategy"] for row in rows}))
        there = {row["id"] for row in stored}
        for row in rows:
            name = "anti_patterns" if row["id"] in there else "new_anti_patterns"
            self._add(name, [{**row, "trials": row["occurrences"]}], now=row["created_at"])

    def _add(self, name: str, rows: list[Row], **dated: int) -> None:
        if rows:
            self._tx.run("learning.add_many", name, half_life=None, **{name: rows}, **dated)

    def _renew_recent(self, rows: list[Row]) -> None:
        found = self._tx.run("shares.lacking_recent", rows=rows) if rows else []
        if lacking := [row["id"] for row in found]:
            RECENT.clear(self._tx, lacking)
            RECENT.put(self._tx, RECENT.derive(self._tx, lacking))


def _lost(was: Row, now: Row | None) -> Row:
    if now is None:
        return was
    lost = {
        name: value
        if name.endswith("_at") or not isinstance(value, int | float)
        else value - now[name]
        for name, value in was.items()
    }
    # On a side of the sample where the episode stays, no link is lost.
    sides = ("won_at", "lost_at", "failed_at")
    lost |= {side: None for side in sides if side in was and was[side] == now[side]}
    # What outcomes count elsewhere does not add up: it is derived at the end.
    lost |= {name: 0.0 for name in lost if name.startswith("effective_")}
    return {**lost, "added": now["latest"]} if "latest" in was else lost


def _lock(tx: Transaction, label: str, ids: Sequence[str]) -> None:
    """Lock nodes, and what learning locks before it changes their derived data."""
    if label == TALLIES.label and tx.graph.must_lock:
        names = [row["name"] for row in tx.run("maintenance.stored_agents", ids=list(ids))]
        lock(tx, [stream_id(tx.ns, name) for name in names])
    tx.run(upkeep("lock", label), ids=list(ids))


LISTED = 100  # differences of a kind that a report lists; the others are only counted
LOOSE = (
    *(f"maintenance.drop_loose_{kind}" for kind in ("heuristics", "anti_patterns", "tallies")),
    "maintenance.hold_rules",
)
"""What mends the edges by which items are found, since no page has items that lost theirs."""


@dataclass
class Whole(Paged):
    """A part that opens its own transactions."""

    kind: str
    derive: Callable[[], int]
    check: Callable[[Counter[str]], Iterable[Difference]] | None = None
    follows: Sequence[str] = ()

    def verify(self, page: Page) -> Verified:  # noqa: ARG002 - there is one
        """Compare it, if there is anything to compare."""
        checked: Counter[str] = Counter()
        return Verified(self.check(checked) if self.check else (), checked)

    def rebuild(self, page: Page) -> Rebuilt:  # noqa: ARG002 - there is one
        """Derive and store it again."""
        return Rebuilt({self.kind: self.derive()})


class Maintainer:
    """Verifies and rebuilds the derived data of one namespace."""

    def __init__(self, graph: Graph, vectors: Vectors, strengths: Strengths) -> None:
        self._graph = graph
        cycles = Cycles(graph)
        self._parts: tuple[Paged, ...] = (
            Facts(graph),
            Counts(graph),
            StreamPolicies(graph),
            Consolidated(graph),
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
        check_function("on_progress", on_progress)
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

    def rebuild(self, *, on_progress: Callable[[int, int], None] | None = None) -> RebuildReport:
        """Recompute every derived number from the facts and store it, by the present settings."""
        check_function("on_progress", on_progress)
        own, key = self._graph.given, self._graph.namespace_id
        kept = {name: getattr(own, name) for name in KEPT if name in own.model_fields_set}
        self._graph.transact(lambda tx: tx.run("schema.resettle", id=key, given=kept))
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

    def _work(self, on_progress: Progress | None) -> Iterator[tuple[Paged, Page]]:
        work = [(part, part.work()) for part in self._parts]
        total, done = sum(size for _, (_, size) in work), 0
        for part, (pages_of_part, _) in work:
            for page in pages_of_part:
                yield part, page
                done += page.size
                if on_progress and page.size:
                    on_progress(done, max(done, total))  # more may be there by now
