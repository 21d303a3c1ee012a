"""Learning from episodes, and the strategies that come out of it.

Facts (episode, steps, who used what) and the counts that follow from them are written in one
transaction by the procedures of ``cypher/episodes/learning.cypher``. The time of one call does not
depend on the size of the history.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from graphmem.config import Settings
from graphmem.episodes.rows import episode_row, read_contents
from graphmem.errors import (
    ConflictError,
    SettingsError,
    ValidationError,
    has_surrogate,
)
from graphmem.graph.access import read_scopes, refusal
from graphmem.graph.arguments import check_limit, check_text
from graphmem.graph.graph import Graph
from graphmem.graph.graph import Transaction as Bound
from graphmem.graph.lookup import task_ids
from graphmem.ids import from_millis, node_id, strategy_id
from graphmem.lessons.counting import promote
from graphmem.models import Episode, Evidence, Learned, LearnReport, Rejection, StrategyRow
from graphmem.policies.streams import load, lock, open_nodes, store
from graphmem.search.queue import pend
from graphmem.store.port import ChangedError, Row, Transaction
from graphmem.store.queries import procedure

OnError = Literal["raise", "collect"]
STEPS_IN_A_BATCH = 20_000
"""A batch is written when its episodes have this many steps, so that memory stays bounded."""
_NESTED = ("steps", "uses", "listed", "made", "_content", "_took", "_place", "stream")
_USED = (
    *("id", "agent", "agent_name", "task", "task_key", "description", "at", "used_at", "success"),
    *("score", "uses", "inferred", "inferred_rule"),
)


class Learner:
    """Writes episodes of one namespace and reads what they teach."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._store = graph.store
        self._namespace = graph.ns
        self._settings = graph.settings
        self._namespace_id = node_id(graph.ns, "Namespace")

    def learn(self, episode: Episode) -> Learned:
        """Learn one episode, durably, or find that it is known.

        Raises:
            ValidationError: success and score contradict each other.
            ConflictError: its source key is known with other content.
            ScopeError: the agent may not learn this type of task.
            StoreError: the engine failed; nothing was written.
        """
        row = self._row(episode)
        created = self._write([row], "raise")[0]
        return Learned.model_construct(episode_id=row["id"], created=created is True)

    def learn_many(
        self,
        episodes: Iterable[Episode | Mapping[str, Any]],
        *,
        batch_size: int = 500,
        on_error: OnError = "raise",
        on_progress: Callable[[int], None] | None = None,
        on_reject: Callable[[Rejection], None] | None = None,
    ) -> LearnReport:
        """Learn episodes in transactions of ``batch_size`` (fewer where they have many steps).

        With ``on_error="collect"`` a bad record is reported and the others are learned; with
        ``"raise"`` the first bad record raises, and its batch is not written. Batches before it
        stay. ``on_progress`` is called with the number of records of each batch that is durable.
        """
        if on_error not in ("raise", "collect"):
            raise ValidationError("on_error", on_error, "is unknown", "give 'raise' or 'collect'")
        if type(batch_size) is not int or not 1 <= batch_size <= 100_000:
            raise ValidationError("batch_size", batch_size, "must be from 1 to 100000")
        if not isinstance(episodes, Iterable):
            raise ValidationError("episodes", episodes, "must be a list of episodes")
        report = _Report(on_reject)
        rows: list[Row] = []
        places: list[int] = []
        seen = steps = 0

        def flush() -> None:
            if rows:
                for place, row, answer in zip(
                    places, rows, self._write(rows, on_error), strict=True
                ):
                    report.add(place, row, answer)
            if on_progress:
                on_progress(seen)
            rows.clear()
            places.clear()

        for index, episode in enumerate(episodes):
            seen += 1
            try:
                row = self._row(_episode(episode))
            except ValidationError as error:
                if on_error == "raise":
                    raise
                report.reject(index, error, _key_of(episode))
                continue
            rows.append(row)
            places.append(index)
            steps += len(row["steps"])
            if len(rows) == batch_size or steps >= STEPS_IN_A_BATCH:
                flush()
                seen = steps = 0
        flush()
        return report.done()

    def learn_all(
        self, episodes: Sequence[Episode], also: Callable[[Bound, list[Row]], None]
    ) -> list[Learned]:
        """Learn episodes in one transaction, and write in it what ``also`` writes.

        ``also`` gets the transaction and the rows of the episodes, in their order; it may be
        called again where the transaction is.

        Raises:
            ValidationError, ConflictError, ScopeError: an episode is refused; nothing was written.
            StoreError: the engine failed; nothing was written.
        """
        rows = [self._row(episode) for episode in episodes]
        answers = self._write(rows, "raise", lambda tx: also(tx, rows))
        return [
            Learned.model_construct(episode_id=row["id"], created=answer is True)
            for row, answer in zip(rows, answers, strict=True)
        ]

    def best(
        self,
        task: str | None,
        task_type: str | None,
        agent: str | None,
        limit: int,
    ) -> list[StrategyRow]:
        """Return strategies by the lower Wilson bound of their success rate."""
        check_limit(limit)
        for name, value in (("task", task), ("task_type", task_type), ("agent", agent)):
            if value is not None:
                check_text(name, value)
        formula = {"ns": self._namespace, **self._settings.bounds, "limit": limit}
        if task is None and task_type is None and agent is None:
            rows = self._store.read(procedure("learning.best"), **formula)
            rows += self._store.read(procedure("learning.best_of_merged"), **formula)
            rows.sort(key=lambda row: (-row["lower"], -row["mean"], row["id"]))
            rows = rows[:limit]
        else:
            rows = self._store.read(
                procedure("learning.best_on"),
                tasks=self._tasks(task, task_type),
                task_type=task_type,
                agent=agent,
                **formula,
            )
        return [_strategy_row(row) for row in rows]

    def evidence(self, strategy: str, limit: int) -> list[Evidence]:
        """Return the latest episodes of a strategy (its id or its text)."""
        check_limit(limit)
        check_text("strategy", strategy)
        known = strategy_id(self._namespace, unicodedata.normalize("NFC", strategy).strip())
        query, asked = procedure("learning.evidence"), {"ns": self._namespace, "limit": limit}
        rows = self._store.read(query, strategy=strategy, **asked)
        rows = rows or self._store.read(query, strategy=known, **asked)
        return [Evidence(**row | {"at": from_millis(row["at"])}) for row in rows]

    def _tasks(self, text: str | None, task_type: str | None) -> list[str]:
        """Return the ids of the task with a key or wording, or else of the tasks of a type."""
        if text is not None:  # the caller filters by the type
            return task_ids(self._graph, unicodedata.normalize("NFC", text).strip())
        rows = self._graph.read("learning.find_tasks", task_type=task_type)
        return [row["id"] for row in rows]

    def _row(self, episode: Episode) -> Row:
        return episode_row(episode, self._namespace, self._settings.success_threshold)

    def _write(
        self,
        rows: list[Row],
        on_error: OnError,
        also: Callable[[Bound], None] | None = None,
    ) -> list[bool | ValidationError]:
        """Write a batch in one transaction: per row whether it was new, or what it conflicts with.

        Rows go to the procedures in the order of their ids, so that concurrent writers seldom
        wait for each other crosswise.
        """
        first: dict[str, Row] = {}
        for row in rows:
            first.setdefault(row["id"], row)
        twins = {
            index: _conflict(row, first[row["id"]]["_content"])
            for index, row in enumerate(rows)
            if row["content_hash"] != first[row["id"]]["content_hash"]
        }
        if on_error == "raise" and twins:
            raise next(iter(twins.values()))
        places = {key: place for place, key in enumerate(first)}
        unique = [{**first[key], "_place": places[key]} for key in sorted(first)]
        now = self._graph.now()
        attempts = itertools.count()

        def work(tx: Transaction) -> dict[str, bool | ValidationError]:
            answers = self._work(tx, unique, now, on_error, again=next(attempts) > 0)
            if also:
                also(Bound(self._graph, tx, now))
            return answers

        answers = self._store.transact(work)
        return [
            twins.get(index, answers[row["id"]] if row is first[row["id"]] else False)
            for index, row in enumerate(rows)
        ]

    def _work(
        self, tx: Transaction, rows: list[Row], now: int, on_error: OnError, *, again: bool
    ) -> dict[str, bool | ValidationError]:
        """Write what is new; return for each id whether it was, or what it conflicts with.

        The first attempt looks for known episodes before it locks anything. Where another writer
        of a server recorded one of them meanwhile, it fails; ``again`` locks the agents first, so
        that the look-up holds and no third attempt is needed.
        """
        if again:
            agents = sorted({row["agent"] for row in rows})
            tx.run(procedure("learning.lock_agents"), ns=self._namespace, ids=agents)
        found = tx.run(
            procedure("learning.known"), ns=self._namespace, ids=[row["id"] for row in rows]
        )
        known = {row["id"]: row["content_hash"] for row in found}
        answers: dict[str, bool | ValidationError] = {
            row["id"]: row["id"] not in known for row in rows
        }
        clashing = [
            row for row in rows if known.get(row["id"], row["content_hash"]) != row["content_hash"]
        ]
        if clashing:
            stored = read_contents(Bound(self._graph, tx, now), [row["id"] for row in clashing])
            for row in clashing:
                conflict = _conflict(row, stored[row["id"]])
                if on_error == "raise":
                    raise conflict
                answers[row["id"]] = conflict
        fresh = [
            {**row, "at": now if row["used_at"] is None else row["used_at"]}
            for row in rows
            if row["id"] not in known
        ]
        if fresh:
            scopes = read_scopes(Bound(self._graph, tx, now), {row["agent_name"] for row in fresh})
            for row in fresh if scopes else ():
                if error := refusal(scopes, row["agent_name"], row["type"]):
                    if on_error == "raise":
                        raise error
                    answers[row["id"]] = error
            fresh = [row for row in fresh if answers[row["id"]] is True]
        if fresh:
            self._record(tx, fresh, now)
        return answers

    def _record(self, tx: Transaction, rows: list[Row], now: int) -> None:
        """Write new episodes and what follows from them."""
        ns = self._namespace
        episodes = [
            {name: value for name, value in row.items() if name not in _NESTED} for row in rows
        ]
        used = [{name: row[name] for name in _USED} for row in rows]
        self._open(tx, used, now)
        tx.run(procedure("learning.agents"), ns=ns, now=now, rows=used)
        told = tx.run(procedure("learning.tasks"), ns=ns, now=now, rows=episodes)
        pend(Bound(self._graph, tx, now), "Task", told[0]["described"])
        tx.run(procedure("learning.strategies"), ns=ns, now=now, rows=used)
        recorded = tx.run(procedure("learning.record"), ns=ns, now=now, rows=episodes)
        linked = tx.run(procedure("learning.uses"), rows=used)
        expected = (len(rows), sum(len(row["uses"]) for row in rows))
        if (recorded[0]["episodes"], linked[0]["uses"]) != expected:
            raise ChangedError("a task, agent or strategy was erased while this was written")
        stepped = [{"id": row["id"], "steps": row["steps"]} for row in rows if row["steps"]]
        if stepped:
            tx.run(procedure("learning.steps"), ns=ns, now=now, rows=stepped)
        tx.run(procedure("learning.outcomes"), rows=used)
        promote(tx, ns, rows, now, told[0]["crowded"])
        self._note(tx, rows, now)
        paired = [row for row in used if len(row["uses"]) > 1]
        if paired:
            half_life = self._settled(tx, now)
            tx.run(procedure("learning.co_occurrences"), rows=paired, half_life=half_life)

    def _open(self, tx: Transaction, rows: list[Row], now: int) -> None:
        """Create the agents, tasks and strategies that are not there; mostly all are."""
        needed = {
            "agents": {row["agent"] for row in rows},
            "tasks": {row["task"] for row in rows},
            "strategies": {use["strategy"] for row in rows for use in row["uses"]},
        }
        ids = {kind: sorted(keys) for kind, keys in needed.items()}
        there = {
            row["id"] for row in tx.run(procedure("learning.there"), ns=self._namespace, **ids)
        }
        if any(not keys <= there for keys in needed.values()):
            tx.run(procedure("learning.entities"), ns=self._namespace, now=now, rows=rows)

    def _note(self, tx: Transaction, rows: list[Row], now: int) -> None:
        """Write the events of new episodes, in the order given, and what they say of policies."""
        ns = self._namespace
        rows = sorted(rows, key=lambda row: int(row["_place"]))
        by_stream: dict[str, list[Row]] = {}
        for row in rows:
            by_stream.setdefault(row["stream"], []).append(row)

        def note(streams: Iterable[str]) -> int:
            noted = [
                {
                    "stream": stream,
                    "events": [
                        {"place": place, "episode": row["id"]}
                        for place, row in enumerate(by_stream[stream], 1)
                    ],
                }
                for stream in sorted(streams)
            ]
            query = procedure("events.note_episodes")
            return int(tx.run(query, ns=ns, now=now, rows=noted)[0]["events"])

        if note(by_stream) != len(rows):
            missing = by_stream.keys() - lock(Bound(self._graph, tx, now), by_stream).keys()
            agents = [by_stream[stream][0]["agent_name"] for stream in missing]
            open_nodes(Bound(self._graph, tx, now), [], agents=agents)
            note(missing)
        deciding = [row for row in rows if row["_took"]]
        if deciding:
            self._decide(tx, deciding, now)

    def _decide(self, tx: Transaction, rows: list[Row], now: int) -> None:
        """Count new episodes as trials of the policies that they took."""
        ns = self._namespace
        open_nodes(Bound(self._graph, tx, now), [key for row in rows for key, _, _ in row["_took"]])
        taken = [
            {
                "episode": row["id"],
                "policies": [
                    {"id": key.id, "steps": steps, "first": first}
                    for key, steps, first in row["_took"]
                ],
            }
            for row in rows
        ]
        tx.run(procedure("policies.took"), ns=ns, rows=taken)
        policies: dict[str, dict[str, None]] = {}
        for row in rows:
            known = policies.setdefault(row["stream"], {})
            known.update((key.id, None) for key, _, _ in row["_took"])
        tables = load(
            Bound(self._graph, tx, now),
            {stream: list(ids) for stream, ids in policies.items()},
            links=True,
        )
        for row in rows:
            ids = [key.id for key, _, _ in row["_took"]]
            tables[row["stream"]].episode(ids, bool(row["success"]), now)
        store(Bound(self._graph, tx, now), tables.values())

    def _settled(self, tx: Transaction, now: int) -> float:
        """Return the half-life (ms) that the namespace was built with, checked against ours."""
        name = "co_occurrence_half_life_days"
        rows = tx.run(procedure("schema.namespace"), id=self._namespace_id)
        if not rows:
            rows = tx.run(
                procedure("schema.settle"),
                id=self._namespace_id,
                ns=self._namespace,
                now=now,
                **{name: self._settings.co_occurrence_half_life_days},
            )
        return settled_half_life(rows[0][name], self._settings)


