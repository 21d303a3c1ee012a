"""The server of the Model Context Protocol as a process: what clients and memories do to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from graphmem import Memory, Settings
from tests.cli.running import complaint, run, start
from tests.integrations.asking import FLIGHT, MODES, good, over_stdio, serving, talk

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

CLIENT = {"clientInfo": {"name": "test", "version": "1"}, "capabilities": {}}
HELLO = {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", **CLIENT}}
LEARN = {"task": FLIGHT, "strategy": "ask", "success": True}
PATIENCE = 120.0
"""Seconds that a server may take on a machine that is busy."""
TOKEN = "a-token-that-is-long-enough"  # noqa: S105
ACCEPT = {"Accept": "application/json, text/event-stream"}


def calling(number: int, **arguments: Any) -> dict[str, Any]:
    params = {"name": "graphmem_learn", "arguments": LEARN | arguments}
    return {"id": number, "method": "tools/call", "params": params}


def line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


@contextmanager
def process(url: str) -> Iterator[tuple[subprocess.Popen[bytes], Callable[..., None], IO[bytes]]]:
    """Run ``graphmem mcp`` over pipes: what writes to it, what reads; it must end by itself."""
    server = start("--url", url, "mcp", stdin=subprocess.PIPE)
    assert server.stdin
    assert server.stdout
    pipes = server.stdin, server.stdout

    def say(*messages: bytes) -> None:
        pipes[0].write(b"".join(messages))
        pipes[0].flush()

    try:
        say(line(HELLO), line({"method": "notifications/initialized"}))
        assert b"Ask before you act" in pipes[1].readline()
        yield server, say, pipes[1]
        for pipe in pipes:
            pipe.close()
        server.stdin = server.stdout = None
        _, err = server.communicate(timeout=60)
        assert err == b""
    finally:
        server.kill()
        server.wait()


def whole(url: str, least: int, most: int) -> None:
    """A memory verifies, and has so many episodes."""
    with Memory.open(url) as memory:
        assert memory.verify().ok
        assert least <= memory.stats().episodes <= most


@pytest.mark.parametrize("mode", MODES)
def test_over_standard_input_and_output(url: str, settings: Settings, mode: str) -> None:
    password = settings.password.get_secret_value() if settings.password else ""
    env = {"GRAPHMEM_USER": settings.user or "", "GRAPHMEM_PASSWORD": password}
    env = {name: value for name, value in env.items() if value}
    env["GRAPHMEM_NAMESPACE"] = f"mcp-{os.getpid()}-{mode}"

    async def work(client: Client) -> None:
        assert "Ask before you act" in (client.instructions or "")
        await good(client, "learn", task=FLIGHT, strategy="check the fare rules", success=True)
        found = await good(client, "recall", task="refund the flight")
        assert found["rows"][0]["said"] == (
            "too little known: 1 of 1 on 'refund a cancelled flight', like this one"
        )

    talk(over_stdio(url, **env), work, mode)


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGINT])
def test_a_client_that_vanishes_or_a_signal_leaves_a_whole_memory(
    tmp_path: Path, number: signal.Signals | None
) -> None:
    url = str(tmp_path / "memory.graph")
    with process(url) as (server, say, answers):
        say(*(line(calling(call)) for call in range(2, 12)))
        answers.readline()  # others are under way
        if number is not None:
            server.send_signal(number)
            assert server.wait(PATIENCE) == -number
    whole(url, 1, 10)


def test_lines_that_are_no_messages_get_an_answer(tmp_path: Path) -> None:
    url = str(tmp_path / "memory.graph")
    deep = b"[" * 5_000 + b"]" * 5_000
    bad: list[tuple[bytes, object]] = [
        (b"{nonsense\n", None), (b"\xff\xfe\n", None), (b"\n[]\n", None),
        (line(calling(2, task="LONE")).replace(b"LONE", b"\\ud800"), 2),
        (line(calling(3, steps=[{"action": "DEEP"}])).replace(b'"DEEP"', deep), 3),
        (b'{"jsonrpc": "2.0", "id": "a", "method": 1.}\n', "a"),
    ]  # fmt: skip
    with process(url) as (_, say, answers):
        for text, number in bad:
            say(text)
            answer = json.loads(answers.readline())
            assert (answer["id"], answer["error"]["code"]) == (number, -32_700)
            assert len(answer["error"]["message"]) < 400
        say(line(calling(9)))
        assert not json.loads(answers.readline())["result"]["isError"]
    whole(url, 1, 1)


def test_what_is_wrong_over_http(tmp_path: Path) -> None:
    url = str(tmp_path / "memory.graph")
    with serving(url=url) as (_, address):

        def post(content: bytes, **headers: str) -> httpx2.Response:
            head = {"Content-Type": "application/json", **ACCEPT, **headers}
            return httpx2.post(address, content=content, headers=head, timeout=PATIENCE)

        own = address.split("/")[2]
        for host in ("evil.example.com", f"{own}.evil.com", "127.0.0.1:1"):
            assert post(line(HELLO), Host=host).status_code == 421
            assert post(line(HELLO), Origin=f"http://{host}").status_code == 403
        assert post(b"{nonsense").json()["error"]["code"] == -32_700
        assert post(line(calling(2, task="x" * 5_000_000))).status_code == 413
        assert post(line(calling(2)), **{"Mcp-Session-Id": "none"}).status_code == 404
        session = {"Mcp-Session-Id": post(line(HELLO)).headers["Mcp-Session-Id"]}
        listed = post(line({"id": 10, "method": "tools/list"}), **session)
        assert b"graphmem_learn" in listed.content


def test_over_http_with_a_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    url = str(tmp_path / "memory.graph")
    with serving("--token-file", str(token), url=url) as (server, address):
        for wrong in ("", "Bearer wrong", f"bearer {TOKEN}x", TOKEN):
            headers = {"Authorization": wrong} if wrong else {}
            answer = httpx2.post(address, content=b"{}", headers=headers, timeout=PATIENCE)
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")

        async def main(mode: str) -> None:
            bearer = {"Authorization": f"Bearer {TOKEN}"}
            async with (
                httpx2.AsyncClient(headers=bearer, timeout=PATIENCE) as http,
                Client(streamable_http_client(address, http_client=http), mode=mode) as client,
            ):
                await good(client, "learn", **LEARN, source_key="once")
                assert (await good(client, "status"))["episodes"] == 1
                if mode == MODES[-1]:  # it ends while a client is there
                    server.terminate()
                    with anyio.fail_after(PATIENCE):
                        assert await anyio.to_thread.run_sync(server.wait) == -signal.SIGTERM

        for mode in MODES:
            anyio.run(main, mode)
    whole(url, 1, 1)


def test_addresses_and_tokens_that_are_wrong(tmp_path: Path) -> None:
    url = str(tmp_path / "memory.graph")
    short = tmp_path / "short"
    short.write_text("x")
    for arguments, problem in (
        (("--http", "0.0.0.0:0"), "--token-file"), (("--http", "nonsense"), "HOST:PORT"),
        (("--http", "127.0.0.1:0", "--token-file", str(tmp_path / "none")), "cannot be read"),
        (("--http", "127.0.0.1:0", "--token-file", str(short)), "at least 16"),
        (("--token-file", str(short)), "--http"), (("--read-only", "--admin"), "cannot erase"),
    ):  # fmt: skip
        done = run("--url", url, "mcp", *arguments)
        assert done.code in {1, 2}
        assert problem in done.err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = ("--url", url, "mcp", "--http", f"127.0.0.1:{taken.getsockname()[1]}")
        assert "another port" in complaint(*busy, code=1)
