"""People: preferences of users, knowledge, what of both concerns a text, and scopes of agents.

Facts that may contradict each other are only proposed; a person or an agent decides.
:mod:`graphmem.graph.access` derives from the scopes what agents may learn and read.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from graphmem.errors import NotFoundError, ScopeError, ValidationError
from graphmem.graph.access import Scopes, read_scopes
from graphmem.graph.arguments import check_limit, checked_text
from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.ids import from_millis, node_id, scope_id
from graphmem.models.fields import Name, checked, millis
from graphmem.models.people import (
    KNOWLEDGE_CONFIDENCE,
    PREFERENCE_CONFIDENCE,
    Claim,
    Fact,
    Knowledge,
    KnowledgeSource,
    Preference,
    PreferenceSource,
    Scope,
    Wish,
)
from graphmem.notebook import Listed
from graphmem.search.entries import EntrySearch
from graphmem.store.port import ChangedError, Row
from graphmem.text.words import normalized, words

MOST = 5  # most facts, and most preferences, for a text
LOOKED_AT = 50  # so many of the nearest facts are looked at; those that do not hold are left out
ALIKE = 0.6  # share of the words of two facts that both have, from which they are nearly equal
_NOT = frozenset(
    ("not", "no", "never", "without", "none", "nobody", "nothing", "neither", "nor", "cannot")
)
_CONTRACTED = re.compile(r"n['\u2019]t\b", re.IGNORECASE)
_NAMES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve"),
)
_NUMBERS = {name: str(number) for number, name in enumerate(_NAMES)}

Facts = Callable[..., list[Fact]]  # tells what is known for a text, and a user: :func:`find_facts`


class People:
    """Preferences of users and knowledge of the world: ``memory.people``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def prefer(
        self,
        user: str,
        category: str,
        text: str,
        *,
        source: PreferenceSource = "explicit_instruction",
        at: datetime | None = None,
    ) -> Preference:
        """Store a preference of a user, durably; it supersedes earlier ones of the same category.

        The latest preference of a user and category is in force, by ``at``, else by the time of
        recording; one that arrives late takes its place in the history. A preference that is
        repeated with the same time, or the latest one without a time, changes nothing.

        A category, for instance "language", has one preference in force. The source is
        "explicit_instruction" (confidence 1), "correction" or "inferred" (0.7). ``at`` is when it
        was said, with time zone; default: unknown.

        Raises:
            StoreError: the engine failed; nothing was written.
        """
        wish = self._graph.storable(Wish.from_arguments(locals()))
        said_at = millis(wish.at)

        def work(tx: Transaction) -> Preference:
            of_category = {"user_id": open_user(tx, wish.user), "category": wish.category}
            before = tx.run("preferences.of", **of_category)
            now, known = (tx.now, None) if wish.at else _date_wish(wish, before, tx.now)
            moment = ("recorded", str(now)) if said_at is None else ("at", str(said_at))
            said = (wish.user, wish.category, wish.text, wish.source)
            key = known or node_id(tx.ns, "Preference", *said, *moment)
            created = key not in {row["id"] for row in before}
            if created:
                given: Row = {"text": wish.text, "source": wish.source, "at": said_at}
                given["confidence"] = PREFERENCE_CONFIDENCE[wish.source]
                tx.run("preferences.prefer", **of_category, **given, id=key, now=now)
                before = tx.run("preferences.of", **of_category)
            return next(_preference(row, created=created) for row in before if row["id"] == key)

        return self._graph.transact(work)

    def preferences(
        self, user: str, category: str | None = None, *, history: bool = False
    ) -> Listed[Preference]:
        """Return the preferences of a user, by category, or of one category.

        With ``history`` superseded ones are included, the latest first.
        """
        user_id = node_id(self._graph.ns, "User", checked("user", user, Name))
        of_category = {"user_id": user_id, "category": checked_text("category", category)}
        rows = self._graph.read("preferences.of", **of_category, history=history)
        return Listed([_preference(row) for row in rows])

    def know(
        self,
        domain: str,
        fact: str,
        *,
        source: KnowledgeSource = "user_stated",
        user: str | None = None,
        contradicts: str | Knowledge | Sequence[str | Knowledge] | None = None,
        at: datetime | None = None,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
    ) -> Knowledge:
        """Store a source's statement of a fact, durably.

        A fact is stored once; each source, user and time that states it is evidence. A repeated
        statement changes nothing and returns ``created=False``. ``may_contradict`` of the answer
        names facts that differ from it only in a number or a negation.

        Args:
            domain: the subject of the fact, for instance "billing".
            fact: the fact, in words.
            source: "user_stated" (confidence 1), "documented", "observed" or "inferred" (0.8).
            user: who stated it; ``memory.upkeep.erase`` can then remove it.
            contradicts: known facts that contradict this one: one or several, or their ids.
            at: when it was stated, with time zone; default: unknown.
            valid_from: from when it holds, with time zone; default: not said.
            valid_to: until when it holds; after that ``context`` and ``recall`` leave it out.

        Raises:
            ValidationError: a field is wrong, or the fact contradicts itself.
            NotFoundError: a fact in ``contradicts`` is not known.
            StoreError: the engine failed; nothing was written.
        """
        claim = self._graph.storable(Claim.from_arguments(locals()))
        ns, others = self._graph.ns, list(claim.contradicts)
        identity = node_id(ns, "Knowledge", claim.domain, claim.fact)
        if identity in others:
            problem, remedy = "is the fact itself", "give the ids of others"
            raise ValidationError("contradicts", identity, problem, remedy)
        times = {name: millis(getattr(claim, name)) for name in ("at", "valid_from", "valid_to")}
        dates = ["" if moment is None else str(moment) for moment in times.values()]
        said = (claim.source, claim.user or "", *dates[: 3 if any(dates[1:]) else 1])
        statement = node_id(ns, "Statement", identity, *said)

        def work(tx: Transaction) -> Knowledge:
            user_id = open_user(tx, claim.user) if claim.user else None
            locked = {row["id"] for row in tx.run("knowledge.lock", ids=[identity, *others])}
            for other in (one for one in others if one not in locked):
                missing = f"no knowledge {other!r} in namespace {ns!r}"
                raise NotFoundError(f"{missing}; contradicts takes the ids of what is known")
            told = claim.model_dump(include={"domain", "fact", "source", "user"})
            told |= {"confidence": KNOWLEDGE_CONFIDENCE[claim.source], **times}
            about = {"knowledge_id": identity, "id": statement, "user_id": user_id}
            stated = tx.run("knowledge.state", **about, **told)
            claims = {"knowledge_id": identity, "statement": statement, "ids": others}
            contradicted = tx.run("knowledge.contradict", **claims)
            rows = tx.run("knowledge.list", ids=[identity])
            if not rows or statement not in {said["id"] for said in rows[0]["statements"]}:
                raise ChangedError("the fact or its user was erased while this was written")
            [found] = _describe(tx, rows)
            return found.model_copy(update={"created": bool(stated or contradicted[0]["created"])})

        return self._graph.transact(work)

    def knowledge(self, domain: str | None = None, *, limit: int = 100) -> Listed[Knowledge]:
        """Return the known facts, at most ``limit``, of all domains or of one.

        The highest confidence comes first. They are told with their contradictions.
        """
        check_limit(limit)
        asked = checked_text("domain", domain)
        rows = self._graph.read("knowledge.list", domain=asked, limit=limit)
        return Listed(_describe(self._graph, rows))


