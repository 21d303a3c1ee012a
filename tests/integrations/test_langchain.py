"""LangChain and LangGraph: a middleware that asks and learns, and a store on levels."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain.tools import ToolRuntime, tool
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
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
from langgraph.types import Command
from pydantic import BaseModel, PrivateAttr

from graphmem import AsyncMemory, Memory
from graphmem.errors import StoreError, ValidationError
from graphmem.integrations.langchain import GraphMemMiddleware, GraphMemStore
from graphmem.integrations.outcomes import Run
from graphmem.search.embedding import MiniLM
from tests.conftest import Opener
from tests.faults.attack import LONG
from tests.integrations.test_runs import abandoned, cancelled_there, episodes, for_ever

Script = Callable[[Sequence[BaseMessage]], AIMessage]


class MadeUp(BaseChatModel):
    """Answers as its script says; keeps the system prompts that it got."""

    script: Script
    _prompts: list[str] = PrivateAttr(default_factory=list)

    @property
    def prompts(self) -> list[str]:
        return self._prompts

    @property
    def _llm_type(self) -> str:
        return "made-up"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        first = messages[0]
        self._prompts.append(str(first.text) if first.type == "system" else "")
        said = self.script(messages)
        said.response_metadata["model_name"] = "made-up-1"
        return ChatResult(generations=[ChatGeneration(message=said)])


def calls(*tools: str) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[
            {"name": name, "args": {"about": "it"}, "id": f"{name}-{place}"}
            for place, name in enumerate(tools)
        ],
    )


def once(*tools: str, answer: str = "done") -> Script:
    """Call tools side by side, then answer."""

    def script(messages: Sequence[BaseMessage]) -> AIMessage:
        return AIMessage(answer) if messages[-1].type == "tool" else calls(*tools)

    return script


TASK = "refund a cancelled flight"


@tool
def look(about: str) -> str:
    """Look it up."""
    return f"looked at {about}"


@tool
def crash(about: str) -> str:
    """Fail."""
    raise OSError(f"no {about}")


@tool
async def wait(about: str) -> str:
    """Never come back."""
    await for_ever()
    return about


def done(run: Run) -> bool | None:
    return None if run.error else run.answer == "done"


def agent_of(
    memory: Memory | AsyncMemory, script: Script | MadeUp, *others: Any, **given: Any
) -> Any:
    """Return an agent that remembers; ``given`` to the middleware, but for a checkpointer."""
    saver = given.pop("checkpointer", None)
    prompt = given.pop("system_prompt", None)
    response = given.pop("response_format", None)
    return create_agent(
        script if isinstance(script, MadeUp) else MadeUp(script=script),
        [look, crash, wait],
        system_prompt=prompt,
        middleware=[GraphMemMiddleware(memory, **{"outcome": done, **given}), *others],
        checkpointer=saver,
        response_format=response,
    )


def ask(task: str = TASK) -> Any:
    return {"messages": [HumanMessage(task)]}


def test_a_run_is_learned_and_the_next_one_knows(memory: Memory) -> None:
    for number in range(4):
        tool = "look" if number % 2 else "crash_gently"
        given = "done" if number % 2 else "sorry"
        agent_of(memory, once(tool, answer=given), agent="ada").invoke(ask())
    learned = episodes(memory)
    assert [row["success"] for row in learned] == [False, True, False, True]
    assert [row["strategies"] for row in learned] == [["crash_gently"], ["look"]] * 2
    assert (learned[1]["seen"], learned[1]["errors"]) == (["looked at it"], [""])
    assert learned[0]["seen"] == [""]
    assert "not a valid tool" in learned[0]["errors"][0]

    known = memory.context(TASK, agent="ada")
    assert "look" in known
    model = MadeUp(script=once("look"))
    agent_of(memory, model, agent="ada", system_prompt="Be kind.").invoke(ask())
    assert model.prompts == [f"Be kind.\n\n{known}"] * 2
    blocks = SystemMessage([{"type": "text", "text": "Be kind."}])
    result = agent_of(memory, model, agent="ada", system_prompt=blocks).invoke(ask())
    assert model.prompts[2].startswith("Be kind.")
    assert "look" in model.prompts[2]
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert "graphmem" not in result


@pytest.mark.parametrize("awaiting", [False, True])
def test_runs_of_all_kinds_at_once_are_kept_apart(memory: Memory, awaiting: bool) -> None:
    agent = agent_of(AsyncMemory(memory) if awaiting else memory, once("look", "look"))
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: agent.invoke(ask(f"task {number}")), range(7)))
    list(agent.stream(ask("task 7"), stream_mode="values"))

    async def more() -> None:
        await asyncio.gather(*(agent.ainvoke(ask(f"task {number}")) for number in range(8, 12)))

    asyncio.run(more())
    learned = episodes(memory)
    assert sorted(row["task"] for row in learned) == sorted(f"task {n}" for n in range(12))
    assert all(row["success"] and row["tools"] == ["look", "look"] for row in learned)
    assert memory.verify().ok


class Total(BaseModel):
    """The answer."""

    euros: int


def test_the_judge_sees_the_whole_run(memory: Memory) -> None:
    seen: list[Run] = []

    def script(messages: Sequence[BaseMessage]) -> AIMessage:
        if messages[-1].type != "tool":
            return calls("look")
        return AIMessage("", tool_calls=[{"name": "Total", "args": {"euros": 7}, "id": "t"}])

    agent = agent_of(memory, script, outcome=seen.append, response_format=Total, agent="ada")
    agent.invoke(ask())
    [run] = seen
    assert (run.task, run.output, run.agent, run.error) == (TASK, Total(euros=7), "ada", None)
    assert run.answer == '{"euros":7}'
    assert [step.action_type for step in run.steps] == ["look"]
    assert len(run.metadata["messages"]) == 5


class TestEndings:
    """A run is recorded once, at its first end, or not at all."""

    def test_a_tool_that_raises_ends_the_run(self, memory: Memory) -> None:
        agent = agent_of(memory, once("look", "crash", "crash"), outcome=lambda run: not run.error)
        with pytest.raises(OSError, match="no it"):
            agent.invoke(ask())
        with pytest.raises(OSError, match="no it"):
            asyncio.run(agent.ainvoke(ask()))
        learned = [(row["success"], row["error"], len(row["tools"])) for row in episodes(memory)]
        assert learned == [(False, "OSError: no it", 3)] * 2

    def test_so_does_a_model_that_raises(self, memory: Memory) -> None:
        def script(messages: Sequence[BaseMessage]) -> AIMessage:
            if messages[-1].type == "tool":
                raise TimeoutError("too slow")
            return calls("look")

        with pytest.raises(TimeoutError):
            agent_of(memory, script).invoke(ask())
        assert episodes(memory) == []
        [left] = abandoned(memory)
        assert (left["error"], left["step_count"]) == ("TimeoutError: too slow", 1)

    def test_an_error_that_is_mended_inside_does_not(self, memory: Memory) -> None:
        retry = ToolRetryMiddleware(max_retries=1, initial_delay=0, on_failure="continue")
        agent_of(memory, once("crash"), retry).invoke(ask())
        [learned] = episodes(memory)
        assert (learned["success"], learned["seen"]) == (True, [""])
        assert "OSError" in learned["errors"][0]

    def test_a_cancelled_run_is_abandoned_and_a_stream_left_early_is_not_recorded(
        self, memory: Memory
    ) -> None:
        for _ in agent_of(memory, once("look")).stream(ask()):
            break
        assert episodes(memory) == abandoned(memory) == []
        agent = agent_of(memory, once("look", "wait"), outcome=lambda _: False)
        asyncio.run(cancelled_there(agent.ainvoke(ask())))
        assert episodes(memory) == []
        [left] = abandoned(memory)
        assert left["step_count"] == 2

    def test_an_interrupted_run_goes_on_in_another_process(self, opened: Opener) -> None:
        saver, config = InMemorySaver(), {"configurable": {"thread_id": "7"}}
        memory = opened()

        def made() -> Any:
            """Return a new agent with a new middleware, as another process has them."""
            person = HumanInTheLoopMiddleware(interrupt_on={"look": True})
            return agent_of(memory, once("look"), person, checkpointer=saver)

        assert "__interrupt__" in made().invoke(ask(), config)
        assert episodes(memory) == abandoned(memory) == []
        approved: Command[Any] = Command(resume={"decisions": [{"type": "approve"}]})
        made().invoke(approved, config)
        made().invoke(ask("something else"), config)
        made().invoke(approved, config)
        learned = [(row["task"], row["success"], row["seen"]) for row in episodes(memory)]
        assert learned == [(task, True, ["looked at it"]) for task in (TASK, "something else")]


def test_the_agent_goes_on_where_the_memory_is_gone(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """What is wrong with the memory is not the agent's problem, unless it is strict."""
    lenient = agent_of(memory, once("look"))
    strict = agent_of(memory, once("look"), strict=True)
    memory.close()
    with caplog.at_level(logging.WARNING, "graphmem"):
        assert lenient.invoke(ask())["messages"][-1].text == "done"
    told = [one.getMessage() for one in caplog.records if one.name.endswith("integrations.runs")]
    assert [text.split(":")[0] for text in told] == [
        "the context is not known",
        "the run was not learned",
    ]
    with pytest.raises(StoreError):
        strict.invoke(ask())


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


def compare(store: BaseStore, model: InMemoryStore, batch: Sequence[Any]) -> None:
    for namespace in [name for name, items in model._data.items() if not items]:
        del model._data[namespace]  # the model lists namespaces that only were asked for
    # A search for everything that fits: two stores have orders of their own.
    ops = [op._replace(limit=1_000) if isinstance(op, SearchOp) else op for op in batch]
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


def test_what_cannot_be_stored_is_said(unstored: Memory) -> None:
    store = GraphMemStore(unstored)
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
            GraphMemStore(**{"memory": unstored, **one})
