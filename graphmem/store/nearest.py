"""The nearest rows of a table of vectors: exactly, but mostly without multiplying whole vectors.

A copy of the vectors in eight bits is a quarter as large, and products with it are as much quicker.
How far rounding moved each row is known, so that such a product gives an upper bound of the exact
one (Cauchy-Schwarz). A row whose bound is below what enough others have is not among the nearest;
those that are left are multiplied exactly. So the answer is that of the whole product.
"""

from __future__ import annotations

from graphmem.arrays import NDArray, dots, np

Matrix = NDArray[np.float32]
Places = NDArray[np.int64]

LEAST = 10_000
"""Rows from which on they are looked at in eight bits first."""
CLOSE = 1e-6
"""Similarities are rounded to six places: nearer ones may tie."""
_SHARE = 8
"""Where more than one in so many rows of the table is wanted, the whole product is quicker."""
_PAGE = 512
"""Rows that are converted at once: less than a megabyte, which fits a cache."""
_FLOAT = 4e-6
"""What a product in 32 bits may lack, as a share of the lengths."""
_ROOM = 3
"""Where more than so many times the limit are left, closer bounds tell what is."""
_MOST = 127


class Rounded:
    """The rows of a table in eight bits; it follows a table that grows."""

    def __init__(self) -> None:
        self._count = 0
        self._codes: NDArray[np.int8] = np.empty((0, 0), np.int8)
        self._scales: Matrix = np.empty(0, np.float32)
        self._moved: Matrix = np.empty(0, np.float32)
        """How far rounding moved each."""
        self._longest = 0.0

    def bounds(self, matrix: Matrix, vector: Matrix) -> Matrix:
        """Return upper bounds of the products of the rows of a table and a vector."""
        self._follow(matrix)
        count = len(matrix)
        codes, scales = _rounded(vector[np.newaxis])
        moved = float(np.linalg.norm(vector - codes[0] * scales[0]))
        length = float(np.linalg.norm(vector))
        bounds = dots(self._codes[:count], codes[0]).astype(np.float32)
        bounds *= self._scales[:count] * scales[0]
        bounds += self._moved[:count] * np.float32(length + moved)
        bounds += np.float32(self._longest * (moved + _FLOAT * length))
        return bounds

    def _follow(self, matrix: Matrix) -> None:
        """Round the rows that are new; room that is not used yet takes no memory."""
        known, count = self._count, len(matrix)
        if count > len(self._codes):
            codes, scales, moved = self._codes[:known], self._scales[:known], self._moved[:known]
            self._codes = np.empty((2 * count, matrix.shape[1]), np.int8)
            self._scales, self._moved = np.empty((2, 2 * count), np.float32)
            if known:
                self._codes[:known], self._scales[:known], self._moved[:known] = (
                    *(codes, scales, moved),
                )
        for start in range(known, count, _PAGE):
            some = slice(start, min(start + _PAGE, count))
            self._codes[some], self._scales[some] = codes, scales = _rounded(matrix[some])
            self._moved[some] = _lengths(matrix[some] - codes * scales[:, np.newaxis])
            self._longest = max(self._longest, float(_lengths(matrix[some]).max()))
        self._count = count


class Asked:
    """A vector that is looked for in a table, which does not change meanwhile."""

    def __init__(self, matrix: Matrix, vector: Matrix, rounded: Rounded) -> None:
        self.matrix = matrix
        self.vector = vector
        self._rounded = rounded
        # No cached_property: before Python 3.12 it has a lock, which a forked child may find taken.
        self._whole: Matrix | None = None
        self._bounds: Matrix | None = None

    def similarities(self, rows: Places) -> list[float]:
        """Return the exact products of rows with the vector, to six places."""
        vector = self.vector.astype(np.float64)
        return [
            round(exact, 6)
            for start in range(0, len(rows), _PAGE)
            for exact in dots(
                self.matrix[rows[start : start + _PAGE]].astype(np.float64), vector
            ).tolist()
        ]

    def nearest(self, rows: Places, limit: int, at_least: float = -1.0) -> list[tuple[int, float]]:
        """Return the places of the nearest rows (-1: none) with their similarities, in no order.

        These are the best ``limit``, and what ties with the last; all of at least that similarity.
        """
        places, least = np.flatnonzero(rows >= 0), at_least - CLOSE
        for bounds in (self._rough, self._close):
            if len(places) > _ROOM * limit:
                places, least = self._left(places, rows[places], bounds(rows[places]), limit, least)
        similar = self.similarities(rows[places])
        if len(similar) > limit:
            at_least = max(at_least, sorted(similar)[-limit])
        near = zip(places.tolist(), similar, strict=True)
        return [(place, similarity) for place, similarity in near if similarity >= at_least]

    def _left(
        self, places: Places, rows: Places, bounds: Matrix, limit: int, least: float
    ) -> tuple[Places, float]:
        """Return the places that the bounds leave, and what is below the last of the best."""
        best = np.argpartition(-bounds, limit)[:limit]  # quicker than the last ones, with ties
        if bounds[best].min() >= least:
            worst = float(dots(self.matrix[rows[best]], self.vector).min())
            least = max(least, worst - _FLOAT - CLOSE)
        return places[bounds >= least], least

    def _rough(self, rows: Places) -> Matrix:
        """Return upper bounds of the products of rows; of few, they are as close as below."""
        if len(self.matrix) < LEAST or len(rows) * _SHARE < len(self.matrix):
            return self._close(rows)
        if self._bounds is None:
            self._bounds = self._rounded.bounds(self.matrix, self.vector)
        return self._bounds[rows]

    def _close(self, rows: Places) -> Matrix:
        """Return upper bounds that are as close as 32 bits allow."""
        if len(rows) * _SHARE < len(self.matrix):
            return dots(self.matrix[rows], self.vector).astype(np.float32) + np.float32(_FLOAT)
        if self._whole is None:
            self._whole = dots(self.matrix, self.vector).astype(np.float32)
        return self._whole[rows] + np.float32(_FLOAT)


def _rounded(vectors: Matrix) -> tuple[NDArray[np.int8], Matrix]:
    """Return rows in eight bits, and their scales."""
    scales = np.abs(vectors).max(axis=1) / np.float32(_MOST)
    scales[scales == 0] = 1
    return np.rint(vectors / scales[:, np.newaxis]).astype(np.int8), scales


def _lengths(vectors: Matrix) -> Matrix:
    lengths: Matrix = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return lengths
