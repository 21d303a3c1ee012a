"""What a memory recalls for a task: from where, in which order, on what evidence."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from graphmem import Memory
from graphmem.models.advice import Recall, RecallItem
from graphmem.search.embedding import Thresholds
from tests.conftest import Opener
from tests.contract.teaching import some

DAY = datetime(2026, 5, 1, tzinfo=UTC)
CANCELLED = "refund a cancelled flight"
REFUND, SEAT, METER = "refund a flight", "change a seat", "read a meter"
KEYS = itertools.count()
# Each text is an angle; the cosine of two is that of the difference.
ANGLES = {
    CANCELLED: 0,
    REFUND: 20,
    "return the money of a trip": 35,
    SEAT: 60,
    METER: 150,
    "ask first": 70,
    "ask before you do it": 72,
    "guess": 100,
    "hurry": 130,
    "look it up": 160,
}


class Compass:
    """An embedder whose vectors are known: the text's angle on a circle."""

    name = "compass"
    dimensions = 2
    thresholds = Thresholds(similar=0.9, near=0.5, floor=-1.0)

    def embed(self, texts: Sequence[str], /) -> np.ndarray:
        angles = np.deg2rad([ANGLES.get(text, 90.0) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


@pytest.fixture
def compass(opened: Opener) -> Memory:
    """A memory in which all cosines are known."""
    return opened(embed_by=Compass())


def learn(
    memory: Memory, task: str, strategy: str | list[str], *outcomes: bool, **more: object
) -> None:
    given = {"task": task, "strategy": strategy, **more}  # without a time, unless one is given
    memory.learn_many(  # equal attempts are several
        {"success": success, "source_key": str(next(KEYS)), **given} for success in outcomes
    )


def texts(found: Recall) -> list[str]:
    return [item.text for item in found.items]


def item(found: Recall, text: str) -> RecallItem:
    return next(item for item in found.items if item.text == text)


def test_what_worked_on_a_similar_task_comes_first(compass: Memory) -> None:
    learn(compass, REFUND, "ask first", True, True, True)
    learn(compass, REFUND, "guess", False, False, True)
    learn(compass, METER, "look it up", True, True, True)
    found = compass.recall(CANCELLED)
    assert texts(found)[:2] == ["ask first", "guess"]
    best = found.items[0]
    assert best.path == ("text", f"task: {REFUND}", "OUTCOME 3 of 3", "strategy: ask first")
    assert (best.trials, best.successes, best.near_trials, best.near_successes) == (3, 3, 3, 3)
    assert set(best.evidence) == {row.id for row in compass.episodes(strategy="ask first")}
    assert [task.text for task in found.tasks] == [REFUND]  # the meter is at more than 90 degrees
    assert found.tasks[0].relevance == best.relevance


def test_the_score_by_hand(compass: Memory) -> None:
    """The example of docs/explanation/recall.md: every number of one item."""
    learn(compass, REFUND, "ask first", True, True, True, False, ended_at=DAY)
    learn(compass, REFUND, "guess", False, ended_at=DAY)
    learn(compass, SEAT, "guess", True, True, ended_at=DAY)
    found = compass.recall(CANCELLED, at=DAY + timedelta(days=90))
    ask, guess = item(found, "ask first"), item(found, "guess")
    told = compass.predict(CANCELLED, "ask first")
    refund, seat = math.cos(math.radians(20)) ** 2, math.cos(math.radians(60)) ** 2
    assert (ask.relevance, guess.relevance) == pytest.approx((refund, seat), abs=1e-6)
    assert ask.mean == told.probability
    assert (ask.near_trials, ask.near_successes, ask.here_trials) == (4, 3, 0)
    assert ask.freshness == pytest.approx(0.5)  # one half-life of 90 days
    assert ask.score == pytest.approx(refund * ask.lower * 0.5, abs=1e-6)
    assert ask.last_at == DAY
    assert guess.path == ("text", f"task: {SEAT}", "OUTCOME 2 of 2", "strategy: guess")


def test_what_is_expected_is_what_a_prediction_says(compass: Memory) -> None:
    """On known and new tasks, for all and for one agent, after strategies were merged, too."""
    for agent, others in (("ada", [True, False]), ("grace", [False, False, True])):
        learn(compass, REFUND, "ask first", *others, agent=agent, task_type="airline")
        learn(compass, SEAT, "guess", *others, agent=agent)
        learn(compass, METER, ["look it up", "hurry"], *others, agent=agent)
    learn(compass, REFUND, "ask before you do it", True, True, agent="ada")
    for merged in (False, True):
        if merged:
            compass.lessons.merge("ask first", "ask before you do it")
        for text in (REFUND, "return the money of a trip"):
            for reader in (None, "ada"):
                found = compass.recall(text, agent=reader).items
                assert found
                for one in found:
                    told = compass.predict(text, one.text, reader)
                    [part] = told.basis.strategies
                    assert one.mean == pytest.approx(told.probability, rel=1e-12)
                    names = [f"{a}{b}" for a in NESTED for b in ("trials", "successes")]
                    assert [getattr(one, name) for name in names] == [
                        getattr(part, name) for name in names
                    ]
    best = item(compass.recall(REFUND), "ask first")
    assert best.said == "about as often as not: 4 of 7 here"


NESTED = ("here_", "near_", "type_", "")


def test_what_failed_on_all_near_tasks_is_not_first(compass: Memory) -> None:
    """Also where it is nearer, and newer, than what is expected to do better."""
    long_after = DAY + timedelta(days=700)
    learn(compass, CANCELLED, "guess", False, False, ended_at=long_after)
    learn(compass, METER, "guess", *[True] * 5, ended_at=long_after)
    learn(compass, SEAT, "ask first", *[True] * 9, ended_at=DAY)
    found = compass.recall(CANCELLED, at=long_after)
    assert texts(found) == ["ask first", "guess"]
    assert found.items[0].score == found.items[1].score
    assert found.items[0].mean > found.items[1].mean


def test_a_strategy_is_found_by_its_own_words_too(compass: Memory) -> None:
    learn(compass, METER, "ask first", True)
    found = item(compass.recall(CANCELLED, max_hops=0), "ask first")
    assert found.path == ("text", "strategy: ask first")
    assert found.relevance == pytest.approx(math.cos(math.radians(70)) ** 2, abs=1e-6)
    assert (found.near_trials, found.trials) == (0, 1)
    assert len(found.evidence) == 1
    learn(compass, REFUND, "hurry", True)  # more than a right angle from the question
    assert "hurry" not in texts(compass.recall(CANCELLED, max_hops=0))
    assert "hurry" in texts(compass.recall(CANCELLED))


FLIGHTS = (
    (CANCELLED, "ask first", "guess"),
    ("change a seat on a flight", "look it up", "guess"),
    ("add a suitcase to a booking", "ask first", "hurry"),
)


@pytest.fixture(params=["hashing", "minilm"])
def flights(request: pytest.FixtureRequest, opened: Opener) -> Memory:
    """A memory of flights, with each embedder of graphmem's own."""
    memory = opened(embedder=request.param)
    for task, works, fails in FLIGHTS:
        learn(memory, task, works, True, True, True)
        learn(memory, task, fails, False, False, error="TimeoutError: no answer")
    return memory


@pytest.mark.parametrize("asked", ["quantum physics", "the plot of Hamlet"])
def test_below_the_floor_nothing_is_recalled(flights: Memory, asked: str) -> None:
    found = flights.recall(asked)
    assert (found.items, found.warnings, found.tasks) == ((), (), ())
    nearest = some(found.nearest)
    assert nearest.text in {task for task, _, _ in FLIGHTS}
    assert nearest.similarity < some(found.floor)
    assert nearest.relevance == max(0.0, nearest.similarity) ** 2


@pytest.mark.parametrize(
    "asked",
    [
        CANCELLED,
        "REFUND a cancelled  flight!",
        "refund a canceled fligth",
        "refnd a cancelled flight",
        "refund flight",
        "refund",
    ],
)
def test_own_wording_typos_and_short_questions_are_relevant(flights: Memory, asked: str) -> None:
    found = flights.recall(asked)
    assert texts(found)[0] == "ask first"
    assert found.nearest == found.tasks[0]
    assert found.nearest.text == CANCELLED


def test_the_floor_can_be_set(compass: Memory, opened: Opener) -> None:
    learn(compass, REFUND, "ask first", True, True)
    learn(compass, SEAT, "guess", True)
    for floor, tasks in ((0.6, [REFUND]), (0.4, [REFUND, SEAT]), (0.99, []), (1.0, [])):
        memory = opened(embed_by=Compass(), relevance_floor=floor)
        found = memory.recall(CANCELLED)
        assert [task.text for task in found.tasks] == tasks
        assert (found.floor, bool(found.items)) == (floor, bool(tasks))
        assert memory.recall(REFUND).tasks[0].text == REFUND, "its own words are always enough"


def test_further_steps_lead_to_what_is_linked(compass: Memory) -> None:
    """From a task to what was tried on it, and from there to what was used together with it."""
    for number in range(25):  # enough tasks that the search does not find all
        ANGLES[f"other {number}"] = 95
        learn(compass, f"other {number}", "look it up", True)
    learn(compass, REFUND, "hurry", True)
    learn(compass, METER, ["hurry", "look it up again"], True)
    ANGLES["look it up again"] = 170
    one = compass.recall(CANCELLED, limit=50, max_hops=1)
    assert "look it up again" not in texts(one)
    two = compass.recall(CANCELLED, limit=50)
    far, near = item(two, "look it up again"), item(two, "hurry")
    assert far.path == (*near.path, "CO_OCCURS_WITH 0.50", "strategy: look it up again")
    assert far.relevance == pytest.approx(near.relevance * 0.2 * 0.5)
    assert set(texts(one)) <= set(texts(two))


def test_similar_tasks_are_a_step_apart(compass: Memory) -> None:
    for number in range(25):
        ANGLES[f"aside {number}"] = -30
        learn(compass, f"aside {number}", "guess", False)
    learn(compass, REFUND, "guess", False)
    learn(compass, "return the money of a trip", "look it up", True)
    one = compass.recall(CANCELLED, limit=50, max_hops=1)
    assert "look it up" not in texts(one)
    two = item(compass.recall(CANCELLED, limit=50), "look it up")
    assert two.path[0] == "text"
    assert two.path[2].startswith("SIMILAR_TO 0.9")
    assert two.path[3:] == (
        "task: return the money of a trip",
        "OUTCOME 1 of 1",
        "strategy: look it up",
    )


def test_what_was_not_tried_for_long_counts_less(compass: Memory) -> None:
    learn(compass, REFUND, "ask first", True, True, ended_at=DAY)
    learn(compass, REFUND, "guess", True, True, ended_at=DAY + timedelta(days=180))
    found = compass.recall(CANCELLED, at=DAY + timedelta(days=180))
    assert [round(item.freshness, 6) for item in found.items] == [1.0, 0.25]
    assert texts(found) == ["guess", "ask first"]
    undated = "look it up"
    learn(compass, REFUND, undated, True)
    again = compass.recall(CANCELLED, at=DAY + timedelta(days=999))
    assert item(again, undated).freshness == 1.0  # what has no date does not age
    early = compass.recall(CANCELLED, at=DAY - timedelta(days=1))
    assert {item.freshness for item in early.items} == {1.0}


def test_variety_puts_back_what_says_the_same(
    compass: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn(compass, REFUND, "ask first", True, True, True, True)
    learn(compass, REFUND, "ask before you do it", True, True, True)
    learn(compass, REFUND, "hurry", True, True)
    assert texts(compass.recall(CANCELLED, limit=2)) == ["ask first", "hurry"]
    monkeypatch.setattr("graphmem.advice.recall.VARIETY", 0.0)
    alike = {"ask first", "ask before you do it"}
    assert {*texts(compass.recall(CANCELLED, limit=2))} == alike


def test_warnings_come_with_what_did_better(compass: Memory) -> None:
    learn(compass, REFUND, "guess", False, False, False, error="no booking 12")
    learn(compass, REFUND, "ask first", True, True, True)
    learn(compass, REFUND, "hurry", False, True, True, True, error="late")
    [warning] = compass.recall(CANCELLED).warnings
    assert (warning.strategy, warning.occurrences, warning.successes) == ("guess", 3, 0)
    expected = compass.predict(CANCELLED, "guess").probability
    assert warning.expected == pytest.approx(expected, rel=1e-12)
    assert warning.sentence == (
        "rarely: 0 of 3 on 'refund a flight', like this one; "
        "failed 3 of 3 with 'no booking <number>'"
    )
    assert some(warning.better_alternative).strategy == "ask first"


def test_an_empty_memory_answers_without_a_model(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphmem.search.embedding.open_embedder", None)  # called, it would raise
    found = memory.recall("anything at all")
    assert found == Recall(text="anything at all", items=(), warnings=(), tasks=())


@pytest.mark.parametrize(
    "text",
    ["the of and", "退款 航班", "استرداد ثمن الرحلة", "✈️💸", "x" * 100_000, "'\"\\) OR 1=1 //"],
)
def test_any_text_can_be_asked(opened: Opener, text: str) -> None:
    memory = opened(embedder="hashing")
    learn(memory, REFUND, "ask first", True)
    for found in (memory.recall(text), memory.recall(text, max_hops=4)):
        assert all(0 <= item.relevance <= 1 for item in found.items)


OUTCOMES = st.lists(
    st.tuples(
        st.sampled_from([REFUND, SEAT, METER]),
        st.sampled_from(["ask first", "guess", "hurry", "look it up"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@hypothesis.settings(max_examples=8)
@hypothesis.given(outcomes=OUTCOMES, limit=st.integers(1, 4), hops=st.integers(0, 3))
def test_what_is_recalled_follows_from_the_outcomes(
    opened: Opener, outcomes: list[tuple[str, str, bool]], limit: int, hops: int
) -> None:
    """In any order; every score is what it says, and what is expected to work comes first."""

    def place(item: RecallItem) -> tuple[float, float]:
        known = "too little" not in item.said
        return -round(item.mean, 2) if known else -0.5, -item.lower

    def recalled(given: list[tuple[str, str, bool]]) -> Recall:
        with opened(f"test-{uuid4().hex[:12]}", Compass()) as memory:
            for task, strategy, success in given:
                learn(memory, task, strategy, success)
            return memory.recall(CANCELLED, limit, max_hops=hops)

    found = recalled(outcomes)
    shuffled = recalled(sorted(outcomes))
    assert [(i.text, round(i.score, 9)) for i in found.items] == [
        (i.text, round(i.score, 9)) for i in shuffled.items
    ]
    assert len(found.items) <= limit
    assert all(place(one) <= place(other) for one, other in pairwise(found.items))
    tried = {strategy for _, strategy, _ in outcomes}
    for i in found.items:
        assert i.text in tried
        assert i.score == pytest.approx(i.relevance * i.lower * i.freshness)
        assert 0 <= i.lower <= i.mean <= 1
        assert i.trials == sum(strategy == i.text for _, strategy, _ in outcomes)
        assert i.near_successes <= i.near_trials <= i.trials


def test_a_newer_memory_answers_with_what_came_since(compass: Memory) -> None:
    learn(compass, REFUND, "ask first", True)
    assert texts(compass.recall(CANCELLED)) == ["ask first"]
    learn(compass, REFUND, "guess", True, True)
    assert texts(compass.recall(CANCELLED))[0] == "guess"
    for row in compass.episodes(strategy="guess"):
        compass.upkeep.erase(row.id)
    assert texts(compass.recall(CANCELLED)) == ["ask first"]
