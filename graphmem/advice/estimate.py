"""The one estimate: what is to be expected of strategies on a task, from counts in the graph.

Every rate is shrunk toward the next wider one: of the task toward that of tasks near it, of its
type, of all; of a strategy likewise. ``forecasting.pool`` computes it; its counts come from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphmem.advice.strengths import Strengths, parameters, undecided
from graphmem.graph.access import View
from graphmem.graph.graph import Graph
from graphmem.graph.nearness import Near, Question, understood
from graphmem.ids import node_id, strategy_id
from graphmem.models.forecasts import Borrowed, PoolingStrengths
from graphmem.search.edges import LINKS
from graphmem.store.port import Row

_NOTHING = {
    **dict.fromkeys(("trials", "successes", "type_trials", "type_successes"), 0),
    **dict.fromkeys(("near_trials", "near_successes", "near_weight", "near_won"), 0),
    **dict.fromkeys(("cell_trials", "cell_successes"), 0),
}


Count = tuple[int, int]
"""Successes, trials."""


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
    lower: float
    """The Wilson bound of the estimate at the setting ``recall_z``, with that worth."""
    weight: float
    """Its weight among several that are used together."""

    @property
    def seen(self) -> Count:
        """Its outcomes on the task and those near it, or on the type if there are more."""
        won = self.here_successes + self.near_successes
        near = won, self.here_trials + self.near_trials
        return max(near, (self.type_successes, self.type_trials), key=lambda count: count[1])

    @property
    def said(self) -> str:
        """The counts that moved it, in words: ``26 of 30 here; 37 of 60 on tasks like it``."""
        return said(
            (self.here_successes, self.here_trials),
            (self.near_successes, self.near_trials),
            (self.type_successes, self.type_trials),
            (self.successes, self.trials),
        )


def said(here: Count, near: Count, typed: Count, everywhere: Count) -> str:
    """Return counts in words, from the task itself to all tasks, without those that add nothing."""
    parts = [
        f"{won} of {trials} {where}"
        for (won, trials), where in ((here, "here"), (near, "on tasks like it"))
        if trials
    ]
    told = here[1] + near[1]
    for (won, trials), where in ((typed, "on its type"), (everywhere, "in all")):
        if trials > told:
            parts.append(f"{won} of {trials} {where}")
            told = trials
    return "; ".join(parts) or "never tried"


@dataclass(frozen=True, slots=True)
class Estimates:
    """What is to be expected of strategies on a task, and the rates that all of them share."""

    tasks: tuple[str, ...]
    """Ids of the task; none where the memory does not have it."""
    task_type: str | None
    type_rule: str | None
    """What decided the type; see :class:`graphmem.graph.nearness.Question`."""
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
            task_type: the type of the task; None: see :func:`graphmem.graph.nearness.understood`.
        """
        question = understood(self._graph, task, view, near, task_type)
        return self.expected(question, strategies, view, near)

    def expected(
        self, question: Question, strategies: Sequence[str], view: View, near: Near | None = None
    ) -> Estimates:
        """Return what is to be expected of strategies (texts or ids) on a task that was found."""
        ids = {text: strategy_id(self._graph.ns, text) for text in strategies}
        links = self._links({*strategies, *ids.values()})
        own, kind = question.tasks, question.task_type
        similar = _nearest(question.near, own)
        counts = self._counts(own, similar, {*strategies, *ids.values()}, links, view)
        typed = _sum(row for row in counts.types if row["type"] == kind)
        totals = _sum(counts.types)
        if view.agents is None:
            strengths = self._strengths.in_force(totals["trials"])
        else:  # strengths are fitted to the outcomes of all agents
            strengths = undecided()
        lent = self._lent(ids, counts, near, view)
        rows = self._rows(ids, counts, kind, links, lent)
        task_row = _sum(counts.tasks)
        answer = self._read(
            "forecasting.pool",
            **totals,
            type_trials=typed["trials"],
            type_successes=typed["successes"],
            task_trials=task_row["trials"],
            task_successes=task_row["successes"],
            task_borrowed=list(map(_weighed, counts.near)),
            rows=[
                {
                    **{name: row[name] for name in _POOLED},
                    "place": place,
                    "borrowed": list(map(_weighed, row["borrowed"])),
                }
                for place, row in enumerate(rows)
            ],
            **parameters(strengths),
            z=self._graph.settings.recall_z,
        )[0]
        parts = answer["parts"]
        return Estimates(
            tasks=tuple(own),
            task_type=kind,
            type_rule=question.type_rule,
            trials=totals["trials"],
            successes=totals["successes"],
            rate=parts[0]["rate"],
            type_trials=typed["trials"],
            type_successes=typed["successes"],
            type_rate=parts[0]["type_rate"],
            task_trials=task_row["trials"],
            task_successes=task_row["successes"],
            task_rate=parts[0]["task_rate"],
            near=tuple(counts.near),
            strategies=tuple(_estimate(row, part) for row, part in zip(rows, parts, strict=True)),
            probability=answer["probability"],
            concentration=answer["concentration"],
            strengths=strengths,
            agents=view.agents,
        )

    def each(
        self, question: Question, strategies: Sequence[str], view: View
    ) -> tuple[Estimate, ...]:
        """Return what is to be expected of known strategies on a task that was found."""
        return self.expected(question, strategies, view).strategies

    def _links(self, strategies: Iterable[str]) -> dict[str, dict[str, float]]:
        """Return what is similar to strategies, by their wholes."""
        links: dict[str, dict[str, float]] = {}
        for row in self._read("forecasting.links", ids=sorted(strategies)):
            near = links.setdefault(row["id"], {})
            near[row["similar"]] = max(near.get(row["similar"], 0.0), row["similarity"])
        return {whole: _nearest(near.items(), [whole]) for whole, near in links.items()}

    def _counts(
        self,
        own: list[str],
        similar: Mapping[str, float],
        strategies: Iterable[str],
        links: Mapping[str, Mapping[str, float]],
        view: View,
    ) -> _Counts:
        """Return all counts that one statement gives."""
        own_ones = sorted(strategies)
        others = {other for near in links.values() for other in near}
        ids = sorted({*own_ones, *others})
        values = sorted({value for near in links.values() for value in near.values()})
        answer = self._read(
            "forecasting.counts",
            *(() if view.agents is None else ("some",)),
            id=self._embedder,
            tasks=own,
            nearby=[{"id": key, "similarity": similar[key]} for key in sorted(similar)],
            # Of what is similar, the counts by type are needed where only some agents' count.
            own=own_ones if view.agents is None else ids,
            ids=ids,
            least=_least(similar),
            similarities=values,
            **view.filters(self._graph),
        )
        parts: dict[str, list[Row]] = {row["part"]: row["rows"] for row in answer}
        near = parts.get("near", [])
        if view.agents is not None and near:
            texts = view.tasks(self._graph, sorted(row["id"] for row in near))
            near = [{**row, "text": texts[row["id"]]["text"]} for row in near if row["id"] in texts]
        told = [row["weight"] for row in parts.get("weights", ())]
        known: dict[str, Row] = {}
        typed: dict[str, list[Row]] = {}
        for row in parts.get("typed", ()):
            typed.setdefault(row["whole"], []).append(row)
        for row in parts.get("strategies", ()):
            counted = row if view.agents is None else _sum(typed.get(row["whole"], ()))
            if view.agents is None or counted["trials"]:
                known[row["id"]] = {**row, **_pick(counted)}
        return _Counts(
            types=parts.get("types", []),
            tasks=parts.get("tasks", []),
            near=_sorted(near),
            strategies=known,
            typed=typed,
            weights=dict(zip(values, told, strict=bool(told))),
            outcomes={row["whole"]: row for row in parts.get("outcomes", ())},
        )

    # Strategies

    def _rows(
        self,
        ids: Mapping[str, str],
        counts: _Counts,
        kind: str | None,
        links: Mapping[str, Mapping[str, float]],
        lent: Mapping[str, list[Borrowed]],
    ) -> list[Row]:
        """Return the counts of strategies, in order; those that count as one are one."""
        answer = []
        counted = set()
        for text, identity in ids.items():
            row = counts.of(text, identity)
            if row is None:
                nothing = {**_NOTHING, "id": None, "text": text}
                answer.append(nothing | {"borrowed": lent.get(text, [])})
                continue
            whole = row["whole"]
            if whole in counted:
                continue  # it is merged with another given one
            counted.add(whole)
            cell = counts.outcomes.get(whole, _NOTHING)
            typed = _sum(one for one in counts.typed.get(whole, ()) if one["type"] == kind)
            similar = links.get(whole, {})
            answer.append(
                {
                    **{name: cell[name] for name in _NEAR},
                    "id": whole,
                    "text": row["text"],
                    **_pick(row),
                    "type_trials": typed["trials"],
                    "type_successes": typed["successes"],
                    "cell_trials": cell["trials"],
                    "cell_successes": cell["successes"],
                    "borrowed": _lent(similar, counts.strategies, counts.weights, whole),
                }
            )
        return answer

    def _lent(
        self, ids: Mapping[str, str], counts: _Counts, near: Near | None, view: View
    ) -> dict[str, list[Borrowed]]:
        """Return what is similar to the strategies that the memory does not have, by their text."""
        if near is None:
            return {}
        unknown = [text for text, identity in ids.items() if counts.of(text, identity) is None]
        similar = {text: _nearest(near.near_strategies(text, view), []) for text in unknown}
        if not any(similar.values()):
            return {}
        found = self._counts([], {}, (), similar, view)
        return {
            text: _lent(others, found.strategies, found.weights) for text, others in similar.items()
        }


