"""What learning promises, on both engines, and the settings that shape it."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import numpy as np
import pytest

from graphmem import Episode, Memory, MistakeCard, Step, StrategyUse
from graphmem.config import KEPT, Settings
from graphmem.episodes.rows import read_contents
from graphmem.errors import ConflictError, SettingsError, ValidationError
from graphmem.ids import node_id, to_millis
from tests.conftest import Opener
from tests.contract.teaching import attempts, checked, tamper, wilson

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def test_the_first_result_needs_one_call(memory: Memory) -> None:
    learned = memory.learn("refund a cancelled flight", "check policy, then refund", success=True)

    assert learned.created
    [row] = memory.strategies("refund a cancelled flight")
    assert (row.text, row.trials, row.successes) == ("check policy, then refund", 1, 1)
    assert row.mean == pytest.approx(2 / 3)
    assert (row.lower, row.upper) == pytest.approx(wilson(1, 1))
    assert row.status == "tentative"
    assert row.agents == ("default",)
    assert row.last_used_at is not None  # it happened just now
    assert abs(datetime.now(UTC) - row.last_used_at) < timedelta(minutes=5)


def test_an_outcome_may_be_a_bool_of_numpy(memory: Memory) -> None:
    yes, no = cast("list[bool]", list(np.array([0.7, 0.2]) > 0.5))
    learned = memory.learn("t", "s", success=yes)
    memory.learn_many([{"task": "t", "strategy": "s", "success": yes}])
    memory.settle(learned.episode_id, success=no)
    assert [(row.trials, row.successes) for row in memory.strategies("t")] == [(2, 1)]


def test_bounds_and_status_follow_the_counts(memory: Memory) -> None:
    for strategy, successes, failures in [("good", 18, 2), ("bad", 2, 18), ("even", 5, 5)]:
        attempts(memory, strategy, successes, failures)

    rows = {row.text: row for row in memory.strategies()}
    assert [row.text for row in memory.strategies()] == ["good", "even", "bad"]
    status = {text: row.status for text, row in rows.items()}
    assert status == {"good": "established", "even": "tentative", "bad": "refuted"}
    for row in rows.values():
        assert (row.lower, row.upper) == pytest.approx(wilson(row.successes, row.trials), abs=1e-12)
        assert row.mean == pytest.approx((row.successes + 1) / (row.trials + 2))


def test_a_source_key_is_learned_once(opened: Opener) -> None:
    memory = opened()
    first = memory.learn("t", "s", success=True, source_key="run-1/1")
    again = memory.learn("t", "s", success=True, source_key="run-1/1")
    memory.close()
    memory = opened()
    third = memory.learn("t", "s", success=True, source_key="run-1/1")

    assert (first.created, again.created, third.created) == (True, False, False)
    assert first.episode_id == again.episode_id == third.episode_id
    assert memory.strategies()[0].trials == 1


def test_without_a_key_every_call_counts(memory: Memory) -> None:
    for _ in range(10):
        assert memory.learn("t", "s", success=True).created
    for _ in range(5):
        assert memory.learn("t", "s", success=False, error="E 1", started_at=DAY).created

    [row] = memory.strategies()
    assert (row.trials, row.successes) == (15, 10)
    assert memory.stats().episodes == 15
    assert {found.source_key for found in memory.episodes(strategy="s", limit=99)} == {None}
    [warning] = memory.lessons.anti_patterns()
    assert warning.occurrences == 5
    assert memory.verify().ok


def test_a_live_call_ended_now(memory: Memory) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    calls: dict[str, dict[str, Any]] = {
        "none": {},
        "long": {"duration": 90.0},
        "longest": {"duration": 1e300},
        "started": {"started_at": DAY},
        "ran": {"started_at": DAY, "duration": 90.0},
        "ended": {"ended_at": DAY, "duration": 90.0},
    }
    text = (
        "MATCH (e:Episode {id: $id}) WHERE e.ns = $ns "
        "RETURN e.started_at AS started_at, e.ended_at AS ended_at"
    )
    ids = {name: memory.learn("t", "s", success=True, **calls[name]).episode_id for name in calls}
    times = {name: tuple(memory.query(text, id=ids[name])[0].values()) for name in ids}
    after = datetime.now(UTC) + timedelta(seconds=1)

    day = to_millis(DAY)
    assert times["started"] == times["ran"] == (day, None)  # a time that is given stays alone
    assert times["ended"] == (None, day)
    for name in ("none", "long", "longest"):
        assert to_millis(before) <= times[name][1] <= to_millis(after)
    assert [times[name][0] for name in ("none", "longest")] == [None, None]
    assert times["long"][0] == times["long"][1] - 90_000
    memory.learn_many([{"task": "t", "strategy": "record", "success": True, "duration": 3.0}])
    [row] = [row for row in memory.strategies() if row.text == "record"]
    assert row.last_used_at is None  # none is invented
    assert memory.verify().ok


def test_a_known_key_without_a_time_agrees_with_the_stored_one(memory: Memory) -> None:
    stamped: dict[str, Any] = {"task": "t", "strategy": ["s", "u"], "score": 0.7}
    stamped["source_key"] = "stamped"
    dated = {**stamped, "source_key": "dated", "ended_at": DAY}
    assert memory.learn(**stamped, duration=2.0).created
    assert memory.learn(**dated).created

    for given in ({**stamped, "duration": 2.0}, {**dated, "ended_at": None}):
        assert not memory.learn(**given).created
        assert memory.learn_many([given]).skipped == 1
    with pytest.raises(ConflictError) as caught:
        memory.learn(**dated | {"ended_at": DAY + timedelta(seconds=1)})
    assert list(caught.value.differences) == ["ended_at"]
    with pytest.raises(ConflictError) as caught:
        memory.learn(**stamped)
    assert list(caught.value.differences) == ["duration"]
    assert memory.stats().episodes == 2


def test_a_live_call_that_is_repeated_inside_gives_one_episode(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a connection that was lost when all was written: the next attempt finds it there."""
    for name in ("attempt", "transact"):
        done = getattr(memory.store, name)
        twice = lambda *args, done=done, **named: (done(*args, **named), done(*args, **named))[1]  # noqa: E731
        monkeypatch.setattr(memory.store, name, twice)

    learned = [memory.learn("t", ["s", "u"], success=number < 3) for number in range(5)]
    assert all(call.created for call in learned)
    assert len({call.episode_id for call in learned}) == memory.stats().episodes == 5
    assert memory.strategies()[0].trials == 5
    assert memory.verify().ok


