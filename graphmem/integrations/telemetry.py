"""OpenTelemetry: a span and a duration for every call of a memory, after the GenAI conventions.

Needs the extra ``otel``. ``instrument()`` wraps the methods of memories and their parts, and
``uninstrument()`` restores them. Without a provider nothing is recorded. Spans have no contents of
a memory, of questions or of answers; only with ``content`` they have the text of a question.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial, wraps
from typing import Any, get_args
from urllib.parse import urlsplit

from graphmem import __version__, async_memory
from graphmem.episodes.attempts import Attempts
from graphmem.graph.graph import Graph
from graphmem.integrations import extra
from graphmem.models.advice import Recall
from graphmem.models.reports import LearnReport

with extra("otel"):
    from opentelemetry import metrics, trace

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable that allows contents in the spans of all GenAI libraries."""
_ALLOWED = {"true", "1", "span_only", "span_and_event"}
SEARCH, UPSERT, UPDATE, DELETE = "search_memory", "upsert_memory", "update_memory", "delete_memory"
CREATE_STORE, MAINTAIN = "create_memory_store", "maintain_memory"
"""``maintain_memory`` is a name of our own, for what the conventions lack."""
BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Bounds of durations in seconds that the conventions advise."""
_TEXTS = {"text", "task", "strategy", "item", "cypher"}
"""Names of first arguments that hold the question of a reading call."""

OPERATIONS: dict[str, str] = {
    UPSERT: "upkeep.import_",
    UPDATE: "lessons.merge lessons.unmerge policies.link policies.strengthen policies.weaken"
    " policies.propagate predictions.resolve predictions.feedback predictions.expire",
    DELETE: "policies.unlink levels.close levels.remove levels.unpull levels.remove_lens"
    " scopes.remove upkeep.erase upkeep.forget",
    CREATE_STORE: "upkeep.initialize",
    MAINTAIN: "verify calibrate levels.maintain levels.prolong",
    "": "events.crystallize events.stop levels.start levels.stop",
}
"""The operations of methods, in the words of the conventions, where they do not follow.

