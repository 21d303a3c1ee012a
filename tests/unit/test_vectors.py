"""The file of vectors survives crashes, damage and full disks; the nearest of them are found."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from graphmem.errors import StorageError
from graphmem.store.vectors import Asked, Matrix, Places, Rounded, VectorTable, digest, dots
from tests.faults.test_disk import an_ordinary_user

DIMENSIONS = 8
FILE = "ns.vectors"


def table(folder: Path | None) -> VectorTable:
    return VectorTable(folder, "ns", "one", DIMENSIONS, filing=lambda: nullcontext(True))


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


# The nearest rows are those of the whole product, whatever is left out before it

WIDE = 24


def rows_of(seed: int, count: int, kinds: int) -> Matrix:
    """Return rows of unit length, of so many kinds, with equal ones and nearly equal ones."""
    chance = np.random.default_rng(seed)
    rows = chance.standard_normal((kinds, WIDE))[chance.integers(0, kinds, count)]
    rows += chance.choice([0.0, 1e-7, 1e-4, 0.3], (count, 1)) * chance.standard_normal(rows.shape)
    rows[chance.random(count) < 0.2, 3:] = 0  # words alone: few numbers are not 0
    unit: Matrix = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def plain(
    matrix: Matrix, rows: Places, vector: Matrix, limit: int, at_least: float
) -> list[tuple[float, int]]:
    """Return the same from the whole product, with all that tie with the last."""
    scores = matrix.astype(np.float64) @ vector.astype(np.float64)
    pairs = sorted((-round(float(scores[row]), 6), place) for place, row in enumerate(rows))
    pairs = [pair for pair in pairs if rows[pair[1]] >= 0 and -pair[0] >= at_least]
    return [pair for pair in pairs if pair[0] <= pairs[min(limit, len(pairs)) - 1][0]]


def found(asked: Asked, rows: Places, *given: float) -> list[tuple[float, int]]:
    near = asked.nearest(rows, int(given[0]), *given[1:])
    return sorted((-similarity, place) for place, similarity in near)


@hypothesis.given(
    seed=st.integers(0, 10_000),
    count=st.integers(1, 120),
    kinds=st.integers(1, 12),
    limit=st.integers(1, 130),
    at_least=st.sampled_from([-1.0, 0.0, 0.5, 0.999, 1.0]),
)
@hypothesis.settings(deadline=None)
@pytest.mark.usefixtures("few_are_many")
def test_what_is_found_is_that_of_the_whole_product(
    seed: int, count: int, kinds: int, limit: int, at_least: float
) -> None:
    """Also among some rows, in any order, and after the table has grown."""
    table, chance, rounded = rows_of(seed, count, kinds), np.random.default_rng(seed), Rounded()
    for known in sorted(chance.integers(1, count + 1, 4).tolist()):
        matrix, rows = table[:known], chance.permutation(known)
        some = rows[: chance.integers(1, known + 1)].copy()
        some[chance.random(len(some)) < 0.3] = -1
        vector = matrix[chance.integers(known)] + (chance.standard_normal(WIDE) * 0.1)
        vector = (vector / np.linalg.norm(vector)).astype(np.float32)
        asked = Asked(matrix, vector, rounded)
        for each in (some, rows):
            expected = plain(matrix, each, vector, limit, at_least)
            assert found(asked, each, limit, at_least) == expected


def test_products_in_eight_bits_are_exact() -> None:
    """At the largest numbers as well, which would not fit sixteen bits."""
    rows = np.array([[127] * 1_000, [-127] * 1_000, [127, -127] * 500], np.int8)
    assert dots(rows, rows[0]).tolist() == [16_129_000, -16_129_000, 0]
    assert dots(rows[:0], rows[0]).tolist() == []
