"""Every change is an event, reads are none; one can look at events without consuming them.

A policy tells by its events how it came about.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from graphmem import Memory, Step
from graphmem.errors import NotFoundError, ValidationError
from graphmem.models.policies import Event, Point, Policy
from tests.conftest import Clock, Opener
from tests.contract.teaching import dump, known, observe, wilson

DEPLOY: dict[str, Any] = {"task": "deploy"}
VERIFY: dict[str, Any] = {"task": "verify"}
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def written(memory: Memory) -> list[Event]:
    """All events, each agent's in the order of their numbers."""
    return sorted(memory.events.tail(1_000), key=lambda event: (event.agent, event.seq))


def numbers(events: list[Event]) -> list[int]:
    return [event.seq for event in events]


# Every change is an event


def test_a_new_episode_is_an_event_and_a_known_one_is_none(memory: Memory) -> None:
    before = datetime.now(UTC)
    first = memory.learn("a task", "a strategy", success=True, agent="anna", source_key="1")
    memory.learn("a task", "a strategy", success=True, agent="anna", source_key="1")
    [event] = written(memory)
    assert (event.agent, event.seq, event.kind, event.subject) == ("anna", 1, "episode", first.episode_id)  # noqa: E501  # fmt: skip
    assert (event.other, event.value, event.success, event.at, event.facts) == (None, None, None, None, {})  # noqa: E501  # fmt: skip
    assert abs((event.recorded_at - before).total_seconds()) < 60


def test_an_update_is_a_transition_with_its_facts(memory: Memory) -> None:
    done = memory.policies.update(
        DEPLOY, "run", 2.0, next_state=VERIFY, alpha=0.5, gamma=0.25, next_actions=3, at=NOON
    )
    last = memory.policies.update(VERIFY, "check", -1.0, terminal=True, success=False)
    first, second = written(memory)
    assert (first.kind, first.subject, first.seq, first.at) == (
        "transition",
        done.policy_id,
        done.seq,
        NOON,
    )
    place = known(memory, VERIFY, "check").state
    assert first.facts == {
        "next_state": place, "reward": 2.0, "alpha": 0.5, "gamma": 0.25, "terminal": False,
        "next_max": None, "next_actions": 3}  # fmt: skip
    assert (second.kind, second.subject, second.seq) == ("transition", last.policy_id, 2)
    assert (second.facts["terminal"], second.facts["next_state"]) == (True, None)
    assert (first.success, second.success) == (None, False)


def test_what_is_said_of_a_policy_is_an_event_with_what_was_said(memory: Memory) -> None:
    policies = memory.policies
    identity = policies.update(DEPLOY, "run", success=False, at=NOON).policy_id
    policies.set_q(DEPLOY, "run", 0.25)
    policies.signal(DEPLOY, "run", 0.75)
    memory.predictions.resolve(
        memory.predictions.expect(identity, probability=1.0).id, happened=True
    )
    events = written(memory)
    assert [(event.kind, event.value, event.success, event.at) for event in events] == [
        ("outcome", None, False, NOON),
        ("set", 0.25, None, None),
        ("signal", 0.75, None, None),
        ("signal", 1.0, None, None),
    ]
    assert {event.subject for event in events} == {identity}


def test_changes_of_edges_are_events_about_both_ends(memory: Memory) -> None:
    policies = memory.policies
    for state in (DEPLOY, VERIFY):
        policies.set_q(state, "run", 1.0)
    a, b = known(memory, DEPLOY, "run"), known(memory, VERIFY, "run")
    policies.link(a, b)
    policies.strengthen(a, b, delta=0.5)
    policies.weaken(b, a, factor=0.5)
    policies.weaken(a, b)
    policies.unlink(a, b)
    events = written(memory)[2:]
    assert [(event.kind, event.value) for event in events] == [
        ("linked", 0.1), ("strengthened", 0.5), ("weakened", 0.5), ("weakened", 0.95),
        ("unlinked", None)]  # fmt: skip
    assert all({event.subject, event.other} == {a.id, b.id} for event in events)


def test_erasing_takes_events_away_and_says_so(memory: Memory) -> None:
    first = memory.learn("t", "s", success=True, source_key="1")
    memory.learn("t", "s", success=True, source_key="2")
    memory.upkeep.erase(first.episode_id)
    events = written(memory)
    assert [(event.seq, event.kind) for event in events] == [(2, "episode"), (3, "erased")]
    assert (events[1].subject, events[1].facts) == (None, {})  # nothing of what it was
    assert memory.learn("t", "s", success=True, source_key="1").created
    assert numbers(written(memory)) == [2, 3, 4]  # no number is used twice


