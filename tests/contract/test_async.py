"""AsyncMemory offers the methods of Memory and of its parts, awaited."""

from __future__ import annotations

import asyncio
import inspect
from typing import assert_type

from graphmem import AsyncMemory, Episode, Memory, Settings
from graphmem.models.lessons import Heuristic
from graphmem.notebook.frames import Listed

INTERNAL = {"renew"}
"""Methods of parts for other modules of the package."""

NOT_AWAITED = {"attempt", "current_attempt", "remember", "watch", "listen", "on"}
"""They only make an object, and what that does is awaited."""


def public(kind: type) -> set[str]:
    return {
        name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")
    } - INTERNAL


def parts(memory: object) -> dict[str, type]:
    """Return the types of the public attributes that have methods of their own."""
    plain = {"store", "namespace", "settings", "memory", "threads"}
    return {
        name: type(value)
        for name, value in vars(memory).items()
        if not (name.startswith("_") or name in plain)
    }


def check(twin: type, kind: type, names: set[str]) -> None:
    """Assert that a class has methods of another one, awaited, with the same arguments."""
    for name in names:
        method = getattr(twin, name)
        awaited = inspect.iscoroutinefunction(method)
        assert awaited is (name not in NOT_AWAITED), f"{twin.__name__}.{name}"
        assert inspect.signature(method) == inspect.signature(getattr(kind, name))
        assert method.__doc__ == getattr(kind, name).__doc__


def test_every_public_method_has_its_twin() -> None:
    assert public(AsyncMemory) == public(Memory)
    check(AsyncMemory, Memory, public(Memory))
    with Memory.open("memory:") as memory:
        kinds, twins = parts(memory), parts(AsyncMemory(memory))
    assert (
        twins.keys()
        == kinds.keys()
        == {
            *(
                "lessons",
                "policies",
                "levels",
                "people",
                "scopes",
                "events",
                "predictions",
                "cycles",
                "upkeep",
            ),
        }
    )
    for name, kind in kinds.items():
        assert public(twins[name]) == public(kind)
        check(twins[name], kind, public(kind))


def test_calls_run_at_once_and_count_exactly(url: str, settings: Settings) -> None:
    async def work() -> None:
        namespace = f"async-{id(object())}"
        async with await AsyncMemory.open(url, namespace=namespace, settings=settings) as memory:
            learned = await asyncio.gather(
                *(memory.learn("t", "s", success=True, source_key=str(n % 20)) for n in range(40))
            )
            assert sum(item.created for item in learned) == 20
            report = await memory.learn_many(
                [Episode(task="t", strategy="s", success=False, source_key="last")]
            )
            assert report.created == 1
            [row] = await memory.strategies("t")
            assert (row.trials, row.successes) == (21, 20)
            step = await memory.policies.update({"place": 1}, "go", 1.0, terminal=True)
            best = await memory.policies.best({"place": 1})
            assert best is not None
            assert best.q == step.q
            assert len(await memory.events.tail(100)) == 22
            heuristics = await memory.lessons.heuristics(agent="default")
            assert_type(heuristics, Listed[Heuristic])  # what a type checker knows of a part
            [heuristic] = heuristics
            assert (heuristic.trials, heuristic.successes) == (21, 20)
            assert (await memory.verify()).ok
            assert (await memory.upkeep.erase(learned[0].episode_id)).steps == 0
            assert (await memory.stats()).episodes == 20

    asyncio.run(work())
