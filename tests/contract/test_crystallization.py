"""Crystallization on both engines: evidence in any order, what passes, what is taken back."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import Bundle, invariant, rule

from graphmem import Episode, Memory, Step
from graphmem.models.policies import CrystallizeReport
from tests.conftest import Opener
from tests.contract.teaching import known, observe, some, wilson
from tests.machines import MemoryMachine, run

HERE: dict[str, Any] = {"task": "deploy"}


def actions(found: Iterable[Any]) -> list[str]:
    return [candidate.action for candidate in found]


# What comes out


def test_what_worked_often_enough_becomes_a_policy_worth_its_lower_bound(memory: Memory) -> None:
    observe(memory, HERE, "run", 10, 1)
    observe(memory, HERE, "wait", 3)
    assert memory.policies.best(HERE) is None
    nothing = memory.policies.crystallize("nobody")
    assert (nothing.created, nothing.below, nothing.below_count, nothing.kept) == ((), (), 0, 0)
    report = memory.policies.crystallize()
    for least, threshold, z in ((1, 0.0, 0.1), (3, 0.6, 1.96), (9, 0.2, 1.0), (2, 0.99, 4.0)):
        needed = memory.policies.crystallize("x", min_events=least, threshold=threshold, z=z).needed
        enough = [n for n in range(least, needed + 1) if n / (n + z * z) > threshold]
        assert enough == [needed]  # n of n: the bound is n / (n + z^2)
    assert actions(report.created) == ["run"]
    [created] = report.created
    assert (created.trials, created.successes, created.missing, created.more) == (11, 10, 0.0, 0)
    assert created.lower == pytest.approx(wilson(10, 11)[0], rel=1e-12)
    best = some(memory.policies.best(HERE))
    assert best.id == created.id
    assert best.crystallized
    assert best.q == created.lower
    assert memory.verify().ok


def test_what_does_not_qualify_is_listed_nearest_first_with_its_distance(memory: Memory) -> None:
    observe(memory, HERE, "three of three", 3)
    observe(memory, HERE, "five of five", 5)
    observe(memory, HERE, "never", 0, 5)
    observe(memory, HERE, "seven of eight", 7, 1)
    report = memory.policies.crystallize()
    assert report.created == ()
    assert actions(report.below) == ["five of five", "seven of eight", "three of three", "never"]
    distances = {c.action: (round(c.lower, 3), round(c.missing, 3), c.more) for c in report.below}
    assert distances["three of three"] == (0.438, 0.162, 3)  # six of six pass
    assert distances["five of five"] == (0.566, 0.034, 1)
    assert distances["never"][0] == 0.0
    assert distances["never"][1] == 0.6
    for candidate in report.below:
        ks, n = candidate.successes, candidate.trials
        passing = (more for more in itertools.count() if wilson(ks + more, n + more)[0] > 0.6)
        assert candidate.more == next(passing)
        assert candidate.missing == pytest.approx(0.6 - candidate.lower)


def test_later_failures_take_a_policy_back_and_successes_bring_it_again(memory: Memory) -> None:
    observe(memory, HERE, "run", 10)
    memory.policies.crystallize()
    observe(memory, HERE, "run", 0, 1)
    updated = memory.policies.crystallize()
    assert actions(updated.updated) == ["run"]
    assert known(memory, HERE, "run").q == updated.updated[0].lower < wilson(10, 10)[0]

    observe(memory, HERE, "run", 0, 2)
    back = memory.policies.crystallize()
    assert actions(back.taken_back) == ["run"]
    assert back.taken_back[0].more > 0
    assert not known(memory, HERE, "run").crystallized
    assert memory.policies.best(HERE) is None

    observe(memory, HERE, "run", 10)
    assert actions(memory.policies.crystallize().created) == ["run"]
    kinds = [
        p.kind for p in memory.policies.history(known(memory, HERE, "run")) if p.kind != "outcome"
    ]
    assert kinds == ["crystallized", "crystallized", "taken_back", "crystallized"]
    observe(memory, HERE, "never taken back", 10)
    memory.policies.crystallize()
    [row] = memory.query("analysis.taken_back")
    assert (row["action"], row["taken_back"], row["crystallized"]) == ("run", 1, True)
    assert memory.verify().ok


@pytest.mark.parametrize("how", ["updated", "set"])
def test_a_value_that_was_learned_or_set_is_nobody_elses(memory: Memory, how: str) -> None:
    if how == "updated":
        memory.policies.update(HERE, "run", -1.0, terminal=True)
    else:
        memory.policies.set_q(HERE, "run", -0.1)
    observe(memory, HERE, "run", 10)
    assert actions(memory.policies.crystallize().created) == ["run"]
    assert known(memory, HERE, "run").q == -0.1
    observe(memory, HERE, "run", 0, 10)
    assert actions(memory.policies.crystallize().taken_back) == ["run"]
    best = some(memory.policies.best(HERE))  # it was there before, and stays
    assert (best.q, best.crystallized) == (-0.1, False)


def test_an_episode_counts_once_for_each_action_that_it_took_in_a_state(memory: Memory) -> None:
    again = [Step(action_type="run", state=HERE)] * 3
    other = [
        Step(action_type="run", state={"task": "verify"}),
        Step(action_type="run", action={"fast": True}, state=HERE),
        Step(action_type="run"),  # in no state
    ]
    for number in range(8):
        memory.learn("t", "s", success=number != 7, steps=again + other, source_key=str(number))
    report = memory.policies.crystallize()
    assert report.below_count == 3
    assert {(c.trials, c.successes) for c in report.below} == {(8, 7)}
    taken = memory.query(
        "MATCH (e:Episode)-[k:TOOK]->(:Policy) WHERE e.ns = $ns AND e.source_key = '0' "
        "RETURN k.steps AS steps, k.first AS first ORDER BY first"
    )
    assert [(row["steps"], row["first"]) for row in taken] == [(3, 0), (1, 3), (1, 4)]


# Thresholds


def test_an_action_in_words_is_one_policy_in_steps_and_updates(memory: Memory) -> None:
    steps = [Step(action=action, state=HERE, reward=1.0, terminal=True) for action in (" wait", 7)]
    memory.learn("deploy", "slowly", success=True, steps=steps)
    memory.policies.learn_episodes()
    done = memory.policies.update(HERE, "wait", 1.0, terminal=True)
    there = {(one.action, one.spec): one for one in memory.policies.list(HERE)}
    assert there.keys() == {("wait", None), ("action", 7)}
    one = there["wait", None]
    assert (one.id, one.updates, one.trials) == (done.policy_id, 2, 1)
    memory.upkeep.rebuild()
    again = known(memory, HERE, "wait")
    assert (again.id, again.q, again.updates, again.trials) == (one.id, one.q, 2, 1)
    assert memory.verify().ok


@pytest.mark.parametrize("engine", ["embedded"], indirect=True)
def test_a_consumer_crystallizes_as_evidence_comes(memory: Memory) -> None:
    observe(memory, HERE, "run", 7)
    observe(memory, HERE, "run", 3, agent="ada")
    memory.events.crystallize(follow=False)
    assert actions(memory.policies.list(HERE)) == ["run", "run"]
    assert [one.crystallized for one in memory.policies.list(HERE)] == [True, False]
    observe(memory, HERE, "run", 0, 7)
    memory.events.crystallize(follow=False)
    assert not known(memory, HERE, "run").crystallized
    assert [event.kind for event in memory.events.tail(100)].count("crystallized") == 1


def test_thresholds_are_those_of_the_call_else_of_the_settings(opened: Opener) -> None:
    memory = opened(min_events=5, crystallize_above=0.3, z=1.0)
    observe(memory, HERE, "four", 4)
    observe(memory, HERE, "five", 5)
    report = memory.policies.crystallize()
    assert actions(report.created) == ["five"]
    assert (report.min_events, report.threshold, report.z) == (5, 0.3, 1.0)
    assert report.below[0].missing == 0.0  # its bound would do, there are too few
    assert report.below[0].more == 1

    strict = memory.policies.crystallize(threshold=0.9)
    assert actions(strict.taken_back) == ["five"]
    lenient = memory.policies.crystallize(min_events=1, threshold=0.0, z=2.0)
    assert sorted(actions(lenient.created)) == ["five", "four"]
    assert (lenient.min_events, lenient.threshold, lenient.z) == (1, 0.0, 2.0)


# Whatever is done in whatever order


@dataclass(frozen=True)
class Fact:
    """One thing that speaks for a policy, and the episode that it came with."""

    key: tuple[str, int, str]
    kind: str
    success: bool | None = None
    episode: str | None = None


agents = st.sampled_from(["ada", "ben"])
numbers = st.integers(0, 1)
names = st.sampled_from("ab")
rewards = st.floats(-10, 10)
keys = st.tuples(agents, numbers, names)
items = st.fixed_dictionaries(
    {"key": keys, "reward": rewards, "after": st.sampled_from([0, 1, 7, None])},
    optional={"success": st.booleans()},
)
steps = st.lists(
    st.tuples(numbers, names, st.none() | rewards, st.sampled_from([0, 1, 8, None, "end"])),
    max_size=4,
)


class Machine(MemoryMachine):
    """Everything that concerns policies, while a list of facts is kept beside."""

    episodes = Bundle("episodes")

    def __init__(self) -> None:
        super().__init__()
        self.facts: list[Fact] = []
        self.waiting: dict[str, list[Fact]] = {}
        self.learned = 0
        self.report: CrystallizeReport | None = None

    @staticmethod
    def update_of(item: dict[str, Any]) -> dict[str, Any]:
        agent, state, action = item["key"]
        after = item["after"]
        follows = {"terminal": True} if after is None else {"next_state": {"s": after}}
        return {
            "state": {"s": state},
            "action": action,
            "agent": agent,
            "reward": item["reward"],
            "success": item.get("success"),
            **follows,
        }

    def knows(self, *found: Fact) -> None:
        self.facts += found
        self.report = None

    @rule(item=items)
    def update(self, item: dict[str, Any]) -> None:
        self.memory.policies.update(**self.update_of(item))
        self.knows(Fact(item["key"], "update", item.get("success")))

    @rule(batch=st.lists(items, max_size=5), size=st.integers(1, 3))
    def update_many(self, batch: list[dict[str, Any]], size: int) -> None:
        given = [self.update_of(item) for item in batch]
        self.memory.policies.update_many(given, batch_size=size)
        self.knows(*(Fact(item["key"], "update", item.get("success")) for item in batch))

    @rule(key=keys, success=st.booleans(), times=st.integers(1, 8))
    def observe(self, key: tuple[str, int, str], success: bool, times: int) -> None:
        agent, state, action = key
        one = {"state": {"s": state}, "action": action, "success": success, "agent": agent}
        self.memory.policies.update_many([one] * times)
        self.knows(*[Fact(key, "outcome", success)] * times)

    @rule(key=keys, q=rewards)
    def set_q(self, key: tuple[str, int, str], q: float) -> None:
        self.memory.policies.set_q({"s": key[1]}, key[2], q, agent=key[0])
        self.knows(Fact(key, "set"))

    @rule(data=st.data(), signal=st.floats(0, 1))
    def signal(self, data: st.DataObject, signal: float) -> None:
        known = self.memory.policies.list()
        if known:
            one = data.draw(st.sampled_from(known))
            self.memory.policies.signal(one.state, one.action, signal, agent=one.agent)

    @rule(data=st.data(), how=st.sampled_from(["link", "strengthen", "weaken", "unlink"]))
    def link(self, data: st.DataObject, how: str) -> None:
        known = self.memory.policies.list(agent=data.draw(agents))
        if len(known) > 1:
            ids = [policy.id for policy in known]
            pair = data.draw(st.lists(st.sampled_from(ids), min_size=2, max_size=2, unique=True))
            getattr(self.memory.policies, how)(*pair)

    @rule(target=episodes, agent=agents, taken=steps, success=st.booleans())
    def learn(self, agent: str, taken: Any, success: bool) -> Any:
        self.learned += 1
        learned = self.memory._learner.learn(
            Episode(
                task="t",
                strategy=["s"],
                agent=agent,
                success=success,
                source_key=str(self.learned),
                steps=[
                    Step(
                        state={"s": state},
                        action_type=action,
                        reward=reward,
                        next_state={"s": after} if isinstance(after, int) else None,
                        terminal=after == "end" or None,
                    )
                    for state, action, reward, after in taken
                ],
            )
        )
        identity = learned.episode_id
        places = dict.fromkeys((agent, state, action) for state, action, _, _ in taken)
        self.knows(*(Fact(key, "trial", success, identity) for key in places))
        self.waiting[identity] = [
            Fact((agent, state, action), "update", None, identity)
            for state, action, reward, after in taken
            if reward is not None and after is not None
        ]
        return identity

    @rule()
    def learn_episodes(self) -> None:
        answer = self.memory.policies.learn_episodes()
        found = [fact for facts in self.waiting.values() for fact in facts]
        assert answer.transitions == len(found)
        self.waiting.clear()
        self.knows(*found)

    @rule(identity=episodes)
    def erase(self, identity: str) -> None:
        if identity in {row.id for row in self.memory.episodes(limit=99)}:
            self.memory.upkeep.erase(identity)
            self.facts = [fact for fact in self.facts if fact.episode != identity]
            self.waiting.pop(identity, None)
            self.report = None

    @rule()
    def crystallize(self) -> None:
        self.report = self.memory.policies.crystallize()

    @rule()
    def rebuild(self) -> None:
        self.memory.upkeep.rebuild()

    @rule()
    def reopen(self) -> None:
        super().reopen()

    @invariant()
    def the_facts_say_so(self) -> None:
        report = self.memory.verify()
        assert report.ok, report.differences
        counted: dict[tuple[str, int, str], tuple[int, int, int]] = {}
        for fact in self.facts:
            updates, trials, successes = counted.get(fact.key, (0, 0, 0))
            counted[fact.key] = (
                updates + (fact.kind == "update"),
                trials + (fact.success is not None),
                successes + (fact.success is True),
            )
        stored = {
            (p.agent, (p.features or {})["s"], p.action): p
            for p in self.memory.policies.list(limit=100)
        }
        found = {key: (p.updates, p.trials, p.successes) for key, p in stored.items()}
        assert found == counted
        if self.report is not None:
            for p in stored.values():
                holds = p.trials >= 3 and wilson(p.successes, p.trials)[0] > 0.6
                assert p.crystallized == holds


@pytest.mark.timeout(900)
def test_any_order_of_calls_leaves_policies_that_the_facts_say(opened: Opener, engine: str) -> None:
    examples, length = (12, 20) if engine == "embedded" else (3, 12)
    run(Machine, opened, examples, length)
