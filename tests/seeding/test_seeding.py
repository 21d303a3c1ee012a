"""Seeding from logs: formats of benchmarks, files, refusals, resuming."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from graphmem import Episode, Memory
from graphmem.errors import GraphMemError, SeedingError, ValidationError
from graphmem.models.episodes import Step
from graphmem.seeding import Limits, Refused, SeedReport, seed, sources
from graphmem.seeding.benchmarks import name_attempt_strategies
from graphmem.seeding.formats import Later, Origin, Record, find
from graphmem.seeding.settling import Outcomes, Settling
from graphmem.text.error_classes import error_class
from tests.seeding.samples import INTERCODE, TAU

LINE = {"task": "t", "strategy": "s", "success": True}


def records(name: str, content: bytes | str, stem: str = "log", **limits: Any) -> list[Any]:
    """Read ``content`` by the format ``name``."""
    content = content.encode() if isinstance(content, str) else content
    stream = io.BufferedReader(io.BytesIO(content))
    return list(find(name).read(stream, Origin(stem, Limits(**limits))))


def reasons(name: str, content: bytes | str, **limits: Any) -> list[str]:
    """Why records are refused."""
    found = records(name, content, **limits)
    return [one.reason for one in found if isinstance(one, Refused)]


def settled(
    *found: Record,
    agent: str | None = None,
    strategy_from: str | None = None,
    evaluator: str | None = None,
    outcomes: str | dict[str, Any] | None = None,
) -> list[Any]:
    """The episodes and refusals of records."""
    joined = None if outcomes is None else Outcomes.of(outcomes, Limits())
    settling = Settling(agent, strategy_from, evaluator, joined, 0.5)
    told = settling.settle(iter(found))
    items = [item if isinstance(item, Refused) else item[1] for item in told]
    return [item for item in items if not isinstance(item, Later)]


def seeded(memory: Memory, *paths: Path | str, **options: Any) -> SeedReport:
    """Seed a memory, as the command line does."""
    return seed(memory, sources(str(path) for path in paths), **options)


def test_jsonl_round_trips_every_field() -> None:
    line = {
        **LINE,
        "strategy": [{"text": "a", "credit": 0.5}, {"text": "b", "applied": False}],
        "started_at": "2026-01-01T10:00:00+02:00",
        "steps": [{"action": {"x": [1, None]}, "reward": 0.5, "terminal": True}],
        "extra": {"seed": 3},
    }
    [(number, episode)] = records("jsonl", json.dumps(line).encode())
    assert number == 1
    assert records("jsonl", episode.model_dump_json(exclude_defaults=True).encode()) == [
        (1, episode)
    ]


def test_paths_are_no_sources() -> None:
    with Memory.open("memory:") as memory, pytest.raises(ValidationError, match=r"give sources\("):
        seed(memory, ["runs.jsonl"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"logs": 5}, "^logs: must be a list"),
        ({"logs": {"task": "a"}}, "^logs: must be a list"),
        ({"logs": ["a\0b"]}, "^logs: is not a path"),
        ({"logs": "x" * 5_000}, "name too long"),
        ({"map": 5}, "^map: is not a path"),
        ({"map": "x" * 5_000}, "name too long"),
        ({"outcomes": "a\0b"}, "^outcomes: is not a path"),
        ({"limit": 0}, "^limit: must be a whole number"),
        ({"on_progress": 5}, "^on_progress: is not a function"),
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any], named: str) -> None:
    with Memory.open("memory:") as memory, pytest.raises(GraphMemError, match=named):
        memory.seed(**{"logs": [{"task": "a", "strategy": "b", "success": True}], **wrong})


def test_a_map_as_a_text_may_be_longer_than_the_name_of_a_file(unstored: Memory) -> None:
    tool = "tool_" * 60
    line = f"task=prompt,strategy={tool},success=ok"
    assert unstored.seed([{"prompt": "a", tool: "b", "ok": True}], map=line).created == 1


def test_equal_lines_count_each_and_once(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a seeding ends early, and where equal ones were one before."""
    monkeypatch.setattr("graphmem.seeding.run.BATCH", 2)
    memory.learn_many([LINE])
    [before] = [row.id for row in memory.episodes(strategy="s")]
    texts = [json.dumps(LINE), json.dumps({**LINE, "score": 1.0, "source": "x"})]
    texts += [json.dumps({**LINE, "score": 0.2}), json.dumps({**LINE, "success": False})]
    (log := tmp_path / "log.jsonl").write_text("\n".join(texts * 3) + "\n")

    # Of each four lines the first two are equal, the third contradicts itself.
    assert seeded(memory, log, limit=5).created == 3
    report = seeded(memory, log)
    assert (report.created, report.skipped, report.refused) == (5, 4, 3)
    report = seeded(memory, log)
    assert (report.created, report.skipped, report.refused) == (0, 9, 3)
    [row] = memory.strategies()
    assert (row.trials, row.successes) == (9, 6)
    assert before in {row.id for row in memory.episodes(strategy="s", limit=99)}
    (other := tmp_path / "other.jsonl").write_text("\n".join(texts) + "\n")
    assert seeded(memory, other).created == 0  # equal records of two files are the same
    assert seeded(memory, other, log, agent="ada").created == 9
    assert memory.verify().ok


