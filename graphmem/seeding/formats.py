"""Log formats: the interface and the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import BinaryIO

from graphmem.errors import NotFoundError, SeedingError
from graphmem.models import Episode
from graphmem.seeding.reading import Limits

HEAD = 65_536
"""Bytes at the beginning of a file by which formats recognise it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a log: ``name`` for display, ``stem`` without folder and endings."""

    name: str
    stem: str
    agent: str | None = None
    """Overrides the agent that the format would name."""
    limits: Limits = field(default_factory=Limits)
    """How much a file and each of its records may hold."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that is not an episode, and the reason; ``number`` counts from 1."""

    number: int
    field: str
    reason: str


Record = tuple[int, Episode] | Refused
"""An episode with its number in the file (from 1; lines for line formats), or a refusal."""


@dataclass(frozen=True, slots=True)
class Format:
    """A log format.

    ``detect`` says from the first bytes whether a file is of this format; ``read`` yields its
    records in constant memory, with a :class:`Refused` for each record that is not an episode.
    :mod:`graphmem.seeding.reading` reads lines and JSON within the limits of the origin.
    """

    name: str
    doc: str
    detect: Callable[[bytes], bool]
    read: Callable[[BinaryIO, Origin], Iterator[Record]]


@cache
def formats() -> dict[str, Format]:
    """Return all installed formats by name.

    Raises:
        SeedingError: an installed format cannot be loaded.
    """
    loaded_formats: dict[str, Format] = {}
    for entry in entry_points(group="graphmem.formats"):
        try:
            loaded = entry.load()
        except Exception as error:
            raise SeedingError(f"format {entry.name!r} cannot be loaded: {error}") from error
        if not isinstance(loaded, Format):
            raise SeedingError(f"format {entry.name!r}: {entry.value} is not a Format")
        loaded_formats[entry.name] = loaded
    return dict(sorted(loaded_formats.items()))


def find(name: str) -> Format:
    """Return a format by name.

    Raises:
        NotFoundError: there is no such format.
    """
    try:
        return formats()[name]
    except KeyError:
        raise NotFoundError(f"no log format {name!r}; there are {', '.join(formats())}") from None


def detect(head: bytes, name: str) -> Format:
    """Return the format of a file that begins with ``head``.

    Raises:
        SeedingError: no format or several formats recognise it.
    """
    fitting = [format_ for format_ in formats().values() if format_.detect(head)]
    if len(fitting) == 1:
        return fitting[0]
    what = "several formats fit" if fitting else "no known format"
    names = ", ".join(format_.name for format_ in fitting or formats().values())
    raise SeedingError(f"{name}: {what}; name one with --format ({names})")
