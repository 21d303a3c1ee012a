"""Seeds a memory: reads the records of logs, learns them in batches, collects refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from graphmem.config import Settings
from graphmem.errors import ConflictError, NotFoundError, SeedingError, ValidationError
from graphmem.graph.arguments import (
    check_function,
    check_limit,
    check_text,
    checked_agent,
    checked_path,
)
from graphmem.graph.graph import Graph
from graphmem.models.episodes import Episode
from graphmem.models.fields import Output
from graphmem.models.reports import LearnReport, Rejection, Settled
from graphmem.printable import counted
from graphmem.seeding.formats import (
    Format,
    Later,
    Origin,
    Record,
    Refused,
    UnknownFormatError,
    detect,
    find,
)
from graphmem.seeding.maps import LOOKED_AT, RECORDS, Map, list_fields, propose, read_map
from graphmem.seeding.reading import DamagedError, Limits
from graphmem.seeding.settling import EXAMPLES, Outcomes, Settling
from graphmem.seeding.sources import Source, damage
from graphmem.store.port import Store

BATCH = 100
"""Records in a transaction; more are hardly faster, and need more memory."""
PREVIEW = 5
"""Records of each file that a dry run shows."""
JUDGED = ("inspect", "langfuse", "langsmith", "mlflow", "otlp")
"""Formats whose runs are judged afterwards: another outcome of the same run settles it."""
FIELDS_SHOWN = 20
"""Most fields of a record that are named where nothing can be proposed."""
KEPT = 1_000
"""Most refusals in a report; ``on_refusal`` receives all."""


class Refusal(Output):
    """A record that was not learned: its file, its number there (from 1), the field, the reason."""

    file: str
    record: int
    field: str
    reason: str


class SeedReport(Output):
    """Counts of seeded records; ``refusals`` has the first thousand of the ``refused``.

    ``unmatched`` counts the outcomes that were given for keys which no record and no episode has;
    ``unmatched_keys`` has some of them. ``unfound`` has the fields of a map that no record has.
    """

    files: int
    created: int
    skipped: int
    refused: int
    settled: int = 0
    """Episodes that got another outcome, which was told later."""
    refusals: tuple[Refusal, ...] = ()
    unmatched: int = 0
    unmatched_keys: tuple[str, ...] = ()
    unfound: tuple[str, ...] = ()


class Preview(Output):
    """A record as it would be learned: its file, its number there, and the episode.

    Of a record that would not be learned, ``episode`` is None, and ``problem`` says why.
    """

    file: str
    record: int
    episode: Episode | None = None
    problem: str | None = None


class Learns(Protocol):
    """The part of a memory that seeding needs; :class:`graphmem.Memory` has it."""

    store: Store
    namespace: str
    settings: Settings

    def learn_many(self, *args: Any, **how: Any) -> LearnReport: ...  # noqa: D102

    def settle(self, *args: Any, **how: Any) -> Settled: ...  # noqa: D102


class MapError(SeedingError):
    """A map does not fit a log."""


class LogReader:
    """Logs, and how they are read: by which formats, and what settles what they leave open."""

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        format_name: str | None = None,
        map: Map | None = None,  # noqa: A002 - the name of the argument of seed
        agent: str | None = None,
        outcomes: str | Path | Mapping[str, bool | float] | None = None,
        strategy_from: str | None = None,
        evaluator: str | None = None,
        limits: Limits | None = None,
        threshold: float = 0.5,
    ) -> None:
        if paths := [log for log in sources if not isinstance(log, Source)]:
            raise ValidationError("logs", paths, "are no sources", "give sources([path, ...])")
        self._limits = limits or Limits()
        self._format_name = format_name
        self._maps = None if map is None else read_map(map)
        if format_name is not None:
            check_text("format", format_name)
            if self._maps is None:
                find(format_name)
        agent = checked_agent(agent)
        if isinstance(outcomes, str | Path):
            outcomes = str(checked_path("outcomes", outcomes))
        self.outcomes = None if outcomes is None else Outcomes.of(outcomes, self._limits)
        own = Path(outcomes).resolve() if isinstance(outcomes, str) else None
        self.sources = [  # the outcomes may lie in a folder of logs
            log for log in sources if not (log.found and Path(log.path).resolve() == own)
        ]
        self._settling = Settling(agent, strategy_from, evaluator, self.outcomes, threshold)
        self._asked: set[str] = set()
        self._found: set[str] = set()

    @property
    def unfound(self) -> tuple[str, ...]:
        """The fields that the maps of files read so far ask for, and that no record has."""
        return tuple(sorted(self._asked - self._found))

    def records(self, source: Source) -> Iterator[tuple[int, Episode | Later] | Refused]:
        """Yield the episodes of a log, later outcomes of others, and refusals."""
        return self._settling.settle(self._read(source))

    def preview(self, limit: int = PREVIEW) -> Iterator[Preview]:
        """Yield the first records as they would be learned, and the first that would not."""
        for source in self.sources:
            for item in islice(self.records(source), limit):
                if isinstance(item, Refused):
                    yield Preview(file=source.name, record=item.number, problem=item.reason)
                elif isinstance(item[1], Episode):
                    yield Preview(file=source.name, record=item[0], episode=item[1])
                else:
                    problem = "is an outcome of a run that was learned before"
                    yield Preview(file=source.name, record=item[0], problem=problem)

    def _read(self, source: Source) -> Iterator[Record]:
        """Yield the records of a log; if its rest is damaged, one refusal stands for that."""
        with source.open(self._limits) as (head, stream):
            if not head.strip():
                yield Refused(1, "file", str(damage(stream) or "is empty"))
                return
            try:
                format_ = self._choose(head, source, stream)
            except SeedingError as error:
                if not source.found:
                    raise
                why = str(error).removeprefix(f"{source.name}: ").partition(";")[0]
                yield Refused(1, "file", f"was passed over: {why}")
                return
            self._asked |= format_.asked or set()
            settling = self._settling
            origin = Origin(
                *(source.stem, self._limits, source.file, settling.strategy_from, self._found)
            )
            number = 0
            try:
                for item in self._check(format_.read(stream, origin), source):
                    number = item[0] if isinstance(item, tuple) else item.number
                    yield item
            except MapError as error:
                if not source.found:
                    raise
                yield Refused(1, "file", str(error))
            except SeedingError as error:
                if not (isinstance(error, DamagedError) and damage(stream)):
                    yield Refused(number + 1, "file", str(error))
            if (problem := damage(stream)) is not None:
                yield Refused(number + 1, "file", str(problem))

    def _check(self, records: Iterator[Record], source: Source) -> Iterator[Record]:
        """Yield all records, unless a map fits less than half of the first ones."""
        if self._maps is None:
            yield from records
            return
        first = list(islice(records, RECORDS))
        wrong = [item for item in first if isinstance(item, Refused)]
        if 2 * len(wrong) > len(first):
            fitting, of = len(first) - len(wrong), counted(len(first), "record")
            why = f"record {wrong[0].number}: {wrong[0].reason}"
            raise MapError(f"{source.name}: the map fits {fitting} of the first {of}; {why}")
        yield from chain(first, records)

    def _choose(self, head: bytes, source: Source, stream: BinaryIO) -> Format:
        """Return the format of a log: the one that was named, else the one that fits."""
        name, maps = self._format_name or source.format, self._maps
        if maps is None:
            return find(name) if name else self._detect(head, source, stream)
        fitting = [one for one in maps if len(maps) == 1 or one.name == name or one.detect(head)]
        if len(fitting) != 1:
            names = ", ".join(one.name for one in fitting or maps)
            what = "several maps fit" if fitting else "no map has marks that fit"
            raise SeedingError(f"{source.name}: {what}; name one with --format ({names})")
        return fitting[0]

    def _detect(self, head: bytes, source: Source, stream: BinaryIO) -> Format:
        """Return the format that fits; the error of a log without one proposes a map."""
        try:
            return detect(head, source.name)
        except UnknownFormatError as error:
            if source.found:
                raise
            content = stream.read(LOOKED_AT)
            if (proposal := propose(content)) is None:
                there = ", ".join(list_fields(content)[:FIELDS_SHOWN])
                raise UnknownFormatError(f"{error}; it has {there}" if there else error) from None
            proposed = UnknownFormatError(f"{source.name}: no known format; {proposal}")
            proposed.proposal = proposal
            raise proposed from error


def seed(
    memory: Learns,
    logs: Sequence[Source],
    *,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
    on_refusal: Callable[[Refusal], None] | None = None,
    **how: Any,
) -> SeedReport:
    """Learn the records of logs, in constant memory.

    Records without a key are told apart by how many equal ones came before in their file, so that
    each counts. Seeding again (also after a kill) skips known records, so the graph is the same.

    Args:
        memory: the memory that learns.
        logs: what to read, see :func:`graphmem.seeding.sources.sources`.
        limit: most records of each file.
        progress: called with the number of records that are durable or refused by now.
        on_refusal: called for every refused record.
        how: how the logs are read, as :meth:`graphmem.Memory.seed` has it.

    Raises:
        SeedingError: a log cannot be opened, or its format is unknown (of a file that was found in
            a folder or by a pattern, this is a refusal); records learned before stay. Or the map or
            the outcomes cannot be read; then nothing is learned.
        ValidationError: ``logs`` are paths and not sources.
    """
    if limit is not None:
        check_limit(limit)
    check_function("on_progress", progress)
    settings = Graph(memory.store, memory.namespace, memory.settings).settings
    read = LogReader(logs, threshold=settings.success_threshold, **how)
    counts: Counter[str] = Counter()
    refusals: list[Refusal] = []

    def advance(count: int) -> None:
        counts["done"] += count
        if progress:
            progress(counts["done"])

    def refuse(file: str, item: Refused) -> None:
        counts["refused"] += 1
        refusal = Refusal(file=file, record=item.number, field=item.field, reason=item.reason)
        if len(refusals) < KEPT:
            refusals.append(refusal)
        if on_refusal:
            on_refusal(refusal)

    for source in read.sources:
        records = islice(read.records(source), limit)
        deny = partial(refuse, source.name)
        counts.update(_learn(memory, records, read.outcomes, deny, advance))
    unmatched = []
    for number, told in read.outcomes.without_record() if read.outcomes else ():
        try:
            counts[_settle(memory, told)] += 1
        except NotFoundError:
            unmatched.append(told.key)
        except ValidationError as error:
            file = read.outcomes.name if read.outcomes else ""
            refuse(file, Refused(number, error.field, str(error)))
    return SeedReport(
        files=len(read.sources),
        **{name: counts[name] for name in ("created", "skipped", "refused", "settled")},
        refusals=tuple(refusals),
        unmatched=len(unmatched),
        unmatched_keys=tuple(unmatched[:EXAMPLES]),
        unfound=read.unfound,
    )


def _learn(
    memory: Learns,
    records: Iterator[tuple[int, Episode | Later] | Refused],
    outcomes: Outcomes | None,
    refuse: Callable[[Refused], None],
    advance: Callable[[int], None],
) -> Counter[str]:
    """Learn the episodes of a log by one call, which tells equal ones apart; then settle others."""
    later: list[tuple[int, Later, bool]] = []
    """Outcomes that come later, and whether they stand beside a record that counts itself."""
    waiting: list[tuple[int, Episode]] = []
    """The episodes that are not durable yet, with their numbers in the log."""
    durable = latest = 0

    def episodes() -> Iterator[Episode]:
        nonlocal latest
        for record in records:
            if isinstance(record, Refused):
                refuse(record)
                advance(1)
            elif isinstance(record[1], Later):
                later.append((record[0], record[1], record[0] == latest))
            else:
                latest = record[0]
                waiting.append((record[0], record[1]))
                yield record[1]

    def count(records: int) -> None:
        nonlocal durable
        durable += records
        del waiting[:records]
        advance(records)

    def reject(bad: Rejection) -> None:
        number, episode = waiting[bad.index - durable]
        joined = outcomes.joined_to(bad.source_key) if outcomes else None
        judged = joined is not None or episode.source in JUDGED
        if bad.source_key and judged and _is_known(memory, episode):
            at = joined.at if joined else None
            told = Later(bad.source_key, episode.success, episode.score, at)
            later.append((number, told, False))
        else:
            refuse(Refused(number, bad.field, bad.reason))

    report = memory.learn_many(
        episodes(), batch_size=BATCH, on_error="collect", on_progress=count, on_reject=reject
    )
    counts = Counter(created=report.created, skipped=report.skipped)
    for number, told, beside in later:
        try:
            done = _settle(memory, told)
            counts[done] += done == "settled" or not beside
        except (NotFoundError, ValidationError) as error:
            refuse(Refused(number, getattr(error, "field", "episode"), str(error)))
        advance(not beside)
    return counts


def _is_known(memory: Learns, episode: Episode) -> bool:
    """Return whether an episode was learned before, with no other difference than its outcome."""
    try:
        memory.learn_many([episode])
    except ConflictError as error:
        return error.differences.keys() <= {"success", "score", "reward"}
    return False


def _settle(memory: Learns, told: Later) -> str:
    """Settle an episode; return as what that counts."""
    outcome = {"success": told.success, "score": told.score, "at": told.at}
    return "settled" if memory.settle(told.key, **outcome).changed else "skipped"
