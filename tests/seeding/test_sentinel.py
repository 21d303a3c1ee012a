"""The Sentinel form: what it maps to, where it is found, and how it is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from graphmem import Episode, Memory
from graphmem.errors import ConflictError, ValidationError
from graphmem.seeding import Refused, jsonl, sentinel
from graphmem.seeding.formats import detect
from tests.seeding.test_seeding import records

CARD = {
    "mistake_type": "trusted a worker",
    "task_id": "triage",
    "worker_id": "w3",
    "correct_decision": "reject",
    "evidence": "the log says otherwise",
    "lesson": "check the log first",
    "seen_count": 2,
}
FORM: dict[str, Any] = {
    "task_id": "root_cause_analysis",
    "score": 0.82,
    "steps": 7,
    "trajectory_summary": "asked two workers, then looked at the log",
    "mistakes": ["believed the first worker"],
    "successes": ["looked at the log", "asked twice"],
    "mistake_cards": [CARD],
    "difficulty": {"level": 3},
}


def test_a_form_becomes_an_episode() -> None:
    episode = sentinel.episode(FORM)
    assert (episode.task, episode.task_key) == ("root_cause_analysis", "root_cause_analysis")
    assert (episode.score, episode.success, episode.agent) == (0.82, None, "default")
    assert episode.summary == FORM["trajectory_summary"]
    assert episode.strategy == ()
    assert episode.successes == tuple(FORM["successes"])
    assert episode.mistakes == tuple(FORM["mistakes"])
    assert episode.extra == {"steps": 7, "difficulty": {"level": 3}}
    [card] = episode.mistake_cards
    assert (card.type, card.task, card.worker) == ("trusted a worker", "triage", "w3")
    assert (card.correct_decision, card.evidence) == ("reject", CARD["evidence"])
    assert (card.lesson, card.extra) == (CARD["lesson"], {"seen_count": 2})


def test_other_spellings_are_understood() -> None:
    form = {
        "task_id": 12,
        "success": False,
        "agent_id": "overseer",
        "task_type": "triage",
        "mistake_cards": [
            {"type": "slow", "task": "t", "worker": 4, "correct_decision": True},
            {"type": "slow", "worker": "", "evidence": ["not", "a", "text"], "lesson": None},
        ],
        "mistakes": ["", "too slow", " "],
        "successes": None,
    }
    episode = sentinel.episode(form)
    assert (episode.task, episode.success, episode.agent) == ("12", False, "overseer")
    assert episode.task_type == "triage"
    assert episode.mistakes == ("too slow",)
    first, second = episode.mistake_cards
    assert (first.task, first.worker, first.correct_decision) == ("t", "4", "true")
    assert (second.worker, second.evidence) == (None, None)
    assert second.extra == {"worker": "", "evidence": ["not", "a", "text"], "lesson": None}


@pytest.mark.parametrize(
    ("given", "moment"),
    [
        ("2026-05-01T12:00:00Z", datetime(2026, 5, 1, 12, tzinfo=UTC)),
        ("2026-05-01T14:00:00+02:00", datetime(2026, 5, 1, 12, tzinfo=UTC)),
        (1_777_636_800, datetime(2026, 5, 1, 12, tzinfo=UTC)),
        (1_777_636_800.25, datetime(2026, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)),
        ("2026-05-01T12:00:00", None),  # which zone?
        (17, None),  # seconds of a run, or a counter
        (1_777_636_800_000, None),  # not seconds
        (None, None),
    ],
)
def test_a_time_is_taken_where_it_is_one_and_kept_anyway(
    given: Any, moment: datetime | None
) -> None:
    episode = sentinel.episode({**FORM, "timestamp": given})
    assert episode.ended_at == moment
    assert episode.extra["timestamp"] == given


@pytest.mark.parametrize(
    ("change", "field", "problem"),
    [
        ({"task_id": None}, "task_id", "is missing"),
        ({"task_id": " "}, "task_id", "must not be empty"),
        ({"score": 1.5}, "score", "less than or equal to 1"),
        ({"score": float("nan")}, "score", "finite"),
        ({"score": True}, "score", "valid number"),
        ({"score": None, "success": "yes"}, "score", "is missing"),
        ({"successes": ["x" * 1_000_000]}, "successes.0", "at most 10000 characters"),
        ({"mistake_cards": {}}, "mistake_cards", "must be a list"),
        ({"mistake_cards": [{**CARD, "worker_id": {}}]}, "mistake_cards.0.worker_id", "a text"),
        ({"trajectory_summary": 5}, "trajectory_summary", "valid string"),
        ({"trajectory_summary": "\ud800"}, "trajectory_summary", "surrogate"),
        ({"difficulty": float("inf")}, "extra", "infinity"),
        ({"graphmem": 5}, "graphmem", "is not what graphmem writes"),
        ({"graphmem": {"source_key": 5}}, "graphmem.source_key", "valid string"),
        ({"graphmem": {"episode": {"task": "x"}}}, "graphmem.episode.strategy", "is missing"),
        ({3: "x"}, "episode", "is not the name"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_wrong_is_named_as_in_the_form(
    change: dict[Any, Any], field: str, problem: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        sentinel.episode({**FORM, **change})
    assert (caught.value.field, problem in str(caught.value)) == (field, True), caught.value
    assert len(str(caught.value)) < 1_000


def test_an_edited_form_must_not_contradict_what_graphmem_wrote_beside_it() -> None:
    content = {"task": "t", "score": 0.5, "success": True, "reward": 0.5, "agent": "a"}
    content |= {"strategy": [{"text": "s"}]}
    origin = {"source_key": "k", "occurrence": None, "source": None}
    whole = {"graphmem": {"episode": jsonl.record(content, origin)}}
    form = {**sentinel.write({**content, "extra": {}}), **whole}
    assert sentinel.episode(form).source_key == "k"
    with pytest.raises(ValidationError, match=r"score: differs from what graphmem\.episode says"):
        sentinel.episode({**form, "score": 0.6})


def file_of(*forms: Mapping[str, Any], **rest: Any) -> bytes:
    return json.dumps({"episode_log": forms, **rest}, indent=1).encode()


def episodes(content: bytes) -> list[tuple[int, Episode]]:
    found = records("sentinel", content, "agent_memory")
    assert not [item for item in found if isinstance(item, Refused)]
    return found


def test_episodes_of_a_file_are_known_by_their_places() -> None:
    """Two equal ones at two places are two; lists that were derived are not learned."""
    first, second = episodes(file_of(FORM, FORM, task_rules={"t": ["[WORKS] guess"]}))
    assert [item[0] for item in (first, second)] == [1, 2]
    assert first[1].source_key == "agent_memory/1"
    assert second[1].source_key == "agent_memory/2"
    assert first[1].successes == second[1].successes == tuple(FORM["successes"])
    assert "guess" not in first[1].model_dump_json()


def test_the_format_is_found_by_content() -> None:
    for content in (
        file_of(FORM),
        file_of(),
        json.dumps({"task_rules": {}, "episode_log": [FORM] * 500}).encode(),
        b"\xef\xbb\xbf" + file_of(FORM),
        file_of({**FORM, "trajectory_summary": "x" * 100_000})[:65_536],
    ):
        assert detect(content, "log").name == "sentinel"
    own = {"task": "t", "strategy": "s", "score": 1.0, "extra": {"task_id": 1, "episodes": []}}
    assert detect(json.dumps(own).encode(), "log").name == "jsonl"


def test_what_sentinel_took_is_mended_with_a_warning(memory: Memory) -> None:
    cards = [{"lesson": "look"}, "no card", CARD]
    form = {"score": "0.2", "mistakes": [None, "hurried"], "successes": "asked", "steps": 3}
    learned = memory.record_episode({"task_id": "triage", "mistake_cards": cards, **form})
    assert [warning.partition(":")[0] for warning in learned.warnings] == [
        *("score", "successes", "mistakes", "mistake_cards", "mistake_cards.0")
    ]
    assert {str(rule) for rule in memory.lessons.rules()} == {"[AVOID] hurried"}
    assert {mistake.type for mistake in memory.lessons.mistakes()} == {
        *("unknown_mistake", "trusted a worker")
    }
    assert memory.record_episode(FORM).warnings == ()


def test_an_id_tells_which_episode_it_is(memory: Memory) -> None:
    first = memory.record_episode({**FORM, "episode_id": "e-7"})
    assert memory.record_episode({**FORM, "id": 7}).created
    again = memory.record_episode({**FORM, "episode_id": "e-7"})
    assert (again.episode_id, again.created) == (first.episode_id, False)
    with pytest.raises(ConflictError, match="sentinel/e-7"):
        memory.record_episode({**FORM, "episode_id": "e-7", "score": 0.1})
    with pytest.raises(ValidationError, match="episode_id: must be a text"):
        memory.record_episode({**FORM, "episode_id": []})