@dataclass(frozen=True, slots=True)
class _Counts:
    """The parts of ``forecasting.counts``."""

    types: Sequence[Row]
    tasks: Sequence[Row]
    near: Sequence[Borrowed]
    strategies: Mapping[str, Row]
    typed: Mapping[str, Sequence[Row]]
    outcomes: Mapping[str, Row]
    weights: Mapping[float, float]
    """Of similar strategies, by their similarity."""

    def of(self, text: str, identity: str) -> Row | None:
        """Return the counts of a strategy by the id that its text has, or that its text is."""
        return self.strategies.get(identity, self.strategies.get(text))


def _lent(
    similar: Mapping[str, float],
    strategies: Mapping[str, Row],
    weights: Mapping[float, float],
    own: str | None = None,
) -> list[Borrowed]:
    """Return similar strategies that have trials, each whole once: as its most similar part."""
    once: dict[str, Row] = {}
    for key in sorted(similar, key=lambda key: (similar[key], key)):
        row = strategies.get(key)
        if row is not None and row["whole"] != own:
            once[row["whole"]] = {
                **row,
                "similarity": similar[key],
                "weight": weights[similar[key]],
            }
    return _sorted(once.values())


def _least(similar: Mapping[str, float]) -> float:
    """Return the similarity of the farthest neighbour where there may be more of them, else 0."""
    return min(similar.values()) if len(similar) >= LINKS else 0.0


