"""Predicted outcomes: the formula, whose evidence counts, what is borrowed, how true it is."""

from __future__ import annotations

import gzip
import json
import math
import random
from itertools import cycle
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from graphmem import Episode, Memory
from graphmem.advice.calibrate import Calibrator, History, places_of, scores
from graphmem.advice.estimate import interval
from tests.conftest import Opener
from tests.contract.teaching import some, tamper, tried


def test_an_empty_memory_knows_nothing_and_says_so(memory: Memory) -> None:
    found = memory.predict("refund a flight", "check the rules")
    assert found.probability == 0.5
    assert found.low < 0.025
    assert found.high > 0.975
    assert found.trials == found.basis.trials == 0
    assert not found.basis.task.known
    assert found.basis.lines[0] == (
        "other strategies elsewhere: nothing is known, so 50.0% is taken"
    )


def test_the_formula_by_hand(memory: Memory) -> None:
    tried(memory, "refund", "ask", "+++-")
    tried(memory, "refund", "wait", "--")
    tried(memory, "change a seat", "ask", "++")
    found = memory.predict("refund", "ask")

    def logit(p: float) -> float:
        return math.log(p / (1 - p))

    def worth(n: float) -> float:
        return 3 * n / (n + 3)

    everything = 1 / 2  # what others did was on this task, and counts there
    waited = worth(2)
    task = (0 + 2 * everything) / (waited + 2)
    strategy = (worth(2) + 2 * everything) / (worth(2) + 2)  # without what is told of this task
    wider = 2 * everything * (1 - everything)
    own = 1 / ((worth(2) + 2) * strategy * (1 - strategy))
    position = logit(strategy) / math.sqrt(1 + (1 / wider + own) / 8)
    beyond = 1 / (waited * task * (1 - task) + wider)
    before = 1 / (1 + math.exp(-position))
    expected = 1 / (1 + math.exp(-position - logit(task) / math.sqrt(1 + beyond / 8)))
    assert found.basis.rate == pytest.approx(everything, rel=1e-12)
    assert found.basis.task.rate == pytest.approx(task, rel=1e-12)
    [part] = found.basis.strategies
    assert part.rate == pytest.approx(strategy, rel=1e-12)
    assert part.prior == pytest.approx(before, rel=1e-12)
    assert part.near == pytest.approx(expected, rel=1e-12)
    there = (3 + expected) / (4 + 1)
    assert found.probability == pytest.approx(0.98 * there + 0.02 * expected, rel=1e-12)
    assert found.trials == 4
    assert found.low < found.probability < found.high


def test_what_was_not_tried_is_expected_from_task_and_strategy(memory: Memory) -> None:
    tried(memory, "refund", "ask", "++++++")
    tried(memory, "refund", "wait", "++-+")
    tried(memory, "rebook", "wait", "----")
    tried(memory, "upgrade", "wait", "-+--")
    crossed = memory.predict("rebook", "ask")
    assert crossed.trials == 0
    weak, strong = (memory.predict(task, name).probability for task, name in EXTREMES)
    assert weak < crossed.probability < strong
    unseen = memory.predict("rebook", "pray")
    assert unseen.basis.task.rate < unseen.probability < unseen.basis.rate
    known = memory.predict("fly", "ask")
    assert known.basis.rate < known.probability < known.basis.strategies[0].rate
    neither = memory.predict("fly", "pray")
    assert neither.probability == pytest.approx(neither.basis.rate, rel=1e-12)


EXTREMES = (("rebook", "wait"), ("refund", "ask"))


@hypothesis.given(trials=st.integers(1, 30), expected=st.floats(0.001, 0.999))
def test_few_outcomes_that_agree_leave_room_between_the_bounds(
    trials: int, expected: float
) -> None:
    sure, _ = interval(0.998, trials)
    assert sure < 0.998 - 0.1 / trials
    low, high = interval(expected, trials)
    assert high - low > 0.1 / trials
    wider, narrower = interval(expected, trials, 0.99), interval(expected, trials, 0.5)
    assert wider[0] <= low <= narrower[0] <= expected <= narrower[1] <= high <= wider[1]