def test_learn_takes_what_went_well_and_what_did_not(memory: Memory) -> None:
    card = MistakeCard(type="haste", lesson="read the rules first")
    for _ in range(2):
        memory.learn("t", "s", score=0.9, successes=iter(["asked"]), mistakes=["was slow"])
        memory.learn("t", "s", score=0.2, mistakes=("guessed",), mistake_cards=[card])

    assert {str(rule) for rule in memory.lessons.rules("t")} == {"[WORKS] asked", "[AVOID] guessed"}
    mistake, weak = memory.lessons.mistakes()
    assert (mistake.type, mistake.task, mistake.seen) == ("haste", "t", 2)
    assert (weak.type, weak.weak) == ("was slow", True)
    assert memory.verify().ok


def test_everything_that_was_given_comes_back(memory: Memory) -> None:
    given: dict[str, Any] = {
        "task": "Größe 💡",
        "strategy": [
            StrategyUse("main", credit=0.5, shown=True),
            StrategyUse("idle", applied=False),
        ],
        "success": True,
        "score": 0.75,
        "reward": -3.5,
        "agent": "gpt-4o",
        "task_type": "sizes",
        "task_key": "size/1",
        "steps": [
            Step(action_type="sql", action={"q": "SELECT 1", "n": [1, 2.5, None]}, reward=0.0),
            Step(observation="line\nline", error="boom", state={"x": 1}, next_state={"x": 2}),
            Step(terminal=True, action="plain"),
        ],
        **{name: f"{name} 1" for name in ("error", "feedback", "summary", "source_key")},
        "started_at": DAY,
        "ended_at": DAY + timedelta(milliseconds=1500),
        "duration": 1.5,
    }
    identity = memory.learn(**given).episode_id
    stored = read_contents(memory._graph, [identity])[identity]
    dates = {name: given[name] for name in ("started_at", "ended_at")}
    assert {name: stored[name] for name in dates} == {n: to_millis(at) for n, at in dates.items()}
    assert stored.keys() == given.keys() - {"source_key"}
    key = {"source_key": given["source_key"]}
    assert Episode(**stored | dates | key) == Episode(**given)
    assert memory.verify().ok


