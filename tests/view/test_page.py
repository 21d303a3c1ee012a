"""The page's answers, who gets none, and that whatever is asked, it answers in clear words."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import anyio
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

import graphmem.view.page
from graphmem import Episode, Memory, Settings, Step
from graphmem.errors import NotFoundError, StorageError, ValidationError
from graphmem.view.page import COOKIE, STATIC, Given, Guarded, Jobs, build, serve
from tests.cli.running import start
from tests.faults.attack import rounds
from tests.faults.proxy import Proxy
from tests.neo4j.server import Found

HOST = "127.0.0.1:8766"
ORIGIN = {"Origin": f"http://{HOST}"}
TOKEN = "a token for tests"  # noqa: S105
SCRIPT = "<script>alert(1)</script>"  # what a memory may hold, and no page may run


def client(memory: Memory, *, write: bool = False) -> TestClient:
    """A browser that has opened the address with the token."""
    app = build(memory, TOKEN, {HOST}, write=write)
    found = TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False)
    assert found.get("/", params={"token": TOKEN}).status_code == 200
    return found


def learn(memory: Memory) -> None:
    """Refunds by two agents, of which checking first works better; and levels."""
    for number in range(8):
        memory.learn(
            "refund a cancelled flight",
            "check the fare rules first" if number % 2 else "refund at once",
            success=bool(number % 2) or number == 0,
            error=None if number % 2 or number == 0 else "PolicyError: not refundable",
            agent="ada" if number < 6 else "bob",
            task_type="refund",
            task_key="refund-1",
            steps=[Step(action="open", state={"page": "home"}, next_state={"page": "fare"})],
            ended_at=datetime(2026, 1, 1 + number, tzinfo=UTC),
        )
    long = Step(action_type="post" * 50, action={"body": "0123456789" * 30}, observation="[" * 400)
    memory.learn(SCRIPT, SCRIPT, success=True, agent=SCRIPT, steps=[long])
    memory.levels.default("ada")


def ended(told: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What work says in the end."""
    deadline = time.monotonic() + 60
    while (state := told())["state"] == "running" and time.monotonic() < deadline:
        time.sleep(0.02)
    return state


def finished(page: TestClient, name: str) -> dict[str, Any]:
    """Press a button, and wait for its work."""
    assert page.post(f"/api/{name}", headers=ORIGIN).status_code == 200
    return ended(lambda: page.get("/api/job", params={"name": name}).json())


@pytest.fixture
def page(memory: Memory) -> Iterator[TestClient]:
    learn(memory)
    with client(memory) as page:
        yield page


def test_every_view_has_its_answer(page: TestClient, memory: Memory) -> None:
    def get(name: str, **given: Any) -> Any:
        answer = page.get(f"/api/{name}", params=given)
        assert answer.status_code == 200, answer.text
        assert answer.json()["write"] is False
        return answer.json()

    assert get("stats")["stats"]["episodes"] == 9
    found = get("overview")
    assert {"ada", "bob"} < set(get("agents")["agents"])
    best = found["strategies"][0]
    assert best["text"] == "check the fare rules first"
    assert (best["successes"], best["trials"]) == (4, 4)

    recalled = get("recall", text="refund a cancelled flight")
    assert recalled["items"][0]["id"] == best["id"]
    asked = memory.recall("refund a cancelled flight", limit=10).items
    said = [(row["id"], row["said"]) for row in recalled["items"]]
    assert said == [(item.id, item.said) for item in asked], "a person sees what an agent gets"
    nobody = get("recall", text="refund a cancelled flight", agent="bob")
    assert nobody["items"][0]["trials"] < 8

    told = get("explain", id=best["id"], task="refund a cancelled flight")
    assert [point["trials"] for point in told["course"]] == [1, 2, 3, 4]
    assert told["by_task"]["rows"][0]["id"] == memory.tasks()[0].id
    uses = get("uses", id=told["strategy"])["points"]
    assert [(one["trials"], one["successes"]) for one in uses] == [(n, n) for n in range(1, 5)]
    assert uses[-1]["lower"] == best["lower"], "the last point has the bounds of today"
    assert [point["trials"] for point in get("uses", id=best["id"], agent="bob")["points"]] == [1]

    assert len(get("show", id=memory.tasks()[0].id)["episodes"]) == 8
    near = get("neighbourhood", id=best["id"])
    [one] = [edge for edge in near["edges"] if edge["type"] == "OUTCOME" and edge["agent"] == "ada"]
    assert (one["trials"], one["successes"]) == (3, 3)
    assert get("neighbourhood", id=best["id"], limit=1)["more"] is True
    for node in near["nodes"]:
        assert get("neighbourhood", id=node["id"])["nodes"][0] == node, "each can be opened"

    [policy] = [row for row in get("policies")["policies"] if row["agent"] == "ada"]
    assert policy["features"] == {"page": "home"}
    of_state = get("policies", state=policy["state"])
    assert {row["agent"] for row in of_state["policies"]} == {"ada", "bob"}
    [led] = [row for row in of_state["next"] if row["policy"] == policy["id"]]
    assert (led["features"], led["times"]) == ('{"page":"fare"}', 6), "as steps of episodes say"
    assert get("history", id=policy["id"])["points"][-1]["trials"] == 6
    state = {"page": "fare"}
    for reward in (1.0, 0.0):
        memory.policies.update(state, "pay", reward, next_state={"page": "home"}, agent="ada")
    [paid] = memory.policies.list(state)
    [led] = get("policies", state=paid.state)["next"]
    assert (led["state"], led["times"], led["reward"]) == (policy["state"], 2, 0.5)
    updates = get("history", id=paid.id)["points"]
    assert [round(point["td_error"], 3) for point in updates] == [1.0, -0.1]

    parts = get("course")["parts"]
    assert sum(row["episodes"] for row in parts) == 9
    assert all(0 < row["at"] < 1 for row in parts)


