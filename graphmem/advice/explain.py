"""Explanations: the evidence for a belief, its dates, and what would change it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from graphmem.advice.changes import change_of
from graphmem.advice.estimate import Estimator
from graphmem.errors import ValidationError
from graphmem.graph.access import ChangeFinder, View, read_view
from graphmem.graph.estimate import (
    ESTABLISHED_ABOVE,
    HEURISTIC_ABOVE,
    REFUTED_BELOW,
    Counts,
    rates_of,
)
from graphmem.graph.graph import Graph
from graphmem.graph.lookup import VERDICT, HasId, checked_kind, find_items, missing_item
from graphmem.ids import from_millis, rule_id, state_id
from graphmem.kinds import ItemKind
from graphmem.lessons import Lessons
from graphmem.lessons.anti_patterns import failures_since
from graphmem.lessons.general_rules import general_rules_of
from graphmem.lessons.priors import SENTINEL, PriorReader
from graphmem.models.advice import (
    CoursePoint,
    Evidence,
    Explanation,
    Neighbour,
    Share,
    Shares,
    Trend,
    Turn,
    Why,
)
from graphmem.models.forecasts import Change
from graphmem.models.policies import Policy
from graphmem.policies.values import policy_of
from graphmem.printable import counted
from graphmem.store.port import Row

LATEST = 2_000  # most trials that are read one by one, the latest
SAMPLE = 5  # most episodes for, and against, in an explanation
TABLE = 10  # most tasks, and agents, in an explanation
NEAR = 8  # most neighbours of one relation in an explanation
_WORDS = {
    **dict.fromkeys(("strategy", "heuristic", "policy"), ("worked", "success", "failure")),
    "anti-pattern": ("ended in this error", "failure with this error", "success"),
    "rule": ("support it", "episode in support of it", "episode against it"),
}
"""What trials did, by kind, and what one for and one against it is."""


class Explainer:
    """Explains the beliefs of one namespace."""

    def __init__(
        self, graph: Graph, lessons: Lessons, estimator: Estimator, changed: ChangeFinder
    ) -> None:
        self._graph = graph
        self._lessons = lessons
        self._estimator = estimator
        self._changed = changed
        self._priors = PriorReader(graph)

    def explain(
        self,
        item: HasId | str,
        *,
        kind: str | None = None,
        agent: str | None = None,
        task: str | None = None,
        as_of: datetime | None = None,
    ) -> Explanation:
        """Return why the memory believes something: ``print(memory.explain("refund"))``.

        The answer has counts and bounds, dates, the trend, the latest episodes for and against, the
        tasks where it works and fails, its neighbours, and the number of trials in a row that would
        change the verdict. Merged strategies count as one.

        Args:
            item: an object that the memory returned (a strategy, heuristic, anti-pattern, rule,
                policy or recalled item), its id, or a text. The text is that of a strategy, else of
                the only heuristic, anti-pattern or rule that has it.
            kind: "strategy", "heuristic", "anti-pattern", "rule" or "policy", if a text belongs to
                several kinds.
            agent: use only episodes that this agent may read; None: all.
            task: its key, id or wording. For a strategy, heuristic or anti-pattern the answer then
                also says what :meth:`predict` expects of the strategy there, and why.
            as_of: what was believed at this time, as in :meth:`predict`.

        Raises:
            NotFoundError: there is no such item, or the agent may not read its evidence; or nothing
                was recorded by ``as_of``.
            ValidationError: an argument is wrong, or a text matches several items; the error lists
                them.
        """
        if as_of is not None:
            how = {"kind": kind, "agent": agent, "task": task}
            past: Explanation = self._estimator.past(as_of).explain(item, **how)
            return past
        kind, view = checked_kind(kind), read_view(self._graph, agent)
        read = view.filters(self._graph)
        rows = find_items(self._graph, item, kind, view)
        if kind in (None, "rule"):
            rows = chain(rows, self._other_rules(item, view))
        for row in rows:
            explain = {"policy": self._policy, "rule": self._rule}.get(row["kind"], self._uses)
            if (explained := explain(row, view, read)) is None:  # its evidence may not be read
                continue
            if task is None:
                return explained
            if row.get("whole") is None:
                problem = f"tells nothing of a {explained.kind}"
                raise ValidationError("task", task, problem, "explain a strategy for it")
            expected = self._estimator.predict(task, row["whole"], agent)
            return explained.model_copy(update={"on_task": task, "expected": expected})
        raise missing_item(self._graph, item, kind, view)

    # Strategies, and lessons on them

    def _uses(self, item: Row, view: View, read: dict[str, Any]) -> Explanation | None:
        kind: ItemKind = item["kind"]
        members = self._graph.read("explaining.members", whole=item["whole"])
        ids = [row["id"] for row in members]
        lessons = self._graph.read("explaining.lessons", ids=ids, **read)
        asked: dict[str, Any] = {"parts": [{"id": one, "types": None} for one in ids], **read}
        group: Row | None = None
        if kind == "strategy":
            subject = {**item, **members[0]}
        else:
            fitting = (row for row in lessons if row["kind"] == kind and item["id"] in row["ids"])
            if (group := next(fitting, None)) is None:
                return None
            subject = {**item, "types": sorted(group["types"])}
            asked["parts"] = group["strategies"]
            asked["agents"] = [group["agent"]]
        asked["error_class"] = item["error_class"]
        own = () if asked["agents"] is None else ("own",)
        row = self._trials("explaining.uses", *own, **asked)
        if view.agents is not None and not row["trials"]:
            return None
        counted = ("counted",) if group is None and asked["types"] is None else ()
        near = self._read_neighbours(ids, view, read)
        near += self._believed([lesson for lesson in lessons if lesson is not group], view)
        readable = {part["id"] for lesson in lessons for part in lesson["strategies"]}
        merged = [
            Neighbour(relation="merged", id=member["id"], text=member["text"])
            for member in members
            if member["id"] != item["whole"] and (view.agents is None or member["id"] in readable)
        ]
        better = None
        if group is not None and kind == "anti-pattern":
            for one in self._lessons.anti_patterns(group["types"][0], view.reader):
                if one.id in group["ids"]:
                    better = one.better_alternative
        since = None
        if change := self._changed({item["whole"]}, view).get(item["whole"]):
            since = change.counts_since
            if kind == "anti-pattern":
                since = failures_since({"occurrences": row["successes"]}, change)
        return self._explanation(
            subject,
            row,
            view.reader,
            since=since,
            strategies=ids,
            by_task=self._shares("explaining.shares_of_uses", *counted, by="task", **asked),
            by_agent=self._shares("explaining.shares_of_uses", *counted, by="agent", **asked),
            neighbours=(*near, *merged),
            better_alternative=better,
        )

    def _read_neighbours(self, ids: list[str], view: View, read: Row) -> list[Neighbour]:
        rows = self._graph.read("explaining.near", ids=ids, limit=NEAR)
        if view.agents is not None:  # the edges count all agents
            rows = [row for row in rows if row["relation"] == "similar"]
            rows += self._graph.read("explaining.near_by", ids=ids, limit=NEAR, **read)
        known = sorted({row["id"] for row in rows})
        counts = self._graph.read("explaining.rates", ids=known, **read) if known else []
        rates = {row["id"]: row for row in counts}
        return [Neighbour(**rates[row["id"]] | row) for row in rows if row["id"] in rates]

    def _believed(self, lessons: Sequence[Row], view: View) -> Iterable[Neighbour]:
        """Yield the lessons over their thresholds, most trials first."""
        trials, failures = (of(self._graph.settings) for of in (view.trials, view.failures))
        ranked = sorted(lessons, key=lambda row: (-row["trials"], row["agent"], row["id"]))
        works = [row for row in ranked if row["kind"] == "heuristic" and row["trials"] >= trials]
        works = [row | {"text": row["types"][0]} for row in works if row["mean"] > HEURISTIC_ABOVE]
        fails = [row for row in ranked if row["kind"] != "heuristic"]
        fails = [
            row | {"text": row["error_class"]} for row in fails if row["successes"] >= failures
        ]
        yield from (Neighbour(relation="recommended", **row) for row in works[:NEAR])
        yield from (Neighbour(relation="warned against", **row) for row in fails[:NEAR])

    # Rules

    def _other_rules(self, item: str | HasId, view: View) -> Iterator[Row]:
        """Yield the rules that are no nodes: general ones of a reader, those of imported files."""
        given = item if isinstance(item, str) else item.id
        yield {"kind": "rule", "task": None, "id": given}
        for identity, row in self._priors.read(view).rules.items():
            if given == identity or VERDICT.sub("", given) == row["text"]:
                named = {"id": identity, "text": row["text"], "task": row["task"]}
                more = {"kind": "rule", "types": None, "source": SENTINEL}
                yield dict.fromkeys(_OF_ITEM) | named | more

    def _rule(self, item: Row, view: View, read: dict[str, Any]) -> Explanation | None:
        if item["task"] is None:
            return self._general_rule(item["id"], view)
        asked: dict[str, Any] = {"id": item["id"], **read}
        row = self._trials("explaining.listings", **asked)
        row |= self._with_files(item, row, view)
        if view.agents is not None and not row["trials"]:
            return None
        asked["verdict"] = row["verdict"] or "WORKS"
        return self._explanation(
            {**item, "verdict": row["verdict"], "first_at": None, "last_at": None},
            row,
            view.reader,
            by_task=self._shares("explaining.shares_of_listings", by="task", **asked),
            by_agent=self._shares("explaining.shares_of_listings", by="agent", **asked),
            turns=self._verdict_turns(row),
        )

    def _with_files(self, item: Row, row: Row, view: View) -> Row:
        """Return what changes in the counts of a rule by imported files that state it."""
        priors = self._priors.read(view)
        if (stated := priors.rules.get(item["id"])) is None:
            return {}
        held = self._priors.merge_rules(priors, (), {stated["task"]}, view)
        none: Row = {"verdict": None, "supporting": 0, "opposing": 0}
        verdict = next((one for one in held if one["id"] == item["id"]), none)
        works, avoids = stated["works"], stated["avoids"]
        return {
            "verdict": verdict["verdict"],
            "successes": verdict["supporting"],
            "trials": verdict["supporting"] + verdict["opposing"],
            **{name: row[name] + works for name in ("worked", "praised")},
            **{name: row[name] + avoids for name in ("failed", "blamed")},
        }

    def _general_rule(self, given: str, view: View) -> Explanation | None:
        """Return the explanation of a general rule, by id or text; None if there is none.

        It says nothing of what would change the rule, because every consolidation derives it again.
        """
        ids = {given, rule_id(self._graph.ns, "", given)}
        rules = self._priors.read(view).merge_general(general_rules_of(self._graph, view))
        found = (row for row in rules if row["id"] in ids or row["text"] == VERDICT.sub("", given))
        if (row := next(found, None)) is None:
            return None
        item = {**dict.fromkeys(("agent", "error_class", "task")), "kind": "rule", **row}
        evidence = {
            "successes": row["supporting"],
            "trials": row["supporting"] + row["opposing"],
            "supporting": [link["episode"] for link in row.get("episodes", ())][:SAMPLE],
            "opposing": [link["episode"] for link in row.get("against", ())][:SAMPLE],
            "times": [],
            "outcomes": [],
        }
        types = sorted(row.get("task_types") or ())
        return self._explanation({**item, "types": types}, evidence, view.reader)

    def _verdict_turns(self, row: Row) -> list[Turn]:
        counts = {name: row[name] for name in ("worked", "praised", "failed", "blamed")}
        turns = []
        for turn in self._graph.read("explaining.verdict_turns", **counts):
            good, becomes = turn.pop("good"), turn.pop("becomes") or "no rule"
            what = "of .85 or more that list it as a success"
            what = what if good else "under .5 that list it as a mistake"
            sentence = f"{counted(turn['more'], 'episode')} with a score {what}: {becomes}"
            turns.append(Turn(**turn, becomes=becomes, sentence=sentence))
        return turns

    # Policies

    def _policy(self, item: Row, view: View, read: dict[str, Any]) -> Explanation | None:
        if view.agents is not None and item["agent"] not in view.agents:
            return None
        known = policy_of(self._graph.read("policies.get", id=item["id"])[0])
        asked: dict[str, Any] = {"id": known.id, "types": read["types"]}
        return self._explanation(
            item,
            self._trials("explaining.attempts", **asked),
            view.reader,
            by_task=self._shares("explaining.shares_of_attempts", **asked),
            neighbours=self._beside(known, view),
            policy=known,
        )

    def _beside(self, known: Policy, view: View) -> tuple[Neighbour, ...]:
        place = state_id(self._graph.ns, known.state)
        rows = self._graph.read("policies.values", state_id=place, agent=known.agent)
        others = [row for row in rows if row["id"] != known.id][:NEAR]
        start = [{"id": known.id, "energy": 1.0}]
        spread = self._graph.read("policies.spread", rows=start, decay=1.0)
        ids = sorted({row["id"] for row in spread})
        found = self._graph.read("explaining.find", ids=ids) if ids else []
        seen = {
            row["id"]: row for row in found if view.agents is None or row["agent"] in view.agents
        }
        linked = [
            Neighbour(
                relation="linked",
                id=row["id"],
                text=seen[row["id"]]["text"],
                weight=row["energy"],
                episodes=row["count"],
            )
            for row in spread
            if row["id"] in seen
        ]
        beside = [
            Neighbour(relation="same state", **row | {"text": _action(row), "agent": None})
            for row in others
        ]
        return (*beside, *linked[:NEAR])

    # Common to all kinds

    def _explanation(
        self,
        item: Row,
        row: Row,
        reader: str | None,
        since: Counts | None = None,
        strategies: Sequence[str] = (),
        turns: Sequence[Turn] = (),
        **shown: Any,
    ) -> Explanation:
        """Return an explanation from the trials behind a belief; ``strategies`` are its ids.

        ``since``: those since its last change, which decide; None: it did not change.
        """
        kind, counts = item["kind"], (row["trials"], row["successes"])
        deciding = since or counts
        weighed = rates_of(self._graph, [deciding])[deciding]
        dated = {"times": row["times"], "outcomes": row["outcomes"]}
        trends = self._graph.read("explaining.trend", **dated)
        course = self._graph.read("explaining.course", **dated) if row["times"] else []
        alike = bool(shown) and shown["by_task"].groups == 1
        ids = {*row["supporting"], *row["opposing"]}
        asked = {"ids": sorted(ids), "strategies": strategies}
        episodes = self._graph.read("explaining.episodes", **asked) if ids else []
        readable = {one["id"]: Evidence(**_dated(one, "at")) for one in episodes}
        # An episode that used two members of one merged strategy counts twice, but is shown once.
        supporting, opposing = (
            tuple(readable[one] for one in dict.fromkeys(row[side]) if one in readable)
            for side in ("supporting", "opposing")
        )
        return Explanation(
            **{name: item[name] for name in _OF_ITEM},
            task_types=tuple(item["types"] or ()),
            read_as=reader,
            why=Why(
                trials=counts[0],
                successes=counts[1],
                sentence=_sentence(kind, counts, since, weighed),
                **weighed,
            ),
            first_at=from_millis(row.get("first_at", item["first_at"])),
            last_at=from_millis(row.get("last_at", item["last_at"])),
            dated=row.get("dated"),
            trend=Trend(**_dated(trends[0], "later_from")) if trends else None,
            course=tuple(CoursePoint(**_dated(point, "at")) for point in course),
            changes=tuple(_changes(item["text"], row["times"], row["outcomes"], alike=alike)),
            supporting=supporting,
            opposing=opposing,
            **shown,
            what_would_change=(*self._turns(kind, deciding), *turns),
        )

    def _turns(self, kind: str, counts: Counts) -> list[Turn]:
        turns, (trials, successes) = [], counts
        for row in self._graph.read("explaining.turns", trials=trials, successes=successes):
            word = _WORDS[kind][1 if row["direction"] == "for" else 2]
            bounds = f"bounds {row['lower']:.2f} to {row['upper']:.2f}"
            sentence = f"{counted(row['more'], word)} in a row: {row['becomes']} ({bounds})"
            turns.append(Turn(**row, sentence=sentence))
        return turns

    def _shares(self, name: str, *options: str, **asked: Any) -> Shares:
        rows = self._graph.read(name, *options, limit=TABLE, **asked)
        groups = rows[0]["groups"] if rows else 0
        return Shares(rows=tuple(Share(**row) for row in rows), groups=groups)

    def _trials(self, name: str, *options: str, **asked: Any) -> Row:
        return self._graph.read(name, *options, most=LATEST, sample=SAMPLE, **asked)[0]


def _sentence(kind: str, counts: Counts, since: Counts | None, said: Row) -> str:
    trials, successes = since or counts
    if not trials:
        return "nothing speaks for or against it yet, so it is tentative"
    reason = {
        "established": f"the lower bound is over {ESTABLISHED_ABOVE:g}",
        "refuted": f"the upper bound is under {REFUTED_BELOW:g}",
        "tentative": f"the lower bound is not over {ESTABLISHED_ABOVE:g}, and the "
        f"upper one not under {REFUTED_BELOW:g}",
    }[said["status"]]
    bounds = f"bounds {said['lower']:.2f} to {said['upper']:.2f}"
    told = f"{successes:,} of {trials:,} trials {_WORDS[kind][0]}"
    if since:
        told += f" since it changed ({counts[1]:,} of {counts[0]:,} in all)"
    return (
        f"{told}, so the rate is about {said['mean']:.2f} ({bounds}); it is {said['status']}, "
        f"because {reason}"
    )


_OF_ITEM = ("kind", "id", "text", "agent", "error_class", "verdict", "task", "source")


def _action(row: Row) -> str:
    action, spec = row["action_type"], row["action_spec"]
    return str(action if spec is None else f"{action} {spec}")


def _changes(
    text: str, times: Sequence[int], outcomes: Sequence[int], *, alike: bool
) -> Iterable[Change]:
    """Yield the changes of a rate in order; ``alike``: all outcomes are of one task."""
    from graphmem.advice import formula

    hazard, power = (formula.HAZARD, 1.0) if alike else (formula.DRIFT, formula.TEMPER)
    worked = outcomes[::-1]
    stamps = [at * 2 + won for at, won in zip(times[::-1], worked, strict=True)]
    turns = formula.split_course(worked, hazard, power)
    ends = [0, *(place for place, _ in turns), len(stamps)]
    for (place, certainty), first, last in zip(turns, ends, ends[2:], strict=False):
        won = sum(worked[first:last])
        row = {"trials": last - first, "successes": won, "latest": stamps[first:last]}
        turn = formula.Turn(place - first, certainty, last - place, sum(worked[place:last]))
        yield change_of(text, None, row, turn)


def _dated(row: Row, name: str) -> Row:
    return {**row, name: from_millis(row[name])}
