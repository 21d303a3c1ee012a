"""Searches and exports on a full disk.

A search goes on with vectors in memory; what it cannot store is made later. A file that does not
fit is named, and nothing is left of it.

The disk is a real one of two megabytes where the tests may mount it, and in any case there is a run
with a limit on the size of each file.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphmem import Memory, Settings
from tests.faults.learner import environment, run_program

SEARCHING = """
import os, resource, signal, sys
from pathlib import Path
from graphmem import Memory
from graphmem.errors import StorageError

how, folder = sys.argv[1], Path(os.environ["GRAPHMEM_URL"])
filler = folder.parent / "filler"
with Memory.open() as memory:
    memory.learn_many(
        {"task": f"task {n} of many", "strategy": f"strategy {n}", "success": True}
        for n in range(120)
    )
memory = Memory.open()
memory.stats()
if how == "mounted":
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
else:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(path.stat().st_size for path in folder.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))

for number in range(3):
    found = memory.recall(f"task {number} of many")
    print("recalled", len(found.items), found.tasks[0].text, flush=True)
    print("similar", len(memory.similar(f"strategy {number}")), flush=True)
print("pending", memory.upkeep.pending(), flush=True)
for number in range(3):
    try:
        memory.learn("one more task", f"of strategies {number}" + 4000 * " .", success=True)
    except StorageError:
        print("StorageError", flush=True)
print("verified", memory.verify().ok, flush=True)

if how == "mounted":
    filler.unlink()
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
memory.learn("one more task", "another strategy", success=True)
print("recalled", bool(memory.recall("one more task").items), flush=True)
print("pending", memory.upkeep.pending(), flush=True)
memory.close()
"""

CLOSING = """
import os, resource, signal
from graphmem import Memory
from graphmem.errors import StorageError
from tests.faults.learner import batch

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Memory.open() as memory:
    memory.learn_many(batch(0))
size = os.stat(os.path.join(os.environ["GRAPHMEM_URL"], "graph.kgl")).st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, resource.RLIM_INFINITY))
with Memory.open() as memory:
    print(memory.learn("a task", "a strategy", success=True).created, flush=True)
    gone = memory.learn("a task", "another", success=True).episode_id
    try:
        memory.upkeep.erase(gone, compact=True)
    except StorageError as error:
        print(str(error).partition(",")[0].replace(" ", "_"), flush=True)
print("closed", flush=True)
"""


@pytest.fixture(params=["mounted", "limited"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """How the disk becomes full; ``tmp_path`` is on it."""
    if request.param == "limited":
        yield "limited"
        return
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path)]
    if not sys.platform.startswith("linux") or subprocess.run(mount, check=False).returncode:
        pytest.skip("needs the right to mount a disk of its own")
    try:
        yield "mounted"
    finally:
        # Lazily, as another process of the tests may just have been started from this one.
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def run(url: str, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    surroundings = environment(url, GRAPHMEM_EMBEDDER="hashing")
    return run_program(script, *arguments, surroundings=surroundings)


def test_a_search_goes_on_where_the_disk_is_full(disk: str, tmp_path: Path) -> None:
    url = str(tmp_path / "memory.graph")
    answer = run(url, SEARCHING, disk)
    assert answer.returncode == 0, answer.stderr
    lines = [line for line in answer.stdout.splitlines() if line != "StorageError"]
    assert lines == [
        line for number in range(3) for line in (f"recalled 5 task {number} of many", "similar 10")
    ] + [
        "pending {'Strategy': 120, 'Task': 120}",
        "verified True",
        "recalled True",
        "pending {'Strategy': 0, 'Task': 0}",
    ]
    told = answer.stderr.splitlines()
    assert len(told) == len({*told}), told  # once each
    if disk == "limited":  # elsewhere nobody gets as far as to write vectors
        assert "vectors are kept in memory" in told[0]

    names = {path.name for path in (tmp_path / "memory.graph").rglob("*")}
    assert not any(name.endswith(".new") for name in names)
    with Memory.open(url, settings=Settings(embedder="hashing")) as memory:
        assert len(memory.recall("task 5 of many").items) == 5
        assert memory.upkeep.pending() == {"Strategy": 0, "Task": 0}
        assert memory.upkeep.relink().embedded == 0  # what was in memory is in the file
        assert memory.verify().ok


def test_closing_is_no_failure_where_only_a_checkpoint_does_not_fit(tmp_path: Path) -> None:
    """The log has all that was learned."""
    url = str(tmp_path / "memory.graph")
    answer = run(url, CLOSING)
    assert (answer.stdout.split(), answer.returncode) == (
        ["True", "everything_is_erased", "closed"],
        0,
    ), answer.stderr
    [told] = answer.stderr.splitlines()
    assert "no room for a new graph file" in told
    with Memory.open(url, settings=Settings(embedder="hashing")) as memory:
        assert [row.text for row in memory.strategies("a task")] == ["a strategy"]
        assert memory.verify().ok


WRITING = """
import resource, sys
from pathlib import Path
from graphmem.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
folder = Path(sys.argv[1])
for command in (
    ("seed", str(folder.parent / "bad.jsonl"), "--refused"),
    ("upkeep", "export", "--format", "jsonl"),
    ("upkeep", "export", "--format", "sentinel"),
    ("upkeep", "export"),
):
    try:
        main([*command, str(folder / command[0])])
    except SystemExit as end:
        print(end.code, [path.name for path in folder.iterdir()])
"""


def test_a_file_that_does_not_fit_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    """What a command writes where it is told to: it is whole, or not there."""
    url, out = str(tmp_path / "memory.graph"), tmp_path / "out"
    bad = '{"task": "t", "strategy": "s", "success": "' + "x" * 300 + '"}\n'
    (tmp_path / "bad.jsonl").write_text(bad * 100)
    with Memory.open(url, settings=Settings(embedder="hashing")) as memory:
        memory.learn("t", "s", success=True, summary=secrets.token_hex(50_000))
    out.mkdir()
    done = run(url, WRITING, str(out))
    assert done.stdout == "1 []\n" * 4, done
    lines = done.stderr.splitlines()
    for line, name in zip(lines, ("seed", "upkeep", "upkeep", "upkeep"), strict=True):
        assert line.startswith("Error: ")
        assert str(out / name) in line
        assert "[Errno" not in line
