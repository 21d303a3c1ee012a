"""Files, folders, patterns and standard input as streams of plain bytes."""

from __future__ import annotations

import glob
import gzip
import io
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, cast

from pydantic_core import to_json

from graphmem.errors import SeedingError, ValidationError
from graphmem.graph.arguments import checked_items, checked_path
from graphmem.seeding.formats import GZIP, HEAD, formats
from graphmem.seeding.reading import Limits

ENDINGS = (".json", ".jsonl", ".ndjson", ".eval", ".traj")
"""Files with these endings, in a folder, are logs."""
MIXED = (".txt", ".csv", ".parquet")
"""Files with these endings, in a folder, are logs if a format recognises them."""
_DEFAULT = Limits()
_PARQUET = b"PAR1"
_ROWS = 64
"""Rows of a Parquet file in memory at once; more are hardly faster."""


class Counted(io.RawIOBase):
    """A stream whose bytes are counted; it ends at ``damage``, also that of being too large."""

    def __init__(self, rest: Any, limits: Limits, packed: Counted | None = None) -> None:
        self._read = getattr(rest, "read1", rest.read)
        self._limits = limits
        self._packed = packed
        self.count = 0
        self.damage: Exception | None = None

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read into a buffer; return the number of bytes."""
        target = cast(memoryview, memoryview(buffer))  # type: ignore[arg-type]
        size = 0
        try:
            while self.damage is None and (data := self._read(len(target) - size)):
                target[size : size + len(data)] = data
                size += len(data)
        except (EOFError, zlib.error, gzip.BadGzipFile, SeedingError) as error:
            self.damage = error
        self.count += size
        packed = None if self._packed is None else self._packed.count
        if (excess := self._limits.file_excess(self.count, packed)) is not None:
            self.damage = SeedingError(excess)
            return 0
        return size


def damage(stream: BinaryIO) -> SeedingError | None:
    """Return what ended the file behind ``stream`` before its end, if anything did."""
    error = getattr(getattr(stream, "raw", None), "damage", None)
    if isinstance(error, SeedingError) or error is None:
        return error
    return SeedingError(f"the gzip file is cut off or damaged here: {error}")


@dataclass(frozen=True, slots=True)
class Source:
    """One log: a path, or ``-`` for standard input.

    ``format`` names the format that found it in a folder, if one did.
    """

    path: str
    format: str | None = None
    found: bool = field(default=False, compare=False)
    """Whether nobody named it: it was found in a folder, or by a pattern."""

    @property
    def name(self) -> str:
        """The name for display."""
        return "standard input" if self.path == "-" else self.path

    @property
    def stem(self) -> str:
        """The name without folder and endings."""
        if self.path == "-":
            return "stdin"
        name = Path(self.path).name.removesuffix(".gz")
        for ending in (*ENDINGS, *MIXED):
            name = name.removesuffix(ending)
        return name

    @property
    def file(self) -> Path | None:
        """The file; None for standard input."""
        return None if self.path == "-" else Path(self.path)

    @contextmanager
    def open(self, limits: Limits = _DEFAULT) -> Iterator[tuple[bytes, BinaryIO]]:
        """Yield the first bytes and the whole stream, unpacked if it is gzip.

        The stream ends at a limit; ``damage`` has the error.
        """
        try:
            raw = sys.stdin.buffer if self.file is None else self.file.open("rb")
        except OSError as error:
            raise SeedingError(f"{self.path}: {error.strerror or error}") from error
        try:
            whole = Counted(raw, limits)
            stream = io.BufferedReader(whole, HEAD)
            head = stream.peek(HEAD)
            if head.startswith(GZIP):
                unpacked = Counted(gzip.GzipFile(fileobj=stream), limits, whole)
                stream = io.BufferedReader(unpacked, HEAD)
                head = stream.peek(HEAD)
                if not head and isinstance(unpacked.damage, EOFError | OSError | zlib.error):
                    raise SeedingError(f"{self.name}: damaged gzip file: {unpacked.damage}")
            if head.startswith(_PARQUET):
                if self.file is None or not raw.seekable() or whole is not stream.raw:
                    problem = "Parquet is read from an unpacked file; name it"
                    raise SeedingError(f"{self.name}: {problem}")
                raw.seek(0)
                lines = _Lines(map(_write_line, _read_parquet(raw)))
                stream = io.BufferedReader(Counted(lines, limits), HEAD)
                head = stream.peek(HEAD)
            yield head, stream
        finally:
            if self.file is not None:
                raw.close()


Logs = str | Path | Iterable[str | Path | Mapping[str, Any]]
"""A file, a folder (read recursively), a pattern, ``-`` for standard input, or several of them; or
records as mappings."""


@dataclass(frozen=True, slots=True)
class Records(Source):
    """Records that stand in no file."""

    records: tuple[Mapping[str, Any], ...] = ()

    @contextmanager
    def open(self, limits: Limits = _DEFAULT) -> Iterator[tuple[bytes, BinaryIO]]:  # noqa: ARG002
        """Yield the first bytes and the whole, as JSON lines."""
        lines = io.BytesIO()
        for number, record in enumerate(self.records, 1):
            try:
                lines.write(_write_line(record))
            except ValueError as error:
                problem = f"is no JSON: {error}"
                raise ValidationError(f"logs.{number}", record, problem) from None
        lines.seek(0)
        stream = io.BufferedReader(lines)
        yield stream.peek(HEAD), stream


def _write_line(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line of JSON; NaN and NaT, which tables have for nothing, are null."""
    said = {
        name: None if isinstance(value, datetime) and value != value else value  # noqa: PLR0124
        for name, value in record.items()
    }
    return to_json(said, inf_nan_mode="null", fallback=lambda value: value.item()) + b"\n"


