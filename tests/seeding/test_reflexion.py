"""Reflexion logs: one episode for each attempt that was really run, whatever the log repeats."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from graphmem import Episode, Memory
from graphmem.models.episodes import Step
from graphmem.seeding import Refused, sources
from graphmem.seeding.benchmarks import name_attempt_strategies
from tests.seeding.test_seeding import records, seeded, settled

STEM = "reflexion_100_questions_7_trials"


def trial(number: int, **sections: str) -> str:
    heading = f"\n{'#' * 40}\nBEGIN TRIAL {number}\nTrial summary: Correct: 1\n{'#' * 39}\n"
    return heading + "".join(
        f"------------- BEGIN {name.upper()} AGENTS -------------\n\n{text}"
        for name, text in sections.items()
    )


SOLVED = """\
Question: Who wrote it?
Thought 1: I need to search it.
Action 1: Search[it]
Observation 1: It is a novel.

It was written by Grace.
Thought 2: It was Grace.
Action 2: Finish[Grace]
Observation 2: Answer is CORRECT
Correct answer: Grace

"""
FAILED = """\
Question: Where was it?
Thought 1: Search.
Action 1: Search[where]
Observation 1: Could not find [where]. Similar: ['There']
Thought 2: Look again.
Action 2: Lookup[there], Search[it]
Observation 2: No Results
Thought 3: Then here.
Action 3: Finish[here]
Observation 3: Answer is INCORRECT
Correct answer: there

"""
HALTED = """\
Question: Where was it?You have attempted to answer following question before and failed. Use it.
Reflections:
- I answered too soon.
  Search more.
- Search "there".
Thought 1: Search.
Action 1: Search["there"]
Observation 1: A place.
Correct answer: there