def test_a_point_of_a_learning_curve_has_twenty_episodes_where_there_are_as_many(
    page: TestClient, memory: Memory
) -> None:
    counts = {"often": 200, "seldom": 44, "once": 1}
    memory.learn_many(
        Episode(task="t", strategy="s", agent=agent, success=index % 2 == 0)
        for agent, count in counts.items()
        for index in range(count)
    )
    parts = page.get("/api/course").json()["parts"]
    of = {agent: [row for row in parts if row["agent"] == agent] for agent in counts}
    assert [row["episodes"] for row in of["often"]] == [20] * 10
    assert (len(of["seldom"]), sum(row["episodes"] for row in of["seldom"])) == (2, 44)
    assert min(row["episodes"] for row in of["seldom"]) >= 20
    assert [row["at"] for row in of["once"]] == [0.5]
    assert all(0 < a["at"] < b["at"] < 1 for a, b in pairwise(of["often"]))


def test_it_changes_the_memory_only_where_that_was_asked_for(
    page: TestClient, memory: Memory
) -> None:
    [episode] = memory.episodes(SCRIPT)
    for name in ("rebuild", "erase"):
        refused = page.post(f"/api/{name}", params={"id": episode.id}, headers=ORIGIN)
        assert refused.status_code == 403
    assert page.get("/api/job", params={"name": "rebuild"}).status_code == 404
    with client(memory, write=True) as writing:
        assert finished(writing, "rebuild")["state"] == "done"
        erased = writing.post("/api/erase", params={"id": episode.id}, headers=ORIGIN)
        assert (erased.json()["episodes"], erased.json()["write"]) == (1, True)
        again = writing.post("/api/erase", params={"id": episode.id}, headers=ORIGIN)
        assert again.status_code == 404
        assert writing.post("/api/erase", headers=ORIGIN).status_code == 400
    assert memory.stats().episodes == 8
    assert memory.verify().ok


def test_long_work_runs_beside_the_page_and_can_be_stopped(unstored: Memory) -> None:
    begun, go = threading.Event(), threading.Event()

    def count(_: Memory, given: Given, tell: Callable[[int, int], None]) -> dict[str, Any]:
        tell(1, 3)
        begun.set()
        go.wait(30)
        tell(2, 3)
        return dict(given)

    def fail(_: Memory, __: Given, ___: Callable[[int, int], None]) -> dict[str, Any]:
        raise ValidationError("by", "x", "is wrong")

    jobs = Jobs({"count": count, "fail": fail})
    assert jobs.state("count") == {"state": "idle"}
    jobs.start("count", unstored, {"by": "time"})
    begun.wait(30)
    running = {"state": "running", "done": 1, "total": 3}
    assert jobs.state("count") == running
    assert jobs.start("count", unstored, {}) == running, "it runs once"
    assert jobs.stop("count")["state"] == "running", "it ends when it next tells how far it is"
    go.set()
    assert ended(lambda: jobs.state("count"))["state"] == "stopped"
    jobs.start("count", unstored, {"by": "time"})
    assert ended(lambda: jobs.state("count"))["answer"] == {"by": "time"}
    jobs.start("fail", unstored, {})
    assert "by: is wrong" in ended(lambda: jobs.state("fail"))["message"]
    with pytest.raises(NotFoundError, match="none of count, fail"):
        jobs.state("other")
    begun.clear()
    go.clear()
    jobs.start("count", unstored, {})
    begun.wait(30)
    go.set()
    jobs.close()
    assert jobs.state("count")["state"] in ("stopped", "done")


