"""The episodes that the benchmarks learn: made up, the same in every run."""

from __future__ import annotations

from collections.abc import Iterator

from graphmem import Episode, Step

TASKS, STRATEGIES, TOOLS, AGENTS = 1_000, 97, 20, 5


def episodes(start: int, stop: int, *, tag: str = "k") -> Iterator[Episode]:
    """Episodes with three strategies and five steps each."""
    for number in range(start, stop):
        yield Episode(
            task=f"task {number % TASKS}",
            strategy=[
                f"strategy {number % STRATEGIES}",
                f"tool {number % 13}",
                f"tool {13 + number % 7}",
            ],
            success=number % 3 != 0,
            agent=f"agent {number % AGENTS}",
            source_key=f"{tag}/{number}",
            steps=[
                Step(
                    action_type="query",
                    action={"tool": f"tool {place}", "row": number % 50},
                    observation="three rows of text, as a tool would print them",
                    reward=0.0,
                )
                for place in range(5)
            ],
        )


def single(number: int, tag: str) -> dict[str, object]:
    """The arguments of one call of ``learn``."""
    return {
        "task": f"task {number % TASKS}",
        "strategy": f"strategy {number % STRATEGIES}",
        "success": number % 3 != 0,
        "agent": f"agent {number % AGENTS}",
        "source_key": f"{tag}/{number}",
    }
