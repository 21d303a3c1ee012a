"""Rules, mistakes and scores: what sentences, cards and episodes of tasks add up to."""

from __future__ import annotations

from typing import Any

import pytest

from graphmem import Memory
from tests.contract.teaching import checked, day

NEVER = 0.7  # a score that makes no rule, either way


def attempt(memory: Memory, score: float, number: int = 0, **more: Any) -> str:
    """Learn an attempt at one task on a day; return the id of its episode."""
    given = {"task": "deploy", "strategy": [], "ended_at": day(number), **more}
    return memory.learn(score=score, **given).episode_id


def shown(memory: Memory, *asked: Any, **more: Any) -> list[str]:
    return [str(rule) for rule in memory.lessons.rules(*asked, **more)]


class TestRules:
    @pytest.mark.parametrize(
        ("score", "rules"),
        [
            (1.0, {"[WORKS] read first"}),
            (0.85, {"[WORKS] read first"}),
            (0.849, set()),
            (0.5, set()),
            (0.499, {"[AVOID] hurry"}),
            (0.0, {"[AVOID] hurry"}),
        ],
    )
    def test_high_scores_praise_and_low_scores_blame(
        self, memory: Memory, score: float, rules: set[str]
    ) -> None:
        attempt(memory, score, successes=["read first"], mistakes=["hurry"])
        assert set(shown(memory, "deploy")) == set(shown(memory)) == rules

    def test_a_wording_of_several_tasks_means_all_of_them(self, memory: Memory) -> None:
        """So it is for all that asks by a task: strategies, rules, scores, predictions."""
        wording = "book a flight"
        for key in ("a", "b"):
            episode = {"task": wording, "task_key": key, "strategy": [key], "score": 0.9}
            memory.learn_many([{**episode, "successes": [f"ask {key}"]}])
        assert {row.text for row in memory.strategies(task=wording)} == {"a", "b"}
        assert set(shown(memory, wording)) == {"[WORKS] ask a", "[WORKS] ask b"}
        assert set(shown(memory, wording, agent="default")) == {"[WORKS] ask a", "[WORKS] ask b"}
        assert len(memory.episodes(wording)) == 2
        assert memory.predict(wording, "a").basis.task.trials == 2
        assert "(2 episodes)" in memory.context(wording, max_tokens=500)
        assert shown(memory, "a") == ["[WORKS] ask a"]

    def test_a_rule_has_its_evidence(self, memory: Memory) -> None:
        ids = [attempt(memory, 0.9, number, successes=["read first"]) for number in range(7)]
        attempt(memory, NEVER, 7, successes=["read first"])

        [rule] = memory.lessons.rules("deploy")
        assert (rule.verdict, rule.text, rule.task) == ("WORKS", "read first", "deploy")
        assert (rule.source, rule.supporting, rule.opposing) == ("episodes", 7, 0)
        assert rule.confidence == pytest.approx(8 / 9)
        assert (rule.first_at, rule.last_at) == (day(0), day(7))
        assert len(rule.evidence) == 5
        assert set(ids[3:]) < set(rule.evidence)
        assert memory.lessons.rules("another") == []

    def test_rules_are_of_a_task(self, memory: Memory) -> None:
        attempt(memory, 0.9, 0, successes=["read first"])
        attempt(memory, 0.1, 1, task="restart", mistakes=["read first"])
        attempt(memory, 0.1, 2, task="in other words", task_key="restart", mistakes=["hurry"])
        assert shown(memory, "deploy") == ["[WORKS] read first"]
        assert shown(memory, "restart") == ["[AVOID] hurry", "[AVOID] read first"]
        assert len(shown(memory)) == 3

    @pytest.mark.parametrize("listed", ["successes", "mistakes"])
    def test_a_contradiction_takes_it_back_and_new_support_brings_it_again(
        self, memory: Memory, listed: str
    ) -> None:
        attempt(memory, 0.9, 0, successes=["read first"])
        attempt(memory, 0.2, 1, **{listed: ["read first"]})
        assert memory.lessons.rules("deploy") == memory.lessons.rules() == []

        attempt(memory, 0.9, 2, successes=["read first"])
        [rule] = memory.lessons.rules("deploy")
        assert (rule.supporting, rule.opposing) == (2, 1)
        assert rule.confidence == pytest.approx(3 / 5)
        checked(memory)

    def test_an_episode_counts_once_whatever_it_lists_twice(self, memory: Memory) -> None:
        attempt(memory, 0.9, successes=["read first", "read first"], mistakes=["read first"])
        [rule] = memory.lessons.rules("deploy")
        assert (rule.verdict, rule.supporting, rule.opposing) == ("WORKS", 1, 0)
        checked(memory)

    def test_the_newest_ten_of_a_task_are_shown(self, memory: Memory) -> None:
        for number in (5, 1, 11, 3, 0, 7, 9, 2, 8, 4, 10, 6):
            attempt(memory, 0.9, number, successes=[f"rule {number}"])
        newest = [f"[WORKS] rule {number}" for number in range(11, 1, -1)]
        assert shown(memory, "deploy") == newest
        assert shown(memory, "deploy", limit=3) == newest[:3]
        assert len(shown(memory, "deploy", limit=50)) == len(shown(memory)) == 12
        attempt(memory, 0.9, 20, successes=["rule 0"])  # supported anew: the newest
        assert shown(memory, "deploy")[0] == "[WORKS] rule 0"

    def test_all_rules_come_best_supported_first(self, memory: Memory) -> None:
        attempt(memory, 0.9, 9, task="restart", successes=["once"])
        for number in range(3):
            attempt(memory, 0.9, number, successes=["thrice"])
        attempt(memory, 0.1, 5, mistakes=["thrice"])
        for number in (6, 7):
            attempt(memory, 0.1, number, mistakes=["twice"])
        assert shown(memory) == ["[AVOID] twice", "[WORKS] thrice", "[WORKS] once"]


