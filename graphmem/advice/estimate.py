"""The one estimate: what to expect of strategies on a task, from counts in the graph.

Every rate is shrunk toward the next wider one. For a task: that of near tasks, of its type, of all
tasks; for a strategy likewise. ``forecasting.pool`` computes it from the counts that are read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphmem.advice.strengths import Strengths, parameters, undecided
from graphmem.graph.access import View
from graphmem.graph.graph import Graph
from graphmem.graph.nearness import Near, Question, understood
from graphmem.ids import heuristic_ids, node_id, strategy_id
from graphmem.models.forecasts import Borrowed, PoolingStrengths
from graphmem.search.edges import LINKS
from graphmem.store.port import Row

_OF_TYPE = ("type_trials", "type_successes")
_NEAR = ("near_trials", "near_successes", "near_weight", "near_won")
_NOTHING = dict.fromkeys(("trials", "successes", *_OF_TYPE, *_NEAR), 0)
_NOT_LENT = {"known": 0, "won": 0, "trials": 0, "successes": 0, "each": ()}


COSTLY = 16
"""A walk passes so many edges of uses in the time of one look-up of a node."""
STANDARD_ERRORS = 1.0
"""The normal quantile of the lower bound by which recall sorts."""
Count = tuple[int, int]
"""Successes, trials."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What to expect of one strategy on a task.

    Rates are in (0, 1). Each is the one before it, moved by more outcomes.
    """

    id: str | None
    """Id of the strategy, or of what it is merged into; None if the memory does not have it."""
    text: str
    trials: int
    """Outcomes over all tasks."""
    successes: int
    type_trials: int
    """Outcomes on tasks of the same type."""
    type_successes: int
    near_trials: int
    """Outcomes on near tasks."""
    near_successes: int
    here_trials: int
    """Outcomes on this task."""
    here_successes: int
    lent_trials: int
    """Outcomes of similar strategies."""
    lent_successes: int
    lenders: tuple[Row, ...]
    """These strategies, the most similar first, if asked for."""
    strategy_rate: float
    """Rate of the strategy over all tasks, or on the type of this one."""
    prior: float
    """Rate on this task, from the rates of the task and of the strategy."""
    near: float
    """The same, moved by its outcomes on near tasks."""
    probability: float
    """The same, moved by its outcomes on this task: the estimate."""
    concentration: float
    """How many trials on this task the estimate is worth; it makes the interval."""
    worth: float
    """The same worth, with tasks that look alike counted as one."""
    lower: float
    """The Wilson bound of the estimate at :data:`STANDARD_ERRORS`, with that worth."""
    weight: float
    """Its weight among several strategies that are used together."""
    usual: bool
    """Whether it worked at times, and no less often than others on the type, else on all tasks.

    What every run uses fails as often as the runs do, with the same errors, and is not their cause.
    """

    @property
    def borrowed(self) -> tuple[Borrowed, ...]:
        """Similar strategies, the most similar first, if asked for."""
        return tuple(map(_borrowed, self.lenders))

    @property
    def seen(self) -> Count:
        """Its outcomes on the task and near ones, or on the type if there are more."""
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
    """What to expect of strategies on a task, and the rates that all of them share."""

    tasks: tuple[str, ...]
    """Ids of the task; none if the memory does not have it."""
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
    lenders: tuple[Row, ...]
    """Near tasks, the nearest first."""
    strategies: tuple[Estimate, ...]
    """The strategies as they were given, without those that count as an earlier one."""
    probability: float
    """What to expect of all of them used together."""
    concentration: float
    strengths: PoolingStrengths
    agents: tuple[str, ...] | None
    """The agents whose episodes count; None: all."""

    @property
    def near(self) -> tuple[Borrowed, ...]:
        """Near tasks, the nearest first."""
        return tuple(map(_borrowed, self.lenders))


class Estimator:
    """Estimates the outcomes of strategies on tasks, in one namespace."""

    def __init__(self, graph: Graph, strengths: Strengths) -> None:
        self._graph = graph
        self._read = graph.read
        self._strengths = strengths
        self._embedder = node_id(graph.ns, "Embedder", graph.ns)
        self._merged = False
        """Whether strategies are merged. If so, the longer query for counts is used at once; it
        gives the same counts if none are merged."""

    def estimates(
        self,
        task: str,
        strategies: Sequence[str],
        view: View,
        near: Near | None = None,
        task_type: str | None = None,
        *,
        each: bool = False,
    ) -> Estimates:
        """Return what to expect of strategies (texts or ids) on a task.

        Args:
            task: its key, id or wording.
            strategies: at least one.
            view: what the reader may read.
            near: finds what is near an unknown task or strategy.
            task_type: the type of the task; None: see :func:`graphmem.graph.nearness.understood`.
            each: whether to tell what each similar strategy lends.
        """
        question = understood(self._graph, task, view, near, task_type)
        return self.expected(question, strategies, view, near, each=each)

    def expected(
        self,
        question: Question,
        strategies: Sequence[str],
        view: View,
        near: Near | None = None,
        *,
        each: bool = False,
    ) -> Estimates:
        """Return what to expect of strategies (texts or ids) on a task that was found."""
        ids = {text: strategy_id(self._graph.ns, text) for text in strategies}
        own = sorted({*ids, *ids.values()})
        counts = self._counts(question, own, view)
        lent = self._lent(view, each=each, ids=own)
        strengths = undecided()  # they are fitted to the outcomes of all agents
        if view.agents is None:
            strengths = self._strengths.in_force(counts.all["trials"], counts.strengths)
        unknown = [text for text, identity in ids.items() if counts.of(text, identity) is None]
        if near is not None and unknown:
            like = [
                {"whole": text, "id": identity, "similarity": float(similarity)}
                for text in unknown
                for identity, similarity in near.near_strategies(text, view)
                if similarity > 0.0
            ]
            if like:
                lent |= self._lent(view, "like", each=each, rows=like, similar=near.similar_from)
        rows = _rows(ids, counts, lent)
        answer = self._read(
            "forecasting.pool",
            **counts.all,
            task_trials=counts.task["trials"],
            task_successes=counts.task["successes"],
            task_borrowed=[{name: row[name] for name in _WEIGHED} for row in counts.near],
            rows=[
                {name: row[name] for name in _POOLED} | {"place": place}
                for place, row in enumerate(rows)
            ],
            **parameters(strengths),
            z=STANDARD_ERRORS,
        )[0]
        parts = answer["parts"]
        lenders = counts.near
        if each and view.agents is not None and lenders:
            told = view.tasks(self._graph, sorted(row["id"] for row in lenders))
            lenders = [
                row | {"text": told[row["id"]]["text"]} for row in lenders if row["id"] in told
            ]
        return Estimates(
            tasks=tuple(question.tasks),
            task_type=question.task_type,
            type_rule=question.type_rule,
            **counts.all,
            rate=parts[0]["rate"],
            type_rate=parts[0]["type_rate"],
            task_trials=counts.task["trials"],
            task_successes=counts.task["successes"],
            task_rate=parts[0]["task_rate"],
            lenders=_sorted(lenders),
            strategies=tuple(
                _estimate(row, part, usual=_is_usual(row, counts.all))
                for row, part in zip(rows, parts, strict=True)
            ),
            probability=answer["probability"],
            concentration=answer["concentration"],
            strengths=strengths,
            agents=view.agents,
        )

    def each(
        self, question: Question, strategies: Sequence[str], view: View
    ) -> tuple[Estimate, ...]:
        """Return what to expect of known strategies on a task that was found."""
        return self.expected(question, strategies, view).strategies

    def _counts(self, question: Question, own: Sequence[str], view: View) -> _Counts:
        """Return all counts that one statement gives."""
        mine = {*question.tasks}
        near = {key: cosine for key, cosine in question.near if key not in mine and cosine > 0.0}
        some, kind = view.agents is not None, question.task_type
        asked: dict[str, Any] = {
            "id": self._embedder,
            "pooling": self._strengths.id,
            "tasks": question.tasks,
            "nearby": [{"id": key, "similarity": min(near[key], 1.0)} for key in sorted(near)],
            "own": own,
            "type": kind,
            "least": min(near.values()) if len(near) >= LINKS else 0.0,
            "floor": question.floor,
            **view.filters(self._graph),
        }
        options = ["some"] if some else []
        answer = self._read("forecasting.counts", *options, *self._merging, **asked)
        parts: dict[str, list[Row]] = {row["part"]: row["rows"] for row in answer}
        if "merged" in parts:
            self._merged = True
            answer = self._read("forecasting.counts", *options, *self._merging, **asked)
            parts = {row["part"]: row["rows"] for row in answer}
        everything = parts["all"][0]
        found, tallies = parts.get("strategies", ()), everything.pop("tallies")
        typed = self._typed(found, tallies, kind, view) if tallies else {}
        known: dict[str, Row] = {}
        for row in found:
            counted = typed.get(row["whole"])
            if not some:
                known[row["id"]] = row
            elif counted and counted["trials"]:
                known[row["id"]] = {**row, **{name: counted[name] for name in _TRIED}}
        return _Counts(
            all=everything,
            task=parts["task"][0],
            near=parts.get("near", ()),
            strategies=known,
            typed=typed,
            outcomes={row["whole"]: row for row in parts.get("outcomes", ())},
            strengths=next(iter(parts.get("strengths", ())), None),
        )

    def _typed(
        self, found: Sequence[Row], tallies: Sequence[Row], kind: str | None, view: View
    ) -> dict[str, Row]:
        """Return the uses of strategies on a type, by what each counts as.

        They are read from heuristics, because each tally has at most one.
        """
        asked: dict[str, Any] = {"type": kind, **view.filters(self._graph)}
        options = ["some"] if view.agents is not None else []
        most = COSTLY * len(tallies) * len(found)
        if most < sum(row["trials"] for row in found) and not self._merged:
            options.append("known")
            whole = {row["text"]: row["id"] for row in found}
            kinds = [(one["agent"], one["type"]) for one in tallies]
            asked["ids"] = heuristic_ids(self._graph.ns, kinds, whole)
        else:
            whole = {row["whole"]: row["whole"] for row in found}
            asked["ids"] = [row["id"] for row in found]
            options += self._merging
        rows = self._read("forecasting.typed", *options, **asked)
        return {whole[row["whole"]]: row for row in rows}

    def _lent(self, view: View, *options: str, each: bool, **of: Any) -> dict[str, Row]:
        """Return what similar strategies lend, by what each borrower counts as."""
        asked = {"id": self._embedder, **of, **view.filters(self._graph)}
        if each:
            options = (*options, "each")
        if view.agents is not None:
            options = (*options, "some")
        rows = self._read("forecasting.lent", *options, *self._merging, **asked)
        return {row["whole"]: row for row in rows}

    @property
    def merged(self) -> bool:
        """Whether strategies are merged, as far as the last estimate knew."""
        return self._merged

    @property
    def _merging(self) -> tuple[str, ...]:
        return ("merged",) if self._merged else ()


@dataclass(frozen=True, slots=True)
class _Counts:
    """The parts of ``forecasting.counts``."""

    all: Mapping[str, int]
    task: Mapping[str, int]
    near: Sequence[Row]
    strategies: Mapping[str, Row]
    typed: Mapping[str, Row]
    outcomes: Mapping[str, Row]
    strengths: Row | None

    def of(self, text: str, identity: str) -> Row | None:
        """Return the counts of a strategy by the id that its text has, or that its text is."""
        return self.strategies.get(identity, self.strategies.get(text))


def _rows(ids: Mapping[str, str], counts: _Counts, lent: Mapping[str, Row]) -> list[Row]:
    """Return the counts of strategies, in order; those that count as one are one."""
    rows: dict[str, Row] = {}
    for text, identity in ids.items():
        found = counts.of(text, identity)
        whole = text if found is None else found["whole"]
        if whole in rows:
            continue  # it is merged with another given one
        row = {**_NOTHING, "id": None, "text": text}
        here: Mapping[str, Any] = _NOTHING
        if found is not None:
            here = counts.outcomes.get(whole, _NOTHING)
            typed = counts.typed.get(whole, _NOTHING)
            row = {
                **{name: found[name] for name in ("text", *_TRIED)},
                **{name: typed[name] for name in _OF_TYPE},
                **{name: here[name] for name in _NEAR},
                "id": whole,
            }
        known = lent.get(whole, _NOT_LENT)
        rows[whole] = row | {
            "cell_trials": here["trials"],
            "cell_successes": here["successes"],
            "borrowed": [{"weight": 1.0, "trials": known["known"], "successes": known["won"]}],
            "lent": known,
        }
    return list(rows.values())


def _sorted(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return what has trials, the nearest first."""
    lent = [row for row in rows if row["trials"]]
    return tuple(sorted(lent, key=lambda row: (-row["similarity"], row["text"], row["id"])))


