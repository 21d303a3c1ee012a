"""Embedders: how often a text finds its paraphrase, and how fast they are.

The pairs are those of ``tests/data/paraphrases.jsonl``: written for this, on many subjects, and
worded so that the two of a pair share few words. Words alone are therefore at a disadvantage
that a log of real tasks, which repeats itself, would not give them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from graphmem.search.embedding import Embedder, open_embedder
from tests.bench.report import Result, benchmark, seconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PAIRS = Path(__file__).parents[1] / "data" / "paraphrases.jsonl"


def pairs() -> list[tuple[str, str]]:
    """Return the texts of the paraphrase set, two by two."""
    lines = map(json.loads, PAIRS.read_text(encoding="utf-8").splitlines())
    return [(line["a"], line["b"]) for line in lines]


def first_hits(cosines: NDArray[np.float64] | NDArray[np.float32]) -> float:
    """Return how often the second text of a pair is the nearest one to its first (R@1)."""
    return sum(int(row.argmax() == place) for place, row in enumerate(cosines)) / len(cosines)


def recall_of(embedder: Embedder) -> float:
    """Return the R@1 of an embedder over the paraphrase set."""
    one, other = (embedder.embed(list(texts)) for texts in zip(*pairs(), strict=True))
    return first_hits(one @ other.T)


def recall_of_words() -> float:
    """Return the R@1 of TF-IDF over words, fitted on all texts of the set."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    one, other = (list(texts) for texts in zip(*pairs(), strict=True))
    model = TfidfVectorizer(sublinear_tf=True).fit([*one, *other])
    return first_hits((model.transform(one) @ model.transform(other).T).toarray())


@benchmark("embedding")
def embedding(folder: Path, scale: float) -> list[Result]:
    """R@1 of each embedder, how long it takes to load, and texts a second."""
    del folder, scale
    words = recall_of_words()
    count = len(pairs())
    results = []
    for name in ("minilm", "hashing"):
        embedder = open_embedder(name)
        texts = [text for pair in pairs() for text in pair]
        cold = seconds(lambda: embedder.embed(texts[:1]))  # noqa: B023 - called at once
        alone = min(seconds(lambda: embedder.embed(texts[:1])) for _ in range(50))  # noqa: B023
        together = min(seconds(lambda: embedder.embed(texts)) for _ in range(5))  # noqa: B023
        results += [
            Result(
                f"R@1 of `{name}` over {count} paraphrases",
                f"{recall_of(embedder):.3f}",
                f"TF-IDF: {words:.3f}",
                "",
                "over TF-IDF" if name == "minilm" else "",
            ),
            Result(
                f"`{name}`: first text, with loading; one text; {len(texts)} in a batch",
                f"{cold * 1e3:.0f} ms; {alone * 1e3:.2f} ms; {len(texts) / together:,.0f} texts/s",
            ),
        ]
    return results
