"""Seeds a memory: reads the records of logs, learns them in batches, collects refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from graphmem.config import Settings
from graphmem.episodes.occurrences import Occurrences
from graphmem.episodes.rows import Prepared
from graphmem.errors import ValidationError
from graphmem.graph.graph import Graph
from graphmem.models import Episode, LearnReport
from graphmem.models.fields import Output
from graphmem.seeding.formats import Refused, find
from graphmem.seeding.outcomes import EXAMPLES, Outcomes
from graphmem.seeding.parts import Began, Ended, Item, Read, Terms, read_all
from graphmem.seeding.reading import Limits
from graphmem.seeding.sources import Source
from graphmem.seeding.workers import Workers, reading
from graphmem.store import Store

BATCH = 100
"""Records in a transaction; more are hardly faster, and need more memory."""
BATCH_SIZE = 4_000_000
"""A batch ends when it has so many characters, so that memory stays bounded."""
KEPT = 1_000
"""Most refusals in a report; ``on_refusal`` receives all."""
Learnable = tuple[int, Episode | Prepared] | Refused
Settled = tuple[Learnable, int]
"""A record, with its number in the log, and about how many characters it has."""


class Refusal(Output):
    """A record that was not learned: its file, its number there (from 1), the field, the reason."""

    file: str
    record: int
    field: str
    reason: str


class SeedReport(Output):
    """Counts of seeded records; ``refusals`` has the first thousand of the ``refused``.

    ``unmatched`` counts the outcomes that were given for keys which no record has;
    ``unmatched_keys`` has some of them.
    """

    files: int
    created: int
    skipped: int
    refused: int
    refusals: tuple[Refusal, ...] = ()
    unmatched: int = 0
    unmatched_keys: tuple[str, ...] = ()


class Progress(Protocol):
    """Receives the progress of seeding."""

    def start(self, source: Source, format_name: str) -> None:
        """A file begins."""

    def advance(self, records: int) -> None:
        """``records`` more records are durable or refused."""

    def finish(self) -> None:
        """The file ended."""


LearnMany = Callable[[Sequence[Any]], LearnReport]


class Learns(Protocol):
    """What is needed of a memory; :class:`graphmem.Memory` has it."""

    store: Store
    namespace: str
    settings: Settings

    def learn_many(
        self, episodes: Iterable[Any], *, batch_size: int, on_error: Literal["collect"]
    ) -> LearnReport:
        """Learn a batch, and report the refused records."""
        ...


def seed(
    memory: Learns | LearnMany,
    logs: Sequence[Source],
    *,
    format_name: str | None = None,
    agent: str | None = None,
    outcomes: str | Path | Mapping[str, bool | float] | None = None,
    strategy_from: str | None = None,
    evaluator: str | None = None,
    batch_size: int = BATCH,
    limit: int | None = None,
    limits: Limits | None = None,
    workers: Workers | None = None,
    progress: Progress | None = None,
    on_refusal: Callable[[Refusal], None] | None = None,
) -> SeedReport:
    """Learn the records of logs, in constant memory.

    Records without a key are told apart by how many equal ones came before in their file, so that
    each counts. Seeding again (also after a kill) skips known records, so that the resulting graph
    is the same.

    Args:
        memory: what learns; or a function that learns a batch of episodes, and returns a report
            that includes the refused ones.
        logs: what to read, see :func:`graphmem.seeding.sources.sources`.
        format_name: None recognises the format from each file's content.
        agent: overrides the agent that the format names.
        outcomes: a file of outcomes by key (CSV, or a JSON report of resolved ids), or a mapping
            from keys to a success or a score, for records that have none.
        strategy_from: what counts as the strategy: ``tools``, ``model``, ``agent``, or the name of
            a field; default: what the format says.
        evaluator: whose judgement counts where a record has several.
        batch_size: records in a transaction.
        limit: most records of each file.
        limits: how much a file may hold; default: what the settings have.
        workers: how many processes read the logs while this one writes, or an executor that does
            (``concurrent.futures.Executor``; of dask: ``client.get_executor()``), whose processes
            must find the logs under the same paths. The graph is the same. None: this process.
        progress: called as batches become durable.
        on_refusal: called for every refused record.

    Raises:
        SeedingError: a log cannot be opened, its format is unknown (of a file that was found in a
            folder or by a pattern, this is a refusal), or a worker died; records learned before
            stay. Or the outcomes cannot be read; then nothing is learned.
        ValidationError: ``logs`` are paths and not sources, or ``workers`` is wrong, or is given
            with a function instead of a memory.
    """
    if paths := [log for log in logs if not isinstance(log, Source)]:
        raise ValidationError("logs", paths, "are no sources", "give sources([path, ...])")
    if format_name:
        find(format_name)
    if agent is not None:  # the same check as in an episode, before anything is read
        agent = Episode(task="-", strategy="-", success=True, agent=agent).agent
    learn_many, namespace, settings = _learning(memory, batch_size)
    limits = limits or Limits.of(settings)
    joined = None if outcomes is None else Outcomes.of(_given(outcomes), limits)
    if isinstance(outcomes, str | Path):  # it may lie in a folder of logs
        told = Path(outcomes).resolve()
        logs = [log for log in logs if not (log.found and Path(log.path).resolve() == told)]
    terms = Terms(
        limits=limits,
        threshold=settings.success_threshold,
        format_name=format_name,
        agent=agent,
        outcomes=joined,
        strategy_from=strategy_from,
        evaluator=evaluator,
        limit=limit,
        namespace=namespace,
    )
    terms.settling()
    if workers is None:
        found: AbstractContextManager[Iterator[Item]] = nullcontext(read_all(logs, terms))
    elif namespace is None:
        raise ValidationError("workers", workers, "need a memory", "give it instead of a function")
    else:
        found = reading(workers, logs, terms)
    tally = _Tally(on_refusal)
    with found as items:
        for source in logs:
            with Occurrences() as counted:
                records = _records(items, source, counted, joined, progress)
                for batch in _batches(records, batch_size):
                    tally.learn(learn_many, source, batch)
                    if progress:
                        progress.advance(len(batch))
            if progress:
                progress.finish()
    return tally.report(len(logs), list(joined.without_record()) if joined else [])


def _learning(
    memory: Learns | LearnMany, batch_size: int
) -> tuple[LearnMany, str | None, Settings]:
    """Return what learns a batch, the namespace if it is known, and the settings in force."""
    if not hasattr(memory, "learn_many"):
        return memory, None, Settings()
    known = cast(Learns, memory)

    def learn_many(episodes: Sequence[Any]) -> LearnReport:
        return known.learn_many(episodes, batch_size=batch_size, on_error="collect")

    graph = Graph(known.store, known.namespace, known.settings)
    return learn_many, known.namespace, graph.settings


def _given(
    outcomes: str | Path | Mapping[str, bool | float],
) -> str | Mapping[str, bool | float]:
    return str(outcomes) if isinstance(outcomes, Path) else outcomes


def _records(
    items: Iterator[Item],
    source: Source,
    counted: Occurrences,
    outcomes: Outcomes | None,
    progress: Progress | None,
) -> Iterator[Settled]:
    """Yield the records of the next log, of which those without a key are numbered where equal."""
    before = 0
    for item in items:
        if isinstance(item, Began):
            if progress:
                progress.start(source, item.format)
        elif isinstance(item, Ended):
            if item.last:
                return
            before += item.lines
        else:
            yield _settled(item, item.number + before, counted, outcomes)


def _settled(item: Read, number: int, counted: Occurrences, outcomes: Outcomes | None) -> Settled:
    record = item.record
    if item.claim and outcomes:
        try:
            outcomes.find(*item.claim)  # a worker does not know what others read
        except ValidationError as error:
            record = Refused(number, error.field, str(error))
    if isinstance(record, Refused):
        return replace(record, number=number), 0
    if item.content is not None:
        occurrence = counted.of(item.content, record.occurrence)
        if isinstance(record, Prepared):
            record.numbered(occurrence)
        else:
            record = record.model_copy(update={"occurrence": occurrence})
    return (number, record), item.size


def _batches(records: Iterator[Settled], size: int) -> Iterator[list[Learnable]]:
    """Yield batches of at most ``size`` records, and with few more than ``BATCH_SIZE`` characters.

    They depend on the records alone, not on who read them.
    """
    batch: list[Learnable] = []
    held = 0
    for record, length in records:
        batch.append(record)
        held += length
        if len(batch) == size or held >= BATCH_SIZE:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


class _Tally:
    """Counts learned, known and refused records."""

    def __init__(self, on_refusal: Callable[[Refusal], None] | None) -> None:
        self._on_refusal = on_refusal
        self._created = self._skipped = self._refused = 0
        self._kept: list[Refusal] = []

    def learn(self, learn_many: LearnMany, source: Source, batch: Sequence[Learnable]) -> None:
        episodes: list[Episode | Prepared] = []
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

    def report(self, files: int, unmatched: Sequence[str]) -> SeedReport:
        return SeedReport(
            files=files,
            created=self._created,
            skipped=self._skipped,
            refused=self._refused,
            refusals=tuple(self._kept),
            unmatched=len(unmatched),
            unmatched_keys=tuple(unmatched[:EXAMPLES]),
        )
