"""The page: the questions that it asks, who may ask, how it answers, and serving it."""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import uvicorn
from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphmem.addresses import bracketed, hosts_of, is_loopback, listening
from graphmem.errors import GraphMemError, NotFoundError, SettingsError, ValidationError
from graphmem.graph.arguments import Progress
from graphmem.ids import canonical_json, fingerprint, strategy_id, task_id
from graphmem.memory import Memory
from graphmem.printable import listed

Given = Mapping[str, str]  # the named texts of a request
Question = Callable[[Memory, Given], dict[str, Any]]
LongQuestion = Callable[[Memory, Given, Progress], dict[str, Any]]
MOST = 200  # most nodes of a picture, and most rows of a table
FIRST = 25  # strategies on the first view
_EDGES = MOST - 1  # edges around a node; each can bring one more node


def recall(memory: Memory, given: Given) -> dict[str, Any]:
    """Return what an agent gets when it asks for a task."""
    text = _needed(given, "text")
    found = memory.recall(text, limit=10, agent=given.get("agent")).model_dump()
    _name_alternatives(memory, found["warnings"])
    return found


def explain(memory: Memory, given: Given) -> dict[str, Any]:
    """Return the evidence for a belief."""
    explained = memory.explain(
        _needed(given, "id"), agent=given.get("agent"), task=given.get("task")
    )
    answer = explained.model_dump()
    _name_alternatives(memory, [answer])
    for row in answer["by_task"]["rows"]:
        row["id"] = task_id(memory.namespace, row["name"])
    for row, change in zip(answer["changes"], explained.changes, strict=True):
        row["said"] = change.sentence
    expected, strategy = explained.expected, None
    if explained.kind in ("strategy", "heuristic"):
        strategy = strategy_id(memory.namespace, explained.text)
    because = [] if expected is None else expected.basis.lines
    return {**answer, "because": because, "strategy": strategy}


def show(memory: Memory, given: Given) -> dict[str, Any]:
    """Return anything that has an id; with a task its latest episodes and what works there."""
    item = memory.show(_needed(given, "id"))
    if item.kind != "task":
        return dict(item)
    more = {"episodes": memory.episodes(item.id), "strategies": memory.strategies(item.id)}
    return {**dict(item), **more}


def uses(memory: Memory, given: Given) -> dict[str, Any]:
    """Return the counts and bounds of a strategy in the order in which it was learned."""
    asked = {name: given[name] for name in ("agent", "task_type") if name in given}
    [found] = memory.query("course.uses", id=_needed(given, "id"), **asked)
    return {"points": memory.query("explaining.course", **found) if found["times"] else []}


def neighbourhood(memory: Memory, given: Given) -> dict[str, Any]:
    """Return a node and what is around it, by at most ``limit`` edges, most trials first."""
    identity = _needed(given, "id")
    nodes = memory.query("neighbourhood.nodes", ids=[identity])
    if not nodes:
        raise NotFoundError(f"there is no node with the id {identity!r}")
    limit = given.get("limit", str(_EDGES))
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= _EDGES):
        raise ValidationError("limit", limit, f"is no number from 1 to {_EDGES}")
    most = int(limit)
    kind = nodes[0]["kind"].replace("-", "_")
    found = memory.query(f"neighbourhood.{kind}_edges", ids=[identity], limit=most + 1)
    more, edges = len(found) > most, found[:most]
    others = {end for edge in edges for end in (edge["source"], edge["target"])} - {identity}
    if others:
        nodes += memory.query("neighbourhood.nodes", ids=sorted(others))
    known = {node["id"] for node in nodes}
    return {
        "id": identity,
        "nodes": nodes,
        "edges": [edge for edge in edges if {edge["source"], edge["target"]} <= known],
        "more": more,
    }


def lessons(memory: Memory, given: Given) -> dict[str, Any]:
    """Return heuristics, anti-patterns, rules and mistakes, and how many there are."""
    agent, task_type = given.get("agent"), given.get("task_type")

    def part(rows: Sequence[BaseModel]) -> dict[str, Any]:
        return {"count": len(rows), "rows": [row.model_dump() for row in rows[:MOST]]}

    answer = {
        "heuristics": part(memory.lessons.heuristics(task_type, agent)),
        "anti_patterns": part(memory.lessons.anti_patterns(task_type, agent)),
        "rules": part(memory.lessons.rules(agent=agent)),
        "mistakes": part(memory.lessons.mistakes(agent=agent)),
    }
    _name_alternatives(memory, answer["anti_patterns"]["rows"])
    return answer


def _name_alternatives(memory: Memory, rows: Sequence[dict[str, Any]]) -> None:
    """Give the alternative of each row its id, by which the page links to it."""
    for row in rows:
        if better := row["better_alternative"]:
            better["id"] = strategy_id(memory.namespace, better["strategy"])


