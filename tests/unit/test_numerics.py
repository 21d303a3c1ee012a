"""The functions of numerics give what SciPy gives."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import betaincinv
from scipy.stats import chi2

from graphmem.advice.formula import Floats
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
