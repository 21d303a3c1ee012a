"""Full disks, damaged files, closed doors: a clear error, and nothing that was learned is lost.

A search on a full disk goes on with vectors in memory; what it cannot store is made later. The disk
is a real one of two megabytes where the tests may mount it, and in any case there is a run with a
limit on the size of each file.
"""

from __future__ import annotations

import itertools
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import kglite
import pytest

from graphmem import Memory, Settings
from graphmem.errors import (
    AuthenticationError,
    NotAMemoryError,
    SchemaVersionError,
    SettingsError,
    StorageError,
    UnavailableError,
)
from graphmem.store import embedded_files
from tests.faults.learner import BATCH, batch, environment, holding, keys, run_program
from tests.neo4j.server import Found

FULL_DISK = """
import resource, signal
from graphmem import Memory
from graphmem.errors import StorageError
from tests.faults.learner import batch

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that writing fails as it does on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, resource.RLIM_INFINITY))
memory = Memory.open()
try:
    for number in range(1_000):
        memory.learn_many(batch(number))
        print("acknowledged", number + 1, flush=True)
except StorageError as error:
    assert "the disk is full" in str(error) and "make room" in str(error), error
    print("StorageError", flush=True)
print("readable", memory.stats().episodes, memory.verify().ok, flush=True)
try:
    memory.learn_many(batch(number))
except StorageError:
    print("StorageError", flush=True)
{ending}
"""


@pytest.mark.parametrize("durability", ["normal", "full"])
@pytest.mark.parametrize(
    "ending", ["memory.close()", "import os; os._exit(0)"], ids=["closed", "left open"]
)
def test_a_full_disk_is_told_and_loses_nothing(folder: str, durability: str, ending: str) -> None:
    surroundings = environment(folder, GRAPHMEM_DURABILITY=durability)
    answer = run_program(FULL_DISK.format(ending=ending), surroundings=surroundings)
    lines = answer.stdout.splitlines()
    acknowledged = sum(line.startswith("acknowledged") for line in lines)
    assert acknowledged >= 1
    assert lines[acknowledged:] == [
        "StorageError",
        f"readable {acknowledged * BATCH} True",  # the batch that failed left nothing
        "StorageError",
    ]
    assert "Traceback" not in answer.stderr

    with Memory.open(folder) as memory:  # now there is room
        assert len(keys(memory)) == acknowledged * BATCH
        assert memory.learn_many(batch(acknowledged)).created == BATCH
        assert memory.verify().ok


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A memory in good order: one graph file."""
    folder = tmp_path / "closed.graph"
    with Memory.open(folder) as memory:
        memory.learn_many(batch(0))
    return folder


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A memory whose writer was killed: what it learned is in the log."""
    folder = tmp_path / "crashed.graph"
    with holding(environment(str(folder)), 3):
        return folder


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda _: b"",
        lambda data: random.Random(1).randbytes(len(data)),
        lambda data: data[:-99] + bytes([data[-99] ^ 0xFF]) + data[-98:],
    ],
    ids=["half", "nothing", "noise", "flipped"],
)
def test_a_damaged_graph_file_is_told_and_left_as_it_is(
    closed: Path, damage: Callable[[bytes], bytes]
) -> None:
    file = closed / "graph.kgl"
    file.write_bytes(damaged := damage(file.read_bytes()))

    with Memory.open(closed) as memory:
        with pytest.raises(StorageError, match="damaged") as caught:
            memory.stats()
        assert str(file) in str(caught.value)
        with pytest.raises(StorageError, match="damaged"):
            memory.learn("a task", "a strategy", success=True)
    assert file.read_bytes() == damaged


