"""Serving the page, until the process is stopped."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Callable
from contextlib import closing

import anyio
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from graphmem.addresses import bracketed, is_loopback, listening
from graphmem.errors import ValidationError
from graphmem.memory import Memory
from graphmem.view.page import build

_GRACE = 2
"""Seconds that an ending server waits for its answers."""
_MOST = 64
"""Connections; with more, those that ask for nothing are closed, the oldest first."""
_numbers = itertools.count()


class _Connection(H11Protocol):
    """A connection that leaves room for others, so that silent ones do not keep a browser out."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; close the oldest silent connections if there are too many.

        The latest may only seem to be silent: what they ask is read after all that wait have begun.
        """
        super().connection_made(transport)
        self._number = next(_numbers)
        if (more := len(self.connections) - _MOST) > 0:
            known = [other for other in self.connections if isinstance(other, _Connection)]
            silent = [other for other in known if other is not self and other._is_silent]
            for other in sorted(silent, key=lambda other: other._number)[:more]:
                other.transport.abort()

    @property
    def _is_silent(self) -> bool:
        return self.cycle is None or self.cycle.response_complete


def serve(
    memory: Memory,
    host: str,
    port: int,
    tell: Callable[[str], object],
    *,
    write: bool = False,
    anyone: bool = False,
) -> None:
    """Serve the page.

    Args:
        memory: the memory to show.
        host: the address to listen at.
        port: 0 takes a free one.
        tell: called with its address, when it can be opened.
        write: whether it offers actions that change the memory.
        anyone: whether other machines may reach the address.

    Raises:
        ValidationError: other machines could reach it.
        StorageError: the port is taken.
    """
    if not is_loopback(host) and not anyone:
        raise ValidationError(
            "host",
            host,
            "other machines could reach the page there, and read the memory",
            "leave it out; or give --anyone too, if they may",
        )
    with closing(listening(host, port)) as opened:
        port = opened.getsockname()[1]
        token = secrets.token_urlsafe(32)
        names = {host, "localhost", "127.0.0.1"} if is_loopback(host) else {host}
        app = build(memory, token, {f"{bracketed(name)}:{port}" for name in names}, write=write)
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="critical",  # else it tells each answer that is cut off at the end
            access_log=False,
            http=_Connection,
            ws="none",
            backlog=_MOST,
            server_header=False,
            timeout_graceful_shutdown=_GRACE,
        )
        memory.strategies(limit=1)  # opens it: errors come here, and the first view does not wait
        tell(f"http://{bracketed(host)}:{port}/?token={token}")
        anyio.run(uvicorn.Server(config).serve, [opened])
