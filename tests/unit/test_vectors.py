"""The file of vectors survives crashes and damage: what is lost is only made anew."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from graphmem.store.vectors import Matrix, VectorTable, digest

DIMENSIONS = 8


def table(folder: Path | None, embedder: str = "one", *, writable: bool = True) -> VectorTable:
    return VectorTable(folder, "ns", embedder, DIMENSIONS, writable=writable)


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


def test_what_was_added_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    fill(tmp_path, "a", "b")
    again = table(tmp_path)
    assert held(again, "a", "b", "c") == [True, True, False]
    again.add([digest("c")], vectors("c"))
    assert held(table(tmp_path), "a", "b", "c") == [True, True, True]


def test_it_grows_past_its_room(tmp_path: Path) -> None:
    many = [f"text {number}" for number in range(3000)]
    made = fill(tmp_path, *many)
    made.add([digest("one more")], vectors("one more"))
    assert all(held(table(tmp_path), *many, "one more"))


def test_another_process_reads_and_keeps_what_it_adds_to_itself(tmp_path: Path) -> None:
    fill(tmp_path, "a")
    reader = table(tmp_path, writable=False)
    reader.add([digest("b")], vectors("b"))
    assert held(reader, "a", "b") == [True, True]
    assert held(table(tmp_path), "a", "b") == [True, False]


def test_without_a_folder_it_is_in_memory(tmp_path: Path) -> None:
    made = fill(None, "a", "b")
    made.keep({digest("b")})
    assert held(made, "a", "b") == [False, True]
    assert list(tmp_path.iterdir()) == []


def test_vectors_of_another_embedder_are_not_seen(tmp_path: Path) -> None:
    fill(tmp_path, "a")
    assert held(table(tmp_path, "two"), "a") == [False]


def test_what_is_not_kept_is_gone_from_the_disk(tmp_path: Path) -> None:
    made = fill(tmp_path, "a", "b", "c")
    made.keep({digest("a"), digest("c")})
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert vectors("b")[0].tobytes() not in data
    assert digest("b") not in data
    assert held(made, "a", "b", "c") == held(table(tmp_path), "a", "b", "c") == [True, False, True]


@pytest.mark.parametrize("name", ["ns.keys", "ns.f32"])
def test_a_lost_file_loses_vectors_and_nothing_else(tmp_path: Path, name: str) -> None:
    fill(tmp_path, "a")
    (tmp_path / name).unlink()
    again = table(tmp_path)
    assert held(again, "a") == [False]
    again.add([digest("a")], vectors("a"))
    assert held(table(tmp_path), "a") == [True]


@hypothesis.settings(max_examples=200)
@hypothesis.given(data=st.data())
def test_damage_is_noticed_wherever_it_is(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No vector is ever wrong, whatever bytes were changed or cut off."""
    folder = tmp_path_factory.mktemp("vectors")
    texts = [f"text {number}" for number in range(10)]
    fill(folder, *texts)
    path = folder / data.draw(st.sampled_from(["ns.keys", "ns.f32"]))
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, min(len(content) - 1, 400))) :]
    else:
        place = data.draw(st.integers(0, min(len(content) - 1, 400)))
        content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    again = table(folder)
    before = held(again, *texts)
    missing = [text for text, there in zip(texts, before, strict=True) if not there]
    if missing:
        again.add([digest(text) for text in missing], vectors(*missing))
    assert all(held(again, *texts))
    assert all(held(table(folder), *texts))