def _sorted(rows: Iterable[Row]) -> list[Borrowed]:
    """Return what has trials, the nearest first."""
    lent = [Borrowed(**{name: row[name] for name in _LENT}) for row in rows if row["trials"]]
    return sorted(lent, key=lambda one: (-one.similarity, one.text, one.id))


def _sum(rows: Iterable[Row]) -> dict[str, int]:
    """Return trials and successes of several rows together."""
    counted = [_pick(row) for row in rows]
    return {name: sum(row[name] for row in counted) for name in ("trials", "successes")}


def _pick(row: Mapping[str, Any]) -> dict[str, int]:
    return {"trials": row["trials"], "successes": row["successes"]}


_LENT = tuple(Borrowed.model_fields)
_NEAR = ("near_trials", "near_successes", "near_weight", "near_won")
_POOLED = (
    *("trials", "successes", "type_trials", "type_successes", "near_weight", "near_won"),
    *("cell_trials", "cell_successes"),
)

_SHOWN = (
    *("id", "text", "trials", "successes", "type_trials", "type_successes"),
    *("near_trials", "near_successes"),
)


def _estimate(row: Row, part: Row) -> Estimate:
    names = (
        "strategy_rate",
        "prior",
        "near",
        "probability",
        "concentration",
        "worth",
        "weight",
        "lower",
    )
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
