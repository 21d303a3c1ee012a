"""Sentinel's own file goes in and comes back as it was, and what it says is checked."""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import os
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory
from graphmem.errors import ConflictError, NotFoundError, ScopeError, SeedingError, ValidationError
from graphmem.seeding.formats import Refused, detect
from graphmem.upkeep import sentinel_file
from tests.conftest import Opener
from tests.contract.teaching import Interruption
from tests.contract.test_exchange import exported, fill, held, put, same
from tests.seeding import test_sentinel as sentinel_form
from tests.seeding.test_seeding import records

CARD: dict[str, Any] = {
    **sentinel_form.CARD,
    "bad_decision": "approve",
    "first_seen_episode": 1,
    "last_seen_episode": 103,
}
OWN: dict[str, Any] = {
    "version": 1,
    "total_episodes": 103,
    "last_consolidated_at": 100,
    "global_rules": ["[HIGH SCORE 0.95] looked at the log first"],
    "task_rules": {"triage": ["[WORKS] look at the log", "[AVOID] guess"]},
    "episode_log": [
        {
            "timestamp": "2026-05-01T12:00:00.123456+00:00",
            "task_id": "triage",
            "score": 0.95,
            "steps": 4,
            "summary": "looked at the log first",
        },
        {
            "timestamp": "2026-05-01T12:10:00+00:00",
            "task_id": "audit",
            "score": 0,
            "steps": 9,
            "summary": "",
        },
    ],
    "score_history": {"triage": [0.5, 0.95], "audit": [0.0]},
    "mistakes": ["guessed"],
    "mistake_cards": [CARD],
    "successes": ["look at the log"],
}


def test_a_file_of_sentinel_comes_back_as_it_was(memory: Memory, tmp_path: Path) -> None:
    report = memory.upkeep.import_(put(tmp_path, OWN), "sentinel")
    assert (report.created, report.skipped) == (2, 0)
    assert set(report.kept) == OWN.keys() - {"episode_log"}
    assert same(exported(memory, tmp_path), OWN)
    memory.upkeep.rebuild()
    assert same(exported(memory, tmp_path), OWN)
    assert memory.verify().ok
    [learned] = memory.episodes("triage")
    assert (learned.score, learned.at and learned.at.minute) == (0.95, 0)
    [triage] = [one for one in memory.lessons.summary().scores if one.task == "triage"]
    assert triage.episodes == 2
    assert triage.mean_score == pytest.approx((0.5 + 0.95) / 2)
    keys = {row["source_key"] for row in memory.query("exchange.episodes")}
    assert keys == {"agent_memory/102", "agent_memory/103"}