def test_tau_bench_maps_a_run() -> None:
    [episode] = settled(*records("tau-bench", json.dumps([TAU]), "gpt-4o-airline"))

    about = (episode.agent, episode.task_type, episode.task_key)
    assert about == ("gpt-4o", "airline", "airline/7")
    assert episode.task == "cancel it"
    assert [use.text for use in episode.strategy] == ["writes: cancel_x", "get_user", "cancel_x"]
    assert (episode.success, episode.reward) == (True, 1.0)
    assert [step.action_type for step in episode.steps] == ["get_user", "respond", "cancel_x"]
    assert episode.steps[0].error == "Error: no user"
    assert (episode.steps[1].action, episode.steps[1].observation) == ("What is your id?", "u2")
    assert episode.steps[2].action == "broken{"
    assert episode.extra == {"flavour": "kept", "trial": 2, "user_id": "u1"}
    assert episode.source_key == "gpt-4o-airline/7/2"
    assert "GOLD" not in episode.model_dump_json()

    names = ("update_a", "get_x", "update_a", "send_b", "update_a")
    calls = [{"function": {"name": name}} for name in names]
    for taken, texts in (
        (calls, ["writes: update_a > send_b > update_a", "update_a", "get_x", "send_b"]),
        (calls[1:2], ["writes: nothing", "get_x"]),
    ):
        run = {**TAU, "traj": [{"role": "assistant", "tool_calls": taken}]}
        [episode] = settled(*records("tau-bench", json.dumps([run])))
        assert [use.text for use in episode.strategy] == texts


def test_intercode_maps_a_run() -> None:
    stem = "ic_sql_multiturn_gpt-4_10_turns"
    [episode] = settled(*records("intercode", json.dumps({"0": INTERCODE}), stem))

    assert (episode.task, episode.task_key, episode.task_type) == ("How many?", "sql/3", "sql")
    assert (episode.agent, episode.source_key) == ("gpt-4", f"{stem}/0")
    assert [use.text for use in episode.strategy] == [
        "multiturn gpt-4, 10 turns",
        "DESCRIBE",
        "(no SQL)",
        "SELECT",
    ]
    assert episode.steps[0].error == "Error executing query: no table"
    assert [step.observation for step in episode.steps] == [
        "Error executing query: no table",
        None,
        "[[1]]",
    ]
    assert episode.extra == {"hardness": "easy"}
    for stem, setup, agent in (
        ("ic_sql_multiturn_gpt-3.5-1_turns", "multiturn gpt-3.5, 1 turns", "gpt-3.5"),
        (
            "multiturn_chat-001_10_turns_handicap",
            "multiturn chat-001, 10 turns, handicap",
            "chat-001",
        ),
        ("ic_sql_react_10_turns", "react 10 turns", "react 10 turns"),
    ):
        wrapped = json.dumps({"meta": {}, "logs": {"852": INTERCODE}}).encode()
        [episode] = settled(*records("intercode", wrapped, stem))
        assert (episode.strategy[0].text, episode.agent) == (setup, agent)
        assert episode.source_key == f"{stem}/852"
    kinds = {
        "select 1": "SELECT", "execute[SELECT 1]": "SELECT", "```sql\nDESC t": "DESCRIBE",
        "The answer is 4": "(no SQL)", "submit": "SUBMIT", "": "(no SQL)",
    }  # fmt: skip
    run = {**INTERCODE, "turn_history": {"actions": list(kinds)}}
    [episode] = settled(*records("intercode", json.dumps({"0": run})))
    assert [step.action_type for step in episode.steps] == list(kinds.values())


