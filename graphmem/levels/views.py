"""Views: what the long-term levels of agents show, as rows that rank beside entries.

An episode is as near to a text as its task, a strategy or heuristic as the strategy, a fact as its
own words. A policy has no words. The relevance of an episode fades as that of entries does. The
others have the relevance of a belief: the confidence of a fact, the mean of a strategy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from graphmem.graph.access import View
from graphmem.graph.graph import Graph
from graphmem.graph.rates import HEURISTIC_ABOVE
from graphmem.ids import canonical_json, node_id
from graphmem.levels.base import Search
from graphmem.levels.entries import SEARCHED
from graphmem.models.levels import Tags, said
from graphmem.store.port import Near, Question, Row

_FILTERS = ("since", "until", "relevant")
_VALUES = ("since", "until", "at_least")
_OUTCOMES = {True: "success", False: "failure"}


class _Kind(NamedTuple):
    """A kind of things that a view shows."""

    statement: str
    source: str | None
    """The column with the kind of its words; None: it has none."""
    label: str
    content: Callable[[Row], Row]
    tags: Callable[[Row], list[str]]


class _Asked(NamedTuple):
    """A question to the views of some agents, by one reader."""

    levels: Mapping[str, Row]
    """By agent: its view (a row of ``levels.get``)."""
    text: str | None
    tags: Tags | None
    question: Question
    limit: int
    view: View
    types: list[str] | None
    """The types of tasks that the reader may read about; None: all."""


def rows_of(
    graph: Graph,
    search: Search,
    levels: Iterable[Row],
    text: str | None,
    tags: Tags | None,
    question: Question,
    limit: int,
    view: View,
) -> list[Row]:
    """Return what matches in views: rows with the columns of an entry, and a similarity.

    The best ``limit`` are among them.
    """
    by_kind: dict[str, dict[str, Row]] = {}
    for row in levels:
        if row["holds"] != "entries":
            by_kind.setdefault(row["holds"], {})[row["owner"]] = row
    if not by_kind:
        return []
    types = view.filters(graph)["types"]
    found: list[Row] = []
    for holds, owners in by_kind.items():
        asked = _Asked(owners, text, tags, question, limit, view, types)
        if holds == "episodes":
            found += _episodes(graph, search, asked)
        elif "keyed" not in question.options:
            for kind in _KINDS[holds]:
                found += _others(graph, search, asked, kind)
    return found


def _episodes(graph: Graph, search: Search, asked: _Asked) -> Iterator[Row]:
    """Yield the matching episodes of agents."""
    options = [name for name in asked.question.options if name in ("keyed", *_FILTERS)]
    owners = [
        {"id": node_id(graph.ns, "Agent", agent), "agent": agent, "decay": level["decay"]}
        for agent, level in asked.levels.items()
    ]
    params = {**asked.question.params, "owners": owners, "limit": asked.limit}
    if asked.tags is not None or asked.types is not None:
        options.append("tagged")
        params["kinds"] = [
            f"{_OUTCOMES[success]} {row['type']}"
            for row in graph.read("scopes.task_types")
            for success in _OUTCOMES
            if _fits(asked, {"success": success, "task_type": row["type"]}, _EPISODES)
        ]
    if asked.text is None:
        rows = graph.read("views.episodes", *options, **params)
    else:
        rows = []
        for batch in search.ranked(_EPISODES.label, asked.text):
            near = [{"id": key, "similarity": similarity} for key, similarity in batch]
            rows += graph.read("views.episodes", "near", *options, nearby=near, **params)
            if len(rows) >= asked.limit:
                break
    for row in rows:
        yield _shown(row, asked.levels[row["agent"]], _EPISODES)


def _others(graph: Graph, search: Search, asked: _Asked, kind: _Kind) -> Iterator[Row]:
    """Yield everything else that views show and that matches."""
    if asked.text is not None and kind.source is None:
        return
    options = [name for name in asked.question.options if name in _FILTERS]
    params: dict[str, Any] = {
        name: value for name, value in asked.question.params.items() if name in _VALUES
    }
    if kind is not _FACTS:
        params["agents"] = sorted(asked.levels)
    if kind in (_STRATEGIES, _HEURISTICS) and asked.types is not None:
        options.append("typed")
        params["types"] = asked.types
    if kind is _HEURISTICS:
        params["occurrences"] = asked.view.trials(graph.settings)
        params["above"] = HEURISTIC_ABOVE
    if asked.text is None and asked.tags is None:
        params["limit"] = asked.limit
    rows = [
        row for row in graph.read(kind.statement, *options, **params) if _fits(asked, row, kind)
    ]
    if asked.text is not None and rows:
        rows = _nearest(rows, str(kind.source), search.ranked(kind.label, asked.text), asked.limit)
    first = asked.levels[min(asked.levels)]  # a fact is shown once, not for each agent
    for row in rows:
        yield _shown(row, first if kind is _FACTS else asked.levels[row["agent"]], kind)


def _nearest(rows: Sequence[Row], source: str, ranked: Iterator[Near], limit: int) -> list[Row]:
    """Return the rows whose words are the nearest, with their similarity."""
    of: dict[str, list[Row]] = {}
    for row in rows:
        of.setdefault(row[source], []).append(row)
    found: list[Row] = []
    for batch in ranked:
        for key, similarity in batch:
            found += [row | {"similarity": similarity} for row in of.get(key, ())]
        if len(found) >= limit:
            break
    return found


def _fits(asked: _Asked, row: Row, kind: _Kind) -> bool:
    if "task_type" in row and asked.types is not None and row["task_type"] not in asked.types:
        return False
    return asked.tags is None or asked.tags.fits(frozenset(kind.tags(row)))


def _shown(row: Row, level: Row, kind: _Kind) -> Row:
    """Return the columns of an entry for what a view shows."""
    content = {name: value for name, value in kind.content(row).items() if value not in (None, [])}
    return {
        "id": row["id"],
        "level": level["name"],
        "key": row.get("key"),
        "content": canonical_json(content),
        "format": "json",
        "tags": tuple(sorted(kind.tags(row))),
        "metadata": "{}",
        "base": row["base"],
        "relevance": row.get("relevance", row["base"]),
        "at": row["at"],
        "expires_at": None,
        "reads": 0,
        "similarity": row.get("similarity"),
    }


def learned(row: Row, level: str) -> Row:
    """Return the columns of ``flow.pending`` for an episode in its agent's stream."""
    shown = _shown(row | {"base": 1.0}, {"name": level}, _EPISODES)
    content = {"episode": row["id"], **json.loads(shown["content"])}
    tags = list(shown["tags"])
    return shown | {
        "key": f"episode/{row['id']}",
        "content": canonical_json(content),
        "text": said(content)[:SEARCHED],
        "tags": tags,
        "tagset": canonical_json(tags),
        "number": row["number"],
        "seq": row["number"],
        "subject": row["id"],
        "stored_at": row["stored_at"],
    }