def test_of_several_strategies_the_rarer_say_more(memory: Memory) -> None:
    tried(memory, "refund", "look", "+-" * 10)
    tried(memory, "rebook", "ask", "+++")
    both = memory.predict("upgrade", together=["look", "ask"])
    alone = [memory.predict("upgrade", name).probability for name in ("look", "ask")]
    assert alone[0] < both.probability < alone[1]
    assert [part.weight for part in both.basis.strategies] == [
        pytest.approx((1 / 21**2) / (1 / 21**2 + 1 / 4**2)),
        pytest.approx((1 / 4**2) / (1 / 21**2 + 1 / 4**2)),
    ]
    assert memory.predict("upgrade", together=["look", "look"]) == memory.predict("upgrade", "look")


def test_what_was_used_often_on_a_type_counts_there(memory: Memory) -> None:
    """Its uses are then looked up by agent and type, instead of along its edges."""
    memory.learn_many(
        Episode(
            task="sail" if number % 4 == 0 else "fly",
            strategy="ask",
            success=number % 2 == 0,
            agent=f"agent {number % 2}",
            task_type="sea" if number % 4 == 0 else "air",
            source_key=str(number),
        )
        for number in range(80)
    )
    for agent, total, typed in (
        (None, (80, 40), (60, 20)),
        ("agent 0", (40, 40), (20, 20)),
        ("agent 1", (40, 0), (40, 0)),
    ):
        [part] = memory.predict("fly", "ask", agent=agent).basis.strategies
        assert (part.trials, part.successes) == total
        assert (part.type_trials, part.type_successes) == typed


def test_an_agent_is_told_of_near_tasks_in_its_words_and_counts(opened: Opener) -> None:
    memory = opened(embedder="hashing")
    keyed: dict[str, Any] = {"task_key": "paris", "success": True}
    memory.learn("refund a cancelled flight to paris", "ask", agent="ada", **keyed)
    for _ in range(3):
        memory.learn("refund the flight of a secret guest", "ask", agent="grace", **keyed)
    asked = "refund a cancelled flight to rome"
    [near] = memory.predict(asked, "ask", agent="ada").basis.task.borrowed
    assert (near.text, near.trials) == ("refund a cancelled flight to paris", 1)
    assert "secret" not in memory.choose(asked, ["ask"], agent="ada").why


def test_what_is_new_borrows_from_what_is_similar(opened: Opener) -> None:
    memory = opened(embedder="hashing")
    tried(memory, "refund a cancelled flight to paris", "ask for the booking number", "++++++++")
    tried(memory, "play chess", "resign", "--------")
    task = memory.predict("refund a cancelled flight to rome", "sing")
    assert [near.text for near in task.basis.task.borrowed] == [
        "refund a cancelled flight to paris"
    ]
    assert not task.basis.task.known
    assert task.probability > task.basis.rate
    assert "with similar ones" in task.basis.lines[1]
    strategy = memory.predict("dance", "ask for the booking number twice")
    assert strategy.basis.strategies[0].borrowed[0].text == "ask for the booking number"
    assert strategy.probability > strategy.basis.rate


def test_the_128_nearest_tasks_count_and_the_farthest_for_nothing(opened: Opener) -> None:
    memory = opened(embedder="hashing")
    tasks = [
        f"refund flight {number} to {'paris' if number % 9 else 'rome'}" for number in range(300)
    ]
    memory.learn_many(
        {"task": task, "strategy": "ask", "success": True, "agent": agent, "source_key": task}
        for task, agent in zip(tasks, cycle(("ada", "grace")), strict=False)
    )
    for asked in (tasks[0], "refund my flight to rome"):
        near = memory.predict(asked, "ask").basis.task.borrowed
        assert len(near) == 8
        assert asked not in {one.text for one in near}
        assert list(near) == sorted(near, key=lambda one: (-one.similarity, one.text))
        assert all(0.0 < one.weight < one.similarity for one in near)
        choice = memory.choose(asked, ["ask"])
        assert 50 < choice.near_trials < 128
        assert choice.probability == memory.predict(asked, "ask").probability
    own = memory.predict(tasks[0], "ask", agent="ada").basis.task.borrowed
    assert {one.text for one in own} < {*tasks[2::2]}


