"""Many at once, and closing beside them: nothing is lost or counted twice, and errors say why."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from graphmem import Memory, Settings
from graphmem.errors import LockedError, StoreError, UnavailableError
from graphmem.models.episodes import MistakeCard
from graphmem.store import embedded_sessions
from graphmem.store.port import CLOSED, ChangedError, Transaction
from graphmem.store.queries import adhoc
from tests.conftest import Opener
from tests.faults.attack import rounds
from tests.faults.learner import BATCH, Learner, batch, content, environment, episode, keys
from tests.neo4j.server import Found


def check_exactly(memory: Memory, episodes: int, opened: Opener) -> None:
    """The memory holds the first ``episodes`` once each, as if one had learned them in order."""
    assert keys(memory) == sorted(f"run/{number}" for number in range(episodes))
    assert not memory.verify().differences
    alone = opened(f"alone-{uuid4().hex}") if memory.store.capabilities.server else None
    with alone or Memory.open("memory:") as one:
        one.learn_many([episode(number) for number in range(episodes)])
        assert content(memory) == content(one)


@pytest.fixture
def impatient(neo4j: Found) -> Iterator[Memory]:
    """A memory on the server, for only there can a writer be overtaken."""
    settings = Settings(user=neo4j.user, password=neo4j.password, wait=0.01)
    with Memory.open(neo4j.uri, namespace=f"test-{uuid4().hex}", settings=settings) as memory:
        yield memory


@pytest.mark.neo4j
def test_what_an_attempt_waited_is_not_taken_from_the_next(impatient: Memory) -> None:
    """However long others held the locks: the time to retry begins when the first one failed."""
    attempts = 0

    def work(_: Transaction) -> str:
        nonlocal attempts
        attempts += 1
        if attempts < 4:
            time.sleep(0.05)
            raise ChangedError("somebody else was first")
        return "written"

    assert impatient.store.transact(work) == "written"


@pytest.mark.neo4j
def test_who_loses_every_race_is_told(impatient: Memory) -> None:
    def work(_: Transaction) -> None:
        raise ChangedError("somebody else was first")

    with pytest.raises(UnavailableError, match="somebody else was first"):
        impatient.store.transact(work)


def test_readers_beside_a_writing_thread_see_whole_batches_only(memory: Memory) -> None:
    stop = threading.Event()
    seen: list[int] = []

    def read() -> None:
        while not stop.is_set():
            seen.append(memory.stats().episodes)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(5):
            memory.learn_many(batch(number))
    finally:
        stop.set()
        reader.join()
    assert seen == sorted(seen)
    if "neo4j" not in memory.stats().engine.lower():  # a server shows a commit while it is applied
        assert all(count % BATCH == 0 for count in seen)


@pytest.mark.neo4j
@pytest.mark.parametrize("engine", ["neo4j"], indirect=True)
def test_processes_that_learn_overlapping_things_on_a_server(
    url: str, settings: Settings, opened: Opener
) -> None:
    namespace = f"test-{uuid4().hex}"
    surroundings = environment(url, namespace, settings)
    learners = [Learner(surroundings, first, first + 4) for first in (0, 1, 2, 2)]

    assert [learner.finish() for learner in learners] == [0, 0, 0, 0]
    assert sum(sum(learner.acknowledged.values()) for learner in learners) == 6 * BATCH
    check_exactly(opened(namespace), 6 * BATCH, opened)


def test_learning_erasing_and_merging_the_same_things_at_once_loses_nothing(
    memory: Memory, engine: str
) -> None:
    """What one thread erases may be what another has just found and builds on, lessons, too."""
    turns, threads = 40 if engine == "embedded" else 15, 3
    pair = [memory.learn("t", text, success=True).episode_id for text in ("first", "second")]

    def work(number: int) -> int:
        done = 0
        for turn in range(turns):
            failed = turn % 3 == 0
            learned = memory.learn(
                "rare task",
                ["rare strategy", "other"],
                success=not failed,
                agent="rare agent",
                task_type="x",
                error=f"timeout after {turn} s" if failed else None,
                successes=["read first", f"look at {turn % 3}"],
                mistakes=["hurry", "read first"] if failed else [],
                mistake_cards=[MistakeCard(type=f"skipped {turn % 2}", lesson=f"lesson {turn}")],
                source_key=f"{number}/{turn}",
            )
            assert learned.created
            if turn < turns - 1:
                memory.upkeep.erase(learned.episode_id)
                done += 1
        return done

    def merge() -> None:
        for _ in range(5):
            memory.lessons.merge("first", "second")
            memory.lessons.unmerge("first")

    with ThreadPoolExecutor(threads + 1) as pool:
        merging = pool.submit(merge)
        erased = sum(pool.map(work, range(threads)))
        merging.result()
    for episode_id in pair:
        memory.upkeep.erase(episode_id)
    left = turns * threads - erased
    assert memory.stats().episodes == left
    assert {row.text: row.trials for row in memory.strategies()} == {
        "rare strategy": left,
        "other": left,
    }
    assert not memory.verify().differences
    for row in memory.episodes(strategy="rare strategy", limit=left):
        memory.upkeep.erase(row.id)
    stats = memory.stats()
    assert (stats.episodes, stats.strategies, stats.tasks, stats.agents) == (0, 0, 0, 0)
    assert not memory.lessons.mistakes()
    assert not memory.lessons.rules()


CREATE = adhoc("CREATE (a:Agent {id: $id, ns: $ns})", "write")
AGENTS = adhoc("MATCH (a:Agent) WHERE a.ns = $ns RETURN a.id AS id ORDER BY id DESC")
WORK: list[Callable[[Memory, str], object]] = [
    lambda memory, key: memory.learn("a task", "a strategy", success=True, source_key=key),
    lambda memory, _: memory.recall("a task"),
    lambda memory, key: memory.policies.update({"at": key}, "go", 1.0, terminal=True),
    lambda memory, _: memory.strategies("a task"),
    lambda memory, key: memory.learn(f"task {key}", f"way {key}", success=False, source_key=key),
    lambda memory, _: memory.context("a task"),
    lambda memory, _: memory.policies.best({"at": "0/0"}),
    lambda memory, _: memory.verify(),
    lambda memory, _: memory.similar("a strategy"),
]


def working(memory: Memory, thread: int, ready: threading.Barrier) -> tuple[list[str], list[str]]:
    """Work until the memory is closed; return what was learned, and errors without that reason."""
    learned: list[str] = []
    work = WORK[thread]
    ready.wait(30)
    for turn in range(100_000):
        key = f"{thread}/{turn}"
        try:
            work(memory, key)
        except Exception as error:  # noqa: BLE001 - none but that one is right
            right = type(error) is StoreError and str(error) == CLOSED
            return learned, [] if right else [repr(error)]
        if thread in (0, 4):
            learned.append(key)
    raise AssertionError("the memory was never closed")


def test_closing_beside_working_threads(opened: Opener, engine: str) -> None:
    """Each call ends well, or says that the memory is closed; what was learned stays."""
    wrong: list[str] = []
    for number in range(rounds(2, 100) if engine == "neo4j" else rounds(6, 600)):
        namespace = f"test-{uuid4().hex}"
        memory = opened(namespace, embedder="hashing")
        memory.learn("a task", "a strategy", success=True, source_key="first")
        ready = threading.Barrier(len(WORK) + 1)
        with ThreadPoolExecutor(len(WORK)) as pool:
            each = [pool.submit(working, memory, n, ready) for n in range(len(WORK))]
            ready.wait(30)
            time.sleep(0.02 * (number % 5))
            memory.close()
        answers = [answer.result() for answer in each]
        wrong += [error for _, errors in answers for error in errors]
        with opened(namespace, embedder="hashing") as again:
            kept = keys(again)
            assert {key for learned, _ in answers for key in learned} <= set(kept)
            assert len(set(kept)) == len(kept)
            assert again.verify().ok
    assert wrong == []


def agents(memory: Memory) -> list[str]:
    return [row["id"] for row in memory.store.read(AGENTS, ns=memory.namespace)]


def writing(memory: Memory, begun: threading.Event, wait: Callable[[], object]) -> object:
    def work(tx: Transaction) -> None:
        tx.run(CREATE, id=f"slow {memory.namespace}", ns=memory.namespace)
        begun.set()
        wait()

    return memory.store.transact(work)


def learn_until_closed(memory: Memory) -> None:
    for _ in range(100_000):
        memory.learn("a task", "a strategy", success=True, source_key="once")


def test_closing_waits_for_a_running_transaction(opened: Opener) -> None:
    memory, begun = opened(), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(writing, memory, begun, lambda: time.sleep(0.5))
        assert begun.wait(30)
        late = pool.submit(learn_until_closed, memory)
        memory.close()
        slow.result()  # it was not cut off
        with pytest.raises(StoreError, match=CLOSED):
            late.result()
    with opened() as again:
        assert f"slow {memory.namespace}" in agents(again)


def test_closing_gives_up_where_a_transaction_never_ends(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is kept as long as something is written; closing again gives it back."""
    monkeypatch.setattr(embedded_sessions, "_CLOSING", 0.2)
    memory, begun, done = Memory.open(folder), threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(writing, memory, begun, done.wait)
        try:
            assert begun.wait(30)
            with pytest.raises(LockedError, match="close the memory again when it is") as caught:
                memory.close()
            assert caught.value.retryable
            with pytest.raises(StoreError, match=CLOSED):
                memory.stats()
        finally:
            done.set()
        slow.result()
    with Learner(environment(folder), 0, 1) as other:
        memory.close()
        other.wait_for("done")
    with Memory.open(folder) as again:
        assert "slow default" in agents(again)


def test_closing_from_within_a_transaction(opened: Opener) -> None:
    """A server finishes it; the embedded engine undoes it and says why. Neither is in between."""
    memory, errors = opened(), []

    def work(tx: Transaction) -> None:
        tx.run(CREATE, id=f"own {memory.namespace}", ns=memory.namespace)
        memory.close()

    try:
        memory.store.transact(work)
    except StoreError as error:
        errors.append(str(error))
    assert errors in ([], [CLOSED])
    with opened() as again:
        assert agents(again) == ([] if errors else [f"own {memory.namespace}"])


def test_a_handle_that_nobody_closed_does_not_keep_the_lease(folder: str) -> None:
    """It is given back when the handle is gone, or when the others are closed."""
    memory, other = Memory.open(folder), Memory.open(folder)
    memory.learn("a task", "a strategy", success=True)
    other.learn("another task", "a strategy", success=True)
    del memory
    gc.collect()
    other.close()
    with Learner(environment(folder, GRAPHMEM_WAIT="0"), 0, 1) as next_one:
        next_one.wait_for("done")
