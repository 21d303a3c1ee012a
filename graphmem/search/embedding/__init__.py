"""Embedders: vectors of texts, for searching by meaning.

Importing this module loads no model and no library that runs one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmem.errors import NotFoundError, shown
from graphmem.search.embedding import sentence_transformers, wordllama
from graphmem.search.embedding.base import (
    Embedder,
    Hashing,
    Thresholds,
    checked,
    measured,
    unrelated,
)
from graphmem.search.embedding.minilm import MiniLM
from graphmem.search.embedding.sentence_transformers import PREFIX, SentenceTransformers
from graphmem.search.embedding.wordllama import WordLlama

if TYPE_CHECKING:
    from graphmem.models.reports import EmbedderInfo

__all__ = [
    "Embedder",
    "Hashing",
    "MiniLM",
    "SentenceTransformers",
    "Thresholds",
    "WordLlama",
    "checked",
    "embedders",
    "measured",
    "open_embedder",
    "unrelated",
]

_ANY = f"{PREFIX}:<name or path>"
_OWN = {own.name: own for own in (MiniLM, WordLlama, Hashing)}


def open_embedder(name: str) -> Embedder:
    """Return the embedder of a name; graphmem's own are loaded on first use.

    Args:
        name: "minilm", "wordllama", "hashing", or "sentence-transformers:" with a name or a folder.

    Raises:
        NotFoundError: there is no embedder of that name.
    """
    prefix, _, model = name.partition(":")
    if name in _OWN:
        return _OWN[name]()
    if prefix == PREFIX:
        return SentenceTransformers(model)
    raise NotFoundError(f"no embedder {shown(name)}; there are {', '.join((*_OWN, _ANY))}")


def embedders(in_force: str) -> list[EmbedderInfo]:
    """Return the available embedders, and what others lack; load no model.

    Args:
        in_force: the name in the settings; it is listed even if there is no such embedder.
    """
    from graphmem.models.reports import EmbedderInfo

    library = sentence_transformers.missing()
    lacks = {_ANY: library, WordLlama.name: wordllama.missing()}
    about = {
        MiniLM.name: "a small language model, English",
        WordLlama.name: "the meaning of single words, English; quick on long texts",
        Hashing.name: "words only, no meaning; no model",
        _ANY: "any model of that library",
    }
    if in_force.partition(":")[0] == PREFIX:
        about[in_force], lacks[in_force] = "a model of that library", library
    elif in_force not in about:
        about[in_force], lacks[in_force] = "unknown", "there is no embedder of that name"
    return [
        EmbedderInfo(
            name=name,
            dimensions=_OWN[name].dimensions if name in _OWN else None,
            what=what,
            missing=lacks.get(name),
            in_force=name == in_force,
        )
        for name, what in about.items()
    ]
