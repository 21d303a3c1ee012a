"""Heuristics and anti-patterns: what works, what fails, what to do instead, and what is one."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Episode, Memory, Step
from graphmem.errors import NotFoundError, ValidationError
from graphmem.models.lessons import Alternative
from tests.conftest import Clock, Opener
from tests.contract.teaching import (
    SHOWN_AS_FOUND,
    answers,
    attempts,
    checked,
    day,
    dump,
    fail,
    histories,
    learn_runs,
    reference,
    some,
    tamper,
    tried,
    wilson,
)


class TestHeuristics:
    def test_several_wordings_of_one_strategy_are_pooled_where_that_is_asked_for(
        self, memory: Memory
    ) -> None:
        one, two, other = "use quick sort", "use a quick sort", "ask the customer for a photo"
        attempts(memory, one, 2, task_type="sort", agent="anna")
        attempts(memory, two, 2, 1, task_type="sort", agent="anna")
        attempts(memory, two, 0, 9, task_type="other", agent="anna")
        attempts(memory, two, 0, 9, task_type="sort", agent="ben")
        attempts(memory, other, 4, task_type="sort", agent="anna")
        [near] = [hit.similarity for hit in memory.similar(one) if hit.text == two]
        assert near > 0.8

        shown = {row.strategy: row for row in memory.lessons.heuristics("sort")}
        assert shown.keys() == {two, other}  # the first has too few trials of its own
        assert all(row.pooled == () and row.pooled_trials is None for row in shown.values())

        found = {row.strategy: row for row in memory.lessons.heuristics("sort", pooled=True)}
        assert found.keys() == {one, two, other}
        row = found[one]
        assert (row.trials, row.successes) == (2, 2)
        [wording] = row.pooled
        assert (wording.strategy, wording.trials, wording.successes) == (two, 3, 2)
        assert wording.similarity == pytest.approx(near, abs=1e-5)
        trials, successes = 2 + 3 * wording.similarity, 2 + 2 * wording.similarity
        assert row.pooled_trials == pytest.approx(trials)
        assert row.pooled_successes == pytest.approx(successes)
        assert row.confidence == pytest.approx((successes + 1) / (trials + 2))
        assert (row.lower, row.upper) == pytest.approx(wilson(successes, trials))
        assert [one.strategy for one in found[two].pooled] == [one]
        alone = found[other]
        assert (alone.pooled, alone.pooled_trials) == ((), 4.0)
        assert alone.lower == shown[other].lower
        assert memory.verify().ok

    def test_three_late_successes_do_not_outweigh_97_failures(
        self, memory: Memory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        learn_runs(memory, "hope", "-" * 97 + "+++")
        assert memory.lessons.heuristics() == []  # nothing to recommend, and nothing established
        monkeypatch.setattr("graphmem.lessons.HEURISTIC_ABOVE", 0.0)
        [found] = memory.lessons.heuristics()
        assert (found.successes, found.trials) == (3, 100)
        assert found.confidence == pytest.approx(4 / 102)
        assert found.status == "refuted"
        assert found.upper == pytest.approx(wilson(3, 100)[1])
        assert found.upper < 0.1
        assert memory.strategies()[0].status == "refuted"

    @pytest.mark.parametrize(
        ("successes", "failures", "status"),
        [
            (5, 0, "tentative"),  # 5 of 5: the lower bound is .566
            (6, 0, "established"),  # 6 of 6: .610
            (3, 2, "tentative"),
            (16, 4, "tentative"),  # 16 of 20: .584
            (17, 3, "established"),  # 17 of 20: .640
            *((3, 0, "tentative"), (2, 1, "tentative"), (2, 0, None), (2, 2, None), (1, 2, None)),
        ],
    )
    def test_one_needs_three_trials_and_a_confidence_over_half_and_has_a_status_by_its_bounds(
        self, memory: Memory, successes: int, failures: int, status: str | None
    ) -> None:
        attempts(memory, "plan", successes, failures)
        found = memory.lessons.heuristics()
        assert [row.status for row in found] == ([status] if status else [])
        lower, upper = wilson(successes, successes + failures)
        assert all([row.lower, row.upper] == pytest.approx([lower, upper]) for row in found)
        assert (lower > 0.6) is (status == "established")

    def test_one_is_of_an_agent_and_a_type_of_task(self, memory: Memory) -> None:
        for agent, task_type in (("anna", "x"), ("anna", "y"), ("ben", "x")):
            attempts(memory, "plan", 3, task="t", agent=agent, task_type=task_type)
        attempts(memory, "ask", 3, 1, task="t", agent="anna", task_type="x")

        def shown(**asked: object) -> list[tuple[str, str, str]]:
            rows = memory.lessons.heuristics(**asked)  # type: ignore[arg-type]
            return [(row.agent, row.task_type, row.strategy) for row in rows]

        assert len(shown()) == 4
        assert shown(agent="ben") == [("ben", "x", "plan")]
        assert shown(task_type="y") == [("anna", "y", "plan")]
        assert shown(agent="anna", task_type="x") == [("anna", "x", "plan"), ("anna", "x", "ask")]
        assert shown(min_confidence=0.8) == shown()[:3]  # 4/5 itself, and not 4/6
        assert shown(min_confidence=0.81) == []
        assert shown(task_type="z") == shown(agent="nobody") == []

    def test_the_sample_is_the_latest_five_for_and_against(self, memory: Memory) -> None:
        order = [3, 11, 0, 7, 1, 8, 15, 2, 9, 14, 4, 13, 6, 10, 5, 12]
        ids = {
            number: memory.learn(
                "t", "plan", success=number % 3 > 0, ended_at=day(number)
            ).episode_id
            for number in order
        }
        [found] = memory.lessons.heuristics()
        assert found.supporting == tuple(ids[number] for number in (14, 13, 11, 10, 8))
        assert found.opposing == tuple(ids[number] for number in (15, 12, 9, 6, 3))
        assert (found.first_at, found.last_at) == (day(0), day(15))
        memory.learn_many([{"task": "t", "strategy": "plan", "success": True}] * 30)
        held = memory.query("MATCH (:Heuristic)-[d:DERIVED_FROM]->(e) WHERE e.ns = $ns RETURN e.id")
        assert 10 <= len(held) < 30  # what is beyond the sample is cut off now and then

    def test_dates_come_from_dated_episodes_alone(self, memory: Memory) -> None:
        memory.learn_many([{"task": "deploy", "strategy": "ask", "success": True}] * 3)
        assert memory.lessons.heuristics()[0].first_at is None
        assert memory.lessons.heuristics()[0].last_at is None
        memory.learn("deploy", "ask", success=True, started_at=day(3))
        memory.learn("deploy", "ask", success=True, started_at=day(1), ended_at=day(5))
        [found] = memory.lessons.heuristics()
        assert (found.first_at, found.last_at) == (day(3), day(5))


class TestAntiPatterns:
    def test_two_failures_that_differ_in_particulars_are_one(self, memory: Memory) -> None:
        first = fail(memory, "guess", "line 12: no such file: /srv/app/a.py", ended_at=day(1))
        assert memory.lessons.anti_patterns() == []
        second = fail(memory, "guess", "line 99: no such file: /home/b/c.py", ended_at=day(2))

        [found] = memory.lessons.anti_patterns()
        assert found.error_class == "line <number>: no such file: <path>"
        assert found.example == "line 99: no such file: /home/b/c.py"
        assert (found.occurrences, found.successes) == (2, 0)
        assert found.evidence == (second, first)
        assert (found.first_at, found.last_at) == (day(1), day(2))
        assert (found.agent, found.strategy) == ("default", "guess")

    def test_one_is_of_an_agent_a_strategy_and_a_class_of_errors(self, memory: Memory) -> None:
        for number in range(2):
            fail(memory, "guess", f"timeout after {number} s", agent="anna")
            fail(memory, "guess", f"timeout after {number} s", agent="ben")
            fail(memory, "guess", "permission denied", agent="anna", feedback=str(number))
            fail(memory, "hope", f"timeout after {number} s", agent="anna")
        shown = {
            (row.agent, row.strategy, row.error_class) for row in memory.lessons.anti_patterns()
        }
        assert shown == {
            ("anna", "guess", "timeout after <number> s"),
            ("ben", "guess", "timeout after <number> s"),
            ("anna", "guess", "permission denied"),
            ("anna", "hope", "timeout after <number> s"),
        }
        assert [row.agent for row in memory.lessons.anti_patterns(agent="ben")] == ["ben"]
        assert all(row.occurrences == 2 for row in memory.lessons.anti_patterns())

    def test_the_last_error_of_a_step_stands_in_for_one_of_the_episode(
        self, memory: Memory
    ) -> None:
        for number in (1, 2):
            steps = [Step(error="warming up"), Step(error=f"exploded {number}"), Step()]
            memory.learn("t", "guess", success=False, steps=steps, ended_at=day(number))
        [found] = memory.lessons.anti_patterns()
        assert found.error_class == "exploded <number>"
        assert found.example == "exploded 2"

    def test_errors_of_what_works_like_other_ways_are_told_apart(self, memory: Memory) -> None:
        for way, letters in (("search", "+-+-+-"), ("guess", "+-----")):
            tried(memory, "open the page", way, letters, error=f"no {way}", task_type="web")
        assert {row.strategy for row in memory.lessons.anti_patterns()} == {"guess", "search"}
        assert [row.strategy for row in memory.recall("open the page").warnings] == ["guess"]

    def test_successes_are_evidence_against_it(self, memory: Memory) -> None:
        for number in range(2):
            fail(memory, "guess", f"timeout after {number} s", task_type="x")
        assert memory.lessons.anti_patterns()[0].confidence == pytest.approx(3 / 4)
        attempts(memory, "guess", 6, task="another", task_type="x")
        attempts(memory, "guess", 3, task_type="y")  # where it has not failed so
        attempts(memory, "guess", 5, task_type="x", agent="another")

        [found] = memory.lessons.anti_patterns()
        assert (found.occurrences, found.successes) == (2, 6)
        assert found.confidence == pytest.approx(3 / 10)
        lower, upper = wilson(2, 8)
        assert [found.lower, found.upper] == pytest.approx([lower, upper])
        assert found.status == "tentative"
        assert memory.lessons.anti_patterns(min_confidence=0.3)
        assert memory.lessons.anti_patterns(min_confidence=0.31) == []
        attempts(memory, "guess", 40, task_type="x")
        assert memory.lessons.anti_patterns()[0].status == "refuted"


def better(memory: Memory) -> Alternative:
    """What is to be done instead of what the first anti-pattern warns against."""
    return some(memory.lessons.anti_patterns()[0].better_alternative)


class TestAlternatives:
    def failing(self, memory: Memory) -> None:
        for number in range(4):
            fail(memory, "guess", f"timeout after {number} s", task_type="ops")

    def test_what_did_better_on_the_same_task_comes_first(self, memory: Memory) -> None:
        self.failing(memory)
        attempts(memory, "plan", 7, 1, task_type="ops")
        attempts(memory, "ask", 30, task="restart", task_type="ops")  # better, but elsewhere

        # guess: 0 of 4, a mean of 1/6; plan: 7 of 8, a mean of 8/10
        found = better(memory)
        assert (found.strategy, found.ground) == ("plan", "task")
        assert (found.successes, found.trials) == (7, 8)
        assert found.lift == pytest.approx(8 / 10 - 1 / 6)
        assert found.lower == pytest.approx(wilson(7, 8)[0])

    def test_then_what_did_better_on_the_same_type_of_task(self, memory: Memory) -> None:
        self.failing(memory)
        attempts(memory, "guess", 2, task="restart", task_type="ops")
        attempts(memory, "ask", 10, task="restart", task_type="ops")
        attempts(memory, "sing", 50, task="party", task_type="leisure")

        # on the type: guess 2 of 6, a mean of 3/8; ask 10 of 10, 11/12
        found = better(memory)
        assert (found.strategy, found.ground) == ("ask", "task type")
        assert (found.successes, found.trials) == (10, 10)
        assert found.lift == pytest.approx(11 / 12 - 3 / 8)
        assert found.lower == pytest.approx(wilson(10, 10)[0])

    def test_one_that_is_not_surely_better_is_none(self, memory: Memory) -> None:
        self.failing(memory)
        attempts(memory, "guess", 3, task_type="ops")  # 3 of 7, a mean of 4/9
        attempts(memory, "plan", 2, task_type="ops")  # 2 of 2, but a bound of .34
        assert wilson(2, 2)[0] < 4 / 9 < wilson(4, 4)[0]
        assert memory.lessons.anti_patterns()[0].better_alternative is None
        attempts(memory, "plan", 2, task_type="ops", feedback="more")
        assert better(memory).strategy == "plan"

    def test_an_agent_reads_alternatives_of_those_alone_that_it_may_read(
        self, memory: Memory
    ) -> None:
        self.failing(memory)
        attempts(memory, "plan", 8, task_type="ops", agent="another")
        assert memory.lessons.anti_patterns()[0].better_alternative is not None
        assert memory.lessons.anti_patterns(agent="default")[0].better_alternative is None

        memory.scopes.set("another", share_with=["default"])
        memory.scopes.set("default", inherit_from=["another"])
        found = some(memory.lessons.anti_patterns(agent="default")[0].better_alternative)
        assert (found.strategy, found.trials) == ("plan", 8)

    def test_the_graph_shows_it_after_consolidating(self, memory: Memory) -> None:
        self.failing(memory)
        attempts(memory, "plan", 8, task_type="ops")
        memory.lessons.consolidate(force=True)

        [found] = memory.query(
            "MATCH (p:AntiPattern)-[o:PREFER]->(s:Strategy) WHERE p.ns = $ns "
            "RETURN s.text AS text, o.lift AS lift, o.trials AS trials, o.successes AS successes, "
            "o.lower AS lower, o.ground AS ground"
        )
        assert found.pop("text") == better(memory).strategy
        assert found == better(memory).model_dump(exclude={"strategy"})


@pytest.mark.timeout(900)
@hypothesis.settings(max_examples=16, phases=SHOWN_AS_FOUND)
@hypothesis.given(data=st.data())
def test_order_and_batches_make_no_difference(
    data: st.DataObject, opened: Opener, still: Clock
) -> None:
    """Nor does the engine: the reference is learned one by one on the embedded one."""
    history: list[Episode] = data.draw(histories())
    memory = opened(f"test-{uuid4().hex}")
    memory.learn_many(data.draw(st.permutations(history)), batch_size=data.draw(st.integers(1, 12)))
    with reference(memory) as alone:
        for episode in history:
            alone._learner.learn(episode, dated=False)
        assert dump(memory) == dump(alone)
        assert answers(memory) == answers(alone)
    checked(memory)


@pytest.mark.timeout(1200)
@hypothesis.settings(max_examples=14, phases=SHOWN_AS_FOUND)
@hypothesis.given(data=st.data())
def test_after_any_calls_the_memory_holds_what_the_facts_say(
    data: st.DataObject, opened: Opener, still: Clock
) -> None:
    """Learn, erase, forget, merge and unmerge; then rebuild, and compare with a memory that
    never knew of what went."""
    memory = opened(f"test-{uuid4().hex}")
    history: list[Episode] = data.draw(histories(4, 16))
    left: dict[str, Episode] = {}
    waiting = list(history)
    for _ in range(data.draw(st.integers(3, 7))):
        action = data.draw(st.sampled_from(["learn", "learn", "erase", "forget", "merge", "part"]))
        texts = sorted({use.text for episode in left.values() for use in episode.strategy})
        if action == "learn" or not left:
            batch, waiting = waiting[:4], waiting[4:]
            memory.learn_many(batch)
            ids = {row.source_key: row.id for row in memory.episodes(limit=99)}
            left |= {ids[episode.source_key]: episode for episode in batch}
        elif action == "erase":
            gone = data.draw(st.sampled_from(sorted(left)))
            memory.upkeep.erase(gone)
            del left[gone]
        elif action == "forget":
            agent = data.draw(st.sampled_from([None, "anna"]))
            below = data.draw(st.sampled_from([None, 0.5]))
            report = memory.upkeep.forget(100, below, agent)
            for gone in report.episode_ids:
                del left[gone]
        elif action == "merge" and len(texts) > 1:
            one, other = data.draw(st.permutations(texts))[:2]
            if not _is_part(memory, one) and not _is_part(memory, other):
                memory.lessons.merge(one, other)
        elif texts:
            memory.lessons.unmerge(data.draw(st.sampled_from(texts)))
        checked(memory)

    before = dump(memory)
    memory.upkeep.rebuild()
    assert dump(memory) == before
    for text in {use.text for episode in left.values() for use in episode.strategy}:
        memory.lessons.unmerge(text)
    with reference(memory) as alone:
        alone.learn_many(left.values())
        assert dump(memory) == dump(alone)


def _is_part(memory: Memory, text: str) -> bool:
    """Whether a strategy was merged into another."""
    rows = memory.query(
        "MATCH (s:Strategy)-[:MERGED_INTO]->() WHERE s.ns = $ns AND s.text = $text RETURN s.id",
        text=text,
    )
    return bool(rows)


# Strategies that a person says are one: they count as one, and that can be undone exactly


def teach(memory: Memory) -> None:
    """Two ways to say "plan", one of which fails with the same error, and something else."""
    ops = {"task_type": "ops", "agent": "anna"}
    attempts(memory, "plan", 3, 1, **ops)
    attempts(memory, "make a plan", 2, 0, **ops)
    attempts(memory, "make a plan", 3, 0, task_type="ops", agent="ben")
    for number in range(2):
        fail(memory, "make a plan", f"timeout after {number} s", **ops, ended_at=day(number))
    fail(memory, "plan", "timeout after 9 s", **ops, ended_at=day(9))
    attempts(memory, "ask", 4, 0, **ops)


def counted(memory: Memory) -> dict[str, tuple[int, int]]:
    return {row.text: (row.trials, row.successes) for row in memory.strategies(limit=100)}


def test_two_strategies_count_as_one(memory: Memory) -> None:
    teach(memory)
    assert counted(memory) == {"plan": (5, 3), "make a plan": (7, 5), "ask": (4, 4)}
    whole = memory.lessons.merge("plan", "make a plan")
    assert counted(memory) == {"plan": (12, 8), "ask": (4, 4)}
    [row] = [row for row in memory.strategies() if row.text == "plan"]
    assert (row.id, row.agents) == (whole, ("anna", "ben"))
    assert row.mean == pytest.approx(9 / 14)
    heuristics = {
        (row.strategy, row.agent): (row.trials, row.successes)
        for row in memory.lessons.heuristics(task_type="ops")
    }
    assert heuristics == {
        ("plan", "anna"): (9, 5),
        ("plan", "ben"): (3, 3),
        ("ask", "anna"): (4, 4),
    }
    [pattern] = memory.lessons.anti_patterns()
    assert (pattern.strategy, pattern.occurrences, pattern.successes) == ("plan", 3, 5)
    assert pattern.example == "timeout after 9 s"
    assert pattern.confidence == pytest.approx(4 / 10)
    assert len(pattern.evidence) == 3
    checked(memory)


def test_alternatives_follow_a_merge_after_consolidation(memory: Memory) -> None:
    attempts(memory, "ask", 8)
    attempts(memory, "look", 3)
    fail(memory, "hope", "timeout after 1 s")
    fail(memory, "hope", "timeout after 2 s")
    memory.lessons.consolidate(force=True)
    before = dump(memory)
    memory.lessons.merge("look", "ask")  # the alternative is now "look", with 11 successes
    checked(memory)
    memory.lessons.unmerge("ask")
    assert dump(memory) == before
    memory.lessons.merge("ask", "hope")  # what was better is the same now
    checked(memory)


@pytest.mark.parametrize("asked", [{"task": "deploy"}, {"task_type": "ops"}, {"agent": "anna"}])
def test_they_count_as_one_where_strategies_are_read(memory: Memory, asked: dict[str, str]) -> None:
    teach(memory)
    apart = {row.text: row for row in memory.strategies(**asked)}  # type: ignore[arg-type]
    memory.lessons.merge("plan", "make a plan")
    together = {row.text: row for row in memory.strategies(**asked)}  # type: ignore[arg-type]
    assert set(together) == {"plan", "ask"}
    assert together["ask"] == apart["ask"]
    for name in ("trials", "successes"):
        assert getattr(together["plan"], name) == sum(
            getattr(apart[text], name) for text in ("plan", "make a plan")
        )


def test_every_answer_takes_them_for_one(opened: Opener, still: Clock) -> None:
    memory = opened(embedder="hashing")
    for number, (text, outcomes) in enumerate((("plan", (2, 1)), ("make a plan", (2, 0)))):
        attempts(memory, text, *outcomes, task_type="ops")
        attempts(memory, text, 1, task=f"another {number}", task_type="ops")
        for _ in range(2):
            fail(memory, text, f"timeout after {number} s", task="restart", task_type="ops")

    def read() -> list[Any]:
        told = memory.predict("deploy", "plan")
        context = memory.context("deploy", max_tokens=500)
        return [told.basis.strategies, memory.recall("deploy it").items, context]

    apart = read()
    whole = memory.lessons.merge("plan", "make a plan")
    for name in ("plan", "make a plan", whole):
        found = memory.explain(name)
        assert (found.text, found.why.successes, found.why.trials) == ("plan", 6, 9)
        assert [near.text for near in found.neighbours if near.relation == "merged"] == [
            "make a plan"
        ]
        [told] = memory.predict("deploy", name).basis.strategies
        assert (told.trials, told.here_trials) == (9, 5)
    [[part], items, context] = read()
    assert (part.trials, part.here_trials, part.here_successes) == (9, 5, 4)
    [item] = [item for item in items if item.kind == "strategy"]
    assert (item.text, item.trials, item.near_trials) == ("plan", 9, 5)
    assert "- likely: 4 of 5 here: plan" in context.splitlines()
    [heuristic] = memory.lessons.heuristics("ops")
    assert (heuristic.trials, heuristic.successes) == (9, 6)
    for agent in (None, "default"):
        assert memory.choose("sing a song", seed=1, agent=agent).candidates.keys() == {"plan"}
    memory.lessons.unmerge("plan")
    assert read() == apart


def test_what_neither_reaches_alone_both_reach_together(memory: Memory) -> None:
    attempts(memory, "plan", 2)
    attempts(memory, "make a plan", 1)
    assert memory.lessons.heuristics() == []
    fail(memory, "plan", "timeout after 1 s", task="restart")
    fail(memory, "make a plan", "timeout after 2 s", task="restart")
    assert memory.lessons.anti_patterns() == []
    memory.lessons.merge("plan", "make a plan")
    assert [(row.strategy, row.trials) for row in memory.lessons.heuristics()] == [("plan", 5)]
    assert [row.occurrences for row in memory.lessons.anti_patterns()] == [2]


def test_ids_are_taken_as_texts_are(memory: Memory) -> None:
    teach(memory)
    ids = {row.text: row.id for row in memory.strategies()}
    assert memory.lessons.merge(ids["plan"], ids["make a plan"]) == ids["plan"]
    assert memory.lessons.unmerge(ids["make a plan"]) == 1
    assert memory.lessons.merge(" plan ", "make a plan") == ids["plan"]


class TestRefusals:
    def test_what_is_one_already(self, memory: Memory) -> None:
        teach(memory)
        before = dump(memory)
        with pytest.raises(ValidationError, match=r"^other: is the same strategy .*name two"):
            memory.lessons.merge("plan", "plan")
        assert dump(memory) == before
        memory.lessons.merge("plan", "make a plan")
        before = dump(memory)
        for one, other, field in (
            ("plan", "make a plan", "other"),
            ("ask", "make a plan", "other"),
            ("make a plan", "ask", "strategy"),
            ("make a plan", "plan", "strategy"),
        ):
            with pytest.raises(ValidationError, match="unmerge") as caught:
                memory.lessons.merge(one, other)
            assert caught.value.field == field
        assert dump(memory) == before

    def test_what_is_not_known(self, memory: Memory) -> None:
        teach(memory)
        for call in (
            lambda: memory.lessons.merge("plan", "dance"),
            lambda: memory.lessons.merge("dance", "plan"),
            lambda: memory.lessons.unmerge("dance"),
        ):
            with pytest.raises(NotFoundError, match="no strategy 'dance' in namespace"):
                call()


def test_erasing_the_last_of_the_whole_releases_its_parts(memory: Memory) -> None:
    attempts(memory, "make a plan", 3)
    attempts(memory, "ask", 3)
    before = dump(memory)
    [only] = attempts(memory, "plan", 1, agent="ben")
    memory.lessons.merge("plan", "make a plan")
    memory.lessons.merge("plan", "ask")
    assert "Strategy" in memory.upkeep.erase(only).removed
    assert dump(memory) == before
    assert counted(memory) == {"make a plan": (3, 3), "ask": (3, 3)}
    checked(memory)


def test_verify_finds_a_merge_that_was_tampered_with(memory: Memory) -> None:
    teach(memory)
    memory.lessons.merge("plan", "make a plan")
    tamper(
        memory, "MATCH (s:Strategy) WHERE s.ns = $ns AND s.text = 'plan' SET s.merged_into = null"
    )
    [difference] = memory.verify().differences
    assert (difference.kind, difference.field) == ("strategies", "merged_into")
