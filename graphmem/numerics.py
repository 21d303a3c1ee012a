"""What graphmem needs of numerics; SciPy weighs more than everything else together."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_CLOSE = 1e-12
_TINY = 1e-300
_FAR = 700.0  # a logit beyond which exponentials overflow
_NORMAL = NormalDist()


def chi_squared_tail(statistic: float, degrees: int) -> float:
    """Return the probability that a chi-squared variable is over a value: the p-value of a test.

    Args:
        statistic: the value, from 0.
        degrees: degrees of freedom, from 1; for whole numbers the tail is a finite sum (Abramowitz
            and Stegun 1964, 26.4.4 and 26.4.5).
    """
    half = statistic / 2.0
    if half <= 0.0:
        return 1.0
    start = (degrees % 2) / 2.0
    terms = [
        math.exp((start + index) * math.log(half) - half - math.lgamma(start + index + 1.0))
        for index in range(degrees // 2)
    ]
    return min(1.0, math.fsum([math.erfc(math.sqrt(half)) if degrees % 2 else 0.0, *terms]))


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the value below which a variable of the distribution Beta(a, b) is with probability p.

    It uses Halley's method on the logit of the value, from the first terms of its expansion.

    Args:
        p: in (0, 1).
        a: over 0.
        b: over 0.
    """
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    low, high = -_FAR, _FAR
    z, skew = _NORMAL.inv_cdf(p), (1.0 / b - 1.0 / a) / 6.0
    logit = math.log(a / b) + z * math.sqrt(1.0 / a + 1.0 / b) + skew * (z * z + 2.0)
    logit = min(max(logit, -0.9 * _FAR), 0.9 * _FAR)
    for _ in range(100):
        x, y = 1.0 / (1.0 + math.exp(-logit)), 1.0 / (1.0 + math.exp(logit))
        slope = math.exp(scale + a * math.log(x) + b * math.log(y))
        if x < (a + 1.0) / (a + b + 2.0):
            over = slope * _fraction(x, a, b) / a - p
        else:
            over = 1.0 - slope * _fraction(y, b, a) / b - p
        low, high = (low, logit) if over > 0.0 else (logit, high)
        step = over / slope if slope > _TINY else math.inf
        step /= min(max(1.0 - 0.5 * step * (a * y - b * x), 0.5), 1.5)
        if not low < logit - step < high:
            step = logit - (low + high) / 2.0
        logit -= step
        if abs(step) <= 1e-4:  # each step takes an error to about its third power
            break
    return 1.0 / (1.0 + math.exp(-logit))


def wilson_lower(p: float, n: float, z: float) -> float:
    """Return the lower Wilson bound of a rate p in n > 0 trials (Wilson 1927, JASA 22:209-212)."""
    square = z * z / n
    spread = z * math.sqrt((p * (1.0 - p) + square / 4.0) / n)
    return max((p + square / 2.0 - spread) / (1.0 + square), 0.0)


def least(function: Callable[[Floats], float], start: Floats, around: float) -> Floats:
    """Return the place of a function's minimum, by search along each axis (Hooke and Jeeves 1961).

    It ends when no step of .003 leads down.

    Args:
        function: takes an array of shape [n].
        start: where the search begins, shape [n].
        around: the length of its first steps.
    """
    import numpy as np

    best, value = start, function(start)
    axes = np.vstack([np.eye(len(start)), -np.eye(len(start))])
    while around > 3e-3:
        before = value
        for axis in axes:
            tried = best + around * axis
            if (found := function(tried)) < value:
                best, value = tried, found
        if value == before:
            around /= 2.0
    return best


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    d = 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d or _TINY)
    c, found = 1.0, d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        for term in (even, odd):
            d = 1.0 / ((1.0 + term * d) or _TINY)
            c = (1.0 + term / c) or _TINY
            found *= d * c
        if abs(d * c - 1.0) < _CLOSE:
            break
    return found