def _read_parquet(file: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a Parquet file."""
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        remedy = "in a clone of graphmem: pip install -e '.[parquet]'"
        raise SeedingError(f"Parquet is read by pyarrow; {remedy}") from None
    try:
        for batch in parquet.ParquetFile(file).iter_batches(_ROWS):
            yield from batch.to_pylist()
    except (ValueError, OSError) as error:
        raise SeedingError(f"the Parquet file is cut off or damaged: {error}") from None


class _Lines:
    """Lines that are read like a file."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._left = memoryview(b"")

    def read(self, size: int) -> memoryview:
        """Return the next bytes, of one line."""
        if not self._left:
            self._left = memoryview(next(self._lines, b""))
        data, self._left = self._left[:size], self._left[size:]
        return data


def sources(logs: Logs, map: object = None) -> list[Source]:  # noqa: A002 - as in seed
    """Return the logs that are named: files, folders (recursively), patterns, ``-``, or records.

    With a map, all files of a folder are logs that could be tables.

    Raises:
        SeedingError: a path matches nothing.
    """
    found: list[Source] = []
    records: list[Mapping[str, Any]] = []
    for log in [logs] if isinstance(logs, str | Path) else checked_items("logs", logs):
        if isinstance(log, Mapping):
            records.append(log)
            continue
        checked_path("logs", log)
        try:
            found += _find(str(log), every=map is not None)
        except OSError as error:
            name = error.filename or log
            raise SeedingError(f"{name}: {error.strerror or error}") from error
    unique = list(dict.fromkeys(found))
    if records:
        unique.append(Records("records", records=tuple(records)))
    if not unique:
        raise SeedingError("no logs given; name files, folders, patterns or - for standard input")
    return unique


def _find(path: str, *, every: bool) -> list[Source]:
    """Return the logs that a path names."""
    if path == "-":
        return [Source("-")]
    if Path(path).is_dir():
        inside = list(_inside(Path(path), every=every))
        if not inside:
            raise SeedingError(
                f"{path}: no logs in this folder: no {', '.join(ENDINGS)} files, and no "
                f"{', '.join(MIXED)} files that a format recognises (all also with .gz)"
            )
        return inside
    if Path(path).exists():
        return [Source(path)]
    names = glob.glob(path, recursive=True)  # noqa: PTH207 - absolute patterns too
    matching = sorted(file for file in names if Path(file).is_file())
    if not matching:
        raise SeedingError(f"{path}: no such file, folder or pattern")
    return [Source(file, found=True) for file in matching]


def _inside(folder: Path, *, every: bool) -> Iterator[Source]:
    """Yield the logs in a folder: those that a format finds there, else by endings and content."""
    for format_ in () if every else formats().values():
        if format_.logs is not None and (found := format_.logs(folder)) is not None:
            yield from (Source(str(path), format_.name, found=True) for path in found)
            return
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _inside(path, every=every)
        elif path.is_file() and _is_log(path, every=every):
            yield Source(str(path), found=True)


def _is_log(path: Path, *, every: bool) -> bool:
    """Return whether a file in a folder is to be read; of one that cannot be, reading says why."""
    name = path.name.removesuffix(".gz")
    if every or not name.endswith(MIXED):
        return name.endswith((*ENDINGS, *MIXED) if every else ENDINGS)
    try:
        with Source(str(path)).open() as (head, _):
            return any(format_.detect(head) for format_ in formats().values())
    except SeedingError:
        return True