def test_how_a_strategy_was_chosen_comes_back(memory: Memory) -> None:
    chances = {"a": 0.7, "b": 0.2, "never tried": 0.1}
    uses = [
        StrategyUse("a", explore="thompson", candidates=chances),
        StrategyUse("b", propensity=0.25, explore="my own way"),
        StrategyUse("c", propensity=0.5, applied=False),
        StrategyUse("d"),
    ]
    for number in range(3):  # known things take another way into the graph than new ones
        memory.learn("t", uses, success=True, source_key=str(number))
        memory.learn("t", uses[0], success=number == 0, error="timeout", source_key=f"one {number}")
    memory.learn_many([{"task": "t", "strategy": uses, "success": False, "source_key": "many"}] * 2)

    rows = memory.query(
        "MATCH (e:Episode)-[u:USED]->(s:Strategy) WHERE e.ns = $ns AND size(e.source_key) <> 5 "
        "RETURN e.source_key AS key, s.text AS text, u.propensity AS propensity, "
        "u.explore AS explore, u.candidates AS candidates ORDER BY key, text"
    )
    told = [(row["text"], row["propensity"], row["explore"], row["candidates"]) for row in rows]
    whole = '{"a":0.7,"b":0.2,"never tried":0.1}'
    assert told == 4 * [
        ("a", 0.7, "thompson", whole),
        ("b", 0.25, "my own way", None),
        ("c", 0.5, None, None),
        ("d", None, None, None),
    ]
    assert {row.text for row in memory.strategies()} == {"a", "b", "d"}  # what was tried
    assert memory.verify().ok
    ids = [row.id for row in memory.episodes()]
    before = read_contents(memory._graph, ids)
    assert all(held["strategy"][0]["candidates"] == chances for held in before.values())
    memory.upkeep.rebuild()
    assert read_contents(memory._graph, ids) == before
    with pytest.raises(ConflictError, match="strategy"):
        memory.learn(
            "t", [StrategyUse("a", propensity=0.6), *uses[1:]], success=True, source_key="1"
        )


