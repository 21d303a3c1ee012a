"""Questions to levels: by meaning, by tags, or both."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from graphmem.graph.arguments import check_limit, checked_items
from graphmem.ids import level_stream_id, to_millis
from graphmem.levels.base import Base, check_tags, is_readable
from graphmem.levels.entries import entry_fields
from graphmem.levels.views import Views
from graphmem.models.levels import EntryQuestion, Found, LevelName, Tags
from graphmem.notebook.frames import Listed
from graphmem.store.port import Question, Row

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")


class Queries(Base):
    """Asks the levels of one namespace."""

    def recall(
        self,
        text: str | None = None,
        *,
        levels: str | Sequence[str] | None = None,
        tags: Tags | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        key: str | None = None,
        max_age: float | None = None,
        min_relevance: float = 0.0,
        include_expired: bool = False,
        limit: int = 10,
        agent: str | None = None,
    ) -> Listed[Found]:
        """Return entries that match: the nearest to a text first, else the most relevant.

        Entries that do not match are left out before the ranking, so that few matches are found
        among many entries. Equal ones rank by relevance, then the latest first. Only vectors of new
        texts are written: reading does not make an entry more relevant. A long-term level of an
        agent shows what the memory knows, in the form of entries.

        Args:
            text: the subject, in words; None: rank by relevance alone.
            levels: names of levels; None: all that the reader may read.
            tags: a condition on their tags.
            since: from this time on, with time zone.
            until: before this time.
            key: a pattern of keys; ``*`` is any text, ``?`` any character.
            max_age: the greatest age in seconds.
            min_relevance: the least relevance now.
            include_expired: also return expired entries that were not removed yet.
            limit: most entries to return.
            agent: who reads; None: anybody.

        Raises:
            NotFoundError: there is no such level.
            ValidationError: an argument is wrong.
            ScopeError: a level belongs to an agent that does not share with the reader.
        """
        check_limit(limit)
        check_tags(tags)
        asked = EntryQuestion(
            text=text,
            tags=tags,
            since=since,
            until=until,
            key=key,
            max_age=max_age,
            min_relevance=min_relevance,
            include_expired=include_expired,
        )
        view = self._view(agent)
        if levels is None:
            every = self._graph.read("levels.list")
            rows = [row for row in every if is_readable(LevelName.of(row["name"]), view)]
        else:
            names = [levels] if isinstance(levels, str) else checked_items("levels", levels)
            wanted = [LevelName.of(name, "levels") for name in names]
            rows = self._find(self._graph, wanted, view, "levels")
        question = _question(asked, self._graph.now())
        own = {
            row["id"]: level_stream_id(self._graph.ns, row["name"])
            for row in rows
            if row["holds"] == "entries"
        }
        if asked.text is not None:
            found = self._search.nearest(asked.text, question, own, limit)
        else:
            found = self._most_relevant(question, sorted(own), limit) if own else []
        if len(own) < len(rows):
            views = Views(self._graph, self._search, asked, question, limit, view)
            found = sorted([*found, *views.rows(rows)], key=_rank)[:limit]
        return Listed(
            [Found(**entry_fields(row), similarity=row.get("similarity")) for row in found]
        )

    def _most_relevant(self, question: Question, levels: list[str], limit: int) -> list[Row]:
        options, params = question.options, dict(question.params)
        if question.fits is not None:
            tagsets = {row["tagset"] for row in self._graph.read("levels.holdings", ids=levels)}
            params["tagsets"] = sorted(filter(question.fits, tagsets))
            options = (*options, "tagged")
        return self._graph.read("entries.matching", *options, levels=levels, limit=limit, **params)


def _question(asked: EntryQuestion, now: int) -> Question:
    """Return the conditions on entries."""
    since = [] if asked.since is None else [to_millis(asked.since)]
    if asked.max_age is not None:
        since.append(now - int(asked.max_age * 1_000))
    conditions: dict[str, dict[str, Any]] = {}
    if asked.key is not None:
        conditions["keyed"] = _key_pattern(asked.key)
    if since:
        conditions["since"] = {"since": max(since)}
    if asked.until is not None:
        conditions["until"] = {"until": to_millis(asked.until)}
    if asked.min_relevance:
        conditions["relevant"] = {"at_least": asked.min_relevance}
    if not asked.include_expired:
        conditions["living"] = {}
    params: dict[str, Any] = {"now": now}
    for values in conditions.values():
        params |= values
    tags = asked.tags
    fits = None if tags is None else lambda tagset: tags.fits(frozenset(json.loads(tagset)))
    return Question(tuple(conditions), params, fits)


def _key_pattern(glob: str) -> dict[str, str]:
    """Return a pattern with ``*`` and ``?`` as a regular expression, and its fixed beginning."""
    parts = [{"*": ".*", "?": "."}.get(char) or _SPECIAL.sub(r"\\\g<0>", char) for char in glob]
    return {"prefix": re.split(r"[*?]", glob, maxsplit=1)[0], "pattern": f"(?s){''.join(parts)}"}


def _rank(row: Row) -> tuple[float, float, int, str]:
    return (-(row.get("similarity") or 0.0), -row["relevance"], -row["at"], row["id"])
