"""Lenses: named, read-only views of levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import Any

from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import check_text, checked_agent, one_or_many
from graphmem.graph.graph import Transaction
from graphmem.ids import from_millis, lens_id, level_id
from graphmem.levels.entries import (
    Base,
    check_readable,
    check_writable,
    is_readable,
    lock_levels,
    to_duration,
    to_seconds,
)
from graphmem.models.levels import (
    LENSES,
    EntryQuestion,
    LensInfo,
    LensSettings,
    LevelName,
    Tags,
    default_name,
    lens_name,
)
from graphmem.notebook.frames import Listed
from graphmem.store.port import Row


class Lenses(Base):
    """Puts, lists and removes the lenses of one namespace."""

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
            put(tx, [lens_row(tx.ns, lens, targets, settings)])
            return lens_info(tx.run("lenses.list", name=lens.name)[0])

        return self._graph.transact(work)

    def lenses(self, owner: str | None = None, *, agent: str | None = None) -> Listed[LensInfo]:
        """Return the lenses that somebody put, in order of name; of all owners, or of one.

        Args:
            owner: only the lenses of this agent, capability, task or collective.
            agent: who asks; it gets only lenses that it may use. None: anybody.
        """
        view = self._view(agent)
        rows = self._graph.read("lenses.list", owner=checked_agent(owner))
        return Listed(
            [
                lens_info(row)
                for row in rows
                if is_readable(_owner_of(row), view)
                and all(is_readable(LevelName.of(level), view) for level in row["levels"])
            ]
        )

    def remove_lens(self, name: str, *, agent: str | None = None) -> None:
        """Remove a lens that somebody put; its levels stay.

        Args:
            name: its name, as in :meth:`put_lens`.
            agent: who asks; an agent may remove its own lenses and those for all. None: anybody.

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
    ) -> tuple[EntryQuestion, tuple[str, ...], int]:
        """Return a question narrowed to what a lens shows, the levels to ask, and its limit."""
        levels, lens = self._lens(name, agent)
        conditions = [one for one in (lens.tags, request.tags) if one is not None]
        ages = [age for age in (lens.max_age, request.max_age) if age is not None]
        narrowed: dict[str, Any] = {
            "tags": reduce(and_, conditions) if conditions else None,
            "max_age": min(ages, default=None),
        }
        return request.model_copy(update=narrowed), levels, lens.limit

    def _lens(self, name: str, agent: str | None) -> tuple[tuple[str, ...], LensSettings]:
        """Return the levels and settings of a lens through which a reader may look."""
        asking, view = checked_agent(agent), self._view(agent)
        check_text("lens", name)
        if asking is None and name in LENSES:  # what all agents hold
            return self._preset(LevelName(name, "agent", None, name))
        lens = _full_name(name, asking)
        check_readable(lens, view, "lens", "lens")
        for row in self._graph.read("lenses.list", name=lens.name):
            check_readable(_owner_of(row), view, "lens", "lens")
            for level in row["levels"]:
                check_readable(LevelName.of(level), view, "lens")
            return tuple(row["levels"]), lens_settings(row)
        if lens.owner_kind == "agent" and lens.kind in LENSES:
            return self._preset(lens)
        raise self._no_lens(lens.name)

    def _preset(self, lens: LevelName) -> tuple[tuple[str, ...], LensSettings]:
        preset = LENSES[lens.kind]
        rows = self._graph.read("levels.list", owner_kind="agent", owner=lens.owner)
        levels = tuple(row["name"] for row in rows if row["kind"] in preset.kinds)
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


def put(tx: Transaction, rows: Sequence[Row]) -> None:
    """Store lenses (rows of :func:`lens_row`) on levels that are there."""
    tx.run("lenses.put", rows=rows)
    looks = [
        {"id": row["id"], "level": level_id(tx.ns, level)}
        for row in rows
        for level in row["levels"]
    ]
    tx.run("lenses.look_at", rows=looks)


def lens_row(namespace: str, lens: LevelName, levels: Iterable[str], settings: LensSettings) -> Row:
    """Return the row of ``lenses.put`` for a lens."""
    tags = settings.tags
    return {
        "id": lens_id(namespace, lens.name),
        **lens._asdict(),
        "purpose": settings.purpose,
        "levels": sorted(levels),
        "tags": None if tags is None else tags.model_dump_json(exclude_defaults=True),
        "max_age": to_duration(settings.max_age),
        "most": settings.limit,
    }


def lens_settings(row: Row) -> LensSettings:
    """Return the settings of a lens from a row of ``lenses.list``."""
    return LensSettings(
        purpose=row["purpose"],
        tags=None if row["tags"] is None else Tags.model_validate_json(row["tags"]),
        max_age=to_seconds(row["max_age"]),
        limit=row["most"],
    )


def lens_info(row: Row) -> LensInfo:
    """Return the lens of a row of ``lenses.list``."""
    return LensInfo(
        name=row["name"],
        levels=tuple(row["levels"]),
        created_at=from_millis(row["created_at"]),
        **dict(lens_settings(row)),
    )


def _owner_of(row: Row) -> LevelName:
    return LevelName(row["name"], row["owner_kind"], row["owner"], row["kind"])


def _full_name(name: str, agent: str | None) -> LevelName:
    """Return the parts of the name of a lens, which may be short for that of an agent."""
    check_text("name", name)
    if agent is not None and ":" not in name:
        short = lens_name(default_name(agent, name))
        return short._replace(owner=agent, kind=short.name.removeprefix(default_name(agent, "")))
    return lens_name(name)
