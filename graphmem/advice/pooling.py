"""Fits the strengths of pooling (:func:`graphmem.advice.formula.expect`) to a history.

This is empirical Bayes: each outcome is predicted from all others (leave one out), and the
strengths with the least log loss win, under a weak prior around the defaults (the logarithm of a
strength has a standard deviation of 1). The defaults stay in force until the gain is over
:data:`CERTAIN` standard errors; its independent units are tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphmem.advice.formula import SPREAD, Counts, Floats, expect, shrunk
from graphmem.advice.strengths import DEFAULTS, LEAST
from graphmem.arrays import np
from graphmem.graph.estimate import PRIOR
from graphmem.models.forecasts import PoolingStrengths
from graphmem.numerics import least

CERTAIN = 2.5758
"""Standard errors that the gain must exceed: two-sided 99 % of a normal distribution."""
FEWEST = 10
"""Fewest tasks: of fewer, the standard error of a gain tells nothing."""
_NAMES = ("task", "strategy", "cell")
_LOW, _HIGH = np.log([0.05, 0.05, 0.5]), math.log(500.0)
"""Bounds of the fit. No rate on a task is said to be all or nothing: half a trial is left."""


def fit(
    rows: Sequence[tuple[float, ...]], trials: int, everything: tuple[float, float]
) -> PoolingStrengths:
    """Return the strengths that predict each outcome best from all others.

    A row is a strategy on a task: the number of the task; what all outcomes on the task count
    elsewhere, and what those of the strategy do (each trials and successes); the trials and
    successes of the strategy on all tasks, and on the task. ``everything`` is what the ``trials``
    of all count.
    """
    if trials < LEAST:
        return DEFAULTS
    if not 0.0 < everything[1] < everything[0]:
        return DEFAULTS.model_copy(update={"trials": trials})
    table = np.array(rows, dtype=np.float64).reshape(-1, 9).T
    cells = np.ascontiguousarray(table[1:])
    unique, times = np.unique(cells, axis=1, return_counts=True)
    defaults = np.array([getattr(DEFAULTS, name) for name in _NAMES])
    center: Floats = np.log(defaults)

    def losses(columns: Floats, strengths: Floats) -> Floats:
        won, lost = _losses(columns, everything, strengths)
        whole: Floats = columns[7] * won + (columns[6] - columns[7]) * lost
        return whole

    def loss(x: Floats) -> float:
        x = np.clip(x, _LOW, _HIGH)
        total = float(times @ losses(unique, np.exp(x)))
        return total + 0.5 * float(((x - center) ** 2).sum())

    best = np.exp(np.clip(least(loss, center, 0.7), _LOW, _HIGH))
    strengths = np.array([float(f"{value:.4g}") for value in best])
    gains = np.bincount(
        table[0].astype(np.int64), losses(cells, defaults) - losses(cells, strengths)
    )
    gain = float(f"{gains.sum():.6g}")
    spread = math.sqrt(float(((gains - gains.mean()) ** 2).sum()))
    score = float(f"{gain / spread:.6g}") if spread > 1e-9 else 0.0
    basis: dict[str, float] = {"trials": trials, "gain": gain, "score": score}
    if score > CERTAIN and len(gains) >= FEWEST:
        basis |= {"fitted": True, **dict(zip(_NAMES, strengths.tolist(), strict=True))}
    return DEFAULTS.model_copy(update=basis)


def _losses(
    columns: Floats, everything: tuple[float, float], strengths: Floats
) -> tuple[Floats, Floats]:
    """Return the log loss of one success, and of one failure, of each cell without itself."""
    task_n, task_k, strategy_n, strategy_k, all_n, all_k, n, k = columns
    nothing = np.zeros_like(n)
    here, own = SPREAD / (n + SPREAD), SPREAD / (all_n + SPREAD)
    elsewhere = _others(strategy_n, strategy_k, here * n, here * k)
    counts = Counts(
        everything=_others(
            nothing + everything[0], nothing + everything[1], own * all_n, own * all_k
        ),
        typed_all=(nothing, nothing),
        near_all=(nothing, nothing),
        task=_others(task_n, task_k, here * n, here * k),
        lent=(nothing, nothing),
        elsewhere=elsewhere,
        typed=(nothing, nothing),
        near=(nothing, nothing),
    )
    asked = dict(zip(_NAMES, strengths.tolist(), strict=True))
    mean = expect(counts, PRIOR, DEFAULTS.model_copy(update=asked)).near
    won, lost = (
        # The loss of a cell without a success (or failure) is computed, too, but has no weight.
        shrunk(k - success, n - 1.0, mean, asked["cell"])
        for success in (1.0, 0.0)
    )
    return -np.log(won), -np.log1p(-lost)


def _others(n: Floats, k: Floats, part_n: Floats, part_k: Floats) -> tuple[Floats, Floats]:
    left = np.maximum(n - part_n, 0.0)
    return left, np.clip(k - part_k, 0.0, left)
