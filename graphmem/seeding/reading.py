"""Reads JSON of any size in little memory: lines, and lists and objects one value at a time.

A file can be made to take far more memory than its size: by deep nesting, a text without an end, or
millions of empty lists. So a parser gets only what is within limits; the rest is skipped.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, count
from typing import Any, BinaryIO, NoReturn

from graphmem.errors import SeedingError, ValidationError
from graphmem.ids import canonical_json

BOM = b"\xef\xbb\xbf"
CHUNK = 65_536
"""Bytes to read at once."""
_SMALL = 10_000_000
"""Bytes that any packed file may become."""
_QUOTE = ord('"')
_SPACE = re.compile(rb"[ \t\r\n]*+")
_SCALAR = re.compile(rb'[^\s,:"\[\]{}]*+')
_IN_TEXT = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
"""Matches up to the end of a text, or of the part of it that is there."""
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
"""Matches up to a bracket, or to a text whose end is not there."""
_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_DEEPER = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Makes a signed byte of a bracket: how much deeper it is after it."""
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class DamagedError(SeedingError):
    """A file is cut off or damaged, so that the rest cannot be read."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a file."""

    depth: int = 150
    """Levels of nested lists and objects in one record."""
    text: int = 12_000_000
    """Bytes of one text."""
    record: int = 16_000_000
    """Bytes of one record."""
    file: int = 1_000_000_000
    """Bytes of a file, unpacked."""
    ratio: int = 200
    """How many times its own size a packed file may become."""

    @property
    def values(self) -> int:
        """Most values of a record, each of which takes up to 90 bytes in memory."""
        return self.record // 16

    @property
    def too_long(self) -> str:
        """The message for a record that is too long."""
        return f"is longer than {self.record:,} bytes, the limit of a record"

    def excess(self, record: bytes) -> str | None:
        """Return which limit a record breaks, if any."""
        if len(record) > self.record:
            return self.too_long
        if len(record) > self.text and any(
            match.end() - match.start() > self.text for match in _TEXTS.finditer(record)
        ):
            return f"holds a text of over {self.text:,} bytes, the limit of a text"
        nested = record.count(b"[") + record.count(b"{")
        if nested <= self.depth and nested + record.count(b",") < self.values:
            return None
        bare = _TEXTS.sub(b"", record)
        if bare.count(b"[") + bare.count(b"{") + bare.count(b",") >= self.values:
            return f"holds over {self.values:,} values, the limit of a record"
        steps = memoryview(bare.translate(_DEEPER, _NOT_BRACKETS)).cast("b")
        deepest = max(accumulate(steps), default=0)
        return f"is nested too deeply, over {self.depth:,} levels" if deepest > self.depth else None

    def file_excess(self, size: int, packed: int | None = None) -> str | None:
        """Return which limit a file of so many bytes breaks, which was unpacked from so many."""
        if size > self.file:
            return f"is larger than {self.file:,} bytes, the limit of a file; split it"
        if packed is not None and size > max(_SMALL, self.ratio * packed):
            return f"unpacks to over {self.ratio:,} times its size; unpack it first"
        return None


def _refuse_constant(text: str) -> NoReturn:
    """Refuse NaN and infinities."""
    raise ValueError(f"{text} is not a JSON number")


Parse = Callable[[str], Any]
Readings = Iterator[tuple[int, Callable[[], Any]]]
"""The number of each record of a file, and what reads it."""
_parse: Parse = json.JSONDecoder(parse_constant=_refuse_constant).decode


def parse_exact(text: str) -> Any:
    """Return the JSON value of a text, exactly."""
    value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    try:
        canonical_json(value).encode()
    except UnicodeEncodeError:
        raise ValueError("holds half a surrogate pair, which is not text") from None
    return value


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"the name {name[:80]!r} stands twice in one object")
        fields[name] = value
    return fields


