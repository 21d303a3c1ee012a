"""What an agent reads does not depend on agents that share nothing with it, nor name them.

A memory is filled twice with the same episodes, once with and once without those of hidden agents.
Every read for an agent must give the same answer in both: then nothing in it can come from them.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest
from pydantic_core import to_jsonable_python

from graphmem import AsyncMemory, Memory, Settings, Step, StrategyUse
from graphmem.errors import GraphMemError
from graphmem.models.advice import Choice
from graphmem.store.queries import adhoc
from tests.conftest import Clock, Opener
from tests.contract.calling import PLAIN, methods, parameters
from tests.faults.attack import rounds

DAY = datetime(2026, 5, 1, tzinfo=UTC)
READER, FRIEND, HIDDEN, STRANGER = "ada", "bob", "HIDDEN cyd", "HIDDEN dan"
SHARED_TASKS = ("refund an order", "book a flight", "sort a list")
SHARED_STRATEGIES = ("look it up", "ask first", "guess")
SENTENCES = ("read first", "never hurry")
TYPES = ("sql", "web")
STATES: tuple[dict[str, Any], ...] = ({"place": "here"}, {"place": "there"})
ACTIONS = ("go", "stay")
MARK = "HIDDEN"

WHOLE = {
    *("show", "similar", "calibrate", "evaluate", "query", "stats", "verify"),
    *("to_networkx", "lessons.summary", "lessons.consolidation_due"),
    *("events.positions", "events.pending", "policies.history", "policies.linked"),
    *("people.preferences", "people.knowledge", "predictions.get", "predictions.list"),
    *("cycles.list", "cycles.examine"),
    *("upkeep.embedded_with", "upkeep.export", "upkeep.pending", "upkeep.backup"),
}
"""Methods that take no agent: they are the view of an administrator."""
OTHERS = {
    *("open", "close", "attempt", "current_attempt", "remember", "watch"),
    *("events.crystallize", "levels.start", "scopes.get", "scopes.list"),
}
"""Methods that make an object or run, or say what agents may read, not what they did."""

UNSHARED = re.compile(r"(; | \()?\d+ other agents? knows? this task; share .*")


def _uncounted(answer: Any) -> Any:
    """Return an answer without how many others know the task, all that it says of them."""
    if isinstance(answer, Choice):
        return answer.model_copy(update={"why": UNSHARED.sub("", answer.why)})
    return UNSHARED.sub("", answer)


Asked = tuple[str, ...]  # texts and ids of everything that an agent could ask for


def asked_of(names: Asked, ask: Callable[[str], Any]) -> dict[str, Any]:
    return {name: ask(name) for name in names}


def exported(memory: Memory, agent: str) -> str:
    """Return what an agent may read as a playbook."""
    with tempfile.TemporaryDirectory() as folder:
        memory.skills.export(path := Path(folder, "playbook.md"), "playbook", agent=agent)
        return path.read_text()


READS: dict[str, Callable[[Memory, str, Asked], Any]] = {
    "context": lambda m, a, names: [
        _uncounted(m.context(task, agent=a, max_tokens=2_000))
        for task in (*SHARED_TASKS, "an unknown thing", f"{MARK} task")
    ],
    "recall": lambda m, a, names: [
        m.recall(text, limit=9, agent=a, max_hops=hops, at=DAY)
        for text in (SHARED_TASKS[0], SHARED_STRATEGIES[0], f"{MARK} task")
        for hops in range(4)
    ],
    "choose": lambda m, a, names: [
        _uncounted(said(m.choose, task, candidates, agent=a, seed=1))
        for task in (*SHARED_TASKS[:2], f"{MARK} task")
        for candidates in (None, [SHARED_STRATEGIES[0], f"{MARK} way"])
    ],
    "predict": lambda m, a, names: [
        m.predict(task, agent=a, together=strategy)
        for task in (*SHARED_TASKS[:2], f"{MARK} task")
        for strategy in (SHARED_STRATEGIES[:1], [f"{MARK} way"], SHARED_STRATEGIES)
    ],
    "changes": lambda m, a, names: [
        m.changes(task, agent=a) for task in (None, *SHARED_TASKS, f"{MARK} task")
    ],
    "explain": lambda m, a, names: asked_of(names, lambda name: said(m.explain, name, agent=a)),
    "strategies": lambda m, a, names: [
        m.strategies(agent=a),
        *(m.strategies(task, agent=a) for task in (*SHARED_TASKS, f"{MARK} task")),
        *(m.strategies(task_type=one, agent=a) for one in TYPES),
    ],
    "lessons.heuristics": lambda m, a, names: [
        m.lessons.heuristics(one, agent=a, pooled=pooled)
        for one in (None, *TYPES)
        for pooled in (False, True)
    ],
    "episodes": lambda m, a, names: [
        m.episodes(agent=a),
        *(m.episodes(task, agent=a, success=False) for task in (*SHARED_TASKS, f"{MARK} task")),
        *(m.episodes(strategy=way, agent=a) for way in (*SHARED_STRATEGIES, f"{MARK} way")),
    ],
    "tasks": lambda m, a, names: [
        m.tasks(one, agent=a, sort=sort)
        for one in (None, *TYPES)
        for sort in ("trials", "best", "worst", "latest")
    ],
    "lessons.anti_patterns": lambda m, a, names: [
        m.lessons.anti_patterns(one, agent=a) for one in (None, *TYPES)
    ],
    "lessons.rules": lambda m, a, names: [
        m.lessons.rules(task, agent=a) for task in (None, *SHARED_TASKS, f"{MARK} task")
    ],
    "lessons.mistakes": lambda m, a, names: (
        [m.lessons.mistakes(task, agent=a) for task in (None, *SHARED_TASKS, f"{MARK} task")]
        + [m.lessons.mistakes(worker="worker", agent=a)]
    ),
    "policies.best": lambda m, a, names: [
        best
        for state in STATES
        for best in (
            m.policies.best(state, agent=a, at=DAY),
            m.policies.best(state, agent=a, explore="ucb", stored=True),
        )
    ],
    "policies.get": lambda m, a, names: [
        m.policies.get(state, action, agent=a) for state in STATES for action in ACTIONS
    ],
    "policies.seen": lambda m, a, names: [
        m.policies.seen(state, action, agent=a) for state in STATES for action in (None, *ACTIONS)
    ],
    "policies.list": lambda m, a, names: [
        m.policies.list(agent=a),
        *(m.policies.list(state, agent=a, at=DAY) for state in STATES),
    ],
    "levels.names": lambda m, a, names: m.levels.names(agent=a),
    "levels.info": lambda m, a, names: [
        said(m.levels.info, f"agent:{owner}:working", agent=a)
        for owner in (READER, FRIEND, HIDDEN, "nobody")
    ],
    "levels.map": lambda m, a, names: (m.levels.map(a).levels, m.levels.map(a).edges),
    "levels.statistics": lambda m, a, names: m.levels.statistics(a).kinds,
    "levels.recall": lambda m, a, names: [
        m.levels.recall("did it", agent=a),
        m.levels.recall(agent=a),
        said(m.levels.recall, "did it", levels=f"agent:{HIDDEN}:working", agent=a),
        *(
            said(m.levels.recall, "did it", lens=name, agent=a)
            for name in ("planning", f"agent:{HIDDEN}:planning", f"agent:{HIDDEN}:own")
        ),
    ],
    "levels.lenses": lambda m, a, names: [lens.name for lens in m.levels.lenses(agent=a)],
    "levels.entries": lambda m, a, names: asked_of(
        names, lambda name: said(m.levels.entries, name, agent=a)
    ),
    "events.tail": lambda m, a, names: m.events.tail(100, agent=a),
    "events.listen": lambda m, a, names: list(
        m.events.listen(f"listeners of {a}", agent=a, follow=False)
    ),
    "skills.export": lambda m, a, names: exported(m, a),
    "predictions.reliability": lambda m, a, names: m.predictions.reliability(agent=a),
}
"""The reads of an agent: memory, agent, and all that there is to ask for."""


def said(method: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Return the answer, or the error as text."""
    try:
        return method(*args, **named)
    except GraphMemError as error:
        return f"{type(error).__name__}: {error}"


