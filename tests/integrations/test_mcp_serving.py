"""The server of the Model Context Protocol as a process: what clients and memories do to it."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import kglite
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from graphmem import Memory, Settings
from graphmem.integrations.mcp import build
from tests.cli.running import CODE, run
from tests.faults.attack import rounds
from tests.integrations.asking import FLIGHT, MODES, good, over_stdio, refused, serving, talk

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

HELLO = {
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
LEARN = {"task": FLIGHT, "strategy": "ask", "success": True}
PATIENCE = 120.0
"""Seconds that a server may take on a machine that is busy."""
TOKEN = "a-token-that-is-long-enough"  # noqa: S105
ACCEPT = {"Accept": "application/json, text/event-stream"}


def calling(number: int, **arguments: Any) -> dict[str, Any]:
    """Return a message that learns."""
    params = {"name": "graphmem_learn", "arguments": LEARN | arguments}
    return {"id": number, "method": "tools/call", "params": params}


def line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


@contextmanager
def process(url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``graphmem mcp`` over pipes, of which a client has said hello; it must end by itself."""
    server = subprocess.Popen(
        [sys.executable, "-c", CODE, "--url", url, "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert server.stdin
    assert server.stdout
    try:
        server.stdin.write(line(HELLO) + line({"method": "notifications/initialized"}))
        server.stdin.flush()
        assert b"Ask before you act" in server.stdout.readline()
        yield server
        for pipe in (server.stdin, server.stdout):
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
        assert found["items"][0]["said"] == "1 of 1 on tasks like it"

    talk(over_stdio(url, **env), work, mode)


def test_a_client_that_vanishes_leaves_a_whole_memory(tmp_path: Path) -> None:
    url = str(tmp_path / "memory.graph")
    with process(url) as server:
        assert server.stdin
        assert server.stdout
        for number in range(2, 12):
            server.stdin.write(line(calling(number)))
        server.stdin.flush()
        for _ in range(3):  # then it goes, while others are under way
            server.stdout.readline()
    whole(url, 3, 10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_and_leaves_a_whole_memory(
    tmp_path: Path, number: signal.Signals
) -> None:
    url = str(tmp_path / "memory.graph")
    with process(url) as server:
        assert server.stdin
        assert server.stdout
        for call in range(2, 12):
            server.stdin.write(line(calling(call)))
        server.stdin.flush()
        server.stdout.readline()
        server.send_signal(number)
        assert server.wait(PATIENCE) == -number
    whole(url, 1, 10)


def test_lines_that_are_no_messages_get_an_answer(tmp_path: Path) -> None:
    url = str(tmp_path / "memory.graph")
    deep = b"[" * 5_000 + b"]" * 5_000
    bad: list[tuple[bytes, object]] = [
        (b"{nonsense\n", None),
        (b"\xff\xfe\n", None),
        (b"\n[]\n", None),
        (line(calling(2, task="LONE")).replace(b"LONE", b"\\ud800"), 2),
        (line(calling(3, steps=[{"action": "DEEP"}])).replace(b'"DEEP"', deep), 3),
        (b'{"jsonrpc": "2.0", "id": "a", "method": 1.}\n', "a"),
    ]
    with process(url) as server:
        assert server.stdin
        assert server.stdout
        for text, number in bad:
            server.stdin.write(text)
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            assert answer["id"] == number
            assert answer["error"]["code"] == -32_700
            assert len(answer["error"]["message"]) < 400
        server.stdin.write(line(calling(9)))
        server.stdin.flush()
        assert not json.loads(server.stdout.readline())["result"]["isError"]
    whole(url, 1, 1)


def test_what_is_wrong_over_http(tmp_path: Path) -> None:
    url = str(tmp_path / "memory.graph")
    with serving("--http", "127.0.0.1:0", url=url) as server:
        assert server.stderr
        address = server.stderr.readline().split()[-1]
        host, port = address.split("/")[2].split(":")

        def post(content: bytes, **headers: str) -> httpx2.Response:
            head = {"Content-Type": "application/json", **ACCEPT, **headers}
            return httpx2.post(address, content=content, headers=head, timeout=PATIENCE)

        assert post(line(HELLO), Host="evil.example.com").status_code == 421
        assert post(line(HELLO), Origin="http://evil.example.com").status_code == 403
        assert post(b"{nonsense").json()["error"]["code"] == -32_700
        assert post(line(calling(2, task="x" * 5_000_000))).status_code == 413
        assert post(line(calling(2)), **{"Mcp-Session-Id": "none"}).status_code == 404
        session = {"Mcp-Session-Id": post(line(HELLO)).headers["Mcp-Session-Id"]}
        assert b"100,000" in post(line(recalling(3)), **session).content
        for number in range(4, 10):  # clients that do not wait for the answer, or say only half
            body = line(calling(number))
            head = {"Host": host, "Content-Type": "application/json", **ACCEPT, **session}
            said = "".join(f"{name}: {value}\r\n" for name, value in head.items())
            said = f"POST /mcp HTTP/1.1\r\n{said}Content-Length: {len(body)}\r\n\r\n"
            with socket.create_connection((host, int(port))) as link:
                link.sendall(said.encode().replace(b"127.0.0.1", address.split("/")[2].encode()))
                link.sendall(body if number % 2 else body[:40])
        chance = random.Random(3)
        for number in range(rounds(30, 5_000)):
            answer = httpx2.request(
                timeout=PATIENCE,
                method=chance.choice(
                    ["POST", "POST", "POST", "PUT", "PATCH", "\u00c9".encode().hex()]
                ),
                url=address,
                content=damaged(chance, line(chance.choice([HELLO, recalling(number)]))),
                headers={
                    "Content-Type": chance.choice(["application/json", "text/plain", "x" * 5_000]),
                    **chance.choice([ACCEPT, {}, {"Accept": "\x7f"}]),
                    **chance.choice([session, {}, {"Mcp-Session-Id": "../" * 50}]),
                    **chance.choice([{}, {}, {"Mcp-Protocol-Version": "9" * 99}]),
                },
            )
            assert answer.status_code < 500, answer.text
            assert b"Traceback" not in answer.content
        assert (
            b"graphmem_learn" in post(line({"id": 10, "method": "tools/list"}), **session).content
        )
    whole(url, 0, 3)


def damaged(chance: random.Random, message: bytes) -> bytes:
    """Return a message of which a part is something else."""
    at = chance.randrange(len(message))
    junk = [
        b"",
        b"null",
        b"[" * 5_000,
        b"\xff",
        b'"\\ud800"',
        b"1e999",
        b"-1",
        b"{}",
        b"\x00",
        b"NaN",
    ]
    return message[:at] + chance.choice(junk) + message[at + chance.randrange(9) :]


def recalling(number: int) -> dict[str, Any]:
    """Return a message with a task that is too long."""
    params = {"name": "graphmem_recall", "arguments": {"task": "x" * 100_001}}
    return {"id": number, "method": "tools/call", "params": params}


def test_over_http_with_a_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    url = str(tmp_path / "memory.graph")
    with serving("--http", "127.0.0.1:0", "--token-file", str(token), url=url) as server:
        assert server.stderr
        address = server.stderr.readline().split()[-1]
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"bearer {TOKEN}x"},
            {"Authorization": TOKEN},
        ):
            answer = httpx2.post(address, content=b"{}", headers=headers, timeout=PATIENCE)
            assert answer.status_code == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"

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
        (("--http", "0.0.0.0:0"), "--token-file"),
        (("--http", "nonsense"), "HOST:PORT"),
        (("--http", "127.0.0.1:0", "--token-file", str(tmp_path / "none")), "cannot be read"),
        (("--http", "127.0.0.1:0", "--token-file", str(short)), "at least 16"),
        (("--token-file", str(short)), "--http"),
        (("--read-only", "--admin"), "cannot erase"),
    ):
        done = run("--url", url, "mcp", *arguments)
        assert done.code in {1, 2}
        assert problem in done.err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("--url", url, "mcp", "--http", f"127.0.0.1:{taken.getsockname()[1]}")
        assert done.code == 1
        assert "another port" in done.err


