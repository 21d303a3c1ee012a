"""Knowledge: facts of a domain, who states them, and what contradicts them."""

from __future__ import annotations

import builtins

from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.clock import now_millis
from graphmem.ids import from_millis, node_id
from graphmem.models.fields import millis
from graphmem.models.knowledge import (
    KNOWLEDGE_CONFIDENCE,
    Asked,
    Claim,
    Knowledge,
    KnowledgeRef,
    Statement,
)
from graphmem.people.preferences import open_user
from graphmem.store.port import ChangedError, Row, Store, Transaction
from graphmem.store.queries import procedure


def knowledge_id(namespace: str, domain: str, fact: str) -> str:
    """Return the id of the Knowledge node of a fact."""
    return node_id(namespace, "Knowledge", domain, fact)


class KnowledgeBase:
    """Keeps what is known in one namespace."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def know(self, claim: Claim) -> Knowledge:
        """Store that a source states a fact, durably, or find that it is known.

        Raises:
            ValidationError: it is to contradict itself.
            NotFoundError: what it is to contradict is not known.
            StoreError: the engine failed; nothing was written.
        """
        ns = self._namespace
        identity = knowledge_id(ns, claim.domain, claim.fact)
        if identity in claim.contradicts:
            raise ValidationError(
                "contradicts", identity, "is the fact itself", "give the ids of others"
            )
        at = millis(claim.at)
        said = (claim.source, claim.user or "", "" if at is None else str(at))
        statement = node_id(ns, "Statement", identity, *said)
        others = list(claim.contradicts)
        now = now_millis()

        def work(tx: Transaction) -> Knowledge:
            user = open_user(tx, ns, now, claim.user) if claim.user else None
            opened = tx.run(
                procedure("knowledge.open"),
                ns=ns,
                now=now,
                id=identity,
                domain=claim.domain,
                fact=claim.fact,
            )
            locked = tx.run(procedure("knowledge.lock"), ns=ns, ids=[identity, *others])
            there = {row["id"] for row in locked}
            for other in others:
                if other not in there:
                    raise NotFoundError(
                        f"no knowledge {other!r} in namespace {ns!r}; contradicts takes the ids of "
                        "what is known"
                    )
            stated = tx.run(
                procedure("knowledge.state"),
                ns=ns,
                now=now,
                knowledge_id=identity,
                id=statement,
                source=claim.source,
                confidence=KNOWLEDGE_CONFIDENCE[claim.source],
                user=claim.user,
                user_id=user,
                at=at,
            )
            contradicted = tx.run(
                procedure("knowledge.contradict"),
                ns=ns,
                knowledge_id=identity,
                statement=statement,
                ids=others,
            )
            rows = tx.run(procedure("knowledge.get"), ns=ns, ids=[identity])
            if not rows or statement not in {said["id"] for said in rows[0]["statements"]}:
                raise ChangedError("the fact or its user was erased while this was written")
            created = bool(stated or opened[0]["created"] or contradicted[0]["created"])
            return _knowledge(rows[0], created=created)

        self._store.apply_schema()
        return self._store.transact(work)

    def list(self, asked: Asked, limit: int) -> builtins.list[Knowledge]:
        """Return what is known, the surest first.

        Raises:
            ValidationError: the limit is no whole number from 1.
        """
        if type(limit) is not int or limit < 1:
            raise ValidationError("limit", limit, "must be a whole number from 1")
        rows = self._store.read(
            procedure("knowledge.list"), ns=self._namespace, domain=asked.domain, limit=limit
        )
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