def test_every_method_is_a_read_of_an_agent_or_something_else() -> None:
    with Memory.open("memory:") as memory:
        public = methods(memory)
        twins = methods(AsyncMemory(memory), plain={*PLAIN, "memory", "threads"})
    writing = {name for name, twin in twins.items() if getattr(twin, "writes", False)}
    assert READS.keys().isdisjoint(WHOLE | OTHERS | writing)
    assert public.keys() == READS.keys() | WHOLE | OTHERS | writing
    for name, method in public.items():
        takes = any(parameter.name == "agent" for parameter in parameters(method))
        assert takes or name not in READS
        assert not takes or name not in WHOLE


# What is learned


def episode(agent: str, number: int, given: dict[str, Any]) -> dict[str, Any]:
    own = f"{MARK} " if agent.startswith(MARK) else ""
    task = SHARED_TASKS[given["task"]] if given["shared"] else f"{own}task"
    way = SHARED_STRATEGIES[given["way"]] if given["shared"] else f"{own}way"
    ways = [StrategyUse(way)]
    if given["beside"]:
        ways.append(StrategyUse(f"{own}way beside"))
    good = given["score"] >= 0.5
    sentence = SENTENCES[given["way"] % 2]
    return {
        "task": task,
        "strategy": ways if given["tried"] else [],
        "score": given["score"],
        "agent": agent,
        "task_type": None if given["type"] is None else TYPES[given["type"]],
        "error": None if good else f"{own}it broke",
        "summary": f"{own}what was done",
        "successes": [sentence] if good else [],
        "mistakes": [] if good else [sentence],
        "mistake_cards": []
        if good
        else [
            {
                "type": "shared card",
                "worker": "worker",
                "evidence": f"{own}evidence",
                "lesson": f"{own}lesson",
            }
        ],
        "steps": [Step(action=ACTIONS[given["way"] % 2], state=STATES[given["task"] % 2])],
        "ended_at": None if given["day"] is None else DAY + timedelta(days=given["day"]),
        "source_key": f"{own}{agent}/{number}",
    }


