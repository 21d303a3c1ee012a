"""What users prefer: which is in force, what it supersedes, and how all of it is erased."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory
from graphmem.errors import ValidationError
from graphmem.models import Difference, Preference
from graphmem.people.preferences import ErasedUser, erase_user
from graphmem.store.queries import adhoc
from tests.conftest import Clock, Opener
from tests.contract.teaching import graph_of

MONDAY = datetime(2026, 5, 4, 9, tzinfo=UTC)
DAY = timedelta(days=1)


def texts(found: list[Preference]) -> list[str]:
    return [preference.text for preference in found]


def erase(memory: Memory, user: str) -> ErasedUser:
    return graph_of(memory).transact(lambda tx: erase_user(tx, user))


def chain(memory: Memory) -> list[tuple[str, str]]:
    """Which preference supersedes which, as the graph has it."""
    rows = memory.query(
        "MATCH (a:Preference)-[:SUPERSEDES]->(b:Preference) WHERE a.ns = $ns "
        "RETURN a.text AS newer, b.text AS older ORDER BY newer, older"
    )
    return [(row["newer"], row["older"]) for row in rows]


class TestPreferring:
    @pytest.mark.parametrize(
        ("source", "confidence"),
        [("explicit_instruction", 1.0), ("correction", 0.7), ("inferred", 0.7)],
    )
    def test_the_source_says_how_sure_it_is(
        self, memory: Memory, source: Any, confidence: float
    ) -> None:
        made = memory.people.prefer("ann", "seat", "on the aisle", source=source, at=MONDAY)
        assert (made.user, made.category, made.text) == ("ann", "seat", "on the aisle")
        assert (made.source, made.confidence, made.at) == (source, confidence, MONDAY)
        assert (made.in_force, made.supersedes, made.superseded_by) == (True, None, None)
        assert made.created

    def test_a_newer_one_supersedes_the_older_of_its_category(self, memory: Memory) -> None:
        first = memory.people.prefer("ann", "seat", "on the aisle", at=MONDAY)
        second = memory.people.prefer("ann", "seat", "at the window", at=MONDAY + DAY)
        memory.people.prefer("ann", "meal", "vegan", at=MONDAY)
        memory.people.prefer("bob", "seat", "in the back", at=MONDAY + 2 * DAY)

        assert texts(memory.people.preferences("ann")) == ["vegan", "at the window"]
        now, before = memory.people.preferences("ann", "seat", history=True)
        assert (now.id, now.supersedes, now.in_force) == (second.id, first.id, True)
        assert (before.id, before.superseded_by, before.in_force) == (first.id, second.id, False)
        assert chain(memory) == [("at the window", "on the aisle")]

    def test_what_arrives_late_takes_its_place_in_the_history(self, memory: Memory) -> None:
        memory.people.prefer("ann", "seat", "Monday's", at=MONDAY)
        memory.people.prefer("ann", "seat", "Friday's", at=MONDAY + 4 * DAY)
        late = memory.people.prefer("ann", "seat", "Wednesday's", at=MONDAY + 2 * DAY)
        assert not late.in_force
        assert texts(memory.people.preferences("ann", history=True)) == [
            *("Friday's", "Wednesday's", "Monday's")
        ]
        assert chain(memory) == [("Friday's", "Wednesday's"), ("Wednesday's", "Monday's")]

    def test_the_same_again_changes_nothing(self, memory: Memory) -> None:
        first = memory.people.prefer("ann", "seat", "aisle", at=MONDAY)
        zone = timezone(timedelta(hours=5))
        again = memory.people.prefer(" ann ", "seat", "aisle", at=MONDAY.astimezone(zone))
        assert again == first.model_copy(update={"created": False})
        others = [
            memory.people.prefer("ann", "seat", "aisle", source="correction", at=MONDAY),
            memory.people.prefer("ann", "seat", "aisle", at=MONDAY + DAY),
            memory.people.prefer("ann", "seat", "Aisle", at=MONDAY),
        ]
        assert all(other.created for other in others)
        assert len(memory.people.preferences("ann", history=True)) == 4


class TestWithoutATime:
    def test_it_is_said_now(self, memory: Memory) -> None:
        memory.people.prefer("ann", "seat", "aisle", at=MONDAY - 10_000 * DAY)
        said = memory.people.prefer("ann", "seat", "window")
        assert (said.at, said.in_force) == (None, True)
        assert abs((datetime.now(UTC) - said.recorded_at).total_seconds()) < 60

    def test_the_same_again_changes_nothing_as_long_as_nothing_else_is_said(
        self, memory: Memory
    ) -> None:
        first = memory.people.prefer("ann", "seat", "aisle")
        assert memory.people.prefer("ann", "seat", "aisle").id == first.id
        memory.people.prefer("ann", "seat", "window")
        back = memory.people.prefer("ann", "seat", "aisle")
        assert back.created
        assert texts(memory.people.preferences("ann", history=True)) == ["aisle", "window", "aisle"]

    def test_a_clock_that_is_set_back(self, memory: Memory, clock: Clock) -> None:
        for text, clock.now in (("aisle", 5_000_000), ("window", 1_000_000), ("back", 2_000_000)):
            memory.people.prefer("ann", "seat", text)
        assert texts(memory.people.preferences("ann", history=True)) == ["back", "window", "aisle"]

    def test_what_is_dated_ahead_stays_in_force(self, memory: Memory) -> None:
        ahead = datetime.now(UTC) + 365 * DAY
        memory.people.prefer("ann", "seat", "next year's", at=ahead)
        first = memory.people.prefer("ann", "seat", "aisle")
        again = memory.people.prefer("ann", "seat", "aisle")
        assert (first.in_force, again.id, again.created) == (False, first.id, False)
        assert texts(memory.people.preferences("ann")) == ["next year's"]


SAID = st.tuples(
    st.sampled_from(["seat", "meal"]),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["explicit_instruction", "correction", "inferred"]),
    st.integers(0, 3),
)


@hypothesis.settings(max_examples=8)
@hypothesis.given(said=st.lists(SAID, max_size=7), data=st.data())
def test_the_order_of_arrival_does_not_matter(
    memory: Memory, said: list[tuple[str, str, Any, int]], data: st.DataObject
) -> None:
    """Which is in force is a function of what was said: shuffled, with repetitions, it is equal."""

    def tell(order: list[tuple[str, str, Any, int]]) -> list[tuple[Any, ...]]:
        erase(memory, "ann")
        for category, text, source, day in order:
            memory.people.prefer("ann", category, text, source=source, at=MONDAY + day * DAY)
        history = memory.people.preferences("ann", history=True)
        in_force = memory.people.preferences("ann")
        assert in_force == [one for one in history if one.in_force]
        assert len(in_force) == len({one.category for one in history})
        for one in in_force:
            rivals = [other.at for other in history if other.category == one.category]
            assert one.at == max(filter(None, rivals))
        return [(one.id, one.in_force, one.supersedes, one.superseded_by) for one in history]

    shuffled = data.draw(st.permutations(said + said[:2]))
    assert tell(said) == tell(shuffled)
    assert not memory.verify().differences


def test_many_writers_at_once(opened: Opener) -> None:
    """Each says something of its own and all the same: nothing is lost or there twice."""
    memory = opened()
    memory.upkeep.initialize()

    def tell(number: int) -> tuple[bool, bool]:
        own = memory.people.prefer("ann", "seat", f"seat {number}", at=MONDAY + number * DAY)
        same = memory.people.prefer("ann", "meal", "vegan")
        return own.created, same.created

    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(tell, range(12)))
    assert all(own for own, _ in created)
    assert sum(same for _, same in created) == 1
    history = memory.people.preferences("ann", "seat", history=True)
    assert texts(history) == [f"seat {number}" for number in range(11, -1, -1)]
    assert [one.supersedes for one in history] == [*(one.id for one in history[1:]), None]


class TestDeriving:
    @pytest.fixture(autouse=True)
    def said(self, memory: Memory) -> None:
        for number in range(4):
            memory.people.prefer("ann", "seat", f"seat {number}", at=MONDAY + number * DAY)
        memory.people.prefer("bob", "seat", "any", at=MONDAY)

    def tamper(self, memory: Memory, text: str) -> None:
        query = adhoc(text, mode="write")
        memory.store.transact(lambda tx: tx.run(query, ns=memory.namespace))

    def found(self, memory: Memory) -> tuple[list[Difference], int]:
        """What differs, and how many edges were looked at."""
        report = memory.verify()
        return list(report.differences), report.checked["supersessions"]

    def mended(self, memory: Memory) -> tuple[int, int]:
        report = memory.upkeep.rebuild()
        return report.supersessions, report.removed

    def test_what_is_right_is_left(self, memory: Memory) -> None:
        assert self.found(memory) == ([], 3)
        assert self.mended(memory) == (3, 0)

    def test_an_edge_that_is_gone_is_found_and_mended(self, memory: Memory) -> None:
        self.tamper(
            memory,
            "MATCH (a:Preference)-[r:SUPERSEDES]->() WHERE a.ns = $ns AND a.text = 'seat 2' "
            "DELETE r",
        )
        [found], count = self.found(memory)
        assert count == 3
        assert (found.kind, found.stored, found.expected) == ("supersessions", None, "present")
        assert self.mended(memory) == (3, 0)
        assert self.found(memory) == ([], 3)

    def test_an_edge_that_is_wrong_is_found_and_removed(self, memory: Memory) -> None:
        self.tamper(
            memory,
            "MATCH (a:Preference) WHERE a.ns = $ns AND a.text = 'seat 0' "
            "MATCH (b:Preference) WHERE b.ns = $ns AND b.text = 'seat 3' "
            "CREATE (a)-[:SUPERSEDES]->(b)",
        )
        [found], _ = self.found(memory)
        assert (found.stored, found.expected) == ("present", None)
        assert self.mended(memory) == (3, 1)
        assert texts(memory.people.preferences("ann")) == ["seat 3"]


class TestErasing:
    def test_a_user_leaves_no_trace(self, memory: Memory) -> None:
        memory.people.prefer("ann marker", "seat", "aisle marker", at=MONDAY)
        memory.people.prefer("ann marker", "seat", "window marker")
        memory.people.prefer("bob", "seat", "back")
        kept = memory.people.know("seats", "row 13 is missing")
        memory.people.know("seats", "the marker row is 14", user="ann marker", contradicts=kept)
        assert erase(memory, "ann marker") == (1, 2, 1, 1)
        rows = memory.query(
            "MATCH (n) WHERE n.ns = $ns OPTIONAL MATCH (n)-[r]->() "
            "RETURN n.user AS a, n.name AS b, n.text AS c, n.fact AS d, r.statement AS e"
        )
        assert rows
        assert "marker" not in repr(rows)
        assert texts(memory.people.preferences("bob")) == ["back"]
        assert memory.people.preferences("ann marker", history=True) == []
        assert erase(memory, "ann marker") == (0, 0, 0, 0)

    def test_a_user_of_another_namespace_stays(self, opened: Opener) -> None:
        ours, theirs = opened(), opened(f"preferences-{uuid4().hex}")
        theirs.people.prefer("ann", "seat", "aisle", at=MONDAY)
        assert ours.people.preferences("ann") == []
        assert erase(ours, "ann") == (0, 0, 0, 0)
        assert texts(theirs.people.preferences("ann")) == ["aisle"]
        erase(theirs, "ann")


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("user", {"user": " "}),
    ("user", {"user": None}),
    ("category", {"category": ""}),
    ("category", {"category": 7}),
    ("text", {"text": "\n"}),
    ("text", {"text": "x" * 1_000_000}),
    ("text", {"text": "half of \ud83d"}),
    ("source", {"source": "rumour"}),
    ("source", {"source": None}),
    ("at", {"at": datetime(2026, 5, 4)}),
    ("at", {"at": "yesterday"}),
]


def test_what_is_wrong_is_named(memory: Memory) -> None:
    good: dict[str, Any] = {"user": "ann", "category": "seat", "text": "aisle"}
    for field, given in WRONG:
        with pytest.raises(ValidationError) as caught:
            memory.people.prefer(**{**good, **given})
        assert caught.value.field == field
    assert memory.people.preferences("ann", history=True) == []
