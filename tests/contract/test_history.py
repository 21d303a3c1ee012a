"""How a policy came about, event by event, on both engines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from graphmem import Memory, Step
from graphmem.errors import NotFoundError, ValidationError
from graphmem.models.policies import Point, Policy
from tests.conftest import Opener
from tests.contract.teaching import known, wilson

DEPLOY: dict[str, Any] = {"task": "deploy"}
VERIFY: dict[str, Any] = {"task": "verify"}
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def ends_as(point: Point, policy: Policy) -> None:
    """What the last event made of a policy is what is stored, to the last bit."""
    for name in ("q", "updates", "trials", "successes", "confidence"):
        assert getattr(point, name) == getattr(policy, name), name


def test_every_event_is_a_point(memory: Memory) -> None:
    policies = memory.policies
    policies.set_q(DEPLOY, "run", 0.5)
    first = policies.update(DEPLOY, "run", 1.0, terminal=True, success=True, alpha=0.5, at=NOON)
    policies.observe(DEPLOY, "run", False)
    policies.signal(DEPLOY, "run", 1.0)
    second = policies.update(DEPLOY, "run", -1.0, next_max_q=2.0, alpha=0.25, gamma=0.5)

    points = policies.history(first.policy_id)
    assert [point.kind for point in points] == ["set", "transition", "outcome", "signal", "transition"]  # noqa: E501  # fmt: skip
    assert [point.seq for point in points] == [1, 2, 3, 4, 5]
    assert (points[1].seq, points[4].seq) == (first.seq, second.seq)
    assert [point.q for point in points] == [0.5, 0.75, 0.75, 0.75, 0.5625]
    assert [point.td_error for point in points] == [None, 0.5, None, None, -0.75]
    assert [point.updates for point in points] == [0, 1, 1, 1, 2]
    assert [(point.successes, point.trials) for point in points] == [
        (0, 0), (1, 1), (1, 2), (1, 2), (1, 2)]  # fmt: skip
    assert [point.confidence for point in points] == [0.5, 0.5, 0.5, 0.75, 0.75]
    assert points[1].at == NOON
    assert abs((points[0].at - datetime.now(UTC)).total_seconds()) < 60
    ends_as(points[-1], known(memory, DEPLOY, "run"))

    # Edges are no events of the policies at their ends, and what was not recorded is missing.
    check = policies.observe(VERIFY, "check", True)
    policies.link(first.policy_id, check)
    policies.unlink(check, first.policy_id)
    policies.update(VERIFY, "check", 1.0, terminal=True, record=False)
    assert [(p.kind, p.updates) for p in policies.history(check)] == [("outcome", 0)]


def test_crystallizing_and_taking_back_are_points(memory: Memory, opened: Opener) -> None:
    policies = memory.policies
    for success in (True, False):
        for _ in range(6):
            identity = policies.observe(DEPLOY, "run", success)
            ends_as(policies.history(identity)[-1], known(memory, identity))
        policies.crystallize()
    points = policies.history(identity)
    assert [p.kind for p in points if p.kind != "outcome"] == ["crystallized", "taken_back"]
    assert [p.q for p in points if p.kind != "outcome"] == [pytest.approx(wilson(6, 6)[0]), 0.0]
    ends_as(points[-1], known(memory, identity))

    with pytest.raises(NotFoundError, match="no policy 'nobody'"):
        policies.history("nobody")
    with pytest.raises(ValidationError, match="policy"):
        policies.history(7)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        opened(namespace="another").policies.history(identity)


def test_an_episode_is_an_event_of_the_policies_that_it_took(memory: Memory) -> None:
    steps = [Step(action_type="run", state=DEPLOY), Step(action_type="check", state=VERIFY)]
    learned = memory.learn("t", "s", success=True, steps=[*steps, *steps], ended_at=NOON)
    memory.learn("t", "s", success=False, steps=steps[:1], source_key="second")
    run, check = known(memory, DEPLOY, "run"), known(memory, VERIFY, "check")
    points = memory.policies.history(run)
    assert [(p.kind, p.successes, p.trials) for p in points] == [("episode", 1, 1), ("episode", 1, 2)]  # noqa: E501  # fmt: skip
    assert points[0].at == NOON
    ends_as(points[-1], run)
    assert len(memory.policies.history(check)) == 1

    memory.upkeep.erase(learned.episode_id)
    assert [(p.successes, p.trials) for p in memory.policies.history(run)] == [(0, 1)]
    with pytest.raises(NotFoundError):
        memory.policies.history(check)
