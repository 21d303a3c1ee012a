"""The store of LangGraph on levels does what LangGraph's own store in memory does, and stays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import HumanMessage
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from graphmem import AsyncMemory, Memory
from graphmem.errors import ValidationError
from graphmem.integrations.langchain import GraphMemStore
from tests.conftest import Opener
from tests.faults.attack import LONG
from tests.integrations.made_up import MadeUp, once

FOOD = ("users", "17")

LABELS = st.sampled_from(["a", "b", "a:b", "a%3Ab", " a", "é", "e\u0301", "a/b", "stm", "%", "A"])
PATHS = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "", " k", "k%", "a:b", "%", "k\n", "\x00"])
VALUES = st.fixed_dictionaries({"n": st.integers(-3, 3)}, optional={
    "text": st.sampled_from(["a red car", "a blue car", "green tea", ""]),
    "part": st.fixed_dictionaries({"x": st.booleans() | st.none()}),
    "list": st.lists(st.integers(0, 2), max_size=2), "f": st.floats(-2, 2),
})  # fmt: skip
FILTERS = st.dictionaries(
    st.just("n"),
    st.integers(-3, 3)
    | st.dictionaries(
        st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]),
        st.integers(-3, 3),
        min_size=1,
        max_size=2,
    ),
) | st.fixed_dictionaries(
    {},
    optional={
        "text": st.sampled_from(["green tea", ""]),
        "part": st.fixed_dictionaries({"x": st.booleans() | st.none()}),
        "list": st.lists(st.integers(0, 2), max_size=2),
        "missing": st.none() | st.just({"$ne": 1}),
    },
)
PATTERNS = st.lists(LABELS | st.just("*"), max_size=2).map(tuple)
CONDITIONS = st.lists(
    st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), PATTERNS), max_size=2
).map(tuple)
READS = (
    st.tuples(PATHS, KEYS).map(lambda given: GetOp(*given))
    | st.tuples(st.lists(LABELS, max_size=2).map(tuple), st.none() | FILTERS).map(
        lambda given: SearchOp(*given)
    )
    | st.tuples(CONDITIONS, st.none() | st.integers(1, 3)).map(
        lambda given: ListNamespacesOp(*given)
    )
)
WRITES = st.tuples(PATHS, KEYS, st.none() | VALUES).map(lambda given: PutOp(*given))
BATCHES = st.lists(st.lists(READS | WRITES | WRITES, min_size=1, max_size=4), max_size=8)


def said(result: Any) -> Any:
    """What a store answers, without times; items of a search in no order."""
    if isinstance(result, Item):
        return (result.namespace, result.key, result.value)
    if isinstance(result, list) and result and isinstance(result[0], Item):
        return sorted((said(item) for item in result), key=repr)
    return result


def widened(op: Any) -> Any:
    """A search for everything that fits: two stores have orders of their own."""
    return op._replace(limit=1_000) if isinstance(op, SearchOp) else op


def compare(store: BaseStore, model: InMemoryStore, batch: Sequence[Any]) -> None:
    for namespace in [name for name, items in model._data.items() if not items]:
        del model._data[namespace]  # the model lists namespaces that only were asked for
    ops = [widened(op) for op in batch]
    listed = [model.batch([op])[0] if isinstance(op, ListNamespacesOp) else None for op in ops]
    results = [said(result) for result in model.batch(ops)]
    expected = [
        names if isinstance(op, ListNamespacesOp) else result
        for op, names, result in zip(ops, listed, results, strict=True)
    ]
    assert [said(result) for result in store.batch(ops)] == expected
    for op in batch:
        if isinstance(op, SearchOp):
            whole = store.batch([op._replace(limit=1_000)])[0]
            assert isinstance(whole, list)
            pages: Any = [store.batch([op._replace(limit=2, offset=n)])[0] for n in (0, 2)]
            assert pages == [whole[:2], whole[2:4]]
        if isinstance(op, ListNamespacesOp):
            whole = store.batch([op])[0]
            assert isinstance(whole, list)
            assert store.batch([op._replace(limit=1, offset=1)])[0] == whole[1:2]


def test_it_does_what_the_store_in_memory_does(opened: Opener, engine: str) -> None:
    memory = opened()
    examples = 5 if engine == "neo4j" else 500 if LONG else 40

    @hypothesis.settings(max_examples=examples)
    @hypothesis.given(BATCHES)
    def check(batches: list[list[Any]]) -> None:
        name = uuid4().hex
        model = InMemoryStore()
        for number, batch in enumerate(batches):
            # A new store each time: nothing is kept in it.
            store = GraphMemStore(memory, name=name, index=False if number % 2 else None)
            compare(store, model, batch)
        for level in memory.levels.names(name):
            memory.levels.close(level)

    check()
    assert memory.verify().ok


def test_it_finds_by_meaning_what_the_store_in_memory_finds(memory: Memory) -> None:
    from graphmem.search.embedding import MiniLM

    embedder = MiniLM()
    fields = ["text", "more[*].text"]
    model = InMemoryStore(
        index={
            "dims": 384,
            "embed": lambda texts: [list(map(float, v)) for v in embedder.embed(list(texts))],
            "fields": fields,
        }
    )
    store = GraphMemStore(memory, index={"fields": fields})
    texts = ["spicy noodles", "a red car", "green tea with milk", "how to repair an engine"]
    for place, text in enumerate(texts):
        for each in (store, model):
            each.put((f"shelf {place % 2}", "x"), str(place), {"text": text, "n": place})
    for each in (store, model):
        each.put(("shelf 0", "x"), "list", {"more": [{"text": "trains"}], "n": 9})
        each.put(("shelf 0", "x"), "hidden", {"text": "soup", "n": 9}, index=False)
        each.put(("shelf 0", "x"), "nothing", {"n": 9})
    for query in ("food for lunch", "vehicles"):
        narrowed: list[Any] = [{}, {"filter": {"n": {"$lt": 3}}}, {"limit": 2, "offset": 1}]
        for asked in narrowed:
            found = store.search((), query=query, **asked)
            wanted = model.search((), query=query, **asked)
            assert [item.key for item in found][:5] == [item.key for item in wanted][:5]
            for one, other in zip(found, wanted, strict=True):
                assert one.score == (other.score and pytest.approx(other.score, abs=1e-4))
    assert store.search(("shelf 0",), query="soup")[0].key != "hidden"
    unsearched = GraphMemStore(memory, index=False).search((), query="food")
    assert [item.score for item in unsearched] == [None] * 7
    assert len(store.search((), query=" ")) == 7


def test_items_outlive_the_process(opened: Opener) -> None:
    first = opened()
    store = GraphMemStore(first)
    store.put(FOOD, "likes", {"food": "noodles"})
    created = store.get(FOOD, "likes")
    first.close()
    again = GraphMemStore(opened())
    assert again.get(FOOD, "likes") == created
    assert created is not None
    again.put(FOOD, "likes", {"food": "noodles"})
    changed = again.get(FOOD, "likes")
    assert changed is not None
    assert changed.created_at == created.created_at
    assert changed.updated_at > created.updated_at
    [found] = again.search(("users",), query="what to cook")
    assert (found.key, GraphMemStore(opened(), name="other").list_namespaces()) == ("likes", [])

    memory = opened()  # items are entries of levels
    level = "collective:store:users:17"
    [entry] = memory.levels.recall("what to cook", levels=level)
    assert (entry.key, entry.content) == ("likes", {"food": "noodles"})
    memory.levels.add(level, "a text", key="by hand")
    memory.levels.add(level, {"n": 1})
    store = GraphMemStore(memory)
    assert {"content": "a text"} in [item.value for item in store.search(FOOD)]
    store.put(FOOD, "by hand", {"n": 2})
    assert len(store.search(FOOD)) == 3


def test_items_expire_and_stay_longer_when_they_are_read(memory: Memory) -> None:
    store = GraphMemStore(memory, ttl={"default_ttl": 60, "refresh_on_read": False})
    store.put(FOOD, "kept", {"n": 1}, ttl=None)
    store.put(FOOD, "an hour", {"n": 2})
    store.put(FOOD, "moment", {"n": 3}, ttl=0.003)

    def ends(key: str) -> Any:
        [found] = memory.levels.recall(levels="collective:store:users:17", key=key)
        return found.expires_at

    assert ends("kept") is None
    before = ends("an hour")
    time.sleep(0.002)
    store.get(FOOD, "an hour")
    assert ends("an hour") == before
    store.get(FOOD, "an hour", refresh_ttl=True)
    later = ends("an hour")
    assert later > before
    time.sleep(0.2)
    store.search(FOOD, refresh_ttl=True)
    assert ends("an hour") > later
    assert store.get(FOOD, "moment", refresh_ttl=True) is None
    assert {item.key for item in store.search(("users",))} == {"an hour", "kept"}
    assert memory.levels.maintain().levels[0].expired == 1
    assert memory.verify().ok


def test_an_agent_has_it_in_its_tools(memory: Memory) -> None:
    @tool
    def note(about: str, runtime: ToolRuntime) -> str:
        """Note something."""
        assert runtime.store is not None
        runtime.store.put(FOOD, "note", {"about": about})
        return "noted"

    for given in (memory, AsyncMemory(memory)):
        agent: Any = create_agent(
            MadeUp(script=once("note")), [note], store=GraphMemStore(given, name="notes")
        )
        asked: Any = {"messages": [HumanMessage("note it")]}
        agent.invoke(asked)
        asyncio.run(agent.ainvoke(asked))

    async def main() -> None:
        store = GraphMemStore(memory, name="notes")
        assert (await store.aget(FOOD, "note")) == store.get(FOOD, "note")
        [found] = await store.asearch((), query="it")
        assert found.value == {"about": "it"}
        assert await store.alist_namespaces() == [FOOD]
        await store.adelete(FOOD, "note")
        assert await store.aget(FOOD, "note") is None

    asyncio.run(main())


def test_what_cannot_be_stored_is_said() -> None:
    with Memory.open("memory:") as memory:
        store = GraphMemStore(memory)
        for namespace in ((), ("a.b",), ("",), ("langgraph",)):
            with pytest.raises(InvalidNamespaceError):
                store.put(namespace, "k", {})
        wrong: list[Any] = [
            PutOp((), "k", {}),
            PutOp(("a",), "k", {"n": float("nan")}),
            PutOp(("a",), "k\ud800", {}),
            PutOp(("a",), "k", {}, ttl=-1),
            PutOp(("a",), "k", {}, index="n"),  # type: ignore[arg-type]
            SearchOp((), offset=-1),
            "get",
        ]
        store.put(("a",), "there", {"n": 1})
        for op in wrong:
            with pytest.raises(ValidationError):
                store.batch([op])
        with pytest.raises(ValueError, match="Unsupported match type"):
            store.batch([ListNamespacesOp((MatchCondition("middle", ("a",)),))])  # type: ignore[arg-type]
        with pytest.raises(ValidationError, match="no operator"):
            store.search((), filter={"n": {"$in": [1]}})
        assert store.search((), filter={"n": {"$gt": "x"}}) == []
        for odd in ({1: 1}, {"n": {1: 1}}):
            assert store.search((), filter=odd) == []  # type: ignore[arg-type]
        assert [item.key for item in store.search(())] == ["there"]
        store.put(("a",), "empty", {})
        assert len(store.search((), query="anything")) == 2
    given: list[dict[str, Any]] = [
        {"memory": "memory:"},
        {"index": {"fields": "text"}},
        {"index": {"embed": len}},
    ]
    for one in given:
        with pytest.raises(ValidationError):
            GraphMemStore(**{"memory": memory, **one})
