"""A secret that is given in any way is in nothing that comes out: log, error, page, span, file."""

from __future__ import annotations

import contextlib
import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from graphmem import Memory, Settings
from graphmem.errors import GraphMemError
from graphmem.integrations import telemetry
from graphmem.view.page import build
from tests.cli.test_hostile_text import printed
from tests.faults.model_server import Handler, serving
from tests.integrations.test_telemetry import Seen

CANARY = "C4nary-9f3e-Tr0ub4dor"
URLS = (
    f"neo4j://eve:{CANARY}@127.0.0.1:1", f"bolt://eve:{CANARY}@127.0.0.1:1/?x={CANARY}",
    f"neo4j://127.0.0.1:1?password={CANARY}", f"http://eve:{CANARY}@127.0.0.1:1/v1",
    f"what://eve:{CANARY}@@h:{CANARY}/x",
)  # fmt: skip


class Everything(logging.Handler):
    """Every line that any logger writes, at every level."""

    def __init__(self) -> None:
        super().__init__(level=logging.DEBUG)
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("httpx2"):  # the browser of the test
            self.lines.append(self.format(record))


@pytest.fixture
def logged() -> Iterator[list[str]]:
    every, root = Everything(), logging.getLogger()
    before = root.level
    root.addHandler(every)
    root.setLevel(logging.DEBUG)
    try:
        yield every.lines
    finally:
        root.removeHandler(every)
        root.setLevel(before)


@pytest.fixture
def traced() -> Iterator[Callable[[], str]]:
    seen = Seen()

    def told() -> str:
        data = seen.reader.get_metrics_data()
        lines = [span.to_json() for span in seen.spans]
        return "\n".join([*lines, data.to_json() if data else ""])

    providers: Any = {"tracer_provider": seen.tracers, "meter_provider": seen.meters}
    with telemetry.instrument(content=True, **providers):
        yield told


def failed(call: Callable[[], Any]) -> str:
    """All that can be read of an error: its text, form, traceback with causes, and parts."""
    try:
        return repr(call())
    except GraphMemError as error:
        whole = traceback.TracebackException.from_exception(error, capture_locals=False)
        parts = [str(error), repr(error), *whole.format(), repr(error.args), repr(vars(error))]
        with contextlib.suppress(Exception):
            parts.append(repr(pickle.loads(pickle.dumps(error))))  # noqa: S301 - made here
        return "\n".join(parts)


def test_settings_show_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out: list[str] = []
    for url in URLS:
        given: dict[str, Any] = {
            "url": url, "password": CANARY, "model_key": CANARY, "model_base_url": url
        }  # fmt: skip
        out += [
            failed(partial(_of, values))
            for values in (given, {**given, "z": "no"}, {**given, "pasword": CANARY})
        ]
        for name, value in given.items():
            monkeypatch.setenv(f"GRAPHMEM_{name.upper()}", value)
        out += [failed(partial(_of, {})), failed(Memory.open)]
        for name in given:
            monkeypatch.delenv(f"GRAPHMEM_{name.upper()}")
    monkeypatch.chdir(tmp_path)
    for line in (
        *(f'{name} = "{CANARY}"' for name in ("password", "model_key", "pasword", "PASSWORD")),
        *(f'{name} = "{url}"' for name in ("url", "model_base_url") for url in URLS),
        f'password = ["{CANARY}"]', f'[password]\nx = "{CANARY}"', f'password = "{CANARY}',
        f'model_key = """\n{CANARY}', f"password = {CANARY}",
    ):  # fmt: skip
        (tmp_path / "graphmem.toml").write_text(line)
        out += [
            failed(Settings),
            *printed("--debug", "doctor", "settings"),
            *printed("--debug", "list"),
        ]
    (tmp_path / "graphmem.toml").unlink()
    (token := tmp_path / "token").write_text(f"no token {CANARY}")
    out += printed(
        "--debug", "--url", "g", "mcp", "--http", "127.0.0.1:0", "--token-file", str(token)
    )
    assert "must hold one token" in out[-1]
    assert CANARY not in "\n".join(out)


def _of(values: dict[str, Any]) -> list[str]:
    settings = Settings(**values)
    return [str(settings), repr(settings), settings.model_dump_json(), f"{settings.url!r}"]


def test_a_server_and_a_model_are_asked_without_telling_how(
    url: str, logged: list[str], traced: Callable[[], str], tmp_path: Path
) -> None:
    """Password of a server, key of a model; what they answer quotes them."""
    out: list[str] = []
    if not url.startswith("memory"):
        wrong = Settings(password=CANARY, wait=0)
        out.append(failed(lambda: Memory.open(url, settings=wrong).stats()))
    quick: dict[str, Any] = {"wait": 0}
    out += [failed(partial(Memory.open, given, settings=Settings(**quick))) for given in URLS]

    def quoting(handler: Handler) -> None:
        text = json.dumps({"error": f"wrong key {handler.headers['Authorization']}"})
        handler.send(401, text.encode())

    asked: dict[str, Any] = {"password": CANARY, "model_name": "m", "model_key": CANARY}
    with (
        serving(quoting) as server,
        Memory.open(
            str(tmp_path / "memory.graph"), settings=Settings(**asked, model_base_url=server.url)
        ) as memory,
    ):
        for number in range(4):
            memory.learn("refund", "check", success=bool(number % 2), error="PolicyError: no")
        base = server.url.replace("://", f"://eve:{CANARY}@")
        out.append(failed(lambda: Settings(**asked, model_base_url=base)))
        out += _of({**asked, "model_base_url": server.url})
        out.append(failed(lambda: memory.lessons.consolidate(True, force=True)))
        out += [repr(memory), failed(lambda: memory.query("RETURN $password"))]
        for name in ("jsonl", "sentinel"):
            memory.upkeep.export(tmp_path / f"out.{name}", name)
        memory.upkeep.backup(tmp_path / "copy.graph")
        app = build(memory, CANARY, {"127.0.0.1:8766"})
        with TestClient(app, base_url="http://127.0.0.1:8766", follow_redirects=False) as page:
            for path in ("/", "/api/overview", f"/api/x?token={CANARY}x", f"/?token=x{CANARY}"):
                answer = page.get(path, headers={"Authorization": f"Bearer {CANARY}"})
                out += [answer.text, str(answer.headers)]
            opened = page.get(f"/?token={CANARY}")
            assert CANARY in opened.headers["set-cookie"], "so that it is there afterwards"
            for path in ("/", "/api/overview", "/api/neighbourhood?id=x", "/nothing"):
                answer = page.get(path)
                out += [answer.text, str(answer.headers)]
        assert server.requests, "the model was asked"
    assert CANARY not in "\n".join(out)
    assert CANARY not in "\n".join(logged)
    assert CANARY not in traced()
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert CANARY.encode() not in file.read_bytes(), file
