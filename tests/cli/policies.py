"""A memory with policies, for tests of policies and of events."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from graphmem import Memory

DEPLOY = {"task": "deploy", "replicas": 3}
MAY = datetime(2026, 5, 1, tzinfo=UTC)


def teach(url: str) -> None:
    """Learn two actions with values, one that was only observed, and one of another agent."""
    with Memory.open(url) as memory:
        policies = memory.policies
        for place in range(10):
            policies.update(
                DEPLOY, "run", 1.0, next_state={"task": "check"}, success=place != 3, at=MAY
            )
        policies.update(DEPLOY, "wait", -1.0, spec={"for": 60}, terminal=True, at=MAY)
        policies.signal(DEPLOY, "run", 0.75)
        policies.observe(DEPLOY, "page $x$ 写", False)
        time.sleep(0.002)  # events of one millisecond come in the order of their agents
        policies.update(DEPLOY, "run", 5.0, terminal=True, agent="ada")