# Memories that are not to be had: the tool says why, and the server goes on


def refuses(url: str, problem: str, tool: str = "learn", **settings: Any) -> None:
    """Both what reads and what writes is refused by a server for a memory."""

    async def work(client: Client) -> None:
        for arguments in ({"tool": "status"}, {"tool": tool, **LEARN}):
            assert re.search(problem, await refused(client, **arguments))

    talk(build(lambda: Memory.open(url, settings=Settings(url=url, **settings))), work)


def test_a_memory_that_another_process_writes(tmp_path: Path) -> None:
    url = str(tmp_path / "memory.graph")
    with Memory.open(url) as memory:
        memory.learn(FLIGHT, "ask", success=True)
    holding = "import kglite, sys; s = kglite.open_session(sys.argv[1], durable='normal'); "
    holder = subprocess.Popen(
        [sys.executable, "-c", holding + "print('held', flush=True); input()", f"{url}/graph.kgl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    async def work(client: Client) -> None:
        assert "writ" in await refused(client, "learn", **LEARN)
        assert (await good(client, "status"))["episodes"] == 1
        holder.communicate(b"\n")
        assert (await good(client, "learn", **LEARN))["created"]

    try:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        settings = Settings(url=url, wait=0.1)
        talk(build(lambda: Memory.open(url, settings=settings)), work)
    finally:
        holder.kill()
        holder.wait()


def test_two_servers_and_a_shell_share_a_folder(tmp_path: Path) -> None:
    """Each of them writes as soon as it wants to, and all of it is there for all in the end."""
    folder = str(tmp_path / "memory.graph")
    env = {"GRAPHMEM_EMBEDDER": "hashing", "GRAPHMEM_WAIT": "60"}
    shell = ["--url", folder, "learn", FLIGHT, "check the fare rules", "--success"]

    async def learn(client: Client, way: str) -> None:
        for number in range(6):
            key = f"{way}/{number}"
            await good(client, "learn", task=FLIGHT, strategy=way, success=True, source_key=key)
            assert (await good(client, "recall", task=FLIGHT))["items"]

    async def main() -> None:
        transports = [over_stdio(folder, **env) for _ in range(2)]
        async with Client(transports[0]) as one, Client(transports[1]) as other:
            async with anyio.create_task_group() as group:
                group.start_soon(learn, one, "ask the customer")
                group.start_soon(learn, other, "refund at once")
                for number in range(3):
                    done = await anyio.run_process(
                        [sys.executable, "-c", CODE, *shell, "--source-key", f"shell/{number}"],
                        env={**os.environ, **env},
                        check=False,
                    )
                    assert done.returncode == 0, done.stderr
            for number, client in enumerate((one, other), 16):
                # Who writes reads what all others wrote; a reader may be some seconds behind.
                await good(client, "learn", task=FLIGHT, strategy="wait", success=False)
                assert (await good(client, "status"))["episodes"] == number

    anyio.run(main)
    with Memory.open(folder, settings=Settings(embedder="hashing", wait=0)) as memory:
        assert memory.stats().episodes == 17
        assert memory.verify().ok
        assert memory.learn(FLIGHT, "check the fare rules", success=True).created


def test_a_memory_that_is_of_a_newer_version_or_something_else_or_on_no_server(
    tmp_path: Path,
) -> None:
    url = str(tmp_path / "memory.graph")
    with Memory.open(url) as memory:
        memory.learn(FLIGHT, "ask", success=True)
    session = kglite.open_session(f"{url}/graph.kgl", durable="normal")
    session.execute("MATCH (s:Schema) SET s.version = 99")
    session.close()
    (Path(url) / "graph.kgl-manifest").unlink()
    refuses(url, "pip install -U graphmem")
    (tmp_path / "file").write_text("a letter")
    refuses(str(tmp_path / "file"), "not a")
    refuses("neo4j://127.0.0.1:9", "127.0.0.1:9")


def test_a_memory_that_goes_while_it_is_served(tmp_path: Path) -> None:
    url = str(tmp_path / "memory.graph")

    async def work(client: Client) -> None:
        await good(client, "learn", **LEARN)
        shutil.rmtree(url)
        for arguments in ({"tool": "learn", **LEARN}, {"tool": "status"}):
            result = await client.call_tool(f"graphmem_{arguments.pop('tool')}", arguments)
            assert "Traceback" not in str(result)

    talk(build(lambda: Memory.open(url)), work)
