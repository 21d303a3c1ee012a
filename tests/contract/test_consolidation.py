"""General rules: what repeats over tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory
from graphmem.lessons import general_rules as consolidation
from graphmem.models.lessons import ConsolidationReport
from graphmem.text.words import clauses, normalized
from tests.conftest import Opener
from tests.contract.consolidating import DAY, erase, general, learn, numbers
from tests.contract.teaching import graph_of


def derived_and_stored(memory: Memory) -> tuple[Any, Any]:
    return graph_of(memory).view(lambda tx: (consolidation.derive(tx), consolidation.stored(tx)))


class TestDue:
    def test_every_twenty_episodes(self, memory: Memory) -> None:
        assert not memory.lessons.consolidation_due()
        for number in range(20):
            assert memory.lessons.consolidate() == ConsolidationReport(
                due=False, done=False, since=number, every=20
            )
            learn(memory, f"task {number}", 0.9)
        assert memory.lessons.consolidation_due()
        report = memory.lessons.consolidate()
        assert (report.due, report.done, report.since) == (True, True, 20)
        assert not memory.lessons.consolidation_due()


class TestStrategies:
    def test_what_worked_on_several_tasks_becomes_a_rule(self, memory: Memory) -> None:
        for task in ("refund", "rebook", "refund", "cancel"):
            learn(memory, task, 0.9, strategy=["read the rules"])
        assert memory.lessons.consolidate(force=True).created == 1
        [rule] = [rule for rule in memory.lessons.rules() if rule.task is None]
        assert (rule.verdict, rule.text, rule.source) == ("WORKS", "read the rules", "repetition")
        assert (rule.supporting, rule.opposing) == (4, 0)
        assert len(rule.evidence) == 4

    @pytest.mark.parametrize(
        ("episodes", "becomes"),
        [
            ([("a", 0.9), ("b", 0.9), ("a", 0.9), ("b", 0.9)], True),
            ([("a", 0.9), ("b", 0.9), ("a", 0.9)], False),  # 3 of 3 has a lower bound of .44
            ([("a", 0.9)] * 9, False),  # one task
            ([("a", 0.9), ("b", 0.84), ("a", 0.9), ("a", 0.9), ("a", 0.9)], False),
            ([("a", 0.85), ("b", 0.85), ("a", 0.85), ("a", 0.85), ("b", 0.6)], True),
            ([("a", 0.9), ("b", 0.9)] * 3 + [("a", 0.1), ("b", 0.1)], False),  # 6 of 8: .41
            ([("a", 0.9), ("b", 0.9)] * 8 + [("a", 0.1), ("b", 0.1)], True),
        ],
    )
    def test_how_much_it_takes(
        self, memory: Memory, episodes: list[tuple[str, float]], becomes: bool
    ) -> None:
        for task, score in episodes:
            learn(memory, task, score, strategy=["it"])
        memory.lessons.consolidate(force=True)
        assert general(memory) == ({"it": "WORKS"} if becomes else {})


class TestSentences:
    def test_the_same_in_other_case_and_punctuation(self, memory: Memory) -> None:
        learn(memory, "a", 0.9, successes=["Checked all 3 rules!"])
        learn(memory, "b", 0.9, successes=["checked all 3 rules"])
        learn(memory, "c", 0.1, mistakes=["Forgot the bag."])
        learn(memory, "d", 0.1, mistakes=["forgot, the bag"])
        learn(memory, "e", 0.1, mistakes=["only here"])
        memory.lessons.consolidate(force=True)
        # Each is named by its shortest form, the first in the alphabet of these.
        assert general(memory) == {"checked all 3 rules": "WORKS", "Forgot the bag.": "AVOID"}
        assert {rule.supporting for rule in memory.lessons.rules() if rule.task is None} == {2}

    def test_an_episode_counts_once_however_often_it_says_so(self, memory: Memory) -> None:
        learn(memory, "a", 0.9, successes=["Be kind", "be kind!"])
        learn(memory, "b", 0.9, successes=["be kind"])
        memory.lessons.consolidate(force=True)
        [rule] = [rule for rule in memory.lessons.rules() if rule.task is None]
        assert rule.supporting == 2

    def test_what_as_many_episodes_contradict_is_no_rule(self, memory: Memory) -> None:
        for task, score in (("a", 0.9), ("b", 0.9), ("c", 0.1), ("d", 0.1)):
            said = {"successes" if score > 0.5 else "mistakes": ["be quick"]}
            learn(memory, task, score, **said)
        assert memory.lessons.consolidate(force=True).rules == 0

    @pytest.mark.parametrize(
        ("sentence", "common"),
        [
            ("Check  the 3 rules!", "check the 3 rules"),
            ("check_the-12-rules", "check the 12 rules"),
            ("ＣＨＥＣＫ the ³ rules", "check the 3 rules"),  # noqa: RUF001
            ("wait 1.5 s, not 1,5.", "wait 1.5 s not 1,5"),
            ("below −5 or -5, 3-5", "below -5 or -5 3 5"),  # noqa: RUF001
            ("Größe", "grösse"),
            ("?!…", ""),
            ("v2", "v 2"),
        ],
    )
    def test_what_is_common_to_sentences(self, sentence: str, common: str) -> None:
        assert normalized(sentence) == common
        assert normalized(common) == common

    def test_rules_that_differ_innumbers_are_different(self, memory: Memory) -> None:
        for number, task in enumerate("abab"):
            said = "Wait 3 s before trying again" if number < 2 else "Wait 30 s before trying again"
            learn(memory, task, 0.9 if number < 2 else 0.1, **{
                "successes" if number < 2 else "mistakes": [said]
            })  # fmt: skip
        memory.lessons.consolidate(force=True)
        assert general(memory) == {
            "Wait 3 s before trying again": "WORKS",
            "Wait 30 s before trying again": "AVOID",
        }
        text = memory.context("a", max_tokens=400)
        assert "Wait 3 s before trying again" in text
        assert "Wait 30 s before trying again" in text


EPISODES = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from([0.1, 0.6, 0.9]),
        st.sets(st.sampled_from(["go", "wait"])),
        st.lists(st.sampled_from(["Be kind.", "be kind", "Be 1st", "be 2st"]), max_size=2),
        st.lists(st.sampled_from(["be kind!", "hurry"]), max_size=1),
    ),
    min_size=1,
    max_size=14,
)


@hypothesis.settings(max_examples=10)
@hypothesis.given(episodes=EPISODES, data=st.data())
def test_rules_follow_from_the_episodes_alone(
    opened: Opener, episodes: list[Any], data: st.DataObject
) -> None:
    """Whatever their order, and also after some are erased."""
    found = []
    number = next(numbers)
    order = data.draw(st.permutations(range(len(episodes))))
    gone = data.draw(st.sets(st.integers(0, len(episodes) - 1), max_size=3))
    for variant, places in enumerate((range(len(episodes)), order)):
        memory = opened(f"order-{number}-{variant}-{next(numbers)}")
        ids = {}
        for place in places:
            task, score, strategies, successes, mistakes = episodes[place]
            learned = memory.learn_many(
                [
                    {
                        "task": task,
                        "score": score,
                        "strategy": sorted(strategies),
                        "successes": list(dict.fromkeys(successes)),
                        "mistakes": mistakes,
                        "source_key": str(place),
                        "ended_at": DAY + timedelta(hours=place),
                    }
                ]
            )
            assert learned.created == 1
            ids[place] = memory.query(
                "MATCH (e:Episode) WHERE e.ns = $ns AND e.source_key = $key RETURN e.id AS id",
                key=str(place),
            )[0]["id"]
        memory.lessons.consolidate(force=True)
        assert derived_and_stored(memory)[0] == derived_and_stored(memory)[1]
        for place in sorted(gone):
            erase(memory, ids[place])
        derived, stored = derived_and_stored(memory)
        assert (derived or []) == stored
        found.append([{**row, "created_at": 0, "id": 0} for row in sorted(stored, key=_text)])
        for row in found[-1]:
            row["supporting"] = [place["at"] for place in row["supporting"]]
            row["opposing"] = [place["at"] for place in row["opposing"]]
        if len(gone) == len(episodes):
            assert not stored
    assert found[0] == found[1]


def _text(row: dict[str, Any]) -> str:
    return str(row["text"])


class TestSummaries:
    """Of episodes that list no sentence, what repeats in their summaries."""

    def test_what_repeats_in_those_of_high_scores_becomes_a_rule(self, memory: Memory) -> None:
        ids = [
            learn(memory, "triage", 0.9, summary=text)
            for text in (
                "Investigated the auth service first, found that 2 tokens had expired.",
                "investigated the auth service first, then restarted it",
                "Looked at the log; investigated the auth service first!",
            )
        ]
        other = learn(memory, "triage", 0.2, summary="Escalated at once. Restarted it.")
        for number in range(2):
            learn(memory, "triage", 0.2, summary=f"Escalated at once, for reason {number}")
        learn(memory, "triage", 0.6, summary="Escalated at once.")  # neither praised nor blamed
        report = memory.lessons.consolidate(force=True)
        assert general(memory) == {
            "Investigated the auth service first": "WORKS",
            "Escalated at once": "AVOID",
        }
        assert report.rules == 2
        works, avoid = sorted(
            (rule for rule in memory.lessons.rules() if rule.task is None),
            key=lambda rule: rule.verdict,
            reverse=True,
        )
        assert (works.source, works.supporting, works.opposing) == ("summaries", 3, 0)
        assert set(works.evidence) == {*ids}
        assert other in avoid.evidence
        assert "Investigated the auth service first" in memory.context("triage", max_tokens=400)
        assert memory.verify().ok
        memory.upkeep.rebuild()
        assert memory.verify().ok

        memory.upkeep.erase(ids[0])
        assert general(memory) == {"Escalated at once": "AVOID"}
        assert memory.verify().ok

    def test_what_is_said_of_all_says_nothing(self, memory: Memory) -> None:
        for number in range(8):
            learn(memory, "triage", 0.9, summary=f"Started the agent. Run {number} went well.")
        for number in range(2):
            learn(memory, "triage", 0.2, summary=f"Started the agent. Gave up in run {number}.")
        assert memory.lessons.consolidate(force=True).rules == 0
        erased = learn(memory, "triage", 0.2, summary="Lost the connection")
        memory.lessons.consolidate(force=True)  # 8 of 8 went well, 2 of 3 badly
        assert general(memory) == {"Started the agent": "WORKS"}
        memory.upkeep.erase(erased)  # which did not say it
        assert general(memory) == {}
        assert memory.verify().ok

    def test_two_times_are_not_enough_and_listed_sentences_go_before(self, memory: Memory) -> None:
        for task in "ab":
            learn(memory, task, 0.9, summary="asked the owner first")
        for task in "ab":
            said = ["looked it up"]
            learn(memory, task, 0.9, summary="asked the owner first", successes=said)
        memory.lessons.consolidate(force=True)
        assert general(memory) == {"looked it up": "WORKS"}

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("Looked at v1.5 first, then asked.", [
                "Looked at v1.5 first, then asked", "Looked at v1.5 first"]),
            ("Ok. Done!", []),
            ("- Read a.py\n- ran it twice", ["Read a.py", "ran it twice"]),
            ("\u00e9t\u00e9 fini; \u5f00 \u59cb", ["\u00e9t\u00e9 fini", "\u5f00 \u59cb"]),
            ("x " * 400, []),
            ("Waited 3 s and then, tried again: worked well", [
                "Waited 3 s and then, tried again", "Waited 3 s", "tried again", "worked well"
            ]),
        ],
    )  # fmt: skip
    def test_what_a_summary_says(self, text: str, said: list[str]) -> None:
        assert list(clauses(text).values()) == said


class TestEvidence:
    def test_the_latest_five_on_each_side(self, memory: Memory) -> None:
        good = [learn(memory, "ab"[i % 2], 0.9, strategy=["it"]) for i in range(20)]
        bad = [learn(memory, "ab"[i % 2], 0.1, strategy=["it"]) for i in range(7)]
        memory.lessons.consolidate(force=True)
        [row] = derived_and_stored(memory)[1]
        assert [link["episode"] for link in row["supporting"]] == good[:-6:-1]
        assert [link["episode"] for link in row["opposing"]] == bad[:-6:-1]
        assert (row["worked"], row["blamed"]) == (20, 7)