def read_lines(stream: BinaryIO, limits: Limits) -> Iterator[tuple[int, bytes | ValidationError]]:
    """Yield lines that are not blank, with their numbers; for a line over a limit, the error."""
    number = 0
    while line := stream.readline(limits.record + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(BOM)
        reason = limits.excess(line)
        if len(line) > limits.record:
            beginning = line[:200]
            while line and not line.endswith(b"\n"):
                line = stream.readline(CHUNK)
            line = beginning
        elif reason is None and not line.strip():
            continue
        yield number, line if reason is None else refusal("line", line, reason)


def read_objects(stream: BinaryIO, limits: Limits, wrapper: str = "") -> Readings:
    """Yield the number of each value of a file, and what reads it.

    They are lines, or follow each other, or are in a list, or in the list ``wrapper`` of an object.
    """
    head = peek_head(stream)
    wrapped = re.match(rb'\{\s*"%b"\s*:\s*\[' % wrapper.encode(), head) is not None
    first, _, more = head.partition(b"\n")
    last = first.rstrip()[-1:]
    is_line = last not in (b"{", b"[", b",") and not wrapped
    if first.startswith(b"["):
        is_line = last == b"]" and bool(more.strip())
    if is_line:
        for number, line in read_lines(stream, limits):
            yield number, partial(parse_line, line)
        return
    values = Values(stream, limits)
    if wrapped:
        for number, _, read in read_items(values, wrapper, kept=()):
            yield number, read
    elif head.startswith(b"["):
        for number in values.items():
            yield number, values.value
    else:
        number = 0
        while values.peek():
            number += 1
            yield number, values.value
    values.end()


def read_items(
    values: Values, at: str, kept: Container[str] | None = None, parse: Parse = _parse
) -> Iterator[tuple[int, dict[str, Any] | None, Callable[[], Any]]]:
    """Yield the number of each item of a list in an object, what stands before, and what reads it.

    Without the list, the object is the only item, and nothing stands before. ``kept`` are the
    members that are read, by default all; what cannot be read is None.
    """
    head: dict[str, Any] = {}
    has_list = False
    for name in values.members():
        if name == at and values.peek() == b"[":
            has_list = True
            for number in values.items():
                yield number, head, values.value
        elif has_list or (kept is not None and name not in kept):
            values.skip()
        else:
            head[name] = None
            with suppress(ValidationError):
                head[name] = values.value(parse)
    if not has_list:
        yield 1, None, partial(dict, head)


def read_records(stream: BinaryIO, limits: Limits, wrapper: str = "") -> Readings:
    """Yield the number of each value of a JSON file or row of a table, and what reads it."""
    if peek_head(stream)[:1] in (b"{", b"["):
        return read_objects(stream, limits, wrapper)
    return read_rows(stream, limits)


def read_rows(stream: BinaryIO, limits: Limits) -> Readings:
    """Yield the number of each row of a CSV file, from 1 behind the names, and what reads it."""
    csv.field_size_limit(max(csv.field_size_limit(), limits.text))
    first = peek_head(stream).partition(b"\n")[0]
    delimiter = max(",;\t|", key=lambda char: first.count(char.encode()))
    table = csv.DictReader(_bounded_rows(stream, limits), delimiter=delimiter, strict=True)
    try:
        for number, row in enumerate(table, 1):
            yield number, partial(_cells, row)
    except (csv.Error, UnicodeDecodeError) as error:
        raise DamagedError(reason_of(error, "the table is cut off or damaged here: ")) from None


def _cells(row: dict[str, Any]) -> dict[str, str]:
    if None in row or None in row.values():
        raise ValidationError("row", None, "has not as many cells as there are names")
    return {name: cell for name, cell in row.items() if cell != ""}


def _bounded_rows(stream: BinaryIO, limits: Limits) -> Iterator[str]:
    """Yield lines; the lines of one cell must not be too long together."""
    size = quotes = number = 0
    while line := stream.readline(limits.record + 1):
        number += 1
        size += len(line)
        if size > limits.record:
            raise SeedingError(f"a row {limits.too_long}")
        quotes += line.count(b'"')
        if quotes % 2 == 0:
            size = 0
        yield (line.removeprefix(BOM) if number == 1 else line).decode()


def peek_head(stream: BinaryIO) -> bytes:
    """Return the first bytes of a buffered stream, which stay in it."""
    head: bytes = stream.peek(CHUNK)  # type: ignore[attr-defined]
    return head[:CHUNK].removeprefix(BOM).lstrip()


def parse_line(line: bytes | ValidationError, parse: Parse = _parse, otherwise: str = "") -> Any:
    """Return the value in a line; ``otherwise`` stands before what is said of another text."""
    if isinstance(line, ValidationError):
        raise line
    try:
        return parse(line.decode())
    except (ValueError, RecursionError) as error:
        raise refusal("line", line, reason_of(error, otherwise)) from None


class Values:
    """The JSON text of a stream, read from one value to the next.

    If the stream is not JSON, reading raises a ``DamagedError``. A value over a limit raises a
    ``ValidationError``; reading can go on after it.
    """

    def __init__(self, stream: BinaryIO, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._text = bytearray()
        self._at = 0
        while len(self._text) < len(BOM) and self._more():
            pass
        if self._text.startswith(BOM):
            self._at = len(BOM)

    def peek(self) -> bytes:
        """Return the next byte that is no space, or nothing at the end."""
        while True:
            self._at = _match_end(_SPACE, self._text, self._at)
            if self._at < len(self._text):
                return bytes(self._text[self._at : self._at + 1])
            self._drop()
            if not self._more():
                return b""

    def end(self) -> None:
        """Check that nothing follows."""
        if self.peek():
            self._damaged("there is more after the end")

    def items(self) -> Iterator[int]:
        """Return the number, from 1, of each item of a list; the caller then reads the item."""
        return self._parts(b"[", b"]")

    def members(self) -> Iterator[str]:
        """Yield the name of each member of an object; the caller then reads its value."""
        for _ in self._parts(b"{", b"}"):
            if self.peek() != b'"':
                self._damaged("a name is missing")
            try:
                name = self.value()
            except ValidationError as error:
                raise SeedingError(f"the name of a member {error.problem}") from None
            self._expect(b":")
            yield name

    def value(self, parse: Parse = _parse) -> Any:
        """Return the next value; raise a ValidationError if it is over a limit, or no JSON."""
        text = self.text()
        try:
            return parse(text.decode())
        except json.JSONDecodeError as error:
            self._damaged(str(error))
        except ValueError as error:  # not UTF-8, NaN, or a number with too many digits for Python
            raise refusal("record", text, reason_of(error)) from None

    def text(self) -> bytes:
        """Return the text of the next value; raise a ValidationError if it is over a limit."""
        first = self.peek()
        if not first:
            self._damaged("it ends too early")
        self._drop()
        beginning = bytes(self._text[:200])
        reason = None
        if first in (b"{", b"[", b'"'):
            reason = self._pass(is_text=first == b'"')
        else:
            self._pass_scalar()
        text = bytes(self._text[: self._at])
        if reason is None:
            reason = self._limits.excess(text)
        if reason is not None:
            raise refusal("record", beginning, reason)
        return text

    def skip(self) -> None:
        """Skip the next value, of any size."""
        with suppress(ValidationError):
            self.value()

    def _parts(self, opening: bytes, closing: bytes) -> Iterator[int]:
        self._expect(opening)
        if self.peek() == closing:
            self._at += 1
            return
        for number in count(1):
            yield number
            if self.peek() != b",":
                break
            self._at += 1
        self._expect(closing)

    def _expect(self, char: bytes) -> None:
        if (present := self.peek()) != char:
            self._damaged(f"{char.decode()!r} is missing" if present else "it ends too early")
        self._at += 1

    def _pass(self, *, is_text: bool) -> str | None:
        """Go past a value; if it is too long, drop what was read of it, and return why."""
        at = int(is_text)
        depth, reason = 0, None
        while True:
            at = _match_end(_IN_TEXT if is_text else _TO_BRACKET, self._text, at)
            if at == len(self._text) or (is_text and self._text[at] != _QUOTE):
                if at > self._limits.record:
                    reason = self._limits.too_long
                if reason is not None:
                    del self._text[:at]
                    at = 0
                if self._more():
                    continue
                if reason is None:
                    self._damaged("it ends too early")
                break
            is_text = not is_text and self._text[at] == _QUOTE
            depth += _STEPS.get(self._text[at], 0)
            at += 1
            if not depth and not is_text:
                break
        self._at = at
        return reason

    def _pass_scalar(self) -> None:
        while (end := _match_end(_SCALAR, self._text, self._at)) == len(self._text):
            if end > self._limits.text:
                self._damaged("a number has no end")
            self._at = end
            if not self._more():
                break
        self._at = end

    def _drop(self) -> None:
        del self._text[: self._at]
        self._at = 0

    def _more(self) -> bool:
        data = self._stream.read(CHUNK)
        self._text += data
        return bool(data)

    def _damaged(self, problem: str) -> NoReturn:
        raise DamagedError(f"the JSON is cut off or damaged here: {problem}")


def reason_of(error: Exception, otherwise: str = "") -> str:
    """Return what an error of reading says of a text; ``otherwise`` stands before its own words."""
    if isinstance(error, UnicodeDecodeError):
        place = f"byte {error.object[error.start]:#04x} ({error.reason})"
        return f"is not UTF-8, because of {place}; save it as UTF-8"
    return f"{otherwise}{getattr(error, 'strerror', None) or error}"


def refusal(field: str, beginning: bytes, reason: str) -> ValidationError:
    """Return the error of a record that begins so."""
    return ValidationError(field, beginning[:200].decode("utf-8", "replace"), reason)


def _match_end(pattern: re.Pattern[bytes], text: bytearray, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
