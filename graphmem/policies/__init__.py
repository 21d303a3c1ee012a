"""Policies: what to do in a state, by values from rewards (TD(0)), counts of outcomes, signals.

Actions that worked often enough crystallize, until they no longer do. Every episode and outcome
updates the counts in its own transaction. So the result does not depend on their order, on batches,
or on the number of recording processes.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Annotated, Any

from pydantic import Field

from graphmem.errors import ValidationError
from graphmem.graph.arguments import checked_agent, checked_items
from graphmem.graph.estimate import rates_of
from graphmem.graph.graph import Transaction
from graphmem.ids import event_ids, node_id, stream_id
from graphmem.models.fields import Amount, BatchSize, Input, Unit, Value, checked, millis
from graphmem.models.policies import (
    Candidate,
    CrystallizeReport,
    EpisodesLearned,
    Policy,
    State,
    TDUpdate,
    Transition,
)
from graphmem.notebook import Listed
from graphmem.policies.replay import DECAY, INITIAL_WEIGHT, STRENGTHEN
from graphmem.policies.streams import Change, PolicyKey, StateKey, apply, lock, open_nodes
from graphmem.policies.values import Values
from graphmem.store.port import ChangedError, Row

GROUP = "graphmem: learn episodes"  # its cursor in a stream marks the last learned episode
PAGE = 100  # events of which the episodes are learned in one transaction

BELOW_SHOWN = 20
_EVENTS = {"created": "crystallized", "updated": "crystallized", "taken_back": "taken_back"}


class Thresholds(Input):
    """The conditions for crystallizing: enough trials, a Wilson lower bound over the threshold."""

    min_events: Annotated[int, Field(ge=1, le=1_000_000_000)]
    threshold: Annotated[float, Field(ge=0, lt=1)]
    z: Annotated[float, Field(gt=0, le=10)]


class Policies(Values):
    """Learns, ranks and links the policies of one namespace: ``memory.policies``.

    A state is a dict of features or a fingerprint. An action is a type, with ``spec`` (any JSON) if
    the type alone does not identify it. Each agent has its own policies. Episodes link policies;
    the methods that link by hand take a Policy or its id (NotFoundError: it is not there).
    """

    def update(
        self,
        state: State,
        action: str,
        reward: float | None = None,
        *,
        spec: Any = None,
        next_state: State | None = None,
        next_max_q: float | None = None,
        terminal: bool = False,
        next_actions: int | None = None,
        alpha: float | None = None,
        gamma: float | None = None,
        success: bool | None = None,
        agent: str = "default",
        at: datetime | None = None,
    ) -> TDUpdate:
        """Learn one step by TD(0), durably: q <- q + alpha (reward + gamma max q' - q).

        The graph computes the maximum over the next state's policies in the same statement. The
        step is stored as a Transition, so that ``rebuild`` gives the same value.

        The arguments are the fields of :class:`graphmem.Transition`. Without a reward ``success``
        is evidence for :meth:`crystallize`, and the value does not change. Without ``at`` the value
        decays from the time of recording. Without the setting ``record_transitions`` a step without
        ``success`` changes the value only: no Transition is stored.

        Raises:
            ValidationError: a field is wrong, or what came next is missing.
            StoreError: the engine failed; nothing was written.
        """
        step = Transition.from_arguments(locals())
        change = self._change(step)
        counted = step.success is not None  # counts are made of records
        if counted or not self._graph.settings.record_transitions:
            return self._learn([change], record=counted)[0]
        fact = change.fact
        params = {name: fact[name] for name in ("reward", "alpha", "gamma", "at")}
        params |= {"policy_id": fact["subject"], "next_max_q": fact["next_max"]}
        params["stream_id"] = stream_id(self._graph.ns, change.agent)
        query = "policies.td_finish"
        if change.after:
            query = "policies.td_update"
            params |= {"next_state_id": fact["next_id"], "next_actions": fact["next_actions"]}

        def work(tx: Transaction) -> list[Row]:
            open_nodes(tx, (), [change])
            if not (updated := tx.run(query, **params)):
                raise ChangedError("the policy was erased while this was written")
            return updated

        # No row: the policy or the next state is new.
        [row] = self._graph.write(query, **params) or self._graph.transact(work)
        return TDUpdate(row["q_value"], row["td_error"], fact["subject"], row["seq"])

    def update_many(
        self, transitions: Iterable[Transition | Mapping[str, Any]], *, batch_size: int = 1_000
    ) -> Listed[TDUpdate]:
        """Learn many steps in order, ``batch_size`` (from 1 to 100000) in a transaction.

        Each step is a Transition or a dict of its fields; they are read lazily. The values are
        identical to those of single updates.

        Raises:
            ValidationError: one is wrong (the error begins with its position); its batch is not
                written, earlier batches stay.
        """
        checked("batch_size", batch_size, BatchSize)
        rest = enumerate(checked_items("transitions", transitions))
        done: list[TDUpdate] = []
        while batch := [self._checked(*item) for item in islice(rest, batch_size)]:
            done += self._learn(batch)
        return Listed(done)

    def set_q(
        self, state: State, action: str, q: float, *, spec: Any = None, agent: str = "default"
    ) -> None:
        """Set the value of an action (from -1e100 to 1e100), also before its first trial."""
        key = self._key(agent, state, action, spec)
        fact = {"subject": key.id, "value": checked("q", q, Value)}
        self._apply(Change(key.agent, "set", fact, key))

    def signal(
        self, state: State, action: str, signal: float, *, spec: Any = None, agent: str = "default"
    ) -> float:
        """Move the confidence in a policy toward a signal in [0, 1]; return the confidence.

        Raises:
            NotFoundError: there is no such policy.
        """
        value = checked("signal", signal, Unit)
        known = self._policy(self._key(agent, state, action, spec).id)
        fact = {"subject": known.id, "value": value}
        return float(self._apply(Change(known.agent, "signal", fact))[0][1])

    def link(self, a: Policy | str, b: Policy | str, *, weight: float = INITIAL_WEIGHT) -> float:
        """Link two policies of an agent; an existing edge keeps its weight. Return the weight.

        Weights are in [0, 1].
        """
        return self._join("linked", a, b, checked("weight", weight, Unit))

    def strengthen(self, a: Policy | str, b: Policy | str, *, delta: float = STRENGTHEN) -> float:
        """Add ``delta``, over 0, to the weight of an edge, up to 1; create it if there is none."""
        if not (more := checked("delta", delta, Amount)):
            raise ValidationError("delta", delta, "must be over 0")
        return self._join("strengthened", a, b, more)

    def weaken(self, a: Policy | str, b: Policy | str, *, factor: float = DECAY) -> float:
        """Multiply the weight of an edge by a factor in [0, 1]; return the weight.

        An edge whose weight falls below 0.001 is removed; its weight is then 0.
        """
        return self._join("weakened", a, b, checked("factor", factor, Unit))

    def unlink(self, a: Policy | str, b: Policy | str) -> None:
        """Remove the edge between two policies, if there is one."""
        self._join("unlinked", a, b, None)

    def _join(self, kind: str, a: Policy | str, b: Policy | str, value: float | None) -> float:
        first, second = self._policy(a), self._policy(b)
        if first.id == second.id:
            raise ValidationError("b", second.id, "is the same policy", "give two different ones")
        if first.agent != second.agent:
            problem = f"is of another agent than {first.agent!r}"
            raise ValidationError("b", second.agent, problem, "agents do not mix")
        fact = {"subject": first.id, "other": second.id, "value": value}
        return float(self._apply(Change(first.agent, kind, fact))[0][1])

    def learn_episodes(self, agent: str | None = None) -> EpisodesLearned:
        """Apply TD(0), by the settings, to the steps of recorded episodes in order of recording.

        The episodes are those of an agent, or of all agents, each separately. A step counts if it
        has a state, a reward, and a next state or ``terminal``. Each episode is applied once, also
        with repeated or concurrent calls; erasing an episode removes its transitions. The time of a
        call depends on the number of new events.
        """
        total: Counter[str] = Counter()
        for stream in self._graph.read("events.streams", group=GROUP, agent=checked_agent(agent)):
            done = PAGE if stream["level"] is None else 0
            while done == PAGE:
                learned = self._graph.transact(partial(self._learn_page, stream))
                done = learned["events"]
                total += learned
        return EpisodesLearned(**{name: total[name] for name in EpisodesLearned.model_fields})

    def crystallize(
        self,
        agent: str | None = None,
        *,
        min_events: int | None = None,
        threshold: float | None = None,
        z: float | None = None,
    ) -> CrystallizeReport:
        """Crystallize actions that worked often enough; take back those that no longer do.

        Trials are episodes with steps that have a state (once for every action in a state), and
        updates with ``success``. A policy without updates and without a set value gets its lower
        bound as its value.

        Args:
            agent: only this agent; default: all agents, each separately.
            min_events: required trials; default: the setting (3).
            threshold: the Wilson lower bound must exceed this; default: the setting (0.6).
            z: normal quantile of the bound; default: the setting (1.96). At 1.96, 3 successes in 3
                trials have a lower bound of .438; the report has the number of trials that a
                threshold needs.
        """
        settings = self._graph.settings
        limits = Thresholds(
            min_events=settings.min_events if min_events is None else min_events,
            threshold=settings.crystallize_above if threshold is None else threshold,
            z=settings.z if z is None else z,
        )
        agent = checked_agent(agent)
        rows = self._graph.transact(lambda tx: _crystallize(tx, agent, limits))
        counts = {(0, 0), *((row["trials"], row["successes"]) for row in rows)}
        asked = limits.model_dump(exclude={"z"}) | {"z_value": limits.z}
        more = rates_of(self._graph, counts, "rates.more", **asked)
        by_change: defaultdict[str, list[Candidate]] = defaultdict(list)
        for row in rows:
            candidate = Candidate(
                **row,
                action=row["action_type"],
                spec=json.loads(row["action_spec"]) if row["action_spec"] else None,
                missing=max(0.0, limits.threshold - row["lower"]),
                more=more[row["trials"], row["successes"]]["more"],
            )
            by_change[row["change"]].append(candidate)
        return CrystallizeReport(
            **{name: tuple(by_change[name]) for name in _EVENTS},
            kept=len(by_change["kept"]),
            below=tuple(by_change["below"][:BELOW_SHOWN]),
            below_count=len(by_change["below"]),
            **limits.model_dump(),
            needed=more[0, 0]["more"],
        )

    def _learn_page(self, stream: Row, tx: Transaction) -> Counter[str]:
        cursor = node_id(tx.ns, "Cursor", GROUP, stream["stream"])
        tx.run("events.open_cursor", id=cursor, group=GROUP, stream=stream["stream"])
        lock(tx, [stream["stream"]])
        heads = tx.run("events.streams", group=GROUP, agent=stream["agent"])
        head = next((row for row in heads if row["stream"] == stream["stream"]), None)
        if head is None:
            return Counter()
        first, last = head["position"], min(head["last"], head["position"] + PAGE)
        events = tx.run("events.read", ids=event_ids(stream["stream"], first + 1, last))
        place = {event["subject"]: event["seq"] for event in events if event["kind"] == "episode"}
        tx.run("events.move_cursor", id=cursor, position=last)
        rows = tx.run("learning.steps_of", ids=sorted(place)) if place else []
        steps = [row for row in rows if row["state"] is not None]
        changes: list[Change] = []
        for row in sorted(steps, key=lambda row: place[row["id"]]):
            following = None if row["terminal"] else row["next_state"]
            if row["reward"] is None or not (row["terminal"] or following is not None):
                continue
            step = Transition.model_construct(  # what is recorded was checked
                state=json.loads(row["state"]),
                action=row["action_type"],
                spec=None if row["action"] is None else json.loads(row["action"]),
                reward=row["reward"],
                next_state=None if following is None else json.loads(following),
                terminal=bool(row["terminal"]),
                agent=stream["agent"],
            )
            change = self._change(step)
            change.fact["episode"] = row["id"]
            changes.append(change)
        if changes:
            apply(tx, changes)
        return Counter(
            events=last - first,
            episodes=len({row["id"] for row in steps}),
            transitions=len(changes),
            incomplete=len(steps) - len(changes),
        )

    def _apply(self, *changes: Change, record: bool = True) -> list[tuple[int, Any]]:
        return self._graph.transact(lambda tx: apply(tx, changes, record=record))

    def _learn(self, changes: Sequence[Change], *, record: bool = True) -> list[TDUpdate]:
        answers = self._apply(*changes, record=record)
        return [
            TDUpdate(q, error, change.fact["subject"], seq)
            for change, (seq, (q, error)) in zip(changes, answers, strict=True)
        ]

    def _checked(self, index: int, given: object) -> Change:
        """Return the event of one of many steps; the field of an error begins with its position."""
        try:
            if isinstance(given, Transition):
                return self._change(given)
            if isinstance(given, Mapping) and all(isinstance(key, str) for key in given):
                return self._change(Transition(**given))
            raise ValidationError("item", given, "must be a Transition or a dict of its fields")
        except ValidationError as error:
            field = f"{index}.{error.field}"
            raise ValidationError(field, error.value, error.problem, error.remedy) from None

    def _change(self, step: Transition) -> Change:
        """Return the event of a step: a transition, or without a reward an outcome."""
        ns, settings = self._graph.ns, self._graph.settings
        key = PolicyKey.of(ns, step.agent, step.state, step.action, step.spec)
        fact: dict[str, Any] = {"subject": key.id, "success": step.success, "at": millis(step.at)}
        if step.reward is None:
            return Change(key.agent, "outcome", fact, key)
        following = step.next_state
        after = None if following is None else StateKey.of(ns, following, "next_state")
        fact |= {
            "next_id": after.id if after else None,
            "next_state": after.fingerprint if after else None,
            "reward": float(step.reward),
            "alpha": settings.alpha if step.alpha is None else step.alpha,
            "gamma": settings.gamma if step.gamma is None else step.gamma,
            "terminal": step.terminal,
            "next_max": step.next_max_q,
            "next_actions": step.next_actions,
        }
        return Change(key.agent, "transition", fact, key, after)


def _crystallize(tx: Transaction, agent: str | None, limits: Thresholds) -> list[Row]:
    """Write what changes; return all tried policies."""
    streams = [row["stream"] for row in tx.run("events.streams", agent=agent)]
    if not streams:
        return []
    locked = lock(tx, streams)
    asked = {"min_events": limits.min_events, "threshold": limits.threshold, "z_score": limits.z}
    rows = tx.run("policies.crystallizing", agent=agent, **asked)
    rows = [row for row in rows if row["stream"] in locked]  # others appeared meanwhile
    changes = [
        Change(row["agent"], _EVENTS[row["change"]], {"subject": row["id"], "value": row["lower"]})
        for row in rows
        if row["change"] in _EVENTS
    ]
    if changes:
        apply(tx, changes)
    return rows
