"""Field maps: logs of any shape become episodes, and nothing is guessed silently."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest

from graphmem import Memory
from graphmem.errors import GraphMemError
from graphmem.models.episodes import Episode
from graphmem.seeding import LogReader, sources
from graphmem.seeding.formats import UnknownFormatError

MAP = {"task": "prompt", "strategy": "tool", "success": "ok"}
WORDS = {"field": "ok", "true": ["won"], "false": ["lost"]}


def read(given: Any, content: str | list[Any], tmp_path: Path, **how: Any) -> list[Any]:
    """Return the episodes that a map makes of a file or of records, or why there is none."""
    logs: Any = content
    if isinstance(content, str):
        logs = tmp_path / "runs.json"
        logs.write_text(content, encoding="utf-8")
    shown = LogReader(sources(logs), map=given, **how).preview(100)
    return [one.episode or str(one.problem) for one in shown]


def test_the_same_records_read_the_same_in_every_form(tmp_path: Path) -> None:
    rows = [
        {"prompt": "refund,\na flight", "tool": "call", "ok": True},
        {"prompt": 'say "no"', "tool": "wait", "ok": False},
    ]
    table = 'prompt{0}tool{0}ok\r\n"refund,\na flight"{0}call{0}true\r\n"say ""no"""{0}wait{0}0\r\n'
    forms: list[tuple[str | list[Any], dict[str, Any]]] = [
        (rows, {}),
        ("\n".join(map(json.dumps, rows)), {}),
        (json.dumps(rows, indent=1), {}),
        (json.dumps({"about": {"n": [1]}, "data": {"rows": rows}}), {"records": "data.rows"}),
        *((("\ufeff" if mark == ";" else "") + table.format(mark), {}) for mark in ",;\t|"),
    ]
    for content, more in forms:
        episodes = read({**MAP, **more}, content, tmp_path)
        assert [(one.task, one.strategy[0].text, one.success) for one in episodes] == [
            ("refund,\na flight", "call", True),
            ('say "no"', "wait", False),
        ], content
    (tmp_path / "members.json").write_text(json.dumps({"a": rows[0], "b": rows[1]}))
    whole = {"records": {"form": "members"}, "fields": {**MAP, "source_key": "run {@key}"}}
    shown = LogReader(sources(tmp_path / "members.json"), map=whole).preview()
    assert [one.episode and one.episode.source_key for one in shown] == ["run a", "run b"]


def test_a_data_frame_reads_the_same_as_its_parquet_file(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "prompt": ["refund", "seat"],
            "tool": [["call", "wait"], ["call"]],
            "ok": [True, False],
            "when": pd.to_datetime(["2026-05-01 10:00", None]),
            "cost": [float("nan"), 1.5],
            "who": [{"team": "desk"}, {"team": None}],
        }
    )
    frame.to_parquet(tmp_path / "runs.parquet")
    given = {**MAP, "ended_at": "when", "agent": "who.team"}
    files = sources([str(tmp_path)], given)
    read_file = [one.episode for one in LogReader(files, map=given).preview()]
    assert read_file == read(given, frame.to_dict("records"), tmp_path)
    first, second = read_file
    assert first is not None
    assert second is not None
    assert (first.ended_at, second.ended_at) == (datetime(2026, 5, 1, 10, tzinfo=UTC), None)
    assert (first.agent, first.extra.get("cost"), second.extra["cost"]) == ("desk", None, 1.5)
    assert [one.text for one in first.strategy] == ["call", "wait"]
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes((tmp_path / "runs.parquet").read_bytes()[:-20])
    (only,) = LogReader(sources(damaged), map=given).preview()
    assert "the Parquet file is cut off or damaged" in str(only.problem)


@pytest.mark.parametrize(
    ("field", "form", "value", "expected"),
    [
        ("success", "x", 1, True),
        ("success", "x", "False", False),
        ("success", {"field": "x", "true": ["Resolved", 2], "false": ["failed"]}, "resolved", True),
        ("success", {"field": "x", "true": ["resolved", 2], "false": ["failed"]}, 2, True),
        ("success", {"field": "x", "true": ["resolved"]}, "anything", False),
        ("success", {"field": "x", "false": ["error"]}, "anything", True),
        ("success", {"field": "x", "least": 0.8}, "0.8", True),
        ("score", {"field": "x", "range": [1, 5]}, 4, 0.75),
        ("score", {"field": "x", "range": [100, 0]}, "25", 0.75),
        ("ended_at", "x", 1_760_000_000, "2025-10-09T08:53:20"),
        ("ended_at", "x", "1760000000000", "2025-10-09T08:53:20"),
        ("ended_at", "x", 1_760_000_000_000_000_000, "2025-10-09T08:53:20"),
        ("ended_at", {"field": "x", "unit": "ms"}, 60_000, "1970-01-01T00:01:00"),
        ("ended_at", "x", "2026-05-01 10:00:00", "2026-05-01T10:00:00"),
        ("ended_at", {"field": "x", "zone": "Asia/Tokyo"}, "2026-05-01T09", "2026-05-01T00:00:00"),
        ("strategy", "x", ["look", "edit"], "look,edit"),
        ("strategy", "x", '["look", "edit"]', "look,edit"),
        ("strategy", "{x} by {meta.model}", "search", "search by m"),
        ("source_key", "{@stem}/{x}", 7, "runs/7"),
        ("agent", ["nothing", "x", "=nobody"], "ada", "ada"),
        ("agent", "=nobody", "ada", "nobody"),
        ("user", "x.deep", '{"deep": "in a text"}', "in a text"),
    ],
)  # fmt: skip
def test_a_form_says_how_a_value_reads(
    field: str, form: Any, value: Any, expected: Any, tmp_path: Path
) -> None:
    record = {"prompt": "t", "tool": "s", "ok": True, "x": value, "meta": {"model": "m"}}
    fields = {**MAP, field: form}
    if field == "score":
        del fields["success"]
    [episode] = read(fields, json.dumps(record), tmp_path)
    assert isinstance(episode, Episode), episode
    found = getattr(episode, field)
    if field == "strategy":
        found = ",".join(use.text for use in found)
    if isinstance(found, datetime):
        found = found.astimezone(UTC).isoformat().removesuffix("+00:00")
    assert found == expected