def test_a_task_has_the_type_that_context_and_recall_give_it(opened: Opener) -> None:
    """Given, known, in its wording, or that of the nearest task."""
    memory = opened(embedder="hashing")
    paris, rome = (f"refund a cancelled flight to {city}" for city in ("paris", "rome"))
    for _ in range(4):
        memory.learn(paris, "ask", success=True, task_type="airline")
    tried(memory, "play chess", "ask", "--")

    def kind(task: str) -> str | None:
        return memory.predict(task, "ask").basis.task_type

    for task, expected in (
        *((paris, "airline"), (rome, "airline"), ("debug a refund", "debugging")),
        *(("play chess", None), ("play chess again", None), ("look at the sea", None)),
    ):
        assert kind(task) == memory.recall(task).task_type == expected
    rules = [memory.recall(task).type_rule for task in (paris, rome, "debug a refund", "sing")]
    assert rules == ["given", f"near: {memory.recall(rome).tasks[0].id}", "debug", None]
    memory.learn(rome, "ask", success=True)
    memory.upkeep.relink()
    assert kind(rome) == "airline", "a known task without a type has that of the nearest one, too"
    given = memory.choose(rome, ["ask"], task_type="general")
    assert given.type_trials == 0
    assert memory.choose(rome, ["ask"]).type_trials == 4


def test_what_an_agent_never_tried_borrows_though_others_did(opened: Opener) -> None:
    """What only others know is unknown to it; what it tried on similar tasks counts."""
    memory = opened(embedder="hashing")
    tried(memory, "refund a cancelled flight to paris", "ask", "++++", agent="ada")
    tried(memory, "refund a cancelled flight to rome", "ask", "----", agent="grace")
    memory.upkeep.relink()
    found = memory.predict("refund a cancelled flight to rome", "ask", agent="ada")
    assert not found.basis.task.known
    assert found.basis.task.trials == 0
    [near] = found.basis.task.borrowed
    assert (near.text, near.trials) == ("refund a cancelled flight to paris", 4)
    similar = memory.query(
        "MATCH (a:Task)-[l:SIMILAR_TO]->(b:Task) WHERE a.ns = $ns AND b.id = $id "
        "RETURN l.similarity AS similarity",
        id=near.id,
    )
    assert near.similarity == similar[0]["similarity"]


# Strengths


def biased(number: int = 400) -> list[dict[str, Any]]:
    """Tasks that are easy or hard, whatever is done; how it is done hardly counts."""
    draw = random.Random(11)
    rates = {f"task {place}": draw.choice([0.05, 0.95]) for place in range(60)}
    return [
        {
            "task": task,
            "strategy": f"way {draw.randrange(5)}",
            "success": draw.random() < rates[task],
            "source_key": str(place),
        }
        for place, task in enumerate(draw.choices(sorted(rates), k=number))
    ]


def stored(memory: Memory) -> list[dict[str, Any]]:
    return memory.query(
        "MATCH (p:Pooling) WHERE p.ns = $ns RETURN p.trials AS trials, p.fitted AS fitted, "
        "p.task_strength AS task, p.strategy_strength AS strategy, p.gain AS gain"
    )


def test_strengths_are_fitted_to_the_history_and_kept(memory: Memory) -> None:
    episodes = biased()
    memory.learn_many(episodes[:80])
    assert not memory.predict("task 1", "way 1").basis.strengths.fitted
    assert stored(memory) == []
    memory.learn_many(episodes[80:300])
    found = memory.predict("task 1", "way 1").basis.strengths
    assert found.fitted
    assert found.trials == 300
    assert found.score > 2.57
    assert found.task < 1
    [row] = stored(memory)
    assert (row["trials"], row["task"], row["strategy"]) == (300, found.task, found.strategy)
    memory.learn_many(episodes[300:320])
    assert memory.predict("task 1", "way 1").basis.strengths == found
    memory.learn_many(episodes[320:])
    assert memory.predict("task 1", "way 1").basis.strengths.trials == 400


