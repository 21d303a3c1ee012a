"""Policies on both engines: TD learning, asking, exact replay, erasing, many writers at once."""

from __future__ import annotations

import itertools
import math
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from graphmem import Memory, Step, Transition, fingerprint
from graphmem.errors import NotFoundError, StoreError, ValidationError
from graphmem.ids import stream_id, to_millis
from graphmem.policies.streams import StateKey
from graphmem.store.queries import procedure
from tests.conftest import Clock, Opener
from tests.contract.teaching import dump, known, set_all, some, tamper

HERE: dict[str, Any] = {"task": "deploy", "load": 0.5, "tags": ["a", None, {"deep": True}]}
THERE: dict[str, Any] = {"task": "verify"}
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def rows(memory: Memory, agent: str | None = None) -> dict[tuple[str, ...], dict[str, Any]]:
    """All that the graph holds of policies, but what tells one memory or agent from another."""
    found = memory.query(
        """
        MATCH (p:Policy)-[:IN_STATE]->(s:State)
        WHERE p.ns = $ns AND ($agent IS NULL OR p.agent = $agent)
        RETURN p.agent AS agent, s.fingerprint AS state, s.features AS features,
               p.action_type AS action, p.action_spec AS spec, p.q AS q, p.updates AS updates,
               p.trials AS trials, p.successes AS successes, p.confidence AS confidence,
               p.signals AS signals, p.active AS active, p.crystallized AS crystallized,
               p.q_set AS q_set, p.last_updated_at AS last_updated_at
        """,
        agent=agent,
    )
    keys = [(*(() if agent else (r["agent"],)), r["state"], r["action"], r["spec"]) for r in found]
    return {
        key: {name: value for name, value in row.items() if name != "agent"}
        for key, row in zip(keys, found, strict=True)
    }


# One update


def test_an_update_starts_at_the_value_and_says_what_it_did(opened: Opener) -> None:
    memory = opened(alpha=0.25, gamma=0.5)
    answer = memory.policies.update(HERE, "run", 1.0, terminal=True)
    assert (answer.q, answer.td_error, answer.seq) == (0.25, 1.0, 1)
    again = memory.policies.update(HERE, "run", 1, terminal=True, alpha=0.5)
    assert (again.q, again.td_error, again.seq) == (0.625, 0.75, 2)
    policy = known(memory, HERE, "run")
    assert policy.id == answer.policy_id == again.policy_id
    assert known(memory, policy.id) == policy
    assert (policy.q, policy.updates, policy.state) == (0.625, 2, fingerprint(HERE))
    assert policy.features == HERE
    assert (policy.trials, policy.mean, policy.status) == (0, 0.5, "tentative")

    assert memory.policies.update(HERE, "a", 1.0, next_max_q=2.0).q == 0.5
    assert memory.policies.update(HERE, "b", 1.0, next_max_q=2.0, alpha=1.0, gamma=1.0).q == 3.0
    memory.policies.set_q(HERE, "set", 8.0)
    assert known(memory, HERE, "set").updates == 0
    assert memory.policies.update(HERE, "set", 0.0, terminal=True).q == 6.0

    for success in (True, False, None, True):  # with a reward it counts as a trial
        memory.policies.update(HERE, "tried", 1.0, terminal=True, success=success)
    policy = known(memory, HERE, "tried")
    assert (policy.updates, policy.trials, policy.successes) == (4, 3, 2)
    assert policy.mean == pytest.approx(3 / 5)


@pytest.mark.parametrize("there", [THERE, fingerprint(THERE)], ids=["features", "fingerprint"])
def test_the_next_state_is_worth_the_best_of_its_policies(memory: Memory, there: Any) -> None:
    policies = memory.policies
    set_all(memory, [(THERE, "good", 2.0), (THERE, ("good", {"slow": True}), 1.0)])
    policies.set_q(THERE, "best", 99.0, agent="somebody else")  # agents are not mixed
    policies.update(THERE, "watched", success=True)  # evidence, but no value yet
    assert policies.update(HERE, "run", 0.0, next_state=there).td_error == 0.95 * 2.0
    # What the caller knows better counts; after the end there is nothing.
    assert policies.update(HERE, "b", 0.0, next_state=there, next_max_q=-1.0).td_error == -0.95
    assert policies.update(HERE, "c", 0.0, terminal=True).td_error == 0.0
    assert policies.update(HERE, "d", 1.0, next_state={"never": "seen"}).td_error == 1.0