def _named(row: Row, *names: str) -> Row:
    return {name: row[name] for name in names}


def _policy(row: Row) -> Row:
    parsed = {
        "state": None if row["features"] is None else json.loads(row["features"]),
        "action": None if row["action_spec"] is None else json.loads(row["action_spec"]),
    }
    return parsed | _named(row, "action_type", "q_value", "trials", "successes")


_EPISODES = _Kind(
    "views.episodes",
    "task",
    "Task",
    lambda row: _named(
        row, "task", "strategies", "success", "score", "summary", "error", "feedback"
    ),
    lambda row: [
        "kind:episode",
        f"outcome:{_OUTCOMES[row['success']]}",
        f"type:{row['task_type']}",
    ],
)
_FACTS = _Kind(
    "views.knowledge",
    "id",
    "Knowledge",
    lambda row: _named(row, "domain", "fact"),
    lambda row: ["kind:fact", f"domain:{row['domain']}"],
)
_STRATEGIES = _Kind(
    "views.strategies",
    "id",
    "Strategy",
    lambda row: _named(row, "strategy", "trials", "successes"),
    lambda row: ["kind:strategy", *(f"type:{one}" for one in row["types"])],
)
_HEURISTICS = _Kind(
    "views.heuristics",
    "source",
    "Strategy",
    lambda row: _named(row, "strategy", "task_type", "trials", "successes", "lower", "status"),
    lambda row: ["kind:heuristic", f"status:{row['status']}", f"type:{row['task_type']}"],
)
_POLICIES = _Kind(
    "views.policies",
    None,
    "",
    _policy,
    lambda row: ["kind:policy", f"action:{row['action_type']}"],
)
_KINDS = {"knowledge": (_FACTS,), "strategies": (_STRATEGIES, _HEURISTICS, _POLICIES)}