def test_an_episode_without_chances_is_what_it_was(memory: Memory) -> None:
    """Its hash and its edges are those of memories of before: neither holds what is not known."""
    learned = [
        memory._learner.learn(
            Episode(task="t", strategy="s", success=True, source_key=key), dated=False
        )
        for key in ("1", "2")
    ]

    rows = memory.query(
        "MATCH (e:Episode)-[u:USED]->(:Strategy) WHERE e.ns = $ns "
        "RETURN e.content_hash AS hash, keys(u) AS names"
    )
    assert {row["hash"] for row in rows} == {"8a7c9daaf00e6d2928c28839f7837cf2"}
    names = {name for row in rows for name in row["names"]} - {"type"}  # one engine names its type
    assert names == {"rank", "credit", "applied"}
    assert all(one.created for one in learned)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("propensity", {"propensity": 0.0}),
        ("propensity", {"propensity": 1.01}),
        ("explore", {"explore": "x" * 101}),
        ("candidates", {"candidates": {"b": 1.0}}),
        ("candidates", {"candidates": {"a": 0.5, "b": 0.2}}),
        ("candidates.b", {"candidates": {"a": 1.0, "b": -0.1}}),
        ("candidates", {"candidates": {str(n): 1 / 201 for n in range(200)} | {"a": 1 / 201}}),
        ("candidates", {"candidates": {"a": 0.5} | {f"{n:09999}": 0.005 for n in range(101)}}),
        ("propensity", {"propensity": 0.9, "candidates": {"a": 0.5, "b": 0.5}}),
    ],
)
def test_chances_that_cannot_be_are_refused(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        StrategyUse("a", **given)
    assert caught.value.field == field, str(caught.value)


def test_credit_weighs_the_score_not_the_count(memory: Memory) -> None:
    memory.learn("t", StrategyUse("s", credit=1.0), score=1.0)
    memory.learn("t", StrategyUse("s", credit=0.25), score=0.0)

    [row] = memory.strategies()
    assert (row.trials, row.successes) == (2, 1)
    assert row.mean_score == pytest.approx(1.0 / 1.25)


def test_tasks_are_found_by_key_wording_and_type(memory: Memory) -> None:
    memory.learn("cancel my flight", "ask", success=True, task_key="12", task_type="cancel")
    memory.learn("book a seat", "ask", success=False, task_type="book")

    for found in (
        memory.strategies("12"),
        memory.strategies("cancel my flight"),
        memory.strategies(task_type="cancel"),
    ):
        assert [(row.text, row.successes) for row in found] == [("ask", 1)]
    assert memory.strategies("cancel my flight", task_type="book") == []
    assert memory.strategies("unheard of") == []


def test_a_task_takes_wording_and_type_from_its_latest_episode(memory: Memory) -> None:
    late = {"task": "new words", "ended_at": DAY + timedelta(days=1), "task_type": "b"}
    early = {"task": "old words", "ended_at": DAY, "task_type": "a"}
    untyped = {"task": "newest words", "ended_at": DAY + timedelta(days=2)}
    for number, episode in enumerate((late, early, untyped)):
        memory.learn(strategy="s", success=True, task_key="k", source_key=str(number), **episode)  # type: ignore[arg-type]

    [task] = memory.query(
        "MATCH (t:Task) WHERE t.ns = $ns RETURN t.description AS text, t.type AS type"
    )
    assert task == {"text": "newest words", "type": "b"}
    assert memory.verify().ok


def test_co_occurrence_decays_by_its_half_life_and_takes_late_arrivals(opened: Opener) -> None:
    expected = 1 + 0.5 + 0.25 + 1  # at the latest date; the last 1 has no date and does not decay
    dates = [DAY, DAY + timedelta(days=90), DAY + timedelta(days=180), None]
    ns = opened().namespace
    for number, order in enumerate(list(itertools.permutations(dates))[::5]):
        memory = opened(f"{ns}-{number}")
        for place, date in enumerate(order):
            given: dict[str, Any] = {"ended_at": date, "source_key": str(place)}
            memory.learn_many(
                [{"task": "t", "strategy": ["a", "b"], "success": place > 1, **given}]
            )
        [edge] = memory.query("analysis.together", at_least=1)
        assert (edge["times"], edge["successes"]) == (4, 2)
        assert edge["weight"] == pytest.approx(expected, rel=1e-12)
        assert memory.verify().ok


def test_the_latest_outcomes_are_kept_and_many_of_one_task_count_less(memory: Memory) -> None:
    """Whatever the order in which they come; an erased one makes room for an older one."""

    def held() -> tuple[Any, ...]:
        [row] = memory.query(
            "MATCH (y:Tally)-[:COUNTS]->(:Agent)-[:RAN]->(:Episode)-[:USED]->(s:Strategy) "
            "WHERE y.ns = $ns MATCH (s)-[o:OUTCOME]->(t:Task) WITH DISTINCT y, s, o, t "
            "ORDER BY t.description RETURN s.latest AS latest, collect(o.latest) AS on_tasks, "
            "[s.effective_trials, s.effective_successes, y.effective_trials] AS effective"
        )
        return row["latest"], row["on_tasks"], row["effective"]

    stamps: list[int] = []
    for number in range(50):
        hour, success = number * 7 % 50, number % 3 > 0
        ended = DAY + timedelta(hours=hour)
        learned = memory.learn("ab"[hour // 40], "plan", success=success, ended_at=ended)
        stamps.append(to_millis(ended) * 2 + success)
        if hour == 49:
            last = learned.episode_id
    memory.learn_many([Episode(task="a", strategy="plan", success=True)])
    stamps.sort()
    won = [sum(stamp % 2 for stamp in some) for some in (stamps[:40], stamps[40:])]
    latest, on_tasks, effective = held()
    assert (latest, on_tasks) == (stamps[-32:], [stamps[8:40], stamps[40:]])
    expected = 3 * 41 / 44 + 3 * 10 / 13, 3 * (won[0] + 1) / 44 + 3 * won[1] / 13, 3 * 51 / 54
    assert effective == pytest.approx(expected)

    memory.upkeep.erase(last)
    latest, on_tasks, effective = held()
    assert (latest, on_tasks) == (stamps[-33:-1], [stamps[8:40], stamps[40:-1]])
    assert effective[2] == pytest.approx(3 * 50 / 53)
    checked(memory)


def test_a_batch_with_a_conflict_in_it_is_not_written(memory: Memory) -> None:
    episode = Episode(task="t", strategy="s", success=True, source_key="k")
    other = Episode(task="t", strategy="s", success=False, source_key="k")
    late = Episode(task="t", strategy="s", success=False, source_key="late")

    with pytest.raises(ConflictError):
        memory.learn_many([episode, other])
    assert memory.stats().episodes == 0
    memory.learn_many([episode])
    with pytest.raises(ConflictError):
        memory.learn_many([late, other])
    assert memory.stats().episodes == 1


def test_episodes_of_many_steps_are_written_in_smaller_batches(memory: Memory) -> None:
    written: list[int] = []
    memory.learn_many(
        (
            Episode(task="t", strategy="s", success=True, source_key=str(n), steps=[Step()] * 9_000)
            for n in range(4)
        ),
        on_progress=written.append,
    )
    assert written == [3, 1]
    assert memory.stats().steps == 36_000


def test_a_memory_keeps_the_half_life_it_was_built_with(opened: Opener) -> None:
    ns = opened().namespace
    opened(ns, co_occurrence_half_life_days=30.0).learn("t", ["a", "b"], success=True, ended_at=DAY)
    plain = opened(ns)
    plain.learn("t", ["a", "b"], success=True, ended_at=DAY + timedelta(days=30))
    assert plain.query("analysis.together", at_least=1)[0]["weight"] == pytest.approx(1.5)

    other = opened(ns, co_occurrence_half_life_days=10.0)
    with pytest.raises(SettingsError, match="built with 30"):
        other.learn("t", ["a", "b"], success=True, source_key="refused")
    other.upkeep.rebuild()
    assert other.query("analysis.together", at_least=1)[0]["weight"] == pytest.approx(1.125)
    assert other.verify().ok


# A memory keeps the settings with which it was first written

OTHER: dict[str, Any] = {
    "success_threshold": 0.8,
    "z": 1.0,
    "alpha": 0.5,
    "min_occurrences": 1,
    "anti_pattern_failures": 1,
}


def kept(memory: Memory) -> dict[str, Any]:
    [row] = memory.query("schema.namespace", id=node_id(memory.namespace, "Namespace"))
    return row


def what_is_believed(memory: Memory) -> Any:
    return memory.strategies(), memory.lessons.heuristics(), memory.lessons.anti_patterns()


def test_who_gives_no_settings_takes_those_of_the_memory(opened: Opener) -> None:
    first = opened(**OTHER)
    attempts(first, "plan", 2, 1, task_type="ops")
    first.learn("deploy", "hope", success=False, error="boom", source_key="hope")
    first.policies.update({"n": 1}, "go", 1.0, terminal=True)
    assert {name: kept(first)[name] for name in OTHER} == OTHER
    assert kept(first).keys() == set(KEPT)

    second = opened()
    assert what_is_believed(second) == what_is_believed(first)
    assert second.lessons.anti_patterns()
    second.learn("deploy", "plan", score=0.7, source_key="by score")
    [plan] = [row for row in second.strategies() if row.text == "plan"]
    assert (plan.trials, plan.successes) == (4, 2)  # .7 is no success here
    assert second.policies.update({"n": 2}, "go", 1.0, terminal=True).q == 0.5
    assert second.verify().ok


def test_what_is_given_holds_for_who_gives_it_until_a_rebuild_keeps_it(opened: Opener) -> None:
    first = opened()
    attempts(first, "plan", 3, 1)
    usual = first.strategies()
    assert kept(first) == {name: getattr(Settings(), name) for name in KEPT}

    strict = opened(z=3.0)
    assert strict.strategies()[0].lower < usual[0].lower
    strict.learn("deploy", "plan", success=True, source_key="more")
    assert kept(strict)["z"] == 1.96
    assert opened().strategies()[0].lower > strict.strategies()[0].lower

    strict.upkeep.rebuild()
    assert kept(strict) == {name: getattr(Settings(z=3.0), name) for name in KEPT}
    assert opened().strategies() == strict.strategies()
    assert strict.verify().ok


def test_a_memory_from_before_keeps_them_from_its_next_write(opened: Opener) -> None:
    first = opened()
    attempts(first, "plan", 3)
    usual = first.strategies()
    gone = ", ".join(f"n.{name} = null" for name in KEPT if "half_life" not in name)
    tamper(first, f"MATCH (n:Namespace) WHERE n.ns = $ns SET {gone}")

    later = opened()
    assert later.strategies() == usual
    assert later.verify().ok
    later.learn("another task", "plan", success=True, source_key="another")
    assert kept(later) == {name: getattr(Settings(), name) for name in KEPT}


def test_each_namespace_keeps_its_own(opened: Opener) -> None:
    one, two = opened(alpha=0.5), opened(namespace="test-kept-elsewhere", alpha=0.25)
    for memory in (one, two):  # policies alone keep settings, too
        memory.policies.update({"n": 1}, "go", 1.0, terminal=True)
    assert (kept(one)["alpha"], kept(two)["alpha"]) == (0.5, 0.25)
    assert opened().policies.update({"n": 2}, "go", 1.0, terminal=True).q == 0.5


def test_what_fails_keeps_nothing(memory: Memory) -> None:
    with pytest.raises(KeyError, match="stop"):
        memory._graph.transact(lambda tx: (_ for _ in ()).throw(KeyError("stop")))
    assert memory.query("schema.namespace", id=node_id(memory.namespace, "Namespace")) == []
