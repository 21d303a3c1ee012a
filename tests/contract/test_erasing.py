"""Erasing and forgetting: what goes takes its exact share along, and leaves no trace."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest
import zstandard

from graphmem import Episode, Memory, Step, StrategyUse
from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.graph import Transaction
from graphmem.ids import to_millis
from graphmem.models.episodes import MistakeCard
from graphmem.store.port import Row
from graphmem.store.queries import procedure
from graphmem.upkeep import erasing
from tests.conftest import NOW, Clock, Opener
from tests.contract.teaching import (
    Interruption,
    attempts,
    checked,
    day,
    dump,
    fail,
    histories,
    learn_each,
    reference,
)
from tests.faults.attack import rounds

ZSTD = b"\x28\xb5\x2f\xfd"  # how a frame of zstandard begins
MARK = "quokka"  # a word that is nowhere else


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a server what many episodes take is taken in pages, here of four."""
    monkeypatch.setattr(erasing, "PAGE", 4)


def history(agent: str, first: int = 0, mark: str = "") -> list[Episode]:
    """Six episodes of an agent that leave something in every kind of derived item."""
    chances = {"guess": 0.5, f"{mark} look": 0.5}
    return [
        Episode(
            task=f"{mark}deploy {number % 2}",
            strategy=[f"{mark}plan", "ask"]
            if number % 3
            else [StrategyUse("guess", explore=mark or None, candidates=chances)],
            score=(0.9, 0.2, 0.95)[number % 3],
            agent=agent,
            summary=f"{mark} went on",
            error=f"{mark} timeout after {number} s" if number % 3 == 1 else None,
            feedback=f"{mark} fine",
            successes=(f"{mark} read first",),
            mistakes=(f"{mark} hurry",),
            mistake_cards=(
                MistakeCard(
                    type="skipped",
                    evidence=f"{mark} seen",
                    lesson=f"{mark} look",
                    extra={"m": mark},
                ),
            ),
            steps=(
                Step(action={"press": mark}, observation=f"{mark} page", error=f"{mark} oops"),
                Step(action="go", state={"at": number, "mark": mark}, reward=1.0, terminal=True),
            ),
            ended_at=day(number) if number % 2 else None,
            source_key=f"{agent}/{number}",
            source=f"{mark}.log",
            extra={"mark": mark},
        )
        for number in range(first, first + 6)
    ]


