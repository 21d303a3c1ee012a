"""Estimates: of another way to choose whose value is known, how they are said, their numbers."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import betaincinv
from scipy.stats import chi2

from graphmem.advice.choose import Chances, probabilities
from graphmem.advice.evaluate import Asked, Numbers, estimated
from graphmem.advice.formula import HAZARD, Belief, Floats, split_course
from graphmem.errors import NotFoundError
from graphmem.graph.estimate import Estimate
from graphmem.models.advice import Evaluation, LeftOut
from graphmem.models.forecasts import Change
from graphmem.numerics import beta_quantile, chi_squared_tail, least, wilson_lower

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


# How an estimate says what to expect, and what that rests on

DAY = datetime(2026, 9, 30, 12, 0, tzinfo=UTC)
NEAREST = {
    "text": "refund a cancelled flight",
    "trials": 10,
    "successes": 9,
    "tasks": 1,
    "others": True,
}
ALIKE = "9 of 10 on 'refund a cancelled flight', like this one"


def estimate(probability: float, worth: float = 10.0, **given: Any) -> Estimate:
    fields: Any = dict.fromkeys(Estimate.__dataclass_fields__, 0)
    fields |= {"change": None, "nearest": None, "lenders": (), "priors": (), "task_type": "travel"}
    fields |= {"probability": probability, "worth": worth}
    fields["lower"] = wilson_lower(probability, worth, 1.0)
    for name, (won, trials) in given.pop("counts", {}).items():
        fields |= {f"{name}successes": won, f"{name}trials": trials}
    return Estimate(**(fields | given))


def change(
    before: tuple[int, int], since: tuple[int, int], hours: float = 24, certainty: float = 0.99
) -> Change:
    return Change(
        strategy="wkhtmltopdf",
        task="make a PDF",
        since=DAY + timedelta(hours=hours),
        until=DAY,
        successes_before=before[0],
        trials_before=before[1],
        successes_since=since[0],
        trials_since=since[1],
        certainty=certainty,
    )


@pytest.mark.parametrize(
    ("here", "near", "typed", "everywhere", "told"),
    [
        ((26, 30), (37, 60), (0, 0), (63, 90), "26 of 30 here"),
        ((2, 3), (9, 10), (0, 0), (11, 13), f"2 of 3 here; {ALIKE}"),
        ((0, 0), (20, 40), (0, 0), (20, 40), f"{ALIKE}; 11 of 30 on less similar tasks"),
        ((0, 0), (0, 0), (4, 5), (9, 20), "4 of 5 on travel tasks; 9 of 20 in all"),
        ((2, 3), (0, 0), (2, 3), (3, 6), "2 of 3 here; 3 of 6 in all"),
        ((0, 0), (0, 0), (0, 0), (9, 20), "9 of 20 on other tasks, none like this one"),
        ((0, 0), (0, 0), (0, 0), (0, 0), "never tried"),
    ],
)
def test_the_counts_are_said_from_the_task_itself_outwards(
    here: Any, near: Any, typed: Any, everywhere: Any, told: str
) -> None:
    """Those that add nothing are left out, and the nearest task is named."""
    counts = {"here_": here, "near_": near, "type_": typed, "": everywhere}
    one = estimate(0.8, counts=counts, nearest=NEAREST if near[1] else None)
    assert one.evidence == told


def test_few_outcomes_on_each_of_several_near_tasks_are_said_together() -> None:
    near = {"text": "refund order 18", "trials": 12, "successes": 6, "tasks": 12, "others": False}
    one = estimate(0.5, counts={"near_": (6, 12), "": (6, 12)}, nearest=near)
    assert one.evidence == "6 of 12 on tasks like this one, nearest 'refund order 18'"


@pytest.mark.parametrize(
    ("probability", "worth", "seen", "told"),
    [
        (0.87, 4.0, (3, 3), "likely"),
        (0.5, 20.0, (10, 20), "about as often as not"),
        (0.2, 4.0, (0, 3), "rarely"),
        (0.74, 2.0, (1, 1), "too little known"),
        (0.26, 2.0, (0, 1), "too little known"),
        (0.9, 20.0, (0, 0), "too little known"),
    ],
)
def test_the_conclusion_is_one_that_the_counts_bear(
    probability: float, worth: float, seen: tuple[int, int], told: str
) -> None:
    assert estimate(probability, worth, counts={"here_": seen}).conclusion == told


def test_what_changed_is_said_with_its_time() -> None:
    counts = {"here_": (30, 60), "": (30, 60)}
    stopped = estimate(0.04, counts=counts, change=change((30, 30), (0, 30)))
    assert stopped.said == "stopped working: 30 of 30 until 30 Sep 2026, 0 of 30 since"
    again = estimate(0.95, counts=counts, change=change((10, 30), (30, 30), hours=1))
    assert again.said == "works again: 10 of 30 until 12:00, 30 Sep 2026, 30 of 30 since"
    less = estimate(0.5, counts=counts, change=change((30, 30), (15, 30)))
    assert less.said == "about as often as not: 30 of 30 until 30 Sep 2026, 15 of 30 since"


@pytest.mark.parametrize(
    ("before", "since", "told"),
    [
        ((16, 16), (0, 8), "0 of the latest 8, 16 of 16 before; 16 of 34 in all"),
        ((20, 20), (0, 1), "the latest failed, 20 of 20 before; 20 of 31 in all"),
    ],
)
def test_an_uncertain_change_is_said_as_the_latest_outcomes(
    before: tuple[int, int], since: tuple[int, int], told: str
) -> None:
    here, everywhere = (before[0], before[1] + since[1]), (before[0], before[1] + since[1] + 10)
    assumed = change(before, since, certainty=0.5)
    one = estimate(0.35, counts={"here_": here, "": everywhere}, change=assumed)
    assert one.said == f"rarely: {told}"


def test_the_order_is_by_what_is_expected_then_by_certainty() -> None:
    many, few = (estimate(0.8, worth, counts={"here_": (4, 5)}) for worth in (30.0, 6.0))
    unknown, bad = estimate(0.9, 2.0), estimate(0.2, counts={"here_": (2, 10)})
    assert sorted([bad, unknown, few, many], key=lambda one: one.order) == [
        *(many, few, unknown, bad)
    ]


# The functions of numerics give what SciPy gives

PARAMETERS = st.floats(-3, 4).map(lambda power: 0.5 + 10.0**power)
SHARES = st.sampled_from([0.001, 0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975, 0.999])


@hypothesis.given(p=SHARES, a=PARAMETERS, b=PARAMETERS)
def test_quantiles_of_beta_distributions(p: float, a: float, b: float) -> None:
    assert beta_quantile(p, a, b) == pytest.approx(betaincinv(a, b, p), rel=1e-8, abs=1e-14)


@hypothesis.given(statistic=st.floats(0, 1_000), degrees=st.integers(1, 60))
def test_tails_of_chi_squared_distributions(statistic: float, degrees: int) -> None:
    expected = chi2.sf(statistic, degrees)
    assert chi_squared_tail(statistic, degrees) == pytest.approx(expected, rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("bend", [0.0, 0.3, 3.0])
def test_the_least_value_is_at_most_that_of_scipy(bend: float) -> None:
    def function(x: Floats) -> float:
        return float(((x[1:] - bend * x[:-1] ** 2) ** 2).sum() + ((x - np.arange(4)) ** 2).sum())

    found = least(function, np.zeros(4), 0.7)
    theirs = minimize(function, np.zeros(4), method="Nelder-Mead", tol=1e-8)
    assert function(found) <= theirs.fun + 1e-3


# Where the rate of outcomes changed


@pytest.mark.parametrize(
    ("outcomes", "places"),
    [
        ("", []),
        ("+", []),
        ("+" * 40, []),
        ("+-" * 40, []),
        ("+" * 30 + "-" * 30, [30]),
        ("+" * 10 + "-" * 10 + "+" * 10, [10, 20]),
        ("+" * 1_000 + "-" * 1_000, [1_000]),
    ],
)
def test_changes_are_found_where_they_were(outcomes: str, places: list[int]) -> None:
    told = split_course([outcome == "+" for outcome in outcomes], HAZARD, 1.0)
    assert [place for place, _ in told] == places
    assert all(0.95 <= certainty <= 1.0 for _, certainty in told)


def test_steady_rates_raise_hardly_any_alarm() -> None:
    drawn = random.Random(7)
    rates = (0.2, 0.5, 0.8, 0.95)
    steady = [[drawn.random() < rate for _ in range(200)] for rate in rates for _ in range(50)]
    assert sum(bool(split_course(one, HAZARD, 1.0)) for one in steady) <= 2
