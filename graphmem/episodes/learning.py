"""Learning from episodes, and storing attempts that have no outcome.

Facts (episode, steps, who used what) and the counts that follow from them are written in one
transaction by the procedures of ``cypher/episodes/learning.cypher``. A call takes constant time.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal
from uuid import uuid4

from graphmem.episodes import counting
from graphmem.episodes.counting import Excess, Known
from graphmem.episodes.rows import Occurrences, classes_of, conflict, episode_row, read_contents
from graphmem.errors import ConflictError, ScopeError, StoreError, ValidationError, has_surrogate
from graphmem.graph.access import read_scopes, refusal
from graphmem.graph.arguments import check_choice, check_function, checked_items
from graphmem.graph.derived import DAY, half_life_of
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import EARLIEST, abandoned_id, canonical_json, node_id
from graphmem.models.episodes import AbandonedAttempt, Episode
from graphmem.models.fields import BatchSize, checked, millis
from graphmem.models.reports import Learned, LearnReport, Rejection
from graphmem.policies.streams import load, lock, open_nodes, store
from graphmem.store.port import ChangedError, Row

OnError = Literal["raise", "collect"]
Answers = dict[str, bool | ValidationError]
"""For each episode whether it was new, or why it is refused."""
STEPS_IN_A_BATCH = 20_000
"""A batch is written when its episodes have this many steps, so that memory stays bounded."""
SIZE_OF_A_BATCH = 4_000_000
"""A batch is also written when its episodes have this many characters."""
SEEN = 65_536
"""Ids that are remembered as present."""
LABELS = ("Episode", "Agent", "Stream", "Tally", "Task", "Strategy", "Heuristic", "AntiPattern")
"""What new episodes are about."""
WORTH_TRYING = 0.25
"""The short way is tried if things are known at least this likely: a failed try costs a fourth."""
_WHOLE = {
    *("advanced", "tasks", "strategies", "recorded", "used", "outcomes", "together"),
    *("new_tallies", "tallies", "new_heuristics", "heuristics", "evidence", "failures"),
    *("sentences", "cards", "mistakes"),
}
"""Parts of ``learning.add_many`` that handle all of their rows, unless something is gone."""


class Learner:
    """Writes episodes of one namespace and reads what they teach."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.after: Callable[[], object] = lambda: None
        """Called when something was learned."""
        # Guesses: what is there, how likely the rest is there too, and the half-life.
        self._seen: set[str] = set()
        self._likely = 0.5
        self._half_life_days = graph.given.co_occurrence_half_life_days

    def learn(self, episode: Episode, *, dated: bool = True) -> Learned:
        """Learn one episode that just happened; without a time it ended now, if it is ``dated``."""
        own = episode.source_key is None and episode.occurrence is None
        added: dict[str, Any] = {"occurrence": uuid4().hex} if own else {}
        if dated and episode.started_at is None and episode.ended_at is None:
            added |= _just_ended(self._graph.now(), episode.duration)
        episode = self._graph.storable(episode)
        row = episode_row(episode, self._graph.ns, self._graph.settings.success_threshold, **added)
        # An attempt whose answer was lost wrote it.
        created = self._add(row) or self._write([row], "raise")[0] is True or own
        self.after()
        return Learned(episode_id=row["id"], created=created)

    def learn_many(
        self,
        episodes: Iterable[Episode | Mapping[str, Any]],
        *,
        batch_size: int = 500,
        on_error: OnError = "raise",
        on_progress: Callable[[int], None] | None = None,
        on_reject: Callable[[Rejection], None] | None = None,
    ) -> LearnReport:
        """Learn many episodes, ``batch_size`` in a transaction.

        The episodes come from a record, so one without a time stays without one. Equal episodes
        without a ``source_key`` all count: their order in this call tells them apart. So the same
        call again, for instance after a crash, adds nothing.

        Args:
            episodes: any iterable; it is read lazily, a batch at a time.
            batch_size: from 1 to 100000.
            on_error: "raise" stops at the first bad record (its batch is not written, earlier
                batches stay); "collect" reports bad records and learns the others.
            on_progress: called with the number of durable records so far.
            on_reject: called at once for each refused record.

        Raises:
            ValidationError, ConflictError: with ``on_error="raise"``.
            StoreError: the engine failed; earlier batches stay.
        """
        check_choice("on_error", on_error, ("raise", "collect"))
        checked("batch_size", batch_size, BatchSize)
        check_function("on_progress", on_progress)
        check_function("on_reject", on_reject)
        created = skipped = 0
        rejected: list[Rejection] = []
        waiting: list[tuple[int, Row]] = []
        seen = steps = size = 0

        def reject(index: int, error: ValidationError, key: str | None) -> None:
            bad = Rejection(index=index, field=error.field, reason=str(error), source_key=key)
            rejected.append(bad)
            if on_reject:
                on_reject(bad)

        def flush() -> None:
            nonlocal created, skipped
            answers = self._write([row for _, row in waiting], on_error) if waiting else []
            for (place, row), answer in zip(waiting, answers, strict=True):
                created += answer is True
                skipped += answer is False
                if isinstance(answer, ValidationError):
                    reject(place, answer, row["source_key"])
            if on_progress:
                on_progress(seen)
            waiting.clear()

        with contextlib.closing(Occurrences()) as counted:
            for index, episode in enumerate(checked_items("episodes", episodes)):
                seen += 1
                try:
                    row = self.row(_episode(episode), counted)
                except ValidationError as error:
                    if on_error == "raise":
                        at, why = f"episodes.{index}.{error.field}", error.problem
                        raise ValidationError(at, error.value, why, error.remedy) from None
                    reject(index, error, _key_of(episode))
                    continue
                waiting.append((index, row))
                steps += len(row["steps"])
                size += row["_size"]
                full = steps >= STEPS_IN_A_BATCH or size >= SIZE_OF_A_BATCH
                if len(waiting) == batch_size or full:
                    flush()
                    seen = steps = size = 0
        flush()
        self.after()
        in_order = tuple(sorted(rejected, key=lambda rejection: rejection.index))
        return LearnReport(created=created, skipped=skipped, rejected=in_order)

    def check(self, episodes: Sequence[Episode]) -> None:
        """Compare episodes with those that are known; write nothing."""
        rows, _ = _once([self.row(episode) for episode in episodes], "raise")
        self._graph.view(lambda tx: self._examine(tx, rows, "raise"))

    def row(self, episode: Episode, counted: Occurrences | None = None) -> Row:
        """Return how an episode will lie in the graph."""
        threshold = self._graph.settings.success_threshold
        return episode_row(self._graph.storable(episode), self._graph.ns, threshold, counted)

    def _add(self, row: Row) -> bool:
        """Learn an episode by one statement, if all that it is about is known; return whether."""
        about = _about(row)
        if not counting.is_plain(row) or not (about <= self._seen or self._likely > WORTH_TRYING):
            return False
        options, params = counting.addition(row, self._graph.now())
        if self._graph.must_lock:
            options.append("locked")
        grown = self._graph.attempt(
            "learning.add",
            lambda rows: len(rows) == len(row["uses"]),
            *options,
            namespace=self._graph.namespace_id,
            half_life_days=self._half_life_days,
            half_life=self._half_life_days * DAY,
            **params,
        )
        if not grown:
            self._seen -= about
            return False
        self._remember(about, known=True)
        self._cut(counting.overgrown(row, grown))
        return True

    def _remember(self, about: set[str], *, known: bool) -> None:
        """Guess that the next ones find known what this one is about, and others as this one."""
        self._likely += (known - self._likely) / 8
        if len(self._seen) > SEEN:
            self._seen.clear()
        self._seen |= about

    def _cut(self, excess: Excess) -> None:
        """Cut off evidence beyond the sample, after the episodes that made it too much."""
        for kind, ids in excess.items():
            with contextlib.suppress(StoreError):
                self._graph.write(f"lessons.trim_{kind}", ids=sorted(ids))

    def _write(self, rows: list[Row], on_error: OnError) -> list[bool | ValidationError]:
        unique, twins = _once(rows, on_error)
        answers, excess, known = self._graph.transact(
            lambda tx: self._work(tx, unique, on_error), brief=len(unique) == 1
        )
        self._cut(excess)
        if len(unique) == 1:
            about = _about(unique[0])
            there = {*known["Task"], *known["Heuristic"], *known["AntiPattern"]}
            self._remember(about, known=about <= there)
        left = dict(answers)
        return [
            twins[index] if index in twins else left.pop(row["id"], False)
            for index, row in enumerate(rows)
        ]

    def _work(
        self, tx: Transaction, rows: list[Row], on_error: OnError, *, last: bool = True
    ) -> tuple[Answers, Excess, Known]:
        if self._graph.must_lock:  # the data of these agents stays as it is seen here
            lock(tx, {row["stream"] for row in rows})
        answers, known = self._examine(tx, rows, on_error)
        fresh = [
            {**row, "at": tx.now if row["used_at"] is None else row["used_at"]}
            for row in rows
            if answers[row["id"]] is True
        ]
        return answers, self._record(tx, fresh, known, last=last) if fresh else Excess(), known

    def learn_within(self, tx: Transaction, row: Row) -> None:
        """Learn one episode in a transaction that goes on."""
        self._work(tx, [{**row, "_place": 0}], "raise", last=False)

    def _examine(
        self, tx: Transaction, rows: list[Row], on_error: OnError
    ) -> tuple[Answers, Known]:
        """Return per row whether it is new, or why it is refused; and the nodes that are known."""
        nodes: dict[str, dict[str, Row]] = {label: {} for label in LABELS}
        for row in tx.run("learning.look_at", **counting.looked_up(rows)):
            nodes[row["label"]][row["id"]] = row
        known = nodes["Episode"]
        there = [row for row in rows if row["id"] in known]
        fresh = [row for row in rows if row["id"] not in known]
        clashing = [row for row in there if known[row["id"]]["content_hash"] != row["content_hash"]]
        stored = read_contents(tx, [row["id"] for row in clashing]) if clashing else {}
        scopes = read_scopes(tx, {row["agent_name"] for row in fresh}) if fresh else {}
        refused: dict[str, ValidationError] = {
            row["id"]: clash for row in clashing if (clash := conflict(row, stored[row["id"]]))
        }
        for row in fresh if scopes else ():
            if error := refusal(scopes, row["agent_name"], row["type"]):
                refused[row["id"]] = error
        if refused and on_error == "raise":
            raise next(iter(refused.values()))
        return {row["id"]: row["id"] not in known for row in rows} | refused, nodes

    def _record(self, tx: Transaction, rows: list[Row], known: Known, *, last: bool) -> Excess:
        """Write new episodes and what follows from them; return what has too much evidence."""
        added, excess = counting.parts(rows, tx.now, known)
        half_life = None
        if "together" in added:
            self._half_life_days = half_life_of(tx)
            half_life = self._half_life_days * DAY
        deciding = sorted((row for row in rows if row["_took"]), key=lambda row: int(row["_place"]))
        if self._graph.must_lock:
            for name, lists in added.items():
                done = tx.run("learning.add_many", name, half_life=half_life, **lists)
                if name in _WHOLE and done[0]["done"] != len(lists[name]):
                    raise ChangedError("something was erased while this was written")
        else:
            run = tx.finish if last and not deciding else tx.run
            lists = {name: part for given in added.values() for name, part in given.items()}
            run("learning.add_many", *added, half_life=half_life, **lists)
        if deciding:
            self._decide(tx, deciding)
        return excess

    def _decide(self, tx: Transaction, rows: list[Row]) -> None:
        """Count new episodes as trials of the policies that they took."""
        open_nodes(tx, [key for row in rows for key, _, _ in row["_took"]])
        taken = []
        policies: dict[str, dict[str, None]] = {}
        for row in rows:
            of_row = [
                {"id": key.id, "steps": steps, "first": first} for key, steps, first in row["_took"]
            ]
            taken.append({"episode": row["id"], "policies": of_row})
            policies.setdefault(row["stream"], {}).update((one["id"], None) for one in of_row)
        tx.run("policies.took", rows=taken)
        tables = load(tx, {stream: list(ids) for stream, ids in policies.items()}, links=True)
        for row, took in zip(rows, taken, strict=True):
            ids = [one["id"] for one in took["policies"]]
            tables[row["stream"]].episode(ids, bool(row["success"]), tx.now)
        store(tx, tables.values())


