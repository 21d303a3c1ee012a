"""The three functions of numerics that graphmem needs, for the values that occur here.

SciPy has them too, but it weighs more than everything else together, and takes half a second to
load.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmem.arrays import NDArray, np

    Floats = NDArray[np.float64]

_CLOSE = 1e-12
_TINY = 1e-300
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

    It uses Halley's method between closing bounds, from an approximation (Abramowitz and Stegun
    1964, 26.5.22; for small a or b by the leading terms at both ends).

    Args:
        p: in (0, 1).
        a: over 0.
        b: over 0.
    """
    low, high = 0.0, 1.0
    scale, x = _scale(a, b), _near_quantile(p, a, b)
    for _ in range(100):
        slope = _density(x, a, b, scale)
        over = _below(x, a, b, slope) - p
        low, high = (low, x) if over > 0.0 else (x, high)
        step = over / slope if slope > _TINY else math.inf
        bend = 1.0 - 0.5 * step * ((a - 1.0) / x - (b - 1.0) / (1.0 - x))
        step /= min(max(bend, 0.5), 1.5)
        after = x - step
        if not low < after < high:
            after = (low + high) / 2.0
        # Each step takes an error to about its third power.
        if abs(after - x) <= 1e-4 * min(after, 1.0 - after):
            return after
        x = after
    return x


def least(
    function: Callable[[Floats], float], start: Floats, around: float, *, most: int = 400
) -> Floats:
    """Return the place of a function's minimum, by the simplex method (Nelder and Mead 1965).

    It ends when the corners are within .003 of each other, and their values within .001.

    Args:
        function: takes an array of shape [n].
        start: the first corner, shape [n].
        around: how far the others are from it, each along one axis.
        most: one more than the greatest number of rounds.
    """
    from graphmem.arrays import np

    corners = np.vstack([start, start + around * np.eye(len(start))])
    values = np.array([function(corner) for corner in corners])
    for _ in range(1, most):
        order = np.argsort(values, kind="stable")
        corners, values = corners[order], values[order]
        if np.ptp(values) <= 1e-3 and np.abs(corners[1:] - corners[0]).max() <= 3e-3:
            break
        middle = corners[:-1].mean(axis=0)
        away = middle - corners[-1]
        tried = middle + away
        value = function(tried)
        if value < values[0]:
            further = middle + 2.0 * away
            beyond = function(further)
            if beyond < value:
                tried, value = further, beyond
        elif value >= values[-2]:
            outside = value < values[-1]
            tried = middle + (0.5 if outside else -0.5) * away
            within = function(tried)
            if within >= min(value, values[-1]):
                corners[1:] = (corners[1:] + corners[0]) / 2.0
                values[1:] = [function(corner) for corner in corners[1:]]
                continue
            value = within
        corners[-1], values[-1] = tried, value
    best: Floats = corners[int(np.argmin(values))]
    return best


def _scale(a: float, b: float) -> float:
    return math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)


def _density(x: float, a: float, b: float, scale: float) -> float:
    return math.exp(scale + (a - 1.0) * math.log(x) + (b - 1.0) * math.log1p(-x))


def _below(x: float, a: float, b: float, density: float) -> float:
    front = density * x * (1.0 - x)
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(x, a, b) / a
    return 1.0 - front * _fraction(1.0 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction, by Lentz's method."""
    d = 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d or _TINY)
    c, found = 1.0, d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d = 1.0 / ((1.0 + even * d) or _TINY)
        c = (1.0 + even / c) or _TINY
        found *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 / ((1.0 + odd * d) or _TINY)
        c = (1.0 + odd / c) or _TINY
        found *= d * c
        if abs(d * c - 1.0) < _CLOSE:
            break
    return found


def _near_quantile(p: float, a: float, b: float) -> float:
    if a > 1.0 and b > 1.0:
        y = _NORMAL.inv_cdf(1.0 - p)
        first, second = 1.0 / (2.0 * a - 1.0), 1.0 / (2.0 * b - 1.0)
        h, third = 2.0 / (first + second), (y * y - 3.0) / 6.0
        w = y * math.sqrt(max(h + third, 0.0)) / h
        w -= (second - first) * (third + 5.0 / 6.0 - 2.0 / (3.0 * h))
        x = a / (a + b * math.exp(min(2.0 * w, 700.0)))
    else:
        left = math.exp(a * math.log(a / (a + b))) / a
        both = left + math.exp(b * math.log(b / (a + b))) / b
        if p * both < left:
            x = (a * both * p) ** (1.0 / a)
        else:
            x = 1.0 - (b * both * (1.0 - p)) ** (1.0 / b)
    return min(max(x, 1e-12), 1.0 - 1e-12)
