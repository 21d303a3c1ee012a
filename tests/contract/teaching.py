"""What tests share: episodes that have something of everything, and what a memory holds.

Ids depend on the namespace alone, so two memories on different engines can be compared as they are
when the clock stands still.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import Phase

from graphmem import Episode, Memory, Settings, Step, StrategyUse
from graphmem.ids import to_millis
from graphmem.models.episodes import MistakeCard
from graphmem.models.levels import Entry
from graphmem.models.policies import Policy
from graphmem.models.reports import LearnReport
from graphmem.store.queries import adhoc
from tests.conftest import NOW, Clock

START = datetime(2026, 1, 1, tzinfo=UTC)
BOOKKEEPING = ("Stream", "Event", "Cursor", "Claim", "Namespace", "Lock")
"""What tells in how many calls something was learned, and what was done since."""
KEPT = {
    ("Heuristic", "DERIVED_FROM"): 5,
    ("AntiPattern", "DERIVED_FROM"): 5,
    ("Task", "RECENT"): 20,
}
"""How many episodes are a sample, for and against."""
ERRORS = (
    "timeout after 30 s",
    "timeout after 99 s",
    "no such file: /home/anna/a.txt",
    "no such file: /srv/b.csv",
    "permission denied",
)

SHOWN_AS_FOUND = (Phase.explicit, Phase.reuse, Phase.generate)
"""Shrinking takes minutes where one example is many transactions."""

Dump = dict[str, Any]
T = TypeVar("T")


def dump(memory: Memory) -> Dump:
    """Every node but those of bookkeeping, and every edge that it has.

    Of evidence there is the sample alone: what is kept beyond it depends on the order of calls.
    Sums of floats are rounded, for they depend on the order of summing in the last digits; types of
    tasks are sorted, for they stand in the order in which they came.
    """
    found: Dump = {}
    for row in memory.query(
        "MATCH (n) WHERE n.ns = $ns RETURN n.id AS id, labels(n)[0] AS label, properties(n) AS held"
    ):
        label = row["label"]
        if label not in BOOKKEEPING:
            found[f"{label} {row['id']}"] = _plain(row["held"], label)
    edges = memory.query(
        "MATCH (n)-[r]->(m) WHERE n.ns = $ns RETURN n.id AS id, labels(n)[0] AS label, "
        "type(r) AS edge, m.id AS other, labels(m)[0] AS others, properties(r) AS held "
        "ORDER BY r.at DESC, other DESC"
    )
    seen: Counter[tuple[Any, ...]] = Counter()
    for row in edges:
        evidence = (row["id"], row["edge"], row["held"].get("supports"))
        seen[evidence] += 1
        if seen[evidence] > KEPT.get((row["label"], row["edge"]), len(edges)):
            continue
        if not {row["label"], row["others"]} & set(BOOKKEEPING):
            held = _plain(row["held"], row["edge"])
            key = f"{row['id']} {row['edge']} {row['other']} {sorted(held.items())}"
            found[key] = found.get(key, 0) + 1
    return found


def _plain(held: dict[str, Any], own: str) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, value in held.items():
        if value is None or name == "title" or (name == "type" and value == own):
            continue  # an engine's own, or nothing
        if isinstance(value, float):
            plain[name] = round(value, 9)
        else:
            plain[name] = tuple(sorted(value)) if isinstance(value, list) else value
    return plain


def answers(memory: Memory) -> list[Any]:
    """What the memory answers when it is asked for lessons."""
    heuristics = [row.model_dump() for row in memory.lessons.heuristics()]
    for row in heuristics:
        row["mean_score"] = round(row["mean_score"], 9)
    return [
        heuristics,
        memory.lessons.anti_patterns(),
        memory.lessons.rules(),
        memory.lessons.mistakes(),
    ]


def tamper(memory: Memory, cypher: str, **given: Any) -> None:
    """Write past the library."""
    memory.store.write(adhoc(cypher, "write"), ns=memory.namespace, **given)


def reference(memory: Memory, settings: Settings | None = None) -> Memory:
    """An empty embedded memory with the namespace of another, and so the same ids."""
    return Memory.open("memory:", namespace=memory.namespace, settings=settings or Settings())


def checked(memory: Memory) -> None:
    """Everything derived follows from the facts."""
    report = memory.verify()
    assert report.ok, report.differences


def some(value: T | None) -> T:
    """Return what is there."""
    assert value is not None
    return value


def fail(memory: Memory, strategy: str, error: str, **more: Any) -> str:
    """Learn a failure with an error; return the id of its episode."""
    given = {"task": "deploy", "source_key": f"{strategy}/{error}/{sorted(more.items())}", **more}
    return memory.learn(strategy=strategy, error=error, success=False, **given).episode_id


def attempts(
    memory: Memory, strategy: str, successes: int, failures: int = 0, **more: Any
) -> list[str]:
    """Learn successes, then failures without an error; return the ids of the episodes."""
    given = {"task": "deploy", **more}
    return [
        memory.learn(
            strategy=strategy,
            success=number < successes,
            source_key=f"{strategy}/{number}/{sorted(more.items())}",
            **given,
        ).episode_id
        for number in range(successes + failures)
    ]


def runs(
    strategy: Any, letters: str, task: str = "deploy", first: int = 0, of: int = 6, **more: Any
) -> list[dict[str, Any]]:
    """Return episodes, one a day from the first on: ``+`` worked, ``-`` failed.

    ``{}`` in the task stands for the number of one ``of`` so many tasks.
    """
    return [
        {
            "task": task.format(number % of),
            "strategy": strategy,
            "success": letter == "+",
            "ended_at": day(first + number),
            "source_key": f"{strategy}/{task}/{first}/{number}/{sorted(more.items())}",
            **more,
        }
        for number, letter in enumerate(letters)
    ]


def learn_runs(memory: Memory, strategy: Any, letters: str, **more: Any) -> LearnReport:
    return memory.learn_many(runs(strategy, letters, **more))


def tried(memory: Memory, task: str, strategy: Any, letters: str, **more: Any) -> None:
    """Learn runs without a date."""
    learn_runs(memory, strategy, letters, task=task, ended_at=None, **more)


def learn_each(memory: Memory, clock: Clock, known: Iterable[tuple[int, Episode]]) -> None:
    """Learn episodes one after the other, each at an hour of its own."""
    for hour, episode in known:
        clock.now = to_millis(NOW + timedelta(hours=hour))
        memory.learn_many([episode])


def day(number: float) -> datetime:
    """A day, counted from the first of January."""
    return START + timedelta(days=number)


def wilson(successes: float, trials: float, z: float = 1.96) -> tuple[float, float]:
    """The bounds in the form of Wilson's paper, solved from the quadratic equation."""
    centre = (successes + z * z / 2) / (trials + z * z)
    half = z / (trials + z * z) * math.sqrt(successes * (trials - successes) / trials + z * z / 4)
    return centre - half, centre + half


