"""How a policy came about, event by event, on both engines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory, Step
from graphmem.errors import NotFoundError, ValidationError
from graphmem.models import Point, Policy
from tests.conftest import Opener
from tests.contract.teaching import known

DEPLOY: dict[str, Any] = {"task": "deploy"}
VERIFY: dict[str, Any] = {"task": "verify"}
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def ends_as(point: Point, policy: Policy) -> None:
    """What the last event made of a policy is what is stored, to the last bit; bounds nearly."""
    for name in ("q", "updates", "trials", "successes", "confidence"):
        assert getattr(point, name) == getattr(policy, name), name
    for name in ("mean", "lower", "upper"):
        assert getattr(point, name) == pytest.approx(getattr(policy, name), abs=1e-12), name


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
    assert [p.q for p in points if p.kind != "outcome"] == [points[6].lower, 0.0]
    ends_as(points[-1], known(memory, identity))

    bob = policies.observe(DEPLOY, "run", True, agent="bob")
    both = policies.history([identity, bob])
    assert both == [*points, *policies.history(bob)]
    assert policies.history([]) == []
    with pytest.raises(NotFoundError, match="no policy 'nobody'"):
        policies.history("nobody")
    with pytest.raises(ValidationError, match="policies"):
        policies.history(7)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        opened(namespace="another").policies.history(identity)


@hypothesis.settings(max_examples=8)
@hypothesis.given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([DEPLOY, VERIFY]),
            st.sampled_from(["run", "check"]),
            st.floats(-10, 10),
            st.sampled_from([DEPLOY, VERIFY, None]),
            st.sampled_from([True, False, None]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_the_points_are_what_the_updates_answered(opened: Opener, steps: list[Any]) -> None:
    memory = opened(namespace=f"test-{uuid4().hex[:12]}")
    rows: list[dict[str, Any]] = []
    for state, action, reward, after, success in steps:
        rows.append({"state": state, "action": action, "reward": reward, "success": success})
        rows[-1] |= {"terminal": True} if after is None else {"next_state": after}
    half = len(rows) // 2
    answers = [memory.policies.update(**row) for row in rows[:half]]
    answers += memory.policies.update_many(rows[half:])
    ids = {answer.policy_id for answer in answers}
    found = memory.policies.history(ids)
    for identity in ids:
        points = [point for point in found if point.policy == identity]
        own = [answer for answer in answers if answer.policy_id == identity]
        assert [(p.seq, p.q) for p in points] == [(a.seq, a.q) for a in own]
        assert [p.td_error for p in points] == pytest.approx([a.td_error for a in own], abs=1e-12)
        ends_as(points[-1], known(memory, identity))


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


def test_a_stream_of_several_pages(memory: Memory) -> None:
    rows: list[dict[str, Any]] = [
        {"state": DEPLOY, "action": "run", "reward": float(place % 7), "next_state": VERIFY}
        if place % 2
        else {"state": VERIFY, "action": "check", "reward": float(place % 5), "terminal": True}
        for place in range(2_100)
    ]
    answers = memory.policies.update_many(rows)
    points = memory.policies.history(answers[1].policy_id)
    assert [(p.seq, p.q) for p in points] == [(a.seq, a.q) for a in answers[1::2]]
