"""Learning: values by TD(0) from rewards, counts of trials from outcomes, and signals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, TypeVar

from pydantic import Field

from graphmem.errors import ValidationError
from graphmem.graph.arguments import check_flag, check_function, checked_agent, checked_items
from graphmem.graph.graph import Transaction
from graphmem.ids import node_id, to_millis
from graphmem.models.fields import Input, Unit, millis
from graphmem.models.policies import EpisodesLearned, Observation, State, TDUpdate, Transition
from graphmem.notebook.frames import Listed
from graphmem.policies.base import PolicyBase, item, unit, value
from graphmem.policies.rebuilding import event_ids
from graphmem.policies.streams import Change, PolicyKey, StateKey, apply, lock, missing, open_nodes
from graphmem.store.port import ChangedError, Row

MAX_BATCH = 100_000
GROUP = "graphmem: learn episodes"
"""The group whose cursor in a stream marks the last learned episode."""
PAGE = 100
"""Events of which the episodes are learned in one transaction."""

I = TypeVar("I", bound=Input)  # noqa: E741


class Rates(Input):
    """The parameters of TD(0)."""

    alpha: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
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
        if step.success is not None or not record:
            return self._learn([step], record=record)[0]
        key, after, fact = self._transition(step)
        params = {name: fact[name] for name in ("reward", "alpha", "gamma", "at")}
        params |= {"stream_id": key.stream, "policy_id": key.id, "next_max_q": fact["next_max"]}
        query = "policies.td_finish"
        if after:
            query = "policies.td_update"
            params |= {"next_state_id": after.id, "next_actions": fact["next_actions"]}
        rows = self._graph.write(query, **params)
        if not rows:  # the policy or the next state is new

            def work(tx: Transaction) -> list[Row]:
                open_nodes(tx, [key], [after] if after else [])
                if not (updated := tx.run(query, **params)):
                    raise ChangedError("the policy was erased while this was written")
                return updated

            rows = self._graph.transact(work)
        return TDUpdate(rows[0]["q_value"], rows[0]["td_error"], key.id, rows[0]["seq"])

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
            answers += self._learn(batch, len(answers))
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
        given = Observation(
            state=state, action=action, success=success, spec=spec, agent=agent, at=at
        )
        return self._observe([given])[0]

    def observe_many(
        self, observations: Iterable[Observation | Mapping[str, Any]], *, batch_size: int = 2_000
    ) -> int:
        """Record many outcomes, ``batch_size`` in a transaction; return their number.

        Raises:
            ValidationError: one is wrong; its batch is not written, earlier batches stay.
        """
        done = 0
        for batch in _batches("observations", observations, batch_size):
            done += len(self._observe(batch, done))
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
        fact = {"subject": key.id, "value": value("q", q)}
        self._change([Change(key.agent, "set", fact)], key)

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
        moved_by = unit("signal", signal)
        key = self._key(agent, state, action, spec)
        rows = self._graph.write(
            "policies.signal", stream_id=key.stream, policy_id=key.id, signal=moved_by
        )
        if not rows:
            raise missing(key.id, self._graph.ns)
        return float(rows[0]["confidence"])

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
        total, events = EpisodesLearned(episodes=0, transitions=0, incomplete=0), 0
        for stream in self._graph.read("events.cursors", group=GROUP, agent=name):
            done = PAGE if stream["level"] is None else 0
            while done == PAGE:
                done, learned = self._graph.transact(
                    lambda tx, stream=stream: self._learn_page(tx, stream, rates)  # type: ignore[misc]
                )
                events += done
                total = EpisodesLearned(
                    **{key: n + getattr(learned, key) for key, n in total.model_dump().items()}
                )
                if on_progress:
                    on_progress(events)
        return total

    def _learn_page(
        self, tx: Transaction, stream: Row, rates: Rates
    ) -> tuple[int, EpisodesLearned]:
        """Learn the episodes among the next events of a stream; return the number of events."""
        cursor = node_id(tx.ns, "Cursor", GROUP, stream["stream"])
        tx.run("events.open_cursor", id=cursor, group=GROUP, stream=stream["stream"])
        lock(tx, [stream["stream"]])
        rows = tx.run("events.cursors", group=GROUP, agent=stream["agent"])
        head = next((row for row in rows if row["stream"] == stream["stream"]), None)
        first = last = 0
        ids: list[str] = []
        if head is not None:
            first, last = head["position"], min(head["last"], head["position"] + PAGE)
            events = tx.run("events.read", ids=event_ids(stream["stream"], first + 1, last))
            events.sort(key=lambda event: int(event["seq"]))
            ids = [event["subject"] for event in events if event["kind"] == "episode"]
            tx.run("events.move_cursor", id=cursor, position=last)
        steps: dict[str, list[Row]] = {}
        for row in tx.run("learning.steps_of", ids=ids) if ids else ():
            if row["state"] is not None:
                steps.setdefault(row["id"], []).append(row)
        in_order = [step for episode in ids for step in steps.get(episode, ())]
        changes: list[Change] = []
        keys: dict[str, PolicyKey] = {}
        states: dict[str, StateKey] = {}
        for row in in_order:
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
            key, after, fact = self._transition(step)
            keys[key.id] = key
            if after:
                states[after.id] = after
            changes.append(Change(key.agent, "transition", {**fact, "episode": row["id"]}))
        if changes:
            open_nodes(tx, keys.values(), states.values())
            apply(tx, changes, keys, states)
        learned = EpisodesLearned(
            episodes=len(steps),
            transitions=len(changes),
            incomplete=len(in_order) - len(changes),
        )
        return last - first, learned

    def _learn(
        self,
        steps: Sequence[Transition | Mapping[str, Any]],
        first: int | None = None,
        *,
        record: bool = True,
    ) -> list[TDUpdate]:
        """Learn steps in one transaction; ``first`` is the index of the first one in its batch."""
        changes: list[Change] = []
        keys: dict[str, PolicyKey] = {}
        states: dict[str, StateKey] = {}
        for index, given in enumerate(steps):
            with item(None if first is None else first + index):
                key, after, fact = self._transition(_model(Transition, given))
            keys[key.id] = key
            if after:
                states[after.id] = after
            changes.append(Change(key.agent, "transition", fact))
        answers = self._graph.transact(lambda tx: apply(tx, changes, keys, states, record=record))
        return [
            TDUpdate(q, error, change.fact["subject"], seq)
            for change, (seq, (q, error)) in zip(changes, answers, strict=True)
        ]

    def _transition(self, step: Transition) -> tuple[PolicyKey, StateKey | None, dict[str, Any]]:
        """Return the policy and the next state of a step, and its fact."""
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
            "at": None if step.at is None else to_millis(step.at),
        }
        return key, after, fact

    def _observe(
        self, given: Sequence[Observation | Mapping[str, Any]], first: int | None = None
    ) -> list[str]:
        changes, keys = [], []
        for index, outcome in enumerate(given):
            with item(None if first is None else first + index):
                seen = _model(Observation, outcome)
                key = self._key(seen.agent, seen.state, seen.action, seen.spec)
            fact = {"subject": key.id, "success": seen.success, "at": millis(seen.at)}
            changes.append(Change(key.agent, "outcome", fact))
            keys.append(key)
        self._change(changes, *keys)
        return [key.id for key in keys]


def _batches(
    name: str, items: Iterable[I | Mapping[str, Any]], size: int
) -> Iterator[list[I | Mapping[str, Any]]]:
    if type(size) is not int or not 1 <= size <= MAX_BATCH:
        raise ValidationError("batch_size", size, f"must be from 1 to {MAX_BATCH}")
    rest = checked_items(name, items)
    while batch := list(islice(rest, size)):
        yield batch


def _model(model: type[I], given: I | Mapping[str, Any]) -> I:
    """Return an item of a batch as a model, or raise ValidationError."""
    if isinstance(given, model):
        return given
    if not isinstance(given, Mapping):
        raise ValidationError("item", given, f"must be a {model.__name__} or a dict")
    for name in given:
        if not isinstance(name, str):
            raise ValidationError("field", name, "is not the name of a field", "give a text")
    return model(**given)
