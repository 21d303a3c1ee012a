"""Any model of the library sentence-transformers, with the extra of that name."""

from __future__ import annotations

from functools import cached_property
from importlib.util import find_spec
from typing import Any

from graphmem.errors import NotFoundError, SettingsError, ValidationError, shown
from graphmem.search.embedding.base import Embedding, Thresholds, Vectors, measured

PREFIX = "sentence-transformers"
INSTALL = "pip install sentence-transformers"
BATCH = 32
ROOM = "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384"
"""In the environment before Python starts: makes room for libraries that glibc does not keep."""


class SentenceTransformers(Embedding):
    """A model of sentence-transformers, by its name on the model hub or by its folder.

    It is loaded when its dimensions, its thresholds or a vector are first needed; that library then
    downloads a model that is not on this machine. Texts are cut at the length limit of the model.
    Thresholds are measured (:func:`graphmem.search.embedding.measured`) on first use. A vector may
    differ by about 1e-6 depending on the other texts in the call.

    Raises:
        ValidationError: the name is empty.
    """

    def __init__(self, model: str) -> None:
        if not model.strip():
            remedy = f"write {PREFIX}:NAME"
            raise ValidationError("embedder", f"{PREFIX}:{model}", "names no model", remedy)
        self._model = model

    @property
    def name(self) -> str:
        """The requested name, which is stored."""
        return f"{PREFIX}:{self._model}"

    @cached_property
    def dimensions(self) -> int:  # type: ignore[override]
        """Length of a vector."""
        return int(self.embed(["a"]).shape[1])

    @cached_property
    def thresholds(self) -> Thresholds:
        """Measured on unrelated texts."""
        return measured(self.embed)

    def _embed(self, texts: list[str]) -> Vectors:
        import numpy as np

        rows = self._loaded.encode(
            texts,
            batch_size=BATCH,
            show_progress_bar=False,
            convert_to_numpy=True,
            normalize_embeddings=True,
        )
        return np.asarray(rows, np.float32)

    @cached_property
    def _loaded(self) -> Any:
        if missing():
            raise NotFoundError(
                f"embedder {self.name} needs the extra of that name; run `{INSTALL}`"
            )
        try:
            from sentence_transformers import SentenceTransformer
        except (ImportError, OSError) as error:
            # Where glibc has too little static TLS space beside the embedded engine, ROOM helps.
            raise SettingsError(
                f"embedder {self.name}: the library cannot be loaded ({shown(str(error))}); "
                f"run `{INSTALL}`, or start Python with {ROOM}"
            ) from error
        try:
            return SentenceTransformer(self._model)
        except (OSError, ValueError) as error:
            raise NotFoundError(
                f"embedder {self.name}: there is no such folder, and no such model could be "
                f"downloaded ({shown(str(error))}); check the name"
            ) from error


def missing() -> str | None:
    """Return the missing library, or None if models can be loaded."""
    return None if find_spec("sentence_transformers") else INSTALL
