"""What ``recall`` tells besides strategies: rules, heuristics and policies that fit a text.

Near tasks count by their relevance; a type has the relevance of its nearest task, but at least that
of a task near enough to lend its type. ``cypher/advice/recall_kinds.cypher`` says what fits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from graphmem.graph.access import View
from graphmem.graph.estimate import STANDARD_ERRORS
from graphmem.graph.graph import Graph
from graphmem.ids import consolidation_id, from_millis, task_id
from graphmem.lessons.general_rules import AgentRules, general_rules_of
from graphmem.lessons.priors import PriorReader
from graphmem.lessons.proposals import MODEL
from graphmem.models.advice import Kind, NearTask, RecallItem
from graphmem.store.port import Row

KINDS: tuple[Kind, ...] = get_args(Kind)
MOST = 3  # most items of each kind besides strategies
TASKS = 5  # the nearest tasks, whose rules and policies count
EVIDENCE = 5  # most episodes of an item


@dataclass(frozen=True, slots=True)
class About:
    """What is known of a text when its strategies were found."""

    near: Sequence[NearTask]
    """The relevant tasks that the reader may read, the nearest first."""
    task_type: str | None
    type_rule: str | None
    lends: float
    """The similarity from which a task lends its type."""
    view: View
    now: int
    stopped: Callable[[Sequence[str]], Collection[str]]
    """Tells which strategies (texts) stopped working."""

    def to_type(self) -> tuple[str, ...]:
        """Return the path to the type."""
        rule = self.type_rule or ""
        lender = rule.removeprefix("near: ") if rule.startswith("near: ") else None
        if rule == "given" and self.near:
            lender = self.near[0].id
        via = [f"task: {task.text}" for task in self.near if task.id == lender]
        return ("text", *via, f"type: {self.task_type}")


class Beside:
    """Finds what fits besides strategies in one namespace."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._rules = AgentRules(graph)
        self._priors = PriorReader(graph)

    def items(
        self, asked: About, kinds: Collection[str], shown: Sequence[RecallItem]
    ) -> Iterator[RecallItem]:
        """Yield rules, then heuristics, then policies: of each the best three that fit."""
        typed = asked.task_type is not None and asked.view.allows(asked.task_type)
        if not {*kinds} - {"strategy", "prior"} or not (asked.near or typed):
            return
        told = self._read_rows(asked, kinds, shown, typed=typed)
        if rows := told.get("heuristics"):
            stopped = asked.stopped([row["row"]["text"] for row in rows])
            told["heuristics"] = [row for row in rows if row["row"]["text"] not in stopped]
        if "heuristic" in kinds:  # a general rule says the same of several types
            known = {row["row"]["text"] for row in told.get("heuristics", ())}
            rules = told.get("general rules", ())
            told["general rules"] = [row for row in rules if row["row"]["text"] not in known]
        for kind in (one for one in KINDS if one in kinds):
            makers = _PARTS.get(kind, {}).items()
            found = [make(row, asked) for part, make in makers for row in told.get(part, ())]
            once: dict[str, RecallItem] = {}
            for item in sorted(found, key=lambda item: (-item.score, item.text, item.id)):
                once.setdefault(item.text, item)
            yield from list(once.values())[:MOST]

    def _read_rows(
        self, asked: About, kinds: Collection[str], shown: Sequence[RecallItem], *, typed: bool
    ) -> dict[str, list[Row]]:
        settings, view = self._graph.settings, asked.view
        typed = typed and bool({"rule", "heuristic"} & {*kinds})
        seen = view.filters(self._graph)
        options = [] if typed else ["untyped"]
        if view.agents is not None:
            limited = [] if seen["types"] is None else ["limited"]
            options += ["agents", "given", *limited]
        by_agent = typed and view.agents is not None and "rule" in kinds
        near = [{"id": task.id, "relevance": task.relevance} for task in asked.near[:TASKS]]
        same = (task.relevance for task in asked.near if task.task_type == asked.task_type)
        query: dict[str, Any] = {
            "rows": near,
            "task_type": asked.task_type,
            "fits": max([max(0.0, asked.lends) ** 2, *same]),
            "consolidation": consolidation_id(self._graph.ns),
            "general": [*map(_given, self._rules.of(view) if by_agent else ())],
            "shown": [item.id for item in shown],
            "texts": [item.text for item in shown],
            "at_least": view.trials(settings),
            "z": STANDARD_ERRORS,
            "bounds": settings.z,
            "limit": MOST,
            "now": asked.now,
            **seen,
        }
        rows = self._graph.read("recall_kinds.told", *options, **query)
        found = {row["kind"] for row in rows}
        more = ["merged"] if "merged" in found else []
        if "documents" in found and "rule" in kinds and (stated := self._stated(asked, near)):
            query |= stated
            more += ["stated"] if "given" in options else ["stated", "given"]
        if more:
            rows = self._graph.read("recall_kinds.told", *options, *more, **query)
        return {row["kind"]: row["rows"] for row in rows}

    def _stated(self, asked: About, near: Sequence[Row]) -> dict[str, list[Row]] | None:
        """Return the rules that hold by episodes and imported files: of tasks, and general ones."""
        view, ns = asked.view, self._graph.ns
        priors, ids = self._priors.read(view), [row["id"] for row in near]
        keys = {row["task"] for row in priors.rules.values() if task_id(ns, row["task"]) in ids}
        if not (keys or priors.general):
            return None
        own, _ = self._priors.said(view, ids)
        rules = self._priors.merge_rules(priors, own, keys, view)
        query = {"ids": [row["id"] for row in rules], **view.filters(self._graph)}
        latest: dict[str, list[Row]] = {row["id"]: [] for row in rules}
        for row in self._graph.read("lessons.evidence_of_rules", **query):
            latest[row["id"]].append({"id": row["episode"], "at": row["at"]})
        general = priors.merge_general(general_rules_of(self._graph, view))
        of_all = {"task_types": [asked.task_type], "episodes": ()}  # those of a file
        return {
            "stated": [
                row | {"near": task_id(ns, row["task"]), "latest": latest[row["id"]]}
                for row in rules
            ],
            "general": [_given(of_all | row) for row in general],
        }


