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

LEAST = 1_000
"""Rows from which on they are looked at in eight bits first."""
CLOSE = 1e-6
"""Similarities are rounded to six places: nearer ones may tie."""
_SHARE = 8
"""Where at most one in so many rows of the table is wanted, they are multiplied as they are."""
_PAGE = 512
"""Rows that are converted at once: less than a megabyte, which fits a cache."""
_FLOAT = 4e-6
"""What a product in 32 bits may lack, as a share of the lengths."""
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
            before = self._codes[:known], self._scales[:known], self._moved[:known]
            self._codes = np.empty((2 * count, matrix.shape[1]), np.int8)
            self._scales, self._moved = np.empty((2, 2 * count), np.float32)
            if known:
                self._codes[:known], self._scales[:known], self._moved[:known] = before
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
        self._bounds: Matrix | None = None

    def similarities(self, rows: Places) -> list[float]:
        """Return the exact products of rows with the vector, to six places."""
        vector = self.vector.astype(np.float64)
        pages = (rows[start : start + _PAGE] for start in range(0, len(rows), _PAGE))
        found = (dots(self.matrix[page].astype(np.float64), vector) for page in pages)
        return [round(exact, 6) for page in found for exact in page.tolist()]

    def nearest(self, rows: Places, limit: int, at_least: float = -1.0) -> list[tuple[int, float]]:
        """Return the places of the nearest rows (-1: none) with their similarities, in no order.

        These are the best ``limit``, and what ties with the last; all of at least that similarity.
        """
        places = np.flatnonzero(rows >= 0)
        if len(self.matrix) >= LEAST and len(places) * _SHARE > len(self.matrix):
            if self._bounds is None:
                self._bounds = self._rounded.bounds(self.matrix, self.vector)
            places = self._left(places, rows, self._bounds[rows[places]], limit, at_least)
        close = dots(self.matrix[rows[places]], self.vector).astype(np.float32)
        places = self._left(places, rows, close + np.float32(_FLOAT), limit, at_least)
        similar = self.similarities(rows[places])
        if len(similar) > limit:
            at_least = max(at_least, sorted(similar)[-limit])
        near = zip(places.tolist(), similar, strict=True)
        return [(place, similarity) for place, similarity in near if similarity >= at_least]

    def _left(
        self, places: Places, rows: Places, bounds: Matrix, limit: int, at_least: float
    ) -> Places:
        least = at_least - CLOSE
        if limit < len(places):
            best = np.argpartition(-bounds, limit)[:limit]  # quicker than the last ones, with ties
            worst = float(dots(self.matrix[rows[places[best]]], self.vector).min())
            least = max(least, worst - _FLOAT - CLOSE)
        return places[bounds >= least]


def _rounded(vectors: Matrix) -> tuple[NDArray[np.int8], Matrix]:
    scales = np.abs(vectors).max(axis=1) / np.float32(_MOST)
    scales[scales == 0] = 1
    return np.rint(vectors / scales[:, np.newaxis]).astype(np.int8), scales


def _lengths(vectors: Matrix) -> Matrix:
    lengths: Matrix = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return lengths
