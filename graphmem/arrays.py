"""numpy, imported as a whole or not at all.

It is imported when it is first needed, which takes a moment. If Ctrl-C broke that off, a
half-loaded module would keep this process from ever importing it, because its compiled part can be
loaded only once. So Ctrl-C waits until the import is done, also if another library imports it.
"""

from __future__ import annotations

from typing import Any

from graphmem.uninterrupted import uninterrupted

with uninterrupted():
    import numpy as np
    import simsimd
    from numpy.typing import NDArray

__all__ = ["NDArray", "dots", "np", "product"]


def product(left: NDArray[Any], right: NDArray[Any]) -> Any:
    """Return ``left @ right``."""
    return left @ right


def dots(rows: NDArray[Any], vector: NDArray[Any]) -> NDArray[np.float64]:
    """Return the product of each row with a vector of its type; it is exact for int8."""
    if not len(rows):
        return np.empty(0)
    found: NDArray[np.float64] = np.asarray(
        simsimd.cdist(vector[np.newaxis], rows, "dot", threads=1)
    )[0]
    return found
