"""What holds for all public methods: wrong arguments are named and write nothing, nothing crosses
namespaces, AsyncMemory has them all, and the longest texts are stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar, assert_type
from uuid import uuid4

import pydantic
import pytest

from graphmem import AsyncMemory, Episode, Memory, Settings, Step, StrategyUse
from graphmem.episodes.attempts import AsyncAttempt
from graphmem.errors import GraphMemError, NotFoundError, SettingsError, ValidationError
from graphmem.levels.producers import Watch
from graphmem.models.advice import Choice
from graphmem.models.fields import MAX_KEY, MAX_TYPE
from graphmem.models.lessons import Heuristic
from graphmem.models.levels import Found, Level
from graphmem.models.people import Preference, Scope
from graphmem.models.policies import Cycle, Policy, Prediction
from graphmem.models.reports import Learned, RebuildReport, VerifyReport
from graphmem.notebook import Listed
from graphmem.policies.events import Consumer
from graphmem.store.port import Rows
from tests.conftest import Opener
from tests.contract.calling import DAY, FILES, PLAIN, call, calls, methods, parameters, populate
from tests.contract.teaching import dump, some

NAN, INFINITE, HUGE, LONE = math.nan, math.inf, 10**400, "half of \ud83d"
NAIVE = datetime(2026, 5, 1)
MOMENTS = (NAIVE, "today", datetime(9000, 1, 1, tzinfo=UTC))
NUMBERS = (0, -1, 1.5, True, "10", 10**30)
TEXTS = (7, LONE, ["x"])
NAMES = ("", *TEXTS)
CONFIDENCES = (NAN, INFINITE, 2, -0.1, "x", "0.5", True, None)
CHANCES = (1.1, -0.1, NAN, True, "0.5")
SEEDS = (-1, 1.0, True)
MANY = [str(number) for number in range(201)]

WRONG: dict[str, dict[str, Sequence[Any]]] = {
    "attempt": {
        "task": ("", 3),
        "agent": ("",),
        "task_type": (3,),
        "max_tokens": (0,),
        "strict": (1,),
        "judge": (3,),
        "started_at": (NAIVE,),
    },
    "choose": {
        "candidates": ([], "ask", MANY),
        "candidates.0": (["a" * 10_001],),
        "candidates.1": (["ask", ""], ["ask", 3]),
        "task": ("", None),
        "task_type": ("",),
        "agent": ("",),
        "explore": ("luck", None),
        "epsilon": (1.1, NAN),
        "width": (-1.0,),
        "seed": SEEDS,
    },
    "context": {
        "max_tokens": (0, -1, 1.5, True, "9", None),
        "task": ("", 1, LONE),
        "agent": ("",),
        "lens": ("",),
    },
    "episodes": {"since": MOMENTS[:2], "task": ("",), "task_type": NAMES, "strategy": ("  ",)},
    "evaluate": {
        "explore": ("random", 5),
        "epsilon": (1.5,),
        "width": (-1.0,),
        "seed": SEEDS,
        "clip": (0.5, NAN, True),
        "resamples": (99,),
        "on_progress": (5,),
    },
    "changes": {"task": NAMES, "agent": NAMES, "after": MOMENTS[:2]},
    "explain": {
        "item": ("", "  ", LONE, "x" * 10_001, 7, None, b"x", object()),
        "task": ("",),
        "as_of": MOMENTS,
    },
    "learn_many": {
        "episodes": (None, 5),
        "on_error": ("ignore", "", None, 1, "Raise"),
        "batch_size": (*NUMBERS, 100_001, None),
    },
    "predict": {
        "task": ("", "  ", LONE, None),
        "strategy": (["ask"],),
        "together": ([], 7, MANY, "ask"),
        "together.0": ([""], [LONE], [7]),
        "together.1": (["ask", ""],),
        "agent": ("",),
        "as_of": MOMENTS,
    },
    "recall": {
        "text": ("", " \n", "x" * 100_001, LONE, 7),
        "limit": (0, 101, True),
        "max_hops": (-1, 5, 1.0),
        "agent": ("",),
        "at": (NAIVE, "today"),
        "as_of": MOMENTS,
    },
    "tasks": {"task_type": NAMES},
    "strategies": {"task": NAMES, "limit": NUMBERS, "as_of": MOMENTS},
    "cycles.examine": {
        "timezone": ("Europe/Atlantis", "", "../etc/passwd", None),
        "alpha": (0, 1, NAN),
        "at_least": (0, 2.5),
        "only": ("both",),
    },
    "events.listen": {
        "kinds.0": ("entries",),
        "kinds": ([],),
        "group": ("", 7),
        "consumer": (" ", "\ud800"),
        "agent": ("",),
        "limit": (0, True, 2.0),
        "idle": (0,),
        "follow": (1,),
    },
    "events.pending": {"group": ("",)},
    "events.tail": {"limit": (0,), "after": ("a", ["a"]), "after.a": ({"a": -1}, {"a": True})},
    "lessons.anti_patterns": {"agent": NAMES, "task_type": TEXTS, "min_confidence": CONFIDENCES},
    "lessons.heuristics": {"agent": NAMES, "task_type": TEXTS, "min_confidence": CONFIDENCES},
    "lessons.merge": {"strategy": (5, None, LONE), "other": (5, None, LONE)},
    "lessons.mistakes": {"limit": NUMBERS, "agent": NAMES, "task": NAMES, "worker": NAMES},
    "lessons.rules": {"limit": NUMBERS, "agent": NAMES, "task": NAMES},
    "lessons.unmerge": {"strategy": (5, None, LONE)},
    "levels.add": {
        "content": (None, "", "x" * 1_000_001, NAN, {1}, "\ud800"),
        "tags": ("text", 7),
        "tags.0": ([1], [""]),
        "ttl": (0, -1.0, NAN, "1"),
        "relevance": (0.0, 2.0),
        "key": ("",),
        "metadata.a": ({"a": {1}},),
        "at": (NAIVE,),
    },
    "levels.prolong": {"ttl": (0,)},
    "levels.start": {"every": (0, -1, NAN, "often")},
    "levels.tick": {"agent": (7,)},
    "levels.put": {"ttl": (0, INFINITE), "capacity": (0,)},
    "levels.put_lens": {"levels": ([], 3), "tags": (["a"],), "limit": (0,), "max_age": (0,)},
    "people.know": {
        "domain": (" ",),
        "fact": ("", "x" * 1_000_000),
        "source": ("rumour",),
        "user": (7,),
        "contradicts.0": (7,),
        "contradicts.1": (["x", None],),
        "at": (NAIVE,),
        "contradicts": (["x"] * 1_001,),
    },
    "people.knowledge": {"limit": (0,)},
    "people.prefer": {
        "user": (" ", None),
        "category": ("", 7),
        "text": ("\n", "x" * 1_000_000, LONE),
        "source": ("rumour", None),
        "at": (NAIVE, "yesterday"),
    },
    "policies.crystallize": {
        "min_events": (0, -1, 1.5, True, "3"),
        "threshold": (-0.1, 1.0, 2, NAN, INFINITE, "0.6", True, HUGE),
        "z": (0, -1.96, 10.1, NAN, INFINITE, "1.96", True, HUGE),
        "agent": (3, LONE),
    },
    "policies.link": {"weight": (-0.1, 1.1, NAN, True)},
    "policies.linked": {"policy": (LONE, 3), "limit": (0, 1.5, True)},
    "policies.propagate": {
        "depth": (-1, 11, 1.0),
        "decay_per_hop": (1, -0.1, NAN),
        "threshold": (NAN,),
    },
    "policies.strengthen": {"delta": (0, -1, NAN, "1")},
    "policies.weaken": {"factor": (-0.1, 1.1, NAN, 2)},
    "predictions.expect": {
        "probability": CHANCES,
        "outcome": ([1], {"a": INFINITE}, {"a": HUGE}),
        "outcome.a": ({"a": {1, 2}},),
        "outcome.1.[key]": ({1: 2},),
        "at": (NAIVE,),
        "due": ("tomorrow", DAY - timedelta(days=1)),
        "agent": (" ",),
        "key": ("",),
        "subject": (" ", 5, "\ud800", SimpleNamespace(id=7)),
    },
    "predictions.expire": {"now": (NAIVE,)},
    "predictions.feedback": {"how": ("liked",), "subject": (5,)},
    "predictions.list": {"status": ("lost",), "limit": (0,)},
    "predictions.resolve": {"happened": (1, "yes"), "actual": ("yes", {"a": NAN}, {"a": -HUGE})},
    "scopes.get": {"agent": ("", None, 7, "*")},
    "scopes.remove": {"agent": ("", None, 7, "*")},
    "scopes.set": {
        "agent": ("", "*", None),
        "can_learn": ("sql", ["x"] * 1_001),
        "can_learn.0": ([None],),
        "cannot_learn": (None,),
        "cannot_learn.1": (["sql", " "],),
        "share_with": ("bob",),
        "share_with.0": ([7],),
        "inherit_from.0": (["*"],),
        "inherit_from": ({"bob": 1},),
        "min_occurrences": (0, 2.0, True, 10**20),
    },
    "upkeep.forget": {
        "older_than": (-1, timedelta(days=-1), "90", True, NAN, INFINITE),
        "below_confidence": (1.5, -0.1, NAN, "0.3"),
        "agent": ("", 5),
    },
}
"""What is wrong of each argument, beside others that are right."""
TOGETHER: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("evaluate", "explore", {"explore": None}),
    ("evaluate", "strategies", {"explore": None, "strategies": []}),
    ("evaluate", "strategies", {"explore": None, "strategies": 5}),
    ("evaluate", "strategies.0", {"explore": None, "strategies": [""]}),
    ("evaluate", "strategies.1", {"explore": None, "strategies": ["a", 5]}),
    ("predictions.expect", "probability", {"probability": None}),
    ("predictions.resolve", "actual", {"happened": None}),
    ("predictions.resolve", "happened", {"happened": None, "actual": {"a": 1}}),
    ("upkeep.erase", "episode_id", {"user": "x"}),
    ("upkeep.erase", "episode_id", {"agent": "x", "user": "x"}),
    ("upkeep.erase", "episode_id", {"episode_id": None}),
    ("upkeep.erase", "episode_id", {"episode_id": None, "agent": "x", "user": "x"}),
    ("upkeep.forget", "older_than", {"older_than": None, "below_confidence": None}),
)
"""What is wrong only together, or where something else is missing."""


def test_what_is_wrong_is_named_and_nothing_is_written(opened: Opener, tmp_path: Path) -> None:
    memory = opened(embedder="hashing")
    populate(memory, "wrong")
    usual = calls(memory, tmp_path)
    before, stats = dump(memory), memory.stats()
    cases: list[tuple[str, str, dict[str, Any]]] = [
        *(
            (name, field, {field.partition(".")[0]: value})
            for name, fields in WRONG.items()
            for field, values in fields.items()
            for value in values
        ),
        *TOGETHER,
    ]
    for name, field, wrong in cases:
        with pytest.raises(ValidationError) as caught:
            call(memory, name, usual[name]() | wrong)
        error, text = caught.value, str(caught.value)
        assert error.field == field, (name, field, text)
        assert text.startswith(field)
        assert len(text.encode()) < 1_000  # brief, and can be printed
        assert not error.retryable
    assert dump(memory) == before
    assert memory.stats() == stats


GOOD = [{"task": "t", "strategy": "s", "success": True}]


@pytest.mark.parametrize(
    ("name", "wrong", "remedy"),
    [
        ("choose", {"explore": "luck"}, "give one of thompson, greedy, ucb, epsilon"),
        ("explain", {"kind": "idea"}, "give one of strategy, heuristic"),
        ("upkeep.erase", {"user": "x"}, "give one of episode_id, agent, user, source"),
        ("choose", {"candidates": "ask"}, r"must be a list \(got 'ask'\); give a list"),
        ("learn", {"strategy": None}, r"is missing; give a text, or \[\] for none"),
        ("context", {"max_tokens": 0}, r"greater than or equal to 1 \(got 0\)$"),
        ("predict", {"strategy": ["ask"]}, "is not one strategy .*together="),
        (
            "learn_many",
            {"episodes": [*GOOD, {"task": "t", "strategy": "s"}]},
            r"episodes\.1\.success: the outcome is unknown",
        ),
    ],
)
def test_the_remedy_lists_what_there_is(
    memory: Memory, tmp_path: Path, name: str, wrong: dict[str, Any], remedy: str
) -> None:
    memory.learn("a task", "ask", success=True)
    with pytest.raises(ValidationError, match=remedy):
        call(memory, name, calls(memory, tmp_path)[name]() | wrong)


@pytest.mark.parametrize(
    ("ask", "error", "told"),
    [
        (lambda memory: memory.learn("t", "s", sucess=True), TypeError, "did you mean 'success'"),
        (
            lambda memory: memory.learn("t", "s", outcome=True),
            TypeError,
            "there are .* success, score",
        ),
        (lambda memory: memory.recall("t", k=3), TypeError, "'k'; there are text, limit, agent"),
        (lambda memory: type(memory).open(namepace="x"), TypeError, "did you mean 'namespace'"),
        (lambda memory: memory.erase("x"), AttributeError, "there is memory.upkeep.erase"),
        (lambda memory: memory.search("x"), AttributeError, "there is memory.recall"),
        (lambda memory: memory.add("x"), AttributeError, "memory.learn for an outcome"),
        (lambda memory: type(memory).open("$NOPE/m"), SettingsError, "environment has no .NOPE"),
    ],
)
def test_a_wrong_name_is_told_the_right_one(
    memory: Memory, ask: Callable[[Any], object], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        ask(memory)


def test_a_path_without_a_memory_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HERE", str(tmp_path))
    with pytest.raises(NotFoundError, match="no memory at "):
        Memory.open("$HERE/wrong", create=False)
    with Memory.open("${HERE}/new") as memory:
        assert [memory.recall("t").items, memory.recall("t").items] == [(), ()]
        [record] = caplog.records
        assert f"there is no memory at {tmp_path}/new yet" in record.getMessage()
        memory.learn("t", "s", success=True)
    with Memory.open(tmp_path / "new", create=False) as memory:
        assert memory.stats().episodes == 1
    assert len(caplog.records) == 1


# Nothing crosses from one namespace of a store to another

WHOLE = FILES | {"close", "query"}
"""Methods that concern the store, or run the Cypher that they are given."""


def texts(answer: Any) -> set[str]:
    """All texts in an answer."""
    if isinstance(answer, str):
        return {answer}
    if isinstance(answer, pydantic.BaseModel):
        return texts(answer.model_dump())
    if isinstance(answer, dict):
        return texts(list(answer.items()))
    if isinstance(answer, list | tuple | set):
        return {text for value in answer for text in texts(value)}
    return set()


def test_every_method_stays_in_its_namespace(opened: Opener, tmp_path: Path) -> None:
    """Each is called with what fits its own namespace, as it must, and with what fits the other."""
    own, other = (opened(f"{name}-{uuid4().hex}", embedder="hashing") for name in ("a", "b"))
    populate(own, "own")
    populate(other, "OTHER")
    own.upkeep.relink()
    other.upkeep.relink()
    there = dump(other)
    ids = {key.split()[1] for key in there}
    for target in (own, other):
        (tmp_path / target.namespace).mkdir()
        every = calls(target, tmp_path / target.namespace)
        assert every.keys() == methods(own).keys() - {"open", "current_attempt"}
        for name, arguments in every.items():
            given, taken = arguments(), parameters(methods(own)[name])
            assert {one.name for one in taken if one.kind is not one.VAR_KEYWORD} == given.keys()
            if name in WHOLE:
                continue
            asked = texts(list(given.values()))
            answer = set[str]()
            with contextlib.suppress(*[GraphMemError] if target is other else []):
                answer = texts(call(own, name, given))
            assert not answer & (ids - asked), f"{name} told an id of another namespace"
            told = {text for text in answer - asked if "OTHER" in text}
            assert not told, f"{name} told what another namespace holds"
    assert dump(other) == there
    assert other.verify().ok
    assert own.verify().ok


# AsyncMemory offers the methods of Memory and of its parts, awaited

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
            assert some(await memory.policies.best({"place": 1})).q == step.q
            assert len(await memory.events.tail(100)) == 22
            [heuristic] = await memory.lessons.heuristics(agent="default")
            assert (heuristic.trials, heuristic.successes) == (21, 20)
            assert (await memory.verify()).ok
            assert (await memory.upkeep.erase(learned[0].episode_id)).steps == 0
            assert (await memory.stats()).episodes == 20

    asyncio.run(work())


# What AsyncMemory returns, as type checkers see it; mypy checks these lines with all others

P = ParamSpec("P")
R = TypeVar("R")


def result(method: Callable[P, Coroutine[Any, Any, R]]) -> R:
    """Stand for what a method returns that is awaited."""
    raise NotImplementedError(method)


def made(method: Callable[P, R]) -> R:
    """Stand for what a method returns that is not."""
    raise NotImplementedError(method)


def checked(memory: AsyncMemory) -> None:
    """Is never called: one method of each wrapper, and of each part."""
    assert_type(result(memory.close), None)
    assert_type(result(memory.learn), Learned)
    assert_type(made(memory.attempt), AsyncAttempt)
    assert_type(made(memory.watch), Watch)
    assert_type(result(memory.choose), Choice)
    assert_type(result(memory.query), Rows)
    assert_type(result(memory.verify), VerifyReport)
    assert_type(result(memory.lessons.heuristics), Listed[Heuristic])
    assert_type(result(memory.policies.best), Policy | None)
    assert_type(result(memory.levels.put), Level)
    assert_type(result(memory.people.prefer), Preference)
    assert_type(result(memory.scopes.get), Scope | None)
    assert_type(made(memory.events.listen), Consumer)
    assert_type(result(memory.predictions.expect), Prediction)
    assert_type(result(memory.cycles.list), Listed[Cycle])
    assert_type(result(memory.upkeep.rebuild), RebuildReport)
    assert_type(result(memory.levels.recall), Listed[Found])


async def used(memory: AsyncMemory) -> None:
    """Is never called, either: arguments are known, too, and decorators keep what they get."""
    assert_type(await memory.learn("a task", "a way", success=True), Learned)
    await memory.learn("a task", 1, success=True)  # type: ignore[arg-type]
    await memory.learn("a task", "a way", succes=True)  # type: ignore[call-arg]

    @memory.remember("agent:ada:working")
    def seen(number: int) -> str:
        return str(number)

    assert_type(seen(1), str)
    seen("one")  # type: ignore[arg-type]


# The longest texts that are accepted are stored by both engines; longer ones are refused

WIDE = "\U0001d518"  # a letter of four bytes, the most that there are
GROWING = "\U0001d160"  # one character that normalizing makes three of, of twelve bytes


def longest(length: int, what: str = "") -> str:
    return what + WIDE * (length - len(what))


def test_the_longest_texts_are_stored(opened: Opener) -> None:
    """Whatever is a key of an index of a server fits there, together with the namespace."""
    memory = opened(longest(200, f"{uuid4().hex} "), embedder="hashing")
    key, kind = longest(MAX_KEY), longest(MAX_TYPE)
    given: dict[str, Any] = {
        **dict.fromkeys(("task", "task_key", "agent", "source"), key),
        "task_type": kind,
        "strategy": [StrategyUse(key), StrategyUse(longest(MAX_KEY, "b"))],
        "score": 0.1,
        "error": longest(MAX_KEY, "error "),
        "steps": [Step(action_type=key, action=key, state={key: key}, reward=1.0)],
        "successes": [key],
        "mistakes": [longest(MAX_KEY, "m")],
        "mistake_cards": [dict.fromkeys(("type", "task", "worker", "correct_decision"), key)],
    }
    for place in range(3):  # the second time by one statement, in which all is known
        memory.learn_many([{**given, "source_key": longest(MAX_KEY, str(place))}])
        memory.learn(key, key, success=False, agent=key, task_type=kind, error=key)
    policies = memory.policies
    policies.update({key: key}, key, 1.0, next_state={key: 1}, agent=key)
    policy = policies.get({key: key}, key, agent=key)
    assert policy is not None
    memory.predictions.expect(policy, probability=0.5, agent=key, key=key)
    memory.people.prefer(key, key, key)
    memory.people.know(key, key, user=key)
    memory.scopes.set(key, can_learn=[key, "*"], share_with=[key], inherit_from=[longest(9)])
    assert list(memory.events.listen(key, consumer=key, agent=key, follow=False))
    assert memory.recall(key[:100]).items
    assert memory.context(key, agent=key)
    assert memory.lessons.anti_patterns(kind, agent=key)
    assert memory.verify().ok


@pytest.mark.parametrize("given", [WIDE * (MAX_TYPE + 1), GROWING * MAX_TYPE])
def test_a_longer_type_of_task_is_refused(memory: Memory, given: str) -> None:
    with pytest.raises(ValidationError, match="at most") as caught:
        memory.learn("task", "strategy", success=True, task_type=given)
    assert caught.value.field == "task_type"
    assert memory.stats().episodes == 0


def test_a_type_that_normalizing_makes_longer_fits(memory: Memory) -> None:
    memory.learn("task", "strategy", success=True, task_type=GROWING * (MAX_TYPE // 3))
    assert memory.verify().ok
