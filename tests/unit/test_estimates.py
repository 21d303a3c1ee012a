"""The estimates of another way to choose, on simulated choices whose value is known."""

from __future__ import annotations

import math
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from graphmem.advice.choose import Chances, probabilities
from graphmem.advice.evaluate import Asked, Numbers, estimated
from graphmem.advice.formula import Belief
from graphmem.errors import NotFoundError
from graphmem.models.advice import Evaluation, LeftOut

NONE = LeftOut(no_propensity=0, several_choices=0, no_candidates=0, none_offered=0)
LOGGED = np.array([0.5, 0.3, 0.15, 0.05])
TARGET = np.array([0.1, 0.2, 0.3, 0.4])
RATES = np.array([[0.1, 0.3, 0.5, 0.7], [0.9, 0.6, 0.8, 0.4]])
TRUTH = float((RATES @ TARGET).mean())
WRONG = 0.8 * RATES + 0.15  # a model of outcomes that is near the truth, but not it
NAMES = ("inverse_propensity", "self_normalised", "doubly_robust")


def asked(seed: int = 0, resamples: int = 200) -> Asked:
    return Asked(explore="greedy", seed=seed, resamples=resamples)


def simulated(count: int, seed: int) -> list[Numbers]:
    """Choices by LOGGED in two situations, weighed for TARGET."""
    rng = np.random.default_rng(seed)
    where = rng.integers(2, size=count)
    taken = rng.choice(4, size=count, p=LOGGED)
    success = rng.random(count) < RATES[where, taken]
    return list(
        zip(
            success.astype(float).tolist(),
            (TARGET[taken] / LOGGED[taken]).tolist(),
            (WRONG @ TARGET)[where].tolist(),
            WRONG[where, taken].tolist(),
            [0.0] * count,
            strict=True,
        )
    )


def test_the_mean_of_estimates_is_the_truth_and_intervals_cover_it() -> None:
    found = [estimated(asked(seed), simulated(400, seed), NONE) for seed in range(300)]
    spread = {}
    for name in NAMES:
        several = [getattr(one, name) for one in found]
        values = np.array([one.value for one in several])
        spread[name] = float(values.std(ddof=1))
        assert abs(values.mean() - TRUTH) < 3 * spread[name] / math.sqrt(300), name
        covered = np.mean([one.low <= TRUTH <= one.high for one in several])
        assert 0.91 <= covered <= 0.985, (name, covered)
    assert spread["doubly_robust"] < spread["self_normalised"] < spread["inverse_propensity"]
    gains = [one.doubly_robust for one in found]
    truth = TRUTH - float((RATES @ LOGGED).mean())
    assert 0.91 <= np.mean([one.gain_low <= truth <= one.gain_high for one in gains]) <= 0.985


def test_a_weight_in_no_resample_of_few_is_no_number_in_the_interval() -> None:
    rows = simulated(12, 1)
    rows = [(won, weight, *rest) for (won, _, *rest), weight in zip(rows, WEIGHTS, strict=True)]
    found = estimated(asked(), rows, NONE)
    assert not any(math.isnan(value) for value in numbers(found))
    assert found.effective == 1.0
    with pytest.raises(NotFoundError, match="none of 12 episodes took"):
        estimated(asked(), [(won, 0.0, *rest) for won, _, *rest in rows], NONE)


WEIGHTS = [0.0] * 11 + [2.0]


def numbers(found: Evaluation) -> list[float]:
    return [value for name in NAMES for value in getattr(found, name).model_dump().values()]


unit = st.floats(0, 1)
row = st.tuples(st.booleans(), st.floats(0, 50), unit, unit, unit)


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(known=st.lists(row, min_size=10, max_size=40), data=st.data())
def test_what_holds_for_any_episodes(known: list[Any], data: st.DataObject) -> None:
    hypothesis.assume(sum(row[1] for row in known) > 1e-3)

    def found(rows: list[Any]) -> Evaluation:
        return estimated(asked(resamples=100), [tuple(map(float, row)) for row in rows], NONE)

    one = found(known)
    assert all(math.isfinite(value) for value in numbers(one))
    assert 0.0 <= one.self_normalised.value <= 1.0 + 1e-9
    assert 1.0 - 1e-9 <= one.effective <= len(known) + 1e-9
    for name in NAMES:
        estimate = getattr(one, name)
        assert estimate.low <= estimate.high
        assert estimate.gain_low <= estimate.gain_high
    mixed = found(data.draw(st.permutations(known)))
    for name in NAMES:  # the values do not depend on the order
        assert getattr(mixed, name).value == pytest.approx(getattr(one, name).value)
    # Where the model is right of all that happened, it alone decides.
    right = [(won, weight, hoped, float(won), none) for won, weight, hoped, _, none in known]
    assert found(right).doubly_robust.value == pytest.approx(np.mean([row[2] for row in known]))
    # Where the way is that of the log, it got what was got.
    same = [(won, 1.0, hoped, own, none) for won, _, hoped, own, none in known]
    assert found(same).inverse_propensity.value == pytest.approx(found(same).got)


CHANCES = Chances(sharpness=4.0, epsilon=0.1, width=1.0)


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    candidates=st.lists(
        st.tuples(st.floats(0.01, 0.99), st.floats(0.1, 500)), min_size=1, max_size=15
    ),
    way=st.sampled_from(["thompson", "greedy", "ucb", "epsilon"]),
)
def test_ways_give_probabilities(candidates: list[tuple[float, float]], way: Any) -> None:
    means, known = (np.array(part) for part in zip(*candidates, strict=True))
    parts = np.ones((len(means), 1))
    belief = Belief(parts, parts, means[:, None], 0.0 * parts, known[:, None], parts, means)
    odds = probabilities(belief, 3, 1.0, way, CHANCES, np.random.default_rng(1))
    assert odds.sum() == pytest.approx(1.0)
    assert odds.min() >= 0.0
    if way in ("greedy", "epsilon"):
        assert odds[means.argmax()] == odds.max()