Otherwise a method of ``upkeep`` maintains, another one that writes upserts, and one that reads
searches. "": the method only makes an object, or runs or ends what runs for long.
"""
_undoing = ExitStack()  # what restores the wrapped methods


class Instrumentor:
    """The class that ``opentelemetry-instrument`` finds and calls."""

    def instrument(self, **given: Any) -> None:
        """Instrument all memories, as :func:`instrument` does."""
        instrument(**{name: given.get(name) for name in ("tracer_provider", "meter_provider")})

    def uninstrument(self, **_: Any) -> None:
        """Undo it."""
        uninstrument()


def instrument(
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
    content: bool | None = None,
) -> ExitStack:
    """Record the calls of all memories of this process, also of open ones.

    A second call replaces the first. In a ``with`` block, its end undoes it.

    Args:
        tracer_provider: receives spans; default: the global one, whenever it is set.
        meter_provider: receives durations; default: the global one, whenever it is set.
        content: whether spans have the text of a question, as ``gen_ai.memory.query.text``;
            default: what the environment variable
            ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` says, else no.
    """
    uninstrument()
    if content is None:
        content = os.environ.get(CAPTURE, "").lower() in _ALLOWED
    tracer = trace.get_tracer("graphmem", __version__, tracer_provider)
    durations = metrics.get_meter("graphmem", __version__, meter_provider).create_histogram(
        "gen_ai.client.operation.duration",
        unit="s",
        description="GenAI operation duration.",
        explicit_bucket_boundaries_advisory=BUCKETS,
    )
    recorded = partial(_recorded, tracer, durations, content)
    for name, (owner, operation) in operations().items():
        _wrap(owner, name.rpartition(".")[2], partial(recorded, operation, name))
    # An attempt is learned at its end.
    _wrap(Attempts, "store", partial(recorded, UPSERT, "attempt"))
    return _undoing


def uninstrument() -> None:
    """Record no more; restore the methods."""
    _undoing.close()


def operations() -> dict[str, tuple[type, str]]:
    """Return the classes and operations of the methods whose calls are recorded, by their names."""
    explicit = {
        name: operation for operation, names in OPERATIONS.items() for name in names.split()
    }
    found = {}
    for twin in async_memory._Awaited.__subclasses__():  # these know what writes
        part = twin.__name__.removeprefix("Async").lower()
        [owner] = get_args(vars(twin)["__orig_bases__"][0])
        for method, awaited in vars(twin).items():
            writes = getattr(awaited, "writes", None)
            name = method if part == "memory" else f"{part}.{method}"
            usual = MAINTAIN if part == "upkeep" else UPSERT if writes else SEARCH
            operation = explicit.get(name, usual)
            if operation and writes is not None:
                found[name] = owner, operation
    return found


def _wrap(owner: type, name: str, recorded: Callable[[Callable[..., Any]], object]) -> None:
    own = vars(owner).get(name)
    setattr(owner, name, recorded(getattr(owner, name)))
    if own is None:
        _undoing.callback(delattr, owner, name)
    else:
        _undoing.callback(setattr, owner, name, own)


def _recorded(
    tracer: trace.Tracer,
    durations: metrics.Histogram,
    content: bool,
    operation: str,
    label: str,
    method: Callable[..., Any],
) -> Callable[..., Any]:
    """Return a method that records its calls; its span is the current one meanwhile."""
    first = [*inspect.signature(method).parameters, "", ""][1]
    asked = first if content and operation == SEARCH and first in _TEXTS else ""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        graph: Graph = self.graph if isinstance(self, Attempts) else self._graph
        common: dict[str, Any] = {"gen_ai.operation.name": operation, "graphmem.method": label}
        kind = trace.SpanKind.INTERNAL
        if graph.store.capabilities.server:
            kind = trace.SpanKind.CLIENT
            where = urlsplit(graph.store.url)
            common |= {"server.address": where.hostname or "", "server.port": where.port or 7687}
        more = {"gen_ai.memory.store.id": graph.ns}
        question = (args[0] if args else kwargs.get(asked)) if asked else None
        if isinstance(question, str):
            more["gen_ai.memory.query.text"] = question
        start = time.perf_counter()
        with tracer.start_as_current_span(
            operation,
            kind=kind,
            attributes=common | more,
            record_exception=False,  # its text may hold contents
            set_status_on_exception=False,
        ) as span:
            try:
                answer = method(self, *args, **kwargs)
                span.set_attributes(_answer_attributes(operation, answer))
            except BaseException as error:
                module, name = type(error).__module__, type(error).__qualname__
                common["error.type"] = name if module == "builtins" else f"{module}.{name}"
                span.set_attribute("error.type", common["error.type"])
                span.set_status(trace.StatusCode.ERROR)
                raise
            finally:
                durations.record(time.perf_counter() - start, common)
        return answer

    return call


def _answer_attributes(operation: str, answer: Any) -> dict[str, Any]:
    """Return the attributes from the answer of a call: how many, and the id of the only one."""
    record: object = None
    count: object = len(answer) if isinstance(answer, list) else None
    if operation == SEARCH:
        items = answer.items if isinstance(answer, Recall) else answer
        count = len(items) if isinstance(items, list | tuple | dict) else None
    elif isinstance(answer, LearnReport):
        count = answer.created + answer.skipped + len(answer.rejected)
    elif operation == DELETE:
        count, record = getattr(answer, "episodes", None), getattr(answer, "episode_id", None)
    elif operation in (UPSERT, UPDATE):
        ids = (getattr(answer, name, None) for name in ("episode_id", "policy_id", "id"))
        record = answer if isinstance(answer, str) else next(filter(None, ids), None)
        count = 1 if isinstance(record, str) else count
    attributes: dict[str, Any] = {}
    if isinstance(count, int):
        attributes["gen_ai.memory.record.count"] = count
    if isinstance(record, str):
        attributes["gen_ai.memory.record.id"] = record
    return attributes
