"""The loop: reads records, learns them in batches, collects refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO, Protocol

from pydantic import BaseModel, ConfigDict

from graphmem.config import Settings
from graphmem.episodes.occurrences import Occurrences
from graphmem.errors import SeedingError, ValidationError
from graphmem.ids import canonical_json, digest
from graphmem.models import Episode, LearnReport, content, resolve
from graphmem.models.episodes import hashed
from graphmem.seeding.formats import Format, Origin, Record, Refused, detect, find
from graphmem.seeding.reading import DamagedError, Limits
from graphmem.seeding.sources import Source, count, damage

BATCH = 100
"""Records in a transaction; more are hardly faster, and need more memory."""
BATCH_BYTES = 4_000_000
"""A batch ends when so much of a file was read for it, so that memory stays bounded."""
KEPT = 1_000
"""Most refusals in a report; ``on_refusal`` receives all."""


class Refusal(BaseModel):
    """A record that was not learned: its file, its number there (from 1), the field, the reason."""

    model_config = ConfigDict(frozen=True)

    file: str
    record: int
    field: str
    reason: str


class SeedReport(BaseModel):
    """Counts of seeded records; ``refusals`` has the first thousand of the ``refused``."""

    model_config = ConfigDict(frozen=True)

    files: int
    created: int
    skipped: int
    refused: int
    refusals: tuple[Refusal, ...] = ()


class Progress(Protocol):
    """Receives the progress of seeding."""

    def start(self, source: Source, format_name: str) -> None:
        """A file begins."""

    def advance(self, records: int) -> None:
        """``records`` more records are durable or refused."""

    def finish(self) -> None:
        """The file ended."""


LearnMany = Callable[[Sequence[Episode]], LearnReport]


def seed(
    learn_many: LearnMany,
    logs: Sequence[Source],
    *,
    format_name: str | None = None,
    agent: str | None = None,
    batch_size: int = BATCH,
    limit: int | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
    on_refusal: Callable[[Refusal], None] | None = None,
) -> SeedReport:
    """Learn the records of logs, in constant memory.

    Records without a key are told apart by how many equal ones came before in their file, so that
    each counts. Seeding again (also after a kill) skips known records, so that the resulting graph
    is the same.

    Args:
        learn_many: learns a batch and returns a report that includes the refused records.
        logs: what to read, see :func:`graphmem.seeding.sources.sources`.
        format_name: None recognises the format from each file's content.
        agent: overrides the agent that the format names.
        batch_size: records in a transaction.
        limit: most records of each file.
        limits: how much a file may hold; default: what the settings have.
        progress: called as batches become durable.
        on_refusal: called for every refused record.

    Raises:
        SeedingError: a log cannot be opened or its format is unknown; records learned before stay.
    """
    chosen = find(format_name) if format_name else None
    if agent is not None:  # the same check as in an episode, before anything is read
        agent = Episode(task="-", strategy="-", success=True, agent=agent).agent
    settings = Settings()
    limits, threshold = limits or Limits.of(settings), settings.success_threshold
    tally = _Tally(on_refusal)
    for source in logs:
        with source.open(limits) as (head, stream):
            if not head.strip():
                tally.refuse(source, Refused(1, "file", "is empty"))
                continue
            format_ = chosen or detect(head, source.name)
            if progress:
                progress.start(source, format_.name)
            origin = Origin(source.name, source.stem, agent, limits)
            with Occurrences() as counted:
                read = _numbered(_guarded(format_, stream, origin), counted, threshold)
                for batch in _batches(islice(read, limit), batch_size, stream):
                    tally.learn(learn_many, source, batch)
                    if progress:
                        progress.advance(len(batch))
            if progress:
                progress.finish()
    return tally.report(len(logs))


def _batches(records: Iterator[Record], size: int, stream: BinaryIO) -> Iterator[list[Record]]:
    """Yield batches of at most ``size`` records, each from about ``BATCH_BYTES`` at most."""
    batch: list[Record] = []
    before = count(stream)
    for record in records:
        batch.append(record)
        if len(batch) == size or count(stream) - before >= BATCH_BYTES:
            yield batch
            batch, before = [], count(stream)
    if batch:
        yield batch


class _Tally:
    """Counts learned, known and refused records."""

    def __init__(self, on_refusal: Callable[[Refusal], None] | None) -> None:
        self._on_refusal = on_refusal
        self._created = self._skipped = self._refused = 0
        self._kept: list[Refusal] = []

    def learn(self, learn_many: LearnMany, source: Source, batch: Sequence[Record]) -> None:
        episodes: list[Episode] = []
        numbers: list[int] = []
        for item in batch:
            if isinstance(item, Refused):
                self.refuse(source, item)
            else:
                numbers.append(item[0])
                episodes.append(item[1])
        report = learn_many(episodes)
        self._created += report.created
        self._skipped += report.skipped
        for bad in report.rejected:
            self.refuse(source, Refused(numbers[bad.index], bad.field, bad.reason))

    def refuse(self, source: Source, item: Refused) -> None:
        self._refused += 1
        refusal = Refusal(
            file=source.name, record=item.number, field=item.field, reason=item.reason
        )
        if len(self._kept) < KEPT:
            self._kept.append(refusal)
        if self._on_refusal:
            self._on_refusal(refusal)

    def report(self, files: int) -> SeedReport:
        return SeedReport(
            files=files,
            created=self._created,
            skipped=self._skipped,
            refused=self._refused,
            refusals=tuple(self._kept),
        )


def _numbered(
    records: Iterator[Record], counted: Occurrences, threshold: float
) -> Iterator[Record]:
    """Yield records, of which those without a key are numbered where they are equal."""
    for item in records:
        if isinstance(item, Refused) or item[1].source_key is not None:
            yield item
            continue
        number, episode = item
        try:
            held = hashed(content(episode, resolve(episode, threshold)))
        except ValidationError:  # it contradicts itself, so it is refused when it is learned
            yield item
            continue
        occurrence = counted.of(digest(canonical_json(held)), episode.occurrence)
        yield number, episode.model_copy(update={"occurrence": occurrence})


def _guarded(format_: Format, stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the records; the damaged rest of a file becomes one more refusal."""
    number = 0
    try:
        for item in format_.read(stream, origin):
            number = item.number if isinstance(item, Refused) else item[0]
            yield item
    except SeedingError as error:
        if not (isinstance(error, DamagedError) and damage(stream)):
            yield Refused(number + 1, "file", str(error))
    if (ended := damage(stream)) is not None:
        yield Refused(number + 1, "file", str(ended))
