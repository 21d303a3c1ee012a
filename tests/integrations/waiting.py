"""Tools that never come back, and runs that are cancelled as soon as one of theirs waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable

import pytest

_BEGUN = threading.Event()


async def for_ever() -> None:
    """Do what such a tool does."""
    _BEGUN.set()
    await asyncio.sleep(600)


async def cancelled_there(run: Awaitable[object]) -> None:
    """Cancel a run when it waits for a tool."""
    _BEGUN.clear()
    running = asyncio.ensure_future(run)
    while not (_BEGUN.is_set() or running.done()):
        await asyncio.sleep(0.001)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
