"""The manifest of an embedded memory: what its files must contain.

kglite opens any graph file with any log, and sets a damaged log aside without an error. The
manifest says which files belong together and how much was acknowledged, so that a missing, older or
damaged file is noticed. It is replaced, durably, with each checkpoint. Its last bytes are the mark,
which is written in place after each transaction. The log is a sequence of bytes here; its form is
the engine's own.
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

MANIFEST = "graph.kgl-manifest"

_FORMAT = "graphmem manifest 2"
_SIZE = 1024  # bytes of the text, which is padded; the mark follows
_MARK = struct.Struct("<QQQII")
_SAMPLED = 65_536


@dataclass(frozen=True, slots=True)
class Print:
    """What a graph file is recognized by: its size, and a digest of its beginning and its end."""

    bytes: int
    digest: str


class Mark(NamedTuple):
    """The part of the log that was acknowledged."""

    checkpoint: int = 0
    transactions: int = 0
    """Acknowledged since the checkpoint."""
    size: int = 0
    """Bytes of the log after the last of them."""
    checksum: int = 0
    """CRC-32 of these bytes."""

    def pack(self) -> bytes:
        """Return the bytes to write."""
        return _MARK.pack(*self, zlib.crc32(repr(tuple(self)).encode()))


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
    mark: Mark = Mark()  # noqa: RUF009 - a tuple

    def counts(self, graph: Print | None) -> bool:
        """Return whether the mark holds for the log beside a graph file."""
        return not (self.saving and graph is not None and graph != self.graph)

    def write(self, folder: Path) -> None:
        """Replace the manifest of a folder, durably."""
        values = asdict(self)
        del values["mark"]
        text = json.dumps({"format": _FORMAT} | values).encode()
        head = text + b"\n%08x\n" % zlib.crc32(text)
        new = folder / f"{MANIFEST}.tmp"
        with new.open("wb") as file:
            file.write(head.ljust(_SIZE) + self.mark._replace(checkpoint=self.checkpoint).pack())
            file.flush()
            os.fsync(file.fileno())
        new.replace(folder / MANIFEST)
        sync_folder(folder)


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a folder; None if it has none of this form, as of earlier versions."""
    try:
        data = (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"cannot read {folder / MANIFEST}: {error.strerror}") from error
    try:
        text, checksum = data[:_SIZE].split(b"\n")[:2]
        if int(checksum, 16) != zlib.crc32(text):
            raise ValueError
        values = json.loads(text)
        if (form := values.pop("format")) == "graphmem manifest 1":
            return None
        if form != _FORMAT:
            raise SchemaVersionError(
                f"{folder / MANIFEST} is of another version ({form}); upgrade graphmem"
            )
        graph = Print(**values.pop("graph")) if values["graph"] else values.pop("graph")
        mark = Mark(*_MARK.unpack(data[_SIZE:])[:-1])
        manifest = Manifest(**values, graph=graph, mark=mark)
        if data[_SIZE:] != mark.pack() or mark.checkpoint != manifest.checkpoint:
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
    file.write(mark.pack())
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


def checksum_of(log: BinaryIO, size: int, start: int = 0, checksum: int = 0) -> int:
    """Return the checksum of the first ``size`` bytes, from that of the first ``start`` on."""
    log.seek(start)
    return zlib.crc32(log.read(size - start), checksum)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