def _date_wish(wish: Wish, before: Sequence[Row], clock: int) -> tuple[int, str | None]:
    """Return the time for a wish without one, and the id of the latest preference if equal."""
    last = next((row for row in before if row["at"] is None or row["said_at"] <= clock), None)
    if last is None:
        return clock, None
    if (last["text"], last["source"]) == (wish.text, wish.source):
        return clock, last["id"]
    return max(clock, last["said_at"] + 1), None  # two in a millisecond, or a clock set back


def _preference(row: Row, *, created: bool = False) -> Preference:
    times = {"at": from_millis(row["at"]), "recorded_at": from_millis(row["created_at"])}
    in_force = row["superseded_by"] is None
    return Preference(**{**row, **times, "in_force": in_force, "created": created})


def _describe(reader: Reader, rows: Sequence[Row]) -> Iterator[Knowledge]:
    """Yield the knowledge of rows of ``knowledge.list``, and what may contradict it."""
    others = _read_domains(reader, rows)
    for row in rows:
        rivals = [_dated(other) for other in propose(others, row)]
        statements = [_dated(said) for said in row["statements"]]
        told = {**_dated(row), "statements": statements, "may_contradict": rivals}
        yield Knowledge(**told)


def _dated(row: Row) -> Row:
    names = {"at", "recorded_at", "valid_from", "valid_to"} & row.keys()
    return {**row, **{name: from_millis(row[name]) for name in names}}


def open_user(tx: Transaction, user: str) -> str:
    """Create a missing user, and lock the node; return its id."""
    identity = node_id(tx.ns, "User", user)
    if not tx.run("preferences.lock_users", ids=[identity], name=user)[0]["locked"]:
        raise ChangedError("the user was erased while this was written")
    return identity


def erase_user(tx: Transaction, user: str) -> dict[str, int] | None:
    """Remove what only a user said; return the numbers of preferences and facts, None: no user."""
    identity = node_id(tx.ns, "User", user)
    if not tx.run("preferences.lock_users", ids=[identity])[0]["locked"]:
        return None
    stated = [row["id"] for row in tx.run("knowledge.retract", user_id=identity)]
    tx.run("knowledge.lock", ids=stated)
    facts = tx.run("knowledge.settle", ids=stated)[0]["removed"]
    rows = tx.run("preferences.erase_user", user_id=identity)
    return {"preferences": sum(row["preferences"] for row in rows), "knowledge": facts}


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
        yield Fact(kind="preference", about=row["category"], at=from_millis(row["said_at"]), **said)


