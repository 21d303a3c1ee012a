"""Serving the page, until the process is stopped."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import closing

import anyio
import uvicorn

from graphmem.addresses import bracketed, hosts_of, is_loopback, listening
from graphmem.errors import ValidationError
from graphmem.memory import Memory
from graphmem.view.page import build

_GRACE = 2
"""Seconds that an ending server waits for its answers."""


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
        app = build(memory, token, {*hosts_of(host, port)}, write=write)
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="critical",  # else it tells each answer that is cut off at the end
            access_log=False,
            http="h11",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=_GRACE,
        )
        memory.strategies(limit=1)  # opens it: errors come here, and the first view does not wait
        tell(f"http://{bracketed(host)}:{port}/?token={token}")
        anyio.run(uvicorn.Server(config).serve, [opened])
