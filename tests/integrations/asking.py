"""The protocol's own client, and servers for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, TextContent

from graphmem import Memory
from tests.cli.running import CODE, start

MODES = ("legacy", "auto")
FLIGHT = "refund a cancelled flight"
Work = Callable[[Client], Awaitable[None]]


def talk(target: Any, work: Work, mode: str = "auto") -> None:
    async def main() -> None:
        async with Client(target, mode=mode) as client:
            await work(client)

    anyio.run(main)


async def good(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(f"graphmem_{tool}", arguments)
    assert not result.is_error, said(result)
    found: dict[str, Any] | None = result.structured_content
    assert found is not None
    return found


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(f"graphmem_{tool}", arguments)
    assert result.is_error
    assert "Traceback" not in said(result)
    return said(result)


def said(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


def taught(memory: Memory) -> Memory:
    for number in range(3):
        memory.learn(FLIGHT, "check the fare rules", success=True, source_key=f"good/{number}")
    memory.learn(FLIGHT, "refund at once", success=False, error="policy: not refundable")
    return memory


@contextmanager
def serving(*arguments: str, url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run ``graphmem mcp`` over HTTP; its first line on stderr says at which address."""
    http = ("mcp", "--http", "127.0.0.1:0", *arguments)
    process = start("--url", url, *http, text=True)
    assert process.stderr
    try:
        yield process, process.stderr.readline().split()[-1]
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
        assert "Traceback" not in err, err


def over_stdio(url: str, *arguments: str, **env: str) -> Any:
    command = ["-c", CODE, "--url", url, "mcp", *arguments]
    surroundings = {**os.environ, **env}
    return stdio_client(
        StdioServerParameters(command=sys.executable, args=command, env=surroundings)
    )
