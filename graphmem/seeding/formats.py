"""Log formats: what each has, all of them, and where in a record something is wrong.

A format takes a record apart as if all were there. Where that fails, the record is taken apart once
more, and the last place that is looked at is what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from graphmem.errors import NotFoundError, SeedingError, ValidationError
from graphmem.models.episodes import Episode
from graphmem.seeding.reading import Limits

HEAD = 65_536
"""Bytes at the beginning of a file by which formats recognise it."""
GZIP = b"\x1f\x8b"
_OWN = ("benchmarks", "exports", "inspect", "jsonl", "otlp", "sentinel")
"""The modules of the formats."""
_LOOK = 40
"""Bytes at the beginning of a file that show how its text is encoded."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a log: ``stem`` is its name without folder and endings."""

    stem: str
    limits: Limits = field(default_factory=Limits)
    """Limits of a file and of each of its records."""
    path: Path | None = None
    """The file, to find what lies beside it; None for standard input."""
    strategy_from: str | None = None
    """What counts as the strategy, if not the format's own names; it is settled later."""
    found: set[str] = field(default_factory=set)
    """The fields of episodes that some record had."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that is not an episode, and the reason; ``number`` counts from 1."""

    number: int
    field: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A run whose log lacks the outcome, or what counts as the strategy.

    ``evaluator``, ``outcomes`` and ``strategy_from`` of :func:`graphmem.seeding.seed` settle both.
    A format only says what is there.
    """

    number: int
    fields: Mapping[str, Any]
    """Fields of an :class:`Episode`, with its ``source_key``; None says nothing.

    ``agent`` is the one in the log.
    """
    outcomes: Mapping[str, bool | float] = field(default_factory=dict)
    """The outcomes in the log, by who judged: a success, or a score in [0, 1]."""
    names: Sequence[str] = ()
    """Other names than its source key by which an outcome may be joined."""
    strategy: Sequence[str] | None = None
    """The format's own names of strategies; None: the tools, if the log tells them."""
    tools: Sequence[str] | None = None
    """The tools that were called, in order; None: those of the steps."""
    model: str | None = None
    record: Mapping[str, Any] = field(default_factory=dict)
    """The record as it was written, whose fields may give the strategy."""
    unknown: ValidationError | None = None
    """What to say if no outcome is found; None: that it is unknown."""
    later: bool = False
    """Whether the file has only what was told later of a run that was learned before."""
    told_at: datetime | None = None
    """When that was told."""


@dataclass(frozen=True, slots=True)
class Later:
    """An outcome by key, of a run that may have been learned before."""

    key: str
    success: bool | None = None
    score: float | None = None
    at: datetime | None = None
    """When it was told, if the log says so."""


Record = tuple[int, Episode] | Unsettled | Refused
"""An episode with its number in the file (from 1; lines for line formats), a run of which something
is open, or a refusal."""
Make = Callable[[Any], Episode | Unsettled]
"""Makes a run of what was read; an error says what is wrong with that."""


def make_record(number: int, what: str, record: Any, make: Make) -> Record:
    """Return what ``make`` makes of a record.

    If the record is no ``what``, return a refusal, which names the error as the record does.
    """
    try:
        result = make(record)
        return result if isinstance(result, Unsettled) else (number, result)
    except ValidationError as error:
        wrong = rename_field(error, record)
    except FAILURES:
        wrong = explain_failure(record, what, make)
    return Refused(number, wrong.field, str(wrong))


def read_record(number: int, what: str, read: Callable[[], Any], make: Make) -> Record:
    """Return what ``make`` makes of the record that ``read`` returns, as :func:`make_record`."""
    try:
        record = read()
    except ValidationError as error:
        return Refused(number, error.field, str(error))
    except FAILURES as error:
        reason = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        return Refused(number, "record", f"record: is damaged, or no {what}{reason}")
    return make_record(number, what, record, make)


@dataclass(frozen=True, slots=True)
class Format:
    """A log format.

    ``detect`` says from the first bytes whether a file is of this format; ``read`` yields its
    records in constant memory, with a :class:`Refused` for each record that is not an episode.
    :mod:`graphmem.seeding.reading` reads lines and JSON within the limits of the origin.

    ``logs`` is for formats whose logs are folders: it returns the files in a folder to read, or
    None if the folder is not of this format. Other files of such a folder are left alone.
    """

    name: str
    doc: str
    detect: Callable[[bytes], bool]
    read: Callable[[BinaryIO, Origin], Iterator[Record]]
    logs: Callable[[Path], Sequence[Path] | None] | None = None
    mapping: str = ""
    """How fields are mapped, for the reference."""
    asked: frozenset[str] | None = None
    """The fields that a field map asks for; None: it is no map."""


