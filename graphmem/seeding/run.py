"""Seeds a memory: reads the records of logs, learns them in batches, collects refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

from graphmem.config import Settings
from graphmem.errors import NotFoundError, SeedingError, ValidationError
from graphmem.graph.graph import Graph
from graphmem.models import Episode, LearnReport, Rejection, Settled
from graphmem.models.fields import Output
from graphmem.seeding.formats import Later, Origin, Record, Refused, detect, find
from graphmem.seeding.reading import DamagedError, Limits
from graphmem.seeding.settling import EXAMPLES, Outcomes, Settling
from graphmem.seeding.sources import Source, damage
from graphmem.store import Store

BATCH = 100
"""Records in a transaction; more are hardly faster, and need more memory."""
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

    ``unmatched`` counts the outcomes that were given for keys which no record has;
    ``unmatched_keys`` has some of them.
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


class Learns(Protocol):
    """The part of a memory that seeding needs; :class:`graphmem.Memory` has it."""

    store: Store
    namespace: str
    settings: Settings

    @property
    def learn_many(self) -> Callable[..., LearnReport]: ...  # noqa: D102

    @property
    def settle(self) -> Callable[..., Settled]: ...  # noqa: D102


def seed(
    memory: Learns,
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
    progress: Callable[[int], None] | None = None,
    on_refusal: Callable[[Refusal], None] | None = None,
) -> SeedReport:
    """Learn the records of logs, in constant memory.

    Records without a key are told apart by how many equal ones came before in their file, so that
    each counts. Seeding again (also after a kill) skips known records, so that the resulting graph
    is the same.

    Args:
        memory: the memory that learns.
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
        progress: called with the number of records that are durable or refused by now.
        on_refusal: called for every refused record.

    Raises:
        SeedingError: a log cannot be opened, or its format is unknown (of a file that was found in
            a folder or by a pattern, this is a refusal); records learned before stay. Or the
            outcomes cannot be read; then nothing is learned.
        ValidationError: ``logs`` are paths and not sources.
    """
    if paths := [log for log in logs if not isinstance(log, Source)]:
        raise ValidationError("logs", paths, "are no sources", "give sources([path, ...])")
    if format_name:
        find(format_name)
    if agent is not None:  # the same check as in an episode, before anything is read
        agent = Episode(task="-", strategy="-", success=True, agent=agent).agent
    settings = Graph(memory.store, memory.namespace, memory.settings).settings
    limits = limits or Limits()
    joined = None
    if outcomes is not None:
        joined = Outcomes.of(str(outcomes) if isinstance(outcomes, Path) else outcomes, limits)
    if isinstance(outcomes, str | Path):  # it may lie in a folder of logs
        file = Path(outcomes).resolve()
        logs = [log for log in logs if not (log.found and Path(log.path).resolve() == file)]
    settling = Settling(agent, strategy_from, evaluator, joined, settings.success_threshold)
    counts: Counter[str] = Counter()
    refusals: list[Refusal] = []

    def advance(count: int) -> None:
        counts["done"] += count
        if progress:
            progress(counts["done"])

    for source in logs:

        def refuse(item: Refused, file: str = source.name) -> None:
            counts["refused"] += 1
            refusal = Refusal(file=file, record=item.number, field=item.field, reason=item.reason)
            if len(refusals) < KEPT:
                refusals.append(refusal)
            if on_refusal:
                on_refusal(refusal)

        origin = Origin(source.name, source.stem, agent, limits, source.file, strategy_from)
        found = _read(source, format_name or source.format, origin)
        records = islice(settling.settle(found), limit)
        counts.update(_learn(memory, records, refuse, advance, batch_size))
    unmatched = list(joined.without_record()) if joined else []
    return SeedReport(
        files=len(logs),
        **{name: counts[name] for name in ("created", "skipped", "refused", "settled")},
        refusals=tuple(refusals),
        unmatched=len(unmatched),
        unmatched_keys=tuple(unmatched[:EXAMPLES]),
    )


def _learn(
    memory: Learns,
    records: Iterator[tuple[int, Episode | Later] | Refused],
    refuse: Callable[[Refused], None],
    advance: Callable[[int], None],
    batch_size: int,
) -> dict[str, int]:
    """Learn the episodes of a log by one call, which tells equal ones apart; then settle others."""
    later: list[tuple[int, Later]] = []
    numbers: list[int] = []
    """The numbers in the log of the episodes that are not durable yet."""
    durable = 0

    def episodes() -> Iterator[Episode]:
        for record in records:
            if isinstance(record, Refused):
                refuse(record)
                advance(1)
            elif isinstance(record[1], Later):
                later.append((record[0], record[1]))
            else:
                numbers.append(record[0])
                yield record[1]

    def count(records: int) -> None:
        nonlocal durable
        durable += records
        del numbers[:records]
        advance(records)

    def reject(bad: Rejection) -> None:
        refuse(Refused(numbers[bad.index - durable], bad.field, bad.reason))

    report = memory.learn_many(
        episodes(), batch_size=batch_size, on_error="collect", on_progress=count, on_reject=reject
    )
    settled = known = 0
    for number, told in later:
        try:
            outcome = {"success": told.success, "score": told.score}
            changed = memory.settle(told.key, **outcome, at=told.at).changed
            settled, known = settled + changed, known + (not changed)
        except (NotFoundError, ValidationError) as error:
            refuse(Refused(number, getattr(error, "field", "episode"), str(error)))
        advance(1)
    return {"created": report.created, "skipped": report.skipped + known, "settled": settled}


def _read(source: Source, format_name: str | None, origin: Origin) -> Iterator[Record]:
    """Yield the records of a log; if its rest is damaged, one refusal stands for that."""
    with source.open(origin.limits) as (head, stream):
        if not head.strip():
            yield Refused(1, "file", "is empty")
            return
        try:
            format_ = find(format_name) if format_name else detect(head, source.name)
        except SeedingError as error:
            if not source.found:
                raise
            why = str(error).removeprefix(f"{source.name}: ").partition(";")[0]
            yield Refused(1, "file", f"was passed over: {why}")
            return
        number = 0
        try:
            for item in format_.read(stream, origin):
                number = item[0] if isinstance(item, tuple) else item.number
                yield item
        except SeedingError as error:
            if not (isinstance(error, DamagedError) and damage(stream)):
                yield Refused(number + 1, "file", str(error))
        if (problem := damage(stream)) is not None:
            yield Refused(number + 1, "file", str(problem))
