"""Vectors of texts: what they are worth, that only the text decides, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from graphmem.errors import GraphMemError, NotFoundError, StorageError, ValidationError
from graphmem.search import embedding
from graphmem.search.embedding import (
    Embedder,
    Thresholds,
    base,
    checked,
    measured,
    minilm,
    open_embedder,
    wordllama,
)
from tests.faults.learner import run_program

NAMES = ("minilm", "hashing", *(() if wordllama.missing() else ("wordllama",)))
PAIRS = Path(__file__).parents[1] / "data" / "paraphrases.jsonl"
TEXTS = st.lists(st.text(max_size=60) | st.integers(0, 300).map("word ".__mul__), max_size=6)


@cache
def opened(name: str) -> Embedder:
    return open_embedder(name)


@cache
def pairs() -> tuple[list[str], list[str]]:
    """Texts of many subjects and their paraphrases, which share few words with them."""
    lines = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    return [line["a"] for line in lines], [line["b"] for line in lines]


def first_hits(cosines: np.ndarray) -> float:
    """How often the second text of a pair is the nearest one to its first."""
    return float(np.mean(cosines.argmax(axis=1) == np.arange(len(cosines))))


@pytest.fixture(params=NAMES)
def embedder(request: pytest.FixtureRequest) -> Embedder:
    return opened(request.param)


@hypothesis.settings(max_examples=12)
@hypothesis.given(texts=TEXTS)
def test_rows_are_of_unit_length_and_depend_on_their_text_alone(
    embedder: Embedder, texts: list[str]
) -> None:
    rows = embedder.embed(texts)
    assert rows.shape == (len(texts), embedder.dimensions)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    for row, text in zip(rows, texts, strict=True):
        assert np.abs(row - embedder.embed([text])[0]).max() <= 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_embedding_tells_nobody_and_leaves_no_file(name: str, tmp_path: Path) -> None:
    """onnxruntime keeps what it would tell Microsoft in the home and the temporary folder.

    Another process gives the same vectors.
    """
    own = {key: value for key, value in os.environ.items() if key[:4] not in ("XDG_", "ORT_")}
    code = (
        "import os; from graphmem.search.embedding import open_embedder; "
        f"print(open_embedder({name!r}).embed(['refund a flight']).tolist()); "
        "print(len(os.listdir('/proc/self/task')) if os.path.exists('/proc') else 1)"
    )
    own |= {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "OPENBLAS_NUM_THREADS": "1"}
    done = run_program(code, surroundings=own | {"PYTHONHASHSEED": "7"})
    assert done.stderr == ""
    assert list(tmp_path.rglob("*")) == []
    theirs, threads = done.stdout.splitlines()
    assert threads == "1", "no other thread could send anything"
    vectors = np.array(json.loads(theirs), np.float32)
    assert np.abs(vectors - opened(name).embed(["refund a flight"])).max() <= 1e-6


def test_a_forked_child_can_embed() -> None:
    wanted = opened("minilm").embed(["refund a flight"])
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(opened("minilm").embed(["refund a flight"]), wanted) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_of_a_long_text_the_beginning_and_the_end_are_read(embedder: Embedder) -> None:
    """Prompts often share a long beginning, and end in different questions."""
    much = "refund " * 3_000
    texts = [f"{much}{word} {much}" for word in ("apples", "pears")]
    one, other, *asked = embedder.embed([*texts, f"{much}apples", f"{much}pears"])
    assert np.array_equal(one, other)
    assert not np.array_equal(*asked)


@pytest.mark.parametrize("text", ["half \ud83d", None, b"bytes"])
def test_what_is_no_text_is_refused(embedder: Embedder, text: Any) -> None:
    with pytest.raises(ValidationError, match="text: is not a text"):
        embedder.embed(["a", text])
    with pytest.raises(ValidationError, match="texts: must be a list"):
        embedder.embed("one text")


# What they are worth


def test_the_default_finds_paraphrases_where_words_do_not() -> None:
    one, other = pairs()
    found = first_hits(opened("minilm").embed(one) @ opened("minilm").embed(other).T)
    words = TfidfVectorizer(sublinear_tf=True).fit([*one, *other])
    assert found >= 0.78
    assert found > first_hits((words.transform(one) @ words.transform(other).T).toarray()) + 0.3


def test_thresholds_leave_unrelated_texts_apart(embedder: Embedder) -> None:
    """Of pairs 1 in 10,000 is over `similar`, 1,000 over `near`, 100 over the floor; about."""
    one, other = map(embedder.embed, pairs())
    cosines = (one @ other.T)[~np.eye(len(one), dtype=bool)]
    assert (cosines > embedder.thresholds.similar).mean() <= 0.0002
    assert (cosines > embedder.thresholds.near).mean() <= 0.002
    assert (cosines > embedder.thresholds.relevant(1)).mean() <= 0.0125
    found = measured(embedder.embed)
    assert found.similar == pytest.approx(embedder.thresholds.similar, abs=0.07)
    assert found.near == pytest.approx(embedder.thresholds.near, abs=0.07)
    assert found.floor == pytest.approx(embedder.thresholds.floor, abs=0.07)


def test_the_floor_rises_with_the_number_of_texts() -> None:
    """Of many unrelated texts the nearest is nearer than of few."""
    both = Thresholds(similar=0.6, near=0.5, floor=0.3)
    floors = [both.relevant(texts) for texts in (0, 1, 10, 100, 1_000, 10**6)]
    assert floors == pytest.approx([0.3, 0.3, 0.3, 0.4, 0.5, 0.5])
    assert Thresholds(similar=0.6, near=0.5).relevant(1) == 0.5


# The model


@pytest.mark.parametrize("needed", [True, False])
def test_a_model_loaded_beside_gives_the_same_vectors(needed: bool) -> None:
    mine, texts = minilm.MiniLM(), ["refund a flight", "a", "cancel a reservation"]
    wanted = opened("minilm").embed(texts)  # before, or it takes what is loaded beside
    minilm.load_beside(lambda: needed)
    assert np.array_equal(mine.embed(texts), wanted)


def test_many_long_texts_take_little_memory() -> None:
    """And of texts whose tokens fill several batches each has its own vector."""
    code = (
        "import resource; from graphmem.search.embedding import open_embedder; "
        "embedder, texts = open_embedder('minilm'), [f'{n} ' * 300 for n in range(64)]; "
        "embedder.embed(texts[:1]); "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; rows = embedder.embed(texts);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before);"
        "print(abs(rows[-1] - embedder.embed(texts[-1:])[0]).max())"
    )
    grown, off = map(float, run_program(code).stdout.split())
    assert grown < 100 * (1 << 20 if sys.platform == "darwin" else 1 << 10), "100 MB"
    assert off <= 1e-6


FILES = {
    "minilm": (minilm.PACKAGE, "model.onnx"),
    "wordllama": (wordllama.PACKAGE, wordllama.WEIGHTS),
}


@pytest.mark.parametrize("name", [name for name in NAMES if name in FILES])
def test_another_file_of_the_model_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    package, weights = FILES[name]
    true = base.path_in(package, weights)
    assert true is not None
    shutil.copytree(true.parents[len(Path(weights).parts) - 1], tmp_path / package)
    (tmp_path / package / weights).write_bytes(true.read_bytes()[:-1] + b"?")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(StorageError, match=r"SHA-256 is .*--force-reinstall.*EMBEDDER=hashing"):
        open_embedder(name).embed(["a"])


@pytest.mark.parametrize("name", FILES)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    package, _ = FILES[name]
    monkeypatch.setattr(minilm, "_in_use", {})  # else it would be shared
    monkeypatch.setattr(base, "find_spec", lambda of: None if of == package else find_spec(of))
    with pytest.raises(GraphMemError, match=rf"pip install {package[:6]}.*EMBEDDER=hashing"):
        open_embedder(name).embed(["a"])


# Names


def test_unknown_names_and_missing_extras_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        NotFoundError, match="no embedder 'nope'; there are minilm, wordllama, hashing"
    ):
        open_embedder("nope")
    with pytest.raises(ValidationError, match="names no model"):
        open_embedder("sentence-transformers:")
    monkeypatch.setattr(embedding.sentence_transformers, "find_spec", lambda name: None)
    with pytest.raises(NotFoundError, match=r"pip install sentence-transformers"):
        open_embedder("sentence-transformers:any").embed(["a"])


# Other people's


@dataclass
class Mine:
    """An embedder as somebody might write it."""

    name: Any = "mine"
    dimensions: Any = 3
    thresholds: Any = field(default_factory=lambda: Thresholds(similar=0.9, near=0.5))

    def embed(self, texts: Sequence[str], /) -> Any:
        rows = np.array([[len(text), 1, 1] for text in texts], np.float32).reshape(-1, 3)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_an_embedder_of_ones_own_is_used_as_it_is() -> None:
    made = checked(Mine())
    assert (made.name, made.dimensions, made.thresholds.similar) == ("mine", 3, 0.9)
    assert np.array_equal(made.embed(["ab", "c"]), Mine().embed(["ab", "c"]))
    assert made.embed([]).shape == (0, 3)
    assert checked(made) is made


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": " "}, "embedder.name: must be a printable text"),
        ({"dimensions": 0}, "embedder.dimensions: must be an integer of at least 1"),
        ({"dimensions": 4}, r"embedder.embed: gave an array of shape \(3, 3\), not \(3, 4\)"),
        ({"thresholds": 0.5}, r"embedder.thresholds: must be .*measured\(embed\) finds them"),
    ],
)
def test_wrong_attributes_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        checked(Mine(**change))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda rows: rows.tolist(), "gave list, not a numpy array of float32"),
        (lambda rows: rows[:-1], r"gave an array of shape \(2, 3\)"),
        (lambda rows: rows * np.float32("nan"), "returned a value that is not a finite number"),
        (lambda rows: rows * np.float32(2), "gave a vector whose length differs from 1 by 1"),
        (lambda rows: rows if len(rows) > 1 else -rows, "when others are embedded with it"),
    ],
)
def test_wrong_vectors_are_named(answer: Any, message: str) -> None:
    class Wrong(Mine):
        def embed(self, texts: Sequence[str], /) -> Any:
            return answer(super().embed(texts))

    with pytest.raises(ValidationError, match=message):
        checked(Wrong())


def test_what_is_no_embedder_at_all_is_refused() -> None:
    with pytest.raises(ValidationError, match="lacks name, dimensions, thresholds, embed"):
        checked("minilm")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("similar", "near", "floor"),
    [(1.1, 0.5, None), (0.5, 0.6, None), (float("nan"), 0.1, None), (0.6, 0.5, 0.55), (1, 0, -2)],
)
def test_thresholds_are_cosines_in_order(similar: float, near: float, floor: float | None) -> None:
    with pytest.raises(ValidationError, match="thresholds"):
        Thresholds(similar=similar, near=near, floor=floor)
