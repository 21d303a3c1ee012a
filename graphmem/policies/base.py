"""Shared parts of ``memory.policies``: keys, checks, and writing changes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from graphmem.errors import ValidationError
from graphmem.graph.graph import Graph, Transaction
from graphmem.graph.reads import Reads
from graphmem.ids import from_millis
from graphmem.models.fields import MAX_VALUE, Input, Json, Name
from graphmem.models.policies import Policy, State
from graphmem.policies.streams import Draft, PolicyKey, StateKey, apply, missing
from graphmem.store.port import Row

Action = str | tuple[str, Any]
"""An action type, or a pair of a type and a spec (JSON)."""
Change = tuple[PolicyKey, str, dict[str, Any]]
"""A policy, the kind of event about it, and the data of the event."""
I = TypeVar("I", bound=Input)  # noqa: E741


class _Named(Input):
    action: Name = "-"
    spec: Json = None
    agent: Name = "default"


class PolicyBase:
    """The policies of one namespace."""

    def __init__(self, graph: Graph, reads: Reads) -> None:
        self._graph = graph
        self._reads = reads

    def _key(self, agent: str, state: State, action: str, spec: Any) -> PolicyKey:
        """Return the key of a policy, after checking its parts."""
        named = _Named(action=action, spec=spec, agent=agent)
        place = StateKey.of(self._graph.ns, state)
        return PolicyKey.of(self._graph.ns, named.agent, place, named.action, named.spec)

    @staticmethod
    def _agent(agent: str) -> str:
        return _Named(agent=agent).agent

    def _get(self, policy_id: str) -> Policy:
        rows = self._graph.read("policies.get", id=policy_id)
        if not rows:
            raise missing(policy_id, self._graph.ns)
        return policy_of(rows[0])

    def _change(self, changes: Sequence[Change]) -> None:
        """Write events about policies, and the changed policies, in one transaction."""
        drafts: dict[str, Draft] = {}
        for key, kind, fact in changes:
            draft = drafts.setdefault(key.agent, Draft(key.agent))
            draft.events.append((kind, {"subject": key.id, **fact}))
        keys = {key.id: key for key, _, _ in changes}

        def work(tx: Transaction) -> None:
            apply(tx, drafts.values(), keys)

        self._graph.transact(work)


def policy_of(row: Row) -> Policy:
    """Return the policy of a procedure's row."""
    return Policy(
        id=row["id"],
        agent=row["agent"],
        state=row["state"],
        features=json.loads(row["features"]) if row["features"] else None,
        action=row["action_type"],
        spec=json.loads(row["action_spec"]) if row["action_spec"] else None,
        q=row["q_value"],
        score=row["score"],
        updates=row["updates"],
        trials=row["trials"],
        successes=row["successes"],
        mean=row["mean"],
        lower=row["lower"],
        upper=row["upper"],
        status=row["status"],
        confidence=row["confidence"],
        signals=row["signals"],
        crystallized=row["crystallized"],
        last_updated_at=from_millis(row["last_updated_at"]),
    )


def split(action: Action) -> tuple[str, Any]:
    """Return the type and the spec of an action."""
    if isinstance(action, tuple):
        if len(action) != 2:
            raise ValidationError("action", action, "must be a type, or a pair of type and spec")
        return action[0], action[1]
    return action, None


def numbered(model: type[I], item: I | Mapping[str, Any], index: int) -> I:
    """Return an item of a batch as a model; an error names its index."""
    if isinstance(item, model):
        return item
    if not isinstance(item, Mapping):
        raise ValidationError(str(index), item, f"must be a {model.__name__} or a dict")
    for name in item:
        if not isinstance(name, str):
            raise ValidationError(
                f"{index}.field", name, "is not the name of a field", "give a text"
            )
    try:
        return model(**item)
    except ValidationError as error:
        raise placed(error, index, 0) from None


def placed(error: ValidationError, first: int | None, index: int) -> ValidationError:
    """Return the error with the item's index in the batch (no ``first``: not a batch)."""
    if first is None:
        return error
    field = f"{first + index}.{error.field}"
    return ValidationError(field, error.value, error.problem, error.remedy)


def finite(name: str, value: float) -> float:
    """Return a finite number as a float, or raise ValidationError."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not abs(value) <= sys.float_info.max:  # an integer can be larger
        raise ValidationError(name, value, "must be a finite number")
    return float(value)


def value(name: str, given: float) -> float:
    """Return a value of an action, or raise ValidationError."""
    if not abs(finite(name, given)) <= MAX_VALUE:
        raise ValidationError(name, given, f"must be from -{MAX_VALUE:g} to {MAX_VALUE:g}")
    return float(given)


def unit(name: str, value: float) -> float:
    """Return a number in [0, 1], or raise ValidationError."""
    if not 0.0 <= finite(name, value) <= 1.0:
        raise ValidationError(name, value, "must be in [0, 1]")
    return float(value)


def positive(name: str, value: float) -> float:
    """Return a number of at least 0, or raise ValidationError."""
    if finite(name, value) < 0.0:
        raise ValidationError(name, value, "must not be negative")
    return float(value)
