"""What a log leaves open: outcomes that are joined, judges that differ, what counts as strategy."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from graphmem import Memory
from graphmem.errors import SeedingError, ValidationError
from graphmem.models.episodes import Episode, Step
from graphmem.seeding import Refused, SeedReport, sources
from graphmem.seeding.formats import Format, Origin, Record, Unsettled, find, make_record
from graphmem.seeding.reading import Limits
from graphmem.seeding.settling import Outcomes
from tests.seeding.test_seeding import seeded, settled


def run(key: str, **more: Any) -> Unsettled:
    fields = {"task": "t", "source_key": f"log/{key}", "agent": "ada", "summary": None}
    steps = (Step(action_type="look"), Step(action_type="respond"), Step(action_type="push"))
    return Unsettled(1, {**fields, "steps": steps}, names=(key,), model="m-1", **more)


def one(*items: Record, **options: Any) -> Episode:
    [episode] = settled(*items, **options)
    assert isinstance(episode, Episode), episode
    return episode


def refusal(*items: Record, **options: Any) -> str:
    refused = settled(*items, **options)[-1]
    assert isinstance(refused, Refused), refused
    return refused.reason


def test_a_run_without_an_outcome_is_refused_unless_one_is_joined() -> None:
    assert refusal(run("a")) == "outcome: is unknown; join one with --outcomes"
    assert refusal(run("a"), outcomes={"b": True}).startswith("outcome: is unknown")
    assert one(run("a"), outcomes={"a": True}).success is True
    assert one(run("a"), outcomes={"log/a": 0.25}).score == 0.25


def test_an_outcome_that_contradicts_the_log_is_refused() -> None:
    own = run("a", outcomes={"tests": True})
    assert one(own, outcomes={"a": True}).success is True
    assert one(own, outcomes={"a": 0.9}).score is None  # the log's own stays
    assert "contradicts the log's own" in refusal(own, outcomes={"a": False})
    assert "contradicts" in refusal(own, outcomes={"a": 0.3})
    scored = run("a", outcomes={"tests": 0.8})
    assert "contradicts" in refusal(scored, outcomes={"a": 0.9})
    episode = Episode(task="t", strategy="s", success=False, source_key="k")
    assert "contradicts" in refusal((1, episode), outcomes={"k": True})
    assert one((1, episode), outcomes={"k": False}) == episode


def test_an_outcome_belongs_to_one_record() -> None:
    """Two runs of one task: their outcomes have to be told apart by source keys."""
    again = Unsettled(2, {"task": "t", "source_key": "other/a"}, names=("a",))
    reason = refusal(run("a"), again, outcomes={"a": True})
    assert "is the key of another record, too: of 'log/a'" in reason
    assert len(settled(run("a"), run("a"), outcomes={"a": True})) == 2  # the same record again
    both = settled(run("a"), again, outcomes={"log/a": True, "other/a": False})
    assert [item.success for item in both if isinstance(item, Episode)] == [True, False]


def test_judges_that_differ_are_named_and_one_is_chosen() -> None:
    several = run("a", outcomes={"judge": 0.2, "tests": True})
    assert refusal(several) == (
        "evaluator: judgements differ: judge, tests; name one with --evaluator"
    )
    assert one(several, evaluator="judge").score == 0.2
    assert one(several, evaluator="tests").success is True
    assert "there is judge, tests" in refusal(several, evaluator="nobody")
    assert one(run("a", outcomes={"x": True, "y": 1.0})).success is True


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (None, ["look > push", "look", "push"]),
        ("tools", ["look > push", "look", "push"]),
        ("model", ["m-1"]),
        ("agent", ["ada"]),
        ("config.plan", ["careful"]),
        ("hints", ["b", "a"]),
    ],
)
def test_what_counts_as_the_strategy_is_asked_for(by: str | None, expected: list[str]) -> None:
    record = {"config": {"plan": "careful"}, "hints": ["b", "a", "b"]}
    item = run("a", outcomes={"": True}, record=record)
    episode = one(item, strategy_from=by, agent="bob")
    assert [use.text for use in episode.strategy] == expected
    assert episode.agent == "bob"
    own = run("a", outcomes={"": True}, record=record, strategy=["own"])
    assert [use.text for use in one(own, strategy_from=by).strategy] == (
        ["own"] if by is None else expected
    )


def test_a_format_that_names_strategies_keeps_them_by_default() -> None:
    steps = (Step(action_type="look"),)
    episode = Episode(
        task="t", strategy="own", success=True, agent="ada", steps=steps, extra={"model": "m-1"}
    )
    names = {by: one((1, episode), strategy_from=by) for by in (None, "tools", "model", "agent")}
    assert [use.text for item in names.values() for use in item.strategy] == [
        *("own", "look", "m-1", "ada")
    ]
    assert "does not say which strategy was used" in refusal((1, episode), strategy_from="plan")


def table(tmp_path: Path, text: str | bytes) -> str:
    file = tmp_path / "outcomes.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


@pytest.mark.parametrize(
    "text",
    ["\ufeffkey,note,success,score\r\na,x,Yes,\r\nb,,,0.25\r\n\r\n", 'SCORE,"key"\n1,a\n0.25,b\n'],
)
def test_a_table_has_a_key_and_a_success_or_a_score(tmp_path: Path, text: str) -> None:
    first, second = settled(run("a"), run("b"), outcomes=table(tmp_path, text))
    assert isinstance(first, Episode)
    assert isinstance(second, Episode)
    assert first.success or first.score == 1
    assert (second.success, second.score) == (None, 0.25)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no outcomes"),
        ("id,success\na,true\n", "row 1: a key or an outcome is missing; there must be key"),
        ("key,result\na,true\n", "there must be key, and success or score"),
        ("key,success\na,true,1\n", "has not as many cells"),
        ("key,success\na,maybe\n", "row 1: success 'maybe' is neither true nor false"),
        ("key,score\na,7\n", r"row 1: '7' is neither a success nor a score in \[0, 1\]"),
        ("key,score\na,nan\n", "row 1: 'nan' is neither"),
        ("key,success\na,\n", "row 1: a key or an outcome is missing"),
        ("key,success\n,true\n", "row 1: a key or an outcome is missing"),
        ("key,success\na,true\na,false\n", "row 2: 'a' has two outcomes"),
        (b"key,success\n\xff,true\n", "is not UTF-8"),
        ('key,success\n"a,true\n', "cut off or damaged here: unexpected end of data"),
        ('{"resolved_ids": ["a"', "is no report: the JSON is cut off"),
        ("[1]", "is no report"),
        ('{"a": "good"}', "key 'a': 'good' is neither"),
        ('{"resolved_ids": ["a"], "unresolved_ids": ["a"]}', "'a' has two outcomes"),
    ],
)
def test_a_table_that_is_not_as_it_should_be_says_where(
    tmp_path: Path, text: str | bytes, problem: str
) -> None:
    with pytest.raises(SeedingError, match=problem):
        Outcomes.of(table(tmp_path, text), Limits())


@pytest.mark.parametrize("wrong", [5, [("a", True)], {1: True}])
@pytest.mark.parametrize("engine", ["embedded"])
def test_outcomes_are_a_file_or_a_mapping(memory: Memory, tmp_path: Path, wrong: Any) -> None:
    (log := tmp_path / "log.jsonl").write_text('{"task": "t", "strategy": "s", "success": true}')
    with pytest.raises(ValidationError, match="outcomes: must be a file, or a mapping from keys"):
        seeded(memory, log, outcomes=wrong)
    with pytest.raises(SeedingError, match=r"outcomes: key 'a': null is neither"):
        seeded(memory, log, outcomes={"a": None})
    for name in ("strategy_from", "evaluator"):
        with pytest.raises(ValidationError, match=f"{name}: must be a text"):
            seeded(memory, log, **{name: wrong})
    assert memory.stats().episodes == 0


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ({"resolved_ids": ["a"], "unresolved_ids": ["b"], "error_ids": ["c"]}, [True, False, None]),
        ({"resolved_ids": ["a"], "completed_ids": ["a", "b"]}, [True, False, None]),
        ({"resolved": ["a"], "empty_patch_ids": ["c"], "total": 3}, [True, None, False]),
        ({"a": True, "b": 0, "c": {"resolved": True}}, [True, False, True]),
    ],
)
def test_a_report_says_what_was_resolved(
    tmp_path: Path, report: dict[str, Any], expected: list[bool | None]
) -> None:
    file = table(tmp_path, json.dumps(report))
    found = settled(run("a"), run("b"), run("c"), outcomes=file)
    assert [
        None if isinstance(item, Refused) else bool(item.success or item.score) for item in found
    ] == expected


def test_a_report_in_the_folder_of_its_logs_is_no_log(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"task": "t", "strategy": "s", "source_key": "a"}')
    (report := tmp_path / "report.json").write_text('{"resolved_ids": ["a"], "error_ids": []}')
    found = seeded(memory, tmp_path)
    assert "holds outcomes, which --outcomes joins to a log" in found.refusals[1].reason
    with pytest.raises(SeedingError, match="holds outcomes, which --outcomes joins to a log"):
        seeded(memory, report)
    found = seeded(memory, tmp_path, outcomes=report)
    assert (found.files, found.created, found.refused) == (1, 1, 0)


def test_lines_get_their_outcomes_and_strategies_from_elsewhere(
    memory: Memory, tmp_path: Path
) -> None:
    """Again adds nothing; keys that no record has are told."""
    lines = [
        {"task": "t", "strategy": "s", "source_key": "a"},
        {"task": "t", "steps": [{"action_type": "look"}], "source_key": "b", "success": True},
        {"task": "t", "strategy": "s"},
    ]
    (log := tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    report = seeded(memory, log)
    assert (report.created, report.refused) == (0, 3)
    assert [item.field for item in report.refusals] == ["success", "strategy", "success"]

    (file := tmp_path / "outcomes.csv").write_text("key,success\na,false\nb,true\nx,1\ny,0\n")
    for created in (2, 0):
        report = seeded(memory, log, outcomes=file, strategy_from="tools")
        assert (report.created, report.skipped, report.refused) == (created, 2 - created, 1)
        assert (report.unmatched, report.unmatched_keys) == (2, ("x", "y"))
    assert {(row.text, row.trials, row.successes) for row in memory.strategies()} == {
        ("no tools", 1, 0),
        ("look", 1, 1),
    }
    with pytest.raises(SeedingError, match="No such file"):
        seeded(memory, log, outcomes=tmp_path / "none.csv")


def test_outcomes_that_come_later_settle_what_was_learned(memory: Memory, tmp_path: Path) -> None:
    """With the log again, or alone; at their time, also against what the log said itself."""
    told = [{"task": "t", "strategy": "s", "source_key": key} for key in "abc"]
    told[2] |= {"success": True}  # type: ignore[dict-item]
    (log := tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, told)))

    def again(text: str, *logs: Path) -> SeedReport:
        (file := tmp_path / "outcomes.csv").write_text(f"key,success,at\n{text}")
        return memory.seed(list(map(str, logs)), outcomes=file)

    assert again("a,true,\nb,true,\n", log).created == 3
    later = "a,false,2026-11-02T12:00:00Z\nc,false,1793620800\nx,true,\n"
    report = again(later, log)
    assert (report.settled, report.created, report.unmatched) == (2, 0, 1)
    assert [one.source_key for one in memory.episodes(success=True)] == ["b"]
    for one in memory.episodes(success=False):
        assert memory.show(one.id).fields["settled_at"] == "2026-11-02T12:00:00+00:00"
    report = again(later, log)
    assert (report.settled, report.skipped, report.refused) == (0, 2, 1)
    report = again("b,false,\nx,true,\n")
    assert (report.files, report.settled, report.unmatched_keys) == (0, 1, ("x",))
    with pytest.raises(SeedingError, match="row 1: at 'monday' is no time; give ISO 8601"):
        again("b,false,monday\n")
    assert memory.verify().ok


def test_a_format_finds_its_logs_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other files of such a folder are left alone; other folders are read as ever."""

    def logs(folder: Path) -> list[Path] | None:
        return [folder / "run.log"] if (folder / "run.log").exists() else None

    def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
        yield make_record(1, "run", json.loads(stream.read()), lambda run: run["nothing"])

    mine = Format("mine", "", lambda head: head.startswith(b"{}"), read, logs)
    module = sys.modules["graphmem.seeding.sources"]  # the package has a function of that name
    monkeypatch.setattr(module, "formats", lambda: {"mine": mine})
    for name in ("a/run.log", "a/config.json", "b/deep/run.log", "b/plain.jsonl", "c.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    found = {
        str(Path(one.path).relative_to(tmp_path)): one.format for one in sources([str(tmp_path)])
    }
    assert found == {
        "a/run.log": "mine", "b/deep/run.log": "mine", "b/plain.jsonl": None, "c.json": None
    }  # fmt: skip
    [refused] = mine.read(io.BytesIO(b"{}"), Origin("x"))
    assert isinstance(refused, Refused)
    assert refused.reason == "nothing: is missing in this run"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"sucess": True}, "sucess: is not a known field (got true); did you mean 'success'?"),
        ({"success": True, "steps": [{"obsevation": "x"}]}, "did you mean 'observation'?"),
        ({"success": True, "strategy": [{"txt": "x"}]}, "did you mean 'text'?"),
        ({"success": True, "task": ..., "taks": "t"}, "did you mean 'task'?"),
        ({"success": True, "colour": 1}, "put free data into extra"),
    ],
)
def test_a_near_miss_names_the_field_that_was_meant(line: dict[str, Any], reason: str) -> None:
    whole = {"task": "t", "strategy": "s", **line}
    text = json.dumps({name: value for name, value in whole.items() if value is not ...})
    [refused] = find("jsonl").read(io.BytesIO(text.encode()), Origin("x"))
    assert isinstance(refused, Refused)
    assert reason in refused.reason
    with pytest.raises(ValidationError, match=r"did you mean|put free data"):
        Episode(**json.loads(text))
