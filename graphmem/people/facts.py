"""What is known for a text: facts near it in meaning, and the preferences of its user.

It also finds facts that may contradict each other: nearly the same words, but another number or a
negation. Such facts are only proposed; a person or an agent decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from graphmem.graph.graph import Graph
from graphmem.ids import from_millis, node_id
from graphmem.models.people import Fact
from graphmem.search.entries import EntrySearch
from graphmem.store.port import Row
from graphmem.text.words import normalized, words

MOST = 5
"""Most facts, and most preferences, for a text."""
LOOKED_AT = 50
"""So many of the nearest facts are looked at; those that do not hold now are left out."""
ALIKE = 0.6
"""Share of the words of two facts that both have, from which they are nearly equal."""
_NOT = frozenset(
    ("not", "no", "never", "without", "none", "nobody", "nothing", "neither", "nor", "cannot")
)
_CONTRACTED = re.compile(r"n['\u2019]t\b", re.IGNORECASE)
_NAMES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve"),
)
_NUMBERS = {name: str(number) for number, name in enumerate(_NAMES)}

Facts = Callable[..., list[Fact]]
"""Tells what is known for a text, and for a user: see :func:`find_facts`."""


def find_facts(
    graph: Graph,
    search: EntrySearch,
    text: str,
    user: str | None = None,
    at: int | None = None,
    until: int | None = None,
) -> list[Fact]:
    """Return preferences of a user, then facts near a text, that are in force at a time.

    ``until``: as they were by what was recorded by this time; None: by everything.
    """
    now = graph.now() if at is None else at
    preferences = [] if user is None else _preferences(graph, user, until)
    return [*preferences, *_known(graph, search, text, now, until)]


def _preferences(graph: Graph, user: str, until: int | None) -> Iterator[Fact]:
    identity = node_id(graph.ns, "User", user)
    in_force: dict[str, Row] = {}
    for row in graph.read("preferences.of", user_id=identity, history=until is not None):
        if until is None or row["created_at"] <= until:  # the latest of a category come first
            in_force.setdefault(row["category"], row)
    latest = sorted(in_force.values(), key=lambda row: (-row["said_at"], row["category"]))
    for row in latest[:MOST]:
        said = {name: row[name] for name in ("id", "text", "source", "confidence")}
        at = from_millis(row["said_at"])
        yield Fact(kind="preference", about=row["category"], at=at, **said)


def _known(
    graph: Graph, search: EntrySearch, text: str, now: int, until: int | None
) -> Iterator[Fact]:
    if not graph.read("knowledge.any"):  # loads no model
        return
    ranked = [pair for near in search.ranked("Knowledge", text) for pair in near]
    least = search.floor(len(ranked))
    near = dict(pair for pair in ranked[:LOOKED_AT] if pair[1] >= least)
    rows = graph.read("knowledge.list", ids=[*near], until=until) if near else []
    rows = [row for row in rows if holds(row["statements"], now)]
    rows.sort(key=lambda row: (-near[row["id"]], row["id"]))
    later = _told_later(graph, rows[:MOST], now, until)
    for row in rows[:MOST]:
        best = max(row["statements"], key=lambda said: (said["confidence"], _said_at(said)))
        rivals = {one["fact"]: None for one in (*row["contradicts"], *row["contradicted_by"])}
        yield Fact(
            kind="knowledge",
            id=row["id"],
            about=row["domain"],
            text=row["fact"],
            source=best["source"],
            at=from_millis(_said_at(best)),
            confidence=row["confidence"],
            similarity=near[row["id"]],
            contradicted_by=tuple(rivals),
            may_be_replaced_by=later[row["id"]],
            valid_to=from_millis(validity(row["statements"])[1]),
        )


def _told_later(
    graph: Graph, rows: Sequence[Row], now: int, until: int | None
) -> dict[str, tuple[str, ...]]:
    """Return by id the facts told later that hold now and may contradict, the latest first."""
    domains = sorted({row["domain"] for row in rows})
    asked = {"domains": domains, "until": until}
    told = graph.read("knowledge.of_domains", **asked) if rows else []
    told.sort(key=lambda row: (row["told_at"], row["recorded_at"], row["id"]), reverse=True)
    known = {
        row["id"]: {one["id"] for one in (*row["contradicts"], *row["contradicted_by"])}
        for row in rows
    }
    found: dict[str, tuple[str, ...]] = dict.fromkeys(known, ())
    for place, row in enumerate(told):
        if row["id"] in known:
            later = [one for one in told[:place] if holds([one], now)]
            rivals = propose(later, row, known[row["id"]])
            found[row["id"]] = tuple(one["fact"] for one in rivals)
    return found


def validity(statements: Iterable[Row]) -> tuple[int | None, int | None]:
    """Return from when and until when a fact holds, as its latest statements say that give it."""
    since = until = None
    for said in statements:
        since = since if said["valid_from"] is None else said["valid_from"]
        until = until if said["valid_to"] is None else said["valid_to"]
    return since, until


def holds(statements: Iterable[Row], now: int) -> bool:
    """Return whether a fact holds at a time."""
    since, until = validity(statements)
    return (since is None or since <= now) and (until is None or now < until)


def propose(graph_rows: Sequence[Row], row: Row, known: Collection[str]) -> Iterator[Row]:
    """Yield the facts (rows of ``knowledge.of_domains``) that may contradict one of them.

    Without those that are ``known`` to contradict it (ids).
    """
    own = _wording(row["fact"])
    for other in graph_rows:
        there = other["id"] not in {row["id"], *known} and other["domain"] == row["domain"]
        if there and _overlap(row, other) and _differ(own, _wording(other["fact"])):
            yield other


class _Wording(NamedTuple):
    words: frozenset[str]
    numbers: frozenset[str]
    denies: bool


def _wording(fact: str) -> _Wording:
    """Return the words of a fact, without numbers and negations; its numbers; whether it denies."""
    said = normalized(_CONTRACTED.sub(" not", fact)).split()
    numbers = {_NUMBERS.get(word, word) for word in said if word in _NUMBERS or word[-1].isdigit()}
    rest = " ".join(word for word in said if not {word, _NUMBERS.get(word, "")} & {*_NOT, *numbers})
    stems = frozenset(word.rstrip("s") for word in words(rest))
    return _Wording(stems, frozenset(numbers), sum(word in _NOT for word in said) % 2 == 1)


def _differ(one: _Wording, other: _Wording) -> bool:
    """Return whether two facts are nearly equal, but for a number or a negation."""
    both = one.words & other.words
    if not both or len(both) < ALIKE * len(one.words | other.words):
        return False
    numbers = bool(one.numbers and other.numbers) and one.numbers != other.numbers
    return numbers or one.denies is not other.denies


def _overlap(one: Row, other: Row) -> bool:
    since = max((row["valid_from"] for row in (one, other) if row["valid_from"]), default=None)
    until = min((row["valid_to"] for row in (one, other) if row["valid_to"]), default=None)
    return since is None or until is None or since < until


def _said_at(said: Row) -> int:
    return int(said["recorded_at"] if said["at"] is None else said["at"])