def test_actions_never_tried_count_with_zero_where_their_number_is_known(memory: Memory) -> None:
    policies = memory.policies
    set_all(memory, [(THERE, "bad", -2.0), (THERE, "worse", -3.0)])
    errors = [
        policies.update(HERE, name, 0.0, next_state=THERE, next_actions=actions).td_error
        for name, actions in {"a": None, "b": 3, "d": 2}.items()
    ]
    assert errors == [0.95 * -2.0, 0.0, 0.95 * -2.0]


def test_an_action_is_its_type_and_what_specifies_it(memory: Memory) -> None:
    policies = memory.policies
    specs: list[Any] = [None, 1, 1.0, True, "", "null", [], {"b": 1, "a": [None]}]
    for number, spec in enumerate(specs):
        policies.set_q(HERE, "run", float(number), spec=spec)
    policies.set_q(HERE, "run", 100.0, spec={"a": [None], "b": 1})  # the same
    assert len(policies.list(HERE)) == len(specs)
    assert known(memory, HERE, "run").q == 0.0
    assert known(memory, HERE, "run", spec={"b": 1, "a": [None]}).q == 100.0
    assert [(type(p.spec), p.spec) for p in policies.list(HERE)][1:] == [
        (type(spec), spec) for spec in reversed(specs[:-1])
    ]


# Asking


def test_of_what_was_never_seen_nothing_is_known(memory: Memory) -> None:
    policies = memory.policies
    ways: list[dict[str, Any]] = [{}, {"explore": "ucb"}, {"explore": "epsilon"}, {"actions": []}]
    for _ in range(2):  # in an empty memory, and in one that holds something else
        assert policies.get(HERE, "run") is None
        assert [policies.best(HERE, **way) for way in ways] == [None] * 4
        assert policies.list(HERE, at=NOON) == []
        assert not policies.seen(HERE)
        assert not policies.seen(HERE, "run")
        with pytest.raises(NotFoundError, match="no policy"):
            policies.signal(HERE, "run", 1.0)
        policies.update(THERE, "run", 1.0, terminal=True)
    assert policies.get("nobody") is None

    policies.update(THERE, "observed", success=False)
    policies.set_q(THERE, "set", 1.0)  # nobody tried that
    actions = ("run", "observed", "set", "new")
    assert [policies.seen(THERE, action) for action in actions] == [True, True, False, False]
    assert not any(policies.seen(THERE, action, agent="ada") for action in (None, *actions))
    assert not policies.seen(THERE, "run", spec=1)
    assert policies.seen(THERE)


def test_the_best_action_is_that_with_the_highest_value_in_this_state(memory: Memory) -> None:
    policies = memory.policies
    set_all(memory, [(HERE, "a", 1.0), (HERE, "b", 3.0), (HERE, "c", -1.0), (THERE, "d", 9.0)])
    policies.set_q(HERE, "e", 99.0, agent="ada")
    policies.update(HERE, "f", success=True)  # has no value yet
    best = some(policies.best(HERE, stored=True))
    assert (best.action, best.score) == ("b", 3.0)
    assert best == policies.best(fingerprint(HERE), stored=True)
    assert [p.action for p in policies.list(HERE, agent="default")] == ["b", "a", "f", "c"]
    assert [p.action for p in policies.list(HERE)] == ["e", "b", "a", "f", "c"]
    assert [p.action for p in policies.list(limit=2)] == ["e", "d"]
    assert [p.action for p in policies.list(agent="default", limit=2)] == ["d", "b"]