def _known(
    graph: Graph, search: EntrySearch, text: str, now: int, until: int | None
) -> Iterator[Fact]:
    if not graph.read("knowledge.any"):  # loads no model
        return
    ranked = [pair for near in search.ranked("Knowledge", text) for pair in near]
    least = search.floor(len(ranked))
    near = dict(pair for pair in ranked[:LOOKED_AT] if pair[1] >= least)
    rows = graph.read("knowledge.list", ids=[*near], until=until) if near else []
    rows = [row for row in rows if holds(row, now)]
    rows.sort(key=lambda row: (-near[row["id"]], row["id"]))
    del rows[MOST:]
    told = _read_domains(graph, rows, until)
    told.sort(key=lambda row: (row["told_at"], row["recorded_at"], row["id"]), reverse=True)
    places = {row["id"]: place for place, row in enumerate(told)}
    for row in rows:
        best = max(row["statements"], key=lambda said: (said["confidence"], _said_at(said)))
        later = [one for one in told[: places.get(row["id"], 0)] if holds(one, now)]
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
            may_be_replaced_by=tuple(one["fact"] for one in propose(later, row)),
            valid_to=from_millis(row["valid_to"]),
        )


def _read_domains(reader: Reader, rows: Sequence[Row], until: int | None = None) -> list[Row]:
    """Return the facts of the domains of some: rows of ``knowledge.of_domains``."""
    domains = sorted({row["domain"] for row in rows})
    return reader.read("knowledge.of_domains", domains=domains, until=until) if rows else []


def holds(fact: Row, now: int) -> bool:
    """Return whether a fact holds at a time."""
    since, until = fact["valid_from"], fact["valid_to"]
    return (since is None or since <= now) and (until is None or now < until)


def propose(others: Sequence[Row], row: Row) -> Iterator[Row]:
    """Yield others that may contradict a fact, and are not known to (rows as of its domain)."""
    own = _wording(row["fact"])
    known = {row["id"], *(one["id"] for one in (*row["contradicts"], *row["contradicted_by"]))}
    for other in others:
        there = other["id"] not in known and other["domain"] == row["domain"]
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


class LearningScopes:
    """Sets and reads the scopes of agents in one namespace: ``memory.scopes``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def set(
        self,
        agent: str,
        *,
        can_learn: Sequence[str] | None = None,
        cannot_learn: Sequence[str] = (),
        share_with: Sequence[str] = (),
        inherit_from: Sequence[str] = (),
        min_occurrences: int | None = None,
    ) -> Scope:
        """Set or replace the scope of an agent.

        An agent without a scope learns everything, and reads its own lessons.

        Args:
            agent: name of the agent.
            can_learn: types of tasks that it may learn; ``*`` matches any text; None: all.
            cannot_learn: types of tasks that it may not learn; overrides ``can_learn``.
            share_with: agents that may read its lessons; "*" lets all of them.
            inherit_from: agents whose lessons it reads if they share with it; it also inherits from
                the agents from which these inherit.
            min_occurrences: occurrences that a lesson needs before it reads it.

        Raises:
            ScopeError: it would inherit from itself, directly or through others.
            ValidationError: another field is wrong.
        """
        scope = Scope.from_arguments(locals())

        def work(tx: Transaction) -> None:
            _lock(tx)
            known = Scopes([*read_scopes(tx).values(), scope]) if scope.inherit_from else Scopes()
            for source in scope.inherit_from:
                if scope.agent in {source, *known.ancestors(source)}:
                    problem = f"makes a circle: {source!r} inherits from {scope.agent!r}"
                    raise ScopeError("inherit_from", source, problem, "leave it out")
            tx.run("scopes.put", id=scope_id(tx.ns, scope.agent), **scope.model_dump(mode="json"))

        self._graph.transact(work)
        return scope

    def list(self) -> Listed[Scope]:
        """Return all scopes, by agent."""
        return Listed(builtins.list(read_scopes(self._graph).values()))

    def get(self, agent: str) -> Scope | None:
        """Return the scope of an agent, or None if it has none."""
        name = Scope(agent=agent).agent
        return read_scopes(self._graph, [name]).get(name)

    def remove(self, agent: str) -> bool:
        """Remove the scope of an agent; return whether it had one."""
        name = Scope(agent=agent).agent
        return self._graph.transact(lambda tx: erase_agent(tx, name, named=False)) > 0


def erase_agent(tx: Transaction, agent: str, *, named: bool = True) -> int:
    """Remove the scope of an agent, and its name from others if ``named``; return the number."""
    _lock(tx)
    return int(tx.run("scopes.drop", agents=[agent], named=named)[0]["removed"])


def _lock(tx: Transaction) -> None:
    tx.run("scopes.lock", id=node_id(tx.ns, "Lock", "scopes"))
