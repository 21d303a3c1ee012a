"""The manifest of an embedded memory: what its files must contain.

kglite opens any graph file with any log. The manifest says which belong together and how much was
acknowledged, so that a missing, older or damaged file is noticed. It is replaced, durably, with
each checkpoint. Its last bytes are the mark, which is written in place after each transaction.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple

from graphmem.errors import SchemaVersionError, StorageError
from graphmem.printable import counted

MANIFEST = "graph.kgl-manifest"
LOG_HEADER = 8
"""Bytes; a log without frames has at most 5."""
FIRST_FRAME = 5
"""Where the first frame of a log begins."""
HEAD = b"KWAL\x0d"
"""How a log begins whose form is known; the last byte is the version of the form."""

_FORMAT = "graphmem manifest 1"
_SIZE = 1024
"""Bytes of the text, which is padded; the mark follows."""
_MARK = struct.Struct("<QQQQII")
FRAME = struct.Struct("<II")
"""What a frame of a log begins with: the length of its content, and a checksum."""
_SAMPLED = 65_536
_CUT_OFF = "it is cut off, or its length is wrong"


@dataclass(frozen=True, slots=True)
class Print:
    """What a graph file is recognized by: its size, and a digest of its beginning and its end."""

    bytes: int
    digest: str


class Mark(NamedTuple):
    """The end of the last acknowledged transaction in the log."""

    checkpoint: int = 0
    transactions: int = 0
    """Acknowledged since the checkpoint."""
    start: int = 0
    """Where the frame of the last one begins."""
    end: int = 0
    """The size of the log after it."""
    checksum: int = 0
    """Of that frame, as it stands in the log."""

    def packed(self) -> bytes:
        """Return the bytes to write."""
        return _MARK.pack(*self, zlib.crc32(b"(%d, %d, %d, %d, %d)" % self))


_NO_MARK = Mark()


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the files of a memory contain as of a checkpoint, and since."""

    checkpoint: int = 0
    saving: bool = False
    """A checkpoint is being written: the graph file may already be the next one."""
    graph: Print | None = None
    """Of the graph file; None before the first checkpoint."""
    nodes: int = 0
    """In the graph file."""
    transactions: int = 0
    """Acknowledged before the checkpoint."""
    position: int | None = None
    """The log's number of the last transaction in the graph file; None if unknown."""
    mark: Mark = _NO_MARK

    def write(self, folder: Path) -> None:
        """Replace the manifest of a folder, durably."""
        values = asdict(self)
        del values["mark"]
        text = json.dumps({"format": _FORMAT} | values).encode()
        head = text + b"\n%08x\n" % zlib.crc32(text)
        new = folder / f"{MANIFEST}.tmp"
        with new.open("wb") as file:
            file.write(head.ljust(_SIZE) + self.mark._replace(checkpoint=self.checkpoint).packed())
            file.flush()
            os.fsync(file.fileno())
        new.replace(folder / MANIFEST)
        sync_folder(folder)


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a folder; None if it has none, as of earlier versions.

    Raises:
        StorageError: it is damaged.
    """
    try:
        data = (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"cannot read {folder / MANIFEST}: {error.strerror}") from error
    try:
        text, checksum = data[:_SIZE].split(b"\n")[:2]
        *numbers, marked = _MARK.unpack(data[_SIZE:])
        if int(checksum, 16) != zlib.crc32(text) or marked != zlib.crc32(
            repr(tuple(numbers)).encode()
        ):
            raise ValueError
        values = json.loads(text)
        if (form := values.pop("format")) != _FORMAT:
            raise SchemaVersionError(
                f"{folder / MANIFEST} is of another version ({form}); upgrade graphmem"
            )
        values["graph"] = Print(**values["graph"]) if values["graph"] else None
        manifest = Manifest(**values, mark=Mark(*numbers))
        if manifest.mark.checkpoint != manifest.checkpoint:
            raise ValueError
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise incomplete(
            f"{folder / MANIFEST} is damaged, so that nobody can tell whether the other files are "
            "complete"
        ) from error
    return manifest


def incomplete(problem: str) -> StorageError:
    """Return the error for files of which some are lost or damaged."""
    error = StorageError(
        f"{problem}; restore a backup (graphmem upkeep import), or go on with what is there: "
        "graphmem doctor --accept-loss"
    )
    error.remedy = "graphmem doctor --accept-loss, or restore a backup"
    return error


def write_mark(file: BinaryIO, mark: Mark, *, durable: bool) -> None:
    """Write the mark in place in an open, unbuffered manifest."""
    file.seek(_SIZE)
    file.write(mark.packed())
    if durable:
        os.fsync(file.fileno())


def print_of(graph: Path) -> Print | None:
    """Return the print of a graph file; None if it is not there."""
    try:
        with graph.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            digest = blake2b(file.read(_SAMPLED), digest_size=16)
            if size > _SAMPLED:
                file.seek(max(_SAMPLED, size - _SAMPLED))
                digest.update(file.read(_SAMPLED))
            return Print(size, digest.hexdigest())
    except (FileNotFoundError, NotADirectoryError):
        return None


@dataclass(slots=True)
class Scan:
    """The whole frames at the beginning of a log."""

    size: int = 0
    end: int = 0
    """Where the last whole frame ends."""
    frames: int = 0
    first: int | None = None
    """The log's number of the first transaction."""
    last: int | None = None
    tail: bool = True
    """What follows the last whole frame can be the torn end that a crash leaves."""
    head: bytes = HEAD
    """How the log begins; that of a shorter file is taken to be the beginning of a head."""
    wrong: str = ""
    """What is wrong with what follows the last whole frame."""
    mark: Mark = _NO_MARK
    """A mark at the end of the last whole frame."""
    known: int | None = None
    """Frames up to the mark that was looked for, if it is there."""

    @property
    def beheaded(self) -> bool:
        """Whether it does not begin as a log does."""
        return self.head[:4] != HEAD[:4]

    @property
    def whole(self) -> bool:
        """Whether it is a log without anything else."""
        return self.end == self.size and not self.beheaded

    def told(self, path: Path) -> str:
        """Return what is wrong with the log at a path, where, and what before that is whole."""
        number = counted(self.frames, "transaction")
        if self.beheaded:
            rest = f"the {number} after that" if self.frames else "nothing in it"
            return f"{path} is damaged from byte 0 on: it has no head of a log; {rest} can be read"
        if self.end < self.size:
            return (
                f"{path} is damaged from byte {self.end:,} on, in transaction {self.frames + 1:,}, "
                f"where {self.wrong}; the {number} before that can be read"
            )
        return f"{path} ends at byte {self.end:,}, after {number}"


