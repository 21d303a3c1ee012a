"""Lenses: named, read-only views of levels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import and_
from typing import Unpack

from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import check_text, checked_agent, checked_items
from graphmem.graph.graph import Transaction
from graphmem.ids import from_millis, lens_id, level_id
from graphmem.levels.entries import (
    check_readable,
    check_writable,
    is_readable,
    lock_levels,
    to_duration,
    to_seconds,
)
from graphmem.levels.queries import Queries
from graphmem.models.levels import (
    LENSES,
    Conditions,
    EntryQuestion,
    Found,
    LensInfo,
    LensSettings,
    LevelName,
    Tags,
    default_name,
    lens_name,
)
from graphmem.notebook.frames import Listed
from graphmem.store.port import Row

COMPARED = 100
"""A context takes its entries from so many near a text."""
MANY = 1_000
"""There may be so many entries if at least :data:`COMPARED` were found."""


class Lens:
    """A read-only view of levels: what a lens shows to one reader."""

    def __init__(self, levels: Lenses, name: str, agent: str | None) -> None:
        self._levels, self._name, self._agent = levels, name, agent
        self.info = levels._lens(name, agent)
        """The lens as it was when it was asked for."""

    def recall(
        self,
        text: str | None = None,
        *,
        limit: int | None = None,
        **conditions: Unpack[Conditions],
    ) -> Listed[Found]:
        """Return the entries that it shows: the nearest to a text, else the most relevant.

        The conditions are those of ``levels.recall``: tags, since, until, key, max_age,
        min_relevance and include_expired. They narrow what the lens shows as it is defined now.
        Without a limit it shows as many as the lens says.

        Raises:
            NotFoundError: the lens was removed, or looks at nothing.
        """
        request = EntryQuestion(text=text, **conditions)
        return Listed(self._levels._note(self._ask(request, limit)))

    def _ask(self, request: EntryQuestion, limit: int | None) -> list[Found]:
        lens = self._levels._lens(self._name, self._agent)
        conditions = [one for one in (lens.tags, request.tags) if one is not None]
        ages = [age for age in (lens.max_age, request.max_age) if age is not None]
        narrowed = {
            "tags": reduce(and_, conditions) if conditions else None,
            "max_age": min(ages, default=None),
        }
        most = lens.limit if limit is None else limit
        request = request.model_copy(update=narrowed)
        return self._levels._ask(request, lens.levels, most, self._agent)


class Lenses(Queries):
    """Puts, lists and removes the lenses of one namespace, and looks through them."""

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

        Its name says who owns it, as that of a level does: ``agent:ada:orders``,
        ``task:deploy:late``, ``collective:news``. With an agent, ``orders`` is short for the first.
        A reader needs the right to read all of its levels. If a level is closed, the lens no longer
        looks at it; a lens that looks at no other level is removed.

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
        names = [levels] if isinstance(levels, str) else checked_items("levels", levels)
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

    def lens(self, name: str, *, agent: str | None = None) -> Lens:
        """Return a lens, to look through: ``levels.lens("planning", agent="ada").recall()``.

        Every agent has three: ``planning`` (its working and short-term level, the last hour, 10
        entries), ``reflection`` (short-term and episodic, 10) and ``skill`` (procedural, 5).

        Args:
            name: its name; ``planning`` is short for ``agent:ada:planning`` if ``ada`` reads. If no
                agent reads, ``planning``, ``reflection`` and ``skill`` look at those levels of all
                agents.
            agent: who reads; None: anybody.

        Raises:
            NotFoundError: there is no such lens, or none of the levels that it looks at.
        """
        return Lens(self, name, agent)

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
            name: its name, as in :meth:`lens`.
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

    def _lens(self, name: str, agent: str | None) -> LensInfo:
        """Return a lens through which a reader may look."""
        asking, view = checked_agent(agent), self._view(agent)
        check_text("name", name)
        if asking is None and name in LENSES:
            return self._preset(LevelName(name, "agent", None, name))
        lens = _full_name(name, asking)
        check_readable(lens, view, "name", "lens")
        for row in self._graph.read("lenses.list", name=lens.name):
            check_readable(_owner_of(row), view, "name", "lens")
            for level in row["levels"]:
                check_readable(LevelName.of(level), view, "name")
            return lens_info(row)
        if lens.owner_kind == "agent" and lens.kind in LENSES:
            return self._preset(lens)
        raise self._no_lens(lens.name)

    def _preset(self, lens: LevelName) -> LensInfo:
        preset = LENSES[lens.kind]
        rows = self._graph.read("levels.list", owner_kind="agent", owner=lens.owner)
        levels = tuple(row["name"] for row in rows if row["kind"] in preset.kinds)
        if not levels:
            whose = "any agent" if lens.owner is None else f"agent {lens.owner!r}"
            raise NotFoundError(
                f"the lens {lens.name!r} looks at nothing in namespace {self._graph.ns!r}: there "
                f"is no level {' or '.join(preset.kinds)} of {whose}; levels.default makes them"
            )
        return LensInfo(
            **lens._asdict(),
            purpose=preset.purpose,
            levels=levels,
            tags=None,
            max_age=preset.max_age,
            limit=preset.limit,
            created_at=None,
        )

    def _no_lens(self, name: str) -> NotFoundError:
        return NotFoundError(
            f"no lens {name!r} in namespace {self._graph.ns!r}: levels.put_lens makes one, and "
            f"levels.lenses() lists them; every agent has {', '.join(LENSES)}"
        )


def relevant_entries(
    levels: Lenses, floor: Callable[[int], float], name: str, text: str, agent: str | None = None
) -> list[Found]:
    """Return the entries of a lens as near to a text as the floor for so many, nearest first."""
    lens = levels.lens(name, agent=agent)
    entries = lens._ask(EntryQuestion(text=text), max(lens.info.limit, COMPARED))
    if not entries:
        return []
    least = floor(len(entries) if len(entries) < COMPARED else MANY)
    relevant = [one for one in entries if one.similarity is not None and one.similarity >= least]
    return levels._note(relevant[: lens.info.limit])


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


def lens_info(row: Row) -> LensInfo:
    """Return the lens of a row of ``lenses.list``."""
    return LensInfo(
        **_owner_of(row)._asdict(),
        purpose=row["purpose"],
        levels=tuple(row["levels"]),
        tags=None if row["tags"] is None else Tags.model_validate_json(row["tags"]),
        max_age=to_seconds(row["max_age"]),
        limit=row["most"],
        created_at=from_millis(row["created_at"]),
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
