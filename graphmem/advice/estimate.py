"""The one estimate: what is to be expected of strategies on a task, from counts in the graph.

Every rate is shrunk toward the next wider one: of the task toward that of tasks near it, of its
type, of all; of a strategy likewise. ``forecasting.pool`` computes it; its counts come from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphmem.advice.strengths import Strengths, parameters, undecided
from graphmem.graph.access import View
from graphmem.graph.graph import Graph
from graphmem.graph.lookup import task_ids
from graphmem.ids import node_id, strategy_id
from graphmem.models.forecasts import Borrowed, PoolingStrengths
from graphmem.store.port import Row
from graphmem.text.task_types import GENERAL, infer_task_type

Near = Callable[[str, str, View], Sequence[tuple[str, float]]]
"""Finds nodes of a label (``Task``, ``Strategy``) similar to a text in a view: their ids, and
similarities in [-1, 1]."""

Filters = Mapping[str, Any]
"""Whose episodes count (``agents``), and the ``types`` of tasks that do; None: all."""
_NOTHING = {
    **dict.fromkeys(("trials", "successes", "type_trials", "type_successes"), 0),
    **dict.fromkeys(("near_trials", "near_successes", "near_weight", "near_won"), 0),
}


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is to be expected of one strategy on a task.

    Rates are in (0, 1); each is the one before it, moved by more outcomes.
    """

    id: str | None
    """Of the strategy, or of what it is merged into; None where the memory does not have it."""
    text: str
    trials: int
    """Over all tasks."""
    successes: int
    type_trials: int
    """On tasks of the same type."""
    type_successes: int
    near_trials: int
    """On tasks near this one."""
    near_successes: int
    here_trials: int
    """On this task."""
    here_successes: int
    borrowed: tuple[Borrowed, ...]
    """Similar strategies."""
    strategy_rate: float
    """Of the strategy over all tasks, or on the type of this one."""
    prior: float
    """On this task, from the rate of the task and that of the strategy."""
    near: float
    """The same, moved by its outcomes on near tasks."""
    probability: float
    """The same, moved by its outcomes on this task: the estimate."""
    concentration: float
    """How many trials on this task the estimate is worth; it makes the interval."""
    worth: float
    """The same where tasks that look the same are the same."""
    weight: float
    """Its weight among several that are used together."""

    @property
    def said(self) -> str:
        """The counts that moved it, in words: ``26 of 30 here; 37 of 60 on tasks like it``."""
        return said(
            (self.here_successes, self.here_trials),
            (self.near_successes, self.near_trials),
            (self.type_successes, self.type_trials),
            (self.successes, self.trials),
        )


Count = tuple[int, int]
"""Successes, trials."""


def said(here: Count, near: Count, typed: Count, everywhere: Count) -> str:
    """Return counts in words, from the task itself to all tasks, without those that add nothing."""
    parts = []
    beyond = 0
    for (won, trials), where in (
        (here, "here"),
        (near, "on tasks like it"),
        (typed, "on its type"),
        (everywhere, "in all"),
    ):
        if trials > beyond:
            parts.append(f"{won} of {trials} {where}")
        if where in ("here", "on tasks like it"):
            beyond += trials
        else:
            beyond = max(beyond, trials)
    return "; ".join(parts) or "never tried"


@dataclass(frozen=True, slots=True)
class Estimates:
    """What is to be expected of strategies on a task, and the rates that all of them share."""

    tasks: tuple[str, ...]
    """Ids of the task; none where the memory does not have it."""
    task_type: str | None
    trials: int
    """Uses of strategies over all tasks."""
    successes: int
    rate: float
    type_trials: int
    type_successes: int
    type_rate: float
    task_trials: int
    """Episodes of the task."""
    task_successes: int
    task_rate: float
    near: tuple[Borrowed, ...]
    """Tasks near this one."""
    strategies: tuple[Estimate, ...]
    """As they were given, without those that count as an earlier one."""
    probability: float
    """Of all of them used together."""
    concentration: float
    strengths: PoolingStrengths
    agents: tuple[str, ...] | None
    """The agents whose episodes count; None: all."""