SPECIAL = {"invoice": "query the ledger", "parcel": "call the carrier", "login": "search the wiki"}
WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel")


def test_it_learns_that_tasks_of_a_type_are_alike(opened: Opener) -> None:
    """Each type needs a tool of its own; what that does on other types tells nothing."""
    memory, draw = opened(embedder="hashing"), random.Random(3)
    episodes = []
    for number in range(300):
        kind = draw.choice(sorted(SPECIAL))
        tool = draw.choice([SPECIAL[kind]] * 6 + [*SPECIAL.values()])
        episodes.append(
            {
                "task": f"{draw.choice(WORDS)} {kind}",
                "task_type": kind,
                "strategy": tool,
                "success": draw.random() < (0.9 if tool == SPECIAL[kind] else 0.1),
                "source_key": str(number),
            }
        )
    memory.learn_many(episodes)
    chosen = memory.choose("zulu invoice", [*SPECIAL.values()], task_type="invoice", seed=1)
    expected = {one.text: one.probability for one in (chosen, *chosen.others)}
    assert expected.pop("query the ledger") > 0.7
    assert max(expected.values()) < 0.3
    strengths = memory.predict("alpha invoice", "query the ledger").basis.strengths
    assert (strengths.fitted, strengths.strategy < 1, strengths.cell > 2) == (True, True, True)


def test_what_failed_on_other_types_is_tried_on_this_one(opened: Opener) -> None:
    memory = opened(embedder="hashing")
    parcel = {"task_type": "parcel", "strategy": "query the ledger", "success": False}
    invoice = {"task_type": "invoice", "strategy": "ask a colleague"}
    memory.learn_many({"task": f"{word} parcel", **parcel} for word in WORDS)
    memory.learn_many(
        {"task": f"{word} invoice", "success": number % 2 == 0, **invoice}
        for number, word in enumerate(WORDS * 3)
    )
    candidates = ["ask a colleague", "query the ledger"]
    chosen = memory.choose("zulu invoice", candidates, task_type="invoice", seed=1)
    assert chosen.candidates["query the ledger"] > 0.01


def test_strengths_are_those_of_the_replayed_history(memory: Memory) -> None:
    """Tasks without a type are not taken to be of one."""
    near: Any = None  # the counts alone are compared
    history, rows = History({}), biased()
    for row in rows:
        if (kind := row["task"][-1]) in "123":
            row["task_type"] = kind
    memory.learn_many(rows)
    for trial in Calibrator(memory._graph, near).trials():
        history.add(trial)
    replayed, stored = history.strengths(), memory.calibrate().strengths
    for name, value in replayed.model_dump().items():
        assert getattr(stored, name) == pytest.approx(value, rel=0.01), name


def test_strengths_are_checked_derived_anew_and_forgotten(memory: Memory) -> None:
    memory.learn_many(biased())
    memory.predict("task 1", "way 1")
    before = stored(memory)
    report = memory.verify()
    assert report.ok
    assert report.checked["pooling"] == 1
    tamper(
        memory,
        "MATCH (p:Pooling) WHERE p.ns = $ns WITH p, p.task_strength * 1.002 AS strength "
        "SET p.task_strength = strength",
    )
    assert memory.verify().ok  # there the search of another version may have ended
    tamper(memory, "MATCH (p:Pooling) WHERE p.ns = $ns SET p.task_strength = 77.0")
    [difference] = memory.verify().differences
    assert (difference.kind, difference.field, difference.stored) == (
        "pooling",
        "task_strength",
        77.0,
    )
    memory.upkeep.rebuild()
    assert stored(memory) == before
    assert memory.verify().ok
    [row] = memory.query("MATCH (e:Episode) WHERE e.ns = $ns RETURN e.id AS id LIMIT 1")
    memory.upkeep.erase(row["id"])
    assert stored(memory) == []
    assert memory.predict("task 1", "way 1").basis.strengths.trials == 399