def scan(log: Path, mark: Mark) -> Scan:
    """Read a log up to the first frame that is not whole, and look for a mark in it."""
    found = Scan()
    with log.open("rb") as file:
        found.size = os.fstat(file.fileno()).st_size
        head = file.read(FIRST_FRAME)
        if len(head) < FIRST_FRAME:  # who made the log was killed
            found.wrong = "its head is cut off"
            return found
        found.head, found.end = head, FIRST_FRAME
        while found.end + FRAME.size <= found.size:
            length, checksum = FRAME.unpack(file.read(FRAME.size))
            end = found.end + FRAME.size + length
            whole = end <= found.size
            content = file.read(length) if whole else b""
            if not whole or not length or zlib.crc32(content) != checksum:
                found.tail = end >= found.size
                found.wrong = "the checksum is another" if whole and length else _CUT_OFF
                break
            found.frames += 1
            found.last = _number(content)
            found.first = found.last if found.first is None else found.first
            found.mark = Mark(0, found.frames, found.end, end, checksum)
            if (found.end, end, checksum) == (mark.start, mark.end, mark.checksum):
                found.known = found.frames
            found.end = end
        else:
            found.wrong = _CUT_OFF
    return found


def frame_at(log: BinaryIO, start: int) -> tuple[int, int]:
    """Return end and checksum of the frame that begins at ``start`` of a log."""
    log.seek(start)
    head = log.read(FRAME.size)
    if len(head) < FRAME.size:
        raise OSError(f"the log ends at {start}")
    length, checksum = FRAME.unpack(head)
    return start + FRAME.size + length, checksum


def number_at(log: BinaryIO, start: int) -> int:
    """Return the log's number of the transaction whose frame begins at ``start``."""
    log.seek(start + FRAME.size)
    return _number(log.read(10))


def _number(content: bytes) -> int:
    """Return the transaction's number, with which a frame begins (LEB128)."""
    number = shift = 0
    for byte in content[:10]:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return number


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