def test_of_the_actions_that_can_be_done_those_never_tried_stand_with_zero(memory: Memory) -> None:
    policies = memory.policies

    def best(*actions: Any) -> tuple[str, float]:
        found = some(policies.best(HERE, actions=actions))
        return found.action, found.q

    assert best("new", "newer") == ("new", 0.0)
    set_all(memory, [(HERE, "good", 1.0), (HERE, ("bad", 3), -1.0)])
    assert best("new", "good") == ("good", 1.0)
    assert best("new", ("bad", 3)) == ("new", 0.0)
    assert best(("bad", 3), ("bad", 4)) == ("bad", 0.0)  # another spec, another action
    assert best(("bad", 3)) == ("bad", -1.0)  # "good" cannot be done now
    assert memory.stats().policies == 2  # asking made none


def test_epsilon_takes_any_action_now_and_then_as_the_given_chance_says(memory: Memory) -> None:
    policies = memory.policies
    set_all(memory, [(HERE, "a", 4.0), (HERE, "b", 3.0), (HERE, "c", 2.0), (HERE, "d", 1.0)])

    def drawn(times: int, **more: Any) -> Counter[str]:
        rng = random.Random(1)
        found = [policies.best(HERE, explore="epsilon", rng=rng, **more) for _ in range(times)]
        return Counter(policy.action for policy in found if policy)

    assert drawn(20, epsilon=0.0) == {"a": 20}
    assert drawn(20, epsilon=0.4) == drawn(20, epsilon=0.4)
    shares = drawn(200, epsilon=0.4)
    assert 100 < shares["a"] < 180  # 0.6 + 0.4 / 4 of 200 are 140
    assert set(shares) == {"a", "b", "c", "d"}
    assert set(drawn(20, epsilon=1.0, actions=["a", "new"])) == {"a", "new"}


def test_ucb_tries_what_was_tried_least_until_its_value_speaks(memory: Memory) -> None:
    policies = memory.policies
    tries = {"often": (50, 1.0), "seldom": (2, 0.4)}
    for action, (count, reward) in tries.items():
        policies.update_many([after_the_end(HERE, action, reward, alpha=1.0)] * count)
    policies.update(HERE, "seldom", success=True)  # a trial is a try, too
    bounds = {"often": 1.0 + math.sqrt(math.log(53) / 50), "seldom": 0.4 + math.sqrt(math.log(53) / 3)}  # noqa: E501  # fmt: skip

    found = some(policies.best(HERE, explore="ucb", stored=True))
    assert (found.action, found.q) == ("seldom", 0.4)
    assert found.score == pytest.approx(bounds["seldom"], rel=1e-12)
    narrow = some(policies.best(HERE, explore="ucb", width=0.0, stored=True))
    assert (narrow.action, narrow.score) == ("often", 1.0)
    only = some(policies.best(HERE, explore="ucb", actions=["often"], stored=True))
    assert only.score == pytest.approx(1.0 + math.sqrt(math.log(50) / 50), rel=1e-12)
    for _ in range(2):
        untried = some(policies.best(HERE, explore="ucb", actions=["often", "new", "seldom"]))
        assert untried.action == "new"
        policies.set_q(HERE, "new", -5.0)  # set, but still never tried
    with pytest.raises(ValidationError, match="explore"):
        policies.best(HERE, explore="thompson")  # type: ignore[arg-type]


def after_the_end(state: Any, action: str, reward: float, **more: Any) -> dict[str, Any]:
    return {"state": state, "action": action, "reward": reward, "terminal": True, **more}


