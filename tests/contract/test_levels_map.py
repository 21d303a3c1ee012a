"""The map of the levels: what an agent sees of what it holds, as text, a chart and a picture."""

from __future__ import annotations

import pytest

from graphmem import Memory
from graphmem.errors import NotFoundError, ScopeError, ValidationError
from graphmem.models.levels import LevelEdge, MemoryMap
from graphmem.text.tokens import count_tokens
from tests.conftest import Clock

SENSORY, WORKING, SHARED = "agent:ada:sensory", "agent:ada:working", "task:deploy:shared"


@pytest.fixture(autouse=True)
def _no_time_passes(clock: Clock) -> None:
    """What is in a sensory level is there for a minute, and machines may be slow."""
    clock.now = 1_780_000_000_000


def made(memory: Memory) -> None:
    memory.levels.default("ada")
    memory.levels.put(SHARED, capacity=1)
    memory.levels.pull(SHARED, WORKING, transformer="count")
    memory.levels.pull(SHARED, SENSORY)
    memory.levels.add(SENSORY, "order 17 is late", tags=["order", "late"])
    memory.levels.add(WORKING, "look at order 17", tags=["order"])
    memory.levels.put("agent:bob:notes")


def test_a_map_shows_levels_what_is_in_them_and_what_is_pending(memory: Memory) -> None:
    made(memory)
    seen = memory.levels.map("ada")
    assert (seen.agent, seen.entries, seen.pending) == ("ada", 2, 4)
    assert [level.name for level in seen.levels][-1] == SHARED
    assert all(level == memory.levels.info(level.name, agent="ada") for level in seen.levels)
    edge = LevelEdge(source=WORKING, target=SHARED, transformer="count", pending=1)
    assert edge in seen.edges
    assert str(seen).splitlines() == [
        "7 levels that ada may read: 2 entries, 4 pending",
        "agent:ada:ltm:procedural: shows strategies",
        f"{SENSORY}: 1 entry, for 60 s",
        f"└ {WORKING} (dedup): 1 entry, 1 pending, for 3600 s",
        "  └ agent:ada:stm (summarise): 0 entries, 1 pending, for 86400 s, at most 500",
        "    └ agent:ada:ltm:episodic: shows episodes",
        "    └ agent:ada:ltm:semantic: shows knowledge",
        f"  └ {SHARED} (count): 0 entries, 2 pending, at most 1",
        f"└ {SHARED} (above)",
    ]
    memory.levels.tick()
    found = memory.levels.statistics()
    assert (found.levels, found.subscriptions, found.pending, found.missed) == (8, 6, 0, 0)
    assert found.kinds == {"notes": 0, "sensory": 1, "shared": 1, "stm": 1, "working": 2}
    assert memory.levels.info(WORKING).tags == {"order": 2, "late": 1}
    with pytest.raises(NotFoundError):
        memory.levels.info("task:deploy:nothing")

    # Another agent sees what is for all, and not whence it comes.
    other = memory.levels.map("bob")
    assert [level.name for level in other.levels] == ["agent:bob:notes", SHARED]
    assert (other.edges, other.levels[1].subscribed_to) == ((), ())
    assert memory.levels.info(SHARED, agent="bob").subscribed_to == ()
    with pytest.raises(ScopeError):
        memory.levels.info(WORKING, agent="bob")


@pytest.fixture
def seen() -> MemoryMap:
    with Memory.open("memory:") as memory:
        made(memory)
        for number in range(50):
            memory.levels.put(f'task:t{number}:"<$a$>"')
        return memory.levels.map()


def test_the_tree_fits_a_prompt_and_tells_what_it_leaves_out(seen: MemoryMap) -> None:
    for most in (50, 77, 120, 300):
        text = seen.tree(most)
        assert count_tokens(text) <= most
        last = text.splitlines()[-1]
        shown = sum(not line.endswith("(above)") for line in text.splitlines()[1:-1])
        assert last == f"and {len(seen.levels) - shown} more levels"
    assert len(seen.tree(10_000).splitlines()) == len(seen.levels) + 2
    for wrong in (0, 49, True, "300"):
        with pytest.raises(ValidationError, match="max_tokens"):
            seen.tree(wrong)  # type: ignore[arg-type]


def test_mermaid_has_a_node_for_each_level_and_no_marks_of_names(seen: MemoryMap) -> None:
    lines = seen.mermaid().splitlines()
    assert len(lines) == 1 + len(seen.levels) + len(seen.edges)
    assert any("#34;#60;$a$#62;#34;" in line for line in lines)
    assert all(line.count('"') in (0, 2) for line in lines)
