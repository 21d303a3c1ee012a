"""Users: their preferences, and erasing everything that they said.

Preferences are facts. Only their times decide which is in force: those of a user and category form
a chain in which each supersedes the one before it, in whatever order they arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from graphmem.graph.derived import Page, Paged, Rebuilt, Verified, Work
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import from_millis, node_id
from graphmem.models import Difference
from graphmem.models.fields import millis
from graphmem.models.users import (
    PREFERENCE_CONFIDENCE,
    Asked,
    Preference,
    PreferenceSource,
    Wish,
)
from graphmem.notebook.frames import Listed
from graphmem.store.paging import pages
from graphmem.store.port import ChangedError, Row


def user_id(namespace: str, user: str) -> str:
    """Return the id of the User node of a name."""
    return node_id(namespace, "User", user)


class Preferences:
    """Stores the preferences of the users of one namespace."""

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

        Args:
            user: name of the user.
            category: the category, for instance "language"; each has one preference in force.
            text: the preference in words.
            source: "explicit_instruction" (confidence 1), "correction" or "inferred" (0.7).
            at: when it was said, with time zone; default: unknown.

        Raises:
            ValidationError: a field is wrong.
            StoreError: the engine failed; nothing was written.
        """
        wish = Wish(user=user, category=category, text=text, source=source, at=at)
        ns = self._graph.ns
        identity = user_id(ns, wish.user)
        said_at = millis(wish.at)

        def work(tx: Transaction) -> Preference:
            open_user(tx, wish.user)
            query = "preferences.of"
            before = tx.run(query, user_id=identity, category=wish.category)
            now, known = tx.now, None
            if said_at is None:
                now, known = _said_now(wish, before, tx.now)
                moment = ("recorded", str(now))
            else:
                moment = ("at", str(said_at))
            key = known or node_id(
                ns, "Preference", wish.user, wish.category, wish.text, wish.source, *moment
            )
            created = key not in {row["id"] for row in before}
            if created:
                tx.run(
                    "preferences.prefer",
                    now=now,
                    user_id=identity,
                    id=key,
                    category=wish.category,
                    text=wish.text,
                    source=wish.source,
                    confidence=PREFERENCE_CONFIDENCE[wish.source],
                    at=said_at,
                )
                _relink(tx, [identity], wish.category)
            rows = tx.run(query, user_id=identity, category=wish.category)
            for row in rows:
                if row["id"] == key:
                    return _preference(row, created=created)
            raise ChangedError("the user was erased while this was written")

        return self._graph.transact(work)

    def preferences(
        self, user: str, category: str | None = None, *, history: bool = False
    ) -> Listed[Preference]:
        """Return the preferences of a user, by category.

        Args:
            user: name of the user.
            category: only this category.
            history: include superseded ones, the latest first.

        Raises:
            ValidationError: a name is wrong.
        """
        asked = Asked(user=user, category=category)
        rows = self._graph.read(
            "preferences.of",
            user_id=user_id(self._graph.ns, asked.user),
            category=asked.category,
            history=history,
        )
        return Listed([_preference(row) for row in rows])


class Supersessions(Paged):
    """Which preferences of one namespace supersede which."""

    kinds = ("supersessions",)

    def work(self) -> Work:
        """Return the ids of users."""
        rows = self._graph.read("preferences.users")
        return Work(Page(page) for page in pages([row["id"] for row in rows]))

    def compare(self, tx: Transaction, page: Page) -> Verified:
        """Compare the stored edges with those derived from the times of preferences."""
        if self._graph.must_lock:  # lock these users against writers
            lock_users(tx, page.items)
        expected, stored = _derived(tx, page.items), _stored(tx, page.items)
        differences = [
            Difference(
                kind="supersessions",
                key=f"{newer} {older}",
                field="*",
                stored="present" if (newer, older) in stored else None,
                expected="present" if (newer, older) in expected else None,
            )
            for newer, older in sorted(expected ^ stored)
        ]
        return Verified(differences, {"supersessions": len(expected)})

    def mend(self, tx: Transaction, page: Page) -> Rebuilt:
        """Derive and store the edges again."""
        lock_users(tx, page.items)
        written, removed = _relink(tx, page.items)
        return Rebuilt({"supersessions": written}, removed)


