"""Embedders: vectors of texts, for searching by meaning.

Importing this module loads no model and no library that runs one.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from graphmem.errors import NotFoundError, SettingsError, shown
from graphmem.search.embedding import minilm, sentence_transformers
from graphmem.search.embedding.base import (
    Checked,
    Embedder,
    Thresholds,
    checked,
    measured,
    unrelated,
)
from graphmem.search.embedding.hashing import Hashing
from graphmem.search.embedding.minilm import MiniLM
from graphmem.search.embedding.sentence_transformers import SentenceTransformers

if TYPE_CHECKING:
    from graphmem.models.reports import EmbedderInfo

__all__ = [
    "Embedder",
    "Hashing",
    "MiniLM",
    "SentenceTransformers",
    "Thresholds",
    "checked",
    "embedders",
    "measured",
    "open_embedder",
    "unrelated",
]

GROUP = "graphmem.embedders"
"""The group of entry points for embedders of other packages: a name, and a factory."""
OWN = (MiniLM.name, Hashing.name, sentence_transformers.PREFIX)
_ANY = f"{sentence_transformers.PREFIX}:<name or path>"


def open_embedder(name: str) -> Embedder:
    """Return the embedder of a name; graphmem's own are loaded on first use.

    Args:
        name: "minilm", "hashing", "sentence-transformers:" with a name or a folder, or a name that
            an installed package offers (group ``graphmem.embedders``).

    Raises:
        NotFoundError: there is no embedder of that name.
        SettingsError: a package offers it, but it cannot be made.
        ValidationError: the object of a package does not implement Embedder.
    """
    prefix, _, model = name.partition(":")
    if name == MiniLM.name:
        return MiniLM()
    if name == Hashing.name:
        return Hashing()
    if prefix == sentence_transformers.PREFIX:
        return SentenceTransformers(model)
    offered = {entry.name: entry for entry in _offered()}
    if name not in offered:
        names = ", ".join((MiniLM.name, Hashing.name, _ANY, *offered))
        raise NotFoundError(f"no embedder {shown(name)}; there are {names}")
    try:
        made = offered[name].load()()
    except Exception as error:
        raise SettingsError(
            f"embedder {name!r} ({offered[name].value}) cannot be made: {shown(str(error))}"
        ) from error
    return Checked(made)


def embedders(in_force: str) -> list[EmbedderInfo]:
    """Return the available embedders, and what others lack; load no model.

    Args:
        in_force: the name in the settings; it is listed even if there is no such embedder.
    """
    rows = list(_rows())
    if in_force not in {row.name for row in rows}:
        rows.append(_named(in_force))
    return [row.model_copy(update={"in_force": row.name == in_force}) for row in rows]


def _rows() -> Iterator[EmbedderInfo]:
    from graphmem.models.reports import EmbedderInfo

    yield EmbedderInfo(
        name=MiniLM.name,
        dimensions=MiniLM.dimensions,
        what="a small language model, English",
        missing=minilm.missing() and f"pip install {minilm.missing()}",
    )
    yield EmbedderInfo(
        name=Hashing.name, dimensions=Hashing.dimensions, what="words only, no meaning; no model"
    )
    yield EmbedderInfo(
        name=_ANY, what="any model of that library", missing=sentence_transformers.missing()
    )
    for entry in _offered():
        yield EmbedderInfo(name=entry.name, what=f"of a package: {entry.value}")


def _named(name: str) -> EmbedderInfo:
    """Return the row of a name that is in force, but not in the list."""
    from graphmem.models.reports import EmbedderInfo

    if name.partition(":")[0] == sentence_transformers.PREFIX:
        lacking = sentence_transformers.missing()
        return EmbedderInfo(name=name, what="a model of that library", missing=lacking)
    return EmbedderInfo(name=name, what="unknown", missing="there is no embedder of that name")


def _offered() -> list[EntryPoint]:
    """Return what packages offer under a name that is not graphmem's own."""
    offered = entry_points(group=GROUP)
    return sorted(entry for entry in offered if entry.name not in OWN)
