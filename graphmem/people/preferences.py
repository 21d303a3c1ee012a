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
            of_category = {"user_id": identity, "category": wish.category}
            before = tx.run("preferences.of", **of_category)
            now, known = tx.now, None
            if said_at is None:
                now, known = _said_now(wish, before, tx.now)
            moment = ("recorded", str(now)) if said_at is None else ("at", str(said_at))
            said = (wish.user, wish.category, wish.text, wish.source)
            key = known or node_id(ns, "Preference", *said, *moment)
            created = key not in {row["id"] for row in before}
            if created:
                tx.run(
                    "preferences.prefer",
                    **of_category,
                    now=now,
                    id=key,
                    text=wish.text,
                    source=wish.source,
                    confidence=PREFERENCE_CONFIDENCE[wish.source],
                    at=said_at,
                )
                _relink(tx, [identity], wish.category)
            for row in tx.run("preferences.of", **of_category):
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
        rows = tx.run("preferences.chains", ids=list(page.items))
        differences = []
        for row in rows:
            for older in sorted({row["derived"], *row["stored"]} - {None}):
                stored, derived = older in row["stored"], older == row["derived"]
                if stored != derived:
                    difference = Difference(
                        kind="supersessions",
                        key=f"{row['newer']} {older}",
                        field="*",
                        stored="present" if stored else None,
                        expected="present" if derived else None,
                    )
                    differences.append(difference)
        count = sum(row["derived"] is not None for row in rows)
        return Verified(differences, {"supersessions": count})

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
    statements = sum(row["removed"] for row in tx.run("knowledge.retract", user_id=identity))
    knowledge = sum(row["removed"] for row in tx.run("knowledge.settle", ids=stated))
    rows = tx.run("preferences.erase_user", user_id=identity)
    return ErasedUser(len(rows), sum(row["preferences"] for row in rows), statements, knowledge)


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


def _relink(tx: Transaction, users: Sequence[str], category: str | None = None) -> tuple[int, int]:
    """Store the edges of locked users; return the numbers of all and of removed edges."""
    rows = tx.run("preferences.chains", ids=list(users), category=category)
    wrong = [
        {"newer": row["newer"], "older": row["derived"]}
        for row in rows
        if row["stored"] != [older for older in (row["derived"],) if older]
    ]
    if wrong:
        tx.run("preferences.relink", rows=wrong)
    removed = sum(len({*row["stored"]} - {row["derived"]}) for row in rows)
    return sum(row["derived"] is not None for row in rows), removed


def _preference(row: Row, *, created: bool = False) -> Preference:
    times = {"at": from_millis(row["at"]), "recorded_at": from_millis(row["created_at"])}
    in_force = row["superseded_by"] is None
    return Preference(**{**row, **times, "in_force": in_force, "created": created})
