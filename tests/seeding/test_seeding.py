"""Seeding from logs: formats, files, refusals, resuming."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from graphmem import Memory
from graphmem.episodes import occurrences
from graphmem.errors import NotFoundError, SeedingError, ValidationError
from graphmem.ids import digest
from graphmem.seeding import Origin, Record, Refusal, Refused, SeedReport, formats, seed, sources
from graphmem.seeding.formats import find
from graphmem.seeding.jsonl import dump

SEEDS = Path(__file__).resolve().parents[2] / "seeds" / "logs"

LINE = {"task": "t", "strategy": "s", "success": True}

TAU_RUN = {
    "task_id": 7,
    "trial": 2,
    "reward": 1.0,
    "flavour": "kept",
    "info": {
        "task": {"user_id": "u1", "instruction": "cancel it", "actions": ["GOLD"], "outputs": []},
        "reward_info": {"gold": "GOLD"},
    },
    "traj": [
        {"role": "system", "content": "policy"},
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "function": {"name": "get_user", "arguments": '{"id": "u1"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "name": "get_user", "content": "Error: no user"},
        {"role": "assistant", "content": "What is your id?"},
        {"role": "user", "content": "u2"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c2", "function": {"name": "cancel_x", "arguments": "broken{"}}],
        },
        {"role": "tool", "tool_call_id": "c2", "name": "cancel_x", "content": "done"},
    ],
}
INTERCODE_RUN = {
    "environment": "sql",
    "task_id": 3,
    "query": "How many?",
    "hardness": "easy",
    "turn_history": {
        "actions": ["execute[DESC t]", "I think so", "SELECT 1"],
        "observations": ["Error executing query: no table", None, [[1]]],
        "rewards": [0.0, 0.0, 1.0],
        "valid_action": [False, True, True],
    },
    "summary": {"max_reward": 1.0, "turns_taken": 3},
}


def records(name: str, content: bytes, stem: str = "log") -> list[Record]:
    """Read ``content`` by the format ``name``."""
    stream = io.BufferedReader(io.BytesIO(content))
    return list(find(name).read(stream, Origin(stem, stem)))


def seeded(memory: Memory, *paths: Path | str, **options: Any) -> SeedReport:
    """Seed a memory, as the command line does."""
    return seed(
        memory,
        sources(str(path) for path in paths),
        **options,
    )


def test_the_formats_of_graphmem_are_registered() -> None:
    assert {"jsonl", "tau-bench", "intercode"} <= formats().keys()
    with pytest.raises(NotFoundError, match=r"there are .*\bintercode\b"):
        find("nonsense")


def test_jsonl_round_trips_every_field() -> None:
    line = {
        **LINE,
        "strategy": [{"text": "a", "credit": 0.5}, {"text": "b", "applied": False}],
        "started_at": "2026-01-01T10:00:00+02:00",
        "steps": [{"action": {"x": [1, None]}, "reward": 0.5, "terminal": True}],
        "extra": {"seed": 3},
    }
    [(number, episode)] = records("jsonl", json.dumps(line).encode())  # type: ignore[misc]
    assert number == 1
    assert records("jsonl", dump(episode).encode()) == [(1, episode)]


def test_paths_are_no_sources() -> None:
    with Memory.open("memory:") as memory, pytest.raises(ValidationError, match=r"give sources\("):
        seed(memory, ["runs.jsonl"])  # type: ignore[list-item]


def test_equal_lines_count_each_and_once(memory: Memory, tmp_path: Path) -> None:
    """Also where a seeding ends early, and where equal ones were one before."""
    record = {"task": "t", "strategy": "s", "success": True}
    memory.learn_many([record])
    [before] = [row.id for row in memory.evidence("s")]
    texts = [json.dumps(record), json.dumps({**record, "score": 1.0, "source": "x"})]
    texts += [json.dumps({**record, "score": 0.2}), json.dumps({**record, "success": False})]
    (log := tmp_path / "log.jsonl").write_text("\n".join(texts * 3) + "\n")

    # Of each four lines the first two are equal, the third contradicts itself.
    assert seeded(memory, log, limit=5, batch_size=2).created == 3
    report = seeded(memory, log, batch_size=2)
    assert (report.created, report.skipped, report.refused) == (5, 4, 3)
    report = seeded(memory, log)
    assert (report.created, report.skipped, report.refused) == (0, 9, 3)
    [row] = memory.strategies()
    assert (row.trials, row.successes) == (9, 6)
    assert before in {row.id for row in memory.evidence("s", limit=99)}
    (other := tmp_path / "other.jsonl").write_text("\n".join(texts) + "\n")
    assert seeded(memory, other).created == 0  # equal records of two files are the same
    assert seeded(memory, other, log, agent="ada").created == 9
    assert memory.verify().ok


def test_equal_contents_are_numbered() -> None:
    hashes = [digest(str(number % 40)) for number in range(120)]
    with occurrences.Occurrences() as counted:
        given = [counted.of(one) for one in hashes]
        assert given == ["1"] * 40 + ["2"] * 40 + ["3"] * 40
        assert counted.of(hashes[0], "7") == "7"
        assert counted.of(hashes[0], "a mark") == "a mark"
        assert (counted.of(hashes[0]), counted.of(hashes[1])) == ("9", "4")


def test_jsonl_refuses_lines_and_names_the_field() -> None:
    lines = [
        json.dumps(LINE),
        "",
        "{broken",
        json.dumps({**LINE, "success": "yes"}),
        json.dumps({**LINE, "colour": "red"}),
        json.dumps({**LINE, "started_at": "2026-01-01T10:00:00"}),
        '{"task": "t", "strategy": "s", "success": true, "score": NaN}',
        json.dumps({**LINE, "task": "\ud800"}),
    ]
    found = records("jsonl", "\n".join(lines).encode())
    refused = {item.number: item.field for item in found if isinstance(item, Refused)}
    assert refused == {
        3: "episode",
        4: "success",
        5: "colour",
        6: "started_at",
        7: "score",
        8: "episode",
    }
    assert len(found) == 7


def test_tau_bench_maps_a_run() -> None:
    [(_, episode)] = records("tau-bench", json.dumps([TAU_RUN]).encode(), "gpt-4o-airline")  # type: ignore[misc]

    assert (episode.agent, episode.task_type, episode.task_key) == ("gpt-4o", "airline", "7")
    assert episode.task == "cancel it"
    assert [use.text for use in episode.strategy] == ["writes: cancel_x", "get_user", "cancel_x"]
    assert (episode.success, episode.reward) == (True, 1.0)
    assert [step.action_type for step in episode.steps] == ["get_user", "respond", "cancel_x"]
    assert episode.steps[0].error == "Error: no user"
    assert (episode.steps[1].action, episode.steps[1].observation) == ("What is your id?", "u2")
    assert episode.steps[2].action == "broken{"
    assert episode.extra == {"flavour": "kept", "trial": 2, "user_id": "u1"}
    assert episode.source_key == "gpt-4o-airline/7/2"
    assert "GOLD" not in dump(episode)

    names = ("update_a", "get_x", "update_a", "send_b", "update_a")
    calls = [{"function": {"name": name}} for name in names]
    for taken, texts in (
        (calls, ["writes: update_a > send_b > update_a", "update_a", "get_x", "send_b"]),
        (calls[1:2], ["writes: nothing", "get_x"]),
    ):
        run = {**TAU_RUN, "traj": [{"role": "assistant", "tool_calls": taken}]}
        [(_, episode)] = records("tau-bench", json.dumps([run]).encode())  # type: ignore[misc]
        assert [use.text for use in episode.strategy] == texts


def test_intercode_maps_a_run() -> None:
    stem = "ic_sql_multiturn_gpt-4_10_turns"
    [(_, episode)] = records("intercode", json.dumps({"0": INTERCODE_RUN}).encode(), stem)  # type: ignore[misc]

    assert (episode.task, episode.task_key, episode.task_type) == ("How many?", "3", "sql")
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
        wrapped = json.dumps({"meta": {}, "logs": {"852": INTERCODE_RUN}}).encode()
        [(_, episode)] = records("intercode", wrapped, stem)  # type: ignore[misc]
        assert (episode.strategy[0].text, episode.agent) == (setup, agent)
        assert episode.source_key == f"{stem}/852"
    kinds = {
        "select 1": "SELECT", "execute[SELECT 1]": "SELECT", "```sql\nDESC t": "DESCRIBE",
        "The answer is 4": "(no SQL)", "submit": "SUBMIT", "": "(no SQL)",
    }  # fmt: skip
    run = {**INTERCODE_RUN, "turn_history": {"actions": list(kinds)}}
    [(_, episode)] = records("intercode", json.dumps({"0": run}).encode())  # type: ignore[misc]
    assert [step.action_type for step in episode.steps] == list(kinds.values())


def test_a_record_that_is_no_run_is_refused_and_the_others_are_read() -> None:
    found = records("tau-bench", json.dumps([{"task_id": 1}, TAU_RUN, 5]).encode())
    assert [isinstance(item, Refused) for item in found] == [True, False, True]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder with a log of each format, plain and packed."""
    folder = tmp_path / "logs"
    (folder / "inner").mkdir(parents=True)
    lines = "".join(json.dumps({**LINE, "source_key": f"own/{n}"}) + "\n" for n in range(5))
    (folder / "own.jsonl").write_text(lines)
    (folder / "gpt-4o-airline.json").write_text(json.dumps([TAU_RUN]))
    packed = gzip.compress(json.dumps({"0": INTERCODE_RUN}).encode())
    (folder / "inner" / "ic_sql_multiturn_gpt-4_10_turns.json.gz").write_bytes(packed)
    (folder / "notes.txt").write_text("not a log")
    return folder


