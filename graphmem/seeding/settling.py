"""Settles what a record leaves open: its outcome, and what counts as the strategy.

Outcomes that a log lacks are joined by key: from a CSV file, or a JSON report of what was resolved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO, Self

from graphmem.episodes import naming
from graphmem.errors import SeedingError, ValidationError, shown
from graphmem.models.episodes import Episode
from graphmem.seeding.chats import tools
from graphmem.seeding.formats import Later, Record, Refused, Unsettled, rename_field
from graphmem.seeding.reading import Limits, Values, peek_head, read_rows
from graphmem.seeding.sources import Source, damage
from graphmem.seeding.traces import parse_time

EXAMPLES = 20
"""Most keys without a record in a report."""
KEY, SUCCESS, SCORE, AT = "key", "success", "score", "at"
"""The columns of a table."""
_WORDS = dict.fromkeys(("true", "yes", "1", "1.0"), True) | dict.fromkeys(
    ("false", "no", "0", "0.0"), False
)
_RESOLVED = ("resolved_ids", "resolved")
_UNRESOLVED = ("unresolved_ids", "unresolved", "empty_patch_ids")
_EVALUATED = "completed_ids"
"""Ids that were evaluated; those that a report does not call resolved failed."""


class Outcomes:
    """Outcomes by key; ``told`` says where each stands, and what it is."""

    def __init__(self, name: str, told: Iterable[tuple[str, Later]]) -> None:
        self.name = name
        self._by_key: dict[str, Later] = {}
        self._records: dict[str, str] = {}
        """The source keys of the records to which outcomes were joined, by the key."""
        self._by_record: dict[str | None, Later] = {}
        try:
            for where, one in told:
                if self._by_key.setdefault(one.key, one) != one:
                    raise SeedingError(f"{where}: {shown(one.key, 80)} has two outcomes")
        except (SeedingError, ValidationError) as error:
            raise SeedingError(f"{name}: {error}") from None

    @classmethod
    def of(cls, origin: str | Mapping[str, bool | float], limits: Limits) -> Self:
        """Return outcomes from a file, or from a mapping."""
        if isinstance(origin, Mapping) and all(isinstance(key, str) for key in origin):
            return cls("outcomes", _read_keys(origin))
        if not isinstance(origin, str):
            raise ValidationError("outcomes", origin, "must be a file, or a mapping from keys")
        source = Source(origin)
        with source.open(limits) as (_, stream):
            read = _read_report if peek_head(stream)[:1] in (b"{", b"[") else _read_table
            outcomes = cls(source.name, read(stream, limits))
            if (problem := damage(stream)) is not None:
                raise SeedingError(f"{source.name}: {problem}")
        if not outcomes._by_key:
            raise SeedingError(f"{source.name}: has no outcomes")
        return outcomes

    def find(self, source_key: str | None, names: Sequence[str] = ()) -> Later | None:
        """Return the outcome of a record."""
        key = next((key for key in (source_key, *names) if key in self._by_key), None)
        if source_key is None or key is None:
            return None
        if (record := self._records.setdefault(key, source_key)) != source_key:
            raise ValidationError(
                "outcome",
                key,
                f"is the key of another record, too: of {shown(record, 80)}",
                "seed only the logs that the outcomes are of, or name records by their source "
                f"keys; this one is {shown(source_key, 80)}",
            )
        self._by_record[source_key] = self._by_key[key]
        return self._by_key[key]

    def joined_to(self, source_key: str | None) -> Later | None:
        """Return the outcome that was joined to a record."""
        return self._by_record.get(source_key)

    def without_record(self) -> Iterator[tuple[int, Later]]:
        """Yield the outcomes whose keys no record has, with their numbers in the file."""
        for number, told in enumerate(self._by_key.values(), 1):
            if told.key not in self._records:
                yield number, told


def _read_keys(outcomes: Mapping[str, Any]) -> Iterator[tuple[str, Later]]:
    for key, value in outcomes.items():
        where = f"key {shown(key, 80)}"
        if isinstance(value, bool):
            yield where, Later(key, success=value)
        else:
            yield where, Later(key, score=_read_score(value, where))


def _read_score(value: Any, where: str) -> float:
    score = -1.0
    with suppress(Exception):  # an object of the caller may raise anything
        score = float(value)
    if not 0 <= score <= 1:
        raise SeedingError(f"{where}: {shown(value)} is neither a success nor a score in [0, 1]")
    return score


def _read_table(stream: BinaryIO, limits: Limits) -> Iterator[tuple[str, Later]]:
    for number, read in read_rows(stream, limits):
        where = f"row {number}"
        cells = {name.strip().lower(): cell.strip() for name, cell in read().items()}
        key, word, score, moment = (cells.get(name) for name in (KEY, SUCCESS, SCORE, AT))
        success = _WORDS.get(word.lower()) if word else None
        if word and success is None:
            problem = "is neither true nor false"
            raise SeedingError(f"{where}: success {shown(word, 80)} {problem}")
        at = None
        with suppress(ValidationError):
            at = parse_time(moment, None, None)
        if moment and at is None:
            remedy = "give ISO 8601 with a time zone, or a number since 1970"
            raise SeedingError(f"{where}: at {shown(moment, 80)} is no time; {remedy}")
        if not key or not (word or score):
            columns = f"there must be {KEY}, and {SUCCESS} or {SCORE}"
            raise SeedingError(f"{where}: a key or an outcome is missing; {columns}")
        yield where, Later(key, success, _read_score(score, where) if score else None, at)


def _read_report(stream: BinaryIO, limits: Limits) -> Iterator[tuple[str, Later]]:
    values = Values(stream, limits)
    try:
        report = {name: values.value() for name in values.members()}
        values.end()
    except (SeedingError, ValidationError) as error:
        raise SeedingError(f"is no report: {error}") from None
    lists = {
        name: {one for one in value if isinstance(one, str)}
        for name, value in report.items()
        if isinstance(value, list)
    }
    if not lists.keys() & set(_RESOLVED):
        yield from _read_keys(
            {
                key: one.get("resolved") if isinstance(one, dict) else one
                for key, one in report.items()
                if key not in lists
            }
        )
        return
    solved = {key for name in _RESOLVED for key in lists.get(name, ())}
    failed = {key for name in _UNRESOLVED for key in lists.get(name, ())}
    failed |= lists.get(_EVALUATED, set()) - solved
    for keys, success in ((solved, True), (failed, False)):
        for key in sorted(keys):
            yield "the report", Later(key, success=success)


UNKNOWN = "join one with --outcomes"


@dataclass(frozen=True, slots=True)
class Settling:
    """Turns records into episodes."""

    agent: str | None
    strategy_from: str | None
    evaluator: str | None
    """Whose judgement counts; None: those of a record must agree."""
    outcomes: Outcomes | None
    threshold: float

    def __post_init__(self) -> None:
        for name in ("strategy_from", "evaluator"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value.strip()):
                raise ValidationError(name, value, "must be a text that is not blank")

    def settle(self, records: Iterator[Record]) -> Iterator[tuple[int, Episode | Later] | Refused]:
        """Yield episodes, later outcomes of others, and refusals."""
        for item in records:
            if isinstance(item, Refused):
                yield item
                continue
            record: Mapping[str, Any] = {}
            if isinstance(item, Unsettled):
                number, record = item.number, item.record
                make = partial(self._later if item.later else self._episode, item)
            else:
                number, make = item[0], partial(self._check, item[1])
            try:
                made = make()
            except ValidationError as error:
                wrong = rename_field(error, record)
                yield Refused(number, wrong.field, str(wrong))
                continue
            yield number, made
            if isinstance(made, Episode) and (later := self._find_later(made)) is not None:
                yield number, later

    def _episode(self, item: Unsettled) -> Episode:
        fields = {name: value for name, value in item.fields.items() if value is not None}
        own = self._judge(item.outcomes)
        joined = None
        if self.outcomes is not None:
            joined = self.outcomes.find(fields.get("source_key"), item.names)
        if own is None and not {"success", "score"} & fields.keys():
            own = joined
            if own is None:
                raise item.unknown or ValidationError("outcome", None, "is unknown", UNKNOWN)
        if own is not None:
            fields |= {"success": own.success, "score": own.score}
        fields["strategy"] = self._strategies(item, fields)
        if self.agent is not None:
            fields["agent"] = self.agent
        episode = Episode(**fields)
        if own is not joined:
            self._compare(episode, joined)
        return episode

    def _later(self, item: Unsettled) -> Later:
        own = self._judge(item.outcomes)
        if own is None:
            raise item.unknown or ValidationError("outcome", None, "is unknown")
        return Later(item.fields["source_key"], own.success, own.score, item.told_at)

    def _find_later(self, episode: Episode) -> Later | None:
        """Return the outcome of an episode that was told later than its own, if one was."""
        key = episode.source_key
        joined = self.outcomes.joined_to(key) if self.outcomes and key else None
        if key is None or joined is None or joined.at is None:
            return None
        own = (episode.success, episode.score)
        return None if own == (joined.success, joined.score) else replace(joined, key=key)

    def _check(self, episode: Episode) -> Episode:
        """Return an episode as asked for, if nothing contradicts its outcome."""
        if self.agent is not None:
            episode = episode.model_copy(update={"agent": self.agent})
        if self.outcomes is not None:
            self._compare(episode, self.outcomes.find(episode.source_key))
        if self.strategy_from is None:
            return episode
        content = episode.model_dump(mode="json", exclude={"steps"}, exclude_none=True)
        model = episode.extra.get("model")
        model = model if isinstance(model, str) else None
        item = Unsettled(0, {}, tools=tools(episode.steps), model=model, record=content)
        names = self._strategies(item, {**episode.extra, "agent": episode.agent})
        return Episode(**{**dict(episode), "strategy": names})

    def _judge(self, outcomes: Mapping[str, bool | float]) -> Later | None:
        if not outcomes:
            return None
        names = ", ".join(sorted(outcomes))
        if self.evaluator is not None and self.evaluator not in outcomes:
            problem = "did not judge this record"
            raise ValidationError("evaluator", self.evaluator, problem, f"there is {names}")
        value, *others = outcomes.values()
        if self.evaluator is not None:
            value = outcomes[self.evaluator]
        elif any(other != value for other in others):
            remedy = "name one with --evaluator"
            raise ValidationError("evaluator", None, f"judgements differ: {names}", remedy)
        return Later("", value) if isinstance(value, bool) else Later("", score=value)

    def _compare(self, own: Episode, joined: Later | None) -> None:
        if joined is None or joined.at is not None:  # told later, it settles the episode
            return

        def success(outcome: Episode | Later) -> bool:
            scored = outcome.score is not None and outcome.score >= self.threshold
            return scored if outcome.success is None else outcome.success

        scores = {own.score, joined.score}
        if success(own) != success(joined) or (None not in scores and len(scores) == 2):
            raise ValidationError(
                "outcome",
                joined.score if joined.success is None else joined.success,
                f"in {self.outcomes.name if self.outcomes else ''} contradicts the log's own",
                "leave it out there, correct it, or say in a column `at` when it was told",
            )

    def _strategies(self, item: Unsettled, fields: Mapping[str, Any]) -> Any:
        by = self.strategy_from
        if by is None and item.strategy is not None:
            return item.strategy
        called = item.tools
        if called is None and "steps" in fields:
            called = tools(fields["steps"])
        if called is None and by in (None, naming.TOOLS):
            if by is None:
                return []
            raise ValidationError(by, None, "are not told here", "name something else")
        names = naming.strategies(
            by or naming.TOOLS,
            tools=called or (),
            model=item.model,
            agent=fields.get("agent"),
            fields={**fields, **item.record},
        )
        return list(dict.fromkeys(names))
