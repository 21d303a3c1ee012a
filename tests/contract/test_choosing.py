"""Choosing a strategy: ways, probabilities, candidates, and what another way would have got."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, get_args

import pytest
from scipy.stats import beta

from graphmem import Memory, StrategyUse
from graphmem.advice.calibrate import Calibrator, History
from graphmem.advice.choose import DRAWS, FOUND
from graphmem.advice.formula import DEFAULTS
from graphmem.errors import NotFoundError, ValidationError
from graphmem.models.advice import Choice, Considered, Estimate, Evaluation, Explore
from graphmem.printable import percent
from graphmem.search.similarity import Similarity
from tests.conftest import Opener
from tests.contract.teaching import dump, learn_runs, some, tried

WAYS = get_args(Explore)
TASK = "refund a flight"


@pytest.fixture
def learned(memory: Memory) -> Memory:
    """A memory in which one strategy works on one task, and another one on the other."""
    tried(memory, TASK, "ask", "+++++++-")
    tried(memory, TASK, "wait", "----+---")
    tried(memory, "rebook a seat", "ask", "---")
    tried(memory, "rebook a seat", "wait", "++++")
    return memory


def all_of(choice: Choice) -> tuple[Considered, ...]:
    return (choice, *choice.others)


def test_the_loop_finds_what_works_on_each_task(memory: Memory, engine: str) -> None:
    works = {TASK: "ask", "rebook a seat": "wait", "upgrade a seat": "look"}
    for seed, task in enumerate(list(works) * (40 if engine == "embedded" else 24)):
        choice = memory.choose(task, ["ask", "wait", "look"], seed=seed)
        assert min(choice.candidates.values()) > 0.0  # none is given up
        memory.learn(task, choice, success=choice.text == works[task])
    for task, best in works.items():
        choice = memory.choose(task, ["ask", "wait", "look"], seed=1)
        assert choice.text == best
        assert choice.propensity > 0.8


def test_what_broke_is_tried_now_and_then_and_taken_once_it_works_again(memory: Memory) -> None:
    def share() -> float:
        return memory.choose(TASK, ["call", "wait"], seed=1).candidates["call"]

    learn = partial(learn_runs, memory, task=TASK)
    learn("call", "+" * 20)
    learn("wait", "+-" * 5, first=20)
    learn("call", "-" * 12, first=30)
    assert share() < 0.01
    learn("wait", "+-" * 15, first=42)
    assert 0.1 < share() < 0.3
    learn("call", "+", first=72)  # after so long a silence one success tells much
    assert share() > 0.4
    learn("call", "+++", first=73)
    assert share() > 0.9


BUGS = "the app crashes on start", "null pointer in the parser", "login fails with an exception"
TEXTS = (
    *("write a tutorial for beginners", "describe the retry policy", "document the settings"),
    *("write release notes", "explain how scopes work", "translate the manual"),
)


@pytest.mark.parametrize("typed", [False, True])
def test_failures_on_other_tasks_are_no_change_where_it_works(memory: Memory, typed: bool) -> None:
    bug, text = ("bug", "text") if typed else (None, None)
    for task in BUGS * 8:
        memory.learn(task, "debugger", success=True, task_type=bug)
    for _ in range(4):
        memory.learn("the page shows a stack trace", "grep", success=False, task_type=bug)
    for task in TEXTS:
        memory.learn(task, "debugger", success=False, task_type=text)
    ways, new = ["debugger", "grep"], "my screen is blank"
    choice = memory.choose(BUGS[1], ways, task_type=bug, explore="greedy")
    assert (choice.text, choice.why[:19]) == ("debugger", "likely: 8 of 8 here")
    assert choice.probability > (0.9 if typed else 0.7)
    assert memory.choose(new, ways, task_type=bug, explore="greedy").text == "debugger"
    assert not memory.changes()


def test_what_breaks_on_a_type_is_left_there_and_not_elsewhere(memory: Memory) -> None:
    def asked(kind: str) -> tuple[str, str]:
        choice = memory.choose("a new one", ["debugger", "grep"], task_type=kind, explore="greedy")
        return choice.text, choice.why.partition(";")[0]

    def learn(task: str, way: str, outcomes: str, kind: str) -> None:
        for letter in outcomes:
            memory.learn(task, way, success=letter == "+", task_type=kind)

    for task in BUGS * 8:
        learn(task, "debugger", "+", "bug")
        learn(task, "grep", "+-", "bug")
    for task in TEXTS:
        learn(task, "debugger", "+++", "text")
    learn("it is slow", "debugger", "-" * 8, "bug")  # one task, which may be hard
    assert asked("bug") == ("debugger", "likely: 24 of 32 on bug tasks")
    for number, task in enumerate(TEXTS):
        learn(f"bug {number}", "debugger", "-", "bug")
        learn(task, "debugger", "+", "text")
    assert asked("bug")[0] == "grep"
    assert asked("text") == ("debugger", "likely: 24 of 24 on text tasks")
    other = memory.choose("a new one", ["debugger"], task_type="bug")
    assert some(other.change).successes_since == 0
    assert "on tasks like this one" in other.why


def test_many_outcomes_on_a_type_keep_their_rate_beside_few_elsewhere(memory: Memory) -> None:
    for number in range(4):
        tried(memory, f"bug {number}", "debugger", "+" * 8, task_type="bug")
        tried(memory, f"bug {number}", "grep", "--", task_type="bug")
    for task in TEXTS:
        tried(memory, task, "debugger", "-", task_type="text")
    choice = memory.choose("a blank screen", ["debugger"], task_type="bug")
    assert choice.probability > 0.75
    assert "32 of 32 on bug tasks" in choice.why


def test_what_is_expected_is_what_predict_says(learned: Memory) -> None:
    for one in all_of(learned.choose(TASK, ["ask", "wait", "guess"], explore="greedy")):
        told = learned.predict(TASK, one.text)
        assert one.probability == pytest.approx(told.probability, rel=1e-12)
        assert (one.low, one.high) == pytest.approx((told.low, told.high), rel=1e-9)
        assert one.here_trials == told.trials
        assert one.known == (one.text != "guess")


def test_it_says_why_with_its_numbers(learned: Memory) -> None:
    choice = learned.choose(TASK, ["ask", "guess"], explore="greedy")
    assert choice.text == "ask"
    assert choice.why.startswith("likely: 7 of 8 here; expected ")
    assert choice.why.endswith("; greedy always picks it")
    [other] = choice.others
    assert other.why.startswith("too little known: never tried")
    assert other.why.endswith("; greedy never picks it")
    some = learned.choose(TASK, ["ask", "guess"], seed=0)
    assert some.why.endswith(
        f"; Thompson sampling picks it in {percent(some.propensity, 1)} of draws"
    )
    assert learned.explain(choice).id == choice.id


@pytest.mark.parametrize("explore", WAYS)
def test_propensities_are_the_shares_in_which_each_is_taken(
    learned: Memory, engine: str, explore: Explore
) -> None:
    asked: Any = {"candidates": ["ask", "wait", "guess"], "explore": explore, "epsilon": 0.3}
    told = learned.choose(TASK, **asked, seed=0).candidates
    assert sum(told.values()) == pytest.approx(1.0, rel=1e-12)
    times = 150 if engine == "embedded" else 30  # Python draws, whoever holds the numbers
    taken = Counter(learned.choose(TASK, **asked, seed=seed).text for seed in range(times))
    for text, share in told.items():
        spread = 4 * (share * (1 - share) * (1 / times + 1 / DRAWS)) ** 0.5 + 0.01
        assert taken[text] / times == pytest.approx(share, abs=spread)


@pytest.mark.parametrize(("first", "others", "sharper"), [("wait", 1, 1.0), ("ask", 14, 2.0)])
def test_thompson_draws_from_the_sharpened_posterior(
    learned: Memory, first: str, others: int, sharper: float
) -> None:
    candidates = [first, *(f"never tried {number}" for number in range(others))]
    choice = learned.choose(TASK, candidates, seed=3)
    counts = learned.settings.choice_sharpness * sharper
    parts = {}
    for one in all_of(choice):
        assert one.probability == learned.predict(TASK, one.text).probability
        elsewhere = one.worth - one.here_trials
        rest = elsewhere / (1 + elsewhere * 16 / ((16 + 4 * len(candidates)) * 2))  # 16 trials
        worth = (one.here_trials + rest) * counts
        parts[one.text] = beta(one.probability * worth, (1 - one.probability) * worth)
    grid = [(number + 0.5) / 4_000 for number in range(4_000)]
    wins = parts[first].pdf(grid)
    for text in candidates[1:]:
        wins = wins * parts[text].cdf(grid)
    assert choice.candidates[first] == pytest.approx(wins.mean(), abs=0.05)


def test_greedy_takes_the_highest_and_equal_ones_share(learned: Memory) -> None:
    assert learned.choose(TASK, ["ask", "wait"], explore="greedy").candidates == {
        "ask": 1.0,
        "wait": 0.0,
    }
    news = ["sing", "dance", "pray", "guess"]
    for explore in ("greedy", "ucb", "epsilon"):
        told = learned.choose(TASK, news, explore=explore, seed=1)
        assert set(told.candidates.values()) == {0.25}
    taken = {learned.choose(TASK, news, explore="greedy", seed=seed).text for seed in range(16)}
    assert taken == set(news)


def test_a_seed_repeats_and_none_does_not(learned: Memory) -> None:
    asked: Any = {"candidates": ["ask", "wait", "guess"]}
    assert learned.choose(TASK, **asked, seed=7) == learned.choose(TASK, **asked, seed=7)
    fresh = {learned.choose(TASK, **asked).candidates["ask"] for _ in range(8)}
    assert len(fresh) > 1


def test_without_candidates_it_takes_what_works_on_such_tasks_or_anywhere(memory: Memory) -> None:
    tried(memory, TASK, "ask", "+++")
    for number in range(30):
        tried(memory, f"quite another thing {number}", f"way {number}", "+" * (number % 5 + 1))
    choice = memory.choose(TASK, seed=1)
    assert len(all_of(choice)) == FOUND
    assert "ask" in choice.candidates
    best = memory.strategies(limit=3)
    assert {row.text for row in best} <= choice.candidates.keys()


def test_what_was_never_tried_is_expected_to_be_as_what_is_like_it(memory: Memory) -> None:
    tried(memory, TASK, "ask for the booking number", "--------")
    tried(memory, TASK, "check the fare rules", "++++----")
    news = ["ask for the booking number twice", "check the fare rules first", "sing a song"]
    found = {one.text: one for one in all_of(memory.choose(TASK, news, seed=1))}
    low, middle, other = (found[text] for text in news)
    assert low.probability < middle.probability
    assert low.probability < other.probability
    tells = "too little known: never tried; "
    assert low.why.startswith(f"{tells}0 of 8 by 'ask for the booking number', like it; expected ")
    assert other.why.startswith(f"{tells}4 of 16 by all others; expected ")
    assert not any(one.known for one in found.values())


def test_an_empty_memory_has_no_candidates_of_its_own(memory: Memory) -> None:
    with pytest.raises(ValidationError, match=r"candidates: is empty .* give at least one"):
        memory.choose(TASK, [])
    with pytest.raises(NotFoundError, match="give candidates, or learn an episode first"):
        memory.choose(TASK)
    choice = memory.choose(TASK, ["ask", "wait"], seed=1)
    assert {one.probability for one in all_of(choice)} == {0.5}
    assert choice.candidates["ask"] == pytest.approx(0.5, abs=0.1)
    assert not choice.known
    assert dump(memory) == {}


def test_what_counts_as_one_is_one_candidate(learned: Memory) -> None:
    assert learned.choose(TASK, ["ask", "wait", " ask "]).candidates.keys() == {"ask", "wait"}
    [row] = [row for row in learned.strategies() if row.text == "ask"]
    assert learned.choose(TASK, [row.id, "wait"]).candidates.keys() == {"ask", "wait"}
    tried(learned, TASK, "ask politely", "+")
    learned.lessons.merge("ask", "ask politely")
    both = learned.choose(TASK, ["ask politely", "ask", "wait"], explore="greedy")
    assert both.candidates.keys() == {"ask politely", "wait"}
    assert (both.here_successes, both.here_trials) == (8, 9)


def test_an_anti_pattern_is_shown_and_removes_nothing(memory: Memory) -> None:
    tried(memory, TASK, "hurry", "---", error="timeout after 3 s", task_type="web")
    tried(memory, TASK, "ask", "+++", task_type="web")
    choice = memory.choose(TASK, ["hurry", "ask"], seed=1)
    assert choice.text == "ask"
    assert choice.warnings == ()
    [other] = choice.others
    [warning] = other.warnings
    assert (warning.strategy, warning.occurrences) == ("hurry", 3)
    assert (warning.expected, warning.said) == (other.probability, "rarely: 0 of 3 here")
    assert warning.sentence == (
        f"rarely: 0 of 3 here; failed 3 of 3 on web with {warning.error_class!r}"
    )
    assert warning.better_alternative is not None
    assert 0 < other.probability < choice.probability
    assert memory.choose(TASK, ["hurry"]).warnings == (warning,)
    assert memory.choose(TASK, ["hurry"], task_type="sql").warnings == ()
    [elsewhere] = memory.choose("an unknown thing", ["hurry"]).warnings
    assert elsewhere.id == warning.id
    assert elsewhere.said == "too little known: 0 of 3 on other tasks, none like this one"
    tried(memory, TASK, "rush", "-", task_type="web")
    memory.lessons.merge("rush", "hurry")
    [of_merged] = memory.choose(TASK, ["hurry", "ask"], explore="greedy").others[0].warnings
    assert of_merged.occurrences == 3


def test_nothing_is_written_until_the_choice_is_learned(learned: Memory) -> None:
    learned.upkeep.relink()
    before = dump(learned)
    choice = learned.choose(TASK, ["ask", "wait", "something new"], seed=1)
    assert dump(learned) == before
    told = learned.learn(TASK, choice, success=True)
    assert told.created
    [use] = learned.query(
        "MATCH (e:Episode {id: $id})-[u:USED]->(s:Strategy) WHERE e.ns = $ns "
        "RETURN s.text AS text, u.shown AS shown, u.propensity AS propensity, "
        "u.explore AS explore, u.candidates AS candidates",
        id=told.episode_id,
    )
    assert json.loads(use.pop("candidates")) == choice.candidates
    given = {"text": choice.text, "propensity": choice.propensity, "explore": "thompson"}
    assert use == {**given, "shown": True}
    other = StrategyUse("another way", applied=False)
    learned.learn(TASK, [choice, other], success=False)
    assert learned.verify().ok


def test_extreme_posteriors_and_sharpness_still_choose(opened: Opener) -> None:
    memory = opened()
    tried(memory, TASK, "ask", "+" * 300)
    tried(memory, TASK, "wait", "-" * 300)
    for sharpness in (0.01, 1_000.0):
        told = opened(choice_sharpness=sharpness).choose(TASK, ["ask", "wait", "guess"], seed=1)
        assert sum(told.candidates.values()) == pytest.approx(1.0)
        assert told.propensity > 0


# What another way to choose would have got, where the right answer is known

CHANCES = {"ask": 0.5, "wait": 0.3, "guess": 0.2}
RATES = {
    **{("refund", text): rate for text, rate in zip(CHANCES, (0.9, 0.6, 0.3), strict=True)},
    **{("bake bread", text): rate for text, rate in zip(CHANCES, (0.2, 0.5, 0.7), strict=True)},
}
TASKS = ("refund", "bake bread")


def log(count: int, seed: int, chances: dict[str, float] = CHANCES) -> list[dict[str, Any]]:
    """Episodes whose strategies are drawn by given chances."""
    draw = random.Random(seed)
    episodes = []
    for number in range(count):
        task = draw.choice(TASKS)
        [taken] = draw.choices(list(chances), list(chances.values()))
        use = StrategyUse(taken, explore="own", candidates=chances)
        won = draw.random() < RATES[task, taken]
        key = f"{seed}/{number}"
        episodes.append({"task": task, "strategy": use, "success": won, "source_key": key})
    return episodes


def told(found: Evaluation) -> dict[str, Estimate]:
    names = ("inverse_propensity", "self_normalised", "doubly_robust")
    return {name: getattr(found, name) for name in names}


def test_the_numbers_by_hand(memory: Memory) -> None:
    """Each episode is predicted from those before it, by what `predict` says at that time."""
    rows = []
    for number, episode in enumerate(log(30, seed=2)):
        means = {
            text: memory.predict(episode["task"], text).probability for text in sorted(CHANCES)
        }
        best = [text for text in means if means[text] >= max(means.values()) - 1e-12]
        taken = episode["strategy"].text
        weight = (taken in best) / len(best) / CHANCES[taken]
        hoped = sum(means[text] for text in best) / len(best)
        rows.append((weight, episode["success"], hoped, means[taken]))
        memory.learn(**episode)
        assert number == len(rows) - 1
    found = memory.evaluate("greedy")
    weights = [row[0] for row in rows]
    assert found.inverse_propensity.value == pytest.approx(sum(w * r for w, r, _, _ in rows) / 30)
    assert found.self_normalised.value == pytest.approx(
        sum(w * r for w, r, _, _ in rows) / sum(weights)
    )
    assert found.doubly_robust.value == pytest.approx(
        sum(hoped + w * (r - own) for w, r, hoped, own in rows) / 30
    )
    assert found.effective == pytest.approx(sum(weights) ** 2 / sum(w * w for w in weights))
    assert found.largest_weight == max(weights)
    assert found.got == pytest.approx(sum(row[1] for row in rows) / 30)
    for one in told(found).values():
        assert one.gain == pytest.approx(one.value - found.got)
        assert one.low <= one.value <= one.high
    assert found == memory.evaluate("greedy")
    assert memory.evaluate("greedy", seed=1) != found
    clipped = memory.evaluate("greedy", clip=1.5)
    assert clipped.inverse_propensity.value == pytest.approx(
        sum(min(w, 1.5) * r for w, r, _, _ in rows) / 30
    )


@pytest.mark.parametrize("dated", [False, True])
def test_the_replayed_belief_is_that_of_a_choice(opened: Opener, dated: bool) -> None:
    memory = opened(relevance_floor=0.99)
    episodes = log(150, seed=3)
    for number, episode in enumerate(episodes):
        if dated:  # at the end, everything fails
            ended = {"ended_at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)}
            episode.update(ended | ({"success": False} if number >= 120 else {}))
    memory.learn_many(episodes)
    calibrator = Calibrator(memory._graph, Similarity(memory._graph))
    history = History({})
    trials = {}
    for trial in calibrator.trials():
        history.add(trial)
        trials[trial.task] = trial
    names = {row["text"]: row["id"] for row in memory.query(NODES)}
    for task in TASKS:
        choice = memory.choose(task, list(CHANCES))
        for one in (choice, *choice.others):
            told = history.judge(trials[names[task]], [names[one.text]], DEFAULTS)
            assert one.probability == pytest.approx(float(told.probability[0]))
            assert one.worth == pytest.approx(float(told.size(told.elsewhere)[0]))


NODES = (
    "MATCH (t:Task) WHERE t.ns = $ns RETURN t.key AS text, t.id AS id UNION ALL "
    "MATCH (s:Strategy) WHERE s.ns = $ns RETURN s.text AS text, s.id AS id"
)


def test_choosing_is_restricted_to_given_strategies(memory: Memory) -> None:
    memory.learn_many(log(200, seed=4))
    alike = memory.evaluate(strategies=["ask", "guess"])
    by_hand = memory.evaluate(lambda task, candidates: {"ask": 0.5, "guess": 0.5})
    assert told(alike) == told(by_hand)
    assert (alike.explore, alike.strategies) == (None, ("ask", "guess"))
    one = memory.evaluate("thompson", strategies="wait")
    assert told(one) == told(memory.evaluate(strategies=["wait", " wait "]))
    seen: set[tuple[str, tuple[str, ...]]] = set()

    def way(task: str, candidates: Any) -> dict[str, float]:
        seen.add((task, candidates))
        return {candidates[0]: 1.0}

    memory.evaluate(way, ["wait", "guess", "unheard of"])
    assert seen == {(task, ("guess", "wait")) for task in TASKS}


def test_what_cannot_be_used_is_left_out_and_counted(memory: Memory) -> None:
    memory.learn_many(log(20, seed=6))
    memory.learn_many(log(11, seed=7, chances={"ask": 0.5, "wait": 0.5}))
    bare = StrategyUse("ask", propensity=0.5)
    idle = StrategyUse("guess", propensity=0.5, applied=False)
    several = [bare, StrategyUse("wait", propensity=0.5)]
    for number in range(3):
        for name, uses in (("bare", [bare, "wait", idle]), ("several", several), ("none", "ask")):
            key = f"{name}/{number}"
            memory.learn("refund", uses, success=True, source_key=key)  # type: ignore[arg-type]
    found = memory.evaluate("greedy")
    assert found.episodes == 31
    assert found.left_out.model_dump() == {
        "no_propensity": 3,
        "several_choices": 3,
        "no_candidates": 3,
        "none_offered": 0,
    }
    fixed = memory.evaluate(strategies="guess")  # 11 had it not; of 3 it is not known
    assert (fixed.episodes, fixed.left_out.none_offered) == (23, 11)
    assert fixed.left_out.no_candidates == 0


def test_candidates_without_a_chance_are_reported(memory: Memory) -> None:
    memory.learn_many(log(30, seed=9, chances={"ask": 0.75, "wait": 0.25, "guess": 0.0}))
    found = memory.evaluate(strategies=["ask", "guess"])
    assert found.unsupported == 0.5
    with pytest.raises(NotFoundError, match="none of 30 episodes took a strategy that this way"):
        memory.evaluate(strategies="guess")


class TestRefusals:
    def test_without_propensities(self, memory: Memory) -> None:
        remedy = r"estimate needs 10 at least; choose with .* StrategyUse\(text, propensity="
        with pytest.raises(NotFoundError, match=f"0 of 0 episodes .* {remedy}"):
            memory.evaluate("greedy")
        for number in range(20):
            use = StrategyUse("ask", propensity=0.5) if number < 4 else "ask"
            memory.learn("refund", use, success=True, source_key=str(number))
        with pytest.raises(NotFoundError, match=f"4 of 20 episodes .* {remedy}"):
            memory.evaluate("greedy")

    def test_without_candidates(self, memory: Memory) -> None:
        for number in range(20):
            use = StrategyUse(["ask", "wait"][number % 2], propensity=0.5)
            memory.learn("refund", use, success=number % 4 == 0, source_key=str(number))
        with pytest.raises(NotFoundError, match=r"0 of 20 .*; give `candidates` with their prob"):
            memory.evaluate("greedy")
        found = memory.evaluate(strategies="ask")  # a fixed one needs no candidates
        assert found.inverse_propensity.value == pytest.approx(0.5)
        assert memory.evaluate(strategies=["ask", "wait"]).effective == pytest.approx(20)

    def test_none_of_the_strategies(self, memory: Memory) -> None:
        memory.learn_many(log(20, seed=1))
        with pytest.raises(NotFoundError, match=r"0 of 20 .*; name strategies that were among"):
            memory.evaluate(strategies="unheard of")

    @pytest.mark.parametrize(
        "answer",
        [
            *(None, 5, {}, {"ask": 0.5}, {"ask": 0.7, "wait": 0.7}, {"other": 1.0}),
            *({"ask": "1"}, {"ask": -0.5, "wait": 1.5}, {"ask": math.nan}, ["ask"]),
        ],
    )
    @pytest.mark.parametrize("engine", ["embedded"])
    def test_a_function_that_returns_no_probabilities(self, memory: Memory, answer: Any) -> None:
        memory.learn_many(log(20, seed=1))
        with pytest.raises(ValidationError, match=r"explore: returned .*; return a dict with"):
            memory.evaluate(lambda task, candidates: answer)


def test_choices_of_the_memory_can_be_evaluated(memory: Memory) -> None:
    """Ask, act, learn, again; then what another way would have got."""
    draw = random.Random(1)
    for number in range(40):
        task = draw.choice(TASKS)
        choice = memory.choose(task, list(CHANCES), seed=number)
        won = draw.random() < RATES[task, choice.text]
        memory.learn(task, choice, success=won, source_key=str(number))
    for way in ("greedy", "thompson", "epsilon", "ucb"):
        found = memory.evaluate(way)
        assert (found.episodes, found.left_out.no_candidates) == (40, 0)
        assert 0.0 <= found.unsupported <= 1.0
    same = memory.evaluate("thompson")
    assert same.effective > 35  # that is how they were chosen, but for the draws
    assert same.largest_weight < 3
    assert abs(same.inverse_propensity.gain) < 0.1
