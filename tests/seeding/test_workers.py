"""Seeding by several workers: the same graph and the same report as by one process."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from distributed import LocalCluster
from hypothesis import given, settings

from graphmem import Memory
from graphmem.errors import SeedingError, ValidationError
from graphmem.seeding import SeedReport, Source, seed, sources, workers
from tests.cli.running import good
from tests.conftest import Clock, Opener
from tests.contract.teaching import dump

STATE = {"state": {"at": 1}, "action_type": "go", "action": {"to": 2}, "reward": 0.1}


def line(**fields: Any) -> str:
    return json.dumps({"task": "t", "strategy": "s", "success": True, **fields})


RECORDS = st.one_of(
    st.builds(
        line,
        task=st.sampled_from(("find a flight", "refund a ticket")),
        strategy=st.sampled_from(("ask", ["ask", "search"], ["search", "pay"])),
        agent=st.sampled_from(("ada", "bob")),
        success=st.none(),
        score=st.sampled_from((0.1, 0.2, 0.3, 0.7, 0.9)),
        source_key=st.sampled_from((None, None, "a", "b", "c", "d")),
        error=st.sampled_from((None, "timeout after 30 s", "no such file: /a/b")),
        steps=st.sampled_from(([], [STATE], [{"action": "x" * 60}])),
        ended_at=st.sampled_from((None, "2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z")),
        successes=st.sampled_from(([], ["ask for the id first"])),
    ),
    st.sampled_from((line(), line(success=False), line(success=True, score=0.1), "", "{broken")),
    st.just(line(success=None, source_key="joined")),
)


LINES = [line(strategy=f"s{n % 7}", score=0.1, success=None) for n in range(60)]


def everything(memory: Memory) -> list[str]:
    """Every node and every edge, with all their properties."""
    nodes = memory.query("MATCH (n) WHERE n.ns = $ns RETURN labels(n) AS a, properties(n) AS held")
    edges = memory.query(
        "MATCH (n)-[r]->(m) WHERE n.ns = $ns "
        "RETURN n.id AS a, type(r) AS b, m.id AS c, properties(r) AS held"
    )
    return sorted(json.dumps(row, sort_keys=True) for row in (*nodes, *edges))


def told(report: SeedReport) -> dict[str, Any]:
    return report.model_dump()


@given(
    st.lists(st.lists(RECORDS, max_size=12), min_size=1, max_size=4),
    st.integers(40, 2_000),
    st.integers(1, 3),
    st.integers(1, 9),
)
@settings(max_examples=25)
def test_the_graph_does_not_depend_on_who_reads_the_logs(
    tmp_path_factory: pytest.TempPathFactory,
    clock: Clock,
    logs: list[list[str]],
    bytes_in_a_part: int,
    readers: int,
    batch_size: int,
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    clock.now = 1_780_000_000_000
    for number, log in enumerate(logs):
        (folder / f"{number}.jsonl").write_text("\n".join(log))
    found = []
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(readers) as executor:
        patch.setattr(workers, "RANGE", bytes_in_a_part)
        patch.setattr(workers, "TOGETHER", bytes_in_a_part)
        for who in (None, executor):
            with Memory.open("memory:") as memory:
                report = seed(
                    memory,
                    sources([str(folder)]),
                    format_name="jsonl",
                    outcomes={"joined": 0.6, "nobody": True},
                    batch_size=batch_size,
                    workers=who,
                )
                found.append((told(report), everything(memory)))
                assert memory.verify().ok
                again = seed(memory, sources([str(folder)]), format_name="jsonl", workers=who)
                assert again.created == 0
    assert found[0] == found[1]


def test_processes_give_the_same_graph(
    opened: Opener, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "RANGE", 1_000)
    clock.now = 1_780_000_000_000
    (log := tmp_path / "log.jsonl").write_text("\n".join(LINES))
    memory = opened()
    report = seed(memory, sources([str(log)]), batch_size=7, workers=2)
    assert (report.created, report.refused) == (60, 0)
    assert memory.verify().ok
    with Memory.open("memory:", namespace=memory.namespace) as alone:
        seed(alone, sources([str(log)]), batch_size=7)
        assert dump(memory) == dump(alone)
    assert seed(memory, sources([str(log)]), batch_size=7) == report.model_copy(
        update={"created": 0, "skipped": 60}
    )


def test_a_cluster_gives_the_same_graph(clock: Clock, tmp_path: Path) -> None:
    clock.now = 1_780_000_000_000
    (log := tmp_path / "log.jsonl").write_text("\n".join(LINES))
    found = []
    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL"
        ) as cluster,
        cluster.get_client() as client,
    ):
        for who in (None, client.get_executor()):
            with Memory.open("memory:") as memory:
                report = seed(memory, sources([str(log)]), batch_size=7, workers=who)
                found.append((told(report), everything(memory)))
        url = str(tmp_path / "g")
        address = cluster.scheduler_address
        assert (
            good("--url", url, "--json", "seed", str(log), "--dask", address).json["created"] == 60
        )
        with pytest.raises(SeedingError, match=r"gone\.jsonl"), Memory.open("memory:") as memory:
            seed(memory, [Source(str(tmp_path / "gone.jsonl"))], workers=client.get_executor())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("bytes_in_a_part", "begins"),
    [(2_000, "pass"), (80_000, "time.sleep(600)")],  # with two parts, else the second may be done
)
def test_a_worker_that_dies_is_told_and_seeding_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_in_a_part: int, begins: str
) -> None:
    monkeypatch.setattr(workers, "RANGE", bytes_in_a_part)
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(line(source_key=str(number)) for number in range(2_000)))

    class Killer:
        def start(self, *_: object) -> None: ...
        def finish(self) -> None: ...
        def advance(self, _: int) -> None:
            for child in multiprocessing.active_children():
                os.kill(child.pid or 0, signal.SIGKILL)

    with Memory.open(tmp_path / "g") as memory:
        with monkeypatch.context() as patch:
            begin_workers(tmp_path, patch, begins)
            with pytest.raises(SeedingError, match=r"a worker failed.*log\.jsonl.*seeding again"):
                seed(memory, sources([str(log)]), workers=2, progress=Killer())
        assert 0 < memory.stats().episodes < 2_000
        assert memory.verify().ok
        report = seed(memory, sources([str(log)]), workers=2)
        assert report.created + report.skipped == 2_000
        assert memory.stats().episodes == 2_000


WORKER = """
import os, signal, sys, time
if any("spawn_main" in word for word in sys.orig_argv):
    {}
