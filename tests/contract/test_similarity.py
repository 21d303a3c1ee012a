"""Texts are embedded once, off the learning path, searched by meaning and words, and linked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from graphmem import Memory
from graphmem.errors import NotFoundError, SettingsError, ValidationError
from graphmem.search import edges, vectors
from graphmem.search.edges import LINKS
from graphmem.search.embedding import Hashing, Thresholds
from tests.conftest import Opener
from tests.contract.teaching import tamper

WORDS = ("refund", "flight", "cancel", "train", "seat", "bag", "hotel", "visa")
pytestmark = pytest.mark.usefixtures("few_are_many")


class Counting:
    """The hashing embedder, with an eye on what it is asked for."""

    def __init__(self, name: str = "counting", similar: float = 0.3) -> None:
        self.name = name
        self.dimensions = Hashing.dimensions
        self.thresholds = Thresholds(similar=similar, near=similar)
        self.asked: Counter[str] = Counter()

    def embed(self, texts: Sequence[str], /) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        self.asked.update(texts)
        return Hashing().embed(texts)


@pytest.fixture
def embedder() -> Counting:
    return Counting()


@pytest.fixture
def memory(opened: Opener, embedder: Counting) -> Memory:
    """An empty memory with that embedder."""
    memory = opened(embed_by=embedder)
    embedder.asked.clear()  # it was tried out
    return memory


def links(memory: Memory) -> dict[str, dict[str, float]]:
    """The edges between strategies and between tasks, by their texts."""
    rows = memory.query(
        "MATCH (a)-[r:SIMILAR_TO]->(b) WHERE a.ns = $ns "
        "RETURN coalesce(a.text, a.description) AS a, coalesce(b.text, b.description) AS b, "
        "r.similarity AS similarity"
    )
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        found.setdefault(row["a"], {})[row["b"]] = row["similarity"]
    return found


def expected(texts: Sequence[str], embedder: Counting) -> dict[str, dict[str, float]]:
    """What the edges should be: every pair compared."""
    vectors = Hashing().embed(list(texts))
    found = {}
    for place, text in enumerate(texts):
        near = {
            other: similarity
            for at, other in enumerate(texts)
            if at != place
            and (similarity := round(float(vectors[place] @ vectors[at]), 6))
            >= embedder.thresholds.similar
        }
        if near:
            found[text] = dict(sorted(near.items(), key=lambda pair: -pair[1])[:LINKS])
    return found


def same(got: dict[str, dict[str, float]], wanted: dict[str, dict[str, float]]) -> None:
    """The same similarities; which of several equal ones is linked is left open."""
    assert got.keys() == wanted.keys()
    for text, near in wanted.items():
        assert sorted(got[text].values()) == pytest.approx(sorted(near.values()), abs=2e-6)


def test_learning_waits_for_no_model(memory: Memory, embedder: Counting) -> None:
    memory.learn("refund a flight", ["check the fare", "refund to the card"], success=True)
    assert not embedder.asked
    assert memory.upkeep.pending() == {"Strategy": 2, "Task": 1}
    assert [row.text for row in memory.similar("check the fare")] == ["refund to the card"]
    assert memory.upkeep.pending() == {"Strategy": 0, "Task": 0}
    memory.learn("refund a train", "check the fare", success=True)
    assert memory.upkeep.pending() == {"Strategy": 0, "Task": 1}
    with pytest.raises(NotFoundError, match=r"no strategy 'ask' .*`graphmem list strategies`"):
        memory.similar("ask")
    with pytest.raises(ValidationError, match="must not be empty"):
        memory.similar(" ")


def test_a_text_is_embedded_once(memory: Memory, embedder: Counting, opened: Opener) -> None:
    for number in range(12):
        memory.choose(f"task {number % 4}", [f"strategy {number % 3}"])  # what it asked is kept
        memory.learn(f"task {number % 4}", f"strategy {number % 3}", success=True)
        memory.similar("strategy 0")
    again = Counting()
    reopened = opened(embed_by=again)
    again.asked.clear()
    assert len(reopened.similar("strategy 1")) == 2
    assert reopened.upkeep.relink().embedded == 0
    assert not again.asked
    reopened.recall("task 1")  # the vector of a known text is at hand, but on a server
    reopened.recall("task 9")
    server = reopened.store.capabilities.server
    assert set(again.asked) == ({"task 1", "task 9"} if server else {"task 9"})
    assert set(embedder.asked) == {f"task {n}" for n in range(4)} | {
        f"strategy {n}" for n in range(3)
    }
    assert set(embedder.asked.values()) == {1}


@hypothesis.settings(max_examples=8)
@hypothesis.given(
    st.lists(
        st.one_of(
            st.tuples(st.just("learn"), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3)),
            st.just(("search", [])),
            st.tuples(st.just("erase"), st.integers(0, 10)),
        ),
        min_size=3,
        max_size=14,
    )
)
def test_whatever_comes_in_whatever_order_the_edges_are_those_of_all_pairs(
    opened: Opener, steps: list[tuple[str, list[str] | int]]
) -> None:
    embedder = Counting()
    with opened(f"test-{uuid4().hex[:12]}", embedder) as memory:
        episodes: list[str] = []
        for what, value in steps:
            if isinstance(value, int):
                if value < len(episodes):
                    memory.upkeep.erase(episodes.pop(value))
            elif what == "learn":
                key = f"{len(episodes)} {value}"
                done = memory.learn("a task", " ".join(value), success=True, source_key=key)
                if done.created:
                    episodes.append(done.episode_id)
            else:
                memory._similarity.search("refund")
        memory._similarity.search("refund")
        texts = [row["text"] for row in memory.query("similarity.texts_of_strategies")]
        found = links(memory)
        same(found, expected(texts, embedder))
        assert memory.verify().ok
        memory.upkeep.relink()
        same(links(memory), found)


def test_a_task_that_is_described_anew_has_another_vector(memory: Memory) -> None:
    memory.learn("refund the flight", "ask", success=True, task_key="t")
    memory.learn("book a hotel", "ask", success=True, task_key="u")
    memory._similarity.search("refund")
    memory.learn("book the hotel", "ask", success=True, task_key="t")
    assert memory.upkeep.pending()["Task"] == 1
    found = {
        hit.id: hit for hit in memory._similarity.search("book a hotel") if hit.label == "Task"
    }
    assert min(hit.similarity for hit in found.values()) > 0.5
    assert memory.upkeep.pending()["Task"] == 0
    assert memory.verify().ok


def test_another_embedder_is_refused_until_all_is_embedded_anew(
    memory: Memory, opened: Opener
) -> None:
    memory.learn("refund", "ask", success=True)
    memory.similar("ask")
    other = Counting("another")
    missing = r"embedded with counting, which is not here; give it to Memory.open\(embedder=...\)"
    with pytest.raises(SettingsError, match=missing):
        opened().similar("ask")
    with opened(embed_by=other) as second:
        message = (
            r"embedded with counting \(256 dimensions\), in force is another \(256\); .*"
            r"`graphmem upkeep relink --embedder another`"
        )
        for ask in (lambda: second.similar("ask"), second.upkeep.relink):
            with pytest.raises(SettingsError, match=message):
                ask()
        report = second.upkeep.relink("hashing")
        assert (report.embedder, report.embedded) == ("hashing", 2)
        assert second.similar("ask") == []
        assert second.verify().ok
    # What it was built with is taken, where the settings name nothing else.
    assert opened().similar("ask") == []


@pytest.mark.parametrize("interrupted", ["first search", "search", "relink", "rebuild"])
@pytest.mark.parametrize("page", [1, 2])
def test_the_next_search_draws_the_edges_that_an_interrupted_one_did_not(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, interrupted: str, page: int
) -> None:
    """The old nodes of the pages that were not drawn lack edges to the new ones of those before."""
    monkeypatch.setattr(edges, "_BLOCK", 12)
    drawn: list[int] = []
    draw = edges.draw

    def pressed(*arguments: Any) -> None:
        drawn.append(1)
        if len(drawn) == page:
            raise KeyboardInterrupt
        draw(*arguments)

    def learn(numbers: range) -> None:
        for number in numbers:
            text = f"{WORDS[number % 8]} the {WORDS[number // 2 % 8]} {number % 3}"
            memory.learn(f"{text} for {number}", text, success=True)

    learn(range(20))
    if interrupted != "first search":
        memory.recall("refund")
        learn(range(20, 32))
    calls: dict[str, Callable[[], object]] = {
        "relink": lambda: memory.upkeep.relink(Counting("another")),
        "rebuild": memory.upkeep.rebuild,
    }
    with monkeypatch.context() as patch:
        patch.setattr(edges, "draw", pressed)
        with pytest.raises(KeyboardInterrupt):
            calls.get(interrupted, lambda: memory.recall("refund"))()
    memory.recall("refund")
    assert sum(memory.upkeep.pending().values()) == 0
    report = memory.verify()
    assert report.ok, report.differences
    assert links(memory)


def test_rebuild_draws_the_same_edges_and_needs_no_model(
    memory: Memory, embedder: Counting
) -> None:
    memory.learn_many(
        {"task": f"refund {word}", "strategy": f"cancel {word}", "success": True} for word in WORDS
    )
    memory.similar("cancel seat")
    before, asked = links(memory), embedder.asked.total()
    report = memory.upkeep.rebuild()
    assert report.similar == sum(map(len, before.values())) > 0
    assert links(memory) == before
    assert embedder.asked.total() == asked


def test_what_is_erased_leaves_no_vector_and_its_neighbours_find_others(
    memory: Memory, tmp_path: Path, engine: str
) -> None:
    kept = [f"refund {word}" for word in WORDS]
    memory.learn_many({"task": "t", "strategy": text, "success": True} for text in kept)
    gone = memory.learn("t", "refund the secret marker", success=True).episode_id
    memory.similar("refund seat")
    vector = Hashing().embed(["refund the secret marker"])[0].tobytes()

    def on_disk() -> bool:
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        return any(vector in path.read_bytes() for path in files)

    assert on_disk() == (engine == "embedded")
    memory.upkeep.erase(gone)
    assert not on_disk()
    assert all("marker" not in row.text for row in memory.similar("refund seat", limit=50))
    assert memory._similarity.search("secret marker")[0].text_rank is None
    found = links(memory)
    assert not any("marker" in other for near in found.values() for other in near)
    assert memory.verify().ok


only_neo4j = pytest.mark.parametrize(
    "engine", [pytest.param("neo4j", marks=pytest.mark.neo4j)], indirect=True
)


@only_neo4j
@pytest.mark.parametrize(
    ("damage", "open_still"),
    [("SET s.embedding = [1.0]", False), ("REMOVE s.embedding", True), ("REMOVE s.words", True)],
)
def test_what_somebody_removed_from_a_node_is_made_anew(
    memory: Memory,
    opened: Opener,
    damage: str,
    open_still: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """On a server anybody can write to a node; an embedded memory has a file with checksums."""
    texts = ["refund a flight", "refund the card", "refund it", "book a seat", "book a hotel"]
    memory.learn_many({"task": "any", "strategy": text, "success": True} for text in texts)
    before = [row.text for row in memory.similar("refund it")]
    drawn = links(memory)
    match = "MATCH (s:Strategy) WHERE s.ns = $ns AND s.text IN ['refund it', 'book a seat'] "
    tamper(memory, match + damage)
    assert memory.upkeep.pending() == {"Strategy": 2, "Task": 0}
    assert memory.verify().ok  # what waits is no difference
    caplog.clear()
    if open_still:
        monkeypatch.setattr(vectors, "_LOOK", 0.0)
    other = memory if open_still else opened(embed_by=Counting())
    assert [row.text for row in other.similar("refund it")] == before
    assert "2 texts have no vector" in caplog.text
    assert memory.upkeep.pending() == {"Strategy": 0, "Task": 0}
    same(links(memory), drawn)
    assert memory.verify().ok
    assert memory.upkeep.relink().embedded == 0
