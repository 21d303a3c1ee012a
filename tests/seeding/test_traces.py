"""Exports of tracing tools: MLflow, LangSmith, Langfuse; in every form they come in."""

from __future__ import annotations

import base64
import csv
import io
import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langsmith import schemas

from graphmem import Memory
from graphmem.errors import SeedingError, ValidationError
from graphmem.seeding import Limits, Origin, Refused
from graphmem.seeding.formats import Unsettled, detect, find
from graphmem.seeding.traces import Span, answer_of, make_episode, question_of, root_of
from tests.seeding.test_seeding import seeded

BEGUN = datetime(2026, 11, 1, 12, tzinfo=UTC)
ANSWERS = [("What is x?", "x is 42", True), ("What is z?", "I do not know", False)]
Rows = list[dict[str, Any]]


def at(seconds: float) -> datetime:
    return BEGUN + timedelta(seconds=seconds)


def mlflow() -> Rows:
    """Two traces, as ``Trace.to_json`` of MLflow 3 writes them."""
    return [
        {
            "info": {
                "trace_id": f"tr-{number}",
                "request_time": at(0).isoformat(),
                "state": "OK" if good else "ERROR",
                "trace_metadata": {"mlflow.user": "me", "kept": "yes"},
                "tags": {"mlflow.traceName": "answering"},
                "assessments": [
                    _assessed("correct", not good, 1),
                    _assessed("correct", good, 2),
                    _assessed("stars", 4, 1),
                    _assessed("of the tool", not good, 1, span_id="c"),
                    {"assessment_name": "gold", "expectation": {"value": "GOLD"}},
                ],
            },
            "data": {
                "spans": [
                    _spanned("b", "a", "gpt", 1, "CHAT_MODEL", None, model='"gpt-x"'),
                    _spanned("c", "a", "look_up", 3, "TOOL", {"name": "x"}, "found", not good),
                    _spanned("a", None, "ada", 0, "AGENT", {"question": question}, answer),
                ]
            },
        }
        for number, (question, answer, good) in enumerate(ANSWERS)
    ]


def _assessed(name: str, value: Any, second: int, **more: Any) -> dict[str, Any]:
    moment = at(second).isoformat()
    known = {"assessment_name": name, "feedback": {"value": value}, "last_update_time": moment}
    return {**known, "valid": True, **more}


def _spanned(
    name: str,
    parent: str | None,
    label: str,
    second: float,
    kind: str,
    given: Any,
    returned: Any = None,
    failed: bool = False,
    model: str | None = None,
) -> dict[str, Any]:
    start = int(at(second).timestamp()) * 1_000_000_000
    attributes = {"mlflow.spanType": json.dumps(kind), "mlflow.spanInputs": json.dumps(given)}
    if model:
        attributes["mlflow.llm.model"] = model
    events = [{"name": "exception", "attributes": {"exception.message": "gone"}}] if failed else []
    return {
        "trace_id": base64.b64encode(b"t").decode(),
        "span_id": name,
        "parent_span_id": parent,
        "name": label,
        "start_time_unix_nano": start,
        "end_time_unix_nano": start + 500_000_000,
        "status": {"code": "STATUS_CODE_ERROR" if failed else "STATUS_CODE_OK", "message": ""},
        "events": events,
        "attributes": {**attributes, "mlflow.spanOutputs": json.dumps(returned)},
    }


def langsmith(beside: bool = False) -> Rows:
    """Two traces, as the models of the library ``langsmith`` write them."""
    rows: Rows = []
    for number, (question, answer, good) in enumerate(ANSWERS):
        ids = [uuid.UUID(int=10 * number + place + 1) for place in range(4)]

        def run(place: int, name: str, kind: str, ids: Any = ids, **more: Any) -> dict[str, Any]:
            made = schemas.Run(
                id=ids[place],
                name=name,
                run_type=kind,
                start_time=at(place),
                end_time=at(place + 0.5),
                trace_id=ids[0],
                parent_run_id=ids[0] if place else None,
                **more,
            )
            return dict(made.model_dump(mode="json"))

        said_of_root = {"correct": {"n": 1, "avg": float(good)}, "stars": {"n": 1, "avg": 4}}
        llm = {"metadata": {"ls_model_name": "gpt-x"}}
        chat = {"messages": [{"type": "human", "content": question}]}
        answered = {"messages": [*chat["messages"], {"type": "ai", "content": answer}]}
        error = None if good else "gone"
        rows += [
            run(
                2, "look_up", "tool", inputs={"name": "x"}, outputs={"output": "found"}, error=error
            ),
            run(1, "gpt", "llm", extra=llm),
            run(
                0,
                "ada",
                "chain",
                inputs=chat,
                outputs=answered,
                extra={"metadata": {"kept": "yes"}},
                feedback_stats=None if beside else said_of_root,
            ),
        ]
        if beside:
            for run_id, key, score in ((ids[0], "correct", good), (ids[2], "tool", not good)):
                told = schemas.Feedback(
                    id=ids[3],
                    run_id=run_id,
                    trace_id=ids[0],
                    key=key,
                    score=score,
                    created_at=at(9),
                    modified_at=at(9),
                )
                rows.append(told.model_dump(mode="json"))
    return rows


