"""Embedders: vectors of texts, for searching by meaning.

Importing this module loads no model and no library that runs one.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from graphmem.errors import NotFoundError, SettingsError, shown
from graphmem.search.embedding import minilm, sentence_transformers
from graphmem.search.embedding.base import (
    Checked,
    Embedder,
    Hashing,
    Thresholds,
    checked,
    measured,
    unrelated,
)
from graphmem.search.embedding.minilm import MiniLM
from graphmem.search.embedding.sentence_transformers import PREFIX, SentenceTransformers

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
_ANY = f"{PREFIX}:<name or path>"


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
    if prefix == PREFIX:
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
    from graphmem.models.reports import EmbedderInfo

    lacking, library = minilm.missing(), sentence_transformers.missing()
    lacks = {MiniLM.name: lacking and f"pip install {lacking}", _ANY: library}
    about = {
        MiniLM.name: "a small language model, English",
        Hashing.name: "words only, no meaning; no model",
        _ANY: "any model of that library",
        **{entry.name: f"of a package: {entry.value}" for entry in _offered()},
    }
    if in_force.partition(":")[0] == PREFIX:
        about[in_force], lacks[in_force] = "a model of that library", library
    elif in_force not in about:
        about[in_force], lacks[in_force] = "unknown", "there is no embedder of that name"
    sizes = {own.name: own.dimensions for own in (MiniLM, Hashing)}
    return [
        EmbedderInfo(
            name=name,
            dimensions=sizes.get(name),
            what=what,
            missing=lacks.get(name),
            in_force=name == in_force,
        )
        for name, what in about.items()
    ]


def _offered() -> list[EntryPoint]:
    """Return what packages offer under a name that is not graphmem's own."""
    own = (MiniLM.name, Hashing.name, PREFIX)
    return sorted(entry for entry in entry_points(group=GROUP) if entry.name not in own)