def _once(rows: list[Row], on_error: OnError) -> tuple[list[Row], dict[int, ConflictError]]:
    """Return each episode once, in the order of the ids, and which rows conflict with another."""
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(row["id"], row)
    twins = {
        index: error
        for index, row in enumerate(rows)
        if row["content_hash"] != first[row["id"]]["content_hash"]
        and (error := conflict(row, first[row["id"]]["_content"]))
    }
    if on_error == "raise" and twins:
        raise next(iter(twins.values()))
    places = {key: place for place, key in enumerate(first)}
    return [{**first[key], "_place": places[key]} for key in sorted(first)], twins


def _just_ended(now: int, duration: float | None) -> dict[str, int]:
    """Return the times (ms) of an episode that took so many seconds and ended now."""
    started = EARLIEST - 1 if duration is None else now - math.ceil(round(duration * 1_000, 3))
    return {"started_at": started, "ended_at": now} if started >= EARLIEST else {"ended_at": now}


def _about(row: Row) -> set[str]:
    """Return ids that stand for what an episode is about: if they exist, the rest does, too."""
    lessons = {use[name] for use in row["uses"] for name in ("heuristic", "anti_pattern")}
    return {row["task"], *lessons} - {None}


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
    """Return the source key of a refused record, if it is a key at all."""
    key = (
        given.get("source_key")
        if isinstance(given, Mapping)
        else getattr(given, "source_key", None)
    )
    return key[:200] if isinstance(key, str) and not has_surrogate(key) else None


