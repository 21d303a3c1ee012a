"""What the parts of ``memory.policies`` share: keys, checks of arguments, and writing changes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from graphmem.errors import ValidationError
from graphmem.graph.arguments import check_text
from graphmem.graph.graph import Graph
from graphmem.graph.reads import Reads
from graphmem.ids import from_millis
from graphmem.models.fields import MAX_VALUE, Input, Json, Name
from graphmem.models.policies import Policy, State
from graphmem.policies.streams import Change, PolicyKey, StateKey, apply, missing
from graphmem.store.port import Row

Action = str | tuple[str, Any]
"""An action type, or a pair of a type and a spec (JSON)."""


class Named(Input):
    """The names in the key of a policy."""

    action: Name = "-"
    spec: Json = None
    agent: Name = "default"


class PolicyBase:
    """The policies of one namespace."""

    def __init__(self, graph: Graph, reads: Reads) -> None:
        self._graph = graph
        self._reads = reads

    def _key(self, agent: str, state: State, action: Action, spec: Any = None) -> PolicyKey:
        """Return the key of a policy, after checking its parts."""
        if isinstance(action, tuple):
            if len(action) != 2:
                raise ValidationError(
                    "action", action, "must be a type, or a pair of type and spec"
                )
            action, spec = action
        named = Named(action=action, spec=spec, agent=agent)
        place = StateKey.of(self._graph.ns, state)
        return PolicyKey.of(self._graph.ns, named.agent, place, named.action, named.spec)

    def _policy(self, policy: Policy | str) -> Policy:
        """Return a policy that is given itself or by its id, or raise NotFoundError."""
        identity = policy.id if isinstance(policy, Policy) else policy
        check_text("policy", identity)
        rows = self._graph.read("policies.get", id=identity)
        if not rows:
            raise missing(identity, self._graph.ns)
        return policy_of(rows[0])

    def _change(self, changes: Sequence[Change], *keys: PolicyKey) -> None:
        """Write events about policies, and the changed policies, in one transaction."""
        by_id = {key.id: key for key in keys}
        self._graph.transact(lambda tx: apply(tx, changes, by_id))


def policy_of(row: Row) -> Policy:
    """Return the policy of a procedure's row."""
    shown = {"action": row["action_type"], "q": row["q_value"]}
    shown["features"] = json.loads(row["features"]) if row["features"] else None
    shown["spec"] = json.loads(row["action_spec"]) if row["action_spec"] else None
    return Policy(**{**row, **shown, "last_updated_at": from_millis(row["last_updated_at"])})


@contextmanager
def item(index: int | None) -> Iterator[None]:
    """Let the field of a ValidationError begin with the index of an item (None: no batch)."""
    try:
        yield
    except ValidationError as error:
        if index is None:
            raise
        field = f"{index}.{error.field}"
        raise ValidationError(field, error.value, error.problem, error.remedy) from None


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