@pytest.mark.parametrize("agent", [None, "default"])
def test_what_a_file_concluded_counts_beside_own_episodes(
    memory: Memory, tmp_path: Path, agent: str | None
) -> None:
    """As one episode each (a card as often as it was seen), until own ones outweigh it."""
    memory.upkeep.import_(put(tmp_path, OWN), "sentinel")

    def stated() -> list[tuple[str, str | None, str, int, int]]:
        rules = memory.lessons.rules(agent=agent)
        return sorted((str(r), r.task, r.source, r.supporting, r.opposing) for r in rules)

    rules = sorted(memory.lessons.rules(agent=agent), key=str)
    general = ("[WORKS] looked at the log first", None, "sentinel", 1, 0)
    guess = ("[AVOID] guess", "triage", "sentinel", 1, 0)
    assert stated() == [guess, ("[WORKS] look at the log", "triage", "sentinel", 1, 0), general]
    card, guessed = memory.lessons.mistakes(agent=agent)
    assert (card.seen, card.lesson, card.first_episode) == (2, CARD["lesson"], None)
    assert (guessed.type, guessed.task, guessed.weak) == ("guessed", None, True)
    summary = memory.lessons.summary()
    assert (summary.rules, summary.general_rules, summary.mistakes) == (2, 1, 1)
    means = {one.task: (one.episodes, one.mean_score) for one in summary.scores}
    assert means == {"triage": (2, 0.725), "audit": (1, 0.0)}
    told = memory.context("triage", agent=agent, max_tokens=500)
    assert told.splitlines()[2:16] == [
        "mean score 0.72 (2 episodes)",
        *("works on this task:", "- 1 of 1: look at the log"),
        *("avoid on this task:", "- 1 of 1: guess"),
        *("mistakes made before:", "- 2x: trusted a worker", "  instead: reject"),
        *("  lesson: check the log first", "  evidence: the log says otherwise"),
        *("mistakes made on other tasks:", "- weaker: guessed"),
        *("general rules:", "- WORKS, 1 of 1: looked at the log first"),
    ]
    for (text, task, _, _, _), rule in zip(stated(), rules, strict=True):
        for item in (rule, text):
            why = memory.explain(item, agent=agent)
            assert (why.kind, why.task, why.source) == ("rule", task, "sentinel")
            assert (why.why.successes, why.why.trials, str(why.verdict)) == (1, 1, text[1:6])
    with pytest.raises(NotFoundError):
        memory.explain(rules[0], agent="another")
    assert memory.context("triage", agent="another") == ""
    assert memory.lessons.rules(agent="another") == []
    assert memory.lessons.mistakes(agent="another") == []

    named = {name: CARD[name] for name in ("mistake_type", "worker_id", "correct_decision")}
    for supports in (0, 1, 2):
        verdict = ["[WORKS] look at the log", None, "[AVOID] look at the log"][supports]
        found = [rule[0] for rule in stated() if rule[0].endswith("log")]
        assert found == ([verdict] if verdict else [])
        assert memory.lessons.mistakes(agent=agent)[0].seen == 2 + supports
        form = {"task_id": "triage", "score": 0.2, "mistakes": ["look at the log"]}
        memory.record_episode({**form, "mistake_cards": [{**named, "lesson": "l"}]})
    assert memory.lessons.mistakes(agent=agent)[0].lesson == "l"
    assert "mean score 0.41 (5 episodes)" in memory.context("triage", agent=agent)
    memory.learn("triage", "look", score=0.6, task_type="checks")
    listed = memory.lessons.rules(agent=agent)
    assert {str(row): (row.supporting, row.opposing) for row in listed} == {
        "[AVOID] guess": (1, 0),
        "[AVOID] look at the log": (3, 1),
        "[WORKS] looked at the log first": (1, 0),
    }
    context = memory.context("triage", max_tokens=500, agent=agent)
    assert "- 3 of 4: look at the log" in context.splitlines()
    assert "- WORKS, 1 of 1: looked at the log first" in context.splitlines()
    memory.learn("triage", "look", success=True, agent="another")
    assert not memory.lessons.rules(agent="another")
    assert memory.verify().ok