def settled_half_life(stored: float, settings: Settings) -> float:
    """Return the stored half-life in milliseconds.

    Raises:
        SettingsError: another one was set explicitly.
    """
    name = "co_occurrence_half_life_days"
    wanted = settings.co_occurrence_half_life_days
    if name in settings.model_fields_set and wanted != stored:
        raise SettingsError(
            f"{name} is {wanted:g}, the memory was built with {stored:g}; "
            "leave the setting out, or derive everything anew with rebuild"
        )
    return stored * 86_400_000.0


class _Report:
    def __init__(self, on_reject: Callable[[Rejection], None] | None) -> None:
        self._created = 0
        self._skipped = 0
        self._rejected: list[Rejection] = []
        self._on_reject = on_reject

    def add(self, index: int, row: Row, answer: bool | ValidationError) -> None:
        if answer is True:
            self._created += 1
        elif answer is False:
            self._skipped += 1
        else:
            self.reject(index, answer, row["source_key"])

    def reject(self, index: int, error: ValidationError, source_key: str | None) -> None:
        rejection = Rejection(
            index=index, field=error.field, reason=str(error), source_key=source_key
        )
        self._rejected.append(rejection)
        if self._on_reject:
            self._on_reject(rejection)

    def done(self) -> LearnReport:
        rejected = tuple(sorted(self._rejected, key=lambda rejection: rejection.index))
        return LearnReport(created=self._created, skipped=self._skipped, rejected=rejected)


def _episode(given: Episode | Mapping[str, Any]) -> Episode:
    if isinstance(given, Episode):
        return given
    if isinstance(given, Mapping):
        for name in given:
            if not isinstance(name, str):
                raise ValidationError("episode", name, "is not the name of a field", "give a text")
        return Episode(**given)
    raise ValidationError("episode", given, "must be an Episode", "build it with Episode(...)")


def _key_of(given: object) -> str | None:
    """Return the source key of a refused record, where it is a key at all."""
    key = (
        given.get("source_key")
        if isinstance(given, Mapping)
        else getattr(given, "source_key", None)
    )
    return key[:200] if isinstance(key, str) and not has_surrogate(key) else None


def _conflict(row: Row, stored: dict[str, Any]) -> ConflictError:
    key = row["source_key"] or row["id"]
    return ConflictError(key, stored, row["_content"])


def _strategy_row(row: Row) -> StrategyRow:
    return StrategyRow(
        **{
            **row,
            "last_used_at": from_millis(row["last_used_at"]),
            "agents": tuple(sorted(row["agents"])),
        }
    )
