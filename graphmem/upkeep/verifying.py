"""Deriving everything anew from the facts: verify and rebuild; and the counts of a memory.

Work goes in pages of strategies, tasks and agents, each page in a transaction that keeps writers
of these nodes out. A rebuild that is cut off leaves every page either as it was or as it should
be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from graphmem.advice.predict import Forecaster
from graphmem.episodes.learning import settled_half_life
from graphmem.episodes.rows import classify, read_contents
from graphmem.graph.derived import (
    GENERAL_RULES,
    KINDS,
    LABELS,
    POLICIES,
    POLICY_LINKS,
    PREFERRED,
    differences_of,
    key_of,
    upkeep,
)
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import canonical_json, digest, from_millis, node_id
from graphmem.lessons import general_rules as consolidation
from graphmem.lessons.reading import LessonReader
from graphmem.models import Difference, RebuildReport, Stats, VerifyReport
from graphmem.people.preferences import Supersessions
from graphmem.policies import rebuilding as derivation
from graphmem.policies.cycles import Cycles
from graphmem.policies.rebuilding import Derived
from graphmem.policies.streams import lock, took
from graphmem.search.queue import Loosened
from graphmem.search.similarity import Similarity
from graphmem.store.paging import pages
from graphmem.store.port import SCHEMA_VERSION, TEXTS, Row

Progress = Callable[[int, int], None]


class Maintainer:
    """Checks and mends what was derived in one namespace."""

    def __init__(
        self,
        graph: Graph,
        similarity: Similarity,
        forecaster: Forecaster,
    ) -> None:
        self._graph = graph
        self._settings = graph.settings
        self._namespace_id = node_id(graph.ns, "Namespace")
        self._cycles = Cycles(graph)
        self._lessons = LessonReader(graph)
        self._supersessions = Supersessions(graph)
        self._similarity = similarity
        self._forecaster = forecaster

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

    def verify(self, on_progress: Progress | None = None) -> VerifyReport:
        """Derive everything from the facts and compare it with what is stored.

        Also compares every episode with the hash of its content, so that a fact that was changed
        or lost is found. Numbers agree when they differ by at most 1e-9 (relative or absolute).
        """
        differences: list[Difference] = []
        checked = {kind.name: 0 for kind in KINDS} | {"policies": 0, "policy_links": 0}
        half_life = self.half_life()
        ids = self._ids()
        episodes = self._episode_ids()
        streams = self._streams()
        total = sum(map(len, ids.values())) + len(episodes)
        total += sum(stream["last"] for stream in streams)
        done = 0
        for label in LABELS:
            for page in pages(ids[label]):
                found, counted = self._graph.view(
                    lambda tx, label=label, page=page: self._compare(tx, label, page, half_life)  # type: ignore[misc]
                )
                differences += found
                for name, count in counted.items():
                    checked[name] += count
                done += len(page)
                if on_progress:
                    on_progress(done, total)
        for stream in streams:
            derived = self._graph.view(lambda tx, stream=stream: self._derived(tx, stream))  # type: ignore[misc]
            if derived is None:
                continue
            differences += _policy_differences(derived)
            checked["policies"] += len(derived.stored)
            checked["policy_links"] += len(derived.stored_links)
            done += stream["last"]
            if on_progress:
                on_progress(done, total)
        for page in pages(episodes):
            differences += self._graph.view(lambda tx, page=page: self._facts(tx, page))  # type: ignore[misc]
            done += len(page)
            if on_progress:
                on_progress(done, total)
        found, counted = self._graph.view(self._compare_general)
        differences += found
        said, supersessions = self._supersessions.verify()
        differences += said
        unlike, similar = self._similarity.verify()
        differences += unlike
        unfitted, pooled = self._forecaster.verify()
        differences += unfitted
        checked |= {"episodes": len(episodes), "supersessions": supersessions}
        checked |= {**counted, **similar, **pooled}
        return VerifyReport(ok=not differences, differences=tuple(differences), checked=checked)

    def rebuild(self, on_progress: Progress | None = None) -> RebuildReport:
        """Derive everything from the facts and store it, with the settings in force now."""
        written = {kind.name: 0 for kind in KINDS}
        removed = 0
        half_life = self._graph.transact(self._resettle)
        ids = self._ids()
        streams = self._streams()
        episodes = self._episode_ids()
        total = sum(map(len, ids.values())) + len(episodes) + sum(row["last"] for row in streams)
        done = 0
        for page in pages(episodes):
            self._graph.transact(lambda tx, page=page: self._reclassify(tx, page))  # type: ignore[misc]
            done += len(page)
            if on_progress:
                on_progress(done, total)
        for label in LABELS:
            for page in pages(ids[label]):
                counted, dropped = self._graph.transact(
                    lambda tx, label=label, page=page: self.derive(tx, label, page, half_life)  # type: ignore[misc]
                )
                for name, count in counted.items():
                    written[name] += count
                removed += dropped
                done += len(page)
                if on_progress:
                    on_progress(done, total)
        policies = links = 0
        for stream in streams:
            counts = self._graph.transact(
                lambda tx, stream=stream: self.rebuild_stream(tx, stream["stream"])  # type: ignore[misc]
            )
            policies, links, removed = policies + counts[0], links + counts[1], removed + counts[2]
            done += stream["last"]
            if on_progress:
                on_progress(done, total)
        self._graph.transact(self.consolidate_anew)
        superseded = self._supersessions.rebuild()
        self._graph.transact(self._cycles.renew)
        self._graph.transact(lambda tx: tx.run("predictions.drop_about"))
        self._forecaster.refit()
        return RebuildReport(
            similar=self._similarity.rebuild(),
            policies=policies,
            policy_links=links,
            strategies=written["strategies"],
            tasks=written["tasks"],
            agents=written["agents"],
            outcomes=written["outcomes"],
            co_occurrences=written["co_occurrences"],
            heuristics=written["heuristics"],
            anti_patterns=written["anti_patterns"],
            rules=written["rules"],
            mistakes=written["mistakes"],
            supersessions=superseded[0],
            removed=removed + superseded[1],
        )

    def rebuild_stream(self, tx: Transaction, stream: str) -> tuple[int, int, int]:
        """Derive the policies of a stream anew; return counts of them, of edges, of those gone."""
        row = lock(tx, [stream]).get(stream)
        if row is None:
            return 0, 0, 0
        derived = derivation.derive(tx, row)
        return derivation.write(tx, derived)

    def _derived(self, tx: Transaction, stream: Row) -> Derived | None:
        if self._graph.must_lock:  # keep writers off this stream
            locked = lock(tx, [stream["stream"]]).get(stream["stream"])
        else:
            rows = tx.run("events.streams", agent=stream["agent"])
            locked = rows[0] if rows else None
        return derivation.derive(tx, locked) if locked else None

    def derive(
        self,
        tx: Transaction,
        label: str,
        page: Sequence[str],
        half_life: float,
        only: Mapping[str, dict[str, Any]] = MappingProxyType({}),
    ) -> tuple[dict[str, int], int]:
        """Write what the facts say of a page of nodes; return counts, and how many were dropped.

        ``only`` narrows the edges of a kind to those that can have changed.
        """
        tx.run(upkeep("lock", label), ids=list(page))
        for kind in KINDS:
            if kind.label == label and kind.linked:
                kind.clear(tx, page)
        texts = Loosened(tx, label, page) if label in TEXTS else None
        dropped = tx.run(upkeep("drop", label), ids=list(page))
        counted = {}
        for kind in KINDS:
            if kind.label == label:
                narrow = only.get(kind.name, {})
                rows = kind.derive(tx, page, half_life, **narrow)
                counted[kind.name] = kind.put(tx, page, rows, **narrow)
        if texts:
            texts.mark()
        return counted, int(dropped[0]["removed"]) if dropped else 0

    def _compare(
        self, tx: Transaction, label: str, page: Sequence[str], half_life: float
    ) -> tuple[list[Difference], dict[str, int]]:
        if self._graph.must_lock:  # keep writers off this page
            tx.run(upkeep("lock", label), ids=list(page))
        differences: list[Difference] = []
        counted = {}
        for kind in KINDS:
            if kind.label != label:
                continue
            expected = {key_of(kind, row): row for row in kind.derive(tx, page, half_life)}
            stored = {key_of(kind, row): row for row in kind.stored(tx, page)}
            for key in [key for key, row in expected.items() if row.get("uses") == 0]:
                expected.pop(key)
            counted[kind.name] = len(expected)
            differences += differences_of(kind, stored, expected)
        if label == "Strategy":
            differences += [
                Difference(kind="strategies", key=row["id"], field="merged_into", **_both(row))
                for row in tx.run("lessons_maintenance.merged", ids=list(page))
            ]
        return differences, counted

    def _compare_general(self, tx: Transaction) -> tuple[list[Difference], dict[str, int]]:
        """Compare general rules and alternatives with the facts, unless something came since."""
        if self._graph.must_lock:
            consolidation.lock(tx)
        rules = consolidation.derive(tx)
        if rules is None:
            return [], {}
        alternatives = self._lessons.preferred(tx)
        expected = {GENERAL_RULES: rules, PREFERRED: alternatives}
        stored = {
            GENERAL_RULES: consolidation.stored(tx),
            PREFERRED: tx.run("lessons.preferred"),
        }
        differences = [
            difference
            for kind, rows in expected.items()
            for difference in differences_of(
                kind,
                {key_of(kind, row): row for row in stored[kind]},
                {key_of(kind, row): row for row in rows},
            )
        ]
        return differences, {kind.name: len(rows) for kind, rows in expected.items()}

    def consolidate_anew(
        self,
        tx: Transaction,
        touched: consolidation.Touched | None = None,
        strategies: Sequence[str] = (),
    ) -> None:
        """Find general rules and alternatives anew where there was a consolidation.

        All of them, or those that erasing episodes ``touched``, which used ``strategies`` (ids).
        """
        consolidation.renew(tx, touched)
        if not consolidation.lock(tx):
            tx.run("lessons.clear_preferred")
        elif touched is None or touched.current:
            self._lessons.refresh_preferred(tx)
        else:  # they are from before the latest episodes anyway
            tx.run("lessons.clear_preferred", ids=list(strategies))

    def _facts(self, tx: Transaction, page: Sequence[str]) -> list[Difference]:
        """Compare episodes with the hash of what was learned."""
        contents = read_contents(tx, list(page))
        hashes = tx.run("maintenance.hashes", ids=list(page))
        found = list(self._took_differences(tx, page, contents))
        found += [
            Difference(kind="episodes", key=key, field=name, stored=row[name], expected=value)
            for key, row, classes in self._misclassified(tx, page, contents)
            for name, value in classes.items()
            if row[name] != value
        ]
        for row in hashes:
            held = contents.get(row["id"])
            actual = digest(canonical_json(held)) if held is not None else None
            if actual != row["content_hash"]:
                found.append(
                    Difference(
                        kind="episodes",
                        key=row["id"],
                        field="content_hash",
                        stored=actual,
                        expected=row["content_hash"],
                    )
                )
        return found

    def _misclassified(
        self, tx: Transaction, page: Sequence[str], contents: Mapping[str, dict[str, Any]]
    ) -> Iterator[tuple[str, Row, dict[str, str | None]]]:
        """Yield episodes that count under something else than they should: id, stored, expected."""
        for row in tx.run("lessons_maintenance.classes", ids=list(page)):
            held = contents.get(row["id"])
            if held is not None:
                expected = classify(held)
                classes = {name: expected[name] for name in ("type", "type_rule", "error_class")}
                if any(row[name] != value for name, value in classes.items()):
                    yield row["id"], row, classes

    def _reclassify(self, tx: Transaction, page: Sequence[str]) -> None:
        """Have episodes count under what they should."""
        contents = read_contents(tx, list(page))
        rows = [
            {"id": key, **classes} for key, _, classes in self._misclassified(tx, page, contents)
        ]
        if rows:
            tx.run("lessons_maintenance.put_classes", rows=rows)

    def _took_differences(
        self, tx: Transaction, page: Sequence[str], contents: Mapping[str, dict[str, Any]]
    ) -> Iterator[Difference]:
        """Compare the policies that episodes took with their steps."""
        ns = self._graph.ns
        expected = {}
        noted = tx.run("maintenance.noted", ids=list(page))
        for episode in (row["id"] for row in noted):
            held = contents.get(episode, {"agent": ""})
            steps = (
                (step.get("state"), step.get("action_type"), step.get("action"))
                for step in held.get("steps", ())
            )
            for taken, count, first in took(ns, held["agent"], steps):
                expected[f"{episode} {taken.id}"] = (count, first)
        rows = tx.run("maintenance.stored_took", ids=list(page))
        stored = {f"{row['episode']} {row['policy']}": (row["steps"], row["first"]) for row in rows}
        for key in sorted(stored.keys() | expected.keys()):
            if stored.get(key) != expected.get(key):
                yield Difference(
                    kind="took",
                    key=key,
                    field="steps",
                    stored=list(stored.get(key, ())),
                    expected=list(expected.get(key, ())),
                )

    def _streams(self) -> list[Row]:
        return self._graph.read("events.streams")

    def _ids(self) -> dict[str, list[str]]:
        ids: dict[str, list[str]] = {label: [] for label in LABELS}
        for name in ("maintenance.ids", "lessons_maintenance.ids"):
            for row in self._graph.read(name):
                ids[row["label"]].append(row["id"])
        return {label: sorted(found) for label, found in ids.items()}

    def _episode_ids(self) -> list[str]:
        rows = self._graph.read("maintenance.episode_ids")
        return [row["id"] for row in rows]

    def half_life(self, tx: Transaction | None = None) -> float:
        """Return the half-life of co-occurrences that the namespace was built with, in ms."""
        rows = (tx or self._graph).read("schema.namespace", id=self._namespace_id)
        if not rows:
            return self._settings.half_life_ms
        return settled_half_life(rows[0]["co_occurrence_half_life_days"], self._settings)

    def _resettle(self, tx: Transaction) -> float:
        """Adopt a half-life that was set explicitly; return the one in force, in milliseconds."""
        name = "co_occurrence_half_life_days"
        days = self._settings.co_occurrence_half_life_days
        if name in self._settings.model_fields_set:
            tx.run("schema.resettle", id=self._namespace_id, **{name: days})
        return self.half_life(tx)


def _both(row: Row) -> dict[str, Any]:
    return {"stored": row["stored"], "expected": row["expected"]}


def _policy_differences(derived: Derived) -> Iterator[Difference]:
    """Compare the policies and edges of a stream with what its events say."""
    gone = set(derived.without_evidence())
    policies = {
        key: {name: getattr(entry, name) for name in ("id", *derived.fields)}
        for key, entry in derived.table.entries.items()
        if key not in gone
    }
    yield from differences_of(POLICIES, derived.stored, policies)
    yield from differences_of(POLICY_LINKS, derived.stored_links, derived.links())