def test_a_folder_is_read_whatever_formats_are_in_it(memory: Memory, logs: Path) -> None:
    report = seeded(memory, logs)
    assert (report.files, report.created, report.refused) == (3, 7, 0)
    again = seeded(memory, logs / "*.json*", logs / "inner")
    assert (again.files, again.created, again.skipped) == (3, 0, 7)
    assert memory.verify().ok


def test_what_is_damaged_is_refused_and_the_rest_is_learned(memory: Memory, tmp_path: Path) -> None:
    packed = gzip.compress(
        b"".join(
            json.dumps({**LINE, "source_key": f"k/{n}", "summary": f"{n * 7919}" * 9}).encode()
            + b"\n"
            for n in range(2000)
        )
    )
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "cut.json").write_text(json.dumps([TAU_RUN, TAU_RUN])[:-300])
    (tmp_path / "empty.json").write_text("")
    told: list[Refusal] = []

    report = seeded(
        memory,
        tmp_path / "cut.jsonl.gz",
        tmp_path / "cut.json",
        tmp_path / "empty.json",
        on_refusal=told.append,
    )

    assert report.created > 100
    assert {Path(item.file).name for item in told} == {
        "cut.jsonl.gz",
        "cut.json",
        "empty.json",
    }
    reasons = {Path(item.file).name: item.reason for item in told}
    assert "cut off" in reasons["cut.json"]
    assert reasons["empty.json"] == "is empty"
    assert memory.verify().ok


