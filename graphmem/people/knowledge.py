"""Knowledge: facts of a domain, who states them, and what contradicts them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import from_millis, node_id
from graphmem.models.fields import millis
from graphmem.models.knowledge import (
    KNOWLEDGE_CONFIDENCE,
    Asked,
    Claim,
    Knowledge,
    KnowledgeRef,
    KnowledgeSource,
    Statement,
)
from graphmem.people.preferences import open_user
from graphmem.store.port import ChangedError, Row


def knowledge_id(namespace: str, domain: str, fact: str) -> str:
    """Return the id of the Knowledge node of a fact."""
    return node_id(namespace, "Knowledge", domain, fact)


class KnowledgeBase:
    """Keeps what is known in one namespace."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

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
        """Store that a source states a fact of a domain, durably.

        A fact is there once; each source, user and time that states it is kept as evidence. The
        same again changes nothing and answers ``created=False``.

        Args:
            domain: what the fact is about, for instance "billing".
            fact: the fact, in words.
            source: "user_stated" (confidence 1), "documented", "observed" or "inferred" (0.8).
            user: who stated it; ``memory.upkeep.erase`` can then remove it.
            contradicts: what is known and cannot be true as well: one or several, or their ids.
            at: when it was stated, with time zone; default: not known.

        Raises:
            ValidationError: a field is wrong, or the fact is to contradict itself.
            NotFoundError: what it is to contradict is not known.
            StoreError: the engine failed; nothing was written.
        """
        claim = Claim(
            domain=domain, fact=fact, source=source, user=user, contradicts=contradicts, at=at
        )
        ns = self._graph.ns
        identity = knowledge_id(ns, claim.domain, claim.fact)
        if identity in claim.contradicts:
            raise ValidationError(
                "contradicts", identity, "is the fact itself", "give the ids of others"
            )
        said_at = millis(claim.at)
        said = (claim.source, claim.user or "", "" if said_at is None else str(said_at))
        statement = node_id(ns, "Statement", identity, *said)
        others = list(claim.contradicts)

        def work(tx: Transaction) -> Knowledge:
            user_id = open_user(tx, claim.user) if claim.user else None
            opened = tx.run("knowledge.open", id=identity, domain=claim.domain, fact=claim.fact)
            locked = tx.run("knowledge.lock", ids=[identity, *others])
            there = {row["id"] for row in locked}
            for other in others:
                if other not in there:
                    raise NotFoundError(
                        f"no knowledge {other!r} in namespace {ns!r}; contradicts takes the ids of "
                        "what is known"
                    )
            stated = tx.run(
                "knowledge.state",
                knowledge_id=identity,
                id=statement,
                source=claim.source,
                confidence=KNOWLEDGE_CONFIDENCE[claim.source],
                user=claim.user,
                user_id=user_id,
                at=said_at,
            )
            contradicted = tx.run(
                "knowledge.contradict", knowledge_id=identity, statement=statement, ids=others
            )
            rows = tx.run("knowledge.get", ids=[identity])
            if not rows or statement not in {said["id"] for said in rows[0]["statements"]}:
                raise ChangedError("the fact or its user was erased while this was written")
            created = bool(stated or opened[0]["created"] or contradicted[0]["created"])
            return _knowledge(rows[0], created=created)

        return self._graph.transact(work)

    def knowledge(self, domain: str | None = None, *, limit: int = 100) -> list[Knowledge]:
        """Return what is known, the surest first, with what contradicts what.

        Args:
            domain: only facts of this one.
            limit: rows at most.

        Raises:
            ValidationError: the domain or the limit is wrong.
        """
        asked = Asked(domain=domain)
        if type(limit) is not int or limit < 1:
            raise ValidationError("limit", limit, "must be a whole number from 1")
        rows = self._graph.read("knowledge.list", domain=asked.domain, limit=limit)
        return [_knowledge(row) for row in rows]


def _knowledge(row: Row, *, created: bool = False) -> Knowledge:
    return Knowledge(
        id=row["id"],
        domain=row["domain"],
        fact=row["fact"],
        confidence=row["confidence"],
        source_confidence=row["source_confidence"],
        statements=tuple(map(_statement, row["statements"])),
        contradicts=tuple(KnowledgeRef(**other) for other in row["contradicts"]),
        contradicted_by=tuple(KnowledgeRef(**other) for other in row["contradicted_by"]),
        created=created,
    )


def _statement(held: Row) -> Statement:
    moments = {name: from_millis(held[name]) for name in ("at", "recorded_at")}
    return Statement(**{**held, **moments})
