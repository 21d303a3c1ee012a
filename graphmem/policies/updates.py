"""Learning: values by TD(0) from rewards, counts of trials from outcomes, and signals."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from graphmem.errors import ValidationError
from graphmem.graph.arguments import (
    check_flag,
    check_function,
    checked_agent,
    checked_items,
    checked_number,
)
from graphmem.graph.graph import Transaction
from graphmem.ids import node_id, stream_id
from graphmem.models.fields import MAX_VALUE, Chance, Input, Unit, millis
from graphmem.models.policies import EpisodesLearned, Observation, State, TDUpdate, Transition
from graphmem.notebook.frames import Listed
from graphmem.policies.base import PolicyBase
from graphmem.policies.rebuilding import event_ids
from graphmem.policies.streams import Change, PolicyKey, StateKey, apply, lock, open_nodes_of
from graphmem.store.port import ChangedError, Row

MAX_BATCH = 100_000
GROUP = "graphmem: learn episodes"
"""The group whose cursor in a stream marks the last learned episode."""
PAGE = 100
"""Events of which the episodes are learned in one transaction."""

I = TypeVar("I", bound=Input)  # noqa: E741


class Rates(Input):
    """The parameters of TD(0)."""

    alpha: Chance
    gamma: Unit


class Updates(PolicyBase):
    """Learns from steps, outcomes, signals and recorded episodes."""

    def update(
        self,
        state: State,
        action: str,
        reward: float,
        *,
        spec: Any = None,
        next_state: State | None = None,
        next_max_q: float | None = None,
        terminal: bool = False,
        next_actions: int | Sequence[Any] | None = None,
        alpha: float | None = None,
        gamma: float | None = None,
        success: bool | None = None,
        agent: str = "default",
        at: datetime | None = None,
        record: bool | None = None,
    ) -> TDUpdate:
        """Learn one step by TD(0), durably: q <- q + alpha (reward + gamma max q' - q).

        The graph computes the maximum over the next state's policies in the same statement. The
        step is stored as a Transition, so that ``rebuild`` gives the same value.

        Args:
            state: features or fingerprint.
            action: the type of action, for instance "run_playbook".
            reward: a number from -1e100 to 1e100.
            spec: further identification of the action, as JSON.
            next_state: features or fingerprint of the next state.
            next_max_q: the value of the best action in the next state; default: the best in the
                graph.
            terminal: there is no next state; the step bootstraps from 0.
            next_actions: the number of actions of the next state (or a list of them). Untried
                actions then count with a value of 0; by default only tried ones count.
            alpha: learning rate in (0, 1]; default: the setting (0.1).
            gamma: discount in [0, 1]; default: the setting (0.95).
            success: counts the step also as a successful or failed trial.
            agent: who learns.
            at: when it happened, with time zone; default: unknown, and the value decays from the
                time of recording.
            record: False stores no Transition; default: the setting ``record_transitions``.

        Raises:
            ValidationError: a field is wrong, or what came next is missing.
            StoreError: the engine failed; nothing was written.
        """
        if isinstance(next_actions, Sequence):
            next_actions = len(next_actions)
        step = Transition(
            state=state,
            action=action,
            reward=reward,
            spec=spec,
            next_state=next_state,
            next_max_q=next_max_q,
            terminal=terminal,
            next_actions=next_actions,
            alpha=alpha,
            gamma=gamma,
            success=success,
            agent=agent,
            at=at,
        )
        if record is None:
            record = self._graph.settings.record_transitions
        check_flag("record", record)
        if step.success is not None and not record:
            raise ValidationError(
                "record", record, "does not go with success", "counts are made of records"
            )
        change = self._transition(step)
        if step.success is not None or not record:
            return self._learn([change], record=record)[0]
        fact, identity = change.fact, change.fact["subject"]
        params = {name: fact[name] for name in ("reward", "alpha", "gamma", "at")}
        params |= {"policy_id": identity, "next_max_q": fact["next_max"]}
        params["stream_id"] = stream_id(self._graph.ns, change.agent)
        query = "policies.td_finish"
        if change.after:
            query = "policies.td_update"
            params |= {"next_state_id": change.after.id, "next_actions": fact["next_actions"]}

        def work(tx: Transaction) -> list[Row]:
            open_nodes_of(tx, [change])
            if not (updated := tx.run(query, **params)):
                raise ChangedError("the policy was erased while this was written")
            return updated

        # No row: the policy or the next state is new.
        [row] = self._graph.write(query, **params) or self._graph.transact(work)
        return TDUpdate(row["q_value"], row["td_error"], identity, row["seq"])

    def update_many(
        self,
        transitions: Iterable[Transition | Mapping[str, Any]],
        *,
        batch_size: int = 1_000,
    ) -> Listed[TDUpdate]:
        """Learn many steps in order, ``batch_size`` in a transaction.

        The values are identical to those of single updates.

        Args:
            transitions: each a Transition or a dict of its fields; read lazily.
            batch_size: from 1 to 100000.

        Raises:
            ValidationError: one is wrong (the error begins with its position); its batch is not
                written, earlier batches stay.
        """
        answers: list[TDUpdate] = []
        for batch in _batches("transitions", transitions, batch_size):
            answers += self._learn(_made(Transition, self._transition, batch, len(answers)))
        return Listed(answers)

    def observe(
        self,
        state: State,
        action: str,
        success: bool,
        *,
        spec: Any = None,
        agent: str = "default",
        at: datetime | None = None,
    ) -> str:
        """Record whether an action worked in a state; return the policy's id.

        This is evidence for ``crystallize``; the value does not change.

        Raises:
            ValidationError: a field is wrong.
        """
        change = self._outcome(
            Observation(state=state, action=action, success=success, spec=spec, agent=agent, at=at)
        )
        self._graph.transact(lambda tx: apply(tx, [change]))
        return str(change.fact["subject"])

    def observe_many(
        self, observations: Iterable[Observation | Mapping[str, Any]], *, batch_size: int = 2_000
    ) -> int:
        """Record many outcomes, ``batch_size`` in a transaction; return their number.

        Raises:
            ValidationError: one is wrong; its batch is not written, earlier batches stay.
        """
        done = 0
        for batch in _batches("observations", observations, batch_size):
            changes = _made(Observation, self._outcome, batch, done)
            done += len(self._graph.transact(lambda tx, changes=changes: apply(tx, changes)))  # type: ignore[misc]
        return done

    def set_q(
        self,
        state: State,
        action: str,
        q: float,
        *,
        spec: Any = None,
        agent: str = "default",
    ) -> None:
        """Set the value of an action, for instance before its first trial.

        Raises:
            ValidationError: a field is wrong.
        """
        key = self._key(agent, state, action, spec)
        fact = {"subject": key.id, "value": checked_number("q", q, -MAX_VALUE, MAX_VALUE)}
        change = Change(key.agent, "set", fact, key)
        self._graph.transact(lambda tx: apply(tx, [change]))

    def signal(
        self,
        state: State,
        action: str,
        signal: float,
        *,
        spec: Any = None,
        agent: str = "default",
    ) -> float:
        """Move the confidence in a policy toward a signal in [0, 1]; return the confidence.

        Raises:
            ValidationError: the signal is outside [0, 1].
            NotFoundError: there is no such policy.
        """
        fact = {"value": checked_number("signal", signal, 0, 1)}
        known = self._policy(self._key(agent, state, action, spec).id)
        change = Change(known.agent, "signal", {"subject": known.id, **fact})

        def work(tx: Transaction) -> float:
            apply(tx, [change])
            [row] = tx.run("policies.get", id=known.id)
            return float(row["confidence"])

        return self._graph.transact(work)

    def learn_episodes(
        self,
        agent: str | None = None,
        *,
        alpha: float | None = None,
        gamma: float | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> EpisodesLearned:
        """Apply TD(0) to the steps of recorded episodes, in order of recording.

        A step counts if it has a state, a reward, and a next state or ``terminal``. Each episode is
        applied once, also with repeated or concurrent calls; erasing an episode removes its
        transitions. The time of a call depends on the number of new events.

        Args:
            agent: only this agent's episodes; default: all agents, each separately.
            alpha: learning rate in (0, 1]; default: the setting (0.1).
            gamma: discount in [0, 1]; default: the setting (0.95).
            on_progress: called after each transaction with the number of events read so far.

        Raises:
            ValidationError: alpha or gamma is out of range.
        """
        rates = Rates(
            alpha=self._graph.settings.alpha if alpha is None else alpha,
            gamma=self._graph.settings.gamma if gamma is None else gamma,
        )
        name = checked_agent(agent)
        check_function("on_progress", on_progress)
        total: Counter[str] = Counter()
        for stream in self._graph.read("events.streams", group=GROUP, agent=name):
            done = PAGE if stream["level"] is None else 0
            while done == PAGE:
                learned = self._graph.transact(
                    lambda tx, stream=stream: self._learn_page(tx, stream, rates)  # type: ignore[misc]
                )
                done = learned["events"]
                total.update(learned)
                if on_progress:
                    on_progress(total["events"])
        names = EpisodesLearned.model_fields
        return EpisodesLearned(**{name: total[name] for name in names})

    def _learn_page(self, tx: Transaction, stream: Row, rates: Rates) -> Mapping[str, int]:
        """Learn the episodes among the next events of a stream; return counts."""
        cursor = node_id(tx.ns, "Cursor", GROUP, stream["stream"])
        tx.run("events.open_cursor", id=cursor, group=GROUP, stream=stream["stream"])
        lock(tx, [stream["stream"]])
        heads = tx.run("events.streams", group=GROUP, agent=stream["agent"])
        first = last = 0
        place: dict[str, int] = {}
        for head in heads:
            if head["stream"] == stream["stream"]:
                first, last = head["position"], min(head["last"], head["position"] + PAGE)
                events = tx.run("events.read", ids=event_ids(stream["stream"], first + 1, last))
                place = {e["subject"]: e["seq"] for e in events if e["kind"] == "episode"}
                tx.run("events.move_cursor", id=cursor, position=last)
        rows = tx.run("learning.steps_of", ids=sorted(place)) if place else []
        steps = [row for row in rows if row["state"] is not None]
        changes: list[Change] = []
        for row in sorted(steps, key=lambda row: place[row["id"]]):
            ends = bool(row["terminal"])
            if row["reward"] is None or not (ends or row["next_state"] is not None):
                continue
            step = Transition.model_construct(  # what is recorded was checked
                state=json.loads(row["state"]),
                action=row["action_type"],
                spec=None if row["action"] is None else json.loads(row["action"]),
                reward=row["reward"],
                next_state=None if ends else json.loads(row["next_state"]),
                terminal=ends,
                agent=stream["agent"],
                alpha=rates.alpha,
                gamma=rates.gamma,
            )
            change = self._transition(step)
            change.fact["episode"] = row["id"]
            changes.append(change)
        if changes:
            apply(tx, changes)
        return {
            "events": last - first,
            "episodes": len({row["id"] for row in steps}),
            "transitions": len(changes),
            "incomplete": len(steps) - len(changes),
        }

    def _learn(self, changes: Sequence[Change], *, record: bool = True) -> list[TDUpdate]:
        """Learn transitions in one transaction."""
        answers = self._graph.transact(lambda tx: apply(tx, changes, record=record))
        return [
            TDUpdate(q, error, change.fact["subject"], seq)
            for change, (seq, (q, error)) in zip(changes, answers, strict=True)
        ]

    def _transition(self, step: Transition) -> Change:
        """Return the event of a step."""
        ns, settings = self._graph.ns, self._graph.settings
        place, after = StateKey.of(ns, step.state), None
        if step.next_state is not None:
            after = StateKey.of(ns, step.next_state, "next_state")
        key = PolicyKey.of(ns, step.agent, place, step.action, step.spec)
        fact = {
            "subject": key.id,
            "next_id": after.id if after else None,
            "next_state": after.fingerprint if after else None,
            "reward": float(step.reward),
            "alpha": settings.alpha if step.alpha is None else step.alpha,
            "gamma": settings.gamma if step.gamma is None else step.gamma,
            "terminal": step.terminal,
            "next_max": step.next_max_q,
            "next_actions": step.next_actions,
            "success": step.success,
            "at": millis(step.at),
        }
        return Change(key.agent, "transition", fact, key, after)

    def _outcome(self, seen: Observation) -> Change:
        """Return the event of an outcome."""
        place = StateKey.of(self._graph.ns, seen.state)
        key = PolicyKey.of(self._graph.ns, seen.agent, place, seen.action, seen.spec)
        fact = {"subject": key.id, "success": seen.success, "at": millis(seen.at)}
        return Change(key.agent, "outcome", fact, key)


def _batches(
    name: str, items: Iterable[I | Mapping[str, Any]], size: int
) -> Iterator[list[I | Mapping[str, Any]]]:
    if type(size) is not int or not 1 <= size <= MAX_BATCH:
        raise ValidationError("batch_size", size, f"must be from 1 to {MAX_BATCH}")
    rest = checked_items(name, items)
    while batch := list(islice(rest, size)):
        yield batch


def _made(
    model: type[I],
    change: Callable[[I], Change],
    items: Sequence[I | Mapping[str, Any]],
    first: int,
) -> list[Change]:
    """Return the events of a batch; the field of an error begins with the position of its item."""
    changes = []
    for index, given in enumerate(items, first):
        try:
            if not isinstance(given, model | Mapping):
                raise ValidationError("item", given, f"must be a {model.__name__} or a dict")
            if isinstance(given, Mapping):
                for name in given:
                    if not isinstance(name, str):
                        raise ValidationError("field", name, "is no name of a field", "give a text")
                given = model(**given)  # noqa: PLW2901
            changes.append(change(given))
        except ValidationError as error:
            field = f"{index}.{error.field}"
            raise ValidationError(field, error.value, error.problem, error.remedy) from None
    return changes