def test_values_fade_with_the_days_more_slowly_where_confidence_is_high(
    memory: Memory, clock: Clock
) -> None:
    policies = memory.policies
    policies.update_many(
        after_the_end(HERE, action, 1.0, alpha=1.0, at=NOON)
        for action in ("plain", "sure", "vague")
    )
    policies.update(HERE, "fresh", 0.9, terminal=True, alpha=1.0, at=NOON + 100 * DAY)
    for _ in range(5):
        policies.signal(HERE, "sure", 1.0)
        policies.signal(HERE, "vague", 0.0)
    later = NOON + 100 * DAY
    scores = {policy.action: policy.score for policy in policies.list(HERE, at=later)}
    assert scores["fresh"] > scores["sure"] > scores["plain"] > scores["vague"] > 0
    assert scores["plain"] == pytest.approx(100**-0.1, rel=1e-12)
    best = some(policies.best(HERE, at=later))
    assert (best.action, best.q) == ("fresh", 0.9)
    waited = {p.action: p.score for p in policies.list(HERE, at=later, pressure=0.01)}
    assert waited["plain"] == pytest.approx(scores["plain"] + 1.0, rel=1e-12)
    clock.now = to_millis(later)  # without a time the values are those of now
    assert policies.list(HERE) == policies.list(HERE, at=later)
    ways: list[dict[str, Any]] = [
        {}, {"explore": "ucb", "width": 0.0}, {"actions": ["sure", "fresh", "new"]}]  # fmt: skip
    for way in ways:
        for more, action in (({}, "fresh"), ({"at": later}, "fresh"), ({"stored": True}, "sure")):
            found = some(policies.best(HERE, **way, **more))
            assert found.q == known(memory, HERE, action).q
    with pytest.raises(ValidationError, match="at: does not go with stored"):
        policies.best(HERE, at=NOON, stored=True)
    with pytest.raises(ValidationError, match="stored"):
        policies.best(HERE, stored="yes")  # type: ignore[arg-type]
    # Asking changes nothing; the values that are stored are there where they are asked for.
    assert scores == {policy.action: policy.score for policy in policies.list(HERE, at=later)}
    assert sorted(p.score for p in policies.list(HERE, stored=True)) == [0.9, 1.0, 1.0, 1.0]


# Many updates

numbers = st.floats(-1e6, 1e6)
states = st.integers(0, 3).map(lambda number: {"s": number})
nexts = st.one_of(
    st.just({"terminal": True}),
    st.fixed_dictionaries({"next_max_q": numbers}, optional={"next_state": states}),
    st.fixed_dictionaries(
        {"next_state": st.one_of(states, states.map(fingerprint))},
        optional={"next_actions": st.integers(1, 4)},
    ),
)
transitions = st.builds(
    lambda after, **item: {**item, **after},
    after=nexts,
    state=st.one_of(states, states.map(fingerprint)),
    action=st.sampled_from("ab"),
    spec=st.sampled_from([None, {"x": 1}]),
    reward=numbers,
    alpha=st.none() | st.floats(0, 1, exclude_min=True),
    gamma=st.none() | st.floats(0, 1),
    success=st.sampled_from([None, None, True, False]),
    agent=st.sampled_from(["ada", "ben"]),
    at=st.integers(0, 100).map(lambda days: NOON + timedelta(days=days)),
)


def test_many_updates_give_what_single_ones_give_to_the_last_bit(
    memory: Memory, engine: str
) -> None:
    turns = itertools.count()

    @hypothesis_settings(max_examples=60 if engine == "embedded" else 5, deadline=None)
    @given(items=st.lists(transitions, max_size=40), size=st.integers(1, 15))
    def check(items: list[dict[str, Any]], size: int) -> None:
        turn = next(turns)

        def by(how: str) -> list[dict[str, Any]]:
            return [{**item, "agent": f"{how} {item['agent']} {turn}"} for item in items]

        one_by_one = [memory.policies.update(**item) for item in by("one")]
        at_once = memory.policies.update_many(
            (Transition(**item) if n % 2 else item for n, item in enumerate(by("many"))),
            batch_size=size,
        )
        assert [(a.q, a.td_error, a.seq) for a in at_once] == [
            (a.q, a.td_error, a.seq) for a in one_by_one
        ]
        for agent in {item["agent"] for item in items}:
            assert rows(memory, f"many {agent} {turn}") == rows(memory, f"one {agent} {turn}")

    check()
    report = memory.verify()
    assert report.ok, report.differences
    before = rows(memory)
    memory.upkeep.rebuild()
    assert rows(memory) == before


