"""Questions to levels, by meaning, by tags, or both; also stored ones, which are lenses.

Long-term levels have no entries. There an episode is as near to a text as its task, a strategy or
fact as its own words. A fact has the relevance of its confidence, a strategy of its mean; an
episode fades only if its level does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import check_limit, check_text, checked_agent, one_or_many
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import canonical_json, from_millis, lens_id, level_id, level_stream_id, node_id
from graphmem.levels.entries import entry_fields
from graphmem.levels.topology import (
    Topology,
    check_readable,
    check_writable,
    is_readable,
    lock_levels,
    to_duration,
    to_seconds,
)
from graphmem.models.fields import millis
from graphmem.models.levels import (
    LENSES,
    EntryQuestion,
    Found,
    LensInfo,
    LensSettings,
    LevelName,
    Tags,
    default_name,
    lens_name,
)
from graphmem.notebook import Listed
from graphmem.search.entries import EntrySearch
from graphmem.store.paging import grouped
from graphmem.store.port import Question, Row

COMPARED = 100  # a context takes its entries from so many near a text
MANY = 1_000  # there may be so many entries if at least :data:`COMPARED` were found
_OUTCOMES = {True: "success", False: "failure"}


class Queries(Topology):
    """Asks the levels of one namespace, and stores questions as lenses."""

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
        request = EntryQuestion.from_arguments(locals())
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
            options = [name for name in question.options if name != "living"]
            params = {name: value for name, value in question.params.items() if name != "now"}
            types = view.filters(self._graph)["types"]
            views = _Views(self._graph, self._search, request, options, params, limit, types)
            entries = sorted([*entries, *views.rows(rows)], key=_rank)[:limit]
        return [Found(**entry_fields(row), similarity=row.get("similarity")) for row in entries]

    def _most_relevant(self, question: Question, levels: list[str], limit: int) -> list[Row]:
        options, params = question.options, dict(question.params)
        if question.fits is not None:
            tagsets = {row["tagset"] for row in self._graph.read("levels.holdings", ids=levels)}
            params["tagsets"] = sorted(filter(question.fits, tagsets))
            options = (*options, "tagged")
        return self._graph.read("entries.matching", *options, levels=levels, limit=limit, **params)

    def _relevant(self, lens: str, text: str, agent: str | None = None) -> list[Found]:
        """Return what a lens shows that is relevant to a text, the nearest first."""
        request, levels, limit = self._look(lens, EntryQuestion(text=text), agent)
        entries = self._ask(request, levels, max(limit, COMPARED), agent)
        texts = len(entries) if len(entries) < COMPARED else MANY
        least = self._search.floor(texts) if entries else 0.0
        relevant = [one for one in entries if (one.similarity or 0.0) >= least]
        return self._note(relevant[:limit])

    def put_lens(
        self,
        name: str,
        levels: str | Sequence[str],
        *,
        tags: Tags | None = None,
        max_age: float | None = None,
        limit: int = 10,
        purpose: str = "",
        agent: str | None = None,
    ) -> LensInfo:
        """Make a lens, or replace its settings; a repeated call changes nothing.

        ``recall(lens=...)`` looks through it. Its name says who owns it, as that of a level does:
        ``agent:ada:orders``, ``task:deploy:late``, ``collective:news``. With an agent, ``orders``
        is short for the first. A reader needs the right to read all of its levels. If a level is
        closed, the lens no longer looks at it; a lens that looks at no other level is removed.

        Every agent has three without putting them: ``planning`` (its working and short-term level,
        the last hour, 10 entries), ``reflection`` (short-term and episodic, 10) and ``skill``
        (procedural, 5).

        Args:
            name: the name. One like ``agent:ada:planning`` replaces the lens that every agent has.
            levels: names of levels, at least one.
            tags: a condition on the tags of the entries that it shows; None: it shows all.
            max_age: the greatest age of entries in seconds; None: any age.
            limit: most entries that it shows.
            purpose: what it is for, for people and models.
            agent: who asks. An agent may put its own lenses and those for all, on levels that it
                may read; None: anybody.

        Raises:
            ValidationError: an argument is wrong, or the lens would look at nothing.
        """
        asking = checked_agent(agent)
        lens, view = _full_name(name, asking), self._view(agent)
        check_writable(lens, asking, kind="lens")
        names = one_or_many("levels", levels)
        targets = {level.name: level for level in (LevelName.of(one, "levels") for one in names)}
        if not targets:
            raise ValidationError("levels", levels, "is empty", "name the levels to look at")
        settings = LensSettings(tags=tags, max_age=max_age, limit=limit, purpose=purpose)

        def work(tx: Transaction) -> LensInfo:
            self._find(tx, targets.values(), view, "levels")
            lock_levels(tx, *targets)
            for row in tx.run("lenses.list", name=lens.name):
                check_writable(_owner_of(row), asking, kind="lens")
            tx.run("lenses.put", rows=[lens_row(tx.ns, lens, targets, settings)])
            return lens_info(tx.run("lenses.list", name=lens.name)[0])

        return self._graph.transact(work)

    def lenses(self, owner: str | None = None, *, agent: str | None = None) -> Listed[LensInfo]:
        """Return the lenses that somebody put, and that ``agent`` may use, in order of name.

        They are those of all owners, or of one: an agent, capability, task or collective.
        """
        view = self._view(agent)

        def is_usable(row: Row) -> bool:
            parts = (_owner_of(row), *map(LevelName.of, row["levels"]))
            return all(is_readable(part, view) for part in parts)

        rows = self._graph.read("lenses.list", owner=checked_agent(owner))
        return Listed([lens_info(row) for row in rows if is_usable(row)])

    def remove_lens(self, name: str, *, agent: str | None = None) -> None:
        """Remove a lens that somebody put, by its name as in :meth:`put_lens`; its levels stay.

        Raises:
            NotFoundError: there is no such lens, or nobody put it.
        """
        asking = checked_agent(agent)
        lens = _full_name(name, asking)
        check_writable(lens, asking, kind="lens")

        def work(tx: Transaction) -> None:
            rows = tx.run("lenses.list", name=lens.name)
            if not rows:
                raise self._no_lens(lens.name)
            check_writable(_owner_of(rows[0]), asking, kind="lens")
            tx.run("erasing.drop_lenses", ids=[rows[0]["id"]])

        self._graph.transact(work)

    def _look(
        self, name: str, request: EntryQuestion, agent: str | None
    ) -> tuple[EntryQuestion, Sequence[str], int]:
        """Return a question narrowed to what a lens shows, the levels to ask, and its limit."""
        levels, lens = self._lens(name, agent)
        conditions = [one for one in (lens.tags, request.tags) if one is not None]
        ages = [age for age in (lens.max_age, request.max_age) if age is not None]
        narrowed: dict[str, Any] = {
            "tags": reduce(and_, conditions) if conditions else None,
            "max_age": min(ages, default=None),
        }
        return request.model_copy(update=narrowed), levels, lens.limit

    def _lens(self, name: str, agent: str | None) -> tuple[Sequence[str], LensSettings | LensInfo]:
        """Return the levels and settings of a lens through which a reader may look."""
        asking, view = checked_agent(agent), self._view(agent)
        check_text("lens", name)
        if asking is None and name in LENSES:  # what all agents hold
            lens = LevelName(name, "agent", None, name)
        else:
            lens = _full_name(name, asking)
        check_readable(lens, view, "lens", "lens")
        for row in self._graph.read("lenses.list", name=lens.name):
            for part in (_owner_of(row), *map(LevelName.of, row["levels"])):
                check_readable(part, view, "lens", "lens" if part.name == lens.name else "level")
            return row["levels"], lens_info(row)
        preset = LENSES.get(lens.kind) if lens.owner_kind == "agent" else None
        if preset is None:
            raise self._no_lens(lens.name)
        rows = self._graph.read("levels.list", owner_kind="agent", owner=lens.owner)
        levels = [row["name"] for row in rows if row["kind"] in preset.kinds]
        if not levels:
            whose = "any agent" if lens.owner is None else f"agent {lens.owner!r}"
            raise NotFoundError(
                f"the lens {lens.name!r} looks at nothing in namespace {self._graph.ns!r}: there "
                f"is no level {' or '.join(preset.kinds)} of {whose}; levels.default makes them"
            )
        return levels, LensSettings(max_age=preset.max_age, limit=preset.limit)

    def _no_lens(self, name: str) -> NotFoundError:
        return NotFoundError(
            f"no lens {name!r} in namespace {self._graph.ns!r}: levels.put_lens makes one, and "
            f"levels.lenses() lists them; every agent has {', '.join(LENSES)}"
        )


def lens_row(namespace: str, lens: LevelName, levels: Iterable[str], settings: LensSettings) -> Row:
    """Return the row of ``lenses.put`` for a lens."""
    tags = settings.tags
    return {
        "id": lens_id(namespace, lens.name),
        **lens._asdict(),
        "purpose": settings.purpose,
        "levels": sorted(levels),
        "looks_at": [level_id(namespace, level) for level in levels],
        "tags": None if tags is None else tags.model_dump_json(exclude_defaults=True),
        "max_age": to_duration(settings.max_age),
        "most": settings.limit,
    }


def lens_info(row: Row) -> LensInfo:
    """Return the lens of a row of ``lenses.list``."""
    tags = None if row["tags"] is None else Tags.model_validate_json(row["tags"])
    terms = {"tags": tags, "max_age": to_seconds(row["max_age"]), "limit": row["most"]}
    return LensInfo(**{**row, **terms, "created_at": from_millis(row["created_at"])})


def _owner_of(row: Row) -> LevelName:
    return LevelName(row["name"], row["owner_kind"], row["owner"], row["kind"])


def _full_name(name: str, agent: str | None) -> LevelName:
    """Return the parts of the name of a lens, which may be short for that of an agent."""
    check_text("name", name)
    if agent is not None and ":" not in name:
        short = lens_name(default_name(agent, name))
        return short._replace(owner=agent, kind=short.name.removeprefix(default_name(agent, "")))
    return lens_name(name)


def _question(request: EntryQuestion, now: int) -> Question:
    oldest = None if request.max_age is None else now - int(request.max_age * 1_000)
    since = [one for one in (oldest, millis(request.since)) if one is not None]
    key = None if request.key is None else re.escape(request.key)
    given = {
        "since": max(since, default=None),
        "until": millis(request.until),
        "at_least": request.min_relevance or None,
        "pattern": key and "(?s)" + key.replace(r"\*", ".*").replace(r"\?", "."),
    }
    params: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    options = [*params] if request.include_expired else [*params, "living"]
    params["now"] = now
    if request.key is not None:
        params["prefix"] = re.split(r"[*?]", request.key, maxsplit=1)[0]
    tags = request.tags
    fits = None if tags is None else lambda tagset: tags.fits(frozenset(json.loads(tagset)))
    return Question(tuple(options), params, fits)


def _rank(row: Row) -> tuple[float, float, int, str]:
    return (-(row.get("similarity") or 0.0), -row["relevance"], -row["at"], row["id"])


_CONTENT = {
    "episodes": ("task", "strategies", "success", "score", "summary", "error", "feedback"),
    "knowledge": ("domain", "fact"),
    "strategies": ("strategy", "trials", "successes"),
}
"""The columns that are the contents of what a view shows."""


class _Views(NamedTuple):
    """The answer of views to one question of one reader."""

    graph: Graph
    search: EntrySearch
    request: EntryQuestion
    options: Sequence[str]
    params: Mapping[str, Any]
    limit: int
    types: Sequence[str] | None  # the types of tasks that the reader may see; None: all

    def rows(self, levels: Sequence[Row]) -> list[Row]:
        """Return what matches: rows with ``entry_columns``; the best ``limit`` are among them."""
        entries: list[Row] = []
        for holds in _CONTENT:
            owners = {level["owner"]: level for level in levels if level["holds"] == holds}
            if not owners or (holds != "episodes" and self.request.key is not None):
                continue
            rows = self._episodes(owners) if holds == "episodes" else self._beliefs(owners, holds)
            first = owners[min(owners)]  # a fact is shown once, not for each agent
            entries += [
                _entry_row(row, owners.get(row.get("agent"), first)["name"], holds) for row in rows
            ]
        return entries

    def _episodes(self, owners: Mapping[str, Row]) -> list[Row]:
        options = list(self.options)
        agents = [
            {"id": node_id(self.graph.ns, "Agent", agent), "agent": agent, "decay": level["decay"]}
            for agent, level in owners.items()
        ]
        params = {**self.params, "owners": agents, "limit": self.limit}
        if self.request.tags is not None or self.types is not None:
            options.append("tagged")
            params["kinds"] = [
                f"{outcome} {row['type']}"
                for row in self.graph.read("scopes.task_types")
                if self.types is None or row["type"] in self.types
                for success, outcome in _OUTCOMES.items()
                if self._fits({"success": success, "task_type": row["type"]}, "episodes")
            ]
        if self.request.text is None:
            return self.graph.read("views.episodes", *options, **params)
        rows: list[Row] = []
        for batch in self.search.ranked("Task", self.request.text):
            tasks = [{"id": key, "similarity": similarity} for key, similarity in batch]
            rows += self.graph.read("views.episodes", "near", *options, nearby=tasks, **params)
            if len(rows) >= self.limit:
                break
        return rows

    def _beliefs(self, owners: Mapping[str, Row], holds: str) -> list[Row]:
        """Return what matches of knowledge or strategies."""
        text, options, params = self.request.text, list(self.options), dict(self.params)
        statement, label = "views.knowledge", "Knowledge"
        if holds == "strategies":
            statement, label = "views.strategies", "Strategy"
            params["agents"] = sorted(owners)
            if self.types is not None:
                options.append("typed")
                params["types"] = self.types
        if text is None and self.request.tags is None:
            params["limit"] = self.limit
        rows = self.graph.read(statement, *options, **params)
        rows = [row for row in rows if self._fits(row, holds)]
        if text is None or not rows:
            return rows
        by_id = grouped(rows, "id")  # a strategy has one for each agent
        entries: list[Row] = []
        for batch in self.search.ranked(label, text):
            for key, similarity in batch:
                entries += [row | {"similarity": similarity} for row in by_id.get(key, ())]
            if len(entries) >= self.limit:
                break
        return entries

    def _fits(self, row: Row, holds: str) -> bool:
        return self.request.tags is None or self.request.tags.fits(_tags_of(row, holds))


def _tags_of(row: Row, holds: str) -> list[str]:
    if holds == "episodes":
        return ["kind:episode", f"outcome:{_OUTCOMES[row['success']]}", f"type:{row['task_type']}"]
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