class Estimator:
    """Estimates what strategies do on tasks, in one namespace."""

    def __init__(self, graph: Graph, strengths: Strengths) -> None:
        self._graph = graph
        self._read = graph.read
        self._strengths = strengths
        self._embedder = node_id(graph.ns, "Embedder", graph.ns)

    def estimates(
        self,
        task: str,
        strategies: Sequence[str],
        view: View,
        near: Near | None = None,
        task_type: str | None = None,
    ) -> Estimates:
        """Return what is to be expected of strategies (texts or ids) on a task.

        Args:
            task: its key, id or wording.
            strategies: at least one.
            view: what is read of the memory.
            near: finds what is near an unknown task or strategy.
            task_type: the type of the task; None: the known one, else that which its wording gives.
        """
        seen = view.filters(self._graph)
        if view.agents is None:
            totals = self._read("forecasting.totals")[0]
            strengths = self._strengths.in_force(totals["trials"])
        else:  # strengths are fitted to the outcomes of all agents
            totals = self._read("forecasting.totals_of", **seen)[0]
            strengths = undecided()
        own = task_ids(self._graph, task, view)
        similar = self._near_tasks(task, own, near, view)
        ids = sorted({*own, *similar})
        counted = self._read("forecasting.tasks", ids=ids, **seen) if ids else []
        tried = [row for row in counted if row["id"] in own]
        kind = self._type(task, own, view, task_type)
        typed = {"trials": 0, "successes": 0}
        if kind is not None and (seen["types"] is None or kind in seen["types"]):
            typed = self._read("forecasting.totals_of", agents=seen["agents"], types=[kind])[0]
        beside = self._beside([row for row in counted if row["id"] in similar], similar, view)
        rows = self._strategies(strategies, own, beside, near, seen, view, kind)
        task_row = {name: sum(row[name] for row in tried) for name in ("trials", "successes")}
        answer = self._read(
            "forecasting.pool",
            **totals,
            type_trials=typed["trials"],
            type_successes=typed["successes"],
            task_trials=task_row["trials"],
            task_successes=task_row["successes"],
            task_borrowed=list(map(_weighed, beside)),
            rows=[
                {
                    **{name: row[name] for name in _POOLED},
                    "place": place,
                    "borrowed": list(map(_weighed, row["borrowed"])),
                }
                for place, row in enumerate(rows)
            ],
            **parameters(strengths),
        )[0]
        parts = answer["parts"]
        return Estimates(
            tasks=tuple(own),
            task_type=kind,
            trials=totals["trials"],
            successes=totals["successes"],
            rate=parts[0]["rate"],
            type_trials=typed["trials"],
            type_successes=typed["successes"],
            type_rate=parts[0]["type_rate"],
            task_trials=task_row["trials"],
            task_successes=task_row["successes"],
            task_rate=parts[0]["task_rate"],
            near=tuple(beside),
            strategies=tuple(_estimate(row, part) for row, part in zip(rows, parts, strict=True)),
            probability=answer["probability"],
            concentration=answer["concentration"],
            strengths=strengths,
            agents=seen["agents"],
        )

    def _type(self, task: str, own: list[str], view: View, given: str | None) -> str | None:
        """Return the type of a task, None where it has none."""
        if given is not None:
            return None if given == GENERAL else given
        known = view.tasks(self._graph, own, untried=True) if own else {}
        types = {row["task_type"] for row in known.values()} or {infer_task_type(task).name}
        return next(iter(types)) if len(types) == 1 and GENERAL not in types else None

    # Tasks

    def _near_tasks(
        self, text: str, own: list[str], near: Near | None, view: View
    ) -> dict[str, float]:
        """Return the similarities of tasks near one, by id."""
        if own:
            rows = self._read("forecasting.similar_tasks", ids=own)
            return _nearest(((row["similar"], row["similarity"]) for row in rows), own)
        return _nearest(near("Task", text, view), own) if near is not None else {}

    def _beside(
        self, rows: Sequence[Row], similar: Mapping[str, float], view: View
    ) -> list[Borrowed]:
        """Return near tasks, with their counts."""
        if view.agents is not None and rows:
            texts = view.tasks(self._graph, sorted(similar))
            rows = [{**row, "text": texts[row["id"]]["text"]} for row in rows if row["id"] in texts]
        return _borrowed(rows, similar, self._weights(similar.values()))

    # Strategies

    def _strategies(
        self,
        given: Sequence[str],
        tasks: list[str],
        beside: Sequence[Borrowed],
        near: Near | None,
        seen: Filters,
        view: View,
        kind: str | None,
    ) -> list[Row]:
        """Return the counts of strategies, in order."""
        ns = self._graph.ns
        named = {text: strategy_id(ns, text) for text in given}
        rows = {
            row["id"]: row
            for row in self._tried({*given, *named.values()}, seen, kind)
            if view.agents is None or row["trials"]
        }
        known = {text: rows.get(named[text], rows.get(text)) for text in given}
        wholes = sorted({row["whole"] for row in known.values() if row})
        there: dict[str, Row] = {}
        if wholes and (tasks or beside):
            lent = [{"id": one.id, "weight": one.weight} for one in beside]
            query = {"tasks": tasks, "rows": lent, "ids": wholes, "agents": view.agents}
            there = {row["whole"]: row for row in self._read("forecasting.outcomes", **query)}
        lenders = self._lenders([row for row in known.values() if row], seen)
        answer = []
        counted = set()
        for text, row in known.items():
            if row is not None and row["whole"] in counted:
                continue  # it is merged with another given one
            whole = row["whole"] if row else None
            counted.add(whole)
            cell = there.get(str(whole), _NOTHING)
            if row is None:
                borrowed = self._unknown(text, near, seen, view)
            else:
                borrowed = lenders.get(str(whole), [])
            answer.append(
                {
                    **(row or {**_NOTHING, "text": text}),
                    **{name: value for name, value in cell.items() if name.startswith("near_")},
                    "id": whole,
                    "cell_trials": cell["trials"],
                    "cell_successes": cell["successes"],
                    "borrowed": borrowed,
                }
            )
        return answer

    def _tried(self, ids: Iterable[str], seen: Filters, kind: str | None = None) -> list[Row]:
        """Return the readable counts of strategies, over all tasks and on a type of them."""
        rows = self._read("forecasting.strategies", ids=sorted(ids))
        if not rows or (seen["agents"] is None and kind is None):
            return [{**_NOTHING, **row} for row in rows]
        members = {row["whole"]: row["members"] for row in rows}
        wholes = [{"whole": key, "members": members[key]} for key in sorted(members)]
        counted = self._read("forecasting.strategies_of", rows=wholes, type=kind, **seen)
        counts = {row["whole"]: row for row in counted}
        names = ["type_trials", "type_successes"]
        if seen["agents"] is not None:
            names += ["trials", "successes"]
        return [
            {**_NOTHING, **row, **{n: counts.get(row["whole"], _NOTHING)[n] for n in names}}
            for row in rows
        ]

    def _lenders(self, rows: Sequence[Row], seen: Filters) -> dict[str, list[Borrowed]]:
        """Return the strategies similar to known ones, by the whole of these."""
        whole_of = {member: row["whole"] for row in rows for member in row["members"]}
        if not whole_of:
            return {}
        links: dict[str, dict[str, float]] = {}
        for link in self._read("forecasting.similar_strategies", ids=sorted(whole_of)):
            near = links.setdefault(whole_of[link["id"]], {})
            near[link["similar"]] = max(near.get(link["similar"], 0.0), link["similarity"])
        counts = self._tried({other for near in links.values() for other in near}, seen)
        weights = self._weights(one for near in links.values() for one in near.values())
        lent = {}
        for whole, near in links.items():
            similar = _nearest(near.items(), [key for key, of in whole_of.items() if of == whole])
            lent[whole] = _once([row for row in counts if row["id"] in similar], similar, weights)
        return lent

    def _unknown(self, text: str, near: Near | None, seen: Filters, view: View) -> list[Borrowed]:
        """Return the strategies similar to one that the memory does not have."""
        similar = _nearest(near("Strategy", text, view), []) if near else {}
        rows = self._tried(similar, seen) if similar else []
        return _once(rows, similar, self._weights(similar.values()))

    def _weights(self, similarities: Iterable[float]) -> dict[float, float]:
        """Return what one outcome counts for, by similarity."""
        asked = sorted({min(one, 1.0) for one in similarities if one > 0.0})
        if not asked:
            return {}
        rows = self._read("forecasting.weights", id=self._embedder, similarities=asked)
        return dict(zip(asked, (row["weight"] for row in rows), strict=True))


