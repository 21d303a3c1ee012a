"""The page's answers, and who gets none: by the application, on both engines."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from graphmem import Episode, Memory, Settings, Step
from graphmem.errors import NotFoundError, StorageError, ValidationError
from graphmem.view.page import STATIC, Given, Jobs, build, serve
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
