"""Explanations: what is said of a belief is what the graph holds, on both engines."""

from __future__ import annotations

import json
import math
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory, Settings, Step
from graphmem.advice import explain
from graphmem.errors import NotFoundError, ValidationError
from graphmem.models.advice import Explanation, Neighbour
from graphmem.store.queries import procedure
from tests.conftest import Opener
from tests.contract.teaching import (
    START,
    attempts,
    day,
    dump,
    fail,
    histories,
    known,
    learn_runs,
    reference,
    some,
    tamper,
)


def shown(found: Explanation, relation: str) -> list[Neighbour]:
    return [near for near in found.neighbours if near.relation == relation]


class TestStrategies:
    def test_why_since_and_the_evidence(
        self, memory: Memory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(9):
            memory.learn(
                "refund" if number % 3 else "rebook",
                ["check the fare", "refund"],
                success=number < 7,
                agent="ada" if number < 6 else "grace",
                error=None if number < 7 else f"no fare {number}",
                ended_at=day(number),
                source_key=str(number),
            )
        found = memory.explain("check the fare")
        [row] = [row for row in memory.strategies() if row.text == "check the fare"]

        assert (found.kind, found.id, found.text) == ("strategy", row.id, row.text)
        for name in ("trials", "successes", "mean", "lower", "upper", "status"):
            assert getattr(found.why, name) == getattr(row, name)
        assert "7 of 9 trials worked" in found.why.sentence
        assert (found.first_at, found.last_at, found.dated) == (START, day(8), 9)
        assert [episode.at for episode in found.supporting] == [day(n) for n in (6, 5, 4, 3, 2)]
        assert [episode.error for episode in found.opposing] == ["no fare 8", "no fare 7"]
        assert found.opposing[0].id == memory.episodes(strategy="refund", limit=1)[0].id
        tables = [(s.name, s.successes, s.trials) for s in found.by_task.rows]
        assert tables == [("refund", 4, 6), ("rebook", 3, 3)]
        assert [(s.name, s.successes, s.trials) for s in found.by_agent.rows] == [
            ("ada", 6, 6),
            ("grace", 1, 3),
        ]
        [beside] = shown(found, "used together")
        assert (beside.text, beside.episodes, beside.successes) == ("refund", 9, 7)
        assert [near.agent for near in shown(found, "recommended")] == ["ada"]
        [warning] = shown(found, "warned against")
        assert (warning.text, warning.agent, warning.trials) == ("no fare <number>", "grace", 3)

        monkeypatch.setattr(explain, "LATEST", 4)  # only these are read one by one
        many = memory.explain("check the fare")
        some_read = {"course", "trend", "supporting", "opposing"}
        assert many.model_dump(exclude=some_read) == found.model_dump(exclude=some_read)
        assert [(point.at, point.trials, point.successes) for point in many.course] == [
            (day(5), 1, 1),
            (day(6), 2, 2),
            (day(7), 3, 2),
            (day(8), 4, 2),
        ]
        hers = memory.explain("check the fare", agent="ada")
        assert (hers.why.trials, len(hers.course)) == (6, 4)
        assert (hers.first_at, hers.last_at, hers.dated) == (START, day(5), 6)

    def test_the_trend_holds_the_later_half_against_the_earlier(self, memory: Memory) -> None:
        learn_runs(memory, "fades", "++++++-------")
        learn_runs(memory, "grows", "------+++++++")
        trend = some(memory.explain("fades").trend)
        assert (trend.direction, trend.certain) == ("falls", True)
        assert trend.change == pytest.approx(1 / 9 - 7 / 8)
        assert (trend.earlier_trials, trend.earlier_successes) == (6, 6)
        assert (trend.later_trials, trend.later_successes) == (7, 0)
        assert trend.later_from == day(6)

        better = some(memory.explain("grows").trend)
        assert (better.direction, better.certain) == ("rises", True)
        course = memory.explain("grows").course
        assert [point.trials for point in course] == [min(number, 5) for number in range(1, 14)]
        assert [point.successes for point in course[5:]] == [0, 1, 2, 3, 4, 5, 5, 5]
        assert course[-1].at == day(12)

    def test_it_says_when_the_rate_changed(self, memory: Memory) -> None:
        learn_runs(memory, "breaks", "+" * 20 + "-" * 15 + "+" * 10)
        learn_runs(memory, "steady", "-++" * 15)
        assert memory.explain("steady").changes == ()
        told = memory.explain("breaks", task="deploy")
        counts = [(one.since, one.successes_since, one.trials_since) for one in told.changes]
        assert counts == [(day(20), 0, 15), (day(35), 10, 10)]
        [_, latest] = told.changes
        assert (latest.until, latest.successes_before, latest.trials_before) == (day(34), 0, 15)
        assert latest.certainty > 0.99
        assert "changed: 0 of 15 until 4 Feb 2026, 10 of 10 since" in str(told)

        expected = some(told.expected)
        assert expected == memory.predict("deploy", "breaks")
        assert f'on "deploy": expected {expected.probability:.0%} (' in str(told)
        [change] = [some(basis.change) for basis in expected.basis.strategies]
        assert (change.since, change.trials_since) == (day(35), 10)
        assert f"changed on this task: {change.sentence}" in str(told)
        assert memory.choose("deploy", ["breaks"]).change == change

    def test_what_happened_since_a_change_decides_as_in_lists(self, memory: Memory) -> None:
        learn_runs(memory, "breaks", "+" * 54 + "-" * 23 + "++", error="TypeError: no")
        learn_runs(memory, "steady", "-++" * 15)
        [listed] = [row for row in memory.strategies() if row.text == "breaks"]
        told = memory.explain("breaks")
        since = some(listed.change)
        assert (told.why.trials, told.why.successes) == (79, 56)
        assert (told.why.mean, told.why.lower, told.why.upper, told.why.status) == (
            listed.mean,
            listed.lower,
            listed.upper,
            "refuted",
        )
        assert told.why.sentence.startswith(
            f"{since.successes_since} of {since.trials_since} trials worked since it changed "
            "(56 of 79 in all), so the rate is about 0.1"
        )
        assert {turn.becomes for turn in told.what_would_change} == {"tentative"}
        [failing] = memory.lessons.anti_patterns()
        assert memory.explain(failing).why.status == failing.status == "established"

    def test_without_dates_there_is_no_since_and_no_trend(self, memory: Memory) -> None:
        outcomes = [True, True, True, False, False]
        memory.learn_many([{"task": "deploy", "strategy": "ask", "success": o} for o in outcomes])
        found = memory.explain("ask")
        assert (found.first_at, found.trend, found.course) == (None, None, ())
        assert (len(found.supporting), len(found.opposing)) == (3, 2)
        assert "no date" in str(found)

    def test_similar_strategies_are_shown_with_what_they_achieved(self, memory: Memory) -> None:
        attempts(memory, "ask", 3)
        attempts(memory, "inquire", 1, 2, agent="grace")
        tamper(
            memory,
            "MATCH (x:Strategy {text: 'ask'}) MATCH (y:Strategy {text: 'inquire'}) "
            "WITH x, y WHERE x.ns = $ns AND y.ns = $ns "
            "CREATE (x)-[:SIMILAR_TO {similarity: 0.75, embedder: 'any'}]->(y)",
        )
        found = memory.explain("ask")
        [near] = shown(found, "similar")
        assert (near.text, near.weight, near.successes, near.trials) == ("inquire", 0.75, 1, 3)
        assert not shown(memory.explain("inquire"), "similar")  # a link leads one way
        assert not shown(memory.explain("ask", agent="default"), "similar")


class TestLessons:
    def test_a_heuristic_is_explained_by_its_own_trials(self, memory: Memory) -> None:
        attempts(memory, "ask", 4, 1, agent="ada", task_type="refund")
        attempts(memory, "ask", 0, 3, agent="ada", task_type="other")
        attempts(memory, "ask", 0, 3, agent="grace", task_type="refund")
        [row] = memory.lessons.heuristics()
        found = memory.explain(row)
        assert (found.kind, found.id, found.agent) == ("heuristic", row.id, "ada")
        assert found.task_types == ("refund",)
        assert (found.why.mean, found.why.lower) == (row.confidence, row.lower)
        assert {episode.id for episode in found.supporting} == set(row.supporting)
        assert memory.explain(row.id) == found
        assert memory.explain(row, agent="ada").why == found.why
        assert memory.explain("ask").why.trials == 11

    def test_an_anti_pattern_names_what_did_better(self, memory: Memory) -> None:
        for number in range(4):
            fail(memory, "guess", f"fare {number} is missing", task_type="refund")
        attempts(memory, "guess", 1, task_type="refund")
        attempts(memory, "guess", 5, task_type="other")
        attempts(memory, "ask", 5, task_type="refund")
        [row] = memory.lessons.anti_patterns()
        found = memory.explain(row)
        assert (found.kind, found.error_class) == ("anti-pattern", "fare <number> is missing")
        assert (found.why.successes, found.why.trials) == (row.occurrences, 5)
        assert (found.why.mean, found.why.status) == (row.confidence, row.status)
        worked = memory.episodes(strategy="guess", task_type="refund", success=True)
        assert {episode.id for episode in found.opposing} == {episode.id for episode in worked}
        assert found.better_alternative == row.better_alternative
        assert found.better_alternative is not None
        assert memory.explain("fare <number> is missing") == found
        assert memory.explain("guess", kind="anti_pattern") == found

    @pytest.mark.parametrize("verdict", ["WORKS", "AVOID"])
    def test_a_rule_says_what_would_take_it_back(
        self, memory: Memory, monkeypatch: pytest.MonkeyPatch, verdict: str
    ) -> None:
        works = verdict == "WORKS"

        def run(number: int, praised: bool, good: bool, **given: Any) -> dict[str, Any]:
            said = {"successes" if praised else "mistakes": ["asked first"], **given}
            score, key = 0.9 if good else 0.1, f"{praised}/{number}"
            return {"task": "refund", "strategy": [], "score": score, "source_key": key, **said}

        memory.learn_many(
            run(n, works, (n < 4) == works, agent="ada" if n else "grace", ended_at=day(n))
            for n in range(5)
        )
        [row] = memory.lessons.rules("refund")
        found = memory.explain(row)
        assert (found.kind, found.verdict, found.task) == ("rule", verdict, "refund")
        assert (found.why.successes, found.why.trials) == (row.supporting, 5)
        assert (row.supporting, row.opposing) == (4, 1)
        assert [share.name for share in found.by_agent.rows] == ["ada", "grace"]
        assert memory.explain(str(row)) == found == memory.explain("asked first", kind="rule")
        assert memory.explain(row, agent="grace").why.trials == 1
        monkeypatch.setattr(explain, "LATEST", 3)  # only these are read one by one
        many = memory.explain(row)
        assert (many.why, many.dated, many.by_task) == (found.why, found.dated, found.by_task)
        assert [point.at for point in many.course] == [day(2), day(3), day(4)]

        lost = found.what_would_change[-1]
        assert (lost.direction, lost.more, lost.becomes) == ("against", 3, "no rule")
        memory.learn_many(run(number, not works, not works) for number in range(lost.more))
        assert memory.lessons.rules("refund") == []
        none = memory.explain(row.id)
        # Read as if it worked: those count that list it as a success with a high score.
        counts = (4, 8) if works else (3, 7)
        assert (none.verdict, none.why.successes, none.why.trials) == (None, *counts)
        assert {turn.becomes for turn in none.what_would_change[-2:]} == {"WORKS", "AVOID"}

    def test_a_general_rule_has_no_more_than_what_is_kept_of_it(self, memory: Memory) -> None:
        memory.learn_many(
            {
                "task": f"task {number % 2}",
                "strategy": ["plan"],
                "score": 0.9,
                "agent": "ada",
                "task_type": "any",
                "ended_at": day(number),
                "source_key": str(number),
            }
            for number in range(6)
        )
        memory.lessons.consolidate(force=True)
        [row] = [row for row in memory.lessons.rules() if row.task is None]
        found = memory.explain(row, agent="ada")
        assert (found.task, found.source, found.task_types) == (None, "repetition", ("any",))
        assert (found.why.successes, found.why.trials) == (row.supporting, 6)
        assert [episode.id for episode in found.supporting] == list(row.evidence)
        assert (found.first_at, found.dated, found.trend) == (START, None, None)
        with pytest.raises(NotFoundError, match=r"that agent .* may read"):
            memory.explain(row, agent="grace")


def test_all_trials_of_a_policy_count_wherever_they_come_from(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step(action_type="go", state={"x": 1}, reward=1.0, next_state={"x": 2})
    for number in range(2):
        memory.learn("walk", [], success=True, agent="ada", steps=[step], ended_at=day(number))
    policies = memory.policies
    policies.learn_episodes()
    policies.update({"x": 1}, "go", success=True, agent="ada", at=day(5))
    policies.update({"x": 1}, "go", 0.0, terminal=True, success=False, agent="ada", at=day(6))
    policies.update({"x": 1}, "go", 0.5, next_state={"x": 2}, agent="ada")
    other = policies.update({"x": 1}, "stay", success=False, agent="ada").policy_id
    go = known(memory, {"x": 1}, "go", agent="ada")
    policies.link(go, other)

    found = memory.explain(go)
    assert (found.kind, found.id, found.text) == ("policy", go.id, "go")
    assert (found.why.trials, found.why.successes) == (go.trials, go.successes) == (4, 3)
    assert (found.why.lower, found.why.status) == (go.lower, go.status)
    assert found.policy == go
    assert (found.first_at, found.last_at, found.dated) == (START, day(6), 4)
    assert [episode.at for episode in found.supporting] == [day(1), START]
    assert [near.text for near in shown(found, "same state")] == ["stay"]
    assert [near.text for near in shown(found, "linked")] == ["stay"]
    with pytest.raises(NotFoundError, match=r"that agent .* may read"):
        memory.explain(go, agent="grace")
    monkeypatch.setattr(explain, "LATEST", 2)  # only these are read one by one
    many = memory.explain(go)
    assert (many.why, many.dated) == (found.why, found.dated)
    assert len(many.course) == 2


def status(k: int, n: int, limits: dict[str, float]) -> str:
    """The status by the formulas of the procedures, step by step: at a tie a last digit counts."""
    z = limits["z_value"]
    if n == 0:
        lower, upper = 0.0, 1.0
    else:
        middle, width = k / n + z * z / (2.0 * n), 1.0 + z * z / n
        spread = z * math.sqrt(k / n * (1.0 - k / n) / n + z * z / (4.0 * n * n))
        lower = 0.0 if k == 0 else (middle - spread) / width
        upper = 1.0 if k == n else (middle + spread) / width
    if lower > limits["established"]:
        return "established"
    return "refuted" if upper < limits["refuted"] else "tentative"


@hypothesis.given(
    trials=st.integers(0, 300),
    share=st.floats(0, 1),
    z_value=st.sampled_from([0.5, 1.0, 1.96, 3.0]),
    established=st.sampled_from([0.0, 0.3, 0.6, 0.75, 0.9]),
    refuted=st.sampled_from([0.1, 0.25, 0.4, 0.7, 1.0]),
)
def test_turns_are_the_smallest_numbers_that_change_the_status(
    memory: Memory, trials: int, share: float, **limits: float
) -> None:
    successes = round(trials * share)
    now = status(successes, trials, limits)
    rows = {
        row["direction"]: row
        for row in memory.store.read(
            procedure("explaining.turns"), trials=trials, successes=successes, **limits
        )
    }
    for direction in ("for", "against"):
        found = None
        for more in range(1, 20_000):
            better = successes + (more if direction == "for" else 0)
            if (then := status(better, trials + more, limits)) != now:
                found = (more, then)
                break
        row = rows.get(direction)
        if row is not None and row["more"] >= 20_000:
            assert found is None
            continue
        assert (row and (row["more"], row["becomes"])) == found


class TestItems:
    def test_a_text_that_fits_nothing_names_the_nearest(self, memory: Memory) -> None:
        with pytest.raises(NotFoundError):
            memory.explain("anything")
        attempts(memory, "check the fare rules", 1)
        with pytest.raises(NotFoundError, match="nearest strategies are 'check the fare rules'"):
            memory.explain("Fare Rules")
        with pytest.raises(NotFoundError, match="`graphmem list`"):
            memory.explain("something else")
        with pytest.raises(NotFoundError, match="no rule"):
            memory.explain("check the fare rules", kind="rule")

    def test_a_text_that_fits_several_lists_them(self, memory: Memory) -> None:
        for agent in ("ada", "grace"):
            attempts(memory, "ask", 3, agent=agent)
        assert memory.explain("ask").kind == "strategy"
        with pytest.raises(ValidationError, match="fits several") as refused:
            memory.explain("ask", kind="heuristic")
        for row in memory.lessons.heuristics():
            assert row.id in str(refused.value)
            assert memory.explain(row.id, kind="heuristic").agent == row.agent
            assert memory.explain("ask", kind="heuristic", agent=row.agent).id == row.id
        with pytest.raises(NotFoundError) as hidden:
            memory.explain("as", agent="nobody")
        assert "nearest" not in str(hidden.value)


def test_text_of_episodes_is_printed_clean(memory: Memory) -> None:
    fail(memory, "ask\u202e\x1b[31m\nwhy: all is well", "bad\x07\nfor, the latest:", agent="a\tb")
    found = memory.explain(memory.strategies()[0])
    text = str(found)
    assert not [char for char in text if not char.isprintable() and char != "\n"]
    assert sum(line.strip().startswith("why:") for line in text.splitlines()) == 1
    assert not [line for line in text.splitlines() if line.startswith("for, the latest:")]


@pytest.mark.parametrize("engine", ["neo4j"])
@pytest.mark.neo4j
@hypothesis.settings(max_examples=2)
@hypothesis.given(history=histories(10, 25))
def test_both_engines_say_the_same(opened: Opener, history: list[Any]) -> None:
    server = opened()
    tamper(server, "MATCH (n) WHERE n.ns = $ns DETACH DELETE n")
    with reference(server, Settings()) as embedded:
        for memory in (server, embedded):
            memory.learn_many(history)
        items = sorted(
            key.split()[1]
            for key in dump(server)
            if key.split()[0] in ("Strategy", "Heuristic", "AntiPattern", "Rule")
        )
        for item in items:
            for agent in (None, "anna"):
                assert _plain(server, item, agent) == _plain(embedded, item, agent)


def _plain(memory: Memory, item: str, agent: str | None) -> Any:
    try:
        found = memory.explain(item, agent=agent).model_dump_json()
    except NotFoundError as error:
        return str(error)
    return json.loads(found, parse_float=lambda text: round(float(text), 11))