def test_steps_name_the_strategies_and_the_rest_is_kept(memory: Memory) -> None:
    table = {
        "fields": {"task": "goal", "success": {"field": "end", "true": ["won"]}},
        "steps": {
            "at": "did",
            "tool": "name",
            "action": "args",
            "observation": "out",
            "error": "e",
        },
    }
    did = [
        {"name": "look", "args": '{"at": 1}', "out": {"seen": 2}},
        {"name": "edit", "args": None, "out": "boom", "e": "Timeout"},
    ]
    days = [{"goal": "mend", "end": "won", "did": did, "on": date(2026, 5, day)} for day in (1, 2)]
    report = memory.seed(days, map=table)
    assert (report.created, report.refused, report.unfound) == (2, 0, ())
    assert memory.seed(iter(days), map=table).skipped == 2
    episode, _ = (one.episode for one in LogReader(sources(days), map=table).preview())
    assert episode is not None
    assert [(step.action, step.error) for step in episode.steps] == [
        ({"at": 1}, None),
        (None, "Timeout"),
    ]
    assert episode.extra == {"on": "2026-05-01"}
    assert {row.text for row in memory.strategies()} == {"look > edit", "look", "edit"}
    assert not memory.verify().differences


@pytest.mark.parametrize(
    ("given", "record", "problem"),
    [
        ("task=prompt", {}, "fields.strategy: is missing in the map; say which field is"),
        ("task", {}, "task: No such file or directory; give a map, for instance task=prompt"),
        ("task=prompt,task=b,strategy=c", {}, "map.task: is given twice"),
        ("task=prompt,strtegy=tool", {}, "did you mean 'strategy'"),
        ({**MAP, "success": {"feld": "ok"}}, {}, "fields.success.feld: is not a known field"),
        ({**MAP, "ended_at": {"field": "t", "unit": "days"}}, {}, "fields.ended_at.unit: "),
        ({"fields": MAP, "zone": "Mars"}, {}, "zone: is no time zone"),
        ({**MAP, "records": "data.rows"}, {}, "records.at: there is no list 'data.rows'"),
        (MAP, {"prompt": None}, "prompt: is missing in this record"),
        (MAP, {"prompt": ["a"]}, "prompt: input should be a valid string"),
        (MAP, {"ok": "yes"}, "ok: is not true or false, as success has to be (got 'yes')"),
        (MAP, {"ok": "yes"}, 'write success = {field = "ok", true = ["yes"]} if that is right'),
        (MAP, {"ok": None}, "outcome: is unknown; join one with --outcomes"),
        ({**MAP, "success": WORDS}, {"ok": "so"}, "ok: is in none of the lists true and false"),
        ({**MAP, "ended_at": "t"}, {"t": "soon"}, "t: is no time (got 'soon')"),
        ({**MAP, "reward": "t"}, {"t": "much"}, "t: is no number, as reward has to be"),
        ({"task": "prompt", "strategy": "tool", "score": "t"}, {"t": 90}, "range = [0, 100]"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_remedy(
    given: Any, record: dict[str, Any], problem: str, memory: Memory
) -> None:
    rows = [{"prompt": "p", "tool": "t", "ok": True, **record}] * 3
    try:
        told = " ".join(one.reason for one in memory.seed(rows, map=given).refusals)
    except GraphMemError as error:
        told = str(error)
    assert problem in told
    assert not memory.stats().episodes


def test_a_path_that_finds_nothing_is_told(memory: Memory, tmp_path: Path) -> None:
    report = memory.seed([{"prompt": "p", "tool": "t", "ok": 1}], map={**MAP, "error": "eror"})
    assert (report.created, report.unfound) == (1, ("error",))
    (tmp_path / "a.toml").write_text(
        '[marks]\nnames = [["prompt"]]\n[fields]\ntask="prompt"\nstrategy="tool"\nsuccess="ok"'
    )
    (tmp_path / "b.toml").write_text(
        '[marks]\nnames = [["q"]]\n[fields]\ntask="q"\nstrategy="tool"\nsuccess="ok"'
    )
    for name, content in (
        ("1.csv", "prompt,tool,ok\nx,y,1\n"),
        ("2.jsonl", '{"q": "z", "tool": "y", "ok": 0}\n'),
    ):
        (tmp_path / name).write_text(content)
    with pytest.raises(
        GraphMemError, match=r"no map has marks that fit; name one with --format \(a, b\)"
    ):
        memory.seed(tmp_path / "1.csv", map=tmp_path)
    assert memory.seed(tmp_path / "2.jsonl", map=tmp_path).created == 1
    assert memory.seed(tmp_path / "1.csv", map=tmp_path, format="a").created == 1


def test_rows_that_are_no_rows_are_refused_one_by_one(tmp_path: Path) -> None:
    content = "prompt,tool,ok\n" + "a,b,1\n" * 3 + "a,b\n" + "a,b,1,2\n"
    found = read(MAP, content, tmp_path)
    assert [isinstance(one, Episode) for one in found] == [True] * 3 + [False] * 2
    assert str(found[-1]).startswith("row: has not as many cells as there are names")


def shop(number: int) -> dict[str, Any]:
    """A record of a shop's assistant."""
    time = 1_760_000_000 + number
    return {"id": number, "prompt": "refund", "tool": "call", "ok": number % 2 == 0, "ts": time}


def exam(number: int) -> dict[str, Any]:
    """A record of an exam, whose outcome is a word."""
    verdict = ("valid", "invalid")[number % 2]
    record = {"Question": f"{number}?", "approach": "think", "verdict": verdict}
    return {**record, "finishedAt": "2026-05-01T10:00:00Z", "usage": {"cost": 1}}


def survey(number: int) -> dict[str, Any]:
    """A record with a rating, and objects in it."""
    return {"input": {"query": f"q{number}"}, "config": {"model": "m"}, "rating": 1 + number % 5}


def ward(number: int) -> dict[str, Any]:
    """A record whose task and strategy have names that no other log has."""
    return {"complaint": f"a cough since {number} days", "remedy": "ab"[number % 2], "ok": True}


@pytest.mark.parametrize(
    ("record", "task", "strategy", "outcome", "more"),
    [
        (ward, "complaint", "remedy", "ok", {}),
        (shop, "prompt", "tool", "ok", {"ended_at": "ts", "source_key": "{@stem}/{id}"}),
        (
            *(exam, "Question", "approach"),
            {"field": "verdict", "true": ["valid"], "false": ["invalid"]},
            {"ended_at": "finishedAt"},
        ),
        (survey, "input.query", "config.model", {"field": "rating", "range": [1, 5]}, {}),
    ],
)
def test_a_log_without_a_map_gets_a_proposal_that_works(
    *,
    record: Any,
    task: str,
    strategy: str,
    outcome: Any,
    more: Any,
    memory: Memory,
    tmp_path: Path,
) -> None:
    rows = [record(number) for number in range(150)]
    for content in ("\n".join(map(json.dumps, rows)), json.dumps({"runs": rows})):
        (file := tmp_path / "log.json").write_text(content)
        with pytest.raises(UnknownFormatError, match="it looks like this") as caught:
            memory.seed(file)
        proposal = caught.value.proposal
        told = "score" if record is survey else "success"
        expected = {"task": task, "strategy": strategy, told: outcome, **more}
        assert proposal.map["fields"] == expected
        (tmp_path / "map.toml").write_text(proposal.toml)
        report = memory.seed(file, map=proposal.line or tmp_path / "map.toml")
        assert (report.created + report.skipped, report.refused, report.unfound) == (150, 0, ())
    assert memory.stats().episodes in (150, 300)


@pytest.mark.parametrize("args", [{"args": {"command": "ls"}}, {}], ids=["arguments", "none"])
def test_the_steps_of_a_log_without_a_map_are_proposed(
    args: dict[str, Any], memory: Memory, tmp_path: Path
) -> None:
    steps = [
        {"tool": "bash", **args, "output": "none", "error": "no files"},
        {"tool": "sql", **args, "output": "1"},
    ]
    (file := tmp_path / "log.jsonl").write_text(
        "".join(
            json.dumps({"question": task, "passed": True, "events": steps}) + "\n" for task in "abc"
        )
    )
    with pytest.raises(UnknownFormatError, match="steps    events; the tool is tool") as caught:
        memory.seed(file)
    (tmp_path / "map.toml").write_text(caught.value.proposal.toml)
    assert memory.seed(file, map=tmp_path / "map.toml").created == 3
    learned = {row.text: row.successes for row in memory.strategies()}
    assert learned == {"bash": 0, "sql": 3, "bash > sql": 3}, "all steps of bash ended in errors"


def test_what_shows_no_outcome_gets_no_proposal(memory: Memory, tmp_path: Path) -> None:
    for content in ('{"prompt": "a", "tool": "b"}\n' * 3, "some,text\nwithout,sense\n", "{" * 99):
        (file := tmp_path / "log.txt").write_text(content)
        with pytest.raises(UnknownFormatError, match="say by --map what its fields mean"):
            memory.seed(file)
