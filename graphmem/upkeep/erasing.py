"""Removes facts, and their exact share of everything derived from them.

The remaining derived data follows from the remaining facts, which ``verify`` confirms. In a folder
every call is one transaction. A server limits the memory of a transaction, so there many episodes
go in pages, each in a transaction of its own with its exact share. The other events of an agent
follow in pages, the latest first, and then its policies. A call that was interrupted has removed
some of it; the same call again removes the rest.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from graphmem.episodes.learning import Learner
from graphmem.errors import GraphMemError, NotFoundError, StorageError, ValidationError
from graphmem.graph.arguments import check_flag, check_text, checked_agent
from graphmem.graph.derived import LABELS, upkeep
from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.ids import EARLIEST, agent_id, event_ids, from_millis, state_id, stream_id
from graphmem.lessons import general_rules as consolidation
from graphmem.levels.topology import drop
from graphmem.models.fields import Finite, Input, Name, Unit
from graphmem.models.reports import EraseReport, ForgetReport
from graphmem.people import erase_agent, erase_user
from graphmem.policies import streams as derivation
from graphmem.policies.cycles import Cycles
from graphmem.policies.streams import Change, apply, lock
from graphmem.printable import counted
from graphmem.search.vectors import Vectors
from graphmem.store.paging import pages as paged
from graphmem.store.port import Row
from graphmem.upkeep.verifying import Shares

PAGE = 1_000  # episodes, events or policies of one transaction on a server
DAY = timedelta(days=1)
HOUR = 3_600.0
"""Seconds between two times at which what is beyond the setting ``keep`` is forgotten."""
_CONDITIONS = (
    "give older_than (days, for instance 90), below_confidence (for instance 0.3), or both (of all "
    "agents also none, if the setting keep says what stays); erase(agent=...) removes all of one"
)
Removed = Counter[str]
"""How many episodes and steps were removed, and how many nodes that nothing supports, by label."""

_log = logging.getLogger(__name__)


def _days(value: object) -> object:
    return value / DAY if isinstance(value, timedelta) else value


class _Condition(Input):
    """Which episodes are forgotten."""

    older_than: Annotated[Finite, Field(ge=0), BeforeValidator(_days)] | None = None
    below_confidence: Unit | None = None
    agent: Name | None = None
    any: bool = False
    dry_run: bool = False


class Eraser:
    """Erases and forgets in one namespace: a part of ``memory.upkeep``."""

    def __init__(self, graph: Graph, vectors: Vectors, learner: Learner) -> None:
        self._graph = graph
        self._vectors = vectors
        self._cycles = Cycles(graph)
        self._next = 0.0
        learner.after = self.forget_beyond

    def erase(
        self,
        episode_id: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        source: str | None = None,
        compact: bool | None = None,
    ) -> EraseReport:
        """Remove an episode, an agent, a user or a source, as if it had never existed.

        Every derived number loses its exact share. Erasing an agent removes its episodes, abandoned
        attempts, policies, events, predictions and scope; erasing a user removes the episodes and
        abandoned attempts of this ``user``, the preferences, and the facts that only this user
        stated; erasing a source removes what its imported skills say. With ``compact`` an embedded
        memory then rewrites its files, so that none of them holds what was erased; ``read_by`` of
        the report names other processes that still have an older snapshot. A server keeps removed
        records until it reuses their space.

        Args:
            episode_id: id of the episode, or of an abandoned attempt. Give one of the four.
            agent: name of the agent; beside an id: erase the episode only if it is this agent's.
            user: name of the user.
            source: name of the source of imported skills.
            compact: rewrite the files at once. None: for all but one episode, which stays in the
                log until the next checkpoint, at the latest until the memory is closed.

        Raises:
            NotFoundError: there is no such episode, agent, user or source in this namespace.
            StorageError: everything was erased, but there is no room to rewrite the files.
            ValidationError: none or several are given.
        """
        given = (episode_id, user, source, agent if episode_id is None else None)
        if sum(value is not None for value in given) != 1:
            remedy = "give one of episode_id, agent, user, source"
            raise ValidationError("episode_id", episode_id, "is not the only one", remedy)
        if compact is not None:
            check_flag("compact", compact)
        if episode_id is not None:
            report = self._erase_episode(episode_id, agent)
        elif agent is not None:
            report = self._erase_agent(agent)
        elif source is not None:
            report = self._erase_source(source)
        else:
            report = self._erase_user(str(user))
        self._vectors.tidy()
        if compact or (compact is None and episode_id is None):
            report = report.model_copy(update=self._compact())
        return report

    def forget(
        self,
        older_than: float | timedelta | None = None,
        below_confidence: float | None = None,
        agent: str | None = None,
        *,
        any: bool = False,  # noqa: A002
        dry_run: bool = False,
    ) -> ForgetReport:
        """Erase episodes that are old, or whose strategies have low confidence, or both.

        Only the given conditions count; an episode must meet all of them, or with ``any`` one of
        them. Every derived number loses their exact share; items that nothing else supports are
        removed. The setting ``keep`` does this by itself; without a condition, of all agents, the
        episodes are meant that it does not keep, so that a dry run says which these are.

        Args:
            older_than: days (or a timedelta) since the end of an episode, else its start, else its
                recording, from 0, for instance 90; None: any age. Abandoned attempts of that age
                are erased, too.
            below_confidence: each strategy of the episode must have a lower posterior mean (from 0
                to 1) for its agent and type of task, for instance 0.3; None: any.
            agent: only episodes of this agent.
            any: age or confidence is enough.
            dry_run: report which episodes and how many steps and abandoned attempts would go, and
                change nothing. ``removed`` is empty then.

        Raises:
            ValidationError: an argument is wrong, or neither they nor the setting say what goes.
        """
        return self._forget(_Condition.from_arguments(locals()))

    def forget_beyond(self) -> None:
        """Forget what is beyond the setting ``keep``, at most once an hour."""
        bound, now = self._graph.settings.keep, time.monotonic()
        if bound is None or now < self._next:
            return
        self._next = now + HOUR
        try:
            if count := self._forget(_Condition(), compact=False).episodes:
                _log.info("forgot %s beyond %s", counted(count, "episode"), bound)
        except GraphMemError as error:  # what was to be learned is learned
            _log.warning("nothing is forgotten, although keep is %s: %s", bound, error)

    def _erase_episode(self, episode_id: str, agent: str | None) -> EraseReport:
        check_text("episode_id", episode_id)
        name = checked_agent(agent)

        def work(tx: Transaction) -> EraseReport:
            there = tx.run("erasing.touched", ids=[episode_id])
            own = [row["id"] for row in there if name in (None, row["agent_name"])]
            removed = self._remove(tx, own)
            found = () if removed else tx.run("settling.find", ids=[episode_id])
            own = [row["id"] for row in found if row["record"] and name in (None, row["agent"])]
            abandoned = _drop_abandoned(tx, own)
            if not removed and not abandoned:
                whose = f" of {name!r}" if name else ""
                raise self._missing(f"episode {episode_id!r}{whose}")
            known: Row = {"episode_id": episode_id, "abandoned": abandoned}
            return _report(removed, **known, removed=tuple(Removed(_nodes(removed)).elements()))

        return self._graph.transact(work)

    def _erase_agent(self, agent: str) -> EraseReport:
        name = str(checked_agent(agent))
        identity, stream = agent_id(self._graph.ns, name), stream_id(self._graph.ns, name)
        ahead = Removed()
        rows = self._graph.read("events.streams", agent=name) if self._graph.must_lock else ()
        last = max((int(row["last"]) for row in rows if row["stream"] == stream), default=0)
        if last > PAGE:
            ids = self._graph.read("erasing.episodes_of", agent=identity)
            dropped = self._graph.write("erasing.drop_predictions", agent=name)
            ahead["predictions"] = int(dropped[0]["removed"])
            self._remove_ahead([row["id"] for row in ids], ahead)
            ahead["Policy"] += self._drop_experience(self._graph.transact, stream, last)
        return self._graph.transact(partial(self._drop_agent, name, identity, stream, ahead))

    def _drop_agent(
        self, name: str, identity: str, stream: str, ahead: Removed, tx: Transaction
    ) -> EraseReport:
        row = lock(tx, [stream]).get(stream)  # first, as learning does
        tx.run(upkeep("lock", "Agent"), ids=[identity])
        ids = [row["id"] for row in tx.run("erasing.episodes_of", agent=identity)]
        scopes = erase_agent(tx, name)
        abandoned = [found["id"] for found in tx.run("attempts.records", agent=name)]
        owned: Row = {"owner_kind": "agent", "owner": name}
        levels = [level["name"] for level in tx.run("levels.list", **owned)]
        lenses = [lens["id"] for lens in tx.run("lenses.list", **owned)]
        left = tx.run("levels.leave", agent=name)[0]["levels"]
        if row is None and not any((ids, scopes, abandoned, levels, lenses, left)):
            raise self._missing(f"agent {name!r}")
        # First, so that predictions about its own policies are counted, too.
        predictions = int(tx.run("erasing.drop_predictions", agent=name)[0]["removed"])
        removed = ahead + self._remove(tx, ids)
        # Erasing episodes may have removed the stream, or added an event.
        if row is not None and (row := lock(tx, [stream]).get(stream)) is not None:
            removed["Policy"] += self._drop_stream(tx, row)
        tx.run(upkeep("drop", "Agent"), ids=[identity])
        tx.run("erasing.drop_lenses", ids=lenses)
        agents = bool(ids or scopes or row is not None)
        removed += Removed(Agent=agents, Level=len(levels), Lens=len(lenses))
        return _report(
            removed,
            agent=name,
            predictions=ahead["predictions"] + predictions,
            abandoned=_drop_abandoned(tx, abandoned),
            entries=sum(drop(tx, level) for level in levels),
        )

    def _erase_user(self, user: str) -> EraseReport:
        check_text("user", user)
        ahead = Removed()
        rows = self._graph.read("erasing.episodes_of_user", user=user)
        self._remove_ahead([row["id"] for row in rows], ahead)

        def work(tx: Transaction) -> EraseReport:
            ids = [row["id"] for row in tx.run("erasing.episodes_of_user", user=user)]
            attempts = tx.run("attempts.records")
            own = [row["id"] for row in attempts if json.loads(row["record"]).get("user") == user]
            removed = ahead + self._remove(tx, ids)
            said = erase_user(tx, user)
            if said is None and not removed and not own:
                raise self._missing(f"user {user!r}")
            return _report(removed, user=user, abandoned=_drop_abandoned(tx, own), **(said or {}))

        return self._graph.transact(work)

    def _erase_source(self, source: str) -> EraseReport:
        check_text("source", source)
        rows = self._graph.write("skills.drop", source=source)
        if not rows or not rows[0]["skills"]:
            raise self._missing(f"skills of a source {source!r}")
        return EraseReport(source=source, priors=rows[0]["priors"], removed=("Prior", "Skill"))

    def _missing(self, what: str) -> NotFoundError:
        return NotFoundError(f"no {what} in namespace {self._graph.ns!r}")

    def _compact(self) -> dict[str, Any]:
        """Rewrite the files; return what a report says of it."""
        store = self._graph.store
        try:
            compacted = store.compact()
        except StorageError as error:
            raise StorageError(
                "everything is erased, but the files are not rewritten, so that they still hold "
                f"it; make room and close the memory: {error}"
            ) from error
        return {"compacted": compacted, "read_by": store.readers()}

    def _forget(self, asked: _Condition, *, compact: bool = True) -> ForgetReport:
        days, most = asked.older_than, None
        if days is None and asked.below_confidence is None:
            if (keep := self._graph.settings.keep) is None or asked.agent is not None:
                problem = "is missing, and so is below_confidence"
                raise ValidationError("older_than", None, problem, _CONDITIONS)
            number, unit = keep.split()
            days, most = (int(number), None) if unit == "days" else (None, int(number))
        before = None
        if days is not None:
            age = days * (DAY / timedelta(milliseconds=1))
            before = max(self._graph.now() - round(min(age, 1e15)), EARLIEST)
        aged = {"before": before, "agent": asked.agent}

        def report(reader: Reader, ids: Sequence[str], removed: Removed) -> ForgetReport:
            attempts = [] if before is None else reader.read("attempts.records", **aged)
            if isinstance(reader, Transaction) and not asked.dry_run:
                _drop_abandoned(reader, [row["id"] for row in attempts])
            return ForgetReport(
                dry_run=asked.dry_run,
                before=from_millis(before),
                episodes=removed["episodes"],
                steps=removed["steps"],
                removed=_nodes(removed),
                episode_ids=tuple(ids),
                abandoned=len(attempts),
            )

        def foretell(reader: Reader) -> ForgetReport:
            ids = _forgettable(reader, asked, before, most)
            told = [reader.read("erasing.sizes", ids=page)[0] for page in paged(ids)]
            steps = sum(row["steps"] for row in told)
            return report(reader, ids, Removed(episodes=len(ids), steps=steps))

        if asked.dry_run:
            return foretell(self._graph) if self._graph.must_lock else self._graph.view(foretell)
        # Chosen once: what goes first changes what is believed.
        ids = _forgettable(self._graph, asked, before, most)
        ahead = Removed()
        rest = self._remove_ahead(ids, ahead)
        done = self._graph.transact(lambda tx: report(tx, ids, ahead + self._remove(tx, rest)))
        self._vectors.tidy()
        return done.model_copy(update=self._compact()) if compact else done

    def _remove_ahead(self, ids: Sequence[str], removed: Removed) -> Sequence[str]:
        """On a server, remove all but the last page of episodes, and count; return the rest."""
        while self._graph.must_lock and len(ids) > PAGE:
            removed += self._graph.transact(partial(self._remove, ids=ids[:PAGE]))
            ids = ids[PAGE:]
        return ids

    def _remove(self, tx: Transaction, ids: Sequence[str]) -> Removed:
        ns = self._graph.ns
        touched, nodes = hold(tx, ids)
        if not touched:
            return Removed()
        # The latest first: an engine that keeps a node's edges in a list finds these at its end.
        touched.sort(key=lambda row: (row["recorded_at"], row["id"]), reverse=True)
        there = [row["id"] for row in touched]
        stream_of = {row["id"]: stream_id(ns, row["agent_name"]) for row in touched}
        agents = {stream_of[row["id"]]: row["agent"] for row in touched}
        experience = _gather(tx, "erasing.experience", there)
        shares = Shares(tx, there)
        general = consolidation.drop(tx, there)
        removed = Removed(episodes=len(there), steps=_drop(tx, there))
        for label in LABELS:
            removed[label] += shares.take(label, nodes[label])
        consolidation.renew(tx, general, nodes["Strategy"])
        took = sorted({name for row in experience for name in row["took"]})
        # Else their bounds, and values based on them, would reveal what was erased.
        _gather(tx, "erasing.drop_crystallizations", took)
        moved = {stream_of[row["id"]] for row in experience if row["took"] or row["transitions"]}
        for stream in sorted(moved):
            removed["Policy"] += derivation.rebuild(tx, stream).removed
        states = sorted({name for row in experience for name in row["states"]})
        _gather(tx, "maintenance.drop_states", states)
        for page in paged([*nodes["Strategy"], *took]):
            self._cycles.renew(tx, page)
            tx.run("predictions.drop_about", ids=page)
        counts = Counter(stream_of.values())
        for stream, agent in sorted(agents.items()):
            self._note_erased(tx, stream, agent, counts[stream])
        # They were fitted to the erased episodes, too; the next prediction fits them again.
        tx.run("forecasting.drop_pooling")
        return removed

    def _note_erased(self, tx: Transaction, stream: str, agent: str, episodes: int) -> None:
        row = lock(tx, [stream]).get(stream)
        if row is None:
            return
        there = tx.run("maintenance.stored_agents", ids=[agent])
        if there or tx.run("maintenance.stored_policies", stream=stream):
            apply(tx, [Change(row["agent"], "erased", {"value": float(episodes)})])
        else:
            self._drop_stream(tx, row)

    def _drop_stream(self, tx: Transaction, row: Row) -> int:
        dropped = self._drop_experience(lambda work: work(tx), row["stream"], int(row["last"]))
        tx.run("maintenance.drop_stream", stream=row["stream"])
        return dropped

    def _drop_experience(self, transact: Callable[..., Any], stream: str, last: int) -> int:
        """Remove the events of a stream, the latest first, and then its policies; count these."""
        for page in reversed([*paged(event_ids(stream, 1, last), PAGE)]):
            transact(partial(_drop_events, ids=page))
        policies = transact(lambda tx: tx.run("maintenance.stored_policies", stream=stream))
        for some in paged(policies, PAGE):
            transact(partial(_drop_policies, policies=some))
        return len(policies)


def _nodes(removed: Removed) -> dict[str, int]:
    return {name: count for name, count in sorted(removed.items()) if count and name.istitle()}


def _report(gone: Removed, **more: Any) -> EraseReport:
    counts = {name: gone[name] for name in ("episodes", "steps")}
    nodes = {"policies": gone["Policy"], "removed": tuple(_nodes(gone))}
    return EraseReport(**{**counts, **nodes, **more})


def hold(tx: Transaction, ids: Sequence[str]) -> tuple[list[Row], dict[str, list[str]]]:
    """Lock what episodes touch; return the rows of those that are there, and the ids by label."""
    touched = _gather(tx, "erasing.touched", ids)
    nodes = {name: sorted({row[name.lower()] for row in touched}) for name in ("Agent", "Task")}
    for label, name in (("Strategy", "strategies"), ("Rule", "rules"), ("Mistake", "mistakes")):
        nodes[label] = sorted({one for row in touched for one in row[name]})
    if touched:  # in the order of learning, which locks the stream of an agent first
        lock(tx, sorted({stream_id(tx.ns, row["agent_name"]) for row in touched}))
        for label in reversed(LABELS):
            _gather(tx, upkeep("lock", label), nodes[label])
        # Another process may have erased some while this one waited for the locks.
        touched = _gather(tx, "erasing.touched", ids)
    return touched, nodes


def _gather(tx: Transaction, name: str, ids: Sequence[str]) -> list[Row]:
    """Run a procedure for nodes, page by page; return all rows."""
    return [row for page in paged(ids) for row in tx.run(name, ids=page)]


def _forgettable(
    reader: Reader, asked: _Condition, before: int | None, most: int | None
) -> list[str]:
    """Return the episodes that are older, or weak, or not among the latest ``most``.

    Weak are those whose strategies all have a lower confidence than asked.
    """
    below, either = asked.below_confidence, asked.any
    time = None if either and below is not None else before
    rows = reader.read("erasing.aged", before=time, agent=asked.agent)
    if most is not None:
        rows = sorted(rows, key=lambda row: (row["at"], row["id"]))[: max(0, len(rows) - most)]
    if below is None:
        return [row["id"] for row in rows]
    beliefs = reader.read("erasing.beliefs", below=below)
    believed = {(row["agent"], row["type"], row["strategy"]) for row in beliefs}

    def goes(row: Row) -> bool:
        used = row["strategies"]
        weak = used and not any((row["agent"], row["type"], text) in believed for text in used)
        return weak or (either and before is not None and row["at"] < before)

    return [row["id"] for row in rows if goes(row)]


def _drop(tx: Transaction, ids: Sequence[str]) -> int:
    """Remove episodes with what belongs to them alone; return the number of steps."""
    # The other content of a file can mention any of its episodes.
    files = {row["id"] for row in _gather(tx, "exchange.forget", ids)}
    _gather(tx, "erasing.drop_events", ids)
    steps = sum(int(row["removed"]) for row in _gather(tx, "erasing.drop_steps", ids))
    _gather(tx, "erasing.drop_runs", ids)
    _gather(tx, "erasing.drop_episodes", ids)
    tx.run("exchange.drop", ids=sorted(files))
    return steps


def _drop_policies(tx: Transaction, policies: Sequence[Row]) -> None:
    ids = [policy["id"] for policy in policies]
    _gather(tx, "maintenance.drop_policies", ids)
    states = {state_id(tx.ns, policy["state"]) for policy in policies}
    _gather(tx, "maintenance.drop_states", sorted(states))
    _gather(tx, "predictions.drop_about", ids)


def _drop_events(tx: Transaction, ids: Sequence[str]) -> None:
    for page in paged(ids):
        states = [row["id"] for row in tx.run("erasing.states_of", ids=page)]
        tx.run("erasing.drop_transitions", ids=page)
        tx.run("erasing.drop_noted", ids=page)
        tx.run("maintenance.drop_states", ids=states)


def _drop_abandoned(tx: Transaction, ids: Sequence[str]) -> int:
    """Remove attempts without an outcome, from which nothing was derived; return how many."""
    return sum(int(row["removed"]) for row in _gather(tx, "erasing.drop_abandoned", ids))