CARD = {"type": "skipped a check", "worker": "w", "correct_decision": "check"}


class TestMistakes:
    def test_cards_with_the_same_key_are_one_mistake(self, memory: Memory) -> None:
        first = attempt(memory, NEVER, 0, mistake_cards=[{**CARD, "evidence": "a", "lesson": "A"}])
        last = attempt(memory, NEVER, 2, mistake_cards=[{**CARD, "evidence": "c", "lesson": "C"}])
        attempt(memory, NEVER, 1, mistake_cards=[{**CARD, "evidence": "b", "lesson": "B"}])

        [mistake] = memory.lessons.mistakes()
        assert (mistake.type, mistake.worker) == ("skipped a check", "w")
        assert (mistake.correct_decision, mistake.task) == ("check", "deploy")
        assert mistake.seen == 3
        assert (mistake.evidence, mistake.lesson) == ("c", "C")
        assert (mistake.first_episode, mistake.last_episode) == (first, last)
        assert (mistake.first_at, mistake.last_at) == (day(0), day(2))

    def test_every_part_of_the_key_counts(self, memory: Memory) -> None:
        other = {"type": "x", "task": "x", "worker": "x", "correct_decision": "x"}
        attempt(
            memory,
            NEVER,
            mistake_cards=[CARD, *({**CARD, name: value} for name, value in other.items())],
        )
        attempt(memory, NEVER, 1, mistake_cards=[{**CARD, "task": "deploy"}])  # the episode's own
        assert sorted(mistake.seen for mistake in memory.lessons.mistakes()) == [1, 1, 1, 1, 2]
        assert [found.seen for found in memory.lessons.mistakes(task="x")] == [1]
        assert len(memory.lessons.mistakes(task="deploy")) == 4
        assert [found.worker for found in memory.lessons.mistakes(worker="x")] == ["x"]

    def test_evidence_and_lesson_are_cut_and_the_card_is_kept(self, memory: Memory) -> None:
        long = "0123456789" * 100
        attempt(memory, NEVER, mistake_cards=[{**CARD, "evidence": long, "lesson": long}])
        [mistake] = memory.lessons.mistakes()
        assert mistake.evidence == mistake.lesson == long[:300]
        [kept] = memory.query(
            "MATCH (e:Episode)-[k:MADE]->(:Mistake) WHERE e.ns = $ns RETURN k.evidence AS evidence"
        )
        assert kept["evidence"] == long
        checked(memory)

    @pytest.mark.parametrize("agent", [None, "default"])
    def test_sentences_of_better_runs_come_after_the_cards_and_are_weak(
        self, memory: Memory, agent: str | None
    ) -> None:
        """Those of runs under .5 are rules; a rule, or more praise than blame, is no mistake."""
        first = attempt(memory, 0.82, 0, mistakes=["escalated early"], mistake_cards=[CARD])
        last = attempt(memory, 0.6, 2, mistakes=["escalated early", "hurried", "read first"])
        attempt(memory, 0.9, 3, successes=["read first"], mistakes=["talked"])
        attempt(memory, 0.4, 4, mistakes=["hurried"])
        card, early, talked = memory.lessons.mistakes("deploy", agent=agent)
        assert [card.type, early.type, talked.type] == [CARD["type"], "escalated early", "talked"]
        assert [card.weak, early.weak, talked.weak] == [False, True, True]
        assert (early.seen, early.first_episode, early.last_episode) == (2, first, last)
        assert (early.first_at, early.last_at) == (day(0), day(2))
        assert memory.lessons.mistakes(worker="w", agent=agent) == [card]
        assert memory.lessons.mistakes("another", agent=agent) == []
        told = memory.context("deploy", agent=agent, max_tokens=500).splitlines()
        assert told[3:-1] == [
            *("works on this task:", "- 1 of 1: read first"),
            *("avoid on this task:", "- 1 of 1: hurried", "mistakes made before:"),
            *("- 1x: skipped a check", "  instead: check"),
            *("- 2x, weaker: escalated early", "- 1x, weaker: talked"),
        ]

    def test_often_seen_comes_first_then_the_latest(self, memory: Memory) -> None:
        def cards(*types: str) -> list[dict[str, str]]:
            return [{"type": name} for name in types]

        attempt(memory, NEVER, 1, mistake_cards=cards("old", "often"))
        attempt(memory, NEVER, 3, mistake_cards=cards("new"))
        attempt(memory, NEVER, 2, mistake_cards=cards("often", "between"))
        assert [found.type for found in memory.lessons.mistakes()] == [
            "often",
            "new",
            "between",
            "old",
        ]
        assert [found.type for found in memory.lessons.mistakes(limit=2)] == ["often", "new"]

    def test_thirty_are_shown_and_none_is_deleted(self, memory: Memory) -> None:
        for number in range(35):
            attempt(memory, NEVER, number, mistake_cards=[{"type": f"mistake {number}"}])
        assert [found.type for found in memory.lessons.mistakes()] == [
            f"mistake {number}" for number in range(34, 4, -1)
        ]
        assert len(memory.lessons.mistakes(limit=1_000)) == 35

    @pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
    def test_a_later_card_that_says_nothing_leaves_what_was_said(
        self, memory: Memory, order: tuple[int, ...]
    ) -> None:
        said: list[dict[str, str]] = [
            {"evidence": "log line 7", "lesson": "look twice", "bad_decision": "approve"},
            {"lesson": "look three times"},
            {"evidence": "", "bad_decision": "approve at once"},
            {},
        ]
        for number in order:
            attempt(memory, NEVER, number, mistake_cards=[{**CARD, **said[number]}])
        [mistake] = memory.lessons.mistakes()
        [own] = memory.lessons.mistakes(agent="default")
        assert own == mistake
        assert (mistake.seen, mistake.last_at) == (4, day(3))
        assert (mistake.evidence, mistake.lesson) == ("log line 7", "look three times")
        assert mistake.bad_decision == "approve at once"
        checked(memory)


def test_all_scores_are_kept_and_the_latest_are_found_without_the_others(memory: Memory) -> None:
    for number in (*range(0, 40, 2), *range(1, 41, 2)):
        attempt(memory, number / 40, number, summary=f"day {number}")
    attempt(memory, 1.0, 5, task="another")
    scores = [row.score for row in memory.episodes("deploy", limit=99)]
    assert scores == [number / 40 for number in range(39, -1, -1)]
    [task] = [row.id for row in memory.tasks() if row.key == "deploy"]
    everything = memory.query("lessons.scores", tasks=[task])
    assert [row["score"] for row in everything] == scores
    assert memory.query("lessons.recent", tasks=[task]) == everything[:20]
    [linked] = memory.query(
        "MATCH (t:Task)-[r:RECENT]->() WHERE t.ns = $ns RETURN count(r) AS edges"
    )
    assert 20 <= linked["edges"] < 40  # what is beyond the latest is cut off now and then
    checked(memory)
