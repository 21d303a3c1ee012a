"""Fixtures: one Neo4j server for the run, and memories on both engines."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis
import pytest

from graphmem import Memory, Settings
from graphmem.graph.graph import Graph
from graphmem.ids import to_millis
from graphmem.search.embedding import Embedder, MiniLM
from tests.faults.attack import LONG
from tests.neo4j.jars import Neo4jUnavailable
from tests.neo4j.server import Found, prepare, shared

SHARED = Path(__file__).resolve().parents[2] / "shared"


def of_peers(whose: str, what: str) -> Any:
    """Return what a function of a peer answered, where that is on this machine."""
    file = SHARED / "vectors" / "peers.json"
    if not file.exists():
        pytest.skip(f"PEERS SKIPPED: their vectors are not at {file}")
    found = json.loads(file.read_text(encoding="utf-8"))[whose][what]
    assert found
    return found


hypothesis.settings.register_profile(
    "default",
    deadline=None,
    max_examples=30,
    derandomize=True,  # what fails here fails everywhere; `make attack` draws anew each time
    suppress_health_check=[
        hypothesis.HealthCheck.function_scoped_fixture,
        hypothesis.HealthCheck.too_slow,  # as deadline: the machine may be
    ],
)
hypothesis.settings.register_profile(
    "attack", hypothesis.settings.get_profile("default"), max_examples=3_000, derandomize=False
)
hypothesis.settings.load_profile("attack" if LONG else "default")

# Who is started in the background by a shell ignores Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

Opener = Callable[..., Memory]
EVERYTHING = os.environ.get("GRAPHMEM_TEST_ALL") == "1"
"""Whether all cases run on Neo4j, too, and what is slow: `make test-all`."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``GRAPHMEM_TEST_ALL=1`` leave out what is slow, and most cases on Neo4j.

    Each behaviour is tried on Neo4j by the first case of its test, and by all cases on the
    embedded engine. The files of ``tests/unit``, which take least, come last.
    """
    items.sort(key=lambda item: item.path.parent.name == "unit")
    if EVERYTHING:
        return
    first: set[str] = set()
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        function = item.nodeid.partition("[")[0]
        on_server = item.get_closest_marker("neo4j") and not item.get_closest_marker("every_case")
        repeated = on_server and function in first
        if on_server:
            first.add(function)
        (others if repeated or item.get_closest_marker("slow") else chosen).append(item)
    items[:] = chosen
    config.hook.pytest_deselected(items=others)


@pytest.fixture(autouse=True)
def _fewer_examples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Neo4j try the first three of a test's examples: the first one is the simplest."""
    if EVERYTHING or LONG or not request.node.get_closest_marker("neo4j"):
        return
    test = getattr(request.node.obj, "__func__", request.node.obj)
    if hypothesis.is_hypothesis_test(test):
        kept = test._hypothesis_internal_use_settings
        fewer = hypothesis.settings(kept, max_examples=min(kept.max_examples, 3))
        monkeypatch.setattr(test, "_hypothesis_internal_use_settings", fewer)


@pytest.fixture
def everything_runs() -> bool:
    """Whether all cases are asked for."""
    return EVERYTHING


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a person's own settings out of the tests."""
    for name in list(os.environ):
        if name.startswith("GRAPHMEM_") and name not in (
            "GRAPHMEM_ATTACK",
            "GRAPHMEM_TEST_ALL",
            "GRAPHMEM_REQUIRE_NEO4J",
            "GRAPHMEM_REQUIRE_CHROMIUM",
            "GRAPHMEM_REQUIRE_DOCS",
            "GRAPHMEM_NEO4J_CACHE",
        ):
            monkeypatch.delenv(name)
    monkeypatch.delenv("COLUMNS", raising=False)


NOW = datetime(2026, 6, 1, tzinfo=UTC)


