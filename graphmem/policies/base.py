"""What the parts of ``memory.policies`` share: keys, and rows as policies."""

from __future__ import annotations

import json
from typing import Any

from graphmem.errors import ValidationError
from graphmem.graph.arguments import check_text
from graphmem.graph.graph import Graph
from graphmem.graph.reads import Reads
from graphmem.ids import from_millis
from graphmem.models.fields import Input, Json, Moment, Name
from graphmem.models.policies import Policy, State
from graphmem.policies.streams import PolicyKey, StateKey, missing
from graphmem.store.port import Row

Action = str | tuple[str, Any]
"""An action type, or a pair of a type and a spec (JSON)."""


class Named(Input):
    """The names in the key of a policy, and a time."""

    action: Name = "-"
    spec: Json = None
    agent: Name = "default"
    at: Moment | None = None


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


def policy_of(row: Row) -> Policy:
    """Return the policy of a procedure's row."""
    shown = {"action": row["action_type"], "q": row["q_value"]}
    shown["features"] = json.loads(row["features"]) if row["features"] else None
    shown["spec"] = json.loads(row["action_spec"]) if row["action_spec"] else None
    return Policy(**{**row, **shown, "last_updated_at": from_millis(row["last_updated_at"])})
