"""Reads JSON of any size in little memory: lines, and lists and objects one value at a time.

A file can be made to take far more memory than its size: by deep nesting, a text without an end, or
millions of empty lists. So a parser gets only what is known to be within limits. Everything else is
skipped while it is read.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, BinaryIO, NoReturn

from graphmem.errors import SeedingError, ValidationError

BOM = b"\xef\xbb\xbf"
CHUNK = 65_536
"""Bytes to read at once."""
LARGE = 3
"""A value that spans so many chunks is likely to span more."""
BYTES_A_VALUE = 16
"""A record may hold one value for so many bytes of its limit: a value takes up to 90 in memory."""
_QUOTE = ord('"')
_OPENING = b"[{"
_SPACE = re.compile(rb"[ \t\r\n]*+")
_SCALAR = re.compile(rb'[^\s,:"\[\]{}]*+')
_IN_TEXT = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
"""Matches up to the end of a text, or of the part of it that is there."""
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
"""Matches up to a bracket, or to a text whose end is not there."""
_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_ROUND = bytes.maketrans(b"[]{}", b"()()")
_STEPS = {ord("("): 1, ord(")"): -1}
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

    def excess(self, record: bytes, *, depth: bool = True) -> str | None:
        """Return which limit a record breaks, if any; ``depth``: check the depth, too."""
        if len(record) > self.record:
            return self.too_long
        if len(record) > self.text and any(
            match.end() - match.start() > self.text for match in _TEXTS.finditer(record)
        ):
            return self.too_long_a_text
        most = self.record // BYTES_A_VALUE
        nested = record.count(b"[") + record.count(b"{")
        if nested + record.count(b",") >= most:
            bare = _TEXTS.sub(b"", record)
            if bare.count(b"[") + bare.count(b"{") + bare.count(b",") >= most:
                return self.too_many
        if depth and nested > self.depth and _is_deeper(record, self.depth):
            return self.too_deep
        return None

    @property
    def too_deep(self) -> str:
        """The message for too many levels."""
        return f"is nested too deeply, over {self.depth:,} levels"

    @property
    def too_long(self) -> str:
        """The message for a record that is too long."""
        return f"is longer than {self.record:,} bytes, the limit of a record"

    @property
    def too_long_a_text(self) -> str:
        """The message for a text that is too long."""
        return f"holds a text of over {self.text:,} bytes, the limit of a text"

    @property
    def too_many(self) -> str:
        """The message for too many values."""
        most = self.record // BYTES_A_VALUE
        return f"holds over {most:,} values, the limit of a record"

    @property
    def too_large_a_file(self) -> str:
        """The message for a file that is too large."""
        return f"is larger than {self.file:,} bytes, the limit of a file; split it"

    @property
    def too_packed(self) -> str:
        """The message for a packed file that becomes too large."""
        return f"unpacks to over {self.ratio:,} times its size; unpack it first"


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


def read_objects(
    stream: BinaryIO, limits: Limits, wrapper: str = ""
) -> Iterator[tuple[int, Callable[[], Any]]]:
    """Yield the number of each value of a file, and what reads it.

    They are lines, or follow each other, or are in a list, or in the list ``wrapper`` of an object.
    """
    head = peek_head(stream)
    wrapped = re.match(rb'\{\s*"%b"\s*:\s*\[' % wrapper.encode(), head) is not None
    first, _, more = head.partition(b"\n")
    is_line = first.startswith(b"{") or more.strip()
    if is_line and not wrapped and not first.rstrip().endswith((b"{", b"[", b",")):
        for number, line in read_lines(stream, limits):
            yield number, partial(parse_line, line)
        return
    values = Values(stream, limits)
    if wrapped:
        for name in values.members():
            if name != wrapper:
                values.skip()
                continue
            for number in values.items():
                yield number, values.value
    elif head.startswith(b"["):
        for number in values.items():
            yield number, values.value
    else:
        number = 0
        while values.peek():
            number += 1
            yield number, values.value
    values.end()


def read_rows(stream: BinaryIO, limits: Limits) -> Iterator[tuple[int, Callable[[], Any]]]:
    """Yield the number of each row of a CSV file, from 1 behind the names, and what reads it.

    Raises:
        SeedingError: it is damaged, or a row is longer than a record may be.
    """
    csv.field_size_limit(max(csv.field_size_limit(), limits.text))
    table = csv.DictReader(_bounded_rows(stream, limits), strict=True)
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
    """Return the first bytes of a buffered stream, which stay in it.

    Raises:
        SeedingError: it has no buffer.
    """
    peek = getattr(stream, "peek", None)
    if peek is None:
        raise SeedingError("the format needs a buffered stream")
    return bytes(peek(CHUNK)[:CHUNK]).removeprefix(BOM).lstrip()


def parse_line(line: bytes | ValidationError) -> Any:
    """Return the value in a line.

    Raises:
        ValidationError: it is over a limit, or no JSON.
    """
    if isinstance(line, ValidationError):
        raise line
    try:
        return json.loads(line, parse_constant=refuse_constant)
    except ValueError as error:
        raise refusal("line", line, reason_of(error)) from None


def refuse_constant(text: str) -> float:
    """Refuse NaN and infinities."""
    raise ValueError(f"{text} is not a JSON number")


def _parse(text: str) -> Any:
    return json.loads(text, parse_constant=refuse_constant)


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
            self._make_room(self._at)
            if not self._more():
                return b""

    def end(self) -> None:
        """Check that nothing follows."""
        if self.peek():
            self._damaged("there is more after the end")

    def items(self) -> Iterator[int]:
        """Yield the number, from 1, of each item of a list; the caller then reads the item."""
        for number, _ in enumerate(self._parts(b"[", b"]"), 1):
            yield number

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

    def value(self, parse: Callable[[str], Any] = _parse) -> Any:
        """Return the next value.

        Raises:
            ValidationError: it is not within limits, not UTF-8, or ``parse`` raises a ValueError.
        """
        text = self.text()
        try:
            return parse(text.decode())
        except json.JSONDecodeError as error:
            self._damaged(str(error))
        except ValueError as error:  # not UTF-8, NaN, or a number with too many digits for Python
            raise refusal("record", text, reason_of(error)) from None

    def text(self) -> bytes:
        """Return the text of the next value.

        Raises:
            ValidationError: it is not within limits.
        """
        text = self._next()
        if (reason := self._limits.excess(text, depth=False)) is not None:
            raise refusal("record", text, reason)
        return text

    def skip(self) -> None:
        """Skip the next value, of any size."""
        try:
            self.value()
        except ValidationError:
            return

    def _parts(self, opening: bytes, closing: bytes) -> Iterator[None]:
        self._expect(opening)
        if self.peek() == closing:
            self._at += 1
            return
        while True:
            yield
            if self.peek() != b",":
                break
            self._at += 1
        self._expect(closing)

    def _expect(self, char: bytes) -> None:
        if (found := self.peek()) != char:
            self._damaged(f"{char.decode()!r} is missing" if found else "it ends too early")
        self._at += 1

    def _next(self) -> bytes:
        """Return the text of the next value.

        Raises:
            ValidationError: it is not within limits; it was passed over.
        """
        first = self.peek()
        if not first:
            self._damaged("it ends too early")
        start = self._at
        if first in (b"{", b"[", b'"'):
            beginning = bytes(self._text[start : start + 200])
            start, reason = self._pass(start, is_text=first == b'"')
            if reason is not None:
                raise refusal("record", beginning, reason)
            return bytes(self._text[start : self._at])
        while (end := _match_end(_SCALAR, self._text, self._at)) == len(self._text):
            if end - start > self._limits.text:
                self._damaged("a number has no end")
            self._at = end
            self._make_room(start)
            start = 0
            if not self._more():
                break
        self._at = end = _match_end(_SCALAR, self._text, self._at)
        return bytes(self._text[start:end])

    def _pass(self, start: int, *, is_text: bool) -> tuple[int, str | None]:
        """Go past a value; return where it begins now, or the limit that it breaks.

        From there on, what was read of it is dropped.
        """
        scan = _Scan(self._limits, start, is_text=is_text)
        while not scan.ended(self._text):
            scan.measure(start)
            kept = start if scan.reason is None else scan.at
            self._make_room(kept)
            scan.shift(kept)
            start = 0
            if not self._more():
                if scan.reason is None:
                    self._damaged("it ends too early")
                break
        self._at = scan.at
        return start, scan.reason

    def _make_room(self, start: int) -> None:
        """Drop everything before ``start``."""
        del self._text[:start]
        self._at -= start

    def _more(self) -> bool:
        data = self._stream.read(CHUNK)
        self._text += data
        return bool(data)

    def _damaged(self, problem: str) -> NoReturn:
        raise DamagedError(f"the JSON is cut off or damaged here: {problem}")


class _Scan:
    """Looks for the end of a value that is only partly there, and for a limit that it breaks.

    ``at`` is how far it has looked.
    """

    def __init__(self, limits: Limits, at: int, *, is_text: bool) -> None:
        self._limits = limits
        self._most = limits.record // BYTES_A_VALUE
        self._depth = self._values = self._looks = 0
        self._text_at = at if is_text else None
        self.at = at + is_text
        self.reason: str | None = None

    def ended(self, text: bytearray) -> bool:
        """Look on, and return whether the end is found."""
        self._looks += 1
        counted = self.reason is None and self._looks < LARGE
        while self.at < len(text):
            if self._text_at is not None:
                self.at = _match_end(_IN_TEXT, text, self.at)
                if self.at == len(text) or text[self.at] != _QUOTE:
                    return False
                self.at += 1
                self._text_at = None
                if not self._depth:
                    return True
            elif not counted:
                counted = True
                self._count(text)
            else:
                self.at = _match_end(_TO_BRACKET, text, self.at)
                if self.at < len(text) and self._bracket(text[self.at]):
                    return True
        return False

    def _bracket(self, char: int) -> bool:
        """Go over a bracket, or the quote of a text without an end; return whether all ends."""
        self.at += 1
        if char == _QUOTE:
            self._text_at = self.at - 1
        elif char in _OPENING:
            self._depth += 1
            self._values += 1
            if self.reason is None and self._depth > self._limits.depth:
                self.reason = self._limits.too_deep
        else:
            self._depth -= 1
        return not self._depth and self._text_at is None

    def _count(self, text: bytearray) -> None:
        """Go over the rest by counting brackets, if it neither ends nor gets too deep."""
        bare = _TEXTS.sub(b"", text[self.at :])
        open_at = bare.find(b'"')
        rest = len(bare) - open_at if open_at >= 0 else 0
        brackets = bare[: len(bare) - rest].translate(_ROUND, _NOT_BRACKETS)
        depths = list(accumulate(map(_STEPS.__getitem__, brackets), initial=self._depth))
        deepest = 0 if self.reason is not None else max(depths)
        if min(depths) > 0 and deepest <= self._limits.depth:
            self._depth = depths[-1]
            self._values += brackets.count(b"(")
            self.at = len(text) - rest
            if rest:
                self._text_at = self.at
                self.at += 1

    def measure(self, start: int) -> None:
        """Measure the part that is there of a value that began at ``start``."""
        if self.reason is not None:
            return
        if self.at - start > self._limits.record:
            self.reason = self._limits.too_long
        elif self._text_at is not None and self.at - self._text_at > self._limits.text:
            self.reason = self._limits.too_long_a_text
        elif self._values > self._most:
            self.reason = self._limits.too_many

    def shift(self, dropped: int) -> None:
        """Go along a text whose beginning was dropped."""
        self.at -= dropped
        if self._text_at is not None:
            self._text_at = max(self._text_at - dropped, 0)


def reason_of(error: Exception, otherwise: str = "") -> str:
    """Return what an error of reading says of a text; ``otherwise`` stands before its own words."""
    if isinstance(error, UnicodeDecodeError):
        place = f"byte {error.object[error.start]:#04x} ({error.reason})"
        return f"is not UTF-8, because of {place}; save it as UTF-8"
    told = getattr(error, "strerror", None) or error
    return f"{otherwise}{told}"


def refusal(field: str, beginning: bytes, reason: str) -> ValidationError:
    """Return the error of a record that begins so."""
    return ValidationError(field, beginning[:200].decode("utf-8", "replace"), reason)


def _match_end(pattern: re.Pattern[bytes], text: bytearray, at: int) -> int:
    """Return where a match of ``pattern`` at a place ends."""
    match = pattern.match(text, at)
    return match.end() if match else at


def _is_deeper(record: bytes, limit: int) -> bool:
    """Return whether lists and objects are nested on more than so many levels."""
    brackets = _TEXTS.sub(b"", record).translate(_ROUND, _NOT_BRACKETS)
    for _ in range(limit):  # each round takes the innermost ones away
        fewer = brackets.replace(b"()", b"")
        if len(fewer) == len(brackets):
            return brackets.count(b"(") > limit  # some have no end
        brackets = fewer
    return bool(brackets)