def policies(memory: Memory, given: Given) -> dict[str, Any]:
    """Return the policies of a state and where they led, else the best states."""
    agent = given.get("agent")
    leading: list[dict[str, Any]] = []
    if state := given.get("state"):
        found = memory.policies.list(state, agent=agent)[:MOST]
        features = next((policy.features for policy in found if policy.features is not None), None)
        states: list[JsonValue] = [state] if features is None else [state, canonical_json(features)]
        ids: list[JsonValue] = [policy.id for policy in found]
        leading = [*memory.query("states.next", ids=ids, states=states, limit=MOST)]
    else:
        found = memory.policies.list(agent=agent, limit=MOST)
    for row in leading:
        if row["state"] is None and row["features"]:  # as a step says of its next state
            features = row["features"]
            row["state"] = (
                fingerprint(json.loads(features)) if features.startswith("{") else features
            )
    return {"policies": found, "next": leading}


def verify(memory: Memory, _: Given, progress: Progress) -> dict[str, Any]:
    """Derive every number again and compare."""
    report = memory.verify(on_progress=progress)
    return {
        **dict(report),
        "differences": report.differences[:MOST],
        "count": len(report.differences) + report.more,
        "said": listed(report.checked),
    }


def _needed(given: Given, name: str) -> str:
    value = given.get(name, "")
    if not value.strip():
        raise ValidationError(name, value, "is missing", f"add {name}= to the address")
    return value


def _history(memory: Memory, given: Given) -> dict[str, Any]:
    points = memory.policies.history(_needed(given, "id"))
    return {"points": points[-MOST:], "count": len(points)}


READS: dict[str, Question] = {
    "overview": lambda memory, given: {
        "strategies": memory.strategies(task_type=given.get("task_type"), limit=FIRST)
    },
    "stats": lambda memory, _: {"stats": memory.stats()},
    "agents": lambda memory, _: {
        "agents": [row["agent"] for row in memory.query("analysis.agents")]
    },
    "recall": recall,
    "explain": explain,
    "uses": uses,
    "history": _history,
    "neighbourhood": neighbourhood,
    "show": show,
    "lessons": lessons,
    "policies": policies,
    "levels": lambda memory, given: dict(memory.levels.map(given.get("agent"))),
    "course": lambda memory, _: {"parts": memory.query("course.parts")},
}
"""The questions of the page. ``overview`` is the first view, which waits for no other."""
LONG_READS: dict[str, LongQuestion] = {
    "calibrate": lambda memory, _, progress: dict(memory.calibrate(on_progress=progress)),
    "verify": verify,
}
"""Slow questions, which a button asks."""
WRITES: dict[str, Question] = {
    "erase": lambda memory, given: dict(memory.upkeep.erase(_needed(given, "id")))
}
LONG_WRITES: dict[str, LongQuestion] = {
    "rebuild": lambda memory, _, progress: dict(memory.upkeep.rebuild(on_progress=progress))
}
"""What takes long, and changes the memory."""


STATIC = Path(__file__).parent / "static"
COOKIE = "graphmem"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STATUS: tuple[tuple[type[GraphMemError], int], ...] = (
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (ValidationError, HTTPStatus.BAD_REQUEST),
    (SettingsError, HTTPStatus.CONFLICT),
    (GraphMemError, HTTPStatus.INTERNAL_SERVER_ERROR),
)
Endpoint = Callable[[Request], Response]
_log = logging.getLogger(__name__)


