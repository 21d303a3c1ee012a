"""People: preferences of users, knowledge, and the scopes of agents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import check_limit
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import from_millis, node_id
from graphmem.models.fields import Input, Name, millis
from graphmem.models.people import (
    KNOWLEDGE_CONFIDENCE,
    PREFERENCE_CONFIDENCE,
    Claim,
    Knowledge,
    KnowledgeSource,
    Preference,
    PreferenceSource,
    Wish,
)
from graphmem.notebook.frames import Listed
from graphmem.people.users import open_user, relink
from graphmem.store.port import ChangedError, Row


class _Asked(Input):
    user: Name = "-"
    category: Name | None = None
    domain: Name | None = None


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
                relink(tx, [of_category["user_id"]], wish.category)
                before = tx.run("preferences.of", **of_category)
            return next(_preference(row, created=created) for row in before if row["id"] == key)

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
        asked = _Asked(user=user, category=category)
        user_id = node_id(self._graph.ns, "User", asked.user)
        of_category = {"user_id": user_id, "category": asked.category}
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
    ) -> Knowledge:
        """Store a source's statement of a fact, durably.

        A fact is stored once; each source, user and time that states it is evidence. A repeated
        statement changes nothing and returns ``created=False``.

        Args:
            domain: the subject of the fact, for instance "billing".
            fact: the fact, in words.
            source: "user_stated" (confidence 1), "documented", "observed" or "inferred" (0.8).
            user: who stated it; ``memory.upkeep.erase`` can then remove it.
            contradicts: known facts that contradict this one: one or several, or their ids.
            at: when it was stated, with time zone; default: unknown.

        Raises:
            ValidationError: a field is wrong, or the fact contradicts itself.
            NotFoundError: a fact in ``contradicts`` is not known.
            StoreError: the engine failed; nothing was written.
        """
        claim = Claim(
            domain=domain,
            fact=fact,
            source=source,
            user=user,
            contradicts=contradicts,  # type: ignore[arg-type]
            at=at,
        )
        ns, others = self._graph.ns, list(claim.contradicts)
        identity = node_id(ns, "Knowledge", claim.domain, claim.fact)
        if identity in others:
            raise ValidationError(
                "contradicts", identity, "is the fact itself", "give the ids of others"
            )
        said_at = millis(claim.at)
        said = (claim.source, claim.user or "", "" if said_at is None else str(said_at))
        statement = node_id(ns, "Statement", identity, *said)

        def work(tx: Transaction) -> Knowledge:
            user_id = open_user(tx, claim.user) if claim.user else None
            locked = {row["id"] for row in tx.run("knowledge.lock", ids=[identity, *others])}
            for other in others:
                if other not in locked:
                    missing = f"no knowledge {other!r} in namespace {ns!r}"
                    raise NotFoundError(f"{missing}; contradicts takes the ids of what is known")
            given = claim.model_dump(include={"domain", "fact", "source", "user"})
            given |= {"confidence": KNOWLEDGE_CONFIDENCE[claim.source], "at": said_at}
            about = {"knowledge_id": identity, "id": statement, "user_id": user_id}
            stated = tx.run("knowledge.state", **about, **given)
            contradicted = tx.run(
                "knowledge.contradict", knowledge_id=identity, statement=statement, ids=others
            )
            rows = tx.run("knowledge.get", ids=[identity])
            if not rows or statement not in {said["id"] for said in rows[0]["statements"]}:
                raise ChangedError("the fact or its user was erased while this was written")
            return _knowledge(rows[0], created=bool(stated or contradicted[0]["created"]))

        return self._graph.transact(work)

    def knowledge(self, domain: str | None = None, *, limit: int = 100) -> Listed[Knowledge]:
        """Return the known facts, the highest confidence first, with their contradictions.

        Args:
            domain: only facts of this domain.
            limit: most facts to return.

        Raises:
            ValidationError: the domain or the limit is wrong.
        """
        asked = _Asked(domain=domain)
        check_limit(limit)
        rows = self._graph.read("knowledge.list", domain=asked.domain, limit=limit)
        return Listed([_knowledge(row) for row in rows])


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


def _knowledge(row: Row, *, created: bool = False) -> Knowledge:
    statements = [
        {**said, "at": from_millis(said["at"]), "recorded_at": from_millis(said["recorded_at"])}
        for said in row["statements"]
    ]
    return Knowledge(**{**row, "statements": statements, "created": created})
