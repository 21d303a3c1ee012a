"""Temporal discovery over what a memory holds, on both engines."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from graphmem import Episode, Memory, Step, StrategyUse
from graphmem.errors import NotFoundError, ValidationError
from graphmem.ids import node_id, to_millis
from tests.contract.teaching import known, tamper

MONDAY = datetime(2025, 1, 6, 9, tzinfo=UTC)
DAY = timedelta(days=1)
WEEK = timedelta(weeks=1)

HERE: dict[str, Any] = {"page": 1}
COUNT = (
    "MATCH (n)-[r:HAS_CYCLE]->(c:Cycle) WHERE c.ns = $ns RETURN labels(n)[0] AS label, c.id AS id, "
    "c.created_at AS created_at, c.alpha AS alpha ORDER BY id"
)


def weekly(number: int, start: datetime = MONDAY) -> list[datetime]:
    return [start + WEEK * week for week in range(number)]


def learn(
    memory: Memory, strategy: Any, dates: Iterable[datetime | None], **more: Any
) -> list[str]:
    ids = []
    for index, date in enumerate(dates):
        outcome = {"success": True, "source_key": f"{strategy} {index} {more}", **more}
        episode = Episode(task="t", strategy=strategy, ended_at=date, **outcome)
        ids.append(memory._learner.learn(episode, dated=False).episode_id)
    return ids


def test_a_strategy_that_is_used_on_mondays(memory: Memory) -> None:
    learn(memory, [StrategyUse("report"), StrategyUse("seen", applied=False)], [*weekly(20), None])
    [strategy] = [row for row in memory.strategies() if row.text == "report"]

    report = memory.cycles.examine("report")
    assert (report.subject, report.events, report.undated) == (strategy.id, 20, 1)
    [cycle] = report.cycles
    assert (cycle.kind, cycle.when, cycle.phase) == ("day of week", "Monday", 388_800)
    assert (cycle.buckets, cycle.amplitude, cycle.id) == ((20, 0, 0, 0, 0, 0, 0), 0.5, None)
    assert cycle.expected == pytest.approx([20 / 7] * 7)
    for same in (strategy.id, strategy, " report "):
        assert memory.cycles.examine(same) == report
    [dated] = memory.cycles.examine(weekly(20)).cycles
    assert (dated.subject, dated.id, dated.when) == (None, None, "Monday")
    seen = memory.cycles.examine("seen", keep=True)  # it counts only where it was applied
    assert {test.reason for test in seen.tests} == {"too little evidence: 0 events with a date"}
    assert memory.cycles.list() == []  # nothing is stored by looking

    [kept] = memory.cycles.examine("report", keep=True).cycles
    assert kept == cycle.model_copy(update={"id": kept.id})
    assert kept.id == node_id(memory.namespace, "Cycle", strategy.id, kept.kind, "UTC")
    assert memory.cycles.list() == memory.cycles.list("report") == [kept]
    assert memory.cycles.list("seen") == []
    [row] = memory.query(COUNT)
    assert (row["label"], row["id"], row["alpha"]) == ("Strategy", kept.id, 0.05)
    assert row["created_at"] == to_millis(weekly(20)[-1])  # of the evidence, not of the clock

    for ask in (memory.cycles.examine, memory.cycles.list):
        for unknown in ("nobody knows this", "0" * 32):
            with pytest.raises(NotFoundError, match="no policy or strategy"):
                ask(unknown)
        for wrong in ("", 5, {"id": 1}, "\ud800", SimpleNamespace(id=7)):
            with pytest.raises(ValidationError, match="subject"):
                ask(wrong)  # type: ignore[arg-type]


def test_a_new_discovery_takes_the_place_of_the_last_in_its_zone(memory: Memory) -> None:
    learn(memory, "report", weekly(8))
    [monday] = memory.cycles.examine("report", keep=True).cycles
    [tokyo] = memory.cycles.examine("report", timezone="Asia/Tokyo", keep=True).cycles
    assert memory.cycles.list("report") == [tokyo, monday]

    learn(memory, "report", weekly(15, MONDAY + 2 * DAY), agent="b")
    [wednesday] = memory.cycles.examine("report", keep=True).cycles
    assert (wednesday.id, wednesday.when, wednesday.events) == (monday.id, "Wednesday", 23)
    assert memory.cycles.list("report") == [tokyo, wednesday]

    assert memory.cycles.examine("report", at_least=1000, keep=True).cycles == ()
    assert memory.cycles.list("report") == [tokyo]


def test_all_facts_about_a_policy_count(memory: Memory) -> None:
    policies = memory.policies
    for at in (*weekly(5), None):
        policies.update(HERE, "retry", 0.0, terminal=True, success=True, at=at)
    for at in weekly(6, MONDAY + WEEK * 5):
        policies.update(HERE, "retry", success=True, at=at)
    policies.signal(HERE, "retry", 1.0)  # says nothing of when
    step = Step(action_type="retry", state=HERE)
    learn(memory, "s", weekly(7, MONDAY + WEEK * 11), steps=[step])
    identity = known(memory, HERE, "retry").id

    report = memory.cycles.examine(identity)
    assert (report.events, report.undated) == (18, 1)
    [cycle] = memory.cycles.examine(SimpleNamespace(id=identity), keep=True).cycles
    assert (cycle.subject, cycle.when, cycle.events) == (identity, "Monday", 18)
    [row] = memory.query(COUNT)
    assert (row["label"], row["created_at"]) == ("Policy", to_millis(weekly(18)[-1]))


def test_one_can_ask_when_something_works_and_when_it_fails(memory: Memory) -> None:
    learn(memory, "deploy", weekly(20), success=True)
    learn(memory, "deploy", weekly(20, MONDAY + 4 * DAY), success=False)
    facts = [(True, MONDAY), (False, MONDAY + 4 * DAY), (None, MONDAY + 5 * DAY)]
    retried = {"state": HERE, "action": "retry", "reward": 0.0, "terminal": True}
    memory.policies.update_many(
        {**retried, "success": success, "at": at}
        for success, start in facts
        for at in (*weekly(20, start), None)
    )
    identity = known(memory, HERE, "retry").id

    for subject, undated, unjudged in (("deploy", 0, 0), (identity, 1, 21)):
        works = memory.cycles.examine(subject, only="success")
        fails = memory.cycles.examine(subject, only="failure")
        assert [cycle.when for cycle in works.cycles] == ["Monday"]
        assert [cycle.when for cycle in fails.cycles] == ["Friday"]
        assert (works.events, works.undated, works.unjudged) == (20, undated, unjudged)
        assert (fails.cycles[0].only, fails.events) == ("failure", 20)
    # A stored cycle adds to a value at its peak: nothing is worth most when it fails.
    assert memory.cycles.list() == []
    with pytest.raises(ValidationError, match="only: is not kept"):
        memory.cycles.examine("deploy", only="failure", keep=True)


def test_cycles_can_be_found_anew_when_facts_went(memory: Memory) -> None:
    """As they were asked for; what the facts no longer show goes, as does what lost its subject."""
    ids = learn(memory, "report", weekly(20))
    learn(memory, "other", weekly(20, MONDAY + DAY))
    learn(memory, "gone", weekly(20), agent="b")
    asked: dict[str, Any] = {"timezone": "Asia/Tokyo", "only": "success"}
    for subject in ("report", "other", "gone"):
        memory.cycles.examine(subject, **asked, keep=True)
    before = memory.cycles.list()
    assert memory._graph.transact(memory.cycles.renew) == 3
    assert memory.cycles.list() == before

    for episode in ids[6:]:
        memory.upkeep.erase(episode)
    tamper(memory, "MATCH (s:Strategy) WHERE s.ns = $ns AND s.text = 'gone' DETACH DELETE s")
    [other] = memory.cycles.list("other")
    assert memory._graph.transact(lambda tx: memory.cycles.renew(tx, [str(other.subject)])) == 1
    assert memory._graph.transact(memory.cycles.renew) == 1
    assert memory.cycles.list() == [other]


def test_a_policy_of_mondays_is_worth_more_on_mondays(memory: Memory) -> None:
    """From episodes with steps to a value: two steps each Monday are one event, not three."""
    step: dict[str, Any] = {
        "action_type": "retry",
        "state": {"page": 1},
        "next_state": {"page": 2},
        "reward": 0.0,
    }
    steps = [Step(**step), Step(**step, terminal=True)]
    learn(memory, "weekly report", weekly(20), steps=steps)
    [found] = memory.policies.list({"page": 1})
    [cycle] = memory.cycles.examine(found, keep=True).cycles
    assert (cycle.subject, cycle.when, cycle.events) == (found.id, "Monday", 20)

    week = [MONDAY + WEEK * 20 + DAY * day for day in range(7)]
    scores = [memory.policies.list({"page": 1}, at=day)[0].score for day in week]
    assert max(scores) == scores[0] > 0 > min(scores)
    assert max(map(abs, scores)) <= cycle.amplitude
