"""Questions to levels, by meaning, by tags, or both; also to long-term ones, which have no entries.

There an episode is as near to a text as its task, a strategy or fact as its own words. A fact has
the relevance of its confidence, a strategy of its mean; an episode fades only if its level does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from graphmem.errors import ValidationError
from graphmem.graph.access import View
from graphmem.graph.arguments import check_limit, one_or_many
from graphmem.graph.graph import Graph
from graphmem.ids import canonical_json, level_stream_id, node_id, to_millis
from graphmem.levels.entries import Search, entry_fields
from graphmem.levels.lenses import Lenses
from graphmem.models.levels import EntryQuestion, Found, LevelName, Tags
from graphmem.notebook.frames import Listed
from graphmem.store.port import Question, Row

COMPARED = 100
"""A context takes its entries from so many near a text."""
MANY = 1_000
"""There may be so many entries if at least :data:`COMPARED` were found."""
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")
_FILTERS = {"since": "since", "until": "until", "relevant": "at_least"}
"""The conditions that apply to all views, and their parameters."""
_OUTCOMES = {True: "success", False: "failure"}


class Queries(Lenses):
    """Asks the levels of one namespace."""

    def recall(
        self,
        text: str | None = None,
        *,
        levels: str | Sequence[str] | None = None,
        lens: str | None = None,
        tags: Tags | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        key: str | None = None,
        max_age: float | None = None,
        min_relevance: float = 0.0,
        include_expired: bool = False,
        limit: int | None = None,
        agent: str | None = None,
    ) -> Listed[Found]:
        """Return entries that match: the nearest to a text first, else the most relevant.

        Entries that do not match are left out before the ranking, so that few matches are found
        among many entries. Equal ones rank by relevance, then the latest first. Each answer counts
        as a read, by which an entry fades more slowly; the counts are written some seconds after
        the next write. A long-term level of an agent shows what the memory knows, in the form of
        entries.

        Args:
            text: the subject, in words; None: rank by relevance alone.
            levels: names of levels; None: all that the reader may read.
            lens: what this lens shows, in place of ``levels``; other conditions narrow it.
                ``planning`` is short for ``agent:ada:planning`` if ``ada`` reads. If no agent
                reads, ``planning``, ``reflection`` and ``skill`` look at those levels of all.
            tags: a condition on their tags.
            since: from this time on, with time zone.
            until: before this time.
            key: a pattern of keys; ``*`` is any text, ``?`` any character.
            max_age: the greatest age in seconds.
            min_relevance: the least relevance now.
            include_expired: also return expired entries that were not removed yet.
            limit: most entries to return; None: as many as the lens says, else 10.
            agent: who reads; None: anybody.

        Raises:
            NotFoundError: there is no such level or lens, or the lens looks at nothing.
        """
        request = EntryQuestion(
            text=text,
            tags=tags,
            since=since,
            until=until,
            key=key,
            max_age=max_age,
            min_relevance=min_relevance,
            include_expired=include_expired,
        )
        usual = 10
        if lens is not None:
            if levels is not None:
                raise ValidationError("lens", lens, "does not go with levels", "leave one out")
            request, levels, usual = self._look(lens, request, agent)
        most = usual if limit is None else limit
        return Listed(self._note(self._ask(request, levels, most, agent)))

    def _note(self, found: list[Found]) -> list[Found]:
        """Count a read of entries; return them."""
        self._reads.note("Entry", (one.id for one in found))
        return found

    def _ask(
        self,
        request: EntryQuestion,
        levels: str | Sequence[str] | None,
        limit: int,
        agent: str | None,
    ) -> list[Found]:
        check_limit(limit)
        view = self._view(agent)
        if levels is None:
            rows = self._readable(self._graph, view)
        else:
            parts = [LevelName.of(name, "levels") for name in one_or_many("levels", levels)]
            rows = self._find(self._graph, parts, view, "levels")
        question = _question(request, self._graph.now())
        own = {
            row["id"]: level_stream_id(self._graph.ns, row["name"])
            for row in rows
            if row["holds"] == "entries"
        }
        if request.text is not None:
            entries = self._search.nearest(request.text, question, own, limit)
        else:
            entries = self._most_relevant(question, sorted(own), limit) if own else []
        if len(own) < len(rows):
            views = _Views(self._graph, self._search, request, question, limit, view)
            entries = sorted([*entries, *views.rows(rows)], key=_rank)[:limit]
        return [Found(**entry_fields(row), similarity=row.get("similarity")) for row in entries]

    def _most_relevant(self, question: Question, levels: list[str], limit: int) -> list[Row]:
        options, params = question.options, dict(question.params)
        if question.fits is not None:
            tagsets = {row["tagset"] for row in self._graph.read("levels.holdings", ids=levels)}
            params["tagsets"] = sorted(filter(question.fits, tagsets))
            options = (*options, "tagged")
        return self._graph.read("entries.matching", *options, levels=levels, limit=limit, **params)

    def _relevant(
        self, floor: Callable[[int], float], lens: str, text: str, agent: str | None = None
    ) -> list[Found]:
        """Return what a lens shows as near to a text as the floor for so many, nearest first."""
        request, levels, limit = self._look(lens, EntryQuestion(text=text), agent)
        entries = self._ask(request, levels, max(limit, COMPARED), agent)
        least = floor(len(entries) if len(entries) < COMPARED else MANY) if entries else 0.0
        relevant = [one for one in entries if (one.similarity or 0.0) >= least]
        return self._note(relevant[:limit])


def _question(request: EntryQuestion, now: int) -> Question:
    params: dict[str, Any] = {"now": now}
    options = [] if request.include_expired else ["living"]
    if request.key is not None:
        options.append("keyed")
        parts = [{"*": ".*", "?": "."}.get(c) or _SPECIAL.sub(r"\\\g<0>", c) for c in request.key]
        params["pattern"] = f"(?s){''.join(parts)}"
        params["prefix"] = re.split(r"[*?]", request.key, maxsplit=1)[0]
    since = [] if request.since is None else [to_millis(request.since)]
    if request.max_age is not None:
        since.append(now - int(request.max_age * 1_000))
    if since:
        options.append("since")
        params["since"] = max(since)
    if request.until is not None:
        options.append("until")
        params["until"] = to_millis(request.until)
    if request.min_relevance:
        options.append("relevant")
        params["at_least"] = request.min_relevance
    tags = request.tags
    fits = None if tags is None else lambda tagset: tags.fits(frozenset(json.loads(tagset)))
    return Question(tuple(options), params, fits)


def _rank(row: Row) -> tuple[float, float, int, str]:
    return (-(row.get("similarity") or 0.0), -row["relevance"], -row["at"], row["id"])


class _Views(NamedTuple):
    """The answer of views to one question of one reader."""

    graph: Graph
    search: Search
    request: EntryQuestion
    question: Question
    limit: int
    view: View

    def rows(self, levels: Sequence[Row]) -> list[Row]:
        """Return what matches: rows with ``entry_columns``; the best ``limit`` are among them."""
        types = self.view.filters(self.graph)["types"]
        owners: dict[str, dict[str, Row]] = {holds: {} for holds in _CONTENT}
        for level in levels:
            if level["holds"] in owners:
                owners[level["holds"]][level["owner"]] = level
        entries: list[Row] = []
        if agents := owners.pop("episodes"):
            entries += self._episodes(agents, types)
        for holds, agents in owners.items():
            if agents and self.request.key is None:
                entries += self._beliefs(agents, holds, types)
        return entries

    def _episodes(self, owners: Mapping[str, Row], types: Sequence[str] | None) -> list[Row]:
        options = [name for name in self.question.options if name in ("keyed", *_FILTERS)]
        agents = [
            {"id": node_id(self.graph.ns, "Agent", agent), "agent": agent, "decay": level["decay"]}
            for agent, level in owners.items()
        ]
        params = {**self.question.params, "owners": agents, "limit": self.limit}
        if self.request.tags is not None or types is not None:
            options.append("tagged")
            params["kinds"] = [
                f"{outcome} {row['type']}"
                for row in self.graph.read("scopes.task_types")
                for success, outcome in _OUTCOMES.items()
                if self._fits({"success": success, "task_type": row["type"]}, "episodes", types)
            ]
        if self.request.text is None:
            rows = self.graph.read("views.episodes", *options, **params)
        else:
            rows = []
            for batch in self.search.ranked("Task", self.request.text):
                tasks = [{"id": key, "similarity": similarity} for key, similarity in batch]
                rows += self.graph.read("views.episodes", "near", *options, nearby=tasks, **params)
                if len(rows) >= self.limit:
                    break
        return [_entry_row(row, owners[row["agent"]]["name"], "episodes") for row in rows]

    def _beliefs(
        self, owners: Mapping[str, Row], holds: str, types: Sequence[str] | None
    ) -> list[Row]:
        """Return what matches of knowledge or strategies."""
        text = self.request.text
        options = [name for name in self.question.options if name in _FILTERS]
        params = {_FILTERS[name]: self.question.params[_FILTERS[name]] for name in options}
        if holds == "strategies":
            params["agents"] = sorted(owners)
            if types is not None:
                options.append("typed")
                params["types"] = types
        if text is None and self.request.tags is None:
            params["limit"] = self.limit
        rows = self.graph.read(f"views.{holds}", *options, **params)
        rows = [row for row in rows if self._fits(row, holds, types)]
        if text is not None and rows:
            rows = self._nearest(rows, text, "Strategy" if holds == "strategies" else "Knowledge")
        first = owners[min(owners)]  # a fact is shown once, not for each agent
        levels = (owners.get(row.get("agent", ""), first)["name"] for row in rows)
        return [_entry_row(row, level, holds) for row, level in zip(rows, levels, strict=True)]

    def _nearest(self, rows: Sequence[Row], text: str, label: str) -> list[Row]:
        by_id: dict[str, list[Row]] = {}
        for row in rows:  # a strategy has one for each agent
            by_id.setdefault(row["id"], []).append(row)
        entries: list[Row] = []
        for batch in self.search.ranked(label, text):
            for key, similarity in batch:
                entries += [row | {"similarity": similarity} for row in by_id.get(key, ())]
            if len(entries) >= self.limit:
                break
        return entries

    def _fits(self, row: Row, holds: str, types: Sequence[str] | None) -> bool:
        tags = self.request.tags
        if "task_type" in row and types is not None and row["task_type"] not in types:
            return False
        return tags is None or tags.fits(_tags_of(row, holds))


_CONTENT = {
    "episodes": ("task", "strategies", "success", "score", "summary", "error", "feedback"),
    "knowledge": ("domain", "fact"),
    "strategies": ("strategy", "trials", "successes"),
}
"""The columns that are the contents of what a view shows."""


def _tags_of(row: Row, holds: str) -> list[str]:
    """Return the tags of what a view shows."""
    if holds == "episodes":
        outcome = f"outcome:{_OUTCOMES[row['success']]}"
        return ["kind:episode", outcome, f"type:{row['task_type']}"]
    if holds == "knowledge":
        return [f"domain:{row['domain']}", "kind:fact"]
    return ["kind:strategy", *sorted(f"type:{one}" for one in row["types"])]


def _entry_row(row: Row, level: str, holds: str) -> Row:
    """Return the columns of an entry for what a view shows."""
    content = {name: row[name] for name in _CONTENT[holds] if row[name] not in (None, [])}
    return {
        "key": None,
        "relevance": row["base"],
        **row,
        "level": level,
        "content": canonical_json(content),
        "format": "json",
        "tags": _tags_of(row, holds),
        "metadata": "{}",
        "expires_at": None,
        "reads": 0,
    }
