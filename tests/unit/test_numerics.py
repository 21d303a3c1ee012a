"""The functions of numerics give what SciPy gives."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import betaincinv
from scipy.stats import chi2

from graphmem.advice.pooling import Floats
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


@pytest.mark.parametrize("most", [3, 40, 400])
@pytest.mark.parametrize("bend", [0.0, 0.3, 3.0])
def test_the_simplex_takes_the_steps_of_scipys(bend: float, most: int) -> None:
    def function(x: Floats) -> float:
        curve = (x[1:] - bend * x[:-1] ** 2) ** 2
        return float(curve.sum() + ((x - np.arange(4)) ** 2).sum() + np.abs(x).sum())

    start = np.zeros(4)
    theirs = minimize(
        function,
        start,
        method="Nelder-Mead",
        options={
            "maxiter": most,
            "xatol": 3e-3,
            "fatol": 1e-3,
            "initial_simplex": np.vstack([start, 0.7 * np.eye(4)]),
        },
    )
    assert least(function, start, 0.7, most=most) == pytest.approx(theirs.x, abs=1e-12)
