"""An embedder without a model: it hashes the words and parts of words of a text.

It ignores meaning: for it, "refund" and "money back" have nothing in common. It is for tests and
for machines without a model. Each word, and each three letters in a row within a word with its ends
marked, adds 1 or -1 to one of 256 numbers, chosen by its hash (Weinberger et al. 2009, "Feature
hashing for large scale multitask learning"); the result is given unit length.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar

from graphmem.search.embedding.base import Thresholds, readable

if TYPE_CHECKING:
    from graphmem.search.embedding.base import Vectors

WORD = 2.0
"""Weight of a whole word; three letters have a weight of 1."""
_WORDS = re.compile(r"\w+")


class Hashing:
    """Words and parts of words in 256 dimensions; no model, no meaning.

    The thresholds are those of :func:`graphmem.search.embedding.measured`, rounded: one
    pair of unrelated texts in 10,000 is over ``similar``, one in 1,000 over ``near``, one in 100
    over ``floor``.
    """

    name: ClassVar[str] = "hashing"
    dimensions: ClassVar[int] = 256
    thresholds: ClassVar[Thresholds] = Thresholds(similar=0.6, near=0.5, floor=0.4)

    def embed(self, texts: Sequence[str], /) -> Vectors:
        """Return the vectors of texts: float32 of shape (texts, 256), rows of unit length.

        Raises:
            ValidationError: one is not a text, or contains a lone surrogate.
        """
        from graphmem.arrays import np

        given = readable(texts)
        rows = np.zeros((len(given), self.dimensions), np.float32)
        for row, text in zip(rows, given, strict=True):
            words = _WORDS.findall(unicodedata.normalize("NFKC", text).casefold())
            for word, count in Counter(words).items():
                for place, amount in _parts(word):
                    row[place] += amount * count
            if not row.any():
                # No word, or its numbers cancel out: all such texts get the same vector.
                row[0] = 1.0
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows


@lru_cache(maxsize=65_536)
def _parts(word: str) -> tuple[tuple[int, float], ...]:
    """Return the numbers to which a word adds, with the amounts."""
    marked = f"<{word}>"
    letters = [marked[start : start + 3] for start in range(len(marked) - 2)]
    return (_hashed(f"word {word}", WORD), *(_hashed(three, 1.0) for three in letters))


def _hashed(part: str, amount: float) -> tuple[int, float]:
    """Return an index and a signed amount from a hash that is the same in every process."""
    digest = blake2b(part.encode(), digest_size=2).digest()
    return digest[0], amount if digest[1] & 1 else -amount
