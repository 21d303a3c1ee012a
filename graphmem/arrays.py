"""numpy, and products of rows; its import takes a moment, so import it where it is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import simsimd
from numpy.typing import NDArray

__all__ = ["NDArray", "dots", "np"]


def dots(rows: NDArray[Any], vector: NDArray[Any]) -> NDArray[np.float64]:
    """Return the product of each row with a vector of its type; it is exact for int8."""
    if not len(rows):
        return np.empty(0)
    found: NDArray[np.float64] = np.asarray(
        simsimd.cdist(vector[np.newaxis], rows, "dot", threads=1)
    )[0]
    return found
