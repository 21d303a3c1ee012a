"""Files that a person names: replaced whole, while devices and pipes are written to."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from graphmem import Memory
from graphmem.errors import StorageError, ValidationError
from graphmem.files import writing


def reading(fifo: Path, into: list[bytes]) -> threading.Thread:
    """Read a pipe to its end in a thread."""
    thread = threading.Thread(target=lambda: into.append(fifo.read_bytes()), daemon=True)
    thread.start()
    return thread


def half_written(path: Path, error: Exception) -> None:
    with writing(path) as file:
        file.write(b"half")
        raise error


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(pipe := tmp_path / "pipe.png")
    return pipe


@pytest.mark.parametrize("format_name", ["jsonl", "sentinel"])
def test_an_export_goes_into_a_pipe(fifo: Path, format_name: str) -> None:
    """A person's pipe stays a pipe, and who reads it gets the whole file."""
    with Memory.open("memory:") as memory:
        memory.learn("look", "map", success=True)
        memory.upkeep.export(beside := fifo.with_name("file"), format_name)  # type: ignore[arg-type]
        got: list[bytes] = []
        thread = reading(fifo, got)
        memory.upkeep.export(fifo, format_name)  # type: ignore[arg-type]
        thread.join(20)
    assert got == [beside.read_bytes()]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    """A copy of /dev/null and a link to it: the true one is never at risk."""
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        device.write_bytes(b"")
    except OSError as error:
        pytest.skip(f"no devices can be made here: {error}")
    (link := tmp_path / "link").symlink_to(device)
    with Memory.open("memory:") as memory:
        memory.learn("look", "map", success=True)
        for path in (device, link):
            assert memory.upkeep.export(path, "jsonl").episodes == 1
    assert stat.S_ISCHR(device.stat().st_mode)
    assert link.is_symlink()
    assert sorted(found.name for found in tmp_path.iterdir()) == ["link", "null"]


def test_nothing_goes_into_a_pipe_where_the_writing_fails(fifo: Path) -> None:
    with pytest.raises(KeyError):
        half_written(fifo, KeyError())
    opened = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert os.read(opened, 10) == b""
    finally:
        os.close(opened)


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    (file := tmp_path / "file").write_bytes(b"before")
    file.chmod(0o640)
    (link := tmp_path / "link").symlink_to("file")
    with pytest.raises(StorageError, match="nothing was written"):
        half_written(link, OSError(errno.EIO, "broken"))
    assert file.read_bytes() == b"before"
    with writing(link) as new:
        new.write(b"after")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"after", 0o640)
    assert sorted(found.name for found in tmp_path.iterdir()) == ["file", "link"]


@pytest.mark.parametrize("name", ["", "none/file", "a\0b", "."])
def test_what_is_no_file_is_told(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError), writing(name):
        pass
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, sys
from pathlib import Path
from graphmem import Memory

def die(frame, event, called):
    if event == "call" and frame.f_code.co_name == sys.argv[1]:
        os._exit(9)

with Memory.open("memory:") as memory:
    memory.learn("look", "map", success=True)
    sys.setprofile(die)
    if sys.argv[2] == "backup":
        memory.upkeep.backup("copy")
    else:
        memory.upkeep.export("copy", sys.argv[2])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="nobody can tell there who is alive")
@pytest.mark.parametrize(
    ("step", "what"), [("record", "jsonl"), ("end", "neo4j"), ("print_of", "backup")]
)
def test_what_a_killed_process_left_goes_with_the_next(
    tmp_path: Path, step: str, what: str
) -> None:
    def write() -> None:
        if what == "backup":
            memory.upkeep.backup(target)
        else:
            memory.upkeep.export(target, what)  # type: ignore[arg-type]

    target = tmp_path / "copy"
    killed = [sys.executable, "-c", KILLED, step, what]
    for _ in range(2):
        assert subprocess.run(killed, cwd=tmp_path, check=False).returncode == 9
        assert len(list(tmp_path.iterdir())) == 1
    (other := tmp_path / ".copy.v2.part").touch()
    with Memory.open("memory:") as memory:
        memory.learn("look", "map", success=True)
        write()
    assert set(tmp_path.iterdir()) == {target, other}


def test_what_another_process_writes_stays(tmp_path: Path) -> None:
    target = tmp_path / "copy"
    with writing(target) as first:
        first.write(b"first")
        with writing(target) as second:
            second.write(b"second")
        assert target.read_bytes() == b"second"
    assert target.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [target]


def test_an_export_onto_the_files_of_the_memory_is_refused(tmp_path: Path) -> None:
    (link := tmp_path / "link").symlink_to(tmp_path / "memory")
    with Memory.open(tmp_path / "memory") as memory:
        memory.learn("look", "map", success=True)
        for path in (tmp_path / "memory" / "graph.kgl", link / "new.jsonl", tmp_path / "memory"):
            with pytest.raises(ValidationError, match="the memory's own folder"):
                memory.upkeep.export(path, "jsonl")
        assert memory.verify().ok