def test_an_empty_memory_has_a_page_until_it_goes_away() -> None:
    with Memory.open("memory:") as memory, client(memory) as page:
        for name in ("overview", "lessons", "policies", "levels", "course"):
            assert page.get(f"/api/{name}").status_code == 200, name
        assert page.get("/api/recall", params={"text": "anything"}).json()["items"] == []
        memory.close()
        answer = page.get("/api/overview")
        assert answer.status_code >= 500
        assert "closed" in answer.json()["error"]["message"]


@pytest.mark.neo4j
def test_a_server_that_goes_away_is_told_in_words(neo4j: Found) -> None:
    place = urlsplit(neo4j.uri)
    settings = Settings(user=neo4j.user, password=neo4j.password, wait=1)
    with Proxy(place.hostname or "", place.port or 7687) as proxy:
        memory = Memory.open(proxy.uri, namespace="gone", settings=settings)
        page = client(memory)
        assert page.get("/api/overview").status_code == 200
    answer = page.get("/api/overview")
    assert answer.status_code == 503
    assert answer.json()["error"]["kind"] == "UnavailableError"
    assert proxy.uri.partition("//")[2] in answer.json()["error"]["message"]
    memory.close()


def test_what_is_wrong_is_said_as_json(page: TestClient) -> None:
    for path, status, said in (
        ("/api/neighbourhood?id=unknown", 404, "no node with the id 'unknown'"),
        ("/api/explain?id=unknown", 404, "unknown"),
        ("/api/neighbourhood", 400, "id: is missing"),
        ("/api/show?id=unknown", 404, "unknown"),
        ("/api/history?id=unknown", 404, "unknown"),
        ("/api/policies?state=no-state", 400, "fingerprint"),
        ("/api/job?name=unknown", 404, "none of calibrate, verify"),
        ("/api/recall", 400, "text: is missing"),
        ("/api/neighbourhood?id=x&limit=many", 404, "no node"),
        ("/api/nothing", 404, "no such address"),
        ("/static/../page.py", 404, "no such address"),
        ("/static/%2e%2e/page.py", 404, "no such address"),
    ):
        answer = page.get(path)
        assert answer.status_code == status, (path, answer.text)
        assert said in answer.json()["error"]["message"], path
        assert "Traceback" not in answer.text
    assert page.post("/api/overview", headers={"Origin": f"http://{HOST}"}).status_code == 405


def test_only_who_has_the_token_gets_an_answer(unstored: Memory) -> None:
    app = build(unstored, TOKEN, {HOST, "localhost:8766"})

    def ask(path: str, **headers: str) -> Any:
        with TestClient(app, base_url=f"http://{HOST}", follow_redirects=False) as fresh:
            return fresh.get(path, headers=headers)

    for path in ("/", "/static/app.js", "/api/overview", "/?token=wrong", "/?token="):
        refused = ask(path)
        assert refused.status_code == 403, path
        assert "graphmem ui" in refused.json()["error"]["message"]
    assert ask("/", Cookie="graphmem-8766=wrong").status_code == 403
    assert ask("/", Cookie="other=1; graphmem-8766").status_code == 403

    opened = ask(f"/?token={TOKEN}")
    assert (opened.status_code, opened.headers["location"]) == (303, "/")
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite" in cookie
    for host in ("evil.example", "evil.example:8766", "127.0.0.1", "127.0.0.1:9", ""):
        assert ask(f"/?token={TOKEN}", Host=host).status_code == 400, host
    assert ask(f"/?token={TOKEN}", Host="LOCALHOST:8766").status_code == 303


def test_a_browser_runs_only_the_scripts_of_the_page(page: TestClient) -> None:
    answer = page.get("/")
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert "<script>" not in answer.text
    assert " style=" not in answer.text
    assert page.get("/api/overview").headers["content-type"] == "application/json"
    for file in STATIC.glob("*.js"):
        if file.name != "cytoscape.min.js":
            text = file.read_text(encoding="utf-8")
            for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
                assert way not in text, f"{file.name} makes markup of texts"
            assert "https://" not in text, f"{file.name} asks another site"


def test_it_listens_on_this_machine_alone_unless_told(unstored: Memory) -> None:
    with pytest.raises(ValidationError, match="other machines"):
        serve(unstored, "0.0.0.0", 0, print)  # noqa: S104
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StorageError, match=f"cannot listen on 127.0.0.1:{port}"):
            serve(unstored, "127.0.0.1", port, print)


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
    found = sorted({*NAMED.findall(inspect.getsource(graphmem.view.page)), "id", "text", "token"})
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
    """Each route is asked, with parameters, headers and bodies of all kinds."""
    ids = populated(unstored)
    before, app = unstored.stats(), build(unstored, TOKEN, {HOST})
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
    assert unstored.stats() == before, "a page without --write changed the memory"


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