def _borrowed(row: Row) -> Borrowed:
    return Borrowed(**row | {"similarity": min(1.0, row["similarity"])})


_TRIED = ("trials", "successes")
_WEIGHED = ("weight", *_TRIED)
_POOLED = (
    *("trials", "successes", "type_trials", "type_successes", "near_weight", "near_won"),
    *("cell_trials", "cell_successes", "borrowed"),
)
_SHOWN = ("id", "text", *_TRIED, *_OF_TYPE, "near_trials", "near_successes")
_EXPECTED = (
    *("strategy_rate", "prior", "near", "probability", "concentration", "worth", "weight"),
    "lower",
)


def _is_usual(row: Row, everything: Mapping[str, int]) -> bool:
    """Return whether a strategy worked at times, and no less often than the others, if any.

    That is on the type of the task, if it was used there. What never worked is not usual, even
    where nothing else worked either.
    """
    trials, successes = _OF_TYPE if row["type_trials"] else _TRIED
    others, won = everything[trials] - row[trials], everything[successes] - row[successes]
    better = row[successes] * others >= won * row[trials]
    return others > 0 and row[successes] > 0 and bool(better)


def _estimate(row: Row, part: Row, *, usual: bool) -> Estimate:
    lent = row["lent"]
    return Estimate(
        **{name: row[name] for name in _SHOWN},
        **{name: part[name] for name in _EXPECTED},
        here_trials=row["cell_trials"],
        here_successes=row["cell_successes"],
        usual=usual,
        lent_trials=lent["trials"],
        lent_successes=lent["successes"],
        lenders=_sorted(lent["each"] or ()),
    )
