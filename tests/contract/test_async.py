"""AsyncMemory offers the methods of Memory and of its parts, awaited."""

from __future__ import annotations

import asyncio
import inspect

from graphmem import AsyncMemory, Episode, Memory, Settings
from tests.contract.calling import PLAIN, methods

NOT_AWAITED = {*("attempt", "current_attempt", "remember", "watch"), "events.listen"}
"""They only make an object, and what that does is awaited."""


def test_every_public_method_has_its_twin() -> None:
    with Memory.open("memory:") as memory:
        awaited = AsyncMemory(memory)
        public, twins = methods(memory), methods(awaited, plain={*PLAIN, "memory", "threads"})
        assert public.keys() == twins.keys()
        for name, twin in twins.items():
            assert inspect.iscoroutinefunction(twin) is (name not in NOT_AWAITED), name
            assert inspect.signature(twin) == inspect.signature(public[name])
            assert name == "open" or twin.__doc__ == public[name].__doc__


def test_calls_run_at_once_and_count_exactly(url: str, settings: Settings) -> None:
    with Memory.open(url, namespace="planned", settings=settings) as memory:
        for _ in range(3):  # else all threads have a server plan the same statement at once
            memory.learn("t", "s", success=True)

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
            [heuristic] = await memory.lessons.heuristics(agent="default")
            assert (heuristic.trials, heuristic.successes) == (21, 20)
            assert (await memory.verify()).ok
            assert (await memory.upkeep.erase(learned[0].episode_id)).steps == 0
            assert (await memory.stats()).episodes == 20

    asyncio.run(work())