def test_what_stands_before_the_cut_of_a_small_file_is_learned(
    memory: Memory, tmp_path: Path
) -> None:
    runs = {str(n): {**INTERCODE, "query": f"{n * 7919**9}"} for n in range(40)}
    packed = gzip.compress(json.dumps(runs).encode())
    log = tmp_path / "ic_sql_react_10_turns.json.gz"
    log.write_bytes(packed[: len(packed) * 3 // 4])

    report = seeded(memory, log)
    assert 10 < report.created < 40
    [refusal] = report.refusals
    assert refusal.record == report.created + 1
    assert "the gzip file is cut off" in refusal.reason


def test_unknown_content_asks_for_a_format(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"hello": "world"}')
    with pytest.raises(SeedingError, match="no known format; name one with --format"):
        seeded(memory, tmp_path / "other.json")
    with pytest.raises(SeedingError, match="no such file"):
        seeded(memory, tmp_path / "missing.json")
    for content, reason in (
        (gzip.compress(gzip.compress(b"[]")), "is packed by gzip twice; unpack it once"),
        *(('{"task": "t"}'.encode(wide), "save it as UTF-8") for wide in ("utf-16", "utf-32-be")),
    ):
        (tmp_path / "strange.log").write_bytes(content)
        with pytest.raises(SeedingError, match=reason):
            seeded(memory, tmp_path / "strange.log")
    for name in ("README.md", ".DS_Store"):
        (tmp_path / name).write_text("no log")
    for named in (tmp_path, tmp_path / "*.json"):  # nobody named the file
        report = seeded(memory, named)
        [refusal] = report.refusals
        assert refusal.reason == "was passed over: no known format"
        assert refusal.file == str(tmp_path / "other.json")
    (tmp_path / "void").mkdir()
    (tmp_path / "void" / "README.txt").write_text("no log either")
    with pytest.raises(SeedingError, match=r"in this folder: .* \.csv, \.parquet files that"):
        seeded(memory, tmp_path / "void")


def test_tau_bench_airline_seeds_as_its_readme_counts(memory: Memory, shared_data: Path) -> None:
    report = seeded(memory, shared_data / "tau_airline")

    assert (report.created, report.refused) == (200, 0)
    stats = memory.stats()
    assert (stats.episodes, stats.successes, stats.tasks) == (200, 84, 50)
    calls = memory.query(
        "MATCH (s:Step) WHERE s.ns = $ns AND s.action_type <> 'respond' "
        "RETURN count(s) AS calls, count(DISTINCT s.action_type) AS tools, "
        "sum(CASE WHEN s.error IS NULL THEN 0 ELSE 1 END) AS errors"
    )
    assert calls == [{"calls": 1164, "tools": 14, "errors": 73}]
    errors = memory.query("MATCH (s:Step) WHERE s.ns = $ns AND s.error IS NOT NULL RETURN s.error")
    assert Counter(error_class(str(row["s.error"])) for row in errors) == {
        "Error: payment amount does not add up, total price is <number>, but paid <number>": 24,
        "Error: flight <id> not available on date <time>": 15,
        "Error: gift card balance is not enough": 12,
        "Error: not enough seats on flight <id>": 9,
        "Error: certificate cannot be used to update reservation": 4,
        "Error: payment method not found": 4,
        "Error: payment method <id> not found": 3,
        "Error: not enough balance in payment method <id>": 2,
    }
    assert memory.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["embedded"])
def test_intercode_seeds_as_its_readme_counts(memory: Memory, shared_data: Path) -> None:
    report = seeded(memory, shared_data / "intercode_sql")
    assert (report.created, report.skipped, report.refused) == (15_552, 0, 0)
    stats = memory.stats()
    assert (stats.tasks, stats.steps) == (1_034, 83_797)
    assert stats.successes / stats.episodes == pytest.approx(0.377, abs=0.001)
    [errors] = memory.query(
        "MATCH (s:Step) WHERE s.ns = $ns AND s.error IS NOT NULL RETURN count(s) AS n"
    )
    assert errors == {"n": 54_320}
    rates = {
        row.text: row.successes / row.trials
        for row in memory.strategies(limit=200)
        if row.text.startswith("multiturn")
    }
    assert rates["multiturn vicuna, 10 turns"] == pytest.approx(0.063, abs=0.001)
    assert rates["multiturn gpt-4, 10 turns"] == pytest.approx(0.737, abs=0.001)
    assert memory.verify().ok


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


def attempts(text: str) -> list[Episode]:
    found = settled(*records("reflexion", text, STEM))
    return [item for item in found if isinstance(item, Episode)]


def refusals(text: str) -> list[Refused]:
    found = settled(*records("reflexion", text, STEM))
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
