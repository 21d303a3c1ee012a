"""Exports of tracing tools: MLflow, LangSmith, Langfuse; in every form they come in."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langsmith import schemas

from graphmem import Memory
from graphmem.errors import SeedingError, ValidationError
from graphmem.seeding.formats import Unsettled, detect
from graphmem.seeding.traces import Span, answer_of, make_episode, question_of, root_of
from tests.seeding.samples import LANGFUSE, LANGSMITH, MLFLOW
from tests.seeding.test_seeding import reasons, records, seeded

BEGUN = datetime(2026, 11, 1, 12, tzinfo=UTC)
ANSWERS = [("What is x?", "x is 42", True, "gone"), ("What is z?", "I do not know", False, None)]
"""What was asked and answered, whether it was right, and the error of the tool."""
Rows = list[dict[str, Any]]


def with_another(trace: dict[str, Any]) -> Rows:
    """The trace of a sample, and another one."""
    (question, answer, *_), (other, reply, *_) = ANSWERS
    text = json.dumps(trace).replace(question, other).replace(answer, reply).replace('"t0"', '"t1"')
    return [copy.deepcopy(trace), json.loads(text)]


def mlflow() -> Rows:
    rows = with_another(MLFLOW)
    latest, before, *_ = rows[1]["info"]["assessments"]
    latest["feedback"], before["feedback"] = before["feedback"], latest["feedback"]
    rows[1]["data"]["spans"][1]["status_code"] = "OK"
    return rows


def langsmith(beside: bool = False) -> Rows:
    """Runs one by one, with their feedback in them or beside them."""
    found: Rows = []
    for trace, (*_, right, error) in zip(with_another(LANGSMITH), ANSWERS, strict=True):
        *others, tool = trace.pop("child_runs")
        tool["error"] = error
        trace["feedback_stats"]["correct"]["avg"] = trace["feedback"][0]["score"] = float(right)
        runs = [tool, *others, trace]
        if beside:
            del trace["feedback_stats"], trace["feedback"]
            for run_id, key, score in ((trace["id"], "correct", right), ("c", "tool", not right)):
                told = schemas.Feedback(
                    id=uuid.uuid4(), run_id=None, trace_id=None, key=key, score=score,
                    created_at=BEGUN, modified_at=BEGUN,
                )  # fmt: skip
                ids = {"run_id": run_id, "trace_id": trace["id"]}
                runs.append({**told.model_dump(mode="json"), **ids})
        found += runs
    return found


def langfuse() -> Rows:
    rows = with_another(LANGFUSE)
    latest, before, *_ = rows[1]["scores"]
    latest["value"], before["value"] = before["value"], latest["value"]
    rows[1]["observations"][0]["level"] = "DEFAULT"
    return rows


def rows_of_langfuse() -> Rows:
    """The same as rows of observations and of scores, in the names of scheduled exports."""
    rows: Rows = []
    for trace in langfuse():
        root = trace["observations"][-1]
        root |= {name: trace[name] for name in ("input", "output")}
        for one in trace["observations"] + trace["scores"]:
            row = {re.sub("[A-Z]", lambda at: "_" + at[0].lower(), name): one[name] for name in one}
            for name in ("start_time", "end_time"):
                if name in row:
                    row[name] = row[name].replace("T", " ").removesuffix("Z")
            row |= {"trace_id": trace["id"], "trace_name": "answering"}
            rows.append({**row, "metadata": trace["metadata"]} if "type" in row else row)
    return rows


def in_lines(rows: Rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


FORMS = {
    "mlflow": in_lines(mlflow()),
    "mlflow: a list": json.dumps(mlflow(), indent=2),
    "mlflow: an answer": json.dumps({"traces": mlflow()}),
    "mlflow: one after the other": "\n".join(json.dumps(row, indent=2) for row in mlflow()),
    "mlflow: a table": in_lines([{"trace": json.dumps(row), "tags": {}} for row in mlflow()]),
    "langsmith": in_lines(langsmith()),
    "langsmith: an answer": json.dumps({"runs": langsmith()}),
    "langsmith: feedback beside": in_lines(langsmith(beside=True)[::-1]),
    "langfuse": in_lines(langfuse()),
    "langfuse: an answer": json.dumps({"data": langfuse()}),
    "langfuse: rows": in_lines(rows_of_langfuse()[::-1]),
}


def written(folder: Path, text: str, name: str = "log.json") -> Path:
    (path := folder / name).write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_the_same_episodes(form: str) -> None:
    name = form.split(":", maxsplit=1)[0]
    text = FORMS[form]
    assert detect(text.encode()[:65_536], "log").name == name
    found = sorted(records(name, text), key=lambda one: str(one.fields["source_key"]))
    assert [type(one) for one in found] == [Unsettled, Unsettled]
    for one, (question, answer, right, error) in zip(found, ANSWERS, strict=True):
        fields = one.fields
        assert fields["task"] == question
        assert (fields["agent"], one.model) == ("ada", "gpt-x")
        call, reply = fields["steps"]
        assert (call.action_type, call.action) == ("look_up", {"name": "x"})
        assert (call.observation, call.error) == ("found", error)
        assert (reply.action_type, reply.action) == ("respond", answer)
        assert one.outcomes == {"correct": right}
        assert (fields["started_at"], fields["duration"]) == (BEGUN, 0.5)
        assert "GOLD" not in str(one)
        assert "yes" in json.dumps(fields["extra"])


@pytest.mark.parametrize("name", ["mlflow", "langsmith", "langfuse"])
def test_traces_are_learned(memory: Memory, tmp_path: Path, name: str) -> None:
    log = written(tmp_path, FORMS[name])
    assert seeded(memory, log).created == 2
    report = seeded(memory, log)
    assert (report.created, report.skipped, report.refused) == (0, 2, 0)
    [row] = memory.strategies()
    assert (row.text, row.trials, row.successes) == (
        "look_up",
        2,
        0,
    )  # its only call in the success failed
    assert memory.verify().ok


def test_tables_of_langfuse(tmp_path: Path) -> None:
    """Traces with a column for each score, and observations, as CSV."""
    traces = [
        {
            "id": trace["id"],
            "timestamp": trace["timestamp"],
            "name": "answering",
            "userId": "",
            "sessionId": "",
            "bookmarked": "false",
            "tags": '["a, \\"b\\""]',
            "input": json.dumps(trace["input"], indent=1),
            "output": trace["output"],
            "correct": f"[{int(right)}]",
            "stars": "[4]",
            "tone": '["good"]',
        }
        for trace, (*_, right, _) in zip(langfuse(), ANSWERS, strict=True)
    ]
    observations = [
        {key: json.dumps(value) if isinstance(value, dict) else value for key, value in row.items()}
        for row in rows_of_langfuse()
        if "type" in row
    ]
    with Memory.open("memory:") as memory:
        report = seeded(memory, written(tmp_path, table(traces), "traces.csv"))
        assert (report.created, report.refused) == (2, 0)
        assert memory.stats().successes == 1
        assert {row.text for row in memory.strategies()} == {"no tools"}
    with Memory.open("memory:") as memory:
        log = written(tmp_path, table(observations), "observations.csv")
        assert seeded(memory, log).refused == 2  # scores are in a file of their own
        assert seeded(memory, log, outcomes={"t0": True, "t1": False}).created == 2
        assert {row.text for row in memory.strategies()} == {"look_up"}


def table(rows: Rows) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def test_tables_that_are_damaged_or_too_long() -> None:
    names = "id,trace_id,parent_observation_id,type,input\n"
    good = "a,t,,AGENT,asked\n"
    short = "b,t,a\n"
    assert "as many cells" in reasons("langfuse", names + good + short)[0]
    with pytest.raises(SeedingError, match="cut off or damaged"):
        records("langfuse", names + good + 'b,t,a,TOOL,"no end')
    with pytest.raises(SeedingError, match="limit of a record"):
        records("langfuse", names + good + 'b,t,a,TOOL,"' + "line\n" * 2_000, record=5_000)


def test_spans_without_a_root_are_refused_and_orphans_kept() -> None:
    a, b = Span("a", "tool", "x", parent="b"), Span("b", "tool", "y", parent="a")
    with pytest.raises(ValidationError, match="circle"):
        root_of([a, b])
    with pytest.raises(ValidationError, match="are missing"):
        root_of([])
    orphan = Span("c", "tool", "z", parent="gone")
    root = Span("r", "agent", "ada", input="q")
    assert root_of([orphan, root]) is root
    made = make_episode(1, [orphan, root], {}, {})
    assert made.tools == ["z"]
    runs = langsmith()[:2]
    assert "is no run in this file" in reasons("langsmith", in_lines(runs))[0]
    for one in (runs := langsmith()[:3]):
        one["parent_run_id"] = runs[0]["id"]
    assert "go round in a circle" in reasons("langsmith", in_lines(runs))[0]


@pytest.mark.parametrize("name", ["langsmith", "langfuse", "mlflow"])
def test_feedback_on_a_run_that_is_known_settles_it(
    memory: Memory, tmp_path: Path, name: str
) -> None:
    """It comes later, in a file of its own; on others it is refused, and again it is known."""
    (runs := tmp_path / "runs.jsonl").write_text(FORMS[name])
    seeded(memory, runs, evaluator="correct", strategy_from="model")
    [right] = memory.episodes(success=True)
    told: Rows = [
        {"id": "f", "run_id": right.source_key, "key": "thumb", "score": 0, "feedback_source": {}},
        {"id": "g", "run_id": "never seen", "key": "thumb", "score": 0, "feedback_source": {}},
    ]
    at = "created_at"
    if name == "langfuse":
        at = "timestamp"
        told = [
            {"id": one["id"], "traceId": one["run_id"], "name": "thumb", "value": 0,
             "dataType": "NUMERIC", "authorUserId": None} for one in told
        ]  # fmt: skip
    if name == "mlflow":
        at = "last_update_time"
        told = [
            {"assessment_id": one["id"], "trace_id": one["run_id"], "assessment_name": "thumb",
             "feedback": {"value": False}} for one in told
        ]  # fmt: skip
    (feedback := tmp_path / "told.jsonl").write_text(
        in_lines([{**one, at: "2026-11-02T12:00:00Z"} for one in told])
    )

    report = seeded(memory, feedback)

    assert (report.settled, report.skipped, report.refused) == (1, 0, 1)
    assert "never seen" in report.refusals[0].reason
    assert not memory.episodes(success=True)
    assert memory.show(right.id).fields["settled_at"] == "2026-11-02T12:00:00+00:00"
    again = seeded(memory, feedback)
    assert (again.settled, again.skipped) == (0, 1)


def test_a_chat_tells_of_calls_that_have_no_spans() -> None:
    call = {"type": "ai", "content": "", "tool_calls": [{"id": "1", "name": "f", "args": {"a": 1}}]}
    answer = {"type": "tool", "tool_call_id": "1", "content": "found"}
    chat = [["user", "q"], call, answer, {"type": "ai", "content": "done"}]
    made = make_episode(1, [Span("r", "agent", "ada", output={"messages": chat})], {}, {})
    assert made.tools == ["f"]
    [step, reply] = made.fields["steps"]
    assert (step.observation, reply.action) == ("found", "done")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        *((None, None), ("q", "q"), ('{"question": "q"}', "q"), ({"x": {"input": "q"}}, "q")),
        *(({"a": 1, "b": 2}, '{"a":1,"b":2}'), ([{"role": "user", "content": "q"}], "q")),
        ({"messages": [[{"type": "human", "content": "q"}]]}, "q"),
        ({"messages": [["system", "s"], ["user", "q"]]}, "q"),
        ({"messages": [{"lc": 1, "kwargs": {"type": "human", "content": "q"}}]}, "q"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}]}, "q"),
    ],
)
def test_what_was_asked(given: Any, text: str | None) -> None:
    assert question_of(given) == text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        *((None, None), ("a", "a"), ({"output": "a"}, "a"), ({"a": 1, "b": 2}, '{"a":1,"b":2}')),
        ({"messages": [{"content": "q"}, {"content": "a"}]}, "a"),
    ],
)
def test_what_was_said(given: Any, text: str | None) -> None:
    assert answer_of(given) == text