uses = st.lists(
    st.builds(
        StrategyUse,
        text=st.sampled_from(["plan", "guess", "ask"]),
        credit=st.sampled_from([0.0, 0.25, 1.0]),
        applied=st.sampled_from([True, True, True, False]),
        propensity=st.sampled_from([None, None, 0.3, 1.0]),
    ),
    max_size=3,
    unique_by=lambda use: use.text,
)
sentences = st.lists(st.sampled_from(["read first", "test it", "hurry"]), max_size=2).map(tuple)
cards = st.builds(
    MistakeCard,
    type=st.sampled_from(["skipped", "mixed up"]),
    task=st.sampled_from([None, None, "book"]),
    worker=st.sampled_from([None, "w"]),
    bad_decision=st.sampled_from([None, "", "skip it"]),
    evidence=st.sampled_from([None, "log line", "x" * 400]),
    lesson=st.sampled_from([None, "look twice"]),
)
episodes = st.builds(
    Episode,
    task=st.sampled_from(["book a flight", "fix the bug"]),
    task_key=st.sampled_from([None, None, "book"]),
    task_type=st.sampled_from([None, "x", "y"]),
    strategy=uses,
    score=st.sampled_from([0.0, 0.3, 0.499, 0.5, 0.849, 0.85, 1.0]),
    agent=st.sampled_from(["anna", "ben"]),
    error=st.sampled_from([None, *ERRORS]),
    steps=st.sampled_from(
        [
            (),
            (Step(error="timeout after 7 s"), Step()),
            (Step(action_type="plan", error="timeout after 7 s"), Step(action="ask")),
            (Step(action={"tool": "guess"}, error="permission denied"),),
        ]
    ),
    successes=sentences,
    mistakes=sentences,
    mistake_cards=st.lists(cards, max_size=2).map(tuple),
    summary=st.sampled_from([None, "asked first, then left", "Asked first."]),
    ended_at=st.none() | st.integers(0, 120).map(day),
)


def histories(least: int = 1, most: int = 25) -> st.SearchStrategy[list[Episode]]:
    """Lists of episodes with a key each."""

    def numbered(found: list[Episode]) -> list[Episode]:
        return [
            episode.model_copy(update={"source_key": str(number)})
            for number, episode in enumerate(found)
        ]

    return st.lists(episodes, min_size=least, max_size=most).map(numbered)


def known(memory: Memory, state: Any, action: str | None = None, **more: Any) -> Policy:
    """Return a policy that is there, by its state and action or by its id."""
    return some(memory.policies.get(state, action, **more))


def observe(
    memory: Memory, state: Any, action: str, successes: int, failures: int = 0, **more: Any
) -> None:
    """Say of an action in a state how often it worked, then how often not."""
    memory.policies.update_many(
        {"state": state, "action": action, "success": success, **more}
        for success in [True] * successes + [False] * failures
    )


def set_all(memory: Memory, values: Iterable[tuple[Any, Any, float]], **more: Any) -> None:
    """Set the values of actions, each (state, action, q)."""
    for state, action, q in values:
        memory.policies.set_q(state, action, q, **more)


def entries_of(memory: Memory, level: str) -> list[Entry]:
    """The entries of a level, in the order of storing."""
    rows = memory.query(
        "MATCH (e:Entry)-[:IN]->(l:Level {name: $level}) WHERE l.ns = $ns "
        "RETURN e.id AS id ORDER BY e.seq",
        level=level,
    )
    found = {entry.id: entry for entry in memory.levels.entries([row["id"] for row in rows])}
    return [found[row["id"]] for row in rows]


class Interruption:
    """Ends a transaction of a memory before it begins, as Ctrl-C does."""

    def __init__(self, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0  # in how many transactions it comes; 0: in none
        transact = memory.store.transact

        def cut(work: Callable[[Any], Any], **options: Any) -> Any:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return transact(work, **options)

        monkeypatch.setattr(memory.store, "transact", cut)
