"""The file of vectors survives crashes, damage and full disks: what is lost is only made anew."""

from __future__ import annotations

import contextlib
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from graphmem.errors import StorageError
from graphmem.store.vectors import KEY, Matrix, VectorTable, digest
from tests.faults.test_disk import an_ordinary_user

DIMENSIONS = 8
FILE = "ns.vectors"
RECORD = KEY + 4 * DIMENSIONS + 4


def table(folder: Path | None, embedder: str = "one", *, writable: bool = True) -> VectorTable:
    def filing() -> contextlib.AbstractContextManager[bool]:
        return contextlib.nullcontext(writable)

    return VectorTable(folder, "ns", embedder, DIMENSIONS, filing=filing)


def vectors(*texts: str) -> Matrix:
    rows = [np.frombuffer(digest(text)[:DIMENSIONS], np.uint8) for text in texts]
    return np.stack(rows).astype(np.float32)


def fill(folder: Path | None, *texts: str) -> VectorTable:
    made = table(folder)
    made.add([digest(text) for text in texts], vectors(*texts))
    return made


def held(made: VectorTable, *texts: str) -> list[bool]:
    """Whether each text has its own vector."""
    found = []
    for text in texts:
        row = made.row(digest(text))
        found.append(row >= 0)
        if row >= 0:
            assert (made.matrix[row] == vectors(text)[0]).all()
    return found


@hypothesis.given(data=st.data())
def test_damage_is_noticed_wherever_it_is(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No vector is ever wrong, whatever bytes were changed, cut off, moved or added."""
    folder = tmp_path_factory.mktemp("vectors")
    texts = [f"text {number}" for number in range(10)]
    fill(folder, *texts)
    path = folder / FILE
    for _ in range(data.draw(st.integers(1, 3))):
        content = bytearray(path.read_bytes())
        place, other = (data.draw(st.integers(0, len(content))) for _ in range(2))
        how = data.draw(st.sampled_from(["cut", "flip", "double", "move", "empty"]))
        if how == "cut":
            del content[place:]
        elif how == "flip" and place < len(content):
            content[place] ^= data.draw(st.integers(1, 255))
        elif how == "double":
            content[place:place] = content[min(place, other) :]
        elif how == "move":
            content = content[other:] + content[:other]
        elif how == "empty":
            content[min(place, other) : place] = bytes(place - min(place, other))
        path.write_bytes(content)
    again = table(folder)
    before = held(again, *texts)
    missing = [text for text, there in zip(texts, before, strict=True) if not there]
    if missing:
        again.add([digest(text) for text in missing], vectors(*missing))
    assert all(held(again, *texts))
    assert all(held(table(folder), *texts))


@contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """Let no file grow over so many bytes: writing more fails, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_what_is_not_kept_goes_from_a_full_disk_too(tmp_path: Path) -> None:
    """Without room for a new file the old one goes, and with it what can be made again."""
    made = fill(tmp_path, *"abcd")
    with full_disk(100):
        made.keep({digest("a"), digest("c")})
        assert list(tmp_path.iterdir()) == []
    assert held(made, *"abcd") == [True, False, True, False]
    made.add([digest("e")], vectors("e"))
    assert held(table(tmp_path), *"abcde") == [True, False, True, False, True]


def test_a_file_that_cannot_be_read_or_written_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path, "b")
    (tmp_path / FILE).chmod(0)
    tmp_path.chmod(0o500)
    with an_ordinary_user():
        made = fill(tmp_path, "a")
        assert held(made, "a") == [True]
        [told] = [record.getMessage() for record in caplog.records]
        assert told.startswith("cannot read")
        with pytest.raises(StorageError, match="cannot remove vectors of removed texts"):
            made.keep(set())
    tmp_path.chmod(0o700)
