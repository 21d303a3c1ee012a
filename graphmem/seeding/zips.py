"""Zip files: their members as streams of plain bytes, within limits, also those packed by zstd.

The directory of a zip file is at its end. So a source that cannot be read again from a place (a
pipe, a gzip file) is written to a temporary file first. Nothing is unpacked to disk, and names of
members are never used as paths.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast

from graphmem.errors import SeedingError, ValidationError
from graphmem.seeding.reading import DamagedError, Limits, reason_of

MAGIC = b"PK\x03\x04"
"""How a zip file begins."""
_ZSTD = 93
_HAS_ZSTD = sys.version_info >= (3, 14)
"""Whether Python unpacks zstd by itself."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTD)
_HEADER = 30
"""Bytes before the name of a member."""
_WINDOW = 1 << 27
"""Bytes that zstd may look back, which it holds in memory; its highest level needs as many."""
_END = b"PK\x05\x06"
_END_64 = b"PK\x06\x06"
_ELSEWHERE = b"\xff" * 4
"""Says that the size of the directory stands in the larger form."""
_TAIL = 66_000
"""Bytes at the end of a file that hold the place of its directory."""
_DAMAGES = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError)
"""What is raised where a zip file is damaged."""
NEEDS = "in a clone of graphmem: pip install -e '.[inspect]'"


@contextmanager
def open_zip(stream: BinaryIO, limits: Limits) -> Iterator[Members]:
    """Yield the members of a zip file."""
    with tempfile.TemporaryFile() as file:
        try:
            shutil.copyfileobj(stream, file)
            _check_directory(file, limits)
            opened = zipfile.ZipFile(file)
        except _DAMAGES as error:
            raise DamagedError(reason_of(error, "the zip file is cut off or damaged: ")) from error
        with opened:
            yield Members(opened, file, limits)


def _check_directory(file: BinaryIO, limits: Limits) -> None:
    most = limits.record // 2
    file.seek(max(0, file.tell() - _TAIL))
    tail = file.read()
    sizes = [tail[at.end() + 8 :][:4] for at in re.finditer(_END, tail)]
    sizes += [tail[at.end() + 36 :][:8] for at in re.finditer(_END_64, tail)]
    if any(size != _ELSEWHERE and int.from_bytes(size, "little") > most for size in sizes):
        raise SeedingError(f"has a directory of over {most:,} bytes; split it")


class Members:
    """The members of a zip file by name; of two with one name the later one counts."""

    def __init__(self, opened: zipfile.ZipFile, file: Any, limits: Limits) -> None:
        self._zip = opened
        self._file = file
        self._limits = limits
        self._size = file.seek(0, io.SEEK_END)
        self._unpacked = 0
        self._infos = {info.filename: info for info in opened.infolist()}

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def open(self, name: str) -> BinaryIO:
        """Return the content of a member; reading it raises a SeedingError for damage or size."""
        info = self._infos[name]
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts:
            raise ValidationError("member", name, "has a name that leads out of the zip file")
        if info.flag_bits & 1:
            raise ValidationError("member", name, "is encrypted", "decrypt it first")
        if info.compress_type not in _METHODS:
            problem = f"is packed by method {info.compress_type}"
            remedy = "pack it again without compression, by deflate, or by zstd"
            raise ValidationError("member", name, problem, remedy)
        try:
            packed = self._zstd(info) if info.compress_type == _ZSTD else self._zip.open(info)
        except _damages() as error:
            raise DamagedError(reason_of(error, f"{name} is damaged: ")) from error
        return io.BufferedReader(_Member(self, name, cast(BinaryIO, packed)))

    def count(self, size: int) -> None:
        """Count bytes that were unpacked."""
        self._unpacked += size
        if (excess := self._limits.file_excess(self._unpacked, self._size)) is not None:
            raise SeedingError(excess)

    def _zstd(self, info: zipfile.ZipInfo) -> Any:
        """Return the unpacked content of a member that zstd packed."""
        if _HAS_ZSTD:
            return self._zip.open(info)
        try:
            zstandard = import_module("zstandard")
        except ImportError:
            problem = "is packed by zstd, which Python reads from 3.14 on"
            remedy = f"install zstandard: {NEEDS}"
            raise ValidationError("member", info.filename, problem, remedy) from None
        self._file.seek(info.header_offset)
        header = self._file.read(_HEADER)
        if len(header) < _HEADER or not header.startswith(MAGIC):
            raise zipfile.BadZipFile("its header is not where the directory says")
        beside = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        part = _Part(self._file, info.header_offset + _HEADER + beside, info.compress_size)
        unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
        return unpacker.stream_reader(part, read_across_frames=True)


def _damages() -> tuple[type[Exception], ...]:
    """Return the errors of reading a damaged member."""
    with suppress(ImportError):
        zstd = import_module("compression.zstd" if _HAS_ZSTD else "zstandard")
        return (*_DAMAGES, zstd.ZstdError)
    return _DAMAGES


class _Part:
    """A part of a file that others read, too."""

    def __init__(self, file: Any, start: int, size: int) -> None:
        self._file = file
        self._at = start
        self._end = start + size

    def read(self, size: int = -1) -> bytes:
        rest = self._end - self._at
        self._file.seek(self._at)
        data = bytes(self._file.read(rest if size < 0 else min(size, rest)))
        self._at += len(data)
        return data


class _Member(io.RawIOBase):
    """The content of a member, counted while it is read."""

    def __init__(self, members: Members, name: str, content: BinaryIO) -> None:
        self._members = members
        self._name = name
        self._content = content

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = cast(memoryview, memoryview(buffer))  # type: ignore[arg-type]
        try:
            data = self._content.read(len(target))
        except _damages() as error:
            raise DamagedError(reason_of(error, f"{self._name} is damaged: ")) from error
        self._members.count(len(data))
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._content.close()
        super().close()