class TestShares:
    def test_erasing_an_agent_leaves_what_others_taught(self, memory: Memory, still: Clock) -> None:
        for pair in zip(history("anna"), history("ben", 3), strict=True):  # interleaved
            memory.learn_many(pair)
        memory.policies.update({"at": 1}, "go", 1.0, terminal=True, agent="ben")
        memory.scopes.set("ben", share_with=["*"])
        report = memory.upkeep.erase(agent="ben")
        assert (report.agent, report.episodes, report.steps) == ("ben", 6, 12)
        assert report.policies > 0
        assert "Agent" in report.removed
        assert report.compacted is (not memory.store.capabilities.server)
        assert memory.scopes.get("ben") is None
        with reference(memory) as never:
            never.learn_many(history("anna"))
            assert dump(memory) == dump(never)
        checked(memory)

    def test_the_report_of_an_episode_counts_policies_that_went_too(self, memory: Memory) -> None:
        steps = [Step(action="go", state={"at": at}) for at in (1, 2)]
        for step in (*steps, steps[0]):
            learned = memory.learn("task", "plan", steps=[step], success=True)
        assert memory.upkeep.erase(learned.episode_id).policies == 0
        one, two = (memory.upkeep.erase(row.id) for row in memory.episodes())
        assert one.policies == two.policies == one.removed.count("Policy") == 1

    def test_erasing_a_user_takes_the_episodes_along(self, memory: Memory, still: Clock) -> None:
        """Of all agents, with their exact share, and the attempts without an outcome."""
        others, own = history("anna"), [*history("ben"), *history("anna", 6)]
        memory.learn_many(others)
        memory.learn_many(one.model_copy(update={"user": "zoe"}) for one in own)
        with memory.attempt("look", user="zoe"):
            pass
        memory.learn("look", "x", success=True, user="zoe", ended_at=day(1))
        report = memory.upkeep.erase(user="zoe")
        assert (report.episodes, report.steps, report.abandoned) == (13, 24, 1)
        assert "Agent" in report.removed
        with reference(memory) as never:
            never.learn_many(others)
            assert dump(memory) == dump(never)
        checked(memory)
        with pytest.raises(NotFoundError):
            memory.upkeep.erase(user="zoe")

    def test_it_goes_on_wherever_it_was_interrupted(
        self, memory: Memory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a folder all at once; on a server episodes, events and policies go in pages."""
        memory.learn_many(history("anna"))
        before = dump(memory)
        memory.learn_many(history("ben", 3))
        for number in range(9):
            here, there = {"at": number % 5}, {"at": (number + 1) % 5}
            memory.policies.update(here, "go", 0.5, next_state=there, agent="ben")
        memory.predictions.expect(
            memory.policies.list({"at": 0}, agent="ben")[0].id, probability=0.5
        )
        interruption, times = Interruption(memory, monkeypatch), 0
        while "ben" in repr(dump(memory)):
            times += 1
            interruption.left = times
            with contextlib.suppress(KeyboardInterrupt):
                memory.upkeep.erase(agent="ben")
            if times == 2:  # on a server the first page of episodes is gone, with its share
                assert memory.stats().episodes == (8 if memory.store.capabilities.server else 6)
                checked(memory)
        assert times > (5 if memory.store.capabilities.server else 1)
        assert dump(memory) == before
        checked(memory)

    def test_erasing_all_agents_leaves_nothing(self, memory: Memory) -> None:
        """Also of one that is in scopes of others, and of one that has no episodes."""
        memory.learn_many([*history("anna"), *history("ben", 3)])
        memory.scopes.set("anna", share_with=["ben"], inherit_from=["ben"])
        memory.scopes.set("ben", share_with=["anna"])
        policy = memory.policies.update({"at": 1}, "go", 1.0, terminal=True, agent="carl").policy_id
        memory.predictions.expect(policy, probability=0.5, agent="carl")
        memory.upkeep.erase(agent="ben")
        assert "ben" not in repr(dump(memory))
        memory.lessons.merge("plan", "ask")  # both ends go at once
        memory.upkeep.erase(agent="anna")
        report = memory.upkeep.erase(agent="carl")
        assert (report.episodes, report.policies, report.predictions) == (0, 1, 1)
        assert dump(memory) == {}
        assert memory.stats().episodes == memory.stats().events == 0

    @pytest.mark.parametrize(
        "given", [{"agent": "nobody"}, {"user": "nobody"}, {"episode_id": "none"}]
    )
    def test_what_is_not_there(self, memory: Memory, given: dict[str, Any]) -> None:
        memory.learn("t", "s", success=True)
        before = dump(memory)
        with pytest.raises(NotFoundError, match=r"no (agent|user|episode) '.*' in namespace"):
            memory.upkeep.erase(**given)
        assert dump(memory) == before


WAYS: dict[str, Callable[[Memory, list[str]], object]] = {
    "one by one": lambda memory, ids: [memory.upkeep.erase(identity) for identity in ids],
    "an agent": lambda memory, ids: memory.upkeep.erase(agent="ben"),
    "all before a day": lambda memory, ids: memory.upkeep.forget(NOW - day(60), None),
}


@hypothesis.settings(max_examples=rounds(10, 1_000))
@hypothesis.given(
    known=histories(5, 15), how=st.sampled_from(sorted(WAYS)), chosen=st.sets(st.integers(0, 14))
)
def test_whatever_goes_the_rest_is_as_if_it_had_never_been(
    opened: Opener, clock: Clock, known: list[Episode], how: str, chosen: set[int]
) -> None:
    with opened(f"erase-{uuid4().hex[:12]}") as memory:
        learn_each(memory, clock, enumerate(known))
        clock.now = to_millis(NOW)
        ids = {row.id: int(str(row.source_key)) for row in memory.episodes(limit=99)}
        with contextlib.suppress(NotFoundError):
            WAYS[how](memory, [identity for identity, number in ids.items() if number in chosen])
        left = {ids[row.id] for row in memory.episodes(limit=99)}
        with reference(memory) as never:
            learn_each(never, clock, ((n, one) for n, one in enumerate(known) if n in left))
            assert known_in(memory) == known_in(never)
        checked(memory)


def known_in(memory: Memory) -> dict[str, Any]:
    """What a memory holds, but for the queue of texts to embed, which says when they came in."""
    held = dump(memory)
    return {key: value for key, value in held.items() if not key.startswith("Pending ")}


def test_sums_stay_what_is_left_however_much_went(memory: Memory, engine: str) -> None:
    """A share that is taken from a sum of floats leaves no more of it than there is."""
    many = 80 if engine == "embedded" else 21
    memory.learn_many({
        "task": "t", "strategy": ["plan", "ask"],
        "score": 0.0 if number % 20 == 0 else 1 / (1 + number % 7), "source_key": f"{number:03}",
        "ended_at": day(number % 90)} for number in range(many))  # fmt: skip
    ids = {row.source_key: row.id for row in memory.episodes(limit=many)}
    for number in range(many):
        if number % 20:
            memory.upkeep.erase(ids[f"{number:03}"])
        if number == many // 2:
            checked(memory)
    checked(memory)
    assert {row.mean_score for row in memory.strategies()} == {0.0}


@pytest.mark.parametrize("success", [True, False])
def test_the_latest_evidence_is_right_after_equal_outcomes(memory: Memory, success: bool) -> None:
    """A batch links only its own latest episodes, so links to earlier ones are missing."""
    memory.learn("t", "plan", success=success, error="timeout", ended_at=day(-90))
    batch = {"task": "t", "strategy": "plan", "success": success, "error": "timeout"}
    memory.learn_many([batch] * 25)
    for identity in sorted((row.id for row in memory.episodes(limit=99)), reverse=True)[1:3]:
        memory.upkeep.erase(identity)
        checked(memory)


class TestForgetting:
    def old(self, memory: Memory) -> dict[str, list[str]]:
        """Old and new episodes of what works and of what does not."""
        ids: dict[str, list[str]] = {}
        for name, at in (("old", NOW - timedelta(days=91)), ("new", NOW - timedelta(days=89))):
            ids[f"{name} good"] = attempts(memory, "plan", 4, ended_at=at)
            ids[f"{name} bad"] = [
                fail(memory, "hope", f"timeout after {n} s", ended_at=at) for n in range(4)
            ]
        return ids

    def test_both_conditions_or_any_of_them(self, memory: Memory, still: Clock) -> None:
        ids = self.old(memory)
        cases: list[tuple[dict[str, object], set[str]]] = [
            ({"older_than": 90}, {"old good", "old bad"}),
            ({"below_confidence": 0.3}, {"old bad", "new bad"}),
            ({"older_than": 91, "below_confidence": 1.0}, set()),  # before, not at
            ({"older_than": timedelta(days=90, hours=12)}, {"old good", "old bad"}),
            ({"older_than": 90, "below_confidence": 0.3}, {"old bad"}),
            (
                {"older_than": 90, "below_confidence": 0.3, "any": True},
                {"old good", "old bad", "new bad"},
            ),
            ({"older_than": 0, "below_confidence": 1.0}, set(ids)),
            ({"agent": "nobody", "older_than": 0}, set()),
        ]
        for asked, names in cases:
            report = memory.upkeep.forget(**asked, dry_run=True)  # type: ignore[arg-type]
            assert set(report.episode_ids) == {one for name in names for one in ids[name]}, asked
        assert memory.upkeep.forget(90, 0.3).before == NOW - timedelta(days=90)
        assert memory.upkeep.forget(90, 0.3).episodes == 0

    @pytest.mark.parametrize(
        ("keep", "beyond", "left"), [("10 episodes", 6, 10), ("90 days", 8, 9)]
    )
    def test_it_forgets_by_itself_where_a_setting_says_so(
        self, opened: Opener, still: Clock, keep: str, beyond: int, left: int
    ) -> None:
        with opened() as memory:
            self.old(memory)
        with opened(memory.namespace, keep=keep) as memory:
            assert memory.upkeep.forget(dry_run=True).episodes == beyond
            with pytest.raises(ValidationError, match="older_than: is missing"):
                memory.upkeep.forget(agent="anna", dry_run=True)
            for _ in range(2):  # at most once an hour
                memory.learn("deploy", "plan", success=True)
            assert memory.stats().episodes == left + 1
            told = [event for event in memory.events.tail(99) if event.kind == "erased"]
            assert sum(event.value or 0 for event in told) == 17 - left
            checked(memory)

    def test_confidence_is_that_of_agent_and_type(self, memory: Memory, still: Clock) -> None:
        hers = attempts(memory, "plan", 0, 4, agent="anna", task_type="x")
        attempts(memory, "plan", 4, agent="ben", task_type="x")
        attempts(memory, "plan", 4, agent="anna", task_type="y")
        assert set(memory.upkeep.forget(None, 0.3, dry_run=True).episode_ids) == set(hers)

    def test_one_believed_strategy_keeps_an_episode(self, memory: Memory) -> None:
        attempts(memory, "plan", 4)
        kept = memory.learn("deploy", ["hope", "plan"], success=False).episode_id
        none = memory.learn("deploy", [], success=False).episode_id  # it has none to doubt
        gone = memory.learn("deploy", "hope", success=False, error="boom").episode_id
        assert memory.upkeep.forget(None, 0.3, dry_run=True).episode_ids == (gone,)
        assert {kept, none}.isdisjoint(memory.upkeep.forget(None, 0.3).episode_ids)

    @pytest.mark.parametrize(
        ("older_than", "below"), [(None, 0.3), (100, None), (100, 0.55), (0, 1.0)]
    )
    def test_a_dry_run_says_what_goes_and_changes_nothing(
        self,
        memory: Memory,
        still: Clock,
        monkeypatch: pytest.MonkeyPatch,
        older_than: float | None,
        below: float | None,
    ) -> None:
        memory.learn_many([*history("anna"), *history("ben", 3)])
        self.old(memory)
        before = dump(memory)
        run = Transaction.run

        def reading(tx: Transaction, name: str, /, *options: str, **params: Any) -> list[Row]:
            assert procedure(name).mode == "read"
            return run(tx, name, *options, **params)

        with monkeypatch.context() as patched:
            patched.setattr(Transaction, "run", reading)
            dry = memory.upkeep.forget(older_than, below, dry_run=True)
        assert dry.dry_run
        assert not dry.compacted
        assert dump(memory) == before
        checked(memory)
        real = memory.upkeep.forget(older_than, below)
        beside = {"dry_run", "compacted", "removed"}
        assert real.model_dump(exclude=beside) == dry.model_dump(exclude=beside)
        assert dry.episodes > 0
        assert dry.removed == {}
        checked(memory)


def plant(memory: Memory) -> None:
    """Leave the mark wherever text of an agent or a user can be."""
    memory.learn_many(history(f"{MARK} agent", mark=MARK))
    memory.learn_many(history("anna"))
    memory.policies.update({"mark": MARK}, MARK, 1.0, terminal=True, agent=f"{MARK} agent")
    memory.policies.learn_episodes()
    memory.predictions.expect(f"{MARK}plan", probability=0.5, agent=f"{MARK} agent")
    memory.scopes.set(f"{MARK} agent", share_with=[f"{MARK} friend"])
    memory.scopes.set("anna", share_with=[f"{MARK} agent"])
    memory.people.prefer(f"{MARK} user", "tone", f"{MARK} short", at=day(1))
    memory.people.prefer(f"{MARK} user", "tone", f"{MARK} shorter", at=day(2))
    memory.people.know("billing", f"{MARK} is due", user=f"{MARK} user")


ERASERS: dict[str, Callable[[Memory], object]] = {
    "erasing": lambda memory: memory.upkeep.erase(agent=f"{MARK} agent"),
    "forgetting": lambda memory: (
        memory.upkeep.forget(0, None, agent=f"{MARK} agent"),
        memory.upkeep.erase(agent=f"{MARK} agent"),
    ),
}


@pytest.mark.parametrize("how", list(ERASERS))
@pytest.mark.parametrize("engine", ["embedded"])
def test_no_trace_is_left_on_disk(opened: Opener, url: str, how: str) -> None:
    memory = opened()
    memory.learn("t", "ask", success=True)
    plant(memory)
    assert found_on_disk(url)  # in the log
    memory.upkeep.erase(user=f"{MARK} user")
    assert found_on_disk(url)  # in the graph file, compressed: what an agent left is still there
    ERASERS[how](memory)
    assert found_on_disk(url) == []
    checked(memory)
    memory.close()
    assert found_on_disk(url) == []


@pytest.mark.parametrize("what", ["user", "episode"])
@pytest.mark.parametrize("engine", ["embedded"])
def test_of_a_user_no_trace_is_left_at_once_of_an_episode_after_closing(
    opened: Opener, url: str, what: str
) -> None:
    memory = opened()
    memory.people.prefer(f"{MARK} user" if what == "user" else "ben", "tone", "short")
    words = f"{MARK} ask" if what == "episode" else "ask"
    gone = memory.learn("t", words, success=True, summary=words).episode_id
    memory.close()
    assert found_on_disk(url)
    memory = opened()
    erased: dict[str, Any] = {"user": f"{MARK} user"} if what == "user" else {"episode_id": gone}
    assert memory.upkeep.erase(**erased).compacted is (what == "user")
    if what == "episode":
        memory.close()
    assert found_on_disk(url) == []


@pytest.mark.neo4j
@pytest.mark.parametrize("engine", ["neo4j"])
def test_no_query_finds_a_trace_on_a_server(memory: Memory) -> None:
    plant(memory)
    assert found_by_queries(memory)
    assert not memory.upkeep.erase(agent=f"{MARK} agent").compacted
    assert found_by_queries(memory)  # what the user left
    assert not memory.upkeep.erase(user=f"{MARK} user").compacted
    assert found_by_queries(memory) == []
    memory.learn("t", f"{MARK} ask", success=True, ended_at=day(0))
    report = memory.upkeep.forget(1, None)
    assert (report.compacted, found_by_queries(memory)) == (False, [])


def found_by_queries(memory: Memory) -> list[str]:
    """Every property of a node or an edge of the namespace that holds the mark."""
    rows = memory.query(
        "MATCH (n) WHERE n.ns = $ns RETURN labels(n)[0] AS where, properties(n) AS held"
    ) + memory.query(
        "MATCH (n)-[r]-() WHERE n.ns = $ns RETURN type(r) AS where, properties(r) AS held"
    )
    return [
        f"{row['where']}.{name}"
        for row in rows
        for name, value in row["held"].items()
        if MARK in repr(value)
    ]


def found_on_disk(folder: str) -> list[str]:
    """Every file below a folder that holds the mark, as it is or in a frame of zstandard."""
    files = [path for path in Path(folder).rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files if any(MARK.encode() in held for held in _read(path))]


def _read(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and those of every frame in it."""
    held = path.read_bytes()
    yield held
    for frame in re.finditer(re.escape(ZSTD), held):
        reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(held[frame.start() :]))
        found = b""
        try:
            while piece := reader.read(1 << 20):
                found += piece
        except zstandard.ZstdError:
            pass  # these four bytes began no frame, or one that ends early: what it held counts
        yield found
