"""A log that a killed process left: written into the graph as the engine would, in less time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import kglite
import pytest

from graphmem import Memory, Settings
from graphmem.store import embedded_log
from graphmem.store.embedded_files import ASIDE, GRAPH, LOG
from graphmem.store.embedded_log import UnknownLogError, replay
from graphmem.store.manifest import Mark, scan
from tests.contract.populating import populate
from tests.faults.attack import rounds
from tests.faults.learner import BATCH, batch, environment, episode, keys, learning
from tests.faults.steps import killed

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a log is not read twice there")

SETTINGS = Settings(wait=0.2)


def whole(session: kglite.Session) -> tuple[list[str], list[str]]:
    """Every node and every edge of a graph."""
    nodes = session.cypher("MATCH (n) RETURN labels(n) AS labels, properties(n) AS has").to_list()
    edges = session.cypher(
        "MATCH (a)-[r]->(b) RETURN a.id AS a, type(r) AS type, b.id AS b, properties(r) AS has"
    ).to_list()
    return (
        sorted(repr((row["labels"], sorted(row["has"].items()))) for row in nodes),
        sorted(
            repr((row["a"], row["type"], row["b"], sorted(row["has"].items()))) for row in edges
        ),
    )


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """What a process left that was killed after it changed a memory in every way."""
    folder = tmp_path / "memory.graph"
    with Memory.open(folder) as memory:
        memory.learn_many(batch(0))
    memory = Memory.open(folder)
    populate(memory, "left")
    memory.learn_many(batch(1))
    for number in (3, 30):
        there = memory.query(
            "MATCH (e:Episode {source_key: $key}) RETURN e.id AS id", key=f"run/{number}"
        )
        memory.upkeep.erase(there[0]["id"])
    memory.learn_many([episode(3)])  # what was erased is there again
    memory.upkeep.erase(agent="shared agent", compact=False)
    memory.upkeep.flush()  # which is else done at any moment
    copy = tmp_path / "left"
    shutil.copytree(folder, copy)
    memory.close()
    return copy


def test_a_log_is_written_into_the_graph_as_the_engine_does_it(left: Path, tmp_path: Path) -> None:
    (apart := tmp_path / "apart").mkdir()
    shutil.copy(left / GRAPH, apart)
    session = kglite.open_session(str(apart / GRAPH))
    before = whole(session)
    replay(left / LOG, session)
    after = whole(session)
    replay(left / LOG, session)  # who is killed amid it begins again
    engine = kglite.open_session(str(left / GRAPH), durable="normal")
    assert whole(engine) == after == whole(session) != before
    engine.close()


def test_the_engine_finds_no_log_to_replay(left: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would copy the graph, and look at every node."""
    logged, load = list[int](), kglite.open_session

    def noting(path: str, **options: Any) -> kglite.Session:
        log = Path(f"{path}-wal")
        logged.append(scan(log, Mark()).frames if "durable" in options and log.exists() else 0)
        return load(path, **options)

    monkeypatch.setattr(kglite, "open_session", noting)
    with Memory.open(left) as other, Memory.open(left) as memory:
        assert memory.verify().ok
        assert other.learn("task 1", "ask first", success=True).created
        assert memory.verify().ok
    assert logged
    assert not any(logged)


def test_what_only_the_engine_understands_is_left_to_it(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory.open(left) as memory:
        memory.learn_many(batch(2))
        shutil.copytree(left, left.with_name("again"))
    with Memory.open(left) as memory:
        known = keys(memory)
    monkeypatch.setattr(embedded_log, "HEAD", b"KWAL\xff")
    with pytest.raises(UnknownLogError):
        replay(left.with_name("again") / LOG, kglite.KnowledgeGraph().session())
    with Memory.open(left.with_name("again")) as memory:
        assert keys(memory) == known
        assert memory.learn_many(batch(3)).created == BATCH
        assert memory.verify().ok


KILLED = """
from pathlib import Path
from graphmem import Memory
from graphmem.store import embedded_files, embedded_log, manifest
from tests.faults.learner import episode

load = embedded_files.kglite.open_session
embedded_files.kglite.open_session = steps(steps.sessions(load, "sync"))
embedded_log._Writing._write = steps(embedded_log._Writing._write)
manifest.Manifest.write = steps(manifest.Manifest.write)
Path.replace = steps(Path.replace)
Path.unlink = steps(Path.unlink)
memory = Memory.open()
print("learned", memory.learn_many([episode(40)]).created, flush=True)
"""


def test_a_process_killed_at_any_step_of_it_loses_nothing(tmp_path: Path) -> None:
    """The next one finds the whole log, or what was made of it, and learns on."""
    url = str(tmp_path / "memory.graph")
    with Memory.open(url) as memory:
        memory.learn_many(batch(0))
    with learning(environment(url, "default", SETTINGS), 1, 2, "hold") as learner:
        learner.wait_for("done")
    before = sorted(f"run/{number}" for number in range(2 * BATCH))
    ended, aside = False, 0
    for kill in range(0, 1_000, rounds(19, 1)):
        folder = Path(shutil.copytree(url, tmp_path / str(kill)))
        printed, died = killed(KILLED, kill, folder, SETTINGS)
        aside += (folder / ASIDE).exists()
        with Memory.open(folder, settings=SETTINGS) as memory:
            found = keys(memory)  # a reader
            assert found in (before, sorted([*before, "run/40"]))
            assert "learned" not in printed or "run/40" in found
            memory.learn_many([episode(41)])  # a writer
            assert memory.verify().ok
        with Memory.open(folder, settings=SETTINGS) as memory:
            assert keys(memory) == sorted([*found, "run/41"])
        assert not (folder / ASIDE).exists()
        if "learned" in printed:
            ended = True
            break
        assert died
    assert ended
    assert aside
