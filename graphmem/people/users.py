"""Users: the order of their preferences, and erasing everything that they said.

Preferences are facts. Only their times decide which is in force: those of a user and category form
a chain in which each supersedes the one before it, in whatever order they arrive.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphmem.graph.derived import Kind, Page, Paged, Rebuilt, Verified, Work, differences_of
from graphmem.graph.graph import Transaction
from graphmem.ids import node_id
from graphmem.store.paging import pages
from graphmem.store.port import ChangedError, Row

SUPERSESSIONS = Kind("supersessions", "Preference")


class Supersessions(Paged):
    """Which preferences of one namespace supersede which."""

    kinds = (SUPERSESSIONS.name,)

    def work(self) -> Work:
        """Return the ids of users."""
        rows = self._graph.read("preferences.users")
        return Work(Page(page) for page in pages([row["id"] for row in rows]))

    def compare(self, tx: Transaction, page: Page) -> Verified:
        """Compare the stored edges with those derived from the times of preferences."""
        if self._graph.must_lock:  # lock these users against writers
            tx.run("preferences.lock_users", ids=list(page.items))
        rows = tx.run("preferences.chains", ids=list(page.items))
        stored: dict[str, Row] = {
            f"{row['newer']} {older}": {} for row in rows for older in row["stored"]
        }
        expected: dict[str, Row] = {
            f"{row['newer']} {row['derived']}": {} for row in rows if row["derived"]
        }
        differences = differences_of(SUPERSESSIONS, stored, expected)
        return Verified(differences, {SUPERSESSIONS.name: len(expected)})

    def mend(self, tx: Transaction, page: Page) -> Rebuilt:
        """Derive and store the edges again."""
        tx.run("preferences.lock_users", ids=list(page.items))
        written, removed = relink(tx, page.items)
        return Rebuilt({SUPERSESSIONS.name: written}, removed)


def open_user(tx: Transaction, user: str) -> str:
    """Create a missing user, and lock the node; return its id."""
    identity = node_id(tx.ns, "User", user)
    if not tx.run("preferences.lock_users", ids=[identity], name=user)[0]["locked"]:
        raise ChangedError("the user was erased while this was written")
    return identity


def relink(tx: Transaction, users: Sequence[str], category: str | None = None) -> tuple[int, int]:
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


def erase_user(tx: Transaction, user: str) -> tuple[int, int] | None:
    """Remove what only a user said; return the numbers of preferences and facts, None: no user."""
    identity = node_id(tx.ns, "User", user)
    if not tx.run("preferences.lock_users", ids=[identity])[0]["locked"]:
        return None
    stated = [row["id"] for row in tx.run("knowledge.retract", user_id=identity)]
    tx.run("knowledge.lock", ids=stated)
    facts = tx.run("knowledge.settle", ids=stated)[0]["removed"]
    rows = tx.run("preferences.erase_user", user_id=identity)
    return sum(row["preferences"] for row in rows), facts