def _given(rule: Row) -> Row:
    """Return what is sent of a general rule."""
    latest = [{"id": one["episode"], "at": one["at"]} for one in rule["episodes"]]
    return rule | {"latest": latest}


def _rule(told: Row, asked: About) -> RecallItem:
    row = told["row"]
    first = row["each"][0]
    task = next(task for task in asked.near if task.id == first["task"])
    where = "here" if len(row["each"]) == 1 and task.relevance == 1.0 else "on tasks like it"
    return _rule_item(told, first["id"], where, ("text", f"task: {task.text}"))


def _general_rule(told: Row, asked: About) -> RecallItem:
    source = ", says a model" if told["row"]["source"] == MODEL else ""
    return _rule_item(told, told["row"]["id"], f"on several tasks{source}", asked.to_type())


def _rule_item(told: Row, identity: str, where: str, way: tuple[str, ...]) -> RecallItem:
    row = told["row"]
    text, counts = f"[{row['verdict']}] {row['text']}", _counts(row)
    return _item(
        told,
        kind="rule",
        id=identity,
        text=text,
        said=f"holds in {counts} {where}",
        path=(*way, f"HAS_RULE {counts}", f"rule: {text}"),
    )


def _heuristic(told: Row, asked: About) -> RecallItem:
    row = told["row"]
    text, counts = f"for {asked.task_type} tasks: {row['text']}", _counts(row)
    status = "established" if told["established"] else "tentative"
    return _item(
        told,
        kind="heuristic",
        id=row["members"][0],
        text=text,
        said=f"{counts} on tasks of its type by {row['agent']}, {status}",
        path=(
            *asked.to_type(),
            f"heuristic: {text}",
            f"RECOMMENDS {counts}",
            f"strategy: {row['text']}",
        ),
    )


def _policy(told: Row, asked: About) -> RecallItem:
    task = next(task for task in asked.near if task.id == told["row"]["task"])
    features = json.loads(told["features"]) if told["features"] else None
    place = ", ".join(f"{name}={_plain(value)}" for name, value in (features or {}).items())
    spec = "" if told["spec"] is None else f" {_plain(json.loads(told['spec']))}"
    text = f"in {place or told['state']}: {told['action']}{spec}"
    held = ", crystallized" if told["crystallized"] else ""
    names = ("id", "agent", "trials", "successes", "last_at")
    row = told["row"] | {name: told[name] for name in names}
    return _item(
        {"row": row, "latest": told["latest"]},
        kind="policy",
        text=text,
        said=f"{_counts(row)} by {told['agent']}, value {told['q']:.2f}{held}",
        path=("text", f"task: {task.text}", f"TOOK in {len(_latest(told))}", f"policy: {text}"),
    )


_PARTS: dict[str, dict[str, Callable[[Row, About], RecallItem]]] = {
    "rule": {"rules of tasks": _rule, "general rules": _general_rule},
    "heuristic": {"heuristics": _heuristic},
    "policy": {"policies": _policy},
}
"""The kinds of rows of ``recall_kinds.told``, by the kind of the item that each becomes."""


def _item(told: Row, **shown: Any) -> RecallItem:
    row = told["row"]
    shown["score"] = row["relevance"] * row["lower"] * row["freshness"]
    dated = {"last_at": from_millis(row["last_at"]), "evidence": _latest(told)[:EVIDENCE]}
    return RecallItem(**row | shown | dated)


def _latest(told: Row) -> tuple[str, ...]:
    episodes = {one["id"]: one["at"] for one in told["latest"]}
    return tuple(sorted(episodes, key=lambda id_: (episodes[id_], id_), reverse=True))


def _counts(row: Row) -> str:
    return f"{row['successes']} of {row['trials']}"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
