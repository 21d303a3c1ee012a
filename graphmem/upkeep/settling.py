"""Settling: an outcome that is told after an episode ended replaces the one that was learned.

Each such outcome is a node ``Settlement``; the latest by ``at`` is that of the episode. When it
changes, the episode's shares of derived numbers are replaced by those that it has now.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from graphmem.episodes.learning import Learner
from graphmem.episodes.rows import episode_row, formers, read_contents
from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import EARLIEST, abandoned_id, from_millis, node_id, stream_id
from graphmem.lessons import general_rules as consolidation
from graphmem.models.episodes import AbandonedAttempt, Episode, SettlementRecord, resolve
from graphmem.models.fields import Flag, Input, Moment, Name, Text, Unit, millis
from graphmem.models.reports import Settled
from graphmem.policies.cycles import Cycles
from graphmem.policies.streams import rebuild
from graphmem.store.port import ChangedError, Row
from graphmem.upkeep.erasing import hold
from graphmem.upkeep.verifying import Shares, counted_classes, derive


class _Outcome(Input):
    """What is told of an episode."""

    episode: Name
    success: Flag | None = None
    score: Unit | None = None
    error: Text | None = None
    at: Moment | None = None
    agent: Name | None = None
    reward: None = None

    def model_post_init(self, _: Any, /) -> None:
        """Check that there is one outcome."""
        if (self.success is None) == (self.score is None):
            value, problem = None, "the outcome is unknown"
            if self.success is not None:
                value, problem = self.success, f"is told beside score {self.score}"
            remedy = "give either success as true or false, or a score in [0, 1]"
            raise ValidationError("success", value, problem, remedy)


class Settler:
    """Settles episodes of one namespace."""

    def __init__(self, graph: Graph, learner: Learner) -> None:
        self._graph = graph
        self._learner = learner
        self._cycles = Cycles(graph)

    def settle(
        self,
        episode: str,
        *,
        success: bool | None = None,
        score: float | None = None,
        error: str | None = None,
        at: datetime | None = None,
        agent: str | None = None,
    ) -> Settled:
        """Tell an outcome that came after an episode ended, such as a thumbs-down an hour later.

        From then on it is the outcome of the episode: every derived number is as if the episode had
        been learned with it, at the time at which the episode ended. The former outcomes stay
        readable (:meth:`episodes`, :meth:`show`). Of several outcomes that are told the latest by
        ``at`` counts; one that is known already changes nothing. An attempt without an outcome
        becomes an episode. Learning the original record again changes nothing.

        Args:
            episode: id or source key of the episode, or id or key of an abandoned attempt.
            success: whether it worked. Give this or a score.
            score: how well, in [0, 1].
            error: what went wrong; None: the error that was learned, if there was one.
            at: when it was told, with time zone; not before the episode ended. Default: now.
            agent: only if it is of this agent; None: of any.

        Raises:
            NotFoundError: there is no such episode or attempt in this namespace.
            ValidationError: no outcome or two are given, or ``at`` is in the future or too early.
            ScopeError: the agent of the attempt may not learn this type of task.
        """
        told = _Outcome.from_arguments(locals())
        if (told.at is not None) and (millis(told.at) or 0) > self._graph.now():
            raise ValidationError("at", told.at, "lies in the future", "leave it out for now")
        return self._graph.transact(lambda tx: self._settle(tx, told))

    def restore(self, record: SettlementRecord) -> bool:
        """Settle as an exported record says; return whether that changed anything."""
        key = record.source_key
        names = (record.content_hash, *(() if record.occurrence is None else (record.occurrence,)))
        parts = ("content", *map(str, names)) if key is None else ("key", key)
        identity = node_id(self._graph.ns, "Episode", *parts)
        told = _Outcome.from_arguments({**dict(record), "episode": identity})
        revived = abandoned_id(self._graph.ns, key) if record.revived and key else None
        return self._graph.transact(lambda tx: self._change(tx, identity, told, revived)).changed

    def _settle(self, tx: Transaction, told: _Outcome) -> Settled:
        ns, key = self._graph.ns, told.episode
        meant = (key, node_id(ns, "Episode", "key", key), abandoned_id(ns, key))
        rows = tx.run("settling.find", ids=[*meant, node_id(ns, "Settlement", key)])
        rows.sort(key=lambda row: row["record"] is not None)
        if not rows:
            raise self._unknown(told)
        found = rows[0]
        if found["record"] is None:
            return self._change(tx, found["id"], told)
        attempt = AbandonedAttempt.from_json(found["record"])
        if told.agent not in (None, attempt.agent):
            raise self._unknown(told)
        return self._revive(tx, found["id"], attempt, told)

    def _unknown(self, told: _Outcome) -> NotFoundError:
        whose = f" of {told.agent}" if told.agent else ""
        problem = f"no episode or attempt {told.episode!r}{whose} in namespace {self._graph.ns!r}"
        return NotFoundError(f"{problem}; give an id or a source key")

    def _revive(
        self, tx: Transaction, identity: str, attempt: AbandonedAttempt, told: _Outcome
    ) -> Settled:
        if not tx.run("erasing.drop_abandoned", ids=[identity])[0]["removed"]:
            raise ChangedError("another process settled the attempt, or erased it")
        outcome: Row = {"success": told.success, "score": told.score}
        outcome |= {"error": told.error or attempt.error, "source_key": attempt.key}
        episode = Episode.from_arguments({**dict(attempt), **outcome})
        row = episode_row(episode, self._graph.ns, tx.settings.success_threshold)
        self._learner.learn_within(tx, row)
        return self._change(tx, row["id"], told, identity)

    def _change(
        self, tx: Transaction, identity: str, told: _Outcome, revived: str | None = None
    ) -> Settled:
        """Settle an episode; ``revived`` is the id that it had as an attempt without outcome."""
        touched, nodes = hold(tx, [identity])
        if not touched or told.agent not in (None, touched[0]["agent_name"]):
            raise self._unknown(told)
        learned = read_contents(tx, [identity])[identity]
        before = tx.run("settling.told", ids=[identity])
        outcome = _resolved(told, learned, tx.settings.success_threshold)
        first = {name: learned.get(name) for name in outcome}
        at = _checked_time(told.at, learned, tx.now, [row["at"] for row in before])
        standing = [first, *(row["outcome"] for row in before if row["at"] <= at)][-1]
        own = (identity, str(at)) if revived is None else (revived,)
        key = node_id(tx.ns, "Settlement", *own)
        known = {row["id"] for row in before}
        if key in known or (standing == outcome and revived is None):
            return Settled(episode_id=identity, changed=False, former=formers(before))
        former = dict.fromkeys(outcome) if revived else first
        row = {"id": key, "at": at, "outcome": outcome, "former": former}
        tx.run("settling.tell", rows=[{"episode": identity, **row, **outcome}])
        told_all = sorted([*before, row], key=lambda row: int(row["at"]))
        present = before[-1]["outcome"] if before else first
        if told_all[-1] is row and present != outcome:
            self._replace(tx, {**touched[0], **learned, **outcome}, nodes)
        return Settled(episode_id=identity, changed=True, former=formers(told_all))

    def _replace(self, tx: Transaction, row: Row, nodes: dict[str, list[str]]) -> None:
        ids = [row["id"]]
        before = Shares(tx, ids)
        general = consolidation.drop(tx, ids) if consolidation.lock(tx) else None
        tx.run("settling.put", rows=[{**row, **counted_classes(row)}])
        at = _ended(row, row["recorded_at"])
        Shares(tx, ids).replace(before, at)
        derive(tx, "Rule", nodes["Rule"])
        if general is not None:
            consolidation.renew(tx, general, nodes["Strategy"])
        took = [one for found in tx.run("erasing.experience", ids=ids) for one in found["took"]]
        if took:
            rebuild(tx, stream_id(tx.ns, row["agent_name"]))
        self._cycles.renew(tx, [*nodes["Strategy"], *took])
        # They were fitted to the former outcome, too; the next prediction fits them again.
        tx.run("forecasting.drop_pooling")


def _resolved(told: Any, learned: Row, threshold: float) -> Row:
    success, score, reward = resolve(told, threshold)
    if learned["reward"] != learned["score"]:  # it was given
        reward = learned["reward"]
    error = told.error or learned.get("error")
    return {"success": success, "score": score, "reward": reward, "error": error}


def _ended(held: Row, undated: int) -> int:
    return next((held[name] for name in ("ended_at", "started_at") if name in held), undated)


def _checked_time(at: datetime | None, learned: Row, now: int, known: Sequence[int]) -> int:
    """Return when an outcome was told; of several that were told at one time each is later."""
    ended = _ended(learned, EARLIEST)
    asked = millis(at)
    if asked is None:
        return max(now, ended, *(one + 1 for one in known))
    if asked < ended:
        problem = f"lies before the end of the episode, {from_millis(ended):%Y-%m-%d %H:%M:%S}"
        raise ValidationError("at", at, problem, "give the time at which the outcome was told")
    while asked in known:
        asked += 1
    return asked
