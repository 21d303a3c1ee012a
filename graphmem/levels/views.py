"""Views: what the long-term levels of agents show, as rows that rank beside entries.

An episode is as near to a text as its task, a strategy or heuristic as the strategy, a fact as its
own words. A policy has no words. The relevance of an episode fades as that of entries does. The
others have the relevance of a belief: the confidence of a fact, the mean of a strategy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from graphmem.graph.access import View
from graphmem.graph.graph import Graph
from graphmem.graph.rates import HEURISTIC_ABOVE
from graphmem.ids import canonical_json, node_id
from graphmem.levels.base import Search
from graphmem.levels.entries import SEARCHED, tag_columns
from graphmem.models.levels import EntryQuestion, words_of
from graphmem.store.port import Question, Row

_FILTERS = {"since": "since", "until": "until", "relevant": "at_least"}
"""The conditions that apply to all views, and their parameters."""
_OUTCOMES = {True: "success", False: "failure"}


class _Kind(NamedTuple):
    """A kind of things that a view shows."""

    name: str
    """The statement that lists them."""
    label: str | None
    """What their words are searched as; None: they have no words."""
    source: str
    """The column with the id of that."""
    content: tuple[str, ...]
    tags: Callable[[Row], list[str]]


@dataclass
class Views:
    """The answer of views to one question of one reader."""

    graph: Graph
    search: Search
    asked: EntryQuestion
    question: Question
    limit: int
    view: View

    def rows(self, levels: Sequence[Row]) -> list[Row]:
        """Return what matches in views: rows with the columns of an entry, and a similarity.

        The best ``limit`` are among them.
        """
        by_kind: dict[str, dict[str, Row]] = {}
        for row in levels:
            if row["holds"] != "entries":
                by_kind.setdefault(row["holds"], {})[row["owner"]] = row
        self._types = self.view.filters(self.graph)["types"]
        found: list[Row] = []
        for holds, owners in by_kind.items():
            if holds == "episodes":
                found += self._episodes(owners)
            elif "keyed" not in self.question.options:
                for kind in _KINDS[holds]:
                    found += self._beliefs(owners, kind)
        return found

    def _episodes(self, owners: Mapping[str, Row]) -> Iterator[Row]:
        options = [name for name in self.question.options if name in ("keyed", *_FILTERS)]
        agents = [
            {"id": node_id(self.graph.ns, "Agent", agent), "agent": agent, "decay": level["decay"]}
            for agent, level in owners.items()
        ]
        params = {**self.question.params, "owners": agents, "limit": self.limit}
        if self.asked.tags is not None or self._types is not None:
            options.append("tagged")
            params["kinds"] = [
                f"{outcome} {row['type']}"
                for row in self.graph.read("scopes.task_types")
                for success, outcome in _OUTCOMES.items()
                if self._fits({"success": success, "task_type": row["type"]}, _EPISODES)
            ]
        if self.asked.text is None:
            rows = self.graph.read("views.episodes", *options, **params)
        else:
            rows = []
            for batch in self.search.ranked("Task", self.asked.text):
                near = [{"id": key, "similarity": similarity} for key, similarity in batch]
                rows += self.graph.read("views.episodes", "near", *options, nearby=near, **params)
                if len(rows) >= self.limit:
                    break
        for row in rows:
            yield _entry_row(row, owners[row["agent"]]["name"], _EPISODES)

    def _beliefs(self, owners: Mapping[str, Row], kind: _Kind) -> Iterator[Row]:
        """Yield what views show besides episodes, and what matches."""
        text, tags = self.asked.text, self.asked.tags
        if text is not None and kind.label is None:
            return
        options = [name for name in self.question.options if name in _FILTERS]
        params: dict[str, Any] = {
            _FILTERS[name]: self.question.params[_FILTERS[name]] for name in options
        }
        if kind is not _FACTS:
            params["agents"] = sorted(owners)
        if kind in (_STRATEGIES, _HEURISTICS) and self._types is not None:
            options.append("typed")
            params["types"] = self._types
        if kind is _HEURISTICS:
            params["occurrences"] = self.view.trials(self.graph.settings)
            params["above"] = HEURISTIC_ABOVE
        if text is None and tags is None:
            params["limit"] = self.limit
        rows = self.graph.read(kind.name, *options, **params)
        rows = [row for row in rows if self._fits(row, kind)]
        if text is not None and kind.label is not None and rows:
            rows = self._nearest(rows, text, kind.label, kind.source)
        first = owners[min(owners)]  # a fact is shown once, not for each agent
        for row in rows:
            yield _entry_row(row, owners.get(row.get("agent", ""), first)["name"], kind)

    def _nearest(self, rows: Sequence[Row], text: str, label: str, source: str) -> list[Row]:
        """Return the rows whose words are the nearest, with their similarity."""
        by_source: dict[str, list[Row]] = {}
        for row in rows:
            by_source.setdefault(row[source], []).append(row)
        found: list[Row] = []
        for batch in self.search.ranked(label, text):
            for key, similarity in batch:
                found += [row | {"similarity": similarity} for row in by_source.get(key, ())]
            if len(found) >= self.limit:
                break
        return found

    def _fits(self, row: Row, kind: _Kind) -> bool:
        types, tags = self._types, self.asked.tags
        if "task_type" in row and types is not None and row["task_type"] not in types:
            return False
        return tags is None or tags.fits(frozenset(kind.tags(row)))


def _entry_row(row: Row, level: str, kind: _Kind) -> Row:
    """Return the columns of an entry for what a view shows."""
    content = {name: row[name] for name in kind.content if row[name] not in (None, [])}
    for name, parsed in (("features", "state"), ("action_spec", "action")):  # of a policy
        if name in content:
            content[parsed] = json.loads(content.pop(name))
    return {
        "id": row["id"],
        "level": level,
        "key": row.get("key"),
        "content": canonical_json(content),
        "format": "json",
        "tags": sorted(kind.tags(row)),
        "metadata": "{}",
        "base": row["base"],
        "relevance": row.get("relevance", row["base"]),
        "at": row["at"],
        "expires_at": None,
        "reads": 0,
        "similarity": row.get("similarity"),
    }


def episode_row(row: Row, level: str) -> Row:
    """Return the columns of ``flow.pending`` for an episode in its agent's stream."""
    shown = _entry_row(row | {"base": 1.0}, level, _EPISODES)
    content = {"episode": row["id"], **json.loads(shown["content"])}
    return {
        **shown,
        **tag_columns(shown["tags"]),
        "key": f"episode/{row['id']}",
        "content": canonical_json(content),
        "text": words_of(content)[:SEARCHED],
        "number": row["number"],
        "seq": row["number"],
        "subject": row["id"],
        "stored_at": row["stored_at"],
    }


