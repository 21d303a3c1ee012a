"""What changed: strategies that began to work better or worse, on a task or everywhere."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from graphmem.graph.access import EVERYTHING, View, read_view
from graphmem.graph.arguments import checked_text
from graphmem.graph.estimate import ENOUGH, LATEST, Estimate
from graphmem.graph.graph import Graph
from graphmem.graph.lookup import task_ids
from graphmem.ids import from_millis, to_millis
from graphmem.models.fields import Moment, checked
from graphmem.models.forecasts import CERTAIN, Change
from graphmem.notebook import Listed
from graphmem.store.port import Row

if TYPE_CHECKING:
    from graphmem.advice.beliefs import Lately
    from graphmem.advice.formula import Turn


IsBelieved = Callable[[Row, "Turn"], bool]  # says whether a change that is certain is told
_COUNTS = ("trials", "successes", "effective", "latest")
_GIVEN = 1_000
"""Strategies up to which each is looked up by its id."""


class Changes:
    """Finds what changed in one namespace."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def changes(
        self, task: str | None = None, agent: str | None = None, after: datetime | None = None
    ) -> Listed[Change]:
        """Return what began to work better or worse, the most certain first.

        A strategy that changed on all its tasks is told once, with ``task=None``; else every task
        on which it changed is told. Only the latest change of each counts, among its latest 32
        dated outcomes. It must be certain to .95, and the rates before and since must be .25 apart;
        it holds until another one is certain. Merged strategies count as one.

        Args:
            task: only strategies tried on this task (its key, id or wording), and what they did
                there or everywhere; None: on all tasks.
            agent: use only outcomes that this agent may read; None: all.
            after: only changes since this time, with time zone; None: all.

        Raises:
            ValidationError: an argument is wrong.
        """
        after = checked("after", after, Moment | None)
        view = read_view(self._graph, agent)
        name = checked_text("task", task)
        tasks = None if name is None else task_ids(self._graph, name, view)
        if tasks == []:
            return Listed()
        pairs = self._mixed(view, "pairs", tasks=tasks)
        tried = None if tasks is None else {row["id"] for row in pairs}
        rows = [row for row in self._mixed(view) if tried is None or row["id"] in tried]
        wide = self._turned(rows, view)
        told: list[tuple[Row, Turn]] = list(wide.values())
        found = ((pairs[place], turn) for place, turn in _turns_there(pairs).items())
        told += [one for one in found if _is_news(one, wide.get(one[0]["id"]))]
        if after is not None:
            told = [(row, turn) for row, turn in told if _since(row, turn) >= to_millis(after)]
        texts = self._texts(row["id"] for row, _ in told)
        named = view.tasks(self._graph, sorted({row["task"] for row, _ in told} - {None}))
        told.sort(
            key=lambda one: (-one[1].certainty, -_since(*one), one[0]["id"], one[0]["task"] or "")
        )
        return Listed(
            change_of(texts[row["id"]], row["task"] and named[row["task"]]["text"], row, turn)
            for row, turn in told
            if row["task"] is None or row["task"] in named
        )

    def _read(self, view: View, name: str, *options: str, **asked: Any) -> list[Row]:
        some = ("some",) if view.agents is not None else ()
        return self._graph.read(name, *options, *some, **asked, **view.filters(self._graph))

    def _mixed(self, view: View, *options: str, **asked: Any) -> list[Row]:
        """Return what had both outcomes: rows of ``changes.mixed``, ``latest`` being stamps."""
        rows = self._read(view, "changes.mixed", *options, **asked)
        return [row | {"latest": latest_of(row["latest"])} for row in rows]

    def find(self, ids: Collection[str], view: View) -> dict[str, Change]:
        """Return how strategies (ids) changed on all their tasks, also where that is one.

        What works again is believed from :data:`ENOUGH` outcomes on.
        """
        given = ("given",) if len(ids) <= _GIVEN else ()
        read = self._mixed(view, *given, ids=sorted(ids)) if ids else []
        rows = [row for row in read if row["id"] in ids]
        if not rows:
            return {}

        def is_believed(row: Row, turn: Turn) -> bool:
            return turn.trials >= ENOUGH or not _better(row, turn)

        found = self._turned(rows, view, is_believed)
        there = {
            place: turn
            for place, turn in _turns_there(rows, is_believed).items()
            if rows[place]["id"] not in found
        }
        of = {one: place for place in there for one in rows[place]["members"]}
        first = {place: rows[place]["latest"][0] for place in there}
        for place, latest in (read_lately(self._graph, view, of, first) if of else {}).items():
            if len({one.task for one in latest}) == 1:
                found[rows[place]["id"]] = rows[place], there[place]
        texts = self._texts(found) if found else {}
        return {key: change_of(texts[key], None, row, turn) for key, (row, turn) in found.items()}

    def made_by(self, episodes: Sequence[str]) -> dict[str, tuple[Change, ...]]:
        """Return the changes that became certain with episodes (ids), by episode.

        Later outcomes are left out, as far as the latest 32 of a strategy tell them. Merged
        strategies are told each by itself.
        """
        found: dict[str, tuple[Change, ...]] = {}
        if not episodes:
            return found
        total = self._read(EVERYTHING, "forecasting.totals")[0]

        def find_turn(task: str | None, row: Row) -> Turn | None:
            if task is not None:
                return _turns_there([row]).get(0)
            turns = self._turned([row], EVERYTHING, total=total).values() if row["latest"] else ()
            return next((turn for _, turn in turns), None)

        for row in self._graph.read("changes.of_episodes", ids=list(episodes)):
            wide = {name: row[f"all_{name}"] for name in _COUNTS}
            places = [(row["task"], row | {"latest": latest_of(row["latest"])})]
            if wide["trials"] > row["trials"]:
                wide |= {"id": row["id"], "members": [row["id"]]}
                places.insert(0, (None, wide))
            for task, counts in places:
                before, after = (_as_of(counts, row["stamp"] + more) for more in (0, 1))
                if not (turn := find_turn(task, after)):
                    continue
                known = find_turn(task, before)
                if _is_news((after, turn), known and (before, known)):
                    change = change_of(row["strategy"], task, after, turn)
                    found[row["episode"]] = (*found.get(row["episode"], ()), change)
                    break
        return found

    def _turned(
        self,
        rows: Sequence[Row],
        view: View,
        is_believed: IsBelieved | None = None,
        total: Row | None = None,
    ) -> dict[str, tuple[Row, Turn]]:
        """Return which strategies changed on all tasks, by id, up to the latest of their rows."""
        total = total or self._read(view, "forecasting.totals")[0]
        turns = _hold(rows, lambda some: self._find_turns(some, view, total), is_believed)
        return {rows[place]["id"]: (rows[place], turn) for place, turn in turns.items()}

    def _find_turns(self, rows: Sequence[Row], view: View, total: Row) -> dict[int, Turn]:
        from graphmem.advice.beliefs import changing
        from graphmem.advice.formula import find_turns

        owns = [Estimate(**{name: row[name] for name in _COUNTS}) for row in rows]

        def look_up(places: Sequence[int]) -> Mapping[int, Sequence[Lately]]:
            of = {one: place for place in places for one in rows[place]["members"]}
            first = {place: owns[place].latest[0] for place in places}
            found = read_lately(self._graph, view, of, first)
            # What happened on one task alone is a change there.
            return {
                place: latest
                for place, every in found.items()
                if (latest := [one for one in every if one.stamp <= owns[place].latest[-1]])
                and len({one.task for one in latest}) > 1
            }

        found, runs = changing(owns, (total["n"], total["k"]), look_up)
        places = list(found)
        turns = find_turns(runs, _counts(rows[place] for place in places), rare=1.0)
        return {places[at]: turn for at, turn in turns.items()}

    def _texts(self, ids: Iterable[str]) -> dict[str, str]:
        rows = self._graph.read("lookup.subjects", ids=sorted({*ids}))
        return {row["id"]: row["text"] for row in rows}