def test_a_batch_with_a_bad_item_is_not_written_and_the_error_says_which(memory: Memory) -> None:
    good = [after_the_end({"n": n}, "run", 1.0) for n in range(5)]
    with pytest.raises(ValidationError) as caught:
        memory.policies.update_many([*good, after_the_end(HERE, "run", math.nan)], batch_size=2)
    assert caught.value.field == "5.reward"
    assert memory.stats().policies == 4
    with pytest.raises(ValidationError) as caught:
        memory.policies.update_many(
            [{"state": HERE, "action": "run", "success": True}, {3: "nothing"}]  # type: ignore[dict-item]
        )
    assert caught.value.field.startswith("1.")
    assert memory.stats().policies == 4
    assert memory.verify().ok


def test_an_update_without_a_record_counts_and_says_so(memory: Memory, opened: Opener) -> None:
    policies, sparing = memory.policies, opened(record_transitions=False).policies
    recorded = policies.update(HERE, "a", 1.0, next_state=THERE)
    again = sparing.update(HERE, "a", 1.0, next_state=HERE)
    first = sparing.update(HERE, "new", 1.0, terminal=True)
    assert again.seq == first.seq == recorded.seq  # they have no numbers of their own
    assert known(memory, HERE, "a").updates == 2
    assert known(memory, HERE, "new").q == 0.1
    sparing.update(HERE, "tried", 1.0, terminal=True, success=True)  # has a record, as it counts
    before = rows(memory)
    assert memory.verify().ok
    memory.upkeep.rebuild()  # cannot derive these values, and leaves them
    assert rows(memory) == before
    assert memory.query("MATCH (t:Transition) WHERE t.ns = $ns RETURN count(t) AS n")[0]["n"] == 2


# Verify, rebuild, erase


def live(memory: Memory) -> None:
    """Do a bit of everything."""
    policies = memory.policies
    policies.set_q(THERE, "check", 0.5)
    policies.update_many([after_the_end(HERE, "run", 1.0, success=True, at=NOON)] * 4)
    steps = [
        Step(action_type="run", state=HERE, reward=1.0, next_state={"only": "here"}),
        Step(action_type="check", state=THERE, reward=-1.0, terminal=True),
        Step(action_type="ask", state={"only": "here"}, reward=0.5, next_state=THERE),
    ]
    memory.learn("t", "s", success=False, steps=steps, source_key="e")
    memory.learn("t", "s", success=True, steps=steps[:2], source_key="other")
    policies.learn_episodes()
    policies.update(HERE, "run", 0.5, next_state=THERE, at=NOON)
    for _ in range(9):
        policies.update({"seen": 1}, "look", success=True)
    policies.signal(HERE, "run", 0.75)
    policies.link(known(memory, HERE, "run"), known(memory, {"seen": 1}, "look"), weight=0.5)
    memory.policies.crystallize()


NAN, INFINITE = float("nan"), float("inf")
WRONG = [
    *({"reward": value} for value in (NAN, INFINITE, -INFINITE)),
    *({"alpha": value} for value in (NAN, 0.0, -0.1, 1.1, INFINITE)),
    *({"gamma": value} for value in (NAN, -0.1, 1.1)),
    *({"next_max_q": value} for value in (NAN, INFINITE)),
]


