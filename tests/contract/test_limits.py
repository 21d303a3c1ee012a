"""The longest texts that are accepted are stored by both engines; longer ones are refused."""

from __future__ import annotations

from uuid import uuid4

import pytest

from graphmem import Memory, Step, StrategyUse
from graphmem.errors import ValidationError
from graphmem.models.fields import MAX_KEY, MAX_TYPE
from tests.conftest import Opener

WIDE = "\U0001d518"  # a letter of four bytes, the most that there are
GROWING = "\U0001d160"  # one character that normalizing makes three of, of twelve bytes


def longest(length: int, what: str = "") -> str:
    return what + WIDE * (length - len(what))


def test_the_longest_texts_are_stored(opened: Opener) -> None:
    """Whatever is a key of an index of a server fits there, together with the namespace."""
    memory = opened(longest(200, f"{uuid4().hex} "), embedder="hashing")
    key, kind = longest(MAX_KEY), longest(MAX_TYPE)
    for place in range(3):  # the second time by one statement, in which all is known
        memory.learn_many(
            [
                {
                    "task": key,
                    "task_key": key,
                    "task_type": kind,
                    "strategy": [StrategyUse(key), StrategyUse(longest(MAX_KEY, "b"))],
                    "agent": key,
                    "score": 0.1,
                    "error": longest(MAX_KEY, "error "),
                    "source_key": longest(MAX_KEY, str(place)),
                    "source": key,
                    "steps": [Step(action_type=key, action=key, state={key: key}, reward=1.0)],
                    "successes": [key],
                    "mistakes": [longest(MAX_KEY, "m")],
                    "mistake_cards": [
                        {"type": key, "task": key, "worker": key, "correct_decision": key}
                    ],
                }
            ]
        )
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