def read_lately(
    graph: Graph,
    view: View,
    of: Mapping[str, int],
    first: Mapping[int, int],
    kind: str | None = None,
    weights: Mapping[str, float | None] | None = None,
) -> dict[int, list[Lately]]:
    """Return the latest outcomes of strategies by place, ascending.

    Args:
        graph: reads them.
        view: what counts.
        of: the place of each strategy (id).
        first: the oldest stamp that counts, by place.
        kind: the type of task that is asked about.
        weights: what one outcome counts for, by near task (id); None: it is the task itself.
    """
    from graphmem.advice.beliefs import Lately

    some, types = ("some",) if view.agents is not None else (), view.filters(graph)["types"]
    asked = [{"id": one, "first": first[place] // 2} for one, place in of.items()]
    found: dict[int, list[Lately]] = {place: [] for place in first}
    for row in graph.read("forecasting.lately", *some, rows=asked, agents=view.agents):
        if types is None or row["type"] in types:
            own, others = (row["tried"], row["won"]), (row["trials"], row["successes"])
            typed = kind is not None and row["type"] == kind
            weight = (weights or {}).get(row["task"], 0.0)
            found[of[row["id"]]] += [
                Lately(stamp, row["task"], typed, own, others, weight)
                for stamp in row["stamps"] or ()
            ]
    return {place: sorted(latest, key=itemgetter(0))[-LATEST:] for place, latest in found.items()}


def latest_of(lists: Iterable[Sequence[int] | None]) -> list[int]:
    """Return the latest of several lists of stamps (time in ms * 2 + success), ascending."""
    return sorted(chain.from_iterable(filter(None, lists)))[-LATEST:]


def change_of(strategy: str, task: str | None, row: Mapping[str, Any], turn: Turn) -> Change:
    """Return a change of what had so many {trials, successes, latest (stamps)}."""
    stamps = row["latest"]
    return Change(
        strategy=strategy,
        task=task,
        since=from_millis(stamps[turn.place] // 2),
        until=from_millis(stamps[turn.place - 1] // 2) if turn.place else None,
        trials_before=row["trials"] - turn.trials,
        successes_before=row["successes"] - turn.successes,
        trials_since=turn.trials,
        successes_since=turn.successes,
        certainty=turn.certainty,
    )


def _turns_there(rows: Sequence[Row], is_believed: IsBelieved | None = None) -> dict[int, Turn]:
    from graphmem.advice.beliefs import mixed
    from graphmem.advice.formula import HAZARD, find_turns

    def find(some: Sequence[Row]) -> dict[int, Turn]:
        counts = _counts(some)
        return find_turns(mixed(counts, [row["latest"] for row in some], HAZARD), counts)

    return _hold(rows, find, is_believed)


def _hold(
    rows: Sequence[Row],
    find: Callable[[Sequence[Row]], Mapping[int, Turn]],
    is_believed: IsBelieved | None,
) -> dict[int, Turn]:
    """Return the latest changes that are certain and believed, by the place of their rows.

    Where the latest one is not, that before it holds, with all outcomes since.
    """

    def hold(some: Sequence[Row]) -> tuple[dict[int, Turn], dict[int, Turn]]:
        turns = find(some)
        held = {
            place: turn
            for place, turn in turns.items()
            if turn.certainty >= CERTAIN and (not is_believed or is_believed(some[place], turn))
        }
        return held, {place: turns[place] for place in turns.keys() - held if turns[place].place}

    held, doubted = hold(rows)
    before = [_as_of(rows[at], rows[at]["latest"][turn.place]) for at, turn in doubted.items()]
    earlier = hold(before)[0] if before else {}
    for place, (at, since) in enumerate(doubted.items()):
        if turn := earlier.get(place):
            trials, successes = turn.trials + since.trials, turn.successes + since.successes
            held[at] = turn._replace(trials=trials, successes=successes)
    return held


def _as_of(row: Row, end: int) -> Row:
    """Return the counts without the outcomes from a stamp on."""
    latest = latest_of([row["latest"]])
    later = [stamp for stamp in latest if stamp >= end]
    won = row["successes"] - sum(stamp & 1 for stamp in later)
    counts = {"trials": row["trials"] - len(later), "successes": won}
    return row | counts | {"latest": latest[: len(latest) - len(later)]}


def _counts(rows: Iterable[Row]) -> list[tuple[int, int]]:
    return [(row["trials"], row["successes"]) for row in rows]


def _since(row: Row, turn: Turn) -> int:
    return int(row["latest"][turn.place]) // 2


def _is_news(found: tuple[Row, Turn], known: tuple[Row, Turn] | None) -> bool:
    return known is None or _better(*found) != _better(*known)


def _better(row: Row, turn: Turn) -> bool:
    before = row["trials"] - turn.trials, row["successes"] - turn.successes
    return bool(turn.successes * before[0] > before[1] * turn.trials)
