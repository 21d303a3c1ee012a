"""Lists of episodes and tasks, and anything that has an id."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

from graphmem.episodes.rows import formers
from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.access import EVERYTHING, ChangeFinder, View, read_view
from graphmem.graph.arguments import check_choice, check_flag, check_limit, checked_text
from graphmem.graph.estimate import follow
from graphmem.graph.graph import Graph
from graphmem.graph.lookup import HasId, task_ids
from graphmem.graph.reads import Reads
from graphmem.ids import from_millis, strategy_id
from graphmem.lessons import RECENT
from graphmem.models.fields import Moment, checked, millis
from graphmem.models.reports import EpisodeRow, Item, ItemLink, StepRow, StrategyRow, TaskRow
from graphmem.notebook import Listed
from graphmem.store.port import Row

Sort = Literal["trials", "best", "worst", "latest"]
STEPS = 100
"""Most steps of an episode to show."""
PASSED = 20
"""So many more strategies are read than are shown: some no longer work."""
PREFIX = 6
"""Fewest characters of an id that stand for the whole id."""
BEYOND = "\U0010ffff"
"""Comes after all characters of ids."""
SHOWN = 1_000
"""Most characters of an action or an observation."""
_SINCE = Moment | None


class Looking:
    """Shows the contents of one namespace."""

    def __init__(
        self, graph: Graph, changed: ChangeFinder, reads: Reads, past: Callable[[datetime], Any]
    ) -> None:
        self._graph = graph
        self._changed = changed
        self._reads = reads
        self._past = past

    def strategies(
        self,
        task: str | None = None,
        *,
        task_type: str | None = None,
        agent: str | None = None,
        limit: int = 10,
        as_of: datetime | None = None,
    ) -> Listed[StrategyRow]:
        """Return strategies, the best lower bound of the success rate first; as they work now.

        Args:
            task: the key or the wording of a task; None: over all tasks.
            task_type: only tasks of this type.
            agent: only outcomes of this agent.
            limit: most strategies to return.
            as_of: what was known at this time, as in :meth:`predict`.

        Raises:
            ValidationError: an argument is wrong.
            NotFoundError: nothing was recorded by ``as_of``.
        """
        if as_of is not None:
            how = {"task_type": task_type, "agent": agent, "limit": limit}
            then: Listed[StrategyRow] = self._past(as_of).strategies(task, **how)
            return then
        check_limit(limit)
        most = limit + PASSED  # some may no longer work
        task, task_type = checked_text("task", task), checked_text("task_type", task_type)
        agent = checked_text("agent", agent)
        view = EVERYTHING if agent is None else View(agents=(agent,), scope=None)
        if task is None and task_type is None and agent is None:
            rows = self._graph.read("learning.best", limit=most)
        else:
            kind = task_type if agent is None else None
            asked = {"tasks": self._tasks(task, task_type, view), "task_type": kind}
            rows = self._graph.read("learning.best_on", agent=agent, limit=most, **asked)
        changes = self._changed([row["id"] for row in rows], view)
        rows = follow(self._graph, rows, "id", "mean", changes)[:limit]
        for row in rows:
            row["last_used_at"] = from_millis(row["last_used_at"])
            row["agents"] = tuple(sorted(row["agents"]))
        self._reads.note("Strategy", [row["id"] for row in rows])
        return Listed(StrategyRow(**row) for row in rows)

    def _tasks(self, text: str | None, task_type: str | None, view: View) -> list[str]:
        """Return tasks; of those of all agents on a text the caller filters by the type."""
        if text is not None:
            ids = task_ids(self._graph, text, view)
            if view.agents is None:
                return ids
            rows = list(view.tasks(self._graph, ids, untried=True).values())
        elif view.agents is None:
            rows = self._graph.read("learning.find_tasks", task_type=task_type)
            return [row["id"] for row in rows]
        else:
            rows = self._graph.read("access.described_tasks", agents=view.agents)
        return sorted(row["id"] for row in rows if task_type in (None, row["task_type"]))

    def episodes(
        self,
        task: str | None = None,
        *,
        task_type: str | None = None,
        agent: str | None = None,
        strategy: str | None = None,
        success: bool | None = None,
        since: datetime | None = None,
        limit: int = 20,
    ) -> Listed[EpisodeRow]:
        """Return episodes, the latest first.

        Args:
            task: the key, id or wording of a task; None: of all tasks.
            task_type: only episodes on tasks of this type.
            agent: only episodes that this agent may read; None: all.
            strategy: only episodes that applied this strategy (its text or id).
            success: only episodes that worked (True), or that did not (False).
            since: only episodes that ended at this time (with time zone) or later. An episode
                without a time counts from its recording.
            limit: most episodes to return.
        """
        check_limit(limit)
        task, strategy = checked_text("task", task), checked_text("strategy", strategy)
        task_type, since = checked_text("task_type", task_type), checked("since", since, _SINCE)
        if success is not None:
            check_flag("success", success)
        view = read_view(self._graph, agent)
        asked: dict[str, Any] = {**view.filters(self._graph), "task_type": task_type}
        asked |= {"success": success, "since": millis(since), "limit": limit}
        start = None if view.agents is None else "by"
        if strategy is not None:
            start, asked["strategies"] = "used", [strategy, strategy_id(self._graph.ns, strategy)]
        if task is not None:
            start, asked["tasks"] = "on", task_ids(self._graph, task, view)
        options = [] if start is None else [start]
        if start is None and task_type is None and success is None:
            options = ["newest"] if limit <= RECENT else ["newest", "all"]
        rows = self._graph.read("looking.episodes", *options, **asked)
        told: dict[str, list[Row]] = {}
        for one in self._graph.read("settling.told", ids=[row["id"] for row in rows]):
            told.setdefault(one["episode"], []).append(one)
        for row in rows:
            row |= {"at": from_millis(row["at"]), "recorded_at": from_millis(row["recorded_at"])}
            row["strategies"] = tuple(row["strategies"])
            if known := told.get(row["id"]):
                row |= {"settled_at": from_millis(known[-1]["at"]), "former": formers(known)}
        return Listed(EpisodeRow(**row) for row in rows)

    def tasks(
        self,
        task_type: str | None = None,
        *,
        agent: str | None = None,
        sort: Sort = "trials",
        limit: int = 20,
    ) -> Listed[TaskRow]:
        """Return tasks with their success rates, and the best strategy on each.

        Args:
            task_type: only tasks of this type.
            agent: count only episodes that this agent may read; None: all.
            sort: "trials": the most episodes first; "best": the highest lower bound of the success
                rate; "worst": the lowest upper bound; "latest": the latest episode.
            limit: most tasks to return.
        """
        check_limit(limit)
        check_choice("sort", sort, _PLACES)
        task_type = checked_text("task_type", task_type)
        view = read_view(self._graph, agent)
        by: dict[str, Any] = {}
        if view.agents is None:
            rows = self._graph.read("looking.tasks", task_type=task_type, sort=sort, limit=limit)
        else:
            by = view.filters(self._graph)
            rows = self._graph.read("looking.tasks_by", **by)
            seen = view.tasks(self._graph, [row["id"] for row in rows], untried=True)
            rows = [{**row, **seen[row["id"]]} for row in rows if row["id"] in seen]
            rows = [row for row in rows if task_type in (None, row["task_type"])]
            rows = sorted(rows, key=lambda row: (_PLACES[sort](row), row["id"]))[:limit]
        options = ["by"] if by else []
        ids = [row["id"] for row in rows]
        found = self._graph.read("looking.best_on", *options, ids=ids, **by) if ids else []
        best: dict[str, Row] = {}
        changes = self._changed({row["id"] for row in found}, view)
        for row in follow(self._graph, found, "id", "mean", changes):
            best.setdefault(row["task"], row)
        return Listed(_task_row(row, best.get(row["id"])) for row in rows)

    def show(self, item: HasId | str) -> Item:
        """Return anything that has an id: its kind, its fields, and its links.

        Args:
            item: an id that graphmem gave, its first 6 letters or more, or an object with an id.

        Raises:
            NotFoundError: nothing has this id.
            ValidationError: it is no id, or several ids begin like it; the error lists them.
        """
        given = item if isinstance(item, str) else getattr(item, "id", None)
        if not isinstance(given, str):
            raise ValidationError("item", item, "has no id", "give an id that graphmem printed")
        identity = str(checked_text("item", given))
        beyond = identity + ("\0" if len(identity) < PREFIX else BEYOND)
        rows = self._graph.read("looking.find", first=identity, beyond=beyond)
        exact = [row for row in rows if row["id"] == identity]
        if len(rows) > 1 and not exact:
            fitting = ", ".join(f"{row['kind']} {row['id']}" for row in rows[:5])
            problem = f"fits several: {fitting}{' and more' if len(rows) > 5 else ''}"
            raise ValidationError("item", given, problem, "give more of the id")
        if not rows:
            raise NotFoundError(
                f"nothing in namespace {self._graph.ns!r} has an id {given[:200]!r}, or one that "
                f"begins so; give one that graphmem printed, or its first {PREFIX} letters or more"
                "; `graphmem explain` takes the text of a strategy"
            )
        found = (exact or rows)[0]
        links = self._graph.read("looking.links", ids=[found["id"]])
        steps: list[Row] = []
        if found["kind"] == "episode":
            steps = self._graph.read("learning.steps_of", ids=[found["id"]])[:STEPS]
            told = self._graph.read("settling.told", ids=[found["id"]])
            if told:
                former = [one.model_dump(mode="json") for one in formers(told)]
                found["fields"] |= {"settled_at": told[-1]["at"], "former": former}
        return Item(
            kind=found["kind"],
            id=found["id"],
            fields=dict(_fields(found["fields"])),
            links=tuple(ItemLink(**row) for row in links),
            steps=tuple(_step(row) for row in steps),
        )


_PLACES: dict[Sort, Callable[[Row], Any]] = {
    "trials": lambda row: -row["trials"],
    "best": lambda row: -row["lower"],
    "worst": lambda row: row["upper"],
    "latest": lambda row: -row["last_at"],
}


def _task_row(row: Row, tried: Row | None) -> TaskRow:
    best = tried if tried and tried["successes"] else None
    given = {name: row[name] for name in TaskRow.model_fields if name in row}
    return TaskRow(
        **given
        | {
            "last_at": from_millis(row["last_at"]),
            "mean_score": row["score_sum"] / row["trials"],
            "strategies": tried["strategies"] if tried else 0,
            "best": best["text"] if best else None,
            "best_trials": best["trials"] if best else 0,
            "best_successes": best["successes"] if best else 0,
        }
    )


def _step(row: Row) -> StepRow:
    step = {name: row[name] for name in StepRow.model_fields}
    for name in ("action", "observation"):
        step[name] = step[name] and step[name][:SHOWN]
    return StepRow(**step)


def _fields(stored: Row) -> Any:
    for name, value in sorted(stored.items()):
        if value not in (None, "", []):
            moment = from_millis(value) if name == "at" or name.endswith("_at") else None
            yield name, value if moment is None else moment.isoformat()