def test_strategies_of_one_run_are_one_outcome_of_the_task(memory: Memory) -> None:
    """They share it: five that were used together do not count five times, nor tell each other."""
    chance, ways = random.Random(2), [f"way {number}" for number in range(5)]
    for task in ("seldom", "often"):
        tried(memory, task, "another way", "+-" * 10)
    memory.learn("boil an egg", ways, success=False)
    memory.learn("mow the lawn", "way 0", success=False)
    together, alone = (
        memory.predict(task, "another way").probability for task in ("boil an egg", "mow the lawn")
    )
    assert together == pytest.approx(alone, abs=0.08)
    for number in range(160):  # whether a run succeeds depends on nothing
        task, won = f"task {number % 40}", chance.random() < 0.5
        memory.learn(task, chance.sample(ways, 3), success=won)
    assert memory.calibrate().strengths.task > 2.0  # so tasks tell less than by default


def test_strengths_of_a_short_or_one_sided_history_are_the_defaults(memory: Memory) -> None:
    tried(memory, "refund", "ask", "+" * 150)
    found = memory.predict("refund", "ask")
    assert not found.basis.strengths.fitted
    assert found.basis.strengths.task == 2.0
    assert found.probability > 0.98


# How well outcomes are predicted: the history replayed, beside simple predictions

SQL = Path(__file__).resolve().parents[2] / "seeds" / "logs" / "sql.jsonl.gz"


def test_an_empty_memory_has_nothing_to_measure(memory: Memory) -> None:
    found = memory.calibrate()
    assert (found.episodes, found.brier, found.log_loss, found.auc, found.ece) == (0,) + (None,) * 4
    assert [one.count for one in found.bins] == [0] * 10
    assert all(one.brier is None for one in found.baselines)


def test_each_episode_is_predicted_from_those_before_it(memory: Memory) -> None:
    draw = random.Random(3)
    told, came = [], []
    for number in range(30):
        task = " ".join(draw.sample(["refund", "rebook", "a", "late", "flight"], 3))
        strategy = draw.choice(["ask", "wait"])
        told.append(memory.predict(task, strategy).probability)
        came.append(draw.random() < 0.7)
        memory.learn(task, strategy, success=came[-1], source_key=str(number))
    found = memory.calibrate()
    assert (found.episodes, found.successes) == (30, sum(came))
    pairs = list(zip(told, came, strict=True))
    assert found.brier == pytest.approx(sum((p - won) ** 2 for p, won in pairs) / 30, rel=1e-5)
    loss = -sum(math.log(p if won else 1 - p) for p, won in pairs) / 30
    assert found.log_loss == pytest.approx(loss, rel=1e-5)
    assert sum(one.count for one in found.bins) == 30


def test_it_says_whether_a_simple_rate_predicts_better(memory: Memory) -> None:
    """Where strategies and tasks tell nothing, the rate of all is best."""
    assert memory.calibrate().verdict.endswith("too few to judge predictions")
    draw = random.Random(1)
    memory.learn_many(
        Episode(
            task=f"flip coin {number}",
            strategy=draw.choice("abcdefgh"),
            success=draw.random() < 0.5,
        )
        for number in range(300)
    )
    found = memory.calibrate()
    [best] = [one for one in found.baselines if one.name == "global"]
    assert best.gain == pytest.approx(some(best.brier) - some(found.brier))
    assert some(best.gain) < -2 * some(best.gain_error)
    assert found.verdict.startswith(
        "the memory predicts worse than the best simple rate, the rate of all: Brier score "
    )
    assert "; strategies and tasks tell little here: name fewer strategies" in found.verdict


