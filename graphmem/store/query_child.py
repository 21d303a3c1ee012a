"""The process that runs queries of others on a copy of the graph; ``embedded_query`` starts it.

It is a script without graphmem, so that it starts in a twentieth of a second. The system holds its
limits, whatever the engine does: it opens no file, ends when it needs more memory than it may, and
when its time is over, also where nobody waits for it any more.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import struct
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

try:
    import resource
except ImportError:  # Windows, where only the time is held, by who waits
    resource = None  # type: ignore[assignment]

IDLE = 60.0
"""Seconds without a query after which it ends."""
GRACE = 0.5
"""Seconds that the engine has to notice by itself that the time is over."""
LENGTH = struct.Struct("<Q")
_MEGABYTE = 1024 * 1024
_STATM: int | None = None


def serve(engine: Any, source: BinaryIO, sink: BinaryIO) -> None:
    """Take graphs and queries until nobody sends any."""
    session, size = None, 0
    while True:
        _ring_in(IDLE)
        head = source.read(LENGTH.size)
        if len(head) < LENGTH.size:
            return
        message = source.read(LENGTH.unpack(head)[0])
        _ring_in(0)
        if message.startswith(b"G"):
            session = None
            session = engine.from_bytes(message[1:]).session()
            del message
            size = _size()
            continue
        text, params, seconds, rows, megabytes = pickle.loads(message[1:])  # noqa: S301 - its parent's
        with _held(seconds, size + megabytes * _MEGABYTE):
            answer = _answer(session, text, params, seconds, rows)
            # What the engine has not given back would be missing to the next query.
            spent = _size() > size + megabytes * _MEGABYTE // 4
            sink.write(LENGTH.pack(len(answer) + 1) + (b"S" if spent else b"K") + answer)
            sink.flush()


def _answer(session: Any, text: str, params: Any, seconds: float, rows: int) -> bytes:
    try:
        found = session.cypher(
            text, params=params, timeout_ms=max(1, int(seconds * 1000)), row_limit=rows
        )
        total = (found.diagnostics or {}).get("total_rows")
        return pickle.dumps(("rows", found.to_list(), total is not None and total > rows))
    except MemoryError:
        return pickle.dumps(("error", "MemoryError", ""))
    except Exception as error:  # noqa: BLE001 - told to the parent, whatever it is
        return pickle.dumps(("error", type(error).__name__, str(error)))


@contextlib.contextmanager
def _held(seconds: float, size: int) -> Iterator[None]:
    """Hold the limits of a query: its time, the size of this process, and no files."""
    _ring_in(seconds + GRACE)
    if resource is None:
        yield
        return
    limits = {resource.RLIMIT_AS: size, resource.RLIMIT_NOFILE: 0}
    before = {kind: resource.getrlimit(kind) for kind in limits}
    for kind, limit in limits.items():
        with contextlib.suppress(OSError, ValueError):  # macOS has no limit of size
            resource.setrlimit(kind, (limit, before[kind][1]))
    yield
    for kind, pair in before.items():
        resource.setrlimit(kind, pair)


def _size() -> int:
    """Return the bytes of addresses that this process has; 0 where the system does not tell."""
    if _STATM is None or resource is None:
        return 0
    return int(os.pread(_STATM, 100, 0).split()[0]) * resource.getpagesize()


def _statm() -> int | None:
    try:
        return os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:
        return None


def _ring_in(seconds: float) -> None:
    """Let the system end this process after that time; 0: do not."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def main() -> None:
    """Serve the process that started this one, over standard input and output."""
    sys.path.append(sys.argv[1])
    import kglite

    global _STATM  # noqa: PLW0603 - open before no file may be opened
    _STATM = _statm()
    os.umask(0o077)  # the engine keeps columns of a large graph in files
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kglite.set_query_warning_policy("silent")
    serve(kglite, sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()
