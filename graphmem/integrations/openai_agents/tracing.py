"""Episodes from the traces of the SDK, for recording alone.

A trace is in memory until it ends. Then a thread writes it as one episode.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Unpack

from agents.tracing import (
    AgentSpanData,
    CustomSpanData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    ResponseSpanData,
    Span,
    Trace,
    TracingProcessor,
)

from graphmem.async_memory import AsyncMemory
from graphmem.integrations.openai_agents.runner import last_request, text_of
from graphmem.integrations.runs import RunOptions, Runs
from graphmem.memory import Memory

OPEN = 10_000
"""Traces that may be open at once; the oldest of more are not recorded."""
OUTCOME = "outcome"
"""The name of the custom span that states how a trace went."""


class GraphMemTracing(TracingProcessor):
    """Writes one episode for each trace: what was asked, the tools called, and the outcome.

    With ``set_trace_processors([GraphMemTracing(memory, outcome=judge)])`` traces go to graphmem
    only; with ``add_trace_processor`` they go to OpenAI as well.

    The task is ``trace_metadata["task"]`` (or what the option ``task`` makes of the metadata), else
    the first message of a user to a model. A trace without any, for instance because its data is
    sensitive, is not recorded. Steps are the spans of
    functions, of handoffs, and of triggered guardrails, in their order; spans within a function are
    part of it. The agent is the first one. For ``outcome="stated"``, a custom span ``outcome``
    states the outcome, as ``{"success": True}`` or ``{"score": 0.7}``. An error of a span is no
    outcome.

    Args and errors: see :class:`graphmem.integrations.runs.Runs`; ``task`` takes the metadata.
    """

    def __init__(self, memory: Memory | AsyncMemory, **options: Unpack[RunOptions]) -> None:
        self._runs = Runs(memory, "openai-agents-traces", **options)
        self._lock = threading.Lock()
        self._open: dict[str, tuple[datetime, dict[str, Span[Any]]]] = {}
        """When each open trace began, and its spans in the order in which they did."""
        self._writer = ThreadPoolExecutor(1, "graphmem-traces")

    def on_trace_start(self, trace: Trace) -> None:
        """Keep a trace."""
        with self._lock:
            self._open[trace.trace_id] = datetime.now(UTC), {}
            while len(self._open) > OPEN:
                del self._open[next(iter(self._open))]

    def on_span_start(self, span: Span[Any]) -> None:
        """Keep a span, which is filled until the trace ends."""
        with self._lock:
            if span.trace_id in self._open:
                self._open[span.trace_id][1][span.span_id] = span

    def on_span_end(self, span: Span[Any]) -> None:
        """Do nothing: the span is kept."""

    def on_trace_end(self, trace: Trace) -> None:
        """Write the episode, in a thread."""
        with self._lock, suppress(KeyError, RuntimeError):  # it is not open; it was shut down
            started_at, spans = self._open.pop(trace.trace_id)
            metadata = dict(getattr(trace, "metadata", None) or {})
            self._writer.submit(self._write, started_at, [*spans.values()], metadata)

    def shutdown(self) -> None:
        """Write what has ended; the rest is not recorded."""
        self._writer.shutdown(wait=True)

    def force_flush(self) -> None:
        """Wait until all that has ended is written."""
        with suppress(RuntimeError):  # it was shut down
            self._writer.submit(lambda: None).result()

    def _write(
        self, started_at: datetime, spans: Sequence[Span[Any]], metadata: dict[str, Any]
    ) -> None:
        agents = _of(spans, AgentSpanData)
        models = [span.span_data for span in _of(spans, GenerationSpanData, ResponseSpanData)]
        asked = filter(None, (last_request(one.input) for one in models))
        with self._runs.going_on("the run was not learned"):
            task = self._runs.task_of(metadata, lambda known: known.get("task") or next(asked, ""))
            agent = agents[0].span_data.name if agents else None
            running = self._runs.begin(str(task), agent=agent, started_at=started_at)
            running.model = next(filter(None, map(_model, models)), None)
            inner = {span.span_id for span in _of(spans, FunctionSpanData)}
            for span in spans:
                if span.parent_id in inner:
                    inner.add(span.span_id)
                elif step := _step(span):
                    running.step(*step)
            errors = [*filter(None, map(_error, agents))]
            running.end(
                next(filter(None, map(_answer, reversed(models))), None),
                errors[-1] if errors else None,
                stated=_last_outcome(spans),
                metadata=metadata,
            )


def _of(spans: Sequence[Span[Any]], *kinds: type) -> list[Span[Any]]:
    return [span for span in spans if isinstance(span.span_data, kinds)]


def _step(span: Span[Any]) -> tuple[str, Any, Any, str | None] | None:
    """Return the tool, arguments, observation and error of a span that is a step."""
    data, error = span.span_data, _error(span)
    if isinstance(data, FunctionSpanData):
        return data.name, data.input, None if error else data.output, error
    if isinstance(data, HandoffSpanData):
        names = {"from": data.from_agent, "to": data.to_agent}
        return f"handoff to {data.to_agent}", names, None, error
    if isinstance(data, GuardrailSpanData) and data.triggered:
        return f"guardrail {data.name}", None, None, error or "it was triggered"
    return None


def _error(span: Span[Any]) -> str | None:
    """Return the text of a span's error."""
    if not span.error:
        return None
    more = span.error.get("data") or {}
    return str(more.get("error") or span.error["message"])


def _model(data: GenerationSpanData | ResponseSpanData) -> str | None:
    if isinstance(data, GenerationSpanData):
        return data.model
    return None if data.response is None else str(data.response.model)


def _answer(data: GenerationSpanData | ResponseSpanData) -> str:
    if isinstance(data, ResponseSpanData):
        return "" if data.response is None else data.response.output_text
    return text_of(data.output[-1].get("content")) if data.output else ""


def _last_outcome(spans: Sequence[Span[Any]]) -> bool | float | None:
    """Return what the last span ``outcome`` states."""
    for span in reversed(_of(spans, CustomSpanData)):
        if span.span_data.name == OUTCOME and isinstance(data := span.span_data.data, Mapping):
            return data.get("success", data.get("score"))  # type: ignore[no-any-return]
    return None
