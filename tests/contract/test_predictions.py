"""The prediction ledger: what was expected, what came, and what follows from that."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from graphmem import Memory
from graphmem.errors import ConflictError, NotFoundError, ValidationError
from graphmem.models.policies import Policy, Prediction
from graphmem.policies.ledger import FEEDBACK, Predictions
from graphmem.store.queries import procedure
from tests.conftest import Opener, of_peers
from tests.contract.teaching import known, wilson

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
STATE = {"queue": "long"}


@pytest.fixture
def predictions(memory: Memory) -> Predictions:
    return memory.predictions


def learned(memory: Memory, action: str = "add worker", agent: str = "ada") -> Policy:
    """A policy that one update made."""
    memory.policies.update(STATE, action, 1.0, terminal=True, agent=agent)
    return known(memory, STATE, action, agent=agent)


def came(predictions: Predictions, outcome: Any, actual: Any) -> Prediction:
    """Expect one outcome, and let another come."""
    expected = predictions.expect("anything", outcome=outcome)
    return predictions.resolve(expected.id, actual=actual)


# Expecting


def test_what_is_expected_is_kept(predictions: Predictions) -> None:
    given: dict[str, Any] = {
        "probability": 0.75,
        "outcome": {"minutes": 12, "green": True, "steps": ["a", {"b": None}]},
        "agent": "ada",
        "at": NOON,
        "due": NOON + DAY,
    }
    made = predictions.expect(" night build ", **given)
    assert made.created
    assert (made.subject, made.kind, made.text) == ("night build", "free", "night build")
    assert {name: getattr(made, name) for name in given} == given
    assert (made.status, made.resolved_at, made.error, made.happened, made.how) == ("open", *[None] * 4)  # noqa: E501  # fmt: skip
    kept = made.model_copy(update={"created": False})
    assert predictions.get(made.id) == kept
    assert predictions.list("open") == predictions.list() == [kept]
    bare = predictions.expect("x", probability=1)
    assert (bare.outcome, bare.at, bare.due, bare.agent) == (None, None, None, "default")


def test_a_subject_is_a_policy_a_strategy_or_any_text(
    memory: Memory, predictions: Predictions
) -> None:
    policy, free = learned(memory), predictions.expect("quicksort", probability=0.5)
    memory.learn("sort", "quicksort", success=True)
    [strategy] = memory.strategies()
    for subjects, kind, text, agent in (
        ((policy, policy.id), "policy", "add worker", "ada"),  # whose policy it is
        ((" quicksort ", strategy.id, strategy), "strategy", "quicksort", "default"),
    ):
        for subject in subjects:
            made = predictions.expect(subject, probability=0.9)
            assert (made.kind, made.text, made.agent) == (kind, text, agent)
            assert made in [
                one.model_copy(update={"created": True})
                for one in predictions.list("open", subject)
            ]
    assert predictions.expect(policy, probability=0.9, agent="eve").agent == "eve"
    edges = memory.query(
        "MATCH (p:Prediction)-[:ABOUT_ITEM]->(x:Policy) WHERE p.ns = $ns RETURN x.id AS id"
    )
    assert edges == [{"id": policy.id}] * 3

    assert (free.kind, free.subject) == ("free", "quicksort")
    untried = memory.policies.best(STATE, actions=["never done"], agent="ada")
    with pytest.raises(NotFoundError, match="no policy or strategy"):
        predictions.expect(untried, probability=0.5)  # type: ignore[arg-type]
    # Feedback on a text reaches what was free before it became a strategy.
    resolved = predictions.feedback("quicksort", "used")
    assert free.id in {one.id for one in resolved}
    assert len(resolved) == 4
    assert known(memory, policy.id).signals == 0  # what comes of others moves nothing


def test_a_key_makes_expecting_idempotent(memory: Memory, predictions: Predictions) -> None:
    given: dict[str, Any] = {
        "outcome": {"b": 1, "a": 2}, "probability": 1, "due": NOON, "key": "run 1"}  # fmt: skip
    first = predictions.expect("x", **given)
    again = predictions.expect("x", **{**given, "outcome": {"a": 2, "b": 1}})
    assert (first.created, again.created) == (True, False)
    assert again == first.model_copy(update={"created": False})
    others: list[dict[str, Any]] = [
        *({"probability": 0.6}, {"probability": None}, {"outcome": {"a": 2}}, {"outcome": None}),
        *({"agent": "eve"}, {"at": NOON}, {"due": None}, {"due": NOON + DAY}),
    ]
    for subject, other in [("y", {}), *(("x", other) for other in others)]:
        with pytest.raises(ConflictError, match="run 1"):
            predictions.expect(subject, **{**given, **other})
    assert predictions.list() == [again]
    predictions.resolve(first.id, happened=True)
    memory.learn("t", "x", success=True)  # what was free is a strategy now
    assert predictions.expect("x", **given).status == "resolved"
    assert len(predictions.list()) == 1


# Resolving: the error


def test_errors_are_the_peers(predictions: Predictions) -> None:
    for entry in of_peers("popoto", "prediction_error"):
        error = came(predictions, entry["predicted"], entry["actual"]).error
        assert error == pytest.approx(entry["expect"], rel=1e-12, abs=1e-15), entry


@pytest.mark.parametrize(
    ("outcome", "actual", "error"),
    [
        ({"x": 5}, {"x": -5}, 1.0),  # twice the larger one, held at 1
        ({"x": 5, "y": 1}, {"x": -5, "y": 1}, 0.5),  # each name by itself
        ({"x": 1.7e308}, {"x": -1.7e308}, 1.0),
        ({"x": 1000}, {"x": 900}, 0.1),  # relative to the larger one
        ({"x": 0.1}, {"x": -0.1}, 0.2),  # or to 1
        ({"x": 1}, {"x": 1.0}, 0.0),
        ({"x": True}, {"x": 1}, 1.0),
        ({"x": None}, {}, 1.0),
        ({"x": None}, {"x": None}, 0.0),
        ({"x": 1}, {"y": 1}, 1.0),
        ({"x": 1, "y": 1}, {"x": 1}, 0.5),
        ({"x": "null"}, {"x": None}, 1.0),
        ({"x": [1, {"a": 2.0, "b": 3}]}, {"x": [1.0, {"b": 3, "a": 2}]}, 0.0),
        ({"x": [1, 2]}, {"x": [2, 1]}, 1.0),
        ({"x": {}}, {"x": []}, 1.0),
        ({"é$'\"\\": "写"}, {"é$'\"\\": "写"}, 0.0),
    ],
    ids=str,
)
def test_how_far_off_an_outcome_was(
    predictions: Predictions, outcome: Any, actual: Any, error: float
) -> None:
    made = came(predictions, outcome, actual)
    assert made.error == pytest.approx(error, abs=1e-12)
    assert (made.happened, made.how, made.actual) == (error < 0.5, "outcome", actual)


def test_an_outcome_that_came_goes_before_the_probability(predictions: Predictions) -> None:
    slow = {"minutes": 20}
    for outcome, came_of_it, told in (
        ({"minutes": 10}, {"actual": slow}, (0.5, False, "outcome")),
        ({"minutes": 10}, {"actual": slow, "happened": True}, (0.5, True, "outcome")),
        ({"minutes": 10}, {"happened": True}, (0.25, True, "happened")),
        (None, {"actual": slow, "happened": True}, (0.25, True, "happened")),
    ):
        made = predictions.expect("x", probability=0.75, outcome=outcome)
        done = predictions.resolve(made.id, **came_of_it)
        assert (done.error, done.happened, done.how) == told
        assert done.actual == came_of_it.get("actual")


def test_what_had_no_probability_needs_an_outcome(predictions: Predictions) -> None:
    made = predictions.expect("x", outcome={"a": 1})
    with pytest.raises(ValidationError, match=r"^actual"):
        predictions.resolve(made.id, happened=True)
    assert predictions.get(made.id).status == "open"


def test_a_prediction_is_resolved_once(memory: Memory, predictions: Predictions) -> None:
    policy = learned(memory)
    made = predictions.expect(policy, probability=0.9)
    done = predictions.resolve(made.id, happened=True)
    assert done.resolved_at is not None
    with pytest.raises(ValidationError, match="was resolved on") as caught:
        predictions.resolve(made.id, happened=False)
    assert made.id in str(caught.value)
    assert done.resolved_at.isoformat(timespec="seconds") in str(caught.value)
    assert predictions.get(made.id) == done
    assert known(memory, policy.id).signals == 1
    for unknown in ("", "0" * 32, "no such id"):
        for call in (lambda key: predictions.resolve(key, happened=True), predictions.get):
            with pytest.raises(NotFoundError, match="no prediction"):
                call(unknown)


def test_of_many_that_resolve_one_exactly_one_wins(memory: Memory, opened: Opener) -> None:
    policy = learned(memory)
    ledgers = [opened().predictions for _ in range(8)]
    made = ledgers[0].expect(policy, probability=0.5)
    together = threading.Barrier(len(ledgers))

    def resolve(one: Predictions, number: int) -> str:
        together.wait(30)
        try:
            if number % 2:
                return str(len(one.feedback(policy, "acted")))
            one.resolve(made.id, happened=True)
        except ValidationError as error:
            return "late" if "was resolved" in error.problem else str(error)
        return "1"

    with ThreadPoolExecutor(len(ledgers)) as pool:
        won = list(pool.map(resolve, ledgers, range(len(ledgers))))
    assert won.count("1") == 1
    assert set(won) <= {"1", "0", "late"}
    assert known(memory, policy.id).signals == 1
    assert memory.verify().ok


# Confidence


def test_what_came_moves_the_confidence_in_a_policy(
    memory: Memory, predictions: Predictions
) -> None:
    policy, other = learned(memory), learned(memory, "restart")
    for outcome, actual, signal in (
        ({"x": 1.0}, {"x": 0.9}, 0.9),
        ({"x": 1.0}, {"x": 0.25}, 0.2),  # an error of 0.75
        ({"x": 0.0}, {"x": 0.7}, 0.3),  # the threshold is not low itself
    ):
        before = known(memory, policy.id)
        predictions.resolve(predictions.expect(policy, outcome=outcome).id, actual=actual)
        after = known(memory, policy.id)
        moved = (signal - before.confidence) / (before.signals + 2)
        assert after.confidence == pytest.approx(before.confidence + moved, rel=1e-12)
        assert (after.signals, after.q) == (before.signals + 1, before.q)
    assert known(memory, other.id).signals == 0
    events = [event for event in memory.events.tail(100, agent="ada") if event.kind == "signal"]
    assert [event.subject for event in events] == [policy.id] * 3
    assert [event.value for event in events] == pytest.approx([0.9, 0.2, 0.3], rel=1e-12)


# Feedback and expiry


def test_the_constants_are_the_peers() -> None:
    constants = of_peers("popoto", "constants")
    resolve = procedure("predictions.resolve").params
    assert constants["PL_CONFIDENCE_ERROR_THRESHOLD"] == resolve["threshold"].default
    assert constants["PL_CONFIDENCE_LOW_SIGNAL"] == resolve["low_signal"].default
    for how, (error, _) in FEEDBACK.items():
        assert constants[f"PL_AUTO_RESOLVE_{how.upper()}"] == error


@pytest.mark.parametrize(
    ("how", "error", "happened", "signal"),
    [
        ("acted", 0.1, True, 0.9),
        ("used", 0.3, True, 0.7),
        ("dismissed", 0.5, None, 0.5),
        ("contradicted", 0.9, False, 0.2),
    ],
)
def test_what_one_did_resolves_all_that_is_open(
    memory: Memory, predictions: Predictions, how: Any, error: float, happened: Any, signal: float
) -> None:
    policy = learned(memory)
    made = [predictions.expect(policy, probability=0.5) for _ in range(3)]
    predictions.resolve(made[0].id, happened=True)
    elsewhere = predictions.expect("elsewhere", probability=0.5)
    done = predictions.feedback(policy, how)
    assert {one.id for one in done} == {made[1].id, made[2].id}
    for one in done:
        assert one == predictions.get(one.id)
        assert (one.status, one.how) == ("resolved", how)
        assert (one.error, one.happened, one.actual) == (error, happened, None)
    signals = [e.value for e in memory.events.tail(9, agent="ada") if e.kind == "signal"]
    assert signals[1:] == pytest.approx([signal, signal])
    assert memory.verify().ok
    assert predictions.feedback(policy, how) == []
    assert [one.id for one in predictions.list("open")] == [elsewhere.id]


def test_what_is_due_expires(predictions: Predictions) -> None:
    past = predictions.expect("x", probability=0.5, due=NOON)
    later = predictions.expect("x", probability=0.5, due=NOON + DAY)
    never = predictions.expect("x", probability=0.5)
    done = predictions.expect("x", probability=0.5, due=NOON)
    predictions.resolve(done.id, happened=True)

    assert predictions.expire(now=NOON - DAY) == 0
    assert predictions.expire(now=NOON) == 1
    assert predictions.expire(now=NOON) == 0
    assert {one.id for one in predictions.list("open")} == {later.id, never.id}
    [expired] = predictions.list("expired")
    assert expired == past.model_copy(update={"created": False, "status": "expired"})
    with pytest.raises(ValidationError, match="has expired: it was due on 2026-05-01"):
        predictions.resolve(past.id, happened=True)
    assert predictions.feedback("x", "used") != []
    assert predictions.get(past.id) == expired
    assert predictions.reliability().count == 3
    predictions.expect("x", probability=0.5, due=datetime.now(UTC) - DAY)
    predictions.expect("x", probability=0.5, due=datetime.now(UTC) + DAY)
    assert predictions.expire() == 1  # the clock says what is due


# Reliability


def foreseen(
    predictions: Predictions,
    *pairs: tuple[float, bool],
    subject: Any = "x",
    agent: str | None = None,
) -> None:
    """Give probabilities, and let come what comes."""
    for probability, happened in pairs:
        made = predictions.expect(subject, probability=probability, agent=agent)
        predictions.resolve(made.id, happened=happened)


def test_scores_by_hand(predictions: Predictions) -> None:
    found = predictions.reliability()
    assert (found.count, found.happened) == (0, 0)
    scores = (found.base_rate, found.brier, found.baseline, found.log_loss)
    assert (*scores, found.calibration_error) == (None,) * 5
    assert [(one.count, one.mean, one.share) for one in found.bins] == [(0, None, None)] * 10
    assert [(one.lower, one.upper) for one in found.bins] == [(0, 1)] * 10

    foreseen(predictions, (0.8, True), (0.8, True), (0.9, False), (0.1, False))
    found = predictions.reliability()
    assert (found.count, found.happened, found.base_rate) == (4, 2, 0.5)
    assert found.brier == pytest.approx((0.04 + 0.04 + 0.81 + 0.01) / 4)
    assert found.baseline == pytest.approx(0.25)
    loss = -(2 * math.log(0.8) + math.log(0.1) + math.log(0.9)) / 4
    assert found.log_loss == pytest.approx(loss)
    low, high, last = (found.bins[place] for place in (1, 8, 9))
    assert (low.low, low.high, low.count, low.successes) == (0.1, 0.2, 1, 0)
    assert (high.low, high.high, high.count, high.successes) == (0.8, 0.9, 2, 2)
    assert high.mean == pytest.approx(0.8)
    assert high.share == 1
    assert (high.lower, high.upper) == pytest.approx(wilson(2, 2))
    assert (last.count, last.share) == (1, 0.0)
    assert found.calibration_error == pytest.approx((0.1 + 2 * 0.2 + 0.9) / 4)


def test_a_probability_on_a_border_is_in_the_bin_above(predictions: Predictions) -> None:
    foreseen(predictions, *((p / 10, True) for p in range(11)))
    assert [one.count for one in predictions.reliability().bins] == [1] * 9 + [2]


def test_being_certain_and_wrong_has_a_finite_loss(predictions: Predictions) -> None:
    foreseen(predictions, (0.0, True), (1.0, False))
    found = predictions.reliability()
    assert found.log_loss == pytest.approx(-math.log(1e-15))
    assert found.brier == 1
    foreseen(predictions, (1.0, True), (0.0, False), agent="sure")
    assert predictions.reliability(agent="sure").log_loss == pytest.approx(0, abs=1e-14)


def test_only_what_had_a_probability_and_is_known_counts(
    memory: Memory, predictions: Predictions
) -> None:
    policy = learned(memory)
    foreseen(predictions, (0.8, True), (0.6, False), subject=policy)
    foreseen(predictions, (0.5, True), agent="eve")
    predictions.expect("x", probability=0.5)  # open
    predictions.expect("x", probability=0.5, due=NOON)
    predictions.expire()
    came(predictions, {"a": 1}, {"a": 1})  # no probability
    predictions.expect("z", probability=0.5)
    predictions.feedback("z", "dismissed")  # does not tell whether it happened
    predictions.expect("w", probability=0.5)
    predictions.feedback("w", "acted")

    assert predictions.reliability().count == 4
    assert predictions.reliability(subject=policy).count == 2
    assert predictions.reliability(subject=policy, agent="ada").count == 2
    assert predictions.reliability(agent="eve").count == 1
    assert predictions.reliability(subject="w").happened == 1
