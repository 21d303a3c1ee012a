"""Every call of a memory is a span and a duration, without contents."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import time
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.instrumentation.distro import DefaultDistro  # type: ignore[attr-defined]
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from graphmem import AsyncMemory, Memory, Settings
from graphmem.episodes.attempts import Attempts
from graphmem.errors import GraphMemError, ValidationError
from graphmem.integrations import telemetry
from tests.contract.calling import call, calls, methods, populate

OBJECTS = {
    *("open", "attempt", "current_attempt", "remember", "watch", "close"),
    *("events.listen", "events.crystallize", "events.stop", "levels.start", "levels.stop"),
}
"""Methods that only make an object, or run or end what runs for long."""
ADDRESS = ("server.address", "server.port")
SECRET = "Tr0ub4dor&3"  # noqa: S105 - what nobody may see


class Seen:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def durations(self) -> dict[str, HistogramDataPoint]:
        data = self.reader.get_metrics_data()
        assert data is not None
        [metric] = data.resource_metrics[0].scope_metrics[0].metrics
        assert (metric.name, metric.unit) == ("gen_ai.client.operation.duration", "s")
        points: Any = metric.data.data_points
        return {str((point.attributes or {})["graphmem.method"]): point for point in points}


@pytest.fixture
def seen() -> Iterator[Seen]:
    recorded = Seen()
    with telemetry.instrument(tracer_provider=recorded.tracers, meter_provider=recorded.meters):
        yield recorded


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_every_method_has_an_operation(unstored: Memory) -> None:
    assert telemetry.operations().keys() == methods(unstored).keys() - OBJECTS


def test_every_call_is_a_span_without_contents(seen: Seen, tmp_path: Path) -> None:
    """Of an embedded memory: but for the address, the engine makes no difference."""
    settings = Settings(embedder="hashing")
    with Memory.open(tmp_path / "memory.graph", settings=settings) as memory:
        populate(memory, "shared")
        seen.exporter.clear()
        arguments = calls(memory, tmp_path)
        for name, given in arguments.items():
            if name not in OBJECTS:
                with contextlib.suppress(GraphMemError):
                    call(memory, name, given())
    spans = {told(span)["graphmem.method"]: span for span in seen.spans}
    assert set(spans) >= arguments.keys() - OBJECTS
    for span in spans.values():
        assert span.name == told(span)["gen_ai.operation.name"]
        assert "shared" not in str(told(span))
        assert not span.events
    assert set(seen.durations()) >= set(spans)
    assert told(spans["learn_many"])["gen_ai.memory.record.count"] == 1
    assert spans["upkeep.erase"].name == "delete_memory"


def test_a_span_says_where_and_how_many(seen: Seen, memory: Memory, engine: str) -> None:
    learned = memory.learn("a task", "a way", success=True)
    memory.strategies("a task")
    first, second = seen.spans
    embedded = engine == "embedded"
    where = {"gen_ai.memory.store.id": memory.namespace, "gen_ai.memory.record.count": 1} | (
        {} if embedded else {name: told(first)[name] for name in ADDRESS}
    )
    assert told(first) == where | {
        "gen_ai.operation.name": "upsert_memory",
        "graphmem.method": "learn",
        "gen_ai.memory.record.id": learned.episode_id,
    }
    assert told(second) == where | {
        "gen_ai.operation.name": "search_memory",
        "graphmem.method": "strategies",
    }
    assert first.kind is (SpanKind.INTERNAL if embedded else SpanKind.CLIENT)

    with pytest.raises(ValidationError):
        memory.learn(f"a task of {SECRET}", SECRET, success=True, score=0.1)
    failed = seen.spans[-1]
    assert told(failed)["error.type"] == "graphmem.errors.ValidationError"
    assert failed.status.status_code is StatusCode.ERROR
    assert SECRET not in failed.to_json()
    assert "error.type" in (seen.durations()["learn"].attributes or {})


def test_the_text_of_a_question_is_told_where_that_is_allowed(
    unstored: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen()
    for content in (None, False, True):
        telemetry.instrument(tracer_provider=seen.tracers, content=content)
        unstored.recall("a task")
    monkeypatch.setenv(telemetry.CAPTURE, "SPAN_ONLY")
    telemetry.instrument(tracer_provider=seen.tracers)
    unstored.strategies(task="a task")
    unstored.learn("a task", "a way", success=True)
    telemetry.uninstrument()
    unstored.recall("a task")
    texts = [told(span).get("gen_ai.memory.query.text") for span in seen.spans]
    assert texts == [None, None, "a task", "a task", None]


def test_spans_of_attempts_and_awaited_calls_are_below_their_callers(
    seen: Seen, url: str, settings: Settings
) -> None:
    tracer = seen.tracers.get_tracer("test")

    async def work() -> None:
        namespace = f"telemetry-{id(seen)}"
        async with await AsyncMemory.open(url, namespace=namespace, settings=settings) as memory:
            with tracer.start_as_current_span("agent"):
                await asyncio.gather(memory.learn("t", "s", success=True), memory.stats())
                async with memory.attempt("t") as attempt:
                    with tracer.start_as_current_span("work"):
                        assert "s" in await attempt.context
                    attempt.succeed()

    asyncio.run(work())
    spans = seen.spans
    names = {span.context.span_id: span.name for span in spans}
    below = {
        told(span)["graphmem.method"]: span.parent and names[span.parent.span_id]
        for span in spans
        if "graphmem.method" in told(span)
    }
    assert below == {"learn": "agent", "stats": "agent", "context": "work", "attempt": "agent"}
    [attempt] = [span for span in spans if told(span).get("graphmem.method") == "attempt"]
    assert attempt.name == "upsert_memory"
    assert told(attempt)["gen_ai.memory.record.id"]


def test_nothing_is_left_when_it_is_undone() -> None:
    owners = [*{owner for owner, _ in telemetry.operations().values()}, Attempts]
    before = [dict(vars(owner)) for owner in owners]
    signature = inspect.signature(Memory.recall)
    telemetry.instrument()
    telemetry.instrument()
    assert inspect.signature(Memory.recall) == signature
    assert [dict(vars(owner)) for owner in owners] != before
    telemetry.uninstrument()
    telemetry.uninstrument()
    assert [dict(vars(owner)) for owner in owners] == before


def test_opentelemetry_instrument_finds_it() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    group = "opentelemetry_instrumentor"
    [(name, value)] = project["entry-points"][group].items()
    seen = Seen()
    entry = EntryPoint(name, value, group)
    DefaultDistro().load_instrumentor(entry, skip_dep_check=True, tracer_provider=seen.tracers)
    try:
        with Memory.open("memory:") as memory:
            memory.stats()
    finally:
        entry.load()().uninstrument()
    assert [span.name for span in seen.spans] == ["search_memory"]


def test_log_lines_hold_no_contents(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever fails, its message is for the caller: transformers, extractors ..."""
    caplog.set_level(logging.INFO)

    def fails(*_: Any) -> Any:
        raise ValueError(SECRET)

    memory.levels.put("collective:from", ttl=60)
    memory.levels.put("collective:to", ttl=60)
    memory.levels.pull("collective:to", "collective:from", transformer=fails)
    memory.levels.add("collective:from", {"said": SECRET})
    assert SECRET in repr(memory.levels.tick())
    memory.remember("collective:from", extract=fails)(lambda text: text)(SECRET)
    memory.levels.__dict__["_tick"] = fails
    memory.levels.start(0.01)
    deadline = time.monotonic() + 60
    while "the tick failed" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)
    memory.levels.stop()
    del memory.levels.__dict__["_tick"]
    memory.scopes.set("ada", can_learn=["other"])
    with pytest.raises(RuntimeError), memory.attempt("t", agent="ada", task_type=SECRET):
        raise RuntimeError(SECRET)
    with pytest.raises(ValidationError):
        memory.learn(SECRET, SECRET, success=True, score=0.1)
    memory.recall(SECRET)
    assert "the tick failed" in caplog.text
    assert "cannot pull from" in caplog.text
    assert "was not remembered" in caplog.text
    assert "was not learned" in caplog.text
    assert SECRET not in caplog.text
