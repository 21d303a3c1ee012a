"""A memory goes into a new Neo4j as tables, by Neo4j's own import."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from graphmem import Memory, Settings
from graphmem.errors import StorageError
from graphmem.seeding import seed, sources
from graphmem.upkeep.exchange import AFTER, ARGUMENTS
from tests.cli.running import good
from tests.contract.teaching import dump, tamper
from tests.neo4j.jars import fetch_jars, find_java
from tests.neo4j.server import JVM_OPTIONS, SHORT_LIVED, Neo4jServer, Neo4jUnavailable

LINES = [
    {
        "task": 'a "quoted"\ntask; with\\back, and é',
        "strategy": ["s, 1", ' "x" ', "'y'"],
        "score": 0.1,
        "ended_at": "2026-01-01T00:00:00Z",
        "successes": ["done"],
        "mistakes": ["no"],
        "summary": "one\r\ntwo",
        "extra": {"a": [1, 2.5, None]},
    },
    {
        "task": "t",
        "strategy": "s, 1",
        "success": False,
        "error": "timeout after 30 s",
        "steps": [{"action": {"x": 1}, "state": {"at": 1}, "reward": 0.5, "observation": ""}],
        "mistake_cards": [{"type": "promise", "lesson": "Name no date."}],
    },
]


def imported(home: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Import tables into the new server in ``home``."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    (home / "conf" / "neo4j.conf").touch()
    places = {"NEO4J_HOME": str(home), "NEO4J_CONF": str(home / "conf")}
    tool = ["-cp", f"{fetch_jars()}/*", "org.neo4j.cli.AdminTool", "database", "import", "full"]
    return subprocess.run(
        [str(find_java()), *JVM_OPTIONS, *tool, "neo4j", f"@{ARGUMENTS}"],
        cwd=folder,
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.neo4j
def test_a_seeded_memory_is_imported_as_it_is(tmp_path: Path) -> None:
    try:
        fetch_jars()
        find_java()
    except Neo4jUnavailable as error:
        if os.environ.get("GRAPHMEM_REQUIRE_NEO4J") == "1":
            raise
        pytest.skip(str(error))
    (log := tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    folder, home = tmp_path / "tables", tmp_path / "home"
    with Memory.open(tmp_path / "g") as memory:
        seed(memory, sources([str(log)]))
        memory.scopes.set("ada", can_learn=[])
        report = memory.upkeep.export(folder, "neo4j")
        assert report.nodes > 20 < report.edges
        held = dump(memory)
    done = imported(home, folder)
    assert done.returncode == 0, done.stderr[-2_000:]
    with Neo4jServer(home, compiler=SHORT_LIVED) as server:
        settings = Settings(user=server.user, password=server.password)
        with Memory.open(server.uri, settings=settings) as other:
            for statement in (folder / AFTER).read_text().splitlines():
                tamper(other, statement)
            assert other.verify().ok
            found = dump(other)
            waiting = {key for key in held | found if key.startswith("Pending ")}
            assert found.keys() == held.keys()
            assert {k: v for k, v in found.items() if k not in waiting} == {
                k: v for k, v in held.items() if k not in waiting
            }
            assert other.recall("a quoted task").items
            assert seed(other, sources([str(log)])).skipped == 2


def test_tables_go_into_a_new_folder(tmp_path: Path) -> None:
    url = str(tmp_path / "g")
    with Memory.open(url) as memory:
        memory.learn_many([{"task": "t", "strategy": "s", "success": True}])
        (full := tmp_path / "full").mkdir()
        (full / "a.csv").touch()
        with pytest.raises(StorageError, match="is not an empty folder"):
            memory.upkeep.export(full, "neo4j")
        with pytest.raises(StorageError, match="there is no folder"):
            memory.upkeep.export(tmp_path / "not" / "there", "neo4j")
        assert [file.name for file in full.iterdir()] == ["a.csv"]
    told = good("--url", url, "upkeep", "export", "--format", "neo4j", str(tmp_path / "new")).out
    assert "@import.args" in told
    assert not list(tmp_path.glob(".*"))
