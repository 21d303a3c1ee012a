"""Whatever is asked of the page, it answers in clear words, is no script, and changes nothing."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import anyio
import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings
from starlette.routing import Mount, Route

from graphmem import Memory
from graphmem.view.page import COOKIE, Guarded, build
from tests.cli.running import start
from tests.faults.attack import rounds
from tests.view.test_page import HOST, TOKEN

HOSTILE = [
    *("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</textarea>'\"`", "\x00"),
    *("a\x00b", "\x1b]0;title\x07", "\u202etxt.exe", "\ud800", "\ufeff", "\u2028", "%", "%zz", ""),
    *(" ", "-1", "0", "1", "200", "1e9", "9" * 400, "²", "٣", "NaN", "null", "true", "[]", "{}"),
    *("../../etc/passwd", "' OR 1=1 --", "`) DETACH DELETE n //", "$ns", "x" * 20_000, "{{7*7}}"),
    "analysis.agents",
]
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "\u00e9"]
ENDS = ["/", "//", "/..", "/../x", "/\x00", "\ud800", "/\u00e9"]
NAMED = re.compile(r"given(?:\.get\(|\[|, )\s*\"(\w+)\"")
SENT = {
    "content-security-policy": "default-src 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def ask(
    app: Any,
    method: str,
    path: str,
    query: bytes = b"",
    headers: list[tuple[bytes, bytes]] | None = None,
    body: bytes = b"",
) -> Answer:
    """Ask as a server does that was sent exactly these bytes."""
    begun: dict[str, Any] = {}
    parts: list[bytes] = []
    sent: list[bool] = []

    async def receive() -> dict[str, Any]:
        if sent:
            return {"type": "http.disconnect"}
        sent.append(True)
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            begun.update(message)
        else:
            parts.append(message.get("body", b""))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("utf-8", "replace"),
        "root_path": "",
        "query_string": query,
        "headers": known() if headers is None else headers,
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 8766),
    }
    anyio.run(app, scope, receive, send)
    given = {name.decode("latin-1"): value.decode("latin-1") for name, value in begun["headers"]}
    return Answer(begun["status"], given, b"".join(parts))


def known(origin: bytes = b"http://" + HOST.encode()) -> list[tuple[bytes, bytes]]:
    """The headers of the page itself."""
    cookie = f'{COOKIE}-8766="{TOKEN}"'.encode()
    return [(b"host", HOST.encode()), (b"cookie", cookie), (b"origin", origin)]


def routes(app: Any) -> list[tuple[str, list[str]]]:
    """The paths of the page with their methods, of all routes that it has."""
    assert isinstance(app, Guarded)
    table = app._app.routes  # type: ignore[attr-defined]
    found = []
    for route in table:
        assert isinstance(route, Route | Mount), "a new kind of route needs its attack"
        methods = sorted(route.methods or ["GET"]) if isinstance(route, Route) else ["GET"]
        found.append((re.sub(r"\{[^}]*\}", "x", route.path), methods))
    assert len(found) > 10
    return found


def parameters() -> list[str]:
    """The names of parameters that any answer takes."""
    import inspect

    from graphmem.view import page

    found = sorted({*NAMED.findall(inspect.getsource(page)), "id", "text", "token"})
    assert {"agent", "task", "limit", "state"} <= set(found)
    return found


def clear(answer: Answer) -> None:
    """An answer says what it is, is no script of somebody else, and shows nothing of Python."""
    for name, value in SENT.items():
        assert value in answer.headers.get(name, ""), name
    assert answer.status < 500, answer.body
    if answer.status >= 400:
        assert answer.headers["content-type"] == "application/json"
        if answer.body:  # none for HEAD
            told = json.loads(answer.body)["error"]
            assert told["message"].strip()
            assert told["kind"].isidentifier()
            assert b"Traceback" not in answer.body
            assert b"\x1b" not in answer.body
            assert b".py" not in answer.body


def populated(memory: Memory) -> list[str]:
    """Learn hostile texts; return ids of what there is now."""
    for number, text in enumerate(HOSTILE):
        if text.strip("\x00 \ufeff") and text.isprintable() and len(text) < 1_000:
            memory.learn(
                text,
                [text, f"{text} {number}"],
                success=bool(number % 2),
                agent=text,
                error=None if number % 2 else f"{text}Error: {text}",
                summary=text,
                task_type=text[:100],
                source_key=text,
            )
    memory.levels.default("ada")
    rows = memory.query("MATCH (n) WHERE n.ns = $ns RETURN n.id AS id ORDER BY id")
    return [str(row["id"]) for row in rows if row["id"] is not None]


def test_whatever_is_asked_is_answered(unstored: Memory) -> None:
    ids = populated(unstored)
    before = unstored.stats()
    attack(build(unstored, TOKEN, {HOST}), ids)
    assert unstored.stats() == before, "a page without --write changed the memory"


def attack(app: Any, ids: list[str]) -> None:
    """Ask each route, with parameters, headers and bodies of all kinds."""
    table, names = routes(app), parameters()
    values = st.sampled_from([*HOSTILE, *ids]) | st.text(max_size=30)
    texts = values.map(lambda text: quote(text.encode("utf-8", "surrogatepass"), safe=""))
    raw = st.binary(max_size=30) | texts.map(str.encode)
    hosts = st.sampled_from([HOST.encode()] * 6 + [b"evil.example", b"", b"127.0.0.1", b"\xff:1"])
    cookies = st.sampled_from(
        [known()[1][1]] * 6 + [b"", b"graphmem-8766=no", b"\xff=;;=", b"=" * 9]
    )
    origins = st.sampled_from([known()[2][1]] * 6 + [b"null", b"http://evil.example", b"\xff"])

    @given(data=st.data())
    @settings(max_examples=rounds(60, 3_000), suppress_health_check=[HealthCheck.too_slow])
    def asked(data: st.DataObject) -> None:
        path, methods = data.draw(st.sampled_from(table))
        if not data.draw(st.integers(0, 5)):
            path += data.draw(st.sampled_from(ENDS))
        method = data.draw(st.sampled_from(methods * 9 + METHODS))
        given = data.draw(st.lists(st.tuples(st.sampled_from(names), raw), max_size=4))
        query = b"&".join(name.encode() + b"=" + value for name, value in given)
        headers = [
            (b"host", data.draw(hosts)),
            (b"cookie", data.draw(cookies)),
            (b"origin", data.draw(origins)),
            (b"content-type", data.draw(st.sampled_from([b"application/json", b"", b"\xff"]))),
            (b"content-length", data.draw(st.sampled_from([b"0", b"-1", b"x", b"9" * 30]))),
        ]
        headers += [(b"range", b"bytes=0-,-1")] if data.draw(st.booleans()) else []
        body = data.draw(st.sampled_from([b"", b"{", b"[" * 100_000, b"\xff" * 1_000_000]))
        answer = ask(app, method, path, query, headers, body)
        clear(answer)
        strange = [headers[at][1] != known()[at][1] for at in (0, 1)]
        if any(strange):
            assert answer.status in (400, 403)

    asked()


def test_a_route_that_writes_needs_write(memory: Memory) -> None:
    """With all that the page itself sends, nothing is written without ``--write``."""
    populated(memory)
    memory.recall("a task")  # who asks first stores the vectors
    counted = "MATCH (n) WHERE n.ns = $ns RETURN count(n) AS n"
    before = memory.query(counted), memory.stats()
    reading, writing = build(memory, TOKEN, {HOST}), build(memory, TOKEN, {HOST}, write=True)
    assert [path for path, _ in routes(reading)] == [path for path, _ in routes(writing)]
    refused = 0
    for path, methods in routes(reading):
        for method in {*methods, "POST", "PUT", "DELETE", "PATCH"}:
            answer = ask(reading, method, path, b"confirm=true&write=true&id=x")
            clear(answer)
            refused += answer.status == 403
            if method not in ("GET", "HEAD"):  # and another site has none of its buttons
                for origin in (b"http://evil.example", b"null", b""):
                    foreign = ask(writing, method, path, headers=known(origin))
                    clear(foreign)
                    assert foreign.status in (403, 405), (method, path)
    assert refused
    assert (memory.query(counted), memory.stats()) == before


def test_ctrl_c_ends_it_quietly_whoever_waits_for_an_answer(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "new.graph") as memory:
        memory.learn("sort", "ask", success=True)
    process = start("--url", str(tmp_path / "new.graph"), "ui", "--no-open")
    assert process.stdout is not None
    address = process.stdout.readline().decode().split()[-1]
    port, token = int(address.split(":")[2].split("/")[0]), address.partition("=")[2]
    asked = f"Host: 127.0.0.1:{port}\r\nCookie: {COOKIE}-{port}={token}\r\n\r\n"
    with contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        for path in ("/", "/static/cytoscape.min.js"):
            link = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            link.sendall(f"GET {path} HTTP/1.1\r\n{asked}".encode())
            assert link.recv(15) == b"HTTP/1.1 200 OK"  # and reads no more
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.decode().split() == ["Ctrl-C", "ends", "it", "stopped"]
