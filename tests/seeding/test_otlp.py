"""Traces become episodes, as the real exporters write them: GenAI conventions and OpenInference."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from openinference.instrumentation import Annotation, get_evaluation_attributes, using_session
from openinference.instrumentation import TracerProvider as OpenInference
from opentelemetry.exporter.otlp.json.file._log_exporter import FileLogExporter
from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Span, Status, StatusCode
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.capabilities.instrumentation import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.test import TestModel

from graphmem import Memory
from graphmem.errors import SeedingError
from graphmem.models.episodes import Episode
from graphmem.seeding import Refused, seed, sources
from graphmem.seeding.formats import detect
from tests.seeding.test_seeding import records, settled

Line = dict[str, Any]
PASSED = ("correct", "pass", None)


def exported(provider: TracerProvider) -> io.StringIO:
    """The file to which the spans of a provider are written."""
    file = io.StringIO()
    provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(stream=file)))
    return file


class Agent:
    """An agent whose spans the file exporter of OpenTelemetry writes."""

    def __init__(self) -> None:
        self.file = exported(provider := TracerProvider())
        self.tracer = provider.get_tracer("agent")
        logs = LoggerProvider()
        exporter = FileLogExporter(stream=self.file)
        logs.add_log_record_processor(SimpleLogRecordProcessor(exporter))
        self.logger = logs.get_logger("judge")

    @contextmanager
    def span(self, operation: str, **told: Any) -> Iterator[Span]:
        names = {name.replace("__", "."): value for name, value in told.items()}
        attributes = {"gen_ai.operation.name": operation, **names}
        with self.tracer.start_as_current_span(operation, attributes=attributes) as span:
            yield span

    @contextmanager
    def run(self, asked: str | None = "Count the users", **told: Any) -> Iterator[Span]:
        if asked is not None:
            parts = [{"type": "text", "content": asked}]
            told["gen_ai.input.messages"] = json.dumps([{"role": "user", "parts": parts}])
        with self.span("invoke_agent", gen_ai__agent__name="ada", **told) as span:
            yield span

    def tool(self, name: str, **told: Any) -> None:
        with self.span("execute_tool", gen_ai__tool__name=name, **told):
            pass

    def lines(self) -> list[Line]:
        return [json.loads(line) for line in self.file.getvalue().splitlines()]


def judged(name: str, label: str | None, score: float | None, **more: str) -> dict[str, Any]:
    told = {"name": name, "score.label": label, "score.value": score}
    given = {f"gen_ai.evaluation.{key}": value for key, value in told.items() if value is not None}
    return given | {key.replace("__", "."): value for key, value in more.items()}


def judge(span: Span, *result: Any) -> None:
    span.add_event("gen_ai.evaluation.result", judged(*result))


def read(*lines: Line | str, record: int = 16_000_000, **options: Any) -> list[Episode | Refused]:
    """Read lines as `graphmem seed` does."""
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return settled(*records("otlp", text, record=record), **options)


def one(lines: list[Line], **options: Any) -> Episode:
    [episode] = read(*lines, **options)
    assert isinstance(episode, Episode), episode
    return episode


def refusals(*lines: Line | str, **options: Any) -> list[str]:
    return [item.reason for item in read(*lines, **options) if isinstance(item, Refused)]


def spans(lines: list[Line]) -> list[dict[str, Any]]:
    """All spans in lines, to change them."""
    return [
        span
        for line in lines
        for resource in line.get("resourceSpans", ())
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def counted() -> list[Line]:
    """The lines of a run that counted the users."""
    agent = Agent()
    with agent.run() as run:
        agent.tool("schema", gen_ai__tool__call__result="users")
        agent.tool("sql", gen_ai__tool__call__arguments='{"text": "SELECT 1"}')
        judge(run, *PASSED)
    return agent.lines()


def test_a_run_becomes_an_episode_on_both_engines(memory: Memory, tmp_path: Path) -> None:
    agent = Agent()
    with agent.tracer.start_as_current_span("POST /ask"):
        with agent.run(gen_ai__conversation__id="c-1", my__field="kept") as run:
            with agent.span("plan") as plan:
                plan.set_attribute("output.value", "look first")
            with agent.span("chat", gen_ai__request__model="small"):
                pass
            agent.tool(
                "sql",
                gen_ai__tool__call__arguments='{"text": "SELECT count(*) FROM user"}',
                gen_ai__tool__call__result='{"rows": []}',
            )
            with agent.span("execute_tool", gen_ai__tool__name="sql") as failed:
                failed.set_status(Status(StatusCode.ERROR, "no such table: user"))
            run.set_attribute("gen_ai.output.messages", '[{"role":"assistant","content":"42"}]')
            run.add_event(
                "gen_ai.evaluation.result",
                judged("correct", "pass", 0.9, gen_ai__evaluation__explanation="it is 42"),
            )
    log = tmp_path / "traces.jsonl"
    log.write_text(agent.file.getvalue())

    report = seed(memory, sources([str(log)]))
    assert (report.created, report.refused) == (1, 0), report.refusals
    assert seed(memory, sources([str(log)])).skipped == 1
    [row] = memory.strategies("Count the users")
    assert (row.text, row.successes, row.trials) == ("sql", 1, 1)

    episode = one(agent.lines())
    assert (episode.agent, episode.success, episode.feedback) == ("ada", True, "it is 42")
    assert [step.action_type for step in episode.steps] == ["plan", "sql", "sql", "respond"]
    _, first, second, answer = episode.steps
    assert first.action == {"text": "SELECT count(*) FROM user"}
    assert first.observation == '{"rows": []}'
    assert second.error == "no such table: user"
    assert answer.action == "42"
    assert episode.error is None
    assert episode.extra == {"conversation": "c-1", "model": "small", "my.field": "kept"}
    assert episode.started_at is not None
    assert episode.started_at.tzinfo is UTC
    assert one(agent.lines(), strategy_from="model").strategy[0].text == "small"
    assert one(agent.lines(), strategy_from="my.field").strategy[0].text == "kept"


def test_openinference_means_the_same() -> None:
    file = exported(provider := OpenInference())
    tracer = provider.get_tracer("agent")

    @tracer.tool(name="sql")
    def sql(text: str) -> str:
        return "42"

    @tracer.agent(name="ada")
    def work(question: str) -> str:
        return str(sql("SELECT 1"))

    evaluations = get_evaluation_attributes(
        evaluations=[Annotation(name="correct", label="correct", score=1.0, annotator_kind="HUMAN")]
    )
    with using_session("s-1"), tracer.start_as_current_span("all") as whole:
        whole.set_attributes({"openinference.span.kind": "CHAIN", **evaluations})
        work("Count the users")
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    episode = one(lines)
    assert episode.task == "Count the users"
    assert episode.success is True
    assert [step.action_type for step in episode.steps] == ["sql", "respond"]
    assert episode.steps[0].observation == "42"
    assert episode.extra["conversation"] == "s-1"
    assert "correct" not in str(episode.extra)


def test_what_a_framework_writes_by_itself_is_read() -> None:
    file = exported(provider := TracerProvider())
    told = Instrumentation(settings=InstrumentationSettings(tracer_provider=provider))
    agent = PydanticAgent(TestModel(), name="ada", capabilities=[told])

    @agent.tool_plain
    def count(table: str) -> int:
        """Count rows."""
        return 42

    agent.run_sync("Count the users")
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    episode = one(lines, outcomes={spans(lines)[0]["traceId"]: True})
    assert (episode.task, episode.agent) == ("Count the users", "ada")
    call, answer = episode.steps
    assert (call.action_type, call.action, call.observation) == ("count", {"table": "a"}, "42")
    assert answer.action == '{"count":42}'


def test_openllmetry_wraps_what_goes_in_and_comes_out() -> None:
    agent = Agent()
    kind = {"traceloop.span.kind": "workflow"}
    told = {"traceloop.entity.input": '{"inputs": {"question": "Count the users"}, "tags": []}'}
    with agent.run(None, **kind, **told, **{"traceloop.entity.output": '{"outputs": "42"}'}):
        pass
    episode = one(agent.lines(), outcomes={spans(agent.lines())[0]["traceId"]: True})
    assert (episode.task, episode.steps[-1].action) == ("Count the users", "42")


def test_what_was_judged_of_a_trace_counts_for_its_only_run() -> None:
    results = get_evaluation_attributes(
        evaluations=[Annotation(name="solved", score=0.25)], scope="trace"
    )
    agent = Agent()
    with agent.run() as run:
        run.set_attributes(results)
    assert one(agent.lines()).score == 0.25


def test_a_judgement_can_be_a_log_record_of_its_own() -> None:
    """By the span that it is about, else by the response."""
    agent = Agent()
    with agent.run() as run:
        agent.logger.emit(event_name="gen_ai.evaluation.result", attributes=judged(*PASSED))
    assert one(agent.lines()).success is True

    agent = Agent()
    with agent.run(), agent.span("chat", gen_ai__response__id="r-1"):
        pass
    with agent.span("chat", gen_ai__response__id="r-0"):
        agent.logger.emit(
            event_name="gen_ai.evaluation.result",
            attributes=judged("correct", "fail", None, gen_ai__response__id="r-1"),
        )
    assert one(agent.lines()).success is False
    assert run is not None


def test_a_judgement_of_the_run_goes_before_one_of_its_answer() -> None:
    agent = Agent()
    with agent.run() as run:
        with agent.span("chat") as chat:
            judge(chat, "fluent", None, 0.9)
        with agent.span("execute_tool", gen_ai__tool__name="sql") as tool:
            judge(tool, "fast", "pass", None)
        judge(run, "correct", None, 0.1)
    assert one(agent.lines()).score == 0.1
    agent = Agent()
    with agent.run(), agent.span("execute_tool", gen_ai__tool__name="sql") as tool:
        judge(tool, "fast", "pass", None)
    assert "is unknown" in refusals(*agent.lines())[0]


def test_an_evaluator_within_the_trace_judges_what_it_is_below() -> None:
    agent = Agent()
    with agent.run(), agent.tracer.start_as_current_span("evaluate") as evaluator:
        judge(evaluator, *PASSED)
    assert one(agent.lines()).success is True
    agent = Agent()
    with agent.run(), agent.span("retrieval") as retrieval:
        judge(retrieval, "relevance", None, 1.0)
    assert "is unknown" in refusals(*agent.lines())[0]


def test_exports_may_be_printed_over_several_lines() -> None:
    lines = counted()
    assert read("\n".join(json.dumps(line, indent=1) for line in lines)) == [one(lines)]
    listed = json.dumps(lines)
    assert detect(listed.encode(), "log").name == "otlp"
    assert read(listed) == [one(lines)]
    *before, last = (json.dumps(line, indent=1) for line in lines)
    with pytest.raises(SeedingError, match="cut off"):
        read("\n".join([*before, last[:-9]]))


def test_an_error_is_no_outcome_and_none_is_made_up() -> None:
    agent = Agent()
    with agent.run() as run:
        run.set_status(Status(StatusCode.ERROR, "out of time"))
    assert "is unknown" in refusals(*agent.lines())[0]
    [span] = spans(agent.lines())
    episode = one(agent.lines(), outcomes={span["traceId"]: False})
    assert (episode.success, episode.error) == (False, "out of time")
    agent = Agent()
    with agent.run() as run:
        judge(run, "stars", None, 7.0)
    assert "neither a success nor a score" in refusals(*agent.lines())[0]


def test_the_task_is_what_was_asked_first() -> None:
    chat = json.dumps([{"role": "system", "content": "Be kind"}, {"role": "user", "content": "Hi"}])

    def asked(**told: Any) -> str:
        agent = Agent()
        with agent.run(None, **told) as run:
            judge(run, *PASSED)
        return one(agent.lines()).task

    assert asked(input__value="Hi") == "Hi"
    assert asked(input__value='{"question": "Hi", "more": 1}') == "Hi"
    assert asked(input__value=f'{{"messages": {chat}}}') == "Hi"
    assert asked(gen_ai__input__messages=chat) == "Hi"
    agent = Agent()
    with agent.run(None) as run:
        judge(run, *PASSED)
    assert "is not told by any span of the run" in refusals(*agent.lines())[0]


def test_agents_below_an_agent_are_of_its_run_and_a_chain_is_one_where_no_agent_is() -> None:
    agent = Agent()
    with agent.run() as run:
        judge(run, *PASSED)
        with agent.run("a part of it"):
            agent.tool("sql")
    assert [step.action_type for step in one(agent.lines()).steps] == ["sql"]
    agent = Agent()
    with agent.span("invoke_workflow", input__value="Count") as run:
        judge(run, *PASSED)
        agent.tool("sql")
    assert one(agent.lines()).task == "Count"
    agent = Agent()
    with agent.span("chat"):
        pass
    assert "holds no run" in refusals(*agent.lines())[0]


@given(st.randoms(use_true_random=False))
def test_the_order_of_spans_and_lines_makes_no_difference(chance: random.Random) -> None:
    lines = counted()
    whole = [dict(line) for line in lines]
    chance.shuffle(whole)
    assert one(whole) == one(lines)
    [resource] = lines[0]["resourceSpans"]
    together = spans(lines)
    chance.shuffle(together)
    assert one([{"resourceSpans": [{"scopeSpans": [{"spans": together}]}]}]) == one(lines)
    assert one(lines + whole) == one(lines), "what an exporter sends again changes nothing"
    assert resource


def broken(change: Callable[[list[dict[str, Any]]], object]) -> list[str]:
    lines = counted()
    change(spans(lines))
    return refusals(*lines)


def test_spans_that_do_not_fit_together_are_refused() -> None:
    """The spans are the tools ``schema`` and ``sql``, and the run."""

    def circle(of: list[dict[str, Any]]) -> None:
        of[0]["parentSpanId"], of[1]["parentSpanId"] = of[1]["spanId"], of[0]["spanId"]

    [reason] = broken(circle)
    assert reason == "leads in a circle, so 2 spans belong to no run"
    [reason] = broken(lambda of: of[0].update(parentSpanId=of[0]["spanId"]))
    assert "leads in a circle" in reason
    [reason] = broken(lambda of: of[0].update(parentSpanId="00000000000000ff"))
    assert reason.endswith("is below no agent: there is no span 00000000000000ff")
    [reason] = broken(lambda of: of[0].pop("parentSpanId"))
    assert reason.endswith("is below no agent")
    [reason] = broken(lambda of: of[0].update(spanId=of[1]["spanId"]))
    assert "is that of another span, on line 1, which is taken" in reason
