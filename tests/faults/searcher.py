"""A process of its own that learns new texts and searches after each, until it is killed.

    GRAPHMEM_URL=... python -m tests.faults.searcher

It prints a number as soon as what was learned with it was found.
"""

from __future__ import annotations

from graphmem import Memory

WORDS = ("refund", "flight", "train", "seat", "hotel")


def task(number: int) -> str:
    """The wording of a task; those with a word in common are similar."""
    return f"{WORDS[number % 5]} number {number} of the {WORDS[number // 5 % 5]}"


if __name__ == "__main__":
    with Memory.open() as memory:
        for number in range(10_000):
            memory.learn(task(number), f"strategy {number}", success=True, source_key=str(number))
            memory.similar(f"strategy {number}")
            print(number, flush=True)