"""


def attempts(text: str, stem: str = STEM) -> list[Episode]:
    found = settled(*records("reflexion", text.encode(), stem))
    return [item for item in found if isinstance(item, Episode)]


def refusals(text: str) -> list[Refused]:
    found = settled(*records("reflexion", text.encode(), STEM))
    return [item for item in found if isinstance(item, Refused)]


def test_an_attempt_becomes_an_episode() -> None:
    [solved, failed] = attempts(trial(1, correct=SOLVED, incorrect=FAILED))

    assert (solved.task, solved.success, solved.error) == ("Who wrote it?", True, None)
    assert (solved.agent, solved.source) == ("reflexion", "reflexion")
    assert solved.source_key == f"{STEM}/1/Who wrote it?"
    assert solved.steps[0].action == {"thought": "I need to search it.", "action": "Search[it]"}
    assert solved.steps[0].observation == "It is a novel.\n\nIt was written by Grace."

    assert failed.success is False
    assert [step.action_type for step in failed.steps] == ["Search", "Lookup", "Finish"]
    assert [step.error for step in failed.steps] == [
        "Could not find [where]. Similar: ['There']",
        None,
        "Answer is INCORRECT",
    ]
    [failed] = attempts(trial(1, incorrect=FAILED.replace("answer: there", "answer: GOLD")))
    assert "GOLD" not in failed.model_dump_json()


def test_the_question_of_a_retry_is_cut_off_where_the_prompt_begins() -> None:
    [first, second] = attempts(trial(1, incorrect=FAILED) + trial(2, halted=HALTED))
    assert first.task == second.task == "Where was it?"
    assert (second.success, second.error) == (False, "halted")
    assert second.extra == {
        "trial": 2,
        "reflections": ["I answered too soon.\n  Search more.", 'Search "there".'],
    }


def test_a_solved_question_is_run_once_however_often_it_is_printed() -> None:
    without_steps = "Question: Who wrote it?\nCorrect answer: Grace\n\n"
    text = (
        trial(1, correct=SOLVED)
        + trial(2, correct=SOLVED)
        + trial(3, correct=without_steps, incorrect=FAILED)
    )
    assert [(one.task, one.extra["trial"]) for one in attempts(text)] == [
        ("Who wrote it?", 1),
        ("Where was it?", 3),
    ]
    assert refusals(text) == []


def test_a_question_that_is_listed_twice_in_a_trial_was_run_once() -> None:
    [only] = attempts(trial(1, incorrect=FAILED, halted=FAILED))
    assert only.error is None
    assert len(attempts(trial(1, incorrect=FAILED) + trial(2, incorrect=FAILED))) == 2


def test_whether_it_came_to_an_answer_never_becomes_a_strategy() -> None:
    kinds = ["Search", "Search", "Lookup", "Search", "Finish"]
    steps = [Step(action_type=kind) for kind in kinds]
    told: dict[str, Any] = {"reflections": ["r"]}
    none: dict[str, Any] = {"reflections": []}
    names = ["sequence: Search > Lookup > Search", "Search", "Lookup"]
    assert (
        name_attempt_strategies(steps, none) == name_attempt_strategies(steps[:-1], none) == names
    )
    assert name_attempt_strategies(steps, told) == [*names, "reflect"]
    assert name_attempt_strategies(steps[-1:], told) == ["answers at once", "reflect"]


def test_a_line_in_an_observation_is_not_taken_for_a_part() -> None:
    text = FAILED.replace("No Results", "No Results\nQuestion: no\nAction 7: no\nThought 2: no")
    [episode] = attempts(trial(1, incorrect=text))
    assert len(episode.steps) == 3
    assert episode.steps[1].observation == "No Results\nQuestion: no\nAction 7: no\nThought 2: no"


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        (SOLVED, "success", "outcome is unknown"),
        (trial(1) + SOLVED, "success", "outcome is unknown"),
        (trial(1, strange=SOLVED), "success", "outcome is unknown"),
        (trial(1, correct=SOLVED)[:-30], "record", "has no 'Correct answer:'"),
        (trial(3, correct="Question: q\nCorrect answer: a\n"), "steps", "nothing was run"),
        (trial(1, correct=SOLVED.replace("Who wrote it?", " ")), "task", "is missing"),
    ],
)
def test_what_is_no_attempt_is_refused_with_its_line(text: str, field: str, reason: str) -> None:
    [refused] = refusals(text)
    assert (refused.field, text.splitlines()[refused.number - 1][:9]) == (field, "Question:")
    assert reason in refused.reason


def test_texts_and_tables_in_a_folder_are_logs_if_a_format_recognises_them(tmp_path: Path) -> None:
    for name in ("README.txt", "LICENSE", "table.csv", "empty.txt"):
        (tmp_path / name).write_text("" if name == "empty.txt" else "no log")
    log = trial(1, correct=SOLVED).encode()
    (tmp_path / "plain.txt").write_bytes(log)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "packed.txt.gz").write_bytes(gzip.compress(log))
    (tmp_path / "inner" / "scores.csv").write_text("trace_id,data_type,string_value\n")
    (tmp_path / "inner" / "damaged.txt.gz").write_bytes(gzip.compress(log)[:5])
    found = [Path(source.path).name for source in sources([str(tmp_path)])]
    assert found == ["damaged.txt.gz", "packed.txt.gz", "scores.csv", "plain.txt"]


@pytest.mark.parametrize("engine", ["embedded"])  # 783 episodes; shorter logs on both
def test_the_logs_of_the_paper_count_as_their_readme_says(
    memory: Memory, shared_data: Path
) -> None:
    """Packed and by content; base: 364 attempts, 34 solved; with reflections: 419 and 53."""
    folder = shared_data / "reflexion_hotpot"
    for name, run, solved in (("base", 364, 34), ("reflexion", 419, 53)):
        [log] = folder.glob(f"{name}_*.txt.gz")
        report = seeded(memory, log)
        assert (report.created, report.skipped, report.refused) == (run, 0, 0)
        [counts] = memory.query(
            "MATCH (a:Agent {name: $agent})-[:RAN]->(e:Episode) WHERE a.ns = $ns "
            "RETURN count(e) AS run, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS solved, "
            "sum(CASE WHEN e.error = 'halted' THEN 1 ELSE 0 END) AS halted",
            agent=name,
        )
        assert (counts["run"], counts["solved"]) == (run, solved)
        assert counts["halted"] > 0
    again = seeded(memory, folder)
    assert (again.files, again.created, again.skipped, again.refused) == (2, 0, 783, 0)
    assert memory.stats().tasks == 100
    retries = memory.query(
        "MATCH (e:Episode)-[:USED]->(s:Strategy {text: 'reflect'}) WHERE e.ns = $ns "
        "RETURN count(e) AS run, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS solved"
    )
    assert retries[0]["solved"] == 21  # of the 53, 32 were solved at once
    assert memory.verify().ok