def test_an_import_goes_on_wherever_it_was_interrupted(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch of episodes is learned in one transaction."""
    monkeypatch.setattr(sentinel_file, "AT_ONCE", 1)
    memory.upkeep.initialize()
    interruption, times = Interruption(memory, monkeypatch), 0
    file, report, seen = put(tmp_path, OWN), None, []
    while report is None:
        times += 1
        interruption.left = times
        with contextlib.suppress(KeyboardInterrupt):
            report = memory.upkeep.import_(file, "sentinel")
        interruption.left = 0
        assert memory.verify().ok
        seen.append(memory.stats().episodes)
    assert seen == [0, 0, 1, 1, 2, 2, 2]
    assert (report.created, report.skipped) == (0, 2)
    assert same(exported(memory, tmp_path), OWN)


def test_a_log_that_moved_on_is_imported_again(memory: Memory, tmp_path: Path) -> None:
    """Sentinel drops the oldest entries; an entry is known by its number among all."""
    memory.upkeep.import_(put(tmp_path, OWN), "sentinel")
    entry = {**OWN["episode_log"][1], "summary": "asked"}
    later = {**OWN, "total_episodes": 104, "episode_log": [OWN["episode_log"][1], entry]}
    report = memory.upkeep.import_(put(tmp_path, later), "sentinel")
    assert (report.created, report.skipped) == (1, 1)
    assert same(exported(memory, tmp_path, document="agent_memory"), later)


names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)
texts = st.text(st.characters(codec="utf-8"), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
labels = names.filter(lambda text: bool(text.strip()))
rules = st.lists(texts, max_size=3)
entries = st.builds(
    lambda known, unknown: {**unknown, **known},
    st.fixed_dictionaries(
        {
            "timestamp": st.datetimes().map(lambda at: f"{at.isoformat()}+00:00"),
            "task_id": labels,
            "score": st.floats(0, 1) | st.sampled_from([0, 1]),
            "steps": st.integers(0),
            "summary": texts,
        }
    ),
    st.dictionaries(names.filter(lambda name: name not in ("graphmem", "agent")), json_values),
)
counts = st.integers(0, 10**9)
cards = st.fixed_dictionaries(
    {
        **dict.fromkeys(("mistake_type", "task_id", "evidence", "lesson"), texts),
        **dict.fromkeys(("worker_id", "bad_decision", "correct_decision"), st.none() | texts),
        **dict.fromkeys(("seen_count", "first_seen_episode", "last_seen_episode"), counts),
    }
)
files = st.builds(
    lambda known, unknown: {**unknown, **known},
    st.fixed_dictionaries(
        {
            "version": st.just(1),
            "total_episodes": counts,
            "last_consolidated_at": st.none() | counts | texts,
            "global_rules": rules,
            "task_rules": st.dictionaries(texts, rules, max_size=2),
            "episode_log": st.lists(entries, max_size=4),
            "score_history": st.dictionaries(texts, st.lists(st.floats(0, 1)), max_size=2),
            "mistakes": rules,
            "mistake_cards": st.lists(cards, max_size=2),
            "successes": rules,
        }
    ),
    st.dictionaries(names, json_values, max_size=2),
)


@hypothesis.settings(max_examples=40)
@hypothesis.given(document=files)
def test_any_file_of_that_form_comes_back_as_it_was(
    document: Any, opened: Opener, tmp_path: Path
) -> None:
    memory = opened(f"{opened().namespace}-{os.urandom(4).hex()}")
    memory.upkeep.import_(put(tmp_path, document), "sentinel")
    assert same(exported(memory, tmp_path), document)
    with Memory.open("memory:") as other:
        other.upkeep.import_(tmp_path / "out.json", "sentinel", document="agent_memory")
        assert same(exported(other, tmp_path), document)
        assert other.verify().ok
        other.learn("new", "ask", success=True)  # now lists are derived, and entries are marked
        more = exported(other, tmp_path)
        assert len(more["episode_log"]) == len(document["episode_log"]) + 1
        assert more["score_history"]["new"][-1] == 1
        again = memory.upkeep.import_(tmp_path / "out.json", "sentinel")
        assert (again.created, again.skipped) == (1, len(document["episode_log"]))


def test_a_memory_comes_back_from_a_file_of_that_form(
    memory: Memory, opened: Opener, tmp_path: Path
) -> None:
    fill(memory)
    card = {**CARD, "worker_id": "w9", "evidence": None}
    for number in range(4):
        form = {"task_id": f"t{number % 2}", "score": 0.9, "successes": ["look"], "steps": number}
        memory.record_episode({**form, "episode_id": f"c{number}", "mistake_cards": [card, card]})
    memory.lessons.consolidate(force=True)
    file = exported(memory, tmp_path)
    assert file.keys() == OWN.keys()
    assert file["total_episodes"] == file["last_consolidated_at"] == len(file["episode_log"]) == 10
    assert "[WORKS] look" in file["global_rules"]
    assert file["task_rules"]["t0"] == ["[WORKS] look"]
    assert {"look", "looked at the log", "asked twice", "s"} == set(file["successes"])
    [kept] = [{**one} for one in file["mistake_cards"] if one["worker_id"] == "w9"]
    first, last = kept.pop("first_seen_episode"), kept.pop("last_seen_episode")
    assert (file["episode_log"][first - 1]["task_id"], last - first) == ("t0", 3)
    known = {name: CARD[name] for name in kept}
    assert kept == {**known, "worker_id": "w9", "evidence": "", "seen_count": 8}
    assert [entry["steps"] for entry in file["episode_log"] if entry["task_id"] == "t1"] == [1, 3]

    for entry in file["episode_log"]:
        assert {"timestamp", "task_id", "score", "steps", "summary"} <= entry.keys()

    assert memory.upkeep.import_(tmp_path / "out.json", "sentinel").created == 0
    other = opened(f"{memory.namespace}-other")
    assert other.upkeep.import_(tmp_path / "out.json", "sentinel").created == 10
    assert other.verify().ok
    other.lessons.consolidate(force=True)
    assert held(other) == held(memory)
    assert sorted(map(str, other.lessons.rules())) == sorted(map(str, memory.lessons.rules()))
    seen = [
        [(one.type, one.lesson, one.seen) for one in m.lessons.mistakes()] for m in (memory, other)
    ]
    assert sorted(seen[0]) == sorted(seen[1])
    assert same(exported(other, tmp_path), file)


def test_what_came_since_is_added_as_sentinel_adds_it(memory: Memory, tmp_path: Path) -> None:
    memory.upkeep.import_(put(tmp_path, OWN), "sentinel")
    card = {"mistake_type": "trusted a worker", "worker_id": "w3", "correct_decision": "reject"}
    said = {"successes": ["look at the log", "ask"], "mistakes": ["was slow"]}
    for number in range(2):
        more = {"episode_id": f"new{number}", "mistake_cards": [{**card, "lesson": f"l{number}"}]}
        memory.record_episode({"task_id": "triage", "score": 0.9, **said, **more})
    report = memory.upkeep.export(tmp_path / "out.json", "sentinel")
    assert set(report.kept) == {"version", "last_consolidated_at", "global_rules"}
    file = json.loads((tmp_path / "out.json").read_text())
    assert (file["total_episodes"], len(file["episode_log"])) == (105, 4)
    assert file["score_history"] == {"triage": [0.5, 0.95, 0.9, 0.9], "audit": [0.0]}
    assert file["successes"] == ["look at the log", "ask"]
    assert file["mistakes"] == ["guessed", "was slow"]
    assert file["task_rules"]["triage"] == [*OWN["task_rules"]["triage"], "[WORKS] ask"]
    [merged] = file["mistake_cards"]
    assert merged == {**CARD, "seen_count": 4, "last_seen_episode": 105, "lesson": "l1"}
    assert memory.upkeep.import_(tmp_path / "out.json", "sentinel").created == 0


def test_erasing_an_entry_takes_what_its_file_may_tell_of_it(
    memory: Memory, tmp_path: Path
) -> None:
    memory.upkeep.import_(put(tmp_path, OWN), "sentinel")
    [first] = [r for r in memory.query("exchange.episodes") if r["source_key"].endswith("/102")]
    memory.upkeep.erase(first["id"])
    file = exported(memory, tmp_path)
    assert "looked" not in json.dumps(file)
    assert (file["total_episodes"], file["score_history"]) == (1, {"audit": [0.0]})
    assert file["mistake_cards"] == []
    assert memory.verify().ok
    [last] = memory.query("exchange.episodes")
    memory.upkeep.erase(last["id"])
    assert memory.query("exchange.documents") == []


def test_what_a_file_concluded_goes_with_an_entry_that_it_no_longer_holds(
    memory: Memory, opened: Opener, tmp_path: Path
) -> None:
    """Its list of scores can mention the entry; a memory that is open says what a new one says."""
    memory.upkeep.import_(put(tmp_path, OWN), "sentinel")
    later = {**OWN, "episode_log": OWN["episode_log"][1:]}
    memory.upkeep.import_(put(tmp_path, later), "sentinel")

    def told(asked: Memory) -> tuple[float, int]:
        found = asked.lessons.summary().scores
        total = sum(one.episodes * one.mean_score for one in found if one.task == "triage")
        return round(total, 9), len(asked.lessons.rules())

    assert told(memory) == told(opened(memory.namespace)) == (1.45, 3)
    # What comes later under its name is no part of it.
    memory.learn("triage", [], score=0.2, source_key="agent_memory/101")
    assert told(memory) == told(opened(memory.namespace)) == (1.65, 3)
    [first] = [r for r in memory.query("exchange.episodes") if r["source_key"].endswith("/102")]
    memory.upkeep.erase(first["id"])
    assert told(memory) == told(opened(memory.namespace)) == (0.2, 0)


def test_several_files_are_exported_by_name(memory: Memory, tmp_path: Path) -> None:
    another = {**OWN, "more": 1}
    memory.upkeep.import_(put(tmp_path, OWN), "sentinel")
    memory.upkeep.import_(put(tmp_path, another), "sentinel", document="the other")
    assert same(exported(memory, tmp_path, document="agent_memory"), OWN)
    assert same(exported(memory, tmp_path, document="the other"), another)
    with pytest.raises(NotFoundError, match="there are agent_memory, the other"):
        memory.upkeep.export(tmp_path / "out.json", "sentinel", document="none")
    before = (tmp_path / "out.json").read_bytes()
    with pytest.raises(ValidationError, match="document: has to be named, as several files"):
        memory.upkeep.export(tmp_path / "out.json", "sentinel")
    assert (tmp_path / "out.json").read_bytes() == before


def changed(path: str, value: Any) -> Any:
    """Return the file with another value at a place."""
    at = file = copy.deepcopy(OWN)
    *before, last = path.split("/")
    for name in before:
        at = at[int(name) if isinstance(at, list) else name]
    at[int(last) if isinstance(at, list) else last] = value
    return file


BAD: dict[str, tuple[Any, str]] = {
    "empty": (b"", "cut off or damaged"),
    "cut off": (json.dumps(OWN).encode()[:-40], "cut off or damaged"),
    "no UTF-8": (b'{"episode_log": ["\xff\xfe"]}', r"episode_log\.0 is not UTF-8"),
    "NaN": (b'{"episode_log": [], "x": NaN}', "NaN is not a JSON number"),
    "a name twice": (b'{"episode_log": [], "x": 1, "x": 2}', "'x' stands twice"),
    "too deep": (b'{"episode_log": [' + b"[" * 99_999 + b"]" * 99_999 + b"]}", "nested too deeply"),
    "no object": (b"[1]", "is not a Sentinel file"),
    "no episodes": (b'{"rules": []}', "is not a Sentinel file"),
    "lines": (b'{"task_id": "t", "score": 1}\n' * 2, "is not a Sentinel file"),
    "gzip cut off": (gzip.compress(json.dumps(OWN).encode() * 50)[:200], "gzip"),
    "total_episodes": ("5", "total_episodes: "),
    "version": (2, "written by version 2, this graphmem knows 1"),
    "global_rules/0": (5, r"global_rules\.0: "),
    "task_rules/triage/1": (None, r"task_rules\.triage\.1: "),
    "score_history/triage/1": (True, r"score_history\.triage\.1: "),
    "mistake_cards/0/seen_count": ("2", r"mistake_cards\.0\.seen_count: "),
    "episode_log": ({}, "is not a list of episodes"),
    "episode_log/1/score": (1.5, r"episode_log\.1\.score: "),
    "episode_log/1/task_id": (None, r"episode_log\.1\.task_id: "),
    "episode_log/1/successes": (["x" * 1_000_000], r"episode_log\.1\.successes\.0: "),
}
"""Whole files, or what is wrong at a place of one."""


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_file_is_refused_with_the_place_and_left_as_it_is(
    name: str, memory: Memory, tmp_path: Path
) -> None:
    value, problem = BAD[name]
    text = value if isinstance(value, bytes) else json.dumps(changed(name.strip(), value)).encode()
    (file := tmp_path / "agent_memory.json").write_bytes(text)
    with pytest.raises((SeedingError, ValidationError), match=problem):
        memory.upkeep.import_(file, "sentinel")
    assert file.read_bytes() == text
    assert memory.query("MATCH (n) WHERE n.ns = $ns RETURN n.id AS id") == []


@pytest.mark.parametrize("refuse", ["conflict", "scope"])
def test_what_the_memory_refuses_keeps_the_whole_file_out(
    refuse: str, memory: Memory, tmp_path: Path
) -> None:
    if refuse == "scope":
        memory.scopes.set("default", can_learn=["nothing"])
    else:
        memory.learn("t", "s", success=True, source_key="agent_memory/103")
    before = memory.stats()
    with pytest.raises(ScopeError if refuse == "scope" else ConflictError):
        memory.upkeep.import_(put(tmp_path, OWN), "sentinel")
    assert memory.stats().episodes == before.episodes
    assert memory.query("exchange.documents") == []


def test_seeding_goes_on_after_a_wrong_entry(tmp_path: Path) -> None:
    text = put(tmp_path, changed("episode_log/1/score", "good")).read_bytes()
    learned, refused = records("sentinel", text)
    assert isinstance(learned, tuple)
    assert (learned[0], learned[1].source_key, learned[1].steps) == (1, "log/4", ())
    assert isinstance(refused, Refused)
    assert (refused.number, refused.field) == (2, "score")
    assert detect(text, "log").name == "sentinel"