def langfuse() -> Rows:
    """Two traces, as they are downloaded."""
    return [
        {
            "id": f"t{number}",
            "name": "answering",
            "timestamp": at(0).isoformat(),
            "sessionId": None,
            "input": {"question": question},
            "output": answer,
            "metadata": {"kept": "yes"},
            "observations": [
                {
                    "id": f"t{number}c",
                    "type": "TOOL",
                    "name": "look_up",
                    "parentObservationId": f"t{number}a",
                    "startTime": at(3).isoformat(),
                    "input": '{"name": "x"}',
                    "output": "found",
                    **({} if good else {"level": "ERROR", "statusMessage": "gone"}),
                },
                {
                    "id": f"t{number}b",
                    "type": "GENERATION",
                    "model": "gpt-x",
                    "name": "gpt",
                    "parentObservationId": f"t{number}a",
                    "startTime": at(1).isoformat(),
                },
                {
                    "id": f"t{number}a",
                    "type": "AGENT",
                    "name": "ada",
                    "parentObservationId": None,
                    "startTime": at(0).isoformat(),
                    "endTime": at(0.5).isoformat(),
                },
            ],
            "scores": [
                {"name": "correct", "value": int(good), "dataType": "BOOLEAN", "timestamp": "2"},
                {
                    "name": "correct",
                    "value": int(not good),
                    "dataType": "BOOLEAN",
                    "timestamp": "1",
                },
                {"name": "stars", "value": 4, "dataType": "NUMERIC"},
                {"name": "tool", "value": 0, "dataType": "NUMERIC", "observationId": f"t{number}c"},
            ],
        }
        for number, (question, answer, good) in enumerate(ANSWERS)
    ]


def rows_of_langfuse() -> Rows:
    """The same as rows of observations and of scores, in the names of scheduled exports."""
    rows: Rows = []
    for trace in langfuse():
        for one in trace["observations"]:
            root = one["parentObservationId"] is None
            rows.append(
                {
                    "id": one["id"],
                    "trace_id": trace["id"],
                    "type": one["type"],
                    "parent_observation_id": one["parentObservationId"] or "",
                    "name": one["name"],
                    "level": one.get("level", "DEFAULT"),
                    "start_time": one["startTime"].replace("T", " ").removesuffix("+00:00"),
                    "end_time": (one.get("endTime") or "").removesuffix("+00:00") or None,
                    "status_message": one.get("statusMessage", ""),
                    "trace_name": "answering",
                    "provided_model_name": one.get("model", ""),
                    "metadata": {"kept": "yes"},
                    "input": json.dumps(trace["input"]) if root else one.get("input", ""),
                    "output": trace["output"] if root else one.get("output", ""),
                }
            )
        for number, one in enumerate(trace["scores"]):
            rows.append(
                {
                    "id": f"s{number}",
                    "trace_id": trace["id"],
                    "name": one["name"],
                    "value": one["value"],
                    "data_type": one["dataType"],
                    "string_value": None,
                    "observation_id": one.get("observationId"),
                    "source": "API",
                    "timestamp": one.get("timestamp"),
                }
            )
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
    "langsmith: a list": json.dumps(langsmith(), indent=1),
    "langsmith: an answer": json.dumps({"runs": langsmith()}),
    "langsmith: feedback beside": in_lines(langsmith(beside=True)[::-1]),
    "langfuse": in_lines(langfuse()),
    "langfuse: a list": json.dumps(langfuse(), indent=1),
    "langfuse: an answer": json.dumps({"data": langfuse()}),
    "langfuse: rows": in_lines(rows_of_langfuse()[::-1]),
}


def written(folder: Path, text: str, name: str = "log.json") -> Path:
    (path := folder / name).write_text(text, encoding="utf-8")
    return path


def read(name: str, text: str, **limits: int) -> list[Any]:
    stream = io.BufferedReader(io.BytesIO(text.encode()))
    return list(find(name).read(stream, Origin("log", "log", limits=Limits(**limits))))


