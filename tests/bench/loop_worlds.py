"""Tasks of which it is known what comes of each way to do them, for an agent that chooses.

Outcomes were decided elsewhere: by a language model and a checker (InterCode, tau-bench), or by a
grid world or a database (``seeds/``). Where a way was tried several times on a task, an outcome is
drawn with that share of successes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.bench.forecasting import ROOT, read, together, tools

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """Tasks, ways, and the share of successes of each way on each task."""

    name: str
    tasks: list[str]
    ways: list[str]
    won: Numbers
    """[tasks, ways]; NaN where a way is not offered."""
    order: list[int]
    """The tasks that an agent meets, by their places."""

    def came(self, seed: int) -> Numbers:
        """Return what each way would give at each step: 1, 0, or NaN where it is not offered."""
        shares = self.won[self.order]
        drawn = np.random.default_rng([seed, 1]).random(shares.shape)
        return np.where(np.isnan(shares), np.nan, (drawn < shares).astype(np.float64))


def world(
    name: str, runs: Iterable[tuple[str, str, bool]], some: int | None, visits: int, seed: int
) -> World:
    """Return the tasks of a log (all, or ``some`` of those tried in each way), in random order."""
    outcomes: dict[str, dict[str, list[bool]]] = {}
    for task, way, success in runs:
        outcomes.setdefault(task, {}).setdefault(way, []).append(success)
    ways = sorted({way for row in outcomes.values() for way in row})
    tasks = [task for task, row in outcomes.items() if some is None or len(row) == len(ways)]
    won = [[np.mean(outcomes[task].get(way, np.nan)) for way in ways] for task in tasks]
    draw = np.random.default_rng(seed)
    places = draw.permutation(len(tasks))[:some]
    order = [int(place) for _ in range(visits) for place in draw.permutation(places)]
    return World(name, tasks, ways, np.array(won), order)


def questions(visits: int, some: int) -> Callable[[int], World]:
    """InterCode: questions over databases, each answered by 15 set-ups of a model."""
    runs = [
        (one.task, one.strategy[0].text, bool(one.success))
        for one in read("intercode")
        if "refine" not in one.strategy[0].text  # it has few of the questions
    ]
    often = "each new" if visits == 1 else f"each {visits} times"
    return lambda seed: world(f"InterCode, {often}", runs, some, visits, seed)


def airline(visits: int) -> Callable[[int], World]:
    """tau-bench: tasks of an airline, tried four times; a way is offered where it was tried."""
    runs = [(one.task, tools(one), bool(one.success)) for one in read("tau-bench")]
    name = f"tau-bench airline by all tools, each {visits} times"
    return lambda seed: world(name, runs, None, visits, seed)


def seeds(visits: int) -> Callable[[int], World]:
    """A log in ``seeds/``: each task tried with each combination of strategies."""
    runs = [(one.task, together(one), bool(one.success)) for one in read("jsonl", "sql.jsonl.gz")]
    return lambda seed: world(f"seeds/ sql, each {visits} times", runs, None, visits, seed)


def rental(seed: int) -> World:
    """The questions of the demo to a database; some come back."""
    folder = str(ROOT / "seeds")
    if folder not in sys.path:
        sys.path.append(folder)
    import choosing_agent as agent

    found = agent.world(seed)
    asked = {question.text: question for question in found.questions}
    ways, tasks = list(agent.WAYS), list(asked)
    won = [[float(found.answer(one, way) is None) for way in ways] for one in asked.values()]
    order = [tasks.index(question.text) for question in found.questions]
    return World("seeds/ questions of the demo", tasks, ways, np.array(won), order)


WORLDS: dict[str, Callable[[], Callable[[int], World]]] = {
    "new": lambda: questions(1, 400),
    "four_times": lambda: questions(4, 100),
    "airline_tools": lambda: airline(4),
    "sql": lambda: seeds(6),
    "rental": lambda: rental,
}