"""


def begin_workers(folder: Path, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    """Let each worker that starts begin with a statement."""
    (folder / "sitecustomize.py").write_text(WORKER.format(statement))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


@pytest.mark.skipif(os.name == "nt", reason="no process presses Ctrl-C for itself there")
def test_ctrl_c_stops_no_worker_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reaches all processes of a terminal; the one that writes ends the others."""
    begin_workers(tmp_path, monkeypatch, "os.kill(os.getpid(), signal.SIGINT)")
    monkeypatch.setattr(workers, "RANGE", 1_000)  # else no worker is needed
    (log := tmp_path / "log.jsonl").write_text("\n".join(LINES))
    with Memory.open("memory:") as memory:
        assert seed(memory, sources([str(log)]), workers=1).created == 60


KILLED = """
import os, signal, sys
from graphmem import Memory
from graphmem.seeding import seed, sources, workers

class Killer:
    def start(self, *_): ...
    def finish(self): ...
    def advance(self, _):
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    url, log, workers.RANGE = *sys.argv[1:3], int(sys.argv[3])
    with Memory.open(url) as memory:
        seed(memory, sources([log]), workers=2, progress=Killer())
"""


@pytest.mark.skipif(os.name == "nt", reason="nothing is killed so there")
@pytest.mark.parametrize("bytes_in_a_part", [2_000, 8_000_000])
def test_whoever_seeds_and_is_killed_leaves_no_temporary_folder(
    tmp_path: Path, bytes_in_a_part: int
) -> None:
    """The workers remove it; where the log is so short that there are none, there is no folder."""
    (temporary := tmp_path / "temporary").mkdir()
    (program := tmp_path / "killed.py").write_text(KILLED)
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(line(source_key=str(number)) for number in range(500)))
    killed = subprocess.run(
        [sys.executable, program, str(tmp_path / "g"), str(log), str(bytes_in_a_part)],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,  # the workers have it, too: this waits for their end
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert list(temporary.iterdir()) == []
    with Memory.open(tmp_path / "g") as memory:
        assert memory.verify().ok
        assert seed(memory, sources([str(log)])).refused == 0
        assert memory.stats().episodes == 500


def test_what_workers_cannot_read_is_told_as_by_one_process(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(line())
    (other := tmp_path / "b.jsonl").write_text("what is this?")
    with Memory.open("memory:") as memory, ThreadPoolExecutor(1) as executor:
        with pytest.raises(SeedingError, match=r"b\.jsonl: no known format"):
            seed(memory, sources([str(tmp_path / "a.jsonl"), str(other)]), workers=executor)
        assert memory.stats().episodes == 1
        report = seed(memory, sources([str(tmp_path)]), workers=executor)
        assert (report.skipped, report.refused) == (1, 1)
        for wrong in (0, True, "two", 1_001):
            with pytest.raises(ValidationError, match="workers"):
                seed(memory, sources([str(tmp_path)]), workers=wrong)  # type: ignore[arg-type]
        with pytest.raises(ValidationError, match="need a memory"):
            seed(memory.learn_many, sources([str(tmp_path)]), workers=2)