def _once(
    rows: Iterable[Row], similar: Mapping[str, float], weights: Mapping[float, float]
) -> list[Borrowed]:
    once = {one["whole"]: one for one in sorted(rows, key=lambda one: similar[one["id"]])}
    return _borrowed(once.values(), similar, weights)


def _borrowed(
    rows: Iterable[Row], similar: Mapping[str, float], weights: Mapping[float, float]
) -> list[Borrowed]:
    """Return what has trials, with what these count for, the nearest first."""
    lent = [
        Borrowed(
            id=row["id"],
            text=row["text"],
            similarity=similar[row["id"]],
            weight=weights[similar[row["id"]]],
            trials=row["trials"],
            successes=row["successes"],
        )
        for row in rows
        if row["trials"]
    ]
    return sorted(lent, key=lambda one: (-one.similarity, one.text, one.id))


_POOLED = (
    *("trials", "successes", "type_trials", "type_successes", "near_weight", "near_won"),
    *("cell_trials", "cell_successes"),
)

_SHOWN = (
    *("id", "text", "trials", "successes", "type_trials", "type_successes"),
    *("near_trials", "near_successes"),
)


def _estimate(row: Row, part: Row) -> Estimate:
    names = ("strategy_rate", "prior", "near", "probability", "concentration", "worth", "weight")
    values = {name: row[name] for name in _SHOWN} | {name: part[name] for name in names}
    return Estimate(
        **values,
        here_trials=row["cell_trials"],
        here_successes=row["cell_successes"],
        borrowed=tuple(row["borrowed"]),
    )


def _nearest(pairs: Iterable[tuple[str, float]], own: Iterable[str]) -> dict[str, float]:
    """Return the similarities of others by id, without those that are not positive."""
    mine = set(own)
    similar: dict[str, float] = {}
    for identity, similarity in pairs:
        if identity not in mine and similarity > 0.0:
            similar[identity] = max(similar.get(identity, 0.0), min(float(similarity), 1.0))
    return similar


def _weighed(one: Borrowed) -> dict[str, float]:
    return {"weight": one.weight, "trials": one.trials, "successes": one.successes}