_EPISODES = _Kind(
    "views.episodes",
    "Task",
    "task",
    ("task", "strategies", "success", "score", "summary", "error", "feedback"),
    lambda row: [
        "kind:episode",
        f"outcome:{_OUTCOMES[row['success']]}",
        f"type:{row['task_type']}",
    ],
)
_FACTS = _Kind(
    "views.knowledge",
    "Knowledge",
    "id",
    ("domain", "fact"),
    lambda row: ["kind:fact", f"domain:{row['domain']}"],
)
_STRATEGIES = _Kind(
    "views.strategies",
    "Strategy",
    "id",
    ("strategy", "trials", "successes"),
    lambda row: ["kind:strategy", *(f"type:{one}" for one in row["types"])],
)
_HEURISTICS = _Kind(
    "views.heuristics",
    "Strategy",
    "source",
    ("strategy", "task_type", "trials", "successes", "lower", "status"),
    lambda row: ["kind:heuristic", f"status:{row['status']}", f"type:{row['task_type']}"],
)
_POLICIES = _Kind(
    "views.policies",
    None,
    "",
    ("features", "action_spec", "action_type", "q_value", "trials", "successes"),
    lambda row: ["kind:policy", f"action:{row['action_type']}"],
)
_KINDS = {"knowledge": (_FACTS,), "strategies": (_STRATEGIES, _HEURISTICS, _POLICIES)}