def test_procedures_refuse_invalid_numbers(memory: Memory) -> None:
    """As Python does: an error that says which, and nothing is written."""

    def refuse(name: str, told: str, given: dict[str, Any]) -> None:
        with pytest.raises(StoreError, match=f"graphmem: .*{told}"):
            memory.store.write(procedure(name), **given)

    done = memory.policies.update(HERE, "wait", 1.0, next_state=THERE)
    at = {"ns": memory.namespace, "now": 1, "stream_id": stream_id(memory.namespace, "default")}
    at["policy_id"] = done.policy_id
    there = StateKey.of(memory.namespace, THERE).id
    for wrong in WRONG:
        given = {**at, "reward": 1.0, **wrong}
        refuse("policies.td_update", next(iter(wrong)), {**given, "next_state_id": there})
        refuse("policies.td_finish", next(iter(wrong)), given)
    ours = {name: at[name] for name in ("ns", "now")}
    expect = {"id": "p", "subject": done.policy_id, "kind": "policy", "agent": "default"}
    for probability in (NAN, -0.1, 1.1):
        refuse("predictions.expect", "probability", {**ours, **expect, "probability": probability})
    memory.store.write(procedure("predictions.expect"), **ours, **expect, probability=0.5)
    numbers = {"p": NAN, "a": 1.0, "predicted": None, "actual": None}
    for wrong in ({"error": NAN}, {"error": 1.1}, {"low_signal": 2.0, "error": 0.5}):
        refuse("predictions.resolve", next(iter(wrong)), {**ours, "id": "p", **wrong})
    refuse("predictions.resolve", "", {**ours, "id": "p", "pairs": [numbers]})
    assert [one.updates for one in memory.policies.list(HERE)] == [1]
    assert memory.verify().ok


def test_rebuild_drops_a_transition_with_an_invalid_number_and_says_so(memory: Memory) -> None:
    policies = memory.policies
    policies.update(HERE, "wait", 1.0, terminal=True)
    policies.update(HERE, "wait", 2.0, terminal=True)
    tamper(
        memory,
        "MATCH (x:Transition {seq: 1})-[:UPDATED]->(p:Policy) WHERE x.ns = $ns "
        "SET x.reward = $nan, p.q = $nan",
        nan=NAN,
    )
    assert not memory.verify().ok
    assert memory.upkeep.rebuild().invalid == 1
    [one] = policies.list(HERE)
    assert one.updates == 1
    assert one.q == pytest.approx(0.2)
    assert memory.verify().ok
    assert memory.upkeep.rebuild().invalid == 0


@pytest.mark.parametrize(
    "change",
    [
        *("p.q = 9.0", "p.updates = p.updates + 1", "p.trials = 0", "p.confidence = 0.9"),
        *("p.active = false", "p.crystallized = true", "p.last_updated_at = 1"),
    ],
)
def test_a_policy_that_was_tampered_with_is_found_and_mended(memory: Memory, change: str) -> None:
    live(memory)
    before = rows(memory)
    tamper(memory, f"MATCH (p:Policy) WHERE p.ns = $ns AND p.action_type = 'run' SET {change}")
    report = memory.verify()
    assert not report.ok
    assert {(d.kind, f"p.{d.field}") for d in report.differences} == {
        ("policies", change.partition(" ")[0])
    }
    memory.upkeep.rebuild()
    assert rows(memory) == before
    assert memory.verify().ok


def test_what_was_said_of_a_policy_goes_with_its_last_evidence(memory: Memory) -> None:
    policies = memory.policies
    steps = [Step(action_type=action, state=HERE) for action in ("run", "wait")]
    memory.learn("t", "s", success=True, source_key="stays")  # so the agent does, too
    identity = memory.learn("t", "s", success=True, steps=steps, source_key="goes").episode_id
    policies.signal(HERE, "run", 1.0)
    policies.strengthen(known(memory, HERE, "run"), known(memory, HERE, "wait"), delta=0.5)
    memory.upkeep.erase(identity)
    assert policies.get(HERE, "run") is None

    memory.learn("t", "s", success=True, steps=steps, source_key="another")
    for _ in range(2):
        policy = known(memory, HERE, "run")
        assert (policy.confidence, policy.signals) == (0.5, 0)
        assert [linked.weight for linked in policies.linked(policy)] == [0.05]
        report = memory.verify()
        assert report.ok, report.differences
        memory.upkeep.rebuild()


# What is wrong

