"""Reads logs, or parts of them, and yields their records one by one.

A record is an episode that the memory learns, or a refusal. If the namespace is known, each episode
is already a row, ready for the graph. Workers and a single process read by the same functions.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from graphmem.episodes.rows import Prepared, episode_row
from graphmem.errors import SeedingError, ValidationError
from graphmem.ids import canonical_json, digest
from graphmem.models import Episode, content, resolve
from graphmem.models.episodes import hashed
from graphmem.seeding.formats import Format, Origin, Record, Refused, detect, find
from graphmem.seeding.outcomes import Claim, Outcomes
from graphmem.seeding.reading import DamagedError, Limits
from graphmem.seeding.settling import Settling
from graphmem.seeding.sources import Source, damage


@dataclass(frozen=True, slots=True)
class Terms:
    """How to read logs: the arguments of :func:`graphmem.seeding.seed`."""

    limits: Limits
    threshold: float
    """A score of at least this is a success."""
    format_name: str | None = None
    agent: str | None = None
    outcomes: Outcomes | None = None
    strategy_from: str | None = None
    evaluator: str | None = None
    limit: int | None = None
    namespace: str | None = None
    """Make rows for this namespace; None: yield episodes."""

    def settling(self) -> Settling:
        """Return what finds the outcome and the strategies of a record whose log lacks them.

        Raises:
            ValidationError: a name of a field or an evaluator is blank.
        """
        return Settling(
            self.agent, self.strategy_from, self.evaluator, self.outcomes, self.threshold
        )


@dataclass(frozen=True, slots=True)
class Part:
    """A log, or a range of it: the lines that begin from byte ``start`` up to ``stop``.

    A range names its format, because only the beginning of a log shows it.
    """

    source: Source
    format: str | None = None
    start: int = 0
    stop: int | None = None

    @property
    def last(self) -> bool:
        """Whether it is the end of the log."""
        return self.stop is None


class Began(NamedTuple):
    """A log begins."""

    format: str


class Ended(NamedTuple):
    """A part ends. The next part of the log counts its records on from ``lines`` more."""

    last: bool
    lines: int = 0


class Read(NamedTuple):
    """A record of a part. ``number`` is its place there, from 1."""

    number: int
    record: Episode | Prepared | Refused
    content: str | None = None
    """A hash, by which the writer counts equal records; None if the record has a key."""
    size: int = 0
    """Roughly how many characters it has."""
    claim: Claim | None = None
    """The keys by which an outcome from outside was looked up for it."""


Item = Began | Read | Ended


def read_all(logs: Iterable[Source], terms: Terms) -> Iterator[Item]:
    """Read logs one after the other."""
    for source in logs:
        yield from read(Part(source), terms)


def read(part: Part, terms: Terms) -> Iterator[Item]:
    """Read a part in constant memory.

    Raises:
        SeedingError: the log cannot be opened, or the user named it and its format is unknown.
    """
    if part.format is not None:
        with Path(part.source.path).open("rb") as file:
            lines = Lines(file, part)
            if part.start == 0:
                yield Began(part.format)
            yield from _records(find(part.format), io.BufferedReader(lines), part.source, terms)
            yield Ended(part.last, lines.count - (part.start == 0))
        return
    with part.source.open(terms.limits) as (head, stream):
        if not head.strip():
            yield Read(1, Refused(1, "file", "is empty"))
        elif isinstance(format_ := _format_or_not(part.source, head, terms), Refused):
            yield Read(1, format_)
        else:
            yield Began(format_.name)
            yield from islice(_records(format_, stream, part.source, terms), terms.limit)
        yield Ended(last=True)


def _format_or_not(source: Source, head: bytes, terms: Terms) -> Format | Refused:
    """Return the format of a log, or a refusal for a file of a folder that is no log.

    Raises:
        SeedingError: the format is unknown, and the user named the file.
    """
    try:
        return format_of(source, head, terms)
    except SeedingError as error:
        if not source.found:
            raise
        why = str(error).removeprefix(f"{source.name}: ").partition(";")[0]
        return Refused(1, "file", f"was passed over: {why}")


def format_of(source: Source, head: bytes, terms: Terms) -> Format:
    """Return the format of a log that begins with ``head``.

    Raises:
        SeedingError: the format is unknown.
    """
    named = terms.format_name or source.format
    return find(named) if named else detect(head, source.name)


def _records(format_: Format, stream: BinaryIO, source: Source, terms: Terms) -> Iterator[Read]:
    path = None if source.path == "-" else Path(source.path)
    origin = Origin(source.name, source.stem, terms.agent, terms.limits, path, terms.strategy_from)
    asking = terms.outcomes
    for item in terms.settling().settled(_guarded(format_, stream, origin)):
        claim = asking.taken() if asking else None
        if isinstance(item, Refused):
            yield Read(item.number, item, claim=claim)
            continue
        number, episode = item
        try:
            record, counted = _prepared(episode, terms)
        except ValidationError as error:  # it contradicts itself
            yield Read(number, Refused(number, error.field, str(error)), claim=claim)
        else:
            yield Read(number, record, counted, _length(episode), claim)


def _prepared(episode: Episode, terms: Terms) -> tuple[Episode | Prepared, str | None]:
    """Return the row of an episode (or the episode), and the hash of one without a key."""
    if terms.namespace is not None:
        row = episode_row(episode, terms.namespace, terms.threshold)
        return (
            Prepared.of(row, terms.namespace, terms.threshold, episode.occurrence),
            None if episode.source_key else row["content_hash"],
        )
    if episode.source_key is not None:
        return episode, None
    try:
        held = hashed(content(episode, resolve(episode, terms.threshold)))
    except ValidationError:  # it contradicts itself, so it is refused when it is learned
        return episode, None
    return episode, digest(canonical_json(held))


def _length(episode: Episode) -> int:
    """Return how many characters the steps and the extra data of an episode have."""
    texts = (text for step in episode.steps for text in (step.observation, step.error))
    actions = sum(len(str(step.action)) for step in episode.steps)
    extra = len(str(episode.extra)) if episode.extra else 0
    return sum(len(text) for text in texts if text) + actions + extra


def _guarded(format_: Format, stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the records of a log; if its rest is damaged, one refusal stands for that."""
    number = 0
    try:
        for item in format_.read(stream, origin):
            number = item[0] if isinstance(item, tuple) else item.number
            yield item
    except SeedingError as error:
        if not (isinstance(error, DamagedError) and damage(stream)):
            yield Refused(number + 1, "file", str(error))
    if (ended := damage(stream)) is not None:
        yield Refused(number + 1, "file", str(ended))


class Lines(io.RawIOBase):
    """A stream of the lines of a file that begin within the range of a part.

    A later part starts with the end of the line before it, so that no format takes it for the
    beginning of a file. ``count`` is the number of line ends that were read.
    """

    def __init__(self, file: BinaryIO, part: Part) -> None:
        self._file = file
        size = file.seek(0, io.SEEK_END)
        begin = _next_line(file, part.start)
        end = size if part.stop is None else _next_line(file, part.stop)
        before = 1 if part.start and begin < end else 0
        self.count = -before
        self._left = max(0, end - begin) + before
        file.seek(begin - before)

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read the next bytes into a buffer."""
        target = memoryview(buffer)  # type: ignore[arg-type]
        data = self._file.read(min(len(target), self._left))
        self._left -= len(data)
        self.count += data.count(b"\n")
        target[: len(data)] = data
        return len(data)


def _next_line(file: BinaryIO, at: int) -> int:
    """Return the first beginning of a line at ``at`` or after it."""
    if at == 0:
        return 0
    file.seek(at - 1)
    while chunk := file.read(io.DEFAULT_BUFFER_SIZE):
        found = chunk.find(b"\n")
        if found >= 0:
            return file.tell() - len(chunk) + found + 1
    return file.tell()