def test_the_baselines_by_hand(memory: Memory) -> None:
    memory.learn_many(  # the order of a batch is kept
        {"task": "refund", "strategy": strategy, "success": success, "source_key": str(number)}
        for number, (strategy, success) in enumerate(
            [("ask", True), ("wait", True), ("ask", False)]
        )
    )
    expected = {
        # The rate of all before each: 1/2, 2/3, 3/4; others are drawn to it with a strength of 2.
        "global": (1 / 2, 2 / 3, 3 / 4),
        "task": (1 / 2, (1 + 4 / 3) / 3, (2 + 3 / 2) / 4),
        "strategy": (1 / 2, 2 / 3, (1 + 3 / 2) / 3),
        "cell": (1 / 2, 2 / 3, (1 + 3 / 2) / 3),
    }
    for one in memory.calibrate().baselines:
        a, b, c = expected[one.name]
        assert one.brier == pytest.approx(((1 - a) ** 2 + (1 - b) ** 2 + c**2) / 3, rel=1e-9)


def test_strategies_that_were_merged_are_one(memory: Memory) -> None:
    for number in range(8):
        name = ["ask", "ask them"][number % 2]
        memory.learn(f"task {number}", name, success=True, source_key=str(number))
    before = memory.calibrate()
    memory.lessons.merge("ask", "ask them")
    after = memory.calibrate()
    one, two = (
        next(some(base.brier) for base in found.baselines if base.name == "strategy")
        for found in (after, before)
    )
    assert one < two
    assert after.brier != before.brier


def test_episodes_without_strategies_count_for_their_tasks(memory: Memory) -> None:
    memory.learn_many(
        {"task": "easy" if n % 2 else "hard", "strategy": [], "success": n % 2 == 1}
        | {"source_key": str(n)}
        for n in range(20)
    )
    found = memory.calibrate()
    assert found.episodes == 20
    assert some(found.auc) > 0.9


@pytest.mark.parametrize("engine", ["embedded"])  # 752 episodes; fewer are measured on both
def test_it_predicts_a_log_better_than_any_simple_rate(memory: Memory) -> None:
    with gzip.open(SQL, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for line in lines:  # only what is predicted from
        line.pop("steps", None)
    memory.learn_many(lines)
    seen: list[tuple[int, int]] = []
    found = memory.calibrate(on_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (752, 752)
    for one in found.baselines:
        assert some(found.brier) < some(one.brier)
        assert one.auc is None or some(found.auc) > one.auc
    assert found.strengths.trials > 752
    [row] = memory.query("MATCH (p:Pooling) WHERE p.ns = $ns RETURN p.trials AS trials")
    assert row["trials"] == found.strengths.trials


PAIRS = st.lists(st.tuples(st.floats(1e-6, 1 - 1e-6), st.booleans()), min_size=1, max_size=40)


@hypothesis.given(pairs=PAIRS)
def test_the_scores_by_their_definitions(pairs: list[tuple[float, bool]]) -> None:
    told = np.array([p for p, _ in pairs])
    came = np.array([float(won) for _, won in pairs])
    brier, loss, auc, ece = scores(told, came).values()
    assert brier == pytest.approx(float(np.mean((told - came) ** 2)))
    assert loss == pytest.approx(
        -sum(math.log(p if won else 1 - p) for p, won in pairs) / len(pairs)
    )
    wins = [p for p, won in pairs if won]
    losses = [p for p, won in pairs if not won]
    if wins and losses:
        right = sum((p > q) + 0.5 * (p == q) for p in wins for q in losses)
        assert auc == pytest.approx(right / (len(wins) * len(losses)))
    else:
        assert auc is None
    gap = 0.0
    for place in range(10):
        held = [
            (p, won) for p, won in pairs if place / 10 <= p and (p < (place + 1) / 10 or place == 9)
        ]
        gap += abs(sum(p - won for p, won in held))
    assert ece == pytest.approx(gap / len(pairs), abs=1e-12)
    assert places_of(np.array([0.0, 0.1, 0.3, 0.999, 1.0])).tolist() == [0, 1, 3, 9, 9]
