"""The functions of numerics give what SciPy gives, and changes of a rate are found."""

from __future__ import annotations

import random

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import betaincinv
from scipy.stats import chi2

from graphmem.advice.formula import HAZARD, Floats, split_course
from graphmem.numerics import beta_quantile, chi_squared_tail, least

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
