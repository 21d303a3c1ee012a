"""Knowledge: facts of a domain, their sources, and contradictions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import check_limit
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import from_millis, node_id
from graphmem.models.fields import millis
from graphmem.models.knowledge import (
    KNOWLEDGE_CONFIDENCE,
    Asked,
    Claim,
    Knowledge,
    KnowledgeSource,
)
from graphmem.notebook.frames import Listed
from graphmem.people.preferences import open_user
from graphmem.store.port import ChangedError, Row


def knowledge_id(namespace: str, domain: str, fact: str) -> str:
    """Return the id of the Knowledge node of a fact."""
    return node_id(namespace, "Knowledge", domain, fact)


class KnowledgeBase:
    """Stores the knowledge of one namespace."""

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

    def knowledge(self, domain: str | None = None, *, limit: int = 100) -> Listed[Knowledge]:
        """Return the known facts, the highest confidence first, with their contradictions.

        Args:
            domain: only facts of this domain.
            limit: most facts to return.

        Raises:
            ValidationError: the domain or the limit is wrong.
        """
        asked = Asked(domain=domain)
        check_limit(limit)
        rows = self._graph.read("knowledge.list", domain=asked.domain, limit=limit)
        return Listed([_knowledge(row) for row in rows])


def _knowledge(row: Row, *, created: bool = False) -> Knowledge:
    statements = [
        {**said, "at": from_millis(said["at"]), "recorded_at": from_millis(said["recorded_at"])}
        for said in row["statements"]
    ]
    return Knowledge(**{**row, "statements": statements, "created": created})
