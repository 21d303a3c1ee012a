"""Producers: calls of functions become entries of a level, and are never broken by that."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from graphmem import AsyncMemory, Memory
from graphmem.errors import NotFoundError, ScopeError, ValidationError
from graphmem.levels.producers import Call
from graphmem.models.levels import NewEntry
from tests.conftest import Opener

LEVEL = "agent:ada:working"


@pytest.fixture
def memory(opened: Opener) -> Memory:
    memory = opened()
    memory.levels.default("ada")
    return memory


def contents(memory: Memory) -> list[Any]:
    """The contents of the level, in any order."""
    return [entry.content for entry in memory.levels.recall(levels=LEVEL, limit=100)]


class Dispatcher:
    """An object with methods of all kinds."""

    def __init__(self, word: str = "done") -> None:
        self.word = word

    def dispatch(self, tool: str, *, times: int = 1) -> str:
        """Run a tool."""
        return f"{tool} {self.word}" * times

    async def dispatch_later(self, tool: str) -> str:
        return f"{tool} later"

    @staticmethod
    def dispatch_static(tool: str) -> str:
        return f"{tool} static"

    @classmethod
    def dispatch_class(cls, tool: str) -> str:
        return f"{tool} {cls.__name__}"

    @property
    def dispatched(self) -> int:
        raise AssertionError("watching looks at no property")

    def _dispatch_hidden(self) -> None:
        pass


def test_calls_of_all_kinds_are_remembered(memory: Memory) -> None:
    remember = memory.remember(LEVEL)

    @remember
    def plain(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    @remember
    async def later(a: int) -> int:
        return a

    @remember
    def items(count: int) -> Iterator[int]:
        yield from range(count)

    @remember
    async def items_later(count: int) -> AsyncIterator[int]:
        for number in range(count):
            yield number

    class Desk:
        @remember
        def method(self, a: int) -> int:
            return a

        @remember
        @staticmethod
        def above(a: int) -> int:
            return a

        @remember
        @classmethod
        def of(cls, a: int) -> str:
            return cls.__name__

    async def work() -> list[int]:
        assert await later(1) == 1
        return [number async for number in items_later(2)]

    assert (plain(1), list(items(3)), asyncio.run(work())) == (3, [0, 1, 2], [0, 1])
    assert (Desk().method(4), Desk().above(6), Desk.of(7)) == (4, 6, "Desk")
    assert {entry["call"]: entry["result"] for entry in contents(memory)} == {
        "plain": 3,
        "later": 1,
        "items": [0, 1, 2],
        "items_later": [0, 1],
        "Desk.method": 4,
        "Desk.above": 6,
        "Desk.of": "Desk",
    }
    arguments = {entry["call"]: entry["arguments"] for entry in contents(memory)}
    assert arguments["plain"] == {"a": 1, "b": 2}
    assert arguments["Desk.method"] == {"a": 4}
    assert memory.levels.info(LEVEL).tags["call:Desk.method"] == 1

    assert (plain.__name__, plain.__doc__) == ("plain", "Add.")
    assert str(inspect.signature(plain)).startswith("(a: 'int', b: 'int' = 2)")
    assert inspect.iscoroutinefunction(later)
    assert inspect.isgeneratorfunction(items)
    assert inspect.isasyncgenfunction(items_later)


def test_an_extractor_says_what_is_remembered(memory: Memory) -> None:
    seen: list[Call] = []

    def extract(call: Call, result: Any) -> Any:
        seen.append(call)
        return result

    @memory.remember(LEVEL, extract=extract, ttl=60)
    def told(result: Any, *more: int, **named: int) -> Any:
        return result

    told(None, 1, two=2)  # nothing to remember
    told("a text")
    told(("with tags", {"kind:plan"}))
    told(("with all", ["kind:goal"], {"by": "ada"}))
    told(NewEntry(content={"under": "a key"}, key="order/17", relevance=0.5, ttl=50))
    told([NewEntry(content=word, tags=("several",)) for word in ("first", "second")])
    assert seen[0].name == "told"
    assert (seen[0].args, seen[0].kwargs) == ((None, 1), {"two": 2})
    assert seen[0].arguments == {"result": None, "more": (1,), "named": {"two": 2}}
    found = {str(entry.content): entry for entry in memory.levels.recall(levels=LEVEL)}
    several = ("a text", "with tags", "with all", "{'under': 'a key'}", "first", "second")
    assert found.keys() == {*several}
    assert found["with tags"].tags == ("kind:plan",)
    assert (found["with all"].tags, found["with all"].metadata) == (("kind:goal",), {"by": "ada"})
    keyed = found["{'under': 'a key'}"]
    assert (keyed.key, keyed.base) == ("order/17", 0.5)
    for entry, seconds in ((keyed, 50), (found["a text"], 60)):
        assert entry.expires_at is not None
        assert (entry.expires_at - entry.at).total_seconds() == seconds
    assert memory.levels.statistics().failed == 0


def test_what_goes_wrong_breaks_no_call_and_is_counted(
    memory: Memory, opened: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(call: Call, result: object) -> None:
        raise RuntimeError("a secret")

    broken: list[Any] = [
        fails,
        lambda call, result: object(),
        lambda call, result: ("a", "b"),
        lambda call, result: (),
        lambda call: "too few arguments",
    ]
    for extract in broken:
        with caplog.at_level(logging.WARNING):
            remembered: Any = memory.remember(LEVEL, extract=extract)(lambda: "a secret")
            assert remembered() == "a secret"
    assert contents(memory) == []
    assert "secret" not in caplog.text
    assert "RuntimeError" in caplog.text
    again = opened()
    assert again.levels.statistics().failed == again.levels.info(LEVEL).failed == len(broken)

    memory.levels.put("task:t:shared")
    work: Any = memory.remember("task:t:shared")(lambda: 7)
    memory.levels.close("task:t:shared")
    assert work() == 7
    work = memory.remember(LEVEL)(lambda: 8)
    memory.close()
    assert work() == 8


def test_errors_go_on_and_are_remembered_where_asked_for(memory: Memory) -> None:
    def fails(word: str) -> None:
        raise LookupError(word)

    for errors in (False, True):
        with pytest.raises(LookupError, match="word"):
            memory.remember(LEVEL, errors=errors)(fails)("word")
        assert len(contents(memory)) == errors
    [entry] = memory.levels.recall(levels=LEVEL)
    error = "LookupError: word"
    assert entry.content == {"call": "fails", "arguments": {"word": "word"}, "error": error}
    assert "failed" in entry.tags


def test_what_is_interrupted_is_not_remembered(memory: Memory) -> None:
    remember = memory.remember(LEVEL, errors=True)

    @remember
    def items() -> Any:
        yield from range(9)

    left = items()
    next(left)
    left.close()
    next(items())
    gc.collect()

    async def work() -> None:
        task = asyncio.create_task(remember(asyncio.sleep)(60))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    @remember
    def stops() -> None:
        raise KeyboardInterrupt

    asyncio.run(work())
    with pytest.raises(KeyboardInterrupt):
        stops()
    assert (contents(memory), memory.levels.statistics().failed) == ([], 0)


def test_an_object_a_class_and_a_module_are_watched_and_left_as_they_were(memory: Memory) -> None:
    one, other = Dispatcher(), Dispatcher()
    one.dispatch_own = lambda tool: f"{tool} own"  # type: ignore[attr-defined]
    own, before = dict(vars(one)), dict(vars(Dispatcher))
    with memory.watch(one, "dispatch*", level=LEVEL) as watch:
        assert watch.names == tuple(
            f"dispatch{end}" for end in ("", "_class", "_later", "_own", "_static")
        )
        assert inspect.iscoroutinefunction(one.dispatch_later)
        assert one.dispatch.__doc__ == "Run a tool."
        calls = [one.dispatch("a", times=2), one.dispatch_class("b"), one.dispatch_static("c")]
        calls += [one.dispatch_own("d"), asyncio.run(one.dispatch_later("e"))]  # type: ignore[attr-defined]
        other.dispatch("not watched")
    assert sorted(entry["result"] for entry in contents(memory)) == sorted(calls)
    assert calls == ["a donea done", "b Dispatcher", "c static", "d own", "e later"]
    assert vars(one) == own
    watch()
    assert vars(one) == own

    undo = memory.watch(Dispatcher, "dispatch_*", level=LEVEL)
    assert other.dispatch_class("f") == "f Dispatcher"
    assert Dispatcher.dispatch_static("g") == "g static"
    undo()
    assert dict(vars(Dispatcher)) == before

    class Child(Dispatcher):
        pass

    with memory.watch(Child, "dispatch", level=LEVEL):
        assert Child("child").dispatch("h") == "h child"
        one.dispatch("not watched")
    assert "dispatch" not in vars(Child)

    tools = ModuleType("tools")
    tools.search = lambda text: text.upper()  # type: ignore[attr-defined]
    with memory.watch(tools, "sea*", level=LEVEL):
        assert tools.search("i") == "I"
    results = {entry["result"] for entry in contents(memory)}
    assert len(results) == 9
    assert results > {"f Dispatcher", "g static", "h child", "I"}

    type("Dispatcher", (), {})  # another one of that name
    with memory.watch("Dispatcher.dispatch", level=LEVEL) as named:
        Dispatcher("comes later").dispatch("j")
    assert named.names == ("dispatch",)
    assert "j comes later" in {entry["result"] for entry in contents(memory)}
    assert dict(vars(Dispatcher)) == before


def test_what_cannot_be_watched_is_told_at_once(memory: Memory) -> None:
    class Slots:
        __slots__ = ()

        def dispatch(self) -> None:
            pass

    async def later(call: Call, result: object) -> None:
        pass

    wrong: list[tuple[str, type[Exception], Callable[[], Any]]] = [
        ("not a function", ValidationError, lambda: memory.remember(LEVEL)(len)),
        ("not a function", ValidationError, lambda: memory.remember(LEVEL)(7)),  # type: ignore[type-var]
        ("extract", ValidationError, lambda: memory.remember(LEVEL, extract=7)),  # type: ignore[arg-type]
        ("extract", ValidationError, lambda: memory.remember(LEVEL, extract=later)),
        ("errors", ValidationError, lambda: memory.remember(LEVEL, errors=1)),  # type: ignore[arg-type]
        ("agent:ada:notes", NotFoundError, lambda: memory.remember("agent:ada:notes")),
        ("shows", ValidationError, lambda: memory.remember("agent:ada:ltm:episodic")),
        ("private", ScopeError, lambda: memory.remember(LEVEL, agent="bob")),
        (
            "fits no method",
            ValidationError,
            lambda: memory.watch(Dispatcher(), "run*", level=LEVEL),
        ),
        ("class", ValidationError, lambda: memory.watch(Slots(), "dispatch", level=LEVEL)),
        ("name of no class", ValidationError, lambda: memory.watch("dispatch", level=LEVEL)),
        ("pattern", ValidationError, lambda: memory.watch(Dispatcher(), 7, level=LEVEL)),  # type: ignore[arg-type]
    ]
    for word, kind, call in wrong:
        with pytest.raises(kind, match=word):
            call()
    assert vars(Dispatcher()) == {"word": "done"}
    assert contents(memory) == []


def test_asynchronous_producers_leave_the_loop_free(memory: Memory) -> None:
    """The entry is written in another thread, and also where the caller is cancelled meanwhile."""
    adding, go_on = threading.Event(), threading.Event()
    add = memory.levels.add

    def slow(*args: Any, **kwargs: Any) -> Any:
        adding.set()
        assert go_on.wait(30)
        return add(*args, **kwargs)

    memory.levels.add = slow  # type: ignore[method-assign]

    async def work() -> None:
        asked = AsyncMemory(memory)

        @asked.remember(LEVEL)
        async def later(a: int) -> int:
            return a

        desk = Dispatcher()
        with asked.watch(desk, "dispatch_later", level=LEVEL):
            tasks = [asyncio.create_task(later(1)), asyncio.create_task(desk.dispatch_later("b"))]
            while not adding.is_set():
                await asyncio.sleep(0)  # the loop goes on
            tasks[0].cancel()
            await asyncio.sleep(0.01)
            go_on.set()
            assert await tasks[1] == "b later"
            with pytest.raises(asyncio.CancelledError):
                await tasks[0]
        with pytest.raises(ValidationError, match="not async"):
            asked.watch(desk, "dispatch", level=LEVEL)
        with pytest.raises(ValidationError, match="not async"):
            asked.remember(LEVEL)(desk.dispatch)
        await asked.close()
        assert await later(3) == 3

    asyncio.run(work())