def reasons(name: str, text: str, **limits: int) -> list[str]:
    return [one.reason for one in read(name, text, **limits) if isinstance(one, Refused)]


@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_the_same_episodes(form: str) -> None:
    name = form.split(":", maxsplit=1)[0]
    text = FORMS[form]
    assert detect(text.encode()[:65_536], "log").name == name
    found = sorted(read(name, text), key=lambda one: str(one.fields["source_key"]))
    assert [type(one) for one in found] == [Unsettled, Unsettled]
    for one, (question, answer, good) in zip(found, ANSWERS, strict=True):
        fields = one.fields
        assert fields["task"] == question
        assert (fields["agent"], one.model) == ("ada", "gpt-x")
        call, reply = fields["steps"]
        assert (call.action_type, call.action) == ("look_up", {"name": "x"})
        assert (call.observation, call.error) == ("found", None if good else "gone")
        assert (reply.action_type, reply.action) == ("respond", answer)
        assert one.outcomes == {"correct": good}
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
    assert (row.text, row.trials, row.successes) == ("look_up", 2, 1)
    assert memory.verify().ok


@pytest.mark.parametrize("name", ["mlflow", "langsmith", "langfuse"])
def test_a_judge_who_does_not_say_success_is_no_outcome(tmp_path: Path, name: str) -> None:
    log = written(tmp_path, FORMS[name])
    with Memory.open("memory:") as memory:
        report = seeded(memory, log, evaluator="stars")
        assert (report.created, report.refused) == (0, 2)
        assert "did not judge" in report.refusals[0].reason
        assert seeded(memory, log, strategy_from="model").created == 2
        assert [row.text for row in memory.strategies()] == ["gpt-x"]
        kept = "metadata.kept"
        with Memory.open("memory:") as other:
            seeded(other, log, strategy_from=kept)
            assert [row.text for row in other.strategies()] == ["yes"]


def test_unknown_fields_are_kept() -> None:
    logs = {"mlflow": mlflow(), "langsmith": langsmith()[:3], "langfuse": langfuse()}
    logs["mlflow"][0]["info"]["flavour"] = "new"
    logs["langsmith"][2]["flavour"] = logs["langfuse"][0]["flavour"] = "new"
    for name, rows in logs.items():
        assert read(name, in_lines(rows))[0].fields["extra"]["flavour"] == "new"


def test_what_nobody_judged_is_joined(tmp_path: Path) -> None:
    rows = mlflow()
    del rows[0]["info"]["assessments"]
    rows[1]["info"]["assessments"] = [_assessed("stars", 4, 1)]
    log = written(tmp_path, in_lines(rows))
    with Memory.open("memory:") as memory:
        first, second = seeded(memory, log).refusals
        assert "is unknown" in first.reason
        assert "neither a success nor a score" in second.reason
        assert seeded(memory, log, outcomes={"tr-0": True, "tr-1": 0.2}).created == 2


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
            "correct": f"[{int(good)}]",
            "stars": "[4]",
            "tone": '["good"]',
        }
        for trace, (_, _, good) in zip(langfuse(), ANSWERS, strict=True)
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
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def test_tables_that_are_damaged_or_too_long() -> None:
    names = "id,trace_id,parent_observation_id,type,input\n"
    good = "a,t,,AGENT,asked\n"
    short = "b,t,a\n"
    assert "as many cells" in reasons("langfuse", names + good + short)[0]
    with pytest.raises(SeedingError, match="cut off or damaged"):
        read("langfuse", names + good + 'b,t,a,TOOL,"no end')
    with pytest.raises(SeedingError, match="limit of a record"):
        read("langfuse", names + good + 'b,t,a,TOOL,"' + "line\n" * 2_000, record=5_000)


@pytest.mark.parametrize("name", ["mlflow", "langsmith", "langfuse"])
def test_damaged_records_do_not_stop_the_others(name: str) -> None:
    lines = FORMS[name].splitlines()
    broken = ["[1]", "{", "{}", '{"trace_id": 5}', '{"id": "x", "trace_id": "x", "data": 5}']
    found = read(name, "\n".join([lines[0], *broken, *lines[1:]]))
    assert sum(isinstance(one, Unsettled) for one in found) == 2
    assert sum(isinstance(one, Refused) for one in found) == len(broken)


def test_records_over_a_limit_are_refused() -> None:
    for name, text in FORMS.items():
        if ":" not in name:
            assert all("limit of" in one for one in reasons(name, text, record=700))
    [too_many] = reasons("langsmith", in_lines(langsmith()[:3] * 40), record=60_000)
    assert "limit of a record" in too_many


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