@cache
def formats() -> dict[str, Format]:
    """Return all formats by name."""
    modules = [import_module(f"graphmem.seeding.{name}") for name in _OWN]
    found = {item.name: item for module in modules for item in module.FORMATS}
    return dict(sorted(found.items()))


def find(name: str) -> Format:
    """Return a format by name."""
    if name in formats():
        return formats()[name]
    hint = "".join(f"did you mean {one}? " for one in get_close_matches(name, formats(), 1))
    raise NotFoundError(f"no log format {name!r}; {hint}there are {', '.join(formats())}")


class UnknownFormatError(SeedingError):
    """No format reads a log; ``proposal`` is a field map that might."""

    proposal: Any = None


def detect(head: bytes, name: str) -> Format:
    """Return the format of a file that begins with ``head``.

    Raises:
        SeedingError: no format or several formats recognise it.
    """
    fitting = [format_ for format_ in formats().values() if format_.detect(head)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting and (other := _explain_unknown(head)):
        raise SeedingError(f"{name}: {other}")
    names = ", ".join(format_.name for format_ in fitting or formats().values())
    remedy = f"name one with --format ({names})"
    if fitting:
        raise SeedingError(f"{name}: several formats fit; {remedy}")
    own = "say by --map what its fields mean: --map task=prompt,strategy=tool,success=ok"
    raise UnknownFormatError(f"{name}: no known format; {remedy}, or {own}")


def _explain_unknown(head: bytes) -> str | None:
    """Return what a file is that no format can read, and the remedy, if its first bytes show it."""
    if head.startswith(GZIP):
        return "is packed by gzip twice; unpack it once"
    if b'"resolved_ids"' in head:
        return "holds outcomes, which --outcomes joins to a log"
    if b'"sessionId"' in head and b'"isSidechain"' in head:
        return "is a transcript of Claude Code, which `graphmem hooks run claude-code` learns"
    halves = [any(head[place:_LOOK:2]) for place in (0, 1)]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or halves[0] != halves[1]:
        return "is no UTF-8, but UTF-16 or UTF-32; save it as UTF-8: iconv -f UTF-16 -t UTF-8"
    return None


FAILURES = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError)
"""What taking a record apart raises where it is of another form."""
_MOST = 20_000
"""Most values among which one is looked for."""


def _watch(value: Any, look: list[Any], path: str) -> Any:
    """Note the place that is looked at; return its value so that looks into it are noted, too."""
    if type(value) in (dict, list):
        value = _Object(value) if type(value) is dict else _List(value)
        value.look, value.path = look, path
    look[:] = path, value
    return value


class _Object(dict[str, Any]):
    look: list[Any]
    """The last place of a record that was looked at, and its value; None: nothing is there."""
    path: str

    def __getitem__(self, name: str) -> Any:
        path = f"{self.path}.{name}" if self.path else str(name)
        self.look[:] = path, None
        return _watch(super().__getitem__(name), self.look, path)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - it would not end

    def __iter__(self) -> Iterator[str]:  # so that a copy looks at each value, too
        return super().__iter__()

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        return [self[name] for name in self]


class _List(list[Any]):
    look: list[Any]
    path: str

    def __getitem__(self, place: Any) -> Any:
        value = super().__getitem__(place)
        is_part = isinstance(place, slice)
        return value if is_part else _watch(value, self.look, f"{self.path}.{place}")

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))


def explain_failure(record: Any, what: str, make: Callable[[Any], object]) -> ValidationError:
    """Return what is wrong with a record, of which ``make`` cannot make a ``what``."""
    look: list[Any] = []
    if isinstance(record, dict | list):
        try:
            with suppress(ValidationError):
                make(_watch(record, look, "record" if isinstance(record, list) else ""))
        except FAILURES as error:
            path, value = look
            path = path.removeprefix("record.0.") if len(record) == 1 else path
            if isinstance(error, KeyError) and value is not None:  # of a copy
                path, value = str(error.args[0]), None
            if path:
                missing = "is missing" if value is None else "cannot be so"
                return ValidationError(path, value, f"{missing} in this {what}")
    content = None if isinstance(record, dict | list) else record
    return ValidationError("record", content, f"is no {what}")


def rename_field(error: ValidationError, record: Any) -> ValidationError:
    """Return an error with the names that lead to its value in a record, if it is there once."""
    if type(error) is not ValidationError or error.value is None or isinstance(error.value, bool):
        return error
    values = islice(_walk("", record), _MOST)
    paths = [path for path, value in values if value is error.value]
    if len(paths) != 1 or not paths[0]:
        return error
    path = paths[0].removeprefix("0.") if len(record) == 1 else paths[0]
    return ValidationError(path, error.value, error.problem, error.remedy)


def _walk(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield path, value
    parts = value.items() if isinstance(value, dict) else ()
    for name, part in enumerate(value) if isinstance(value, list) else parts:
        yield from _walk(f"{path}.{name}" if path else str(name), part)
