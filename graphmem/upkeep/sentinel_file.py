"""Reads a Sentinel file: its episodes, and what it holds besides them.

Its list of episodes is ``episode_log`` in Sentinel's own form, ``episodes`` in graphmem's former
form; if it has both, the first one counts. The file is read twice, to check all of it and to learn
from it. No more than a batch of episodes is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from graphmem.errors import SeedingError, ValidationError, shown
from graphmem.ids import canonical_json
from graphmem.models import Episode
from graphmem.models.fields import Input, Name
from graphmem.seeding import sentinel
from graphmem.seeding.reading import DamagedError, Limits, Values
from graphmem.seeding.sources import Source, damage

AT_ONCE = 2_500
"""Most episodes of a Sentinel file in a statement. With fewer, and also with more, the transaction
of all of them takes more memory."""
BATCH_BYTES = 4_000_000
"""A batch ends when so much of a file was read for it, to bound memory."""


class Document(Input):
    """What identifies a file."""

    name: Name


class SentinelFile:
    """A Sentinel file. No more than a batch of its episodes is in memory at a time."""

    def __init__(self, source: Source, name: str | None, limits: Limits) -> None:
        self.source = source
        self.name = Document(name=source.stem if name is None else name).name
        """The name of its document."""
        self.kept: list[str] = []
        """The names of what it holds besides its episodes."""
        self.listed: str | None = None
        """The name of its list of episodes."""
        self.before = 0
        """How many episodes came before those of its log."""
        self._limits = limits

    @property
    def logs(self) -> bool:
        """Whether it is of Sentinel's own form."""
        return self.listed == sentinel.LOG

    def check(self) -> str:
        """Check the whole file; return what it holds besides its episodes, as JSON.

        Raises:
            SeedingError: it cannot be read, is damaged, is not a Sentinel file, or of a newer
                version, or is not within limits.
            ValidationError: an episode is wrong.
        """
        wrong: ValidationError | None = None
        beside: dict[str, bytes] = {}
        count = 0
        for at, form in self._forms(beside):
            count = at + 1
            try:
                self._episode(form, at)
            except ValidationError as error:
                wrong = wrong or error
        rest = sentinel.exact(_object(beside).decode())
        try:
            sentinel.check_version(rest.get("version"))
        except SeedingError as error:
            raise self._error(str(error)) from None
        if self.logs:
            if (problem := next(_problems(rest), None)) is not None:
                raise self._error(problem)
            self.before = max(rest.get(sentinel.TOTAL, 0) - count, 0)
        if wrong:
            raise wrong
        self.kept = list(rest)
        return canonical_json(rest)

    def batches(self) -> Iterator[list[tuple[Any, Episode]]]:
        """Yield the forms with their episodes, some at a time."""
        batch: list[tuple[Any, Episode]] = []
        size = 0
        for at, form in self._forms(None):
            batch.append((form, self._episode(form, at)))
            size += len(canonical_json(form))
            if len(batch) == AT_ONCE or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _forms(self, beside: dict[str, bytes] | None) -> Iterator[tuple[int, Any]]:
        """Yield the forms with their places from 0; put the text of the rest there, if asked."""
        where = ""
        with self.source.open(self._limits) as (_, stream):
            values = Values(stream, self._limits)
            try:
                if values.peek() not in (b"{", b""):
                    raise self._error(_NO_SENTINEL)
                seen: set[str] = set()
                for name in values.members():
                    if name in seen:
                        raise self._error(f"the name {shown(name)} stands twice in one object")
                    seen.add(name)
                    where = shown(name)
                    if self.listed is None and name in (sentinel.LOG, sentinel.EPISODES):
                        self.listed = name
                    if name != self.listed:
                        self._keep(values, name, beside)
                    elif values.peek() == b"[":
                        for number in values.items():
                            where = f"{name}.{number - 1}"
                            yield number - 1, values.value(sentinel.exact)
                    else:
                        raise self._error(_NO_SENTINEL)
                values.end()
            except DamagedError as error:
                raise self._error(str(damage(stream) or error)) from None
            except ValidationError as error:
                raise self._error(f"{where} {error.problem}") from None
            if self.listed not in seen:
                raise self._error(_NO_SENTINEL)

    def _episode(self, form: Any, at: int) -> Episode:
        key = f"{self.name}/{self.before + at + 1}"
        try:
            return sentinel.episode(form, source_key=key, entry=self.logs)
        except ValidationError as error:
            field = f"{self.listed}.{at}"
            if error.field != "episode":
                field = f"{field}.{error.field}"
            raise ValidationError(field, error.value, error.problem, error.remedy) from None

    def _keep(self, values: Values, name: str, beside: dict[str, bytes] | None) -> None:
        if beside is None:
            values.skip()
            return
        text = values.text()
        beside[name] = text
        if (reason := self._limits.excess(_object(beside))) is not None:
            raise self._error(
                f"what it holds beside its episodes {reason} "
                "(`graphmem seed` learns the episodes alone)"
            )
        try:
            sentinel.exact(text.decode())
        except ValueError as error:
            raise ValidationError(name, None, str(error)) from None

    def _error(self, problem: str) -> SeedingError:
        return SeedingError(f"{self.source.name}: {problem}; nothing was imported")


_NO_SENTINEL = (
    f"is not a Sentinel file: an object with a list {sentinel.LOG!r} is needed "
    "(`graphmem seed` also reads JSON lines of episodes)"
)


def _object(members: Mapping[str, bytes]) -> bytes:
    """Return the text of an object from those of its members."""
    texts = (canonical_json(name).encode() + b":" + text for name, text in members.items())
    return b"{" + b",".join(texts) + b"}"


def _problems(rest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the errors in the lists besides a log, with their places."""
    if not _is_count(rest.get(sentinel.TOTAL, 0)):
        yield f"{sentinel.TOTAL}: is not a number of episodes"
    for name in ("global_rules", "mistakes", "successes"):
        yield from _wrong_items(name, rest.get(name, []), str, "a text")
    for name, kind, what in (("task_rules", str, "a text"), ("score_history", _NUMBER, "a number")):
        by_task = rest.get(name, {})
        if not isinstance(by_task, dict):
            yield f"{name}: is not an object with a list for each task"
            continue
        for task, items in by_task.items():
            yield from _wrong_items(f"{name}.{shown(task)}", items, kind, what)
    cards = rest.get("mistake_cards", [])
    yield from _wrong_items("mistake_cards", cards, dict, "an object")
    for place, card in enumerate(cards):
        for name in COUNTS:
            if card.get(name) is not None and not _is_count(card[name]):
                yield f"mistake_cards.{place}.{name}: is not a whole number from 0"


_NUMBER = (int, float)
COUNTS = ("seen_count", "first_seen_episode", "last_seen_episode")
"""The numbers of a mistake card."""


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _wrong_items(
    where: str, items: object, kind: type | tuple[type, ...], what: str
) -> Iterator[str]:
    if not isinstance(items, list):
        yield f"{where}: is not a list"
        return
    for place, item in enumerate(items):
        if not isinstance(item, kind) or isinstance(item, bool):
            yield f"{where}.{place}: is not {what}"
