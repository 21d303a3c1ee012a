"""Questions to levels: by meaning, by tags, or both."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from graphmem.errors import ValidationError
from graphmem.graph.arguments import check_limit, checked_items
from graphmem.ids import level_stream_id, to_millis
from graphmem.levels.base import Base, readable
from graphmem.levels.entries import entry_fields
from graphmem.levels.views import rows_of
from graphmem.models.levels import Asked, Found, LevelName, Tags
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
        if tags is not None and not isinstance(tags, Tags):
            raise ValidationError(
                "tags", tags, "is not a Tags", "give Tags(all_of=...), for instance"
            )
        asked = Asked(
            text=text,
            tags=tags,
            since=since,
            until=until,
            key=key,
            max_age=max_age,
            min_relevance=min_relevance,
            include_expired=include_expired,
        )
        rows = self._asked(levels, agent)
        own = {
            row["id"]: level_stream_id(self._graph.ns, row["name"])
            for row in rows
            if row["holds"] == "entries"
        }
        question = _question(asked, self._graph.now())
        if asked.text is not None:
            found = self._search.nearest(asked.text, question, own, limit)
        else:
            found = self._matching(question, own, limit) if own else []
        if len(own) < len(rows):
            view = self._view(agent)
            found += rows_of(
                self._graph, self._search, rows, asked.text, asked.tags, question, limit, view
            )
            found = sorted(found, key=_rank)[:limit]
        return Listed(
            [Found(**entry_fields(row), similarity=row.get("similarity")) for row in found]
        )

    def _asked(self, levels: str | Sequence[str] | None, agent: str | None) -> list[Row]:
        """Return the levels to ask: rows of ``levels.get``."""
        view = self._view(agent)
        if levels is None:
            rows = self._graph.read("levels.list")
            return [row for row in rows if readable(LevelName.of(row["name"]), view)]
        names = [levels] if isinstance(levels, str) else checked_items("levels", levels)
        return self._find(
            self._graph, [LevelName.of(name, "levels") for name in names], view, "levels"
        )

    def _matching(self, asked: Question, levels: dict[str, str], limit: int) -> list[Row]:
        ids = sorted(levels)
        options, params = asked.options, dict(asked.params)
        if asked.fits is not None:
            rows = self._graph.read("entries.tagsets", levels=ids)
            params["tagsets"] = [row["tagset"] for row in rows if asked.fits(row["tagset"])]
            options = (*options, "tagged")
        return self._graph.read("entries.matching", *options, levels=ids, limit=limit, **params)


def _question(asked: Asked, now: int) -> Question:
    """Return the conditions on entries."""
    since = [] if asked.since is None else [to_millis(asked.since)]
    if asked.max_age is not None:
        since.append(now - int(asked.max_age * 1_000))
    wanted: dict[str, dict[str, Any]] = {
        "keyed": {"prefix": None, "pattern": None} if asked.key is None else like(asked.key),
        "since": {"since": max(since, default=None)},
        "until": {"until": None if asked.until is None else to_millis(asked.until)},
        "relevant": {"at_least": asked.min_relevance or None},
        "living": {"now": None if asked.include_expired else now},
    }
    options = tuple(
        name
        for name, values in wanted.items()
        if all(value is not None for value in values.values())
    )
    params = {key: value for name in options for key, value in wanted[name].items()}
    tags = asked.tags
    fits = None if tags is None else lambda tagset: tags.fits(frozenset(json.loads(tagset)))
    return Question(options, params | {"now": now}, fits)


def _rank(row: Row) -> tuple[float, float, int, str]:
    return (-(row.get("similarity") or 0.0), -row["relevance"], -row["at"], row["id"])


def like(glob: str) -> dict[str, str]:
    """Return a pattern with ``*`` and ``?`` as a regular expression, and its fixed beginning."""
    parts = [{"*": ".*", "?": "."}.get(char) or _SPECIAL.sub(r"\\\g<0>", char) for char in glob]
    return {"prefix": re.split(r"[*?]", glob, maxsplit=1)[0], "pattern": f"(?s){''.join(parts)}"}
