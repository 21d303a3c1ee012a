"""Policies: what to do in a state, learned by TD(0) from rewards and counted from outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from graphmem.config import Settings
from graphmem.errors import ValidationError
from graphmem.graph.arguments import check_flag, checked_items
from graphmem.graph.graph import Transaction
from graphmem.ids import to_millis
from graphmem.models.policies import Observation, State, TDUpdate, Transition
from graphmem.notebook.frames import Listed
from graphmem.policies.asking import Asking
from graphmem.policies.base import Action, numbered, placed, split, unit, value
from graphmem.policies.crystallizing import Crystallizing
from graphmem.policies.linking import Linking
from graphmem.policies.streams import Draft, PolicyKey, StateKey, apply, missing, open_nodes
from graphmem.policies.studying import Studying
from graphmem.store.port import ChangedError, Row

__all__ = ["Action", "Policies"]

MAX_BATCH = 100_000


class Policies(Asking, Linking, Studying, Crystallizing):
    """Learns, ranks and links the policies of one namespace: ``memory.policies``.

    A state is a dict of features or a fingerprint. An action is a type, with ``spec`` (any JSON) if
    the type alone does not identify it. Each agent has its own policies.
    """

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
        rest = {
            "spec": spec,
            "next_state": next_state,
            "next_max_q": next_max_q,
            "next_actions": _count(next_actions),
            "alpha": alpha,
            "gamma": gamma,
            "success": success,
            "at": at,
        }
        stated = {name: value for name, value in rest.items() if value is not None}
        given = Transition(
            state=state, action=action, reward=reward, terminal=terminal, agent=agent, **stated
        )
        if record is None:
            record = self._graph.settings.record_transitions
        check_flag("record", record)
        if given.success is not None:
            if not record:
                raise ValidationError(
                    "record", record, "does not go with success", "counts are made of records"
                )
            return self._apply_transitions([given])[0]
        key, after = self._keys(given)
        params = {
            "stream_id": key.stream,
            "policy_id": key.id,
            "reward": float(given.reward),
            "next_max_q": given.next_max_q,
            "alpha": self._graph.settings.alpha if given.alpha is None else given.alpha,
            "gamma": self._graph.settings.gamma if given.gamma is None else given.gamma,
            "at": None if given.at is None else to_millis(given.at),
        }
        if after or not record:
            params["next_state_id"] = after.id if after else None
            params["next_actions"] = given.next_actions
        if not record:
            query = "policies.td_apply"
        else:
            query = "policies.td_update" if after else "policies.td_finish"

        rows = self._graph.write(query, **params)
        if not rows:  # the policy or the next state is new

            def work(tx: Transaction) -> list[Row]:
                open_nodes(tx, [key], [after] if after else [])
                if not (updated := tx.run(query, **params)):
                    raise ChangedError("the policy was erased while this was written")
                return updated

            rows = self._graph.transact(work)
        row = rows[0]
        return TDUpdate(row["q_value"], row["td_error"], key.id, row["seq"])

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
        _check_batch(batch_size)
        answers: list[TDUpdate] = []
        items = checked_items("transitions", transitions)
        while batch := list(islice(items, batch_size)):
            given = [numbered(Transition, item, len(answers) + i) for i, item in enumerate(batch)]
            answers += self._apply_transitions(given, len(answers))
        return Listed(answers)

    def _apply_transitions(
        self, given: Sequence[Transition], first: int | None = None
    ) -> list[TDUpdate]:
        settings = self._graph.settings
        drafts: dict[str, Draft] = {}
        keys: list[PolicyKey] = []
        states: dict[str, StateKey] = {}
        places: list[tuple[str, int]] = []
        for index, item in enumerate(given):
            try:
                key, after = self._keys(item)
            except ValidationError as refused:
                raise placed(refused, first, index) from None
            keys.append(key)
            if after:
                states[after.id] = after
            draft = drafts.setdefault(item.agent, Draft(item.agent))
            places.append((item.agent, len(draft.events)))
            draft.events.append(("transition", _fact(item, key, after, settings)))
        wanted = {key.id: key for key in keys}

        def work(tx: Transaction) -> list[list[tuple[int, Any]]]:
            return apply(tx, drafts.values(), wanted, states)

        by_agent = dict(zip(drafts, self._graph.transact(work), strict=True))
        answers = []
        for key, (agent, place) in zip(keys, places, strict=True):
            seq, (q, error) = by_agent[agent][place]
            answers.append(TDUpdate(q, error, key.id, seq))
        return answers

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
        _check_batch(batch_size)
        items, done = checked_items("observations", observations), 0
        while batch := list(islice(items, batch_size)):
            given = [numbered(Observation, item, done + i) for i, item in enumerate(batch)]
            done += len(self._observe(given, done))
        return done

    def _observe(self, given: Sequence[Observation], first: int | None = None) -> list[str]:
        events = []
        for index, item in enumerate(given):
            try:
                key = self._key(item.agent, item.state, item.action, item.spec)
            except ValidationError as refused:
                raise placed(refused, first, index) from None
            at = None if item.at is None else to_millis(item.at)
            events.append((key, "outcome", {"success": item.success, "at": at}))
        self._change(events)
        return [key.id for key, _, _ in events]

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
        self.set_many([(state, (action, spec), q)], agent=agent)

    def set_many(
        self, values: Iterable[tuple[State, Action, float]], *, agent: str = "default"
    ) -> None:
        """Set the values of many actions, each (state, action, q), in one transaction."""
        events = []
        for index, item in enumerate(checked_items("values", values)):
            if not isinstance(item, tuple | list) or len(item) != 3:
                raise ValidationError(f"values.{index}", item, "must be (state, action, q)")
            state, action, q = item
            name, spec = split(action)
            events.append((self._key(agent, state, name, spec), "set", {"value": value("q", q)}))
        if events:
            self._change(events)

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

    def _keys(self, given: Transition) -> tuple[PolicyKey, StateKey | None]:
        place = StateKey.of(self._graph.ns, given.state)
        key = PolicyKey.of(self._graph.ns, given.agent, place, given.action, given.spec)
        if given.next_state is None:
            return key, None
        return key, StateKey.of(self._graph.ns, given.next_state, "next_state")


def _fact(
    given: Transition, key: PolicyKey, after: StateKey | None, settings: Settings
) -> dict[str, Any]:
    return {
        "subject": key.id,
        "next_id": after.id if after else None,
        "next_state": after.fingerprint if after else None,
        "reward": float(given.reward),
        "alpha": settings.alpha if given.alpha is None else given.alpha,
        "gamma": settings.gamma if given.gamma is None else given.gamma,
        "terminal": given.terminal,
        "next_max": given.next_max_q,
        "next_actions": given.next_actions,
        "success": given.success,
        "at": None if given.at is None else to_millis(given.at),
    }


def _count(actions: int | Sequence[Any] | None) -> int | None:
    return len(actions) if isinstance(actions, Sequence) else actions


def _check_batch(size: int) -> None:
    if type(size) is not int or not 1 <= size <= MAX_BATCH:
        raise ValidationError("batch_size", size, f"must be from 1 to {MAX_BATCH}")