BAD: list[tuple[str, dict[str, Any]]] = [
    *(
        (name, {name: value})
        for name, values in {
            "reward": (math.nan, -math.inf, True, "1", 10**400, -1e101),
            "alpha": (0.0, 1.5, math.nan),
            "gamma": (-0.1, 2, math.inf),
            "next_actions": (0, 1.5, 10**9),
            "action": ("", "  ", "half of \ud83d"),
            "spec": (math.nan, {1}, {"deep": [math.inf]}),
            "success": (1, "yes"),
            "at": (NOON.replace(tzinfo=None), "today"),
            "state": (None, "deploy", "F" * 16, {1: 2}, {"a": 10**5_000}),
        }.items()
        for value in values
    ),
    *(("state.a", {"state": {"a": value}}) for value in (math.nan, {1}, b"bytes", NOON)),
    ("state.a.0.b", {"state": {"a": [{"b": math.nan}]}}),
    ("next_state", {"next_state": "verify"}),
    ("next_state.a", {"next_state": {"a": math.nan}}),
    ("next_state", {"terminal": False}),
    ("next_state", {"terminal": True, "next_state": THERE}),
    ("next_max_q", {"terminal": True, "next_max_q": 0.0}),
    ("next_max_q", {"next_max_q": 1e101}),  # more would overflow
    ("next_actions", {"terminal": True, "next_actions": 2}),
    ("reward", {"reward": None}),
    ("terminal", {"reward": None, "success": True, "terminal": True}),
    ("alpha", {"reward": None, "success": True, "terminal": False, "alpha": 0.5}),
]


def test_what_is_wrong_is_named_and_nothing_is_half_written(memory: Memory) -> None:
    memory.policies.update(HERE, "run", 1.0, next_state=THERE)
    before, whole = memory.stats().model_dump(), dump(memory)
    for field, wrong in BAD:
        given = {"terminal", "next_state", "next_max_q"} & wrong.keys()
        after = {"next_max_q": 1.0} if wrong.keys() == {"next_actions"} else {"terminal": True}
        item = {"state": HERE, "action": "new", "reward": 1.0, **({} if given else after), **wrong}
        with pytest.raises(ValidationError) as caught:
            memory.policies.update(**item)
        assert caught.value.field == field, wrong
        with pytest.raises(ValidationError) as caught:
            memory.policies.update_many([after_the_end(HERE, "new", 1.0), item])
        assert caught.value.field == f"1.{field}", wrong
    calls: dict[str, Any] = {"q": memory.policies.set_q, "signal": memory.policies.signal}
    for field, call in calls.items():
        for value in (math.nan, math.inf, "1", 1e101, *([-0.1, 1.1] if field == "signal" else [])):
            with pytest.raises(ValidationError) as caught:
                call(HERE, "run", value)
            assert caught.value.field == field
    assert memory.stats().model_dump() == before
    assert dump(memory) == whole


# Many writers


@pytest.mark.timeout(900)
def test_a_hundred_threads_update_one_policy_exactly(
    memory: Memory, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, each = 100, 20 if engine == "embedded" else 2
    # Whoever looks up settings inside a transaction needs a second connection of a full pool.
    monkeypatch.setattr("graphmem.graph.graph.LOOK_SECONDS", 0.0)
    together = threading.Barrier(threads)

    def work(_: int) -> list[int]:
        together.wait(60)
        update = memory.policies.update
        return [update(HERE, "run", 1.0, terminal=True).seq for _ in range(each)]

    with ThreadPoolExecutor(threads) as pool:
        numbered = list(pool.map(work, range(threads)))
    q = 0.0
    for _ in range(threads * each):
        q += 0.1 * (1.0 - q)
    policy = known(memory, HERE, "run")
    assert (policy.updates, policy.q) == (threads * each, q)
    stats = memory.stats()
    assert (stats.policies, stats.states, stats.events) == (1, 1, threads * each)
    assert memory.verify().ok
    assert sorted(itertools.chain(*numbered)) == list(range(1, threads * each + 1))
    assert all(found == sorted(found) for found in numbered)
