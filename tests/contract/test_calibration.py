"""How well outcomes are predicted: the history replayed, beside simple predictions."""

from __future__ import annotations

import gzip
import json
import math
import random
from datetime import UTC, datetime
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from graphmem import Episode, Memory
from graphmem.advice.calibrate import places_of, scores

DAY = datetime(2026, 5, 1, tzinfo=UTC)
SQL = Path(__file__).resolve().parents[2] / "seeds" / "logs" / "sql.jsonl.gz"


def test_an_empty_memory_has_nothing_to_measure(memory: Memory) -> None:
    found = memory.calibrate()
    assert (found.episodes, found.brier, found.log_loss, found.auc, found.ece) == (0,) + (None,) * 4
    assert [one.count for one in found.bins] == [0] * 10
    assert all(one.brier is None for one in found.baselines)


def test_each_episode_is_predicted_from_those_before_it(memory: Memory) -> None:
    draw = random.Random(3)
    told, came = [], []
    for number in range(30):
        task = " ".join(draw.sample(["refund", "rebook", "a", "late", "flight"], 3))
        strategy = draw.choice(["ask", "wait"])
        told.append(memory.predict(task, strategy).probability)
        came.append(draw.random() < 0.7)
        memory.learn(task, strategy, success=came[-1], source_key=str(number))
    found = memory.calibrate()
    assert (found.episodes, found.successes) == (30, sum(came))
    pairs = list(zip(told, came, strict=True))
    assert found.brier == pytest.approx(sum((p - won) ** 2 for p, won in pairs) / 30, rel=1e-5)
    loss = -sum(math.log(p if won else 1 - p) for p, won in pairs) / 30
    assert found.log_loss == pytest.approx(loss, rel=1e-5)
    assert sum(one.count for one in found.bins) == 30


def test_it_says_whether_a_simple_rate_predicts_better(memory: Memory) -> None:
    """Where strategies and tasks tell nothing, the rate of all is best."""
    assert memory.calibrate().verdict.endswith("too few to judge predictions")
    draw = random.Random(1)
    memory.learn_many(
        Episode(
            task=f"flip coin {number}",
            strategy=draw.choice("abcdefgh"),
            success=draw.random() < 0.5,
        )
        for number in range(300)
    )
    found = memory.calibrate()
    [best] = [one for one in found.baselines if one.name == "global"]
    assert found.brier is not None
    assert best.brier is not None
    assert best.gain == pytest.approx(best.brier - found.brier)
    assert best.gain is not None
    assert best.gain_error is not None
    assert best.gain < -2 * best.gain_error
    assert found.verdict.startswith(
        "the memory predicts worse than the best simple rate, the rate of all: Brier score "
    )
    assert "; strategies and tasks tell little here: name fewer strategies" in found.verdict


def test_the_baselines_by_hand(memory: Memory) -> None:
    memory.learn_many(  # the order of a batch is kept
        {"task": "refund", "strategy": strategy, "success": success, "source_key": str(number)}
        for number, (strategy, success) in enumerate(
            [("ask", True), ("wait", True), ("ask", False)]
        )
    )
    expected = {
        # The rate of all before each: 1/2, 2/3, 3/4; others are drawn to it with a strength of 2.
        "global": (1 / 2, 2 / 3, 3 / 4),
        "task": (1 / 2, (1 + 4 / 3) / 3, (2 + 3 / 2) / 4),
        "strategy": (1 / 2, 2 / 3, (1 + 3 / 2) / 3),
        "cell": (1 / 2, 2 / 3, (1 + 3 / 2) / 3),
    }
    for one in memory.calibrate().baselines:
        a, b, c = expected[one.name]
        assert one.brier == pytest.approx(((1 - a) ** 2 + (1 - b) ** 2 + c**2) / 3, rel=1e-9)


def test_strategies_that_were_merged_are_one(memory: Memory) -> None:
    for number in range(8):
        name = ["ask", "ask them"][number % 2]
        memory.learn(f"task {number}", name, success=True, source_key=str(number))
    before = memory.calibrate()
    memory.lessons.merge("ask", "ask them")
    after = memory.calibrate()
    one, two = (
        next(base.brier for base in found.baselines if base.name == "strategy")
        for found in (after, before)
    )
    assert one is not None
    assert two is not None
    assert one < two
    assert after.brier != before.brier


def test_episodes_without_strategies_count_for_their_tasks(memory: Memory) -> None:
    memory.learn_many(
        {"task": "easy" if n % 2 else "hard", "strategy": [], "success": n % 2 == 1}
        | {"source_key": str(n)}
        for n in range(20)
    )
    found = memory.calibrate()
    assert found.episodes == 20
    assert found.auc is not None
    assert found.auc > 0.9


@pytest.mark.parametrize("engine", ["embedded"])  # 752 episodes; fewer are measured on both
def test_it_predicts_a_log_better_than_any_simple_rate(memory: Memory) -> None:
    with gzip.open(SQL, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for line in lines:  # only what is predicted from
        line.pop("steps", None)
    memory.learn_many(lines)
    seen: list[tuple[int, int]] = []
    found = memory.calibrate(on_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (752, 752)
    assert found.brier is not None
    assert found.auc is not None
    for one in found.baselines:
        assert one.brier is not None
        assert found.brier < one.brier
        assert one.auc is None or found.auc > one.auc
    assert found.strengths.trials > 752
    [row] = memory.query("MATCH (p:Pooling) WHERE p.ns = $ns RETURN p.trials AS trials")
    assert row["trials"] == found.strengths.trials


PAIRS = st.lists(st.tuples(st.floats(1e-6, 1 - 1e-6), st.booleans()), min_size=1, max_size=40)


@hypothesis.given(pairs=PAIRS)
def test_the_scores_by_their_definitions(pairs: list[tuple[float, bool]]) -> None:
    told = np.array([p for p, _ in pairs])
    came = np.array([float(won) for _, won in pairs])
    brier, loss, auc, ece = scores(told, came).values()
    assert brier == pytest.approx(float(np.mean((told - came) ** 2)))
    assert loss == pytest.approx(
        -sum(math.log(p if won else 1 - p) for p, won in pairs) / len(pairs)
    )
    wins = [p for p, won in pairs if won]
    losses = [p for p, won in pairs if not won]
    if wins and losses:
        right = sum((p > q) + 0.5 * (p == q) for p in wins for q in losses)
        assert auc == pytest.approx(right / (len(wins) * len(losses)))
    else:
        assert auc is None
    gap = 0.0
    for place in range(10):
        held = [
            (p, won) for p, won in pairs if place / 10 <= p and (p < (place + 1) / 10 or place == 9)
        ]
        gap += abs(sum(p - won for p, won in held))
    assert ece == pytest.approx(gap / len(pairs), abs=1e-12)
    assert places_of(np.array([0.0, 0.1, 0.3, 0.999, 1.0])).tolist() == [0, 1, 3, 9, 9]