_COPIED = ("key", "agent", "task", "task_type", "error")
_BATCH = 500
Refusals = list[tuple[int, AbandonedAttempt, ScopeError]]


def abandon(graph: Graph, attempts: Iterable[AbandonedAttempt]) -> tuple[int, Refusals]:
    """Store attempts; return how many are new, and what scopes refuse, with its place."""
    created, refused, waiting = 0, Refusals(), enumerate(attempts)

    def work(tx: Transaction) -> tuple[int, Refusals]:
        scopes = read_scopes(tx, {attempt.agent for _, attempt in batch})
        rows: dict[str, Row] = {}
        refused: Refusals = []
        for place, attempt in batch:
            classes = classes_of({"task": attempt.task, "task_type": attempt.task_type})
            if error := refusal(scopes, attempt.agent, str(classes["type"])):
                refused.append((place, attempt, error))
            elif (identity := abandoned_id(graph.ns, attempt.key)) not in rows:
                rows[identity] = {
                    **{name: getattr(attempt, name) for name in _COPIED},
                    "id": identity,
                    "episode": node_id(graph.ns, "Episode", "key", attempt.key),
                    "strategies": [use.text for use in attempt.strategy],
                    "started_at": millis(attempt.started_at),
                    "ended_at": millis(attempt.ended_at),
                    "step_count": len(attempt.steps),
                    "record": canonical_json(attempt.record()),
                }
        stored = tx.finish("attempts.abandon", rows=list(rows.values())) if rows else []
        return int(stored[0]["created"]) if stored else 0, refused

    while batch := list(islice(waiting, _BATCH)):
        new, refusals = graph.transact(work, brief=True)
        created, refused = created + new, refused + refusals
    return created, refused