def test_the_torn_end_of_a_log_is_what_a_crash_leaves(
    crashed: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A last entry that was being written was never acknowledged: it is passed over in silence."""
    with (crashed / "graph.kgl-wal").open("ab") as log:
        log.write(b"half an entry")

    with Memory.open(crashed) as memory:
        assert (len(keys(memory)), memory.learn_many(batch(3)).created) == (3 * BATCH, BATCH)
        assert memory.verify().ok
    assert capfd.readouterr().err == ""


def test_a_memory_of_a_newer_version_is_refused_with_the_remedy(closed: Path) -> None:
    session = kglite.open_session(str(closed / "graph.kgl"), durable="normal")
    session.execute("MATCH (s:Schema) SET s.version = 99")
    session.close()
    (closed / "graph.kgl-manifest").unlink()  # it is of the file before

    with Memory.open(closed) as memory:
        for call in (memory.stats, lambda: memory.learn("t", "s", success=True)):
            with pytest.raises(SchemaVersionError, match="pip install -U graphmem") as caught:
                call()
            assert "99" in str(caught.value)
            assert not caught.value.retryable


@pytest.mark.parametrize("first", ["read", "write"])
def test_a_memory_of_an_older_version_is_brought_up_to_date(closed: Path, first: str) -> None:
    task, strategy = "task 1", "ask first"
    with Memory.open(closed) as memory:
        expected = memory.predict(task, strategy)
    session = kglite.open_session(str(closed / "graph.kgl"), durable="normal")
    session.execute("MATCH (y:Tally) DETACH DELETE y")
    session.execute("MATCH (t:Task) REMOVE t.successes")
    session.execute("MATCH (h:Heuristic) REMOVE h.odds")
    session.execute("MATCH (p:AntiPattern) REMOVE p.odds, p.successes")
    session.execute("MATCH (s:Schema) SET s.version = 4")
    session.close()
    (closed / "graph.kgl-manifest").unlink()  # it is of the file before

    with Memory.open(closed) as memory:
        if first == "write":
            memory.learn("another task", "another strategy", success=True)
            assert memory.verify().ok
        else:
            assert memory.predict(task, strategy) == expected
            assert memory.recall(task).items
    with Memory.open(closed) as memory:
        assert memory.verify().ok


def test_what_is_no_memory_is_refused_and_left_alone(tmp_path: Path) -> None:
    (file := tmp_path / "notes.txt").write_text("dear diary")
    with pytest.raises(NotAMemoryError, match="is a file"):
        Memory.open(file)
    (folder := tmp_path / "photos").mkdir()
    (folder / "cat.jpg").write_bytes(b"meow")
    with pytest.raises(NotAMemoryError, match="other files"):
        Memory.open(folder)

    assert file.read_text() == "dear diary"
    assert [entry.name for entry in folder.iterdir()] == ["cat.jpg"]


def test_a_folder_below_a_file_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("dear diary")
    with Memory.open(tmp_path / "notes.txt" / "memory.graph") as memory:
        assert memory.stats().episodes == 0  # as in any folder that is not there yet
        with pytest.raises(StorageError, match="cannot create"):
            memory.learn("a task", "a strategy", success=True)


def test_reading_creates_nothing(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.graph") as memory:
        assert (memory.stats().episodes, memory.strategies()) == (0, [])
        assert memory.verify().ok
    assert list(tmp_path.iterdir()) == []


@contextmanager
def an_ordinary_user() -> Iterator[None]:
    """Root may do anything, so give that up for the length of a block."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def foreign(closed: Path) -> Iterator[Path]:
    """A memory that belongs to somebody else, in a folder that all may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "memory.graph"
        shutil.copytree(closed, folder)
        yield folder
        folder.chmod(0o755)


def test_a_folder_without_permission_is_told(foreign: Path) -> None:
    foreign.chmod(0)
    with an_ordinary_user():
        with pytest.raises(StorageError, match=r"(?i)permission"):
            with Memory.open(foreign) as memory:
                memory.stats()


def test_a_folder_that_may_only_be_read_can_be_read(foreign: Path) -> None:
    for file in foreign.iterdir():
        file.chmod(0o444)
    foreign.chmod(0o555)
    with an_ordinary_user():
        with Memory.open(foreign) as memory:
            assert memory.stats().episodes == BATCH
            with pytest.raises(StorageError, match=r"(?i)permission"):
                memory.learn("a task", "a strategy", success=True)
            assert memory.verify().ok
        with pytest.raises(StorageError, match=r"(?i)permission"):
            with Memory.open(foreign.parent / "another.graph") as memory:
                memory.learn("a task", "a strategy", success=True)


def test_a_file_without_permission_is_named(foreign: Path) -> None:
    foreign.chmod(0o777)
    with Memory.open(foreign) as memory:
        memory.learn("a task", "a strategy", success=True)
        names = ("graph.kgl", "graph.kgl-wal", "graph.kgl-manifest")
        assert all((foreign / name).exists() for name in names)
    for name in names:
        kept = (foreign / name).stat().st_mode
        (foreign / name).chmod(0)
        with an_ordinary_user(), Memory.open(foreign) as memory:
            if name != "graph.kgl-wal":  # which is empty
                with pytest.raises(StorageError, match=rf"{name}\b.*(?i:permission)"):
                    memory.stats()
            with pytest.raises(StorageError, match=rf"{foreign}.*(?i:permission)"):
                memory.learn("a task", "another", success=True)
        (foreign / name).chmod(kept)


@pytest.mark.parametrize("target", ["memory.graph", "nowhere"])
def test_a_link_that_leads_nowhere_is_told(tmp_path: Path, target: str) -> None:
    link = tmp_path / "memory.graph"
    link.symlink_to(target)
    with pytest.raises(StorageError, match="is a link that leads nowhere"):
        Memory.open(link)


@pytest.mark.neo4j
def test_a_wrong_password_is_told_without_showing_it(neo4j: Found) -> None:
    with pytest.raises(AuthenticationError, match="GRAPHMEM_PASSWORD") as caught:
        Memory.open(neo4j.uri, settings=Settings(user=neo4j.user, password="no-such-secret"))  # noqa: S106
    assert not caught.value.retryable
    assert "no-such-secret" not in str(caught.value)

    with pytest.raises(AuthenticationError) as caught:
        Memory.open(neo4j.uri.replace("://", "://somebody:no-such-secret@"))
    assert "no-such-secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["neo4j", "bolt"])
def test_a_server_that_is_not_there_is_told_quickly(scheme: str) -> None:
    started = time.monotonic()
    with pytest.raises(UnavailableError, match="is the server running") as caught:
        Memory.open(f"{scheme}://127.0.0.1:1", settings=Settings(password="x"))  # noqa: S106
    assert time.monotonic() - started < 5
    assert caught.value.retryable


@pytest.mark.parametrize(("url", "says"), [
    ("mysql://localhost/runs", "unknown scheme"), ("http://localhost:7474", "unknown scheme"),
    ("", "empty"), ("neo4j://127.0.0.1:1", "GRAPHMEM_PASSWORD"),
    ("bolt://127.0.0.1:1/?policy=x", "Routing context"),
    ("neo4j://127.0.0.1:port", "names no host"),
])  # fmt: skip
def test_an_url_that_can_never_work_is_refused(url: str, says: str) -> None:
    password = None if "PASSWORD" in says else "x"
    with pytest.raises(SettingsError, match=says) as caught:
        Memory.open(url, settings=Settings(password=password))
    assert not caught.value.retryable


def test_a_log_that_has_grown_is_folded_into_the_graph_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_files, "CHECKPOINT_BYTES", 50_000)
    folder = tmp_path / "memory.graph"
    sizes = []
    with Memory.open(folder) as memory:
        for number in range(400):
            memory.learn("t", f"s {number % 9}", success=True, source_key=str(number))
            sizes.append((folder / embedded_files.LOG).stat().st_size)
        assert max(sizes) < 100_000
        assert sum(b < a for a, b in itertools.pairwise(sizes)) >= 2
        assert (memory.stats().episodes, memory.verify().ok) == (400, True)
    with Memory.open(folder) as memory:
        assert (memory.stats().episodes, memory.verify().ok) == (400, True)


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


def test_a_search_goes_on_where_the_disk_is_full(disk: str, folder: str, tmp_path: Path) -> None:
    answer = run(folder, SEARCHING, disk)
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
    with Memory.open(folder, settings=Settings(embedder="hashing")) as memory:
        assert len(memory.recall("task 5 of many").items) == 5
        assert memory.upkeep.pending() == {"Strategy": 0, "Task": 0}
        assert memory.upkeep.relink().embedded == 0  # what was in memory is in the file
        assert memory.verify().ok


def test_closing_is_no_failure_where_only_a_checkpoint_does_not_fit(folder: str) -> None:
    """The log has all that was learned."""
    answer = run(folder, CLOSING)
    assert (answer.stdout.split(), answer.returncode, answer.stderr) == (
        ["True", "everything_is_erased", "closed"],
        0,
        "",
    )
    with Memory.open(folder, settings=Settings(embedder="hashing")) as memory:
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