class Clock:
    """The clock of every memory: it runs until a test sets it."""

    now: int | None = None
    """Milliseconds since the epoch, or None where it runs."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that memories read; set ``clock.now``."""
    clock, running = Clock(), Graph.now

    def now(graph: Graph) -> int:
        return running(graph) if clock.now is None else clock.now

    monkeypatch.setattr(Graph, "now", now)
    return clock


@pytest.fixture
def still(clock: Clock) -> Clock:
    """The clock, which stands at ``NOW`` until a test moves it."""
    clock.now = to_millis(NOW)
    return clock


@pytest.fixture(scope="session", autouse=True)
def _model() -> MiniLM:
    """The model of the default embedder, loaded once: memories of a process share it."""
    model = MiniLM()
    model.embed(["a text"])
    return model


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all processes of this run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def neo4j(run_folder: Path) -> Iterator[Found]:
    """A real Neo4j server, shared by the whole run, with all indexes.

    No test on it changes the schema: while that changes, a server cannot plan what others ask.
    """
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(shared(run_folder))
        except Neo4jUnavailable as missing:
            reasons = "; ".join(missing.reasons)
            if os.environ.get("GRAPHMEM_REQUIRE_NEO4J") == "1":
                pytest.fail(f"GRAPHMEM_REQUIRE_NEO4J=1, but there is no Neo4j: {reasons}")
            print(f"\nNEO4J HALF SKIPPED: {reasons}", file=sys.__stderr__)
            pytest.skip(f"no Neo4j: {reasons}")
        prepare(found)
        yield found


@pytest.fixture(scope="session")
def procedures_lock(run_folder: Path) -> Path:
    """What to lock for as long as procedures are installed: a server has them once, for all."""
    return run_folder / "procedures.lock"


@pytest.fixture(params=["embedded", pytest.param("neo4j", marks=pytest.mark.neo4j)])
def engine(request: pytest.FixtureRequest) -> str:
    """The engine under test: every behaviour is run on both."""
    return str(request.param)


@pytest.fixture
def settings(engine: str, request: pytest.FixtureRequest) -> Settings:
    """Settings that open the engine under test."""
    if engine == "embedded":
        return Settings(wait=0.2)
    found: Found = request.getfixturevalue("neo4j")
    return Settings(user=found.user, password=found.password)


@pytest.fixture
def url(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the memory under test is."""
    if engine == "embedded":
        return str(tmp_path / "memory.graph")
    found: Found = request.getfixturevalue("neo4j")
    return found.uri


@pytest.fixture
def opened(url: str, settings: Settings) -> Iterator[Opener]:
    """Open memories on the engine under test, by default in a namespace of this test's own."""
    memories: list[Memory] = []
    own = f"test-{uuid4().hex[:12]}"

    def open_memory(
        namespace: str = own, embed_by: Embedder | None = None, **changes: object
    ) -> Memory:
        changed = settings.model_copy(update=changes)
        memory = Memory.open(url, namespace=namespace, settings=changed, embedder=embed_by)
        memories.append(memory)
        return memory

    yield open_memory
    for memory in memories:
        memory.close()


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an embedded engine search few texts as it searches many."""
    from graphmem.store import embedded_search, vectors

    monkeypatch.setattr(vectors, "LEAST", 4)
    monkeypatch.setattr(vectors, "_PAGE", 7)
    monkeypatch.setattr(embedded_search, "_FIRST", 1)
    monkeypatch.setattr(embedded_search, "_MORE", 1)


@pytest.fixture
def memory(opened: Opener) -> Memory:
    """An empty memory on the engine under test."""
    return opened()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Where an embedded memory may be."""
    return str(tmp_path / "memory.graph")


@pytest.fixture
def unstored() -> Iterator[Memory]:
    """An empty memory without disk, for what no engine makes a difference to."""
    with Memory.open("memory:") as memory:
        yield memory


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Other people's logs, where they are there."""
    if not (SHARED / "data").is_dir():
        pytest.skip("the shared logs are not on this machine")
    return SHARED / "data"