EPISODE = st.fixed_dictionaries(
    {
        "task": st.integers(0, 2),
        "way": st.integers(0, 2),
        "shared": st.booleans(),
        "beside": st.booleans(),
        "tried": st.sampled_from([True, True, True, False]),
        "score": st.sampled_from([0.0, 0.1, 0.9, 1.0]),
        "type": st.sampled_from([None, 0, 1]),
        "day": st.none() | st.integers(0, 30),
    }
)
DEED = st.tuples(st.sampled_from([READER, READER, FRIEND, HIDDEN, STRANGER]), EPISODE)
DEEDS = st.lists(DEED, min_size=4, max_size=20)
TYPED = st.fixed_dictionaries(
    {},
    optional={
        "can_learn": st.lists(st.sampled_from([*TYPES, "*"]), max_size=2),
        "cannot_learn": st.lists(st.sampled_from(TYPES), max_size=1),
        "min_occurrences": st.integers(1, 2),
    },
)


def fill(
    memory: Memory,
    clock: Clock,
    deeds: list[tuple[str, Any]],
    scope: dict[str, Any] | None,
    *,
    hidden: bool,
) -> None:
    """Learn what was done, at the same times whether or not hidden agents are there."""
    for number, (agent, given) in enumerate(deeds):
        if agent.startswith(MARK) and not hidden:
            continue
        clock.now = 1_780_000_000_000 + number * 60_000
        memory.learn_many([episode(agent, number, given)])
        state, action = STATES[given["task"] % 2], ACTIONS[given["way"] % 2]
        memory.policies.update(
            state, action, given["score"], next_state=STATES[given["way"] % 2], agent=agent
        )
        policy = memory.policies.get(state, action, agent=agent)
        assert policy is not None
        memory.levels.default(agent)
        memory.levels.add(f"agent:{agent}:working", f"{agent} did it", key=str(number))
        memory.levels.put_lens(f"agent:{agent}:own", f"agent:{agent}:working")
        memory.predictions.expect(
            policy, probability=0.5, agent=agent, at=DAY, key=f"{agent}/{number}"
        )
    clock.now = 1_780_000_000_000 + 10_000_000
    # The reader inherits from all; only its friend shares. Scopes name hidden agents in both.
    if scope is not None:
        memory.scopes.set(READER, inherit_from=[FRIEND, HIDDEN], **scope)
        memory.scopes.set(FRIEND, share_with=[READER])
        memory.scopes.set(HIDDEN, share_with=[STRANGER])
    memory.lessons.consolidate(force=True)
    memory.upkeep.relink("hashing")


