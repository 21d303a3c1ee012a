"""AsyncMemory offers the methods of Memory, awaited."""

from __future__ import annotations

import asyncio
import inspect

from graphmem import AsyncMemory, Episode, Memory, Settings

NOT_AWAITED = {"open", "store", "namespace", "settings"}


def test_it_has_every_method_of_memory() -> None:
    public = {
        name
        for name, _ in inspect.getmembers(Memory, inspect.isfunction)
        if not name.startswith("_")
    }
    for name in public - NOT_AWAITED:
        assert inspect.iscoroutinefunction(getattr(AsyncMemory, name)), name
        assert inspect.signature(getattr(AsyncMemory, name)) == inspect.signature(
            getattr(Memory, name)
        )


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
            assert (await memory.policies.best({"place": 1})).q == step.q
            assert len(await memory.events.tail(100)) == 22
            assert (await memory.verify()).ok
            assert (await memory.erase(learned[0].episode_id)).steps == 0
            assert (await memory.stats()).episodes == 20

    asyncio.run(work())
