"""What is known of domains: sources, contradictions, and what is left when a user is erased."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory
from graphmem.errors import NotFoundError, ValidationError
from graphmem.models import Knowledge
from graphmem.people.preferences import ErasedUser, erase_user
from tests.conftest import Opener
from tests.contract.teaching import graph_of

MONDAY = datetime(2026, 5, 4, 9, tzinfo=UTC)
DAY = timedelta(days=1)


def facts(found: list[Knowledge]) -> list[str]:
    return [one.fact for one in found]


def erase(memory: Memory, user: str) -> ErasedUser:
    return graph_of(memory).transact(lambda tx: erase_user(tx, user))


class TestKnowing:
    @pytest.mark.parametrize(
        ("source", "confidence"),
        [("user_stated", 1.0), ("documented", 0.8), ("observed", 0.8), ("inferred", 0.8)],
    )
    def test_the_source_says_how_sure_it_is(
        self, memory: Memory, source: Any, confidence: float
    ) -> None:
        made = memory.people.know("refunds", "they take five days", source=source, at=MONDAY)
        assert (made.domain, made.fact) == ("refunds", "they take five days")
        assert (made.confidence, made.source_confidence) == (confidence, confidence)
        assert (made.created, made.contested) == (True, False)
        [said] = made.statements
        assert (said.source, said.user, said.at) == (source, None, MONDAY)

    def test_another_source_is_evidence_and_no_second_fact(self, memory: Memory) -> None:
        first = memory.people.know(
            "refunds", "they take five days", source="observed", at=MONDAY + DAY
        )
        second = memory.people.know("refunds", "they take five days", user="ann", at=MONDAY)
        assert second.id == first.id
        [found] = memory.people.knowledge("refunds")
        assert found.confidence == 1.0
        assert [(said.source, said.user, said.confidence) for said in found.statements] == [
            ("user_stated", "ann", 1.0),
            ("observed", None, 0.8),
        ]

    def test_the_same_again_changes_nothing(self, memory: Memory) -> None:
        first = memory.people.know("refunds", "they take five days", user="ann")
        again = memory.people.know("refunds", " they take five days ", user="ann")
        assert again == first.model_copy(update={"created": False})
        assert memory.people.know("refunds", "they take five days").created
        assert memory.people.know("refunds", "they take five days", user="ann", at=MONDAY).created
        assert memory.people.know("seats", "they take five days", user="ann").created

    def test_the_surest_stand_first(self, memory: Memory) -> None:
        memory.people.know("seats", "row 13 is missing", source="inferred")
        memory.people.know("seats", "there are 30 rows")
        memory.people.know("refunds", "they take five days", source="observed")
        assert facts(memory.people.knowledge()) == [
            *("there are 30 rows", "they take five days", "row 13 is missing")
        ]
        assert facts(memory.people.knowledge("seats", limit=1)) == ["there are 30 rows"]
        assert memory.people.knowledge("nothing") == []


class TestContradicting:
    def test_both_sides_show_it_and_lose_by_it(self, memory: Memory) -> None:
        five = memory.people.know("refunds", "they take five days")
        three = memory.people.know("refunds", "they take three days", contradicts=five)
        assert three.created
        assert [other.fact for other in three.contradicts] == ["they take five days"]
        found = {one.fact: one for one in memory.people.knowledge()}
        assert [other.id for other in found["they take five days"].contradicted_by] == [three.id]
        assert {one.confidence for one in found.values()} == {0.5}
        assert {one.source_confidence for one in found.values()} == {1.0}
        assert all(one.contested for one in found.values())

    def test_the_weaker_source_loses_more(self, memory: Memory) -> None:
        sure = memory.people.know("refunds", "five")
        guess = memory.people.know("refunds", "three", source="inferred", contradicts=[sure.id])
        assert guess.confidence == pytest.approx(0.8 * 0.8 / 1.8, rel=1e-12)
        [first, _] = memory.people.knowledge()
        assert first.fact == "five"
        assert first.confidence == pytest.approx(1 / 1.8, rel=1e-12)

    def test_who_contradicts_each_other_both_ways_counts_once(self, memory: Memory) -> None:
        five = memory.people.know("refunds", "five")
        three = memory.people.know("refunds", "three", contradicts=[five])
        both = memory.people.know("refunds", "five", contradicts=three.id)
        assert (both.id, both.created) == (five.id, True)
        assert both.confidence == 0.5
        assert both.contradicts == both.contradicted_by

    def test_a_contradiction_can_be_told_later_and_once(self, memory: Memory) -> None:
        five, three = memory.people.know("refunds", "five"), memory.people.know("refunds", "three")
        assert memory.people.know("refunds", "three", contradicts=five).created
        assert not memory.people.know("refunds", "three", contradicts=[five, five.id]).created
        assert not memory.people.know("refunds", "three").created
        [edge] = memory.query(
            "MATCH (a:Knowledge)-[r:CONTRADICTS]->(b) WHERE a.ns = $ns RETURN a.id AS a, b.id AS b"
        )
        assert edge == {"a": three.id, "b": five.id}

    def test_itself_and_what_is_not_known_are_refused(self, opened: Opener) -> None:
        memory, other = opened(), opened(f"knowledge-{uuid4().hex}")
        five = memory.people.know("refunds", "five")
        with pytest.raises(ValidationError, match="contradicts: is the fact itself"):
            memory.people.know("refunds", "five", contradicts=five)
        foreign = other.people.know("refunds", "four")
        for unknown in ("no such id", foreign.id):
            with pytest.raises(NotFoundError, match=unknown):
                memory.people.know("refunds", "three", contradicts=[five.id, unknown])
        assert facts(memory.people.knowledge()) == ["five"]  # nothing half-written


@hypothesis.settings(max_examples=8)
@hypothesis.given(data=st.data())
def test_the_order_of_arrival_does_not_matter(memory: Memory, data: st.DataObject) -> None:
    """What is known, how sure and by whom is a function of what was stated."""
    said = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["five", "three", "four"]),
                st.sampled_from(["user_stated", "observed"]),
                st.sampled_from(["ann", "bob"]),
                st.integers(0, 1),
                st.none() | st.sampled_from(["five", "three", "four"]),
            ).filter(lambda one: one[0] != one[-1]),
            min_size=1,
            max_size=5,
        )
    )

    def tell(order: list[Any]) -> list[Any]:
        erase(memory, "ann")
        erase(memory, "bob")
        ids = {}
        for fact, source, user, day, _ in order:
            made = memory.people.know(
                "refunds", fact, source=source, user=user, at=MONDAY + day * DAY
            )
            ids[fact] = made.id
        for fact, source, user, day, denied in order:
            if denied in ids:
                moment = MONDAY + day * DAY
                memory.people.know(
                    "refunds", fact, source=source, user=user, at=moment, contradicts=ids[denied]
                )
        return [
            (
                *(one.id, one.confidence, one.contradicts, one.contradicted_by),
                [(said.id, said.source, said.user, said.at) for said in one.statements],
            )
            for one in memory.people.knowledge()
        ]

    assert tell(said) == tell(data.draw(st.permutations(said + said[:1])))


class TestErasingAUser:
    def test_what_others_state_stays(self, memory: Memory) -> None:
        memory.people.know("refunds", "five", user="ann")
        memory.people.know("refunds", "five", source="observed")
        only = memory.people.know("refunds", "three", user="ann")
        memory.people.know("refunds", "four", source="documented", contradicts=only)
        assert erase(memory, "ann") == (1, 0, 2, 1)
        found = {one.fact: one for one in memory.people.knowledge()}
        assert set(found) == {"five", "four"}
        assert (found["five"].confidence, len(found["five"].statements)) == (0.8, 1)
        assert (found["four"].confidence, found["four"].contested) == (0.8, False)
        assert memory.people.know("refunds", "three", source="observed").id == only.id

    def test_a_contradiction_goes_with_the_only_one_who_claimed_it(self, memory: Memory) -> None:
        five = memory.people.know("refunds", "five")
        memory.people.know("refunds", "three", source="observed")
        for user in ("ann", "bob"):
            memory.people.know("refunds", "three", user=user, contradicts=five)
        erase(memory, "ann")
        assert [one.contested for one in memory.people.knowledge()] == [True, True]
        erase(memory, "bob")
        assert [one.contested for one in memory.people.knowledge()] == [False, False]

    def test_the_date_of_what_stays_is_that_of_who_stays(self, memory: Memory) -> None:
        memory.people.know("refunds", "five", user="ann")
        made = memory.people.know("refunds", "five", user="bob")
        erase(memory, "ann")
        [row] = memory.query("MATCH (k:Knowledge) WHERE k.ns = $ns RETURN k.created_at AS at")
        [bob] = [said.recorded_at for said in made.statements if said.user == "bob"]
        assert row["at"] == round(bob.timestamp() * 1000)


def test_many_writers_at_once(opened: Opener) -> None:
    """The same facts from many sides, and an eraser among them: each is there once, with all."""
    memory = opened()
    first = memory.people.know("refunds", "five")

    def tell(number: int) -> None:
        user = f"user {number % 4}"
        memory.people.know("refunds", "three", user=user, contradicts=first)
        if number % 4 == 3:
            erase(memory, user)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(tell, range(12)))
    erase(memory, "user 3")
    found = {one.fact: one for one in memory.people.knowledge()}
    assert set(found) == {"five", "three"}
    assert sorted(said.user or "" for said in found["three"].statements) == [
        *("user 0", "user 1", "user 2")
    ]
    edges = memory.query(
        "MATCH (a:Knowledge)-[r:CONTRADICTS]->() WHERE a.ns = $ns "
        "RETURN count(r) AS claims, count(DISTINCT r.statement) AS different"
    )
    assert edges == [{"claims": 3, "different": 3}]


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("domain", {"domain": " "}),
    ("fact", {"fact": ""}),
    ("fact", {"fact": "x" * 1_000_000}),
    ("source", {"source": "rumour"}),
    ("user", {"user": ""}),
    ("user", {"user": 7}),
    ("contradicts.0", {"contradicts": 7}),
    ("contradicts.1", {"contradicts": ["x", None]}),
    ("contradicts", {"contradicts": ["x"] * 1_001}),
    ("at", {"at": datetime(2026, 5, 4)}),
]


def test_what_is_wrong_is_named(memory: Memory) -> None:
    good: dict[str, Any] = {"domain": "refunds", "fact": "they take five days"}
    for field, given in WRONG:
        with pytest.raises(ValidationError) as caught:
            memory.people.know(**{**good, **given})
        assert caught.value.field == field
    assert memory.people.knowledge() == []
    with pytest.raises(ValidationError, match="limit"):
        memory.people.knowledge(limit=0)