CLEAR = adhoc("MATCH (n) WHERE n.ns = $ns DETACH DELETE n RETURN count(*) AS gone", "write")
NAMES = adhoc(
    "MATCH (n) WHERE n.ns = $ns AND (n:Strategy OR n:Heuristic OR n:AntiPattern OR n:Rule OR "
    "n:Policy OR n:Entry) RETURN n.id AS id, n.text AS text",
    "read",
)
LOOSE = {"min_occurrences": 1, "anti_pattern_failures": 1}
"""Settings with which a lesson is shown from its first trial on."""


def seen(memory: Memory, names: Asked) -> dict[str, Any]:
    return {read: to_jsonable_python(ask(memory, READER, names)) for read, ask in READS.items()}


def compare(
    opened: Callable[..., Memory], clock: Clock, deeds: list[tuple[str, Any]], scope: Any
) -> None:
    """Fill a memory with and without hidden agents; what others see must be the same."""
    clock.now = None
    memory = opened()
    fill(memory, clock, deeds, scope, hidden=True)
    rows = memory.store.read(NAMES, ns=memory.namespace)
    names = tuple(sorted({name for row in rows for name in row.values() if name}))
    there = seen(memory, names)
    memory.store.write(CLEAR, ns=memory.namespace)
    memory.close()
    memory = opened()
    fill(memory, clock, deeds, scope, hidden=False)
    assert there == seen(memory, names)
    clock.now = None


def deed(agent: str, **given: Any) -> tuple[str, dict[str, Any]]:
    plain = {"task": 0, "way": 0, "shared": False, "beside": False, "tried": True, "day": 0}
    return agent, {**plain, "score": 0.0, "type": 0, **given}


UNTRIED = [deed(READER), deed(READER, type=1, tried=False), deed(HIDDEN, type=1, shared=True)]
"""Only a hidden agent tried a strategy on a type of task on which the reader noted a mistake."""
LISTED = [
    deed(READER, score=0.9, shared=True),
    *(deed(agent, shared=True) for agent in (FRIEND, HIDDEN)),
    *(deed(READER, task=1, shared=True, tried=tried) for tried in (True, False)),
]
"""A sentence is listed often enough on a task only together with what a hidden agent lists."""


@pytest.mark.slow
@hypothesis.settings(max_examples=rounds(10, 250))
@hypothesis.given(deeds=DEEDS, scope=st.none() | TYPED)
@hypothesis.example(deeds=UNTRIED, scope={"can_learn": ["*"], "cannot_learn": ["sql"]})
@hypothesis.example(deeds=LISTED, scope=None)
def test_what_an_agent_reads_is_as_if_hidden_ones_were_not_there(
    clock: Clock, deeds: list[tuple[str, Any]], scope: Any
) -> None:
    settings = Settings(embedder="hashing", **LOOSE)
    compare(
        lambda: Memory.open("memory:", namespace="isolated", settings=settings), clock, deeds, scope
    )


@pytest.mark.neo4j
@pytest.mark.parametrize("engine", ["neo4j"])
@hypothesis.settings(max_examples=10, phases=list(hypothesis.Phase)[: rounds(1, 9)])
@hypothesis.given(deeds=st.lists(DEED, min_size=4, max_size=6), scope=st.none() | TYPED)
@hypothesis.example(deeds=[*UNTRIED, *LISTED], scope={"can_learn": ["*"], "cannot_learn": ["sql"]})
def test_what_an_agent_reads_on_a_server_is_as_if_hidden_ones_were_not_there(
    opened: Opener, clock: Clock, deeds: list[tuple[str, Any]], scope: Any
) -> None:
    namespace = f"isolated-{uuid4().hex}"
    compare(lambda: opened(namespace, embedder="hashing", **LOOSE), clock, deeds, scope)
