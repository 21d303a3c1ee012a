"""Logs of Inspect, whose samples stand in a zip file or in one object.

The members of a zip file are read as streams of plain bytes, within limits, also those packed by
zstd. Its directory is at its end, so it is written to a temporary file first. Nothing is unpacked
to disk, and names of members are never used as paths.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Container, Iterator, Mapping
from copy import copy
from functools import partial
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from graphmem.errors import SeedingError, ValidationError
from graphmem.models.episodes import Step
from graphmem.seeding import chats
from graphmem.seeding.reading import (
    DamagedError,
    Limits,
    Values,
    parse_line,
    peek_head,
    read_items,
    reason_of,
)
from graphmem.seeding.sources import Counted
from graphmem.seeding.tables import Reading, TableReader
from graphmem.seeding.traces import split_judgements

MAGIC = b"PK\x03\x04"
"""How a zip file begins."""
_ZSTD = 93
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTD)
_WINDOW = 1 << 27
"""Bytes that zstd may look back, which it holds in memory; its highest level needs as many."""
NEEDS = "in a clone of graphmem: pip install -e '.[inspect]'"
Object = dict[str, Any]
_OWN = (b"_journal/", b"samples/", b"header.json", b"summaries.json", b"reductions.json")
"""The prefix of the names of members."""
_HEADERS = ("header.json", "_journal/start.json")
_HEAD = ("eval", "plan")
"""Members of a log that hold for all samples."""
_SAMPLE = re.compile(r"samples/.+_epoch_\d+(\.json|/sample\.json)")
_parse = partial(json.loads, parse_constant=str)
"""Parses JSON in which a number may be none, as Inspect writes what was not scored."""
_ATTACHED = "attachment://"
_REFERENCE = re.compile(rb"attachment://(\w+)")
_SCORES: dict[str, Any] = {"N": False, "P": 0.5}
"""Values of scores that are in part right or no answer, beside those that all formats know."""
_PASSED = {
    *("target", "choices", "output", "store", "timelines", "events_data", "model_usage"),
    *("role_usage", "files", "setup", "sandbox", "error_retries", "score", "events"),
}
"""Members of a sample that are skipped: the solution, and what would fill the memory."""


class _Copy(io.FileIO):
    """A temporary copy of a zip file, of which nothing large is read at once."""

    most = 0

    def read(self, size: int | None = -1) -> bytes:
        """Return so many bytes; the directory is the only part that is read as a whole."""
        if size is not None and size > self.most:
            raise SeedingError(f"has a directory of over {self.most:,} bytes; split it")
        return super().read(size)


class Members:
    """The members of a zip file by name; of two with one name the later one counts."""

    def __init__(self, opened: zipfile.ZipFile, size: int, limits: Limits) -> None:
        self._zip, self._size, self._limits = opened, size, limits
        self._unpacked = 0
        self.infos = {info.filename: info for info in opened.infolist()}

    def read(self, name: str, wanted: Container[str] | None = None) -> Object:
        """Return the needed part of a member, which holds at most what it says."""
        info = self.infos[name]
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts:
            raise ValidationError("member", name, "has a name that leads out of the zip file")
        if info.compress_type not in _METHODS:
            problem = f"is packed by method {info.compress_type}"
            remedy = "pack it again without compression, by deflate, or by zstd"
            raise ValidationError("member", name, problem, remedy)
        self._unpacked += info.file_size
        if (excess := self._limits.file_excess(self._unpacked, self._size)) is not None:
            raise SeedingError(excess)
        try:
            with self._unpack(info) as content:
                return _Reduced(Values(content, self._limits), self._limits).read(wanted)
        except Exception as error:
            is_told = isinstance(error, ValidationError | SeedingError)
            if is_told and not isinstance(error, DamagedError):
                raise
            reason = reason_of(error, f"{name} is damaged: ")
            raise ValidationError("member", name, reason) from None

    def _unpack(self, info: zipfile.ZipInfo) -> Any:
        if info.compress_type != _ZSTD or sys.version_info >= (3, 14):
            return self._zip.open(info)
        try:
            zstandard = import_module("zstandard")
        except ImportError:
            problem = "is packed by zstd, which Python reads from 3.14 on"
            remedy = f"install zstandard: {NEEDS}"
            raise ValidationError("member", info.filename, problem, remedy) from None
        packed = copy(info)  # zipfile reads what is stored as it is
        packed.compress_type, packed.file_size = zipfile.ZIP_STORED, info.compress_size
        packed.CRC = None  # type: ignore[assignment] # it is that of the unpacked content
        unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
        content = unpacker.stream_reader(self._zip.open(packed), read_across_frames=True)
        return io.BufferedReader(Counted(content, self._limits))


def detect(head: bytes) -> bool:
    """Return whether it is a zip file of Inspect, or an object with the ``eval`` of a run."""
    if head.startswith(MAGIC):
        length = int.from_bytes(head[26:28], "little")
        return head[30 : 30 + length].startswith(_OWN)
    return READER.table.marks.fit(head)


def read_samples(stream: BinaryIO, limits: Limits) -> Iterator[Reading]:
    """Yield the number of each sample of a log, and what reads it."""
    if peek_head(stream).startswith(MAGIC):
        yield from _of_zip(stream, limits)
    else:
        yield from _of_object(Values(stream, limits), limits)


def _of_zip(stream: BinaryIO, limits: Limits) -> Iterator[Reading]:
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(stream, file)
        file.flush()
        with _Copy(file.fileno(), closefd=False) as packed:
            packed.most = limits.record // 2
            try:
                members = Members(zipfile.ZipFile(packed), file.tell(), limits)
            except SeedingError:
                raise
            except Exception as error:
                reason = reason_of(error, "the zip file is cut off or damaged: ")
                raise DamagedError(reason) from error
            name = next((name for name in _HEADERS if name in members.infos), None)
            if name is None:
                raise SeedingError(f"the zip file has no {_HEADERS[0]}")
            try:
                run = _run(members.read(name, _HEAD))
            except ValidationError as error:
                raise SeedingError(f"{name}: {error}") from None
            names = [name for name in members.infos if _SAMPLE.fullmatch(name)]
            for number, name in enumerate(names, 1):
                yield number, None, partial(_read_member, members, name, run)


def _read_member(members: Members, name: str, run: Object) -> Object:
    if name.endswith("/sample.json"):
        remedy = "put it together by `inspect log convert`"
        raise ValidationError("sample", name, "is in parts", remedy)
    return {**members.read(name), "run": run}


def _of_object(values: Values, limits: Limits) -> Iterator[Reading]:
    def read(run: Object) -> Object:
        return {**_Reduced(values, limits).read(), "run": run}

    for number, head, _ in read_items(values, "samples", _HEAD, _parse):
        if head is not None:
            yield number, None, partial(read, _run(head))
    values.end()


def _run(head: Object) -> Object:
    """Return what holds for all samples."""
    spec, plan = map(head.get, _HEAD)
    if not isinstance(spec, Mapping) or not isinstance(spec.get("task"), str):
        raise SeedingError("the log does not say its task in `eval`, before its samples")
    steps = plan.get("steps") if isinstance(plan, Mapping) else None
    named = [step.get("solver") for step in steps or () if isinstance(step, Mapping)]
    solver = spec.get("solver") or (named[-1] if named else None)
    known = spec.get("eval_id") or spec.get("run_id") or spec.get("task_id")
    return {"model": spec.get("model"), "solver": solver, "id": known, "eval": spec}


class _Reduced:
    """The needed part of an object, read a member at a time, as one record within limits."""

    def __init__(self, values: Values, limits: Limits) -> None:
        self._values, self._limits = values, limits
        self._size = 0
        self._problem: ValidationError | None = None

    def read(self, wanted: Container[str] | None = None) -> Object:
        """Return the wanted members; None: those that a sample needs."""
        texts: dict[str, bytes] = {}
        for name in self._values.members():
            if name == "attachments" and self._values.peek() == b"{":
                told = {one for text in texts.values() for one in _REFERENCE.findall(text)}
                texts[name] = b"{" + b",".join(self._attachments(told)) + b"}"
            elif name in _PASSED if wanted is None else name not in wanted:
                self._values.skip()
            elif text := self._fit(self._text()):
                texts[name] = text
        pairs = (json.dumps(name).encode() + b":" + text for name, text in texts.items())
        whole = b"{" + b",".join(pairs) + b"}"
        too_long = self._limits.too_long if self._size > self._limits.record else None
        if self._problem or (reason := too_long or self._limits.excess(whole)) is not None:
            raise self._problem or ValidationError("record", None, str(reason))
        parsed: Object = parse_line(whole, _parse, "is not JSON: ")
        return parsed

    def _text(self) -> bytes:
        """Return the text of the next value; of one over a limit nothing, and keep the error."""
        try:
            return self._values.text()
        except ValidationError as error:
            self._problem = self._problem or error
            return b""

    def _fit(self, text: bytes) -> bytes:
        """Return a text, or nothing if it is too much with the others."""
        self._size += len(text)
        return text if self._size <= self._limits.record else b""

    def _attachments(self, told: set[bytes]) -> Iterator[bytes]:
        """Yield what other members refer to."""
        for name in self._values.members():
            if name.encode() not in told:
                self._values.skip()
            elif text := self._fit(self._text()):
                yield json.dumps(name).encode() + b":" + text


def read_steps(sample: Any, names: dict[str, Any]) -> list[Step]:
    """Return the steps of a sample; ``first`` is what was asked, ``outcomes`` are the verdicts."""
    if sample.get("invalidation"):
        raise ValidationError("sample", sample.get("id"), "was invalidated")
    attached = sample.get("attachments") or {}
    given, messages = (_resolved(sample.get(name), attached) for name in ("input", "messages"))
    names["first"] = given if isinstance(given, str) else _user_text(sample["input"] and given)
    steps = list(chats.steps(messages or ()))
    scores = {}
    for name, score in (sample.get("scores") or {}).items():
        value = score.get("value")
        for key, one in value.items() if isinstance(value, Mapping) else (("", value),):
            known = _SCORES.get(one, one) if isinstance(one, str) else one
            scores[f"{name}.{key}" if key else name] = known
    names["outcomes"], names["unknown"] = split_judgements(scores)
    if not scores:
        why = "an error ended it" if sample.get("error") else "it has no score"
        remedy = "join one with --outcomes"
        names["unknown"] = ValidationError("outcome", None, f"is unknown: {why}", remedy)
    return steps


def _user_text(messages: Any) -> str:
    said = [chats.text_of(one.get("content")) for one in messages if one.get("role") == "user"]
    return "\n\n".join(text for text in said if text)


def _resolved(value: Any, attached: Mapping[str, Any]) -> Any:
    """Return a value with the texts that were stored apart."""
    if isinstance(value, str) and value.startswith(_ATTACHED):
        return attached.get(value.removeprefix(_ATTACHED), value)
    if isinstance(value, list):
        return [_resolved(one, attached) for one in value]
    if isinstance(value, dict):
        return {name: _resolved(one, attached) for name, one in value.items()}
    return value


READER = TableReader("inspect", read_samples, steps=read_steps)
FORMAT = READER.make_format(detect)
FORMATS = (FORMAT,)
