"""Removes facts, and their exact share of everything derived from them.

The remaining derived data follows from the remaining facts, which ``verify`` confirms. In a folder
every call is one transaction. A server limits the memory of a transaction, so there many episodes
go in pages, each in a transaction of its own with its exact share. The other events of an agent
follow in pages, the latest first, and then its policies. A call that was interrupted has removed
some of it; the same call again removes the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import check_flag, check_text, checked_agent
from graphmem.graph.derived import LABELS, upkeep
from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.ids import EARLIEST, from_millis, node_id, state_id, stream_id, to_millis
from graphmem.lessons import general_rules as consolidation
from graphmem.levels.flow import drop_episode_entries
from graphmem.levels.topology import drop, owned_by
from graphmem.models import EraseReport, ForgetReport
from graphmem.people.scopes import erase_agent
from graphmem.people.users import erase_user
from graphmem.policies import rebuilding as derivation
from graphmem.policies.cycles import Cycles
from graphmem.policies.streams import Change, apply, lock
from graphmem.search.vectors import Vectors
from graphmem.store.paging import BEYOND, ranges
from graphmem.store.paging import pages as paged
from graphmem.store.port import Row
from graphmem.upkeep.counts import derive
from graphmem.upkeep.shares import LABELS as SHARED_LABELS
from graphmem.upkeep.shares import Shares

PAGE = 1_000
"""Episodes, events or policies of one transaction on a server."""
RANGE = 20_000
"""Ids of episodes that a server reads at once."""


@dataclass
class _Removed:
    """Counts of what was removed with episodes."""

    episodes: int = 0
    steps: int = 0
    policies: int = 0
    labels: list[str] = field(default_factory=list)

    def add(self, other: _Removed) -> None:
        """Count what was removed elsewhere, too."""
        self.episodes += other.episodes
        self.steps += other.steps
        self.policies += other.policies
        self.labels += other.labels


class Eraser:
    """Erases and forgets in one namespace."""

    def __init__(
        self,
        graph: Graph,
        vectors: Vectors,
    ) -> None:
        self._graph = graph
        self._vectors = vectors
        self._cycles = Cycles(graph)

    def erase_episode(self, episode_id: str) -> EraseReport:
        """Remove an episode (or an abandoned attempt) and its exact share of every derived number.

        Strategies, tasks, agents, rules and mistakes that nothing else supports are removed, too.

        Raises:
            NotFoundError: there is no such episode in this namespace.
        """
        check_text("episode_id", episode_id)

        def work(tx: Transaction) -> EraseReport:
            removed = self._remove(tx, [episode_id])
            if not removed.episodes:
                if abandoned := _drop_abandoned(tx, [episode_id]):
                    return EraseReport(episode_id=episode_id, abandoned=abandoned)
                raise NotFoundError(f"no episode {episode_id!r} in namespace {self._graph.ns!r}")
            return EraseReport(
                episode_id=episode_id,
                episodes=removed.episodes,
                steps=removed.steps,
                removed=tuple(removed.labels),
            )

        report = self._graph.transact(work)
        self._vectors.tidy()
        return report

    def erase_agent(self, agent: str) -> EraseReport:
        """Remove an agent with its episodes, policies, events, predictions, levels and scope.

        Raises:
            NotFoundError: there is no such agent in this namespace.
        """
        name = str(checked_agent(agent))
        identity = node_id(self._graph.ns, "Agent", name)
        ahead, predictions = _Removed(), 0
        if self._graph.must_lock:
            stream = stream_id(self._graph.ns, name)
            noted = self._graph.read("events.streams", agent=name)
            last = max((int(row["last"]) for row in noted if row["stream"] == stream), default=0)
            if last > PAGE:
                ids = [row["id"] for row in self._graph.read("erasing.episodes_of", agent=identity)]
                predictions = self._drop_predictions(self._graph, name)
                ahead, _ = self._remove_ahead(ids)
                ahead.policies += self._drop_experience(stream, last)
        report = self._graph.transact(lambda tx: self._erase_agent(tx, name))
        self._vectors.tidy()
        policies = {"Policy"} if ahead.policies else set()
        update = {
            "episodes": report.episodes + ahead.episodes,
            "steps": report.steps + ahead.steps,
            "policies": report.policies + ahead.policies,
            "predictions": report.predictions + predictions,
            "removed": tuple(sorted({*report.removed, *ahead.labels, *policies})),
        }
        return report.model_copy(update=update)

    def _drop_predictions(self, runner: Graph | Transaction, name: str) -> int:
        run = runner.write if isinstance(runner, Graph) else runner.run
        return int(run("erasing.drop_predictions", agent=name)[0]["removed"])

    def _remove_ahead(self, ids: Sequence[str]) -> tuple[_Removed, Sequence[str]]:
        """On a server, remove all but the last page of episodes; return what went, and the rest."""
        removed = _Removed()
        while self._graph.must_lock and len(ids) > PAGE:
            page, ids = ids[:PAGE], ids[PAGE:]
            removed.add(self._graph.transact(lambda tx, page=page: self._remove(tx, page)))  # type: ignore[misc]
        return removed, ids

    def _erase_agent(self, tx: Transaction, name: str) -> EraseReport:
        ns = self._graph.ns
        identity, stream = node_id(ns, "Agent", name), stream_id(ns, name)
        row = lock(tx, [stream]).get(stream)  # first, as learning does
        tx.run(upkeep("lock", "Agent"), ids=[identity])
        ids = [row["id"] for row in tx.run("erasing.episodes_of", agent=identity)]
        scopes = erase_agent(tx, name)
        abandoned = [found["id"] for found in tx.run("attempts.records", agent=name)]
        levels, lenses = owned_by(tx, name)
        if row is None and not any((ids, scopes, abandoned, levels, lenses)):
            raise NotFoundError(f"no agent {name!r} in namespace {ns!r}")
        # First, so that predictions about its own policies are counted, too.
        predictions = self._drop_predictions(tx, name)
        removed = self._remove(tx, ids)
        policies = removed.policies
        if row is not None:
            # Erasing episodes may have removed the stream, or added an event.
            row = lock(tx, [stream]).get(stream)
        if row is not None:
            policies += self._drop_stream(tx, row)
        tx.run("erasing.drop_agent", id=identity)
        known = ids or row is not None or scopes
        labels = {*removed.labels} | ({"Agent"} if known else set())
        labels |= {"Policy"} if policies else set()
        labels |= {"Level"} if levels else set()
        if lenses:
            tx.run("levels.remove_lenses", ids=lenses)
            labels.add("Lens")
        return EraseReport(
            agent=name,
            episodes=removed.episodes,
            steps=removed.steps,
            policies=policies,
            predictions=predictions,
            abandoned=_drop_abandoned(tx, abandoned),
            entries=sum(drop(tx, level) for level in levels),
            removed=tuple(sorted(labels)),
        )

    def erase_user(self, user: str) -> EraseReport:
        """Remove a user's preferences, and the knowledge that nobody else stated.

        Raises:
            NotFoundError: there is no such user in this namespace.
        """
        check_text("user", user)

        def work(tx: Transaction) -> EraseReport:
            erased = erase_user(tx, user)
            if erased is None:
                raise NotFoundError(f"no user {user!r} in namespace {self._graph.ns!r}")
            return EraseReport(user=user, preferences=erased[0], knowledge=erased[1])

        report = self._graph.transact(work)
        self._vectors.tidy()
        return report

    def compact(self) -> dict[str, Any]:
        """Rewrite the files; return what a report says of it."""
        store = self._graph.store
        return {"compacted": store.compact(), "read_by": store.readers()}

    def forget(
        self,
        older_than: float | timedelta | None,
        below_confidence: float | None,
        agent: str | None,
        *,
        dry_run: bool,
        now: datetime | None = None,
    ) -> ForgetReport:
        """Remove episodes that meet all given conditions on age and confidence.

        A dry run only counts, page by page.
        """
        name = checked_agent(agent)
        check_flag("dry_run", dry_run)
        before = _cut(older_than, self._graph.now() if now is None else to_millis(now))
        if below_confidence is not None and (
            isinstance(below_confidence, bool)
            or not isinstance(below_confidence, int | float)
            or not 0 <= below_confidence <= 1
        ):
            raise ValidationError(
                "below_confidence", below_confidence, "must be a number from 0 to 1"
            )
        if before is None and below_confidence is None:
            raise ValidationError(
                "older_than",
                None,
                "is missing, and so is below_confidence",
                "give older_than (days, for instance 90), below_confidence (for instance 0.3), or "
                "both; erase(agent=...) removes all of an agent",
            )

        chosen: list[str] | None = None
        ahead, rest = _Removed(), None
        if dry_run:
            return self._foretold(before, below_confidence, name)
        if self._graph.must_lock:
            # Chosen once: what goes first changes what is believed.
            chosen = self._forgettable(self._graph, before, below_confidence, name)
            ahead, rest = self._remove_ahead(chosen)

        def work(tx: Transaction) -> ForgetReport:
            ids = rest
            if ids is None:
                ids = self._forgettable(tx, before, below_confidence, name)
            removed = self._remove(tx, ids)
            removed.add(ahead)
            aged = [] if before is None else tx.run("attempts.records", before=before, agent=name)
            gone = _drop_abandoned(tx, [row["id"] for row in aged])
            return _told(removed, before, chosen or ids, gone)

        report = self._graph.transact(work)
        self._vectors.tidy()
        return report.model_copy(update=self.compact())

    def _foretold(self, before: int | None, below: float | None, agent: str | None) -> ForgetReport:
        """Return what forgetting would remove."""

        def work(reader: Reader) -> ForgetReport:
            ids = self._forgettable(reader, before, below, agent)
            removed = self._losses(reader, ids)
            aged = (
                []
                if before is None
                else reader.read("attempts.records", before=before, agent=agent)
            )
            report = _told(removed, before, ids, len(aged))
            return report.model_copy(update={"dry_run": True})

        return work(self._graph) if self._graph.must_lock else self._graph.view(work)

    def _losses(self, reader: Reader, ids: Sequence[str]) -> _Removed:
        """Count what removing episodes would remove, without removing it."""
        removed = _Removed()
        lost: Counter[tuple[str, str]] = Counter()
        held: dict[tuple[str, str], int] = {}
        moved: dict[str, set[str]] = {}
        for page in paged(ids):
            for row in reader.read("erasing.losses", ids=page):
                if row["label"] == "Episode":
                    removed.episodes += row["lost"]
                    removed.steps += row["held"]
                    continue
                node = row["label"], row["id"]
                lost[node] += row["lost"]
                held[node] = row["held"]
            experience = reader.read("erasing.experience", ids=page)
            took = {row["id"]: row for row in experience if row["took"] or row["transitions"]}
            for row in reader.read("erasing.touched", ids=list(took)) if took else ():
                of_agent = moved.setdefault(row["agent_name"], set())
                of_agent |= {row["id"], *took[row["id"]]["transitions"]}
        removed.labels = [node[0] for node, count in lost.items() if count == held[node]]
        for agent, gone in moved.items():
            for stream in reader.read("events.streams", agent=agent):
                if stream["level"] is None:
                    left = derivation.derive(reader, stream, gone)
                    removed.policies += len(left.gone)
        removed.labels += ["Policy"] * removed.policies
        return removed

    def _forgettable(
        self, tx: Reader, before: int | None, below: float | None, agent: str | None
    ) -> list[str]:
        """Return the episodes that are older and whose strategies all have a lower confidence."""
        within: list[tuple[str, str]] = [("", BEYOND)]
        if self._graph.must_lock:
            counts = {row["name"]: row["value"] for row in tx.read("maintenance.stats")}
            within = [*ranges(counts["episodes"] or 0, RANGE)]
        rows = [
            row
            for first, beyond in within
            for row in tx.read(
                "erasing.aged", before=before, agent=agent, first=first, beyond=beyond
            )
        ]
        if below is None:
            return [row["id"] for row in rows]
        believed = {
            (row["agent"], row["type"], row["strategy"])
            for row in tx.read("erasing.beliefs", below=float(below))
        }
        return [
            row["id"]
            for row in rows
            if row["strategies"]
            and not any((row["agent"], row["type"], text) in believed for text in row["strategies"])
        ]

    def _remove(self, tx: Transaction, ids: Sequence[str]) -> _Removed:
        """Remove episodes, and derive everything again to which they contributed."""
        ns = self._graph.ns
        touched = self._gather(tx, "erasing.touched", ids)
        if not touched:
            return _Removed()
        drop_episode_entries(tx, ids)
        pages = {
            "Agent": sorted({row["agent"] for row in touched}),
            "Task": sorted({row["task"] for row in touched}),
            "Strategy": sorted({name for row in touched for name in row["strategies"]}),
        }
        sentences = self._gather(tx, "erasing.sentences", ids)
        pages["Rule"] = sorted({name for row in sentences for name in row["rules"]})
        pages["Mistake"] = sorted({name for row in sentences for name in row["mistakes"]})
        # In the order of learning, which locks the stream of an agent first.
        lock(tx, sorted({stream_id(ns, row["agent_name"]) for row in touched}))
        for label in reversed(LABELS):
            for page in paged(pages[label]):
                tx.run(upkeep("lock", label), ids=page)
        # Another process may have erased some while this one waited for the locks.
        touched = self._gather(tx, "erasing.touched", ids)
        if not touched:
            return _Removed()
        # The latest first: an engine that keeps a node's edges in a list finds these at its end.
        touched.sort(key=lambda row: (row["recorded_at"], row["id"]), reverse=True)
        there = [row["id"] for row in touched]
        names = {stream_id(ns, row["agent_name"]): row["agent"] for row in touched}
        stream_of = {row["id"]: stream_id(ns, row["agent_name"]) for row in touched}
        experience = self._gather(tx, "erasing.experience", there)
        shares = Shares(tx, there)
        general = consolidation.drop(tx, there)
        removed = _Removed(episodes=len(there), steps=_drop(tx, there))
        for label in LABELS:
            removed.labels += [label] * _take(tx, shares, label, pages[label])
        consolidation.renew(tx, general, pages["Strategy"])
        took = sorted({name for row in experience for name in row["took"]})
        for page in paged(took):
            # Else their bounds, and values based on them, would reveal what was erased.
            tx.run("erasing.drop_crystallizations", ids=page)
        moved = sorted(
            {stream_of[row["id"]] for row in experience if row["took"] or row["transitions"]}
        )
        for stream in moved:
            removed.policies += derivation.rebuild(tx, stream).removed
        removed.labels += ["Policy"] * removed.policies
        for page in paged(sorted({name for row in experience for name in row["states"]})):
            tx.run("maintenance.drop_states", ids=page)
        subjects = [*pages["Strategy"], *took]
        for page in paged(subjects):
            self._cycles.renew(tx, page)
            tx.run("predictions.drop_about", ids=page)
        for stream, agent in sorted(names.items()):
            self._note_erased(tx, stream, agent)
        # They were fitted to the erased episodes, too; the next prediction fits them again.
        tx.run("forecasting.drop_pooling")
        return removed

    def _note_erased(self, tx: Transaction, stream: str, agent: str) -> None:
        """Add an event about the erasure to the stream, or remove an empty stream."""
        row = lock(tx, [stream]).get(stream)
        if row is None:
            return
        gone = not tx.run("maintenance.stored_agents", ids=[agent])
        if gone and not tx.run("maintenance.stored_policies", stream=stream):
            self._drop_stream(tx, row)
            return
        apply(tx, [Change(row["agent"], "erased", {})])

    def _drop_stream(self, tx: Transaction, row: Row) -> int:
        """Remove a stream, its events, transitions and policies; return the number of policies."""
        stream = row["stream"]
        policies = tx.run("maintenance.stored_policies", stream=stream)
        ids = derivation.event_ids(stream, 1, int(row["last"]))
        states: set[str] = set()
        for page in paged(ids):
            states |= {row["id"] for row in tx.run("erasing.states_of", ids=page)}
            tx.run("erasing.drop_transitions", ids=page)
        self._drop_policies(tx, policies)
        tx.run("maintenance.drop_stream", stream=stream, ids=list(ids))
        for page in paged(sorted(states)):
            tx.run("maintenance.drop_states", ids=page)
        return len(policies)

    def _drop_experience(self, stream: str, last: int) -> int:
        """On a server, remove the events of a stream, and then its policies; return how many."""

        def drop(tx: Transaction, ids: Sequence[str]) -> bool:
            row = lock(tx, [stream]).get(stream)
            since = () if row is None else derivation.event_ids(stream, last + 1, int(row["last"]))
            for page in paged([*ids, *since]):
                states = [row["id"] for row in tx.run("erasing.states_of", ids=page)]
                tx.run("erasing.drop_transitions", ids=page)
                tx.run("erasing.drop_noted", ids=page)
                tx.run("maintenance.drop_states", ids=states)
            return row is not None

        def drop_policies(tx: Transaction, policies: Sequence[Row]) -> None:
            if drop(tx, ()):  # what others wrote of these meanwhile
                self._drop_policies(tx, policies)

        ids = derivation.event_ids(stream, 1, last)
        for page in reversed([*paged(ids, PAGE)]):
            self._graph.transact(lambda tx, page=page: drop(tx, page))  # type: ignore[misc]
        policies = self._graph.read("maintenance.stored_policies", stream=stream)
        for some in paged(policies, PAGE):
            self._graph.transact(lambda tx, some=some: drop_policies(tx, some))  # type: ignore[misc]
        return len(policies)

    def _drop_policies(self, tx: Transaction, policies: Sequence[Row]) -> None:
        """Remove policies, the states of no other, and the predictions about them."""
        for page in paged(policies):
            ids = [policy["id"] for policy in page]
            tx.run("maintenance.drop_policies", ids=ids)
            states = {state_id(self._graph.ns, policy["state"]) for policy in page}
            tx.run("maintenance.drop_states", ids=sorted(states))
            tx.run("predictions.drop_about", ids=ids)

    def _gather(self, tx: Transaction, name: str, ids: Sequence[str]) -> list[Row]:
        return [row for page in paged(ids) for row in tx.run(name, ids=page)]


def _drop(tx: Transaction, ids: Sequence[str]) -> int:
    """Remove episodes with what belongs to them alone; return the number of steps."""
    files: set[str] = set()
    steps = 0
    for page in paged(ids):
        # The other content of a file can mention any of its episodes.
        files |= {row["id"] for row in tx.run("exchange.forget", ids=page)}
        tx.run("erasing.drop_events", ids=page)
        dropped = tx.run("erasing.drop_steps", ids=page)
        steps += int(dropped[0]["removed"]) if dropped else 0
        tx.run("erasing.drop_runs", ids=page)
        tx.run("erasing.drop_episodes", ids=page)
    tx.run("exchange.drop", ids=sorted(files))
    return steps


def _told(
    removed: _Removed, before: int | None, ids: Sequence[str], abandoned: int
) -> ForgetReport:
    return ForgetReport(
        dry_run=False,
        before=from_millis(before),
        episodes=removed.episodes,
        steps=removed.steps,
        removed=dict(sorted(Counter(removed.labels).items())),
        episode_ids=tuple(ids),
        abandoned=abandoned,
    )


def _drop_abandoned(tx: Transaction, ids: Sequence[str]) -> int:
    """Remove attempts without an outcome, from which nothing was derived; return how many."""
    return sum(int(tx.run("attempts.drop", ids=page)[0]["removed"]) for page in paged(ids))


def _take(tx: Transaction, shares: Shares, label: str, ids: Sequence[str]) -> int:
    """Take the share of episodes from nodes of a label; return the number of removed nodes."""
    if label in SHARED_LABELS:
        if label == "Strategy":
            for page in paged(ids):
                tx.run("lessons.unmerge", ids=page, unused=True)
        return shares.take(label, ids)
    return sum(derive(tx, label, page).removed for page in paged(ids))


def _cut(older_than: float | timedelta | None, now: int) -> int | None:
    """Return the time before which episodes are old, or None."""
    if older_than is None:
        return None
    problem = ValidationError(
        "older_than", older_than, "must be a number of days from 0", "give days, or a timedelta"
    )
    if isinstance(older_than, bool) or not isinstance(older_than, int | float | timedelta):
        raise problem
    try:
        age = older_than if isinstance(older_than, timedelta) else timedelta(days=older_than)
    except (OverflowError, ValueError):
        raise problem from None
    if age < timedelta(0):
        raise problem
    return max(now - int(age / timedelta(milliseconds=1)), EARLIEST)
