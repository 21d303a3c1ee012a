"""What another way to choose would have got, where the right answer is known."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from graphmem import Memory, StrategyUse
from graphmem.advice.calibrate import Calibrator, History
from graphmem.advice.strengths import DEFAULTS
from graphmem.errors import NotFoundError, ValidationError
from graphmem.models.advice import Estimate, Evaluation
from graphmem.search.similarity import Similarity
from tests.conftest import Opener

CHANCES = {"ask": 0.5, "wait": 0.3, "guess": 0.2}
RATES = {
    **{("refund", text): rate for text, rate in zip(CHANCES, (0.9, 0.6, 0.3), strict=True)},
    **{("bake bread", text): rate for text, rate in zip(CHANCES, (0.2, 0.5, 0.7), strict=True)},
}
TASKS = ("refund", "bake bread")


def log(count: int, seed: int, chances: dict[str, float] = CHANCES) -> list[dict[str, Any]]:
    """Episodes whose strategies are drawn by given chances."""
    draw = random.Random(seed)
    episodes = []
    for number in range(count):
        task = draw.choice(TASKS)
        [taken] = draw.choices(list(chances), list(chances.values()))
        use = StrategyUse(taken, explore="own", candidates=chances)
        won = draw.random() < RATES[task, taken]
        key = f"{seed}/{number}"
        episodes.append({"task": task, "strategy": use, "success": won, "source_key": key})
    return episodes


def told(found: Evaluation) -> dict[str, Estimate]:
    names = ("inverse_propensity", "self_normalised", "doubly_robust")
    return {name: getattr(found, name) for name in names}


def test_the_numbers_by_hand(memory: Memory) -> None:
    """Each episode is predicted from those before it, by what `predict` says at that time."""
    rows = []
    for number, episode in enumerate(log(30, seed=2)):
        means = {
            text: memory.predict(episode["task"], text).probability for text in sorted(CHANCES)
        }
        best = [text for text in means if means[text] >= max(means.values()) - 1e-12]
        taken = episode["strategy"].text
        weight = (taken in best) / len(best) / CHANCES[taken]
        hoped = sum(means[text] for text in best) / len(best)
        rows.append((weight, episode["success"], hoped, means[taken]))
        memory.learn(**episode)
        assert number == len(rows) - 1
    found = memory.evaluate("greedy")
    weights = [row[0] for row in rows]
    assert found.inverse_propensity.value == pytest.approx(sum(w * r for w, r, _, _ in rows) / 30)
    assert found.self_normalised.value == pytest.approx(
        sum(w * r for w, r, _, _ in rows) / sum(weights)
    )
    assert found.doubly_robust.value == pytest.approx(
        sum(hoped + w * (r - own) for w, r, hoped, own in rows) / 30
    )
    assert found.effective == pytest.approx(sum(weights) ** 2 / sum(w * w for w in weights))
    assert found.largest_weight == max(weights)
    assert found.got == pytest.approx(sum(row[1] for row in rows) / 30)
    for one in told(found).values():
        assert one.gain == pytest.approx(one.value - found.got)
        assert one.low <= one.value <= one.high
    assert found == memory.evaluate("greedy")
    assert memory.evaluate("greedy", seed=1) != found
    clipped = memory.evaluate("greedy", clip=1.5)
    assert clipped.inverse_propensity.value == pytest.approx(
        sum(min(w, 1.5) * r for w, r, _, _ in rows) / 30
    )


@pytest.mark.parametrize("dated", [False, True])
def test_the_replayed_belief_is_that_of_a_choice(opened: Opener, dated: bool) -> None:
    memory = opened(relevance_floor=0.99)
    episodes = log(150, seed=3)
    for number, episode in enumerate(episodes):
        if dated:  # at the end, everything fails
            ended = {"ended_at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)}
            episode.update(ended | ({"success": False} if number >= 120 else {}))
    memory.learn_many(episodes)
    calibrator = Calibrator(memory._graph, Similarity(memory._graph))
    history = History({})
    trials = {}
    for trial in calibrator.trials():
        history.add(trial)
        trials[trial.task] = trial
    names = {row["text"]: row["id"] for row in memory.query(NODES)}
    for task in TASKS:
        choice = memory.choose(task, list(CHANCES))
        for one in (choice, *choice.others):
            told = history.judge(trials[names[task]], [names[one.text]], DEFAULTS)
            assert one.probability == pytest.approx(float(told.probability[0]))
            assert one.worth == pytest.approx(float(told.size(told.elsewhere)[0]))


NODES = (
    "MATCH (t:Task) WHERE t.ns = $ns RETURN t.key AS text, t.id AS id UNION ALL "
    "MATCH (s:Strategy) WHERE s.ns = $ns RETURN s.text AS text, s.id AS id"
)


def test_choosing_is_restricted_to_given_strategies(memory: Memory) -> None:
    memory.learn_many(log(200, seed=4))
    alike = memory.evaluate(strategies=["ask", "guess"])
    by_hand = memory.evaluate(lambda task, candidates: {"ask": 0.5, "guess": 0.5})
    assert told(alike) == told(by_hand)
    assert (alike.explore, alike.strategies) == (None, ("ask", "guess"))
    one = memory.evaluate("thompson", strategies="wait")
    assert told(one) == told(memory.evaluate(strategies=["wait", " wait "]))
    seen: set[tuple[str, tuple[str, ...]]] = set()

    def way(task: str, candidates: Any) -> dict[str, float]:
        seen.add((task, candidates))
        return {candidates[0]: 1.0}

    memory.evaluate(way, ["wait", "guess", "unheard of"])
    assert seen == {(task, ("guess", "wait")) for task in TASKS}


def test_what_cannot_be_used_is_left_out_and_counted(memory: Memory) -> None:
    memory.learn_many(log(20, seed=6))
    memory.learn_many(log(11, seed=7, chances={"ask": 0.5, "wait": 0.5}))
    bare = StrategyUse("ask", propensity=0.5)
    idle = StrategyUse("guess", propensity=0.5, applied=False)
    several = [bare, StrategyUse("wait", propensity=0.5)]
    for number in range(3):
        for name, uses in (("bare", [bare, "wait", idle]), ("several", several), ("none", "ask")):
            key = f"{name}/{number}"
            memory.learn("refund", uses, success=True, source_key=key)  # type: ignore[arg-type]
    found = memory.evaluate("greedy")
    assert found.episodes == 31
    assert found.left_out.model_dump() == {
        "no_propensity": 3,
        "several_choices": 3,
        "no_candidates": 3,
        "none_offered": 0,
    }
    fixed = memory.evaluate(strategies="guess")  # 11 had it not; of 3 it is not known
    assert (fixed.episodes, fixed.left_out.none_offered) == (23, 11)
    assert fixed.left_out.no_candidates == 0


def test_candidates_without_a_chance_are_reported(memory: Memory) -> None:
    memory.learn_many(log(30, seed=9, chances={"ask": 0.75, "wait": 0.25, "guess": 0.0}))
    found = memory.evaluate(strategies=["ask", "guess"])
    assert found.unsupported == 0.5
    with pytest.raises(NotFoundError, match="none of 30 episodes took a strategy that this way"):
        memory.evaluate(strategies="guess")


class TestRefusals:
    def test_without_propensities(self, memory: Memory) -> None:
        remedy = r"estimate needs 10 at least; choose with .* StrategyUse\(text, propensity="
        with pytest.raises(NotFoundError, match=f"0 of 0 episodes .* {remedy}"):
            memory.evaluate("greedy")
        for number in range(20):
            use = StrategyUse("ask", propensity=0.5) if number < 4 else "ask"
            memory.learn("refund", use, success=True, source_key=str(number))
        with pytest.raises(NotFoundError, match=f"4 of 20 episodes .* {remedy}"):
            memory.evaluate("greedy")

    def test_without_candidates(self, memory: Memory) -> None:
        for number in range(20):
            use = StrategyUse(["ask", "wait"][number % 2], propensity=0.5)
            memory.learn("refund", use, success=number % 4 == 0, source_key=str(number))
        with pytest.raises(NotFoundError, match=r"0 of 20 .*; give `candidates` with their prob"):
            memory.evaluate("greedy")
        found = memory.evaluate(strategies="ask")  # a fixed one needs no candidates
        assert found.inverse_propensity.value == pytest.approx(0.5)
        assert memory.evaluate(strategies=["ask", "wait"]).effective == pytest.approx(20)

    def test_none_of_the_strategies(self, memory: Memory) -> None:
        memory.learn_many(log(20, seed=1))
        with pytest.raises(NotFoundError, match=r"0 of 20 .*; name strategies that were among"):
            memory.evaluate(strategies="unheard of")

    @pytest.mark.parametrize(
        "answer",
        [
            *(None, 5, {}, {"ask": 0.5}, {"ask": 0.7, "wait": 0.7}, {"other": 1.0}),
            *({"ask": "1"}, {"ask": -0.5, "wait": 1.5}, {"ask": math.nan}, ["ask"]),
        ],
    )
    @pytest.mark.parametrize("engine", ["embedded"])
    def test_a_function_that_returns_no_probabilities(self, memory: Memory, answer: Any) -> None:
        memory.learn_many(log(20, seed=1))
        with pytest.raises(ValidationError, match=r"explore: returned .*; return a dict with"):
            memory.evaluate(lambda task, candidates: answer)


def test_choices_of_the_memory_can_be_evaluated(memory: Memory) -> None:
    """Ask, act, learn, again; then what another way would have got."""
    draw = random.Random(1)
    for number in range(40):
        task = draw.choice(TASKS)
        choice = memory.choose(task, list(CHANCES), seed=number)
        won = draw.random() < RATES[task, choice.text]
        memory.learn(task, choice, success=won, source_key=str(number))
    for way in ("greedy", "thompson", "epsilon", "ucb"):
        found = memory.evaluate(way)
        assert (found.episodes, found.left_out.no_candidates) == (40, 0)
        assert 0.0 <= found.unsupported <= 1.0
    same = memory.evaluate("thompson")
    assert same.effective > 35  # that is how they were chosen, but for the draws
    assert same.largest_weight < 3
    assert abs(same.inverse_propensity.gain) < 0.1