def build(memory: Memory, token: str, hosts: Collection[str], *, write: bool = False) -> ASGIApp:
    """Return the application.

    The first request must bring the token in its address; a cookie has it from then on. Only under
    the given hosts (``127.0.0.1:8766``) may the page be asked, so that no other site can ask it
    under a name of its own. With ``write`` it offers what changes the memory.
    """
    jobs = Jobs({**LONG_READS, **(LONG_WRITES if write else {})})

    def endpoint(question: Question) -> Endpoint:
        """Return the endpoint of a question; it runs in a thread."""

        def ask(request: Request) -> Response:
            given = {name: value for name, value in request.query_params.items() if value}
            try:
                answer = question(memory, given)
            except GraphMemError as error:
                status = next(code for kind, code in _STATUS if isinstance(error, kind))
                status = HTTPStatus.SERVICE_UNAVAILABLE if error.retryable else status
                return error_response(status, type(error).__name__, str(error))
            more = {"snapshot_age": memory.store.snapshot_age, "write": write}
            return JSONResponse(to_jsonable_python({**answer, **more}))

        return ask

    gets = {name: endpoint(question) for name, question in READS.items()}
    gets["job"] = endpoint(lambda _, given: jobs.state(given.get("name", "")))
    writing = (*WRITES, *LONG_WRITES)
    posts: dict[str, Endpoint] = dict.fromkeys(writing, _read_only)
    posts |= {name: endpoint(question) for name, question in WRITES.items() if write}
    posts |= {name: endpoint(partial(jobs.start, name)) for name in jobs.kinds}
    posts["stop"] = endpoint(lambda _, given: jobs.stop(given.get("name", "")))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await anyio.to_thread.run_sync(jobs.close)

    app = Starlette(
        routes=[
            Route("/", lambda _: FileResponse(STATIC / "index.html")),
            *(Route(f"/api/{name}", end) for name, end in gets.items()),
            *(Route(f"/api/{name}", end, methods=["POST"]) for name, end in posts.items()),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        exception_handlers={HTTPException: _no_such, Exception: _broken},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return Guarded(app, token, hosts)


def _read_only(_: Request) -> Response:
    return error_response(
        HTTPStatus.FORBIDDEN, "ReadOnly", "this page only reads; start it with graphmem ui --write"
    )


def error_response(status: int, kind: str, message: str) -> Response:
    """Return an error as JSON."""
    return JSONResponse({"error": {"kind": kind, "message": message}}, status)


def _no_such(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - it handles no others
    message = f"{error.detail}; this page has no such address"
    return error_response(error.status_code, "Refused", message)


def _broken(_: Request, error: Exception) -> Response:
    _log.error("an answer failed", exc_info=error)
    return error_response(
        500, "InternalError", "the answer failed; the terminal of the server says why"
    )


class Guarded:
    """Lets requests through that come by a known name, with the token, and from the page itself."""

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str]) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        answer: ASGIApp = self._refusal(scope) or self._app
        await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a refused request, and to the one that brings the token."""
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            return error_response(
                HTTPStatus.BAD_REQUEST, "WrongHost", "this page is not served under this name"
            )
        given = QueryParams(scope["query_string"]).get("token")
        name = f"{COOKIE}-{host.rpartition(':')[2]}"
        if given is not None and self._is_token(given):
            response = RedirectResponse("/", HTTPStatus.SEE_OTHER)
            response.set_cookie(name, given, path="/", httponly=True, samesite="lax")
            return response
        kept = cookie_parser(headers.get("cookie", "")).get(name, "")
        if given is not None or not self._is_token(kept):
            return error_response(
                HTTPStatus.FORBIDDEN,
                "WrongToken",
                "open the whole address that graphmem ui printed: it has a token, which is new "
                "each time",
            )
        origin = headers.get("origin")
        if scope["method"] not in ("GET", "HEAD") and origin != f"http://{host}":
            return error_response(
                HTTPStatus.FORBIDDEN, "WrongOrigin", "only the page itself may ask this"
            )
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)


_PATIENCE = 5  # seconds in which a job has to end when the page ends


class _StoppedError(Exception):
    """The job is not wanted any more."""


class Jobs:
    """Runs each kind of job once at a time, in a thread of its own."""

    def __init__(self, kinds: Mapping[str, LongQuestion]) -> None:
        self.kinds = kinds
        self._jobs: dict[str, _Job] = {}
        self._lock = threading.Lock()

    def start(self, name: str, memory: Memory, given: Given) -> dict[str, Any]:
        """Begin a job, unless it runs already; return its state."""
        with self._lock:
            if self.state(name)["state"] != "running":
                self._jobs[name] = _Job(partial(self.kinds[name], memory, given))
        return self.state(name)

    def state(self, name: str) -> dict[str, Any]:
        """Return the progress of a job, and its answer once it has ended.

        Raises:
            NotFoundError: there is no such job.
        """
        if name not in self.kinds:
            raise NotFoundError(f"{name[:100]!r} is none of {', '.join(self.kinds)}")
        return self._jobs[name].state if name in self._jobs else {"state": "idle"}

    def stop(self, name: str) -> dict[str, Any]:
        """Have a job end soon; return its state."""
        if name in self._jobs:
            self._jobs[name].unwanted.set()
        return self.state(name)

    def close(self) -> None:
        """Stop all jobs, and wait for them a while."""
        for job in self._jobs.values():
            job.unwanted.set()
        for job in self._jobs.values():
            job.join(_PATIENCE)


class _Job(threading.Thread):
    def __init__(self, work: Callable[[Callable[[int, int], None]], dict[str, Any]]) -> None:
        super().__init__(daemon=True)
        self.state: dict[str, Any] = {"state": "running", "done": 0, "total": 0}
        self.unwanted = threading.Event()
        self._work = work
        self.start()

    def run(self) -> None:
        end: dict[str, Any] = {
            "state": "failed",
            "message": "it failed; the terminal of the server says why",
        }
        try:
            end = {"state": "done", "answer": self._work(self._report)}
        except _StoppedError:
            end = {"state": "stopped"}
        except GraphMemError as error:
            end["message"] = str(error)
        finally:
            self.state = {**self.state, **end}

    def _report(self, done: int, total: int) -> None:
        self.state = {**self.state, "done": done, "total": total}
        if self.unwanted.is_set():
            raise _StoppedError


_GRACE = 2  # seconds that an ending server waits for its answers


def serve(
    memory: Memory,
    host: str,
    port: int,
    tell: Callable[[str], object],
    *,
    write: bool = False,
    anyone: bool = False,
) -> None:
    """Serve the page until the process is stopped; ``tell`` gets its address when it can be opened.

    Port 0 takes a free one. ``anyone`` says that other machines may reach the address.

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