def test_what_stands_before_the_cut_of_a_small_file_is_learned(
    memory: Memory, tmp_path: Path
) -> None:
    runs = {str(n): {**INTERCODE_RUN, "query": f"{n * 7919**9}"} for n in range(40)}
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
    with pytest.raises(SeedingError, match=r"no logs in this folder: .* \.txt or \.csv files that"):
        seeded(memory, tmp_path / "void")


@pytest.mark.slow
def test_the_own_logs_seed_into_both_engines(memory: Memory) -> None:
    report = seeded(memory, SEEDS)
    assert report.created >= 500
    assert report.refused == 0
    assert memory.verify().ok
    assert memory.stats().steps > 1000


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
    by_trial: dict[int, int] = {}
    for row in memory.query(
        "MATCH (e:Episode) WHERE e.ns = $ns AND e.success RETURN e.extra AS extra"
    ):
        trial = json.loads(str(row["extra"]))["trial"]
        by_trial[trial] = by_trial.get(trial, 0) + 1
    assert by_trial == {0: 21, 1: 22, 2: 20, 3: 21}
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


@pytest.mark.neo4j
@pytest.mark.parametrize("engine", ["neo4j"])
def test_intercode_seeds_into_a_server_as_into_a_file(memory: Memory, shared_data: Path) -> None:
    """The first hundred of each file of the log."""
    with Memory.open("memory:") as file:
        for one in (memory, file):
            report = seeded(one, shared_data / "intercode_sql", limit=100)
            assert report.created >= 1_500
            assert (report.skipped, report.refused) == (0, 0)
            assert one.verify().ok
        here, there = memory.stats(), file.stats()
        for name in ("episodes", "successes", "tasks", "strategies", "steps"):
            assert getattr(here, name) == getattr(there, name)
        assert {(row.text, row.trials, row.successes) for row in memory.strategies()} == {
            (row.text, row.trials, row.successes) for row in file.strategies()
        }
