"""Look-ups of nodes by an object, an id, a key or a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol, cast

from graphmem.errors import NotFoundError, ValidationError, shown
from graphmem.graph.access import EVERYTHING, View
from graphmem.graph.arguments import check_choice
from graphmem.graph.graph import Reader
from graphmem.ids import strategy_id, task_id
from graphmem.kinds import ITEM_KINDS, ItemKind
from graphmem.models.fields import Name, checked
from graphmem.store.port import Row
from graphmem.text.task_types import infer_task_type

FITTING = 20  # most matching items in the error for an ambiguous text
VERDICT = re.compile(r"^\[(?:WORKS|AVOID)\]\s*")  # what may stand before the text of a rule


class HasId(Protocol):
    """An object with an id, returned by this library."""

    @property
    def id(self) -> str:
        """The id of its node."""


def task_ids(reader: Reader, text: str, view: View = EVERYTHING) -> list[str]:
    """Return the id of the task with that key or id, else the ids of all tasks with that text."""
    return [row["id"] for row in known_tasks(reader, text, view)]


def known_tasks(reader: Reader, text: str, view: View = EVERYTHING) -> list[Row]:
    """Return the tasks of :func:`task_ids`: rows of ``lookup.tasks``."""
    return keyed_tasks(reader, text, view) or described_tasks(reader, text, view)


def keyed_tasks(reader: Reader, text: str, view: View) -> list[Row]:
    """Return the task with that key or id: rows of ``lookup.tasks``."""
    rows = reader.read("lookup.tasks", ids=[task_id(reader.ns, text), text])
    return rows if view.agents is None else list(_seen(reader, rows, view))


def described_tasks(
    reader: Reader, text: str, view: View, among: Sequence[str] | None = None
) -> list[Row]:
    """Return the tasks with that text: rows of ``lookup.tasks``.

    To look only ``among`` some ids takes a time that does not depend on the number of tasks.
    """
    if among is None:
        rows = reader.read("lookup.described_tasks", text=text)
    else:
        rows = reader.read("lookup.tasks", ids=[*among]) if among else []
        rows = [row for row in rows if row["text"] == text]
    if view.agents is None:
        return rows
    return [row for row in _seen(reader, rows, view) if row["text"] == text]


def describe_unshared(reader: Reader, task: str, view: View) -> str:
    """Return a sentence on the agents that know a task and do not share; "" if there are none."""
    if view.agents is None or not (ids := task_ids(reader, task)):
        return ""
    others = reader.read("access.others", ids=ids, agents=view.agents)[0]["others"]
    if not others:
        return ""
    know = "agent knows" if others == 1 else "agents know"
    own = view.reader
    return (
        f"{others} other {know} this task; share with memory.scopes: share_with=[{own!r}] for "
        f"them, inherit_from=[their names] for {own!r}"
    )


def _seen(reader: Reader, rows: list[Row], view: View) -> Iterator[Row]:
    """Yield those of some tasks that are in a view, with its wording and type."""
    there = view.tasks(reader, [row["id"] for row in rows], untried=True)
    for row in rows:
        if (seen := there.get(row["id"])) is not None:
            inferred = infer_task_type(seen["text"])
            rule = inferred.rule if seen["task_type"] == inferred.name else "given"
            yield {**row, **seen, "type_rule": rule}


def subject_ids(ns: str, subject: object) -> list[str]:
    """Return the ids of policies and strategies that an object, an id or a text can mean."""
    given = subject if isinstance(subject, str) else getattr(subject, "id", None)
    if not isinstance(given, str):
        remedy = "give a policy, a strategy, its id, or the text of a strategy"
        raise ValidationError("subject", subject, "is not a policy, strategy or text", remedy)
    text = checked("subject", given, Name)
    return [text, strategy_id(ns, text)] if given is subject else [text]


def find_subject(reader: Reader, ids: Sequence[str], kind: str | None = None) -> Row | None:
    """Return the policy or strategy of the first existing id: a row of ``lookup.subjects``."""
    rows = {row["id"]: row for row in reader.read("lookup.subjects", ids=list(ids))}
    matching = (rows[identity] for identity in ids if identity in rows)
    return next((row for row in matching if kind in (None, row["kind"])), None)


def find_strategy(reader: Reader, name: str, given: str) -> Row:
    """Return a strategy by its id or text: a row of ``lookup.subjects``."""
    text = checked(name, given, Name)
    strategy = find_subject(reader, [text, strategy_id(reader.ns, text)], "strategy")
    if strategy is None:
        raise NotFoundError(
            f"no strategy {given!r:.100} in namespace {reader.ns!r}; `graphmem list strategies` "
            "shows them"
        )
    return strategy


def find_items(reader: Reader, item: HasId | str, kind: str | None, view: View) -> Iterator[Row]:
    """Yield what an object, an id or a text can mean: rows of ``explaining.find``.

    Raises:
        ValidationError: it is of a wrong type, or a text that matches several.
    """
    name = checked_kind(kind)
    given = item if isinstance(item, str) else getattr(item, "id", None)
    if not isinstance(given, str):
        remedy = "give an id, a text, or what a memory returned"
        raise ValidationError("item", item, "cannot be explained", remedy)
    text = checked("item", given, Name)
    yield from _items(reader, text, name)
    if given is not item:
        return
    yield from _items(reader, strategy_id(reader.ns, text), name)
    asked = {"text": VERDICT.sub("", text), "limit": FITTING + 1, **view.filters(reader)}
    own = () if asked["agents"] is None else ("own",)
    rows = reader.read("explaining.find_text", *own, **asked)
    rows = [row for row in rows if name in (None, row["kind"])]
    if len(rows) > 1:
        listed = []
        for row in rows[:FITTING]:
            whose = "" if row["agent"] is None else f"agent {row['agent']!r}, "
            listed.append(f"{row['kind']} {row['id']} ({whose}{row['about']!r})")
        listed += ["and more"] if len(rows) > FITTING else []
        problem = f"fits several: {'; '.join(listed)}"
        raise ValidationError("item", item, problem, "give the id of one of them")
    for row in rows:
        yield from _items(reader, row["id"], None)


def _items(reader: Reader, identity: str, kind: ItemKind | None) -> list[Row]:
    rows = reader.read("explaining.find", ids=[identity])
    return [row for row in rows if kind in (None, row["kind"])]


def missing_item(reader: Reader, item: HasId | str, kind: str | None, view: View) -> NotFoundError:
    """Return the error for a missing item, the same for one that is not in a view."""
    given = item if isinstance(item, str) else item.id
    what = checked_kind(kind) or "strategy, heuristic, anti-pattern, rule or policy"
    remedy = "leave out the agent to read everything, or see `graphmem list scopes`"
    if view.agents is None:
        rows = reader.read("explaining.alike", text=checked("item", given, Name))
        nearest = ", ".join(repr(row["text"][:80]) for row in rows)
        remedy = "`graphmem list` and `graphmem list KIND` show what there is"
        remedy = f"the nearest strategies are {nearest}" if rows else remedy
    who = "" if view.reader is None else f" that agent {view.reader!r} may read"
    return NotFoundError(f"no {what} {shown(given)}{who} in namespace {reader.ns!r}; {remedy}")


def checked_kind(kind: str | None) -> ItemKind | None:
    """Return the kind of an item that is meant, or None for any."""
    if kind is None:
        return None
    name = kind.replace("_", "-") if isinstance(kind, str) else kind
    check_choice("kind", name, ITEM_KINDS)
    return cast(ItemKind, name)
