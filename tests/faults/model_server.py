"""A real HTTP server that answers as a model does: well, late, wrongly, or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers each request with the next of the server's answers; the last one stays."""

    server: ModelServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        server.requests.append(
            {"path": self.path, "headers": dict(self.headers), "body": json.loads(body)}
        )
        place = min(len(server.requests), len(server.answers)) - 1
        server.answers[place](self)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class ModelServer(ThreadingHTTPServer):
    """Listens on the loopback alone; ``requests`` are those that came."""

    daemon_threads = True

    def __init__(self, answers: list[Answer]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = answers
        self.requests: list[dict[str, Any]] = []
        self.gone = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, *_: object) -> None:
        """A client that went away is what some tests want."""


@contextmanager
def serving(*answers: Answer) -> Iterator[ModelServer]:
    server = ModelServer(list(answers))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.gone.set()
        server.shutdown()
        server.server_close()
        thread.join()


def saying(content: str) -> Answer:
    held = {"choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]}
    return body(json.dumps(held).encode())


def rules(*found: dict[str, Any]) -> Answer:
    return saying(json.dumps({"rules": found}))


def body(content: bytes) -> Answer:
    return lambda handler: handler.send(200, content, Content_Type="application/json")


def status(code: int, **headers: str) -> Answer:
    """The endpoint fails, and says in its text what it was sent, as some do."""

    def answer(handler: Handler) -> None:
        said = json.dumps({"error": f"not with {handler.headers.get('Authorization')}"})
        handler.send(code, said.encode(), **headers)

    return answer


def late(handler: Handler) -> None:
    """The endpoint takes longer than anybody waits."""
    handler.server.gone.wait(30)


def hanging_up(handler: Handler) -> None:
    """The endpoint closes the connection without an answer."""
    handler.close_connection = True
    handler.connection.close()