# Looking at events without consuming them


def test_tail_shows_the_latest_events_or_those_after_positions(memory: Memory) -> None:
    def shown(events: list[Event]) -> list[tuple[str, int]]:
        return [(event.agent, event.seq) for event in events]

    assert memory.events.tail() == []
    observe(memory, DEPLOY, "run", 3, agent="a")
    time.sleep(0.01)
    observe(memory, DEPLOY, "run", 2, agent="b")
    assert shown(memory.events.tail(3)) == [("a", 3), ("b", 1), ("b", 2)]
    assert numbers(memory.events.tail(2, agent="a")) == [2, 3]
    assert memory.events.tail(agent="nobody") == []
    places = memory.events.positions()
    assert places == {"a": 3, "b": 2}
    assert memory.events.tail(after=places) == []
    observe(memory, DEPLOY, "run", 2, agent="a")
    assert shown(memory.events.tail(after=places)) == [("a", 4), ("a", 5)]
    assert numbers(memory.events.tail(2, after={"a": 1, "b": 2})) == [2, 3]
    assert len(list(memory.events.listen("group", follow=False))) == 7  # nobody had got them


# Reads are counted beside the graph


def reads(memory: Memory, label: str) -> dict[str, int]:
    rows = memory.query(
        f"MATCH (n:{label}) WHERE n.ns = $ns RETURN n.id AS id, coalesce(n.reads, 0) AS reads"
    )
    return {row["id"]: row["reads"] for row in rows}


def test_a_read_does_not_write_and_flush_does(memory: Memory) -> None:
    policies = memory.policies
    policies.set_q(DEPLOY, "run", 1.0)
    policies.set_q(DEPLOY, "wait", 0.5)
    memory.learn("t", "s", success=True)
    before = dump(memory)
    for _ in range(3):
        policies.best(DEPLOY)
    policies.get(DEPLOY, "wait")
    policies.get(VERIFY, "run")  # there is none
    [strategy] = memory.strategies()
    assert dump(memory) == before

    run, wait = known(memory, DEPLOY, "run"), known(memory, DEPLOY, "wait")
    started = time.time_ns() // 1_000_000
    assert memory.upkeep.flush() == 3
    assert reads(memory, "Policy") == {run.id: 4, wait.id: 2}  # `known` reads, too
    assert reads(memory, "Strategy") == {strategy.id: 1}
    rows = memory.query("MATCH (p:Policy) WHERE p.ns = $ns RETURN p.last_read_at AS at")
    assert all(0 <= started - row["at"] < 60_000 for row in rows)
    assert memory.upkeep.flush() == 0
    assert memory.events.positions() == {"default": 3}  # a read is no event
    assert memory.verify().ok
    known(memory, DEPLOY, "run")
    memory.upkeep.erase(agent="default")
    assert memory.upkeep.flush() == 0  # what was erased is dropped


def test_events_of_an_agent_keep_their_order_where_the_clock_steps_back(
    memory: Memory, clock: Clock
) -> None:
    for clock.now in (2_000, 1_000):
        memory.policies.update({"x": 1}, "a", success=True)
    assert [event.seq for event in memory.events.tail(after={})] == [1, 2]
    assert [event.seq for event in memory.events.tail(1)] == [2]


# How a policy came about


def ends_as(point: Point, policy: Policy) -> None:
    """What the last event made of a policy is what is stored, to the last bit."""
    for name in ("q", "updates", "trials", "successes", "confidence"):
        assert getattr(point, name) == getattr(policy, name), name


def test_every_event_is_a_point(memory: Memory, opened: Opener) -> None:
    policies = memory.policies
    policies.set_q(DEPLOY, "run", 0.5)
    first = policies.update(DEPLOY, "run", 1.0, terminal=True, success=True, alpha=0.5, at=NOON)
    policies.update(DEPLOY, "run", success=False)
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
    check = policies.update(VERIFY, "check", success=True).policy_id
    policies.link(first.policy_id, check)
    policies.unlink(check, first.policy_id)
    opened(record_transitions=False).policies.update(VERIFY, "check", 1.0, terminal=True)
    assert [(p.kind, p.updates) for p in policies.history(check)] == [("outcome", 0)]


def test_crystallizing_and_taking_back_are_points(memory: Memory, opened: Opener) -> None:
    policies = memory.policies
    for success in (True, False):
        for _ in range(6):
            identity = policies.update(DEPLOY, "run", success=success).policy_id
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