def open_user(tx: Transaction, user: str) -> str:
    """Create a missing user, and lock the node; return its id.

    Raises:
        ChangedError: another writer erased the user meanwhile; the transaction is run again.
    """
    identity = user_id(tx.ns, user)
    tx.run("preferences.open_user", id=identity, name=user)
    if not lock_users(tx, [identity]):
        raise ChangedError("the user was erased while this was written")
    return identity


def lock_users(tx: Transaction, ids: Sequence[str]) -> int:
    """Lock users until the transaction ends; return the number of existing ones."""
    rows = tx.run("preferences.lock_users", ids=list(ids))
    return int(rows[0]["locked"])


class ErasedUser(NamedTuple):
    """Counts of what erasing a user removed."""

    users: int
    preferences: int
    statements: int
    knowledge: int
    """Facts that only this user stated."""


def erase_user(tx: Transaction, user: str) -> ErasedUser:
    """Remove a user with all preferences and statements, and the facts that nobody else stated.

    Contradictions that only this user claimed are removed, too. All counts are 0 if there is no
    such user.
    """
    identity = user_id(tx.ns, user)
    if not lock_users(tx, [identity]):
        return ErasedUser(0, 0, 0, 0)
    stated = [row["id"] for row in tx.run("knowledge.stated_by", user_id=identity)]
    tx.run("knowledge.lock", ids=stated)
    tx.run("knowledge.retract_contradictions", user_id=identity)

    def removed(name: str, **params: object) -> int:
        rows = tx.run(name, **params)
        return int(rows[0]["removed"]) if rows else 0

    statements = removed("knowledge.retract", user_id=identity)
    knowledge = removed("knowledge.drop", ids=stated)
    tx.run("knowledge.date", ids=stated)
    preferences = removed("preferences.erase", user_id=identity)
    users = removed("preferences.drop_user", user_id=identity)
    return ErasedUser(users, preferences, statements, knowledge)


def _said_now(wish: Wish, before: Sequence[Row], clock: int) -> tuple[int, str | None]:
    """Return the time for a wish without one; and the id of the latest preference if it is equal.

    The time is that of the clock, but after all earlier wishes: a machine can write twice in a
    millisecond, and clocks can be set back.
    """
    last = next((row for row in before if row["at"] is None or row["said_at"] <= clock), None)
    if last is None:
        return clock, None
    if (last["text"], last["source"]) == (wish.text, wish.source):
        return clock, last["id"]
    return max(clock, last["said_at"] + 1), None


def _derived(
    tx: Transaction, users: Sequence[str], category: str | None = None
) -> set[tuple[str, str]]:
    rows = tx.run("preferences.derive_supersessions", ids=list(users), category=category)
    return {(row["newer"], row["older"]) for row in rows}


def _stored(
    tx: Transaction, users: Sequence[str], category: str | None = None
) -> set[tuple[str, str]]:
    rows = tx.run("preferences.stored_supersessions", ids=list(users), category=category)
    return {(row["newer"], row["older"]) for row in rows}


def _relink(tx: Transaction, users: Sequence[str], category: str | None = None) -> tuple[int, int]:
    """Store the edges of locked users; return the numbers of all and of removed edges."""
    expected = _derived(tx, users, category)
    stored = _stored(tx, users, category)
    for name, pairs in (
        ("preferences.unlink", stored - expected),
        ("preferences.link", expected - stored),
    ):
        if pairs:
            rows = [{"newer": newer, "older": older} for newer, older in sorted(pairs)]
            tx.run(name, rows=rows)
    return len(expected), len(stored - expected)


def _preference(row: Row, *, created: bool = False) -> Preference:
    return Preference(
        id=row["id"],
        user=row["user"],
        category=row["category"],
        text=row["text"],
        source=row["source"],
        confidence=row["confidence"],
        at=from_millis(row["at"]),
        recorded_at=from_millis(row["created_at"]),
        in_force=row["superseded_by"] is None,
        supersedes=row["supersedes"],
        superseded_by=row["superseded_by"],
        created=created,
    )
