"""A memory for agents of LangChain and graphs of LangGraph (extra ``langchain``).

The middleware holds no state of a run. The task, the beginning and the context are in the state of
the agent, which a checkpointer keeps; the steps are the messages of the run. So one middleware
serves any number of runs at once, and an interrupted run can go on in another process.

The store holds no state either: a namespace is a level, and an item is an entry with its key.
"""

from __future__ import annotations

import asyncio
import threading
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal, NotRequired, TypedDict, Unpack
from urllib.parse import quote, unquote
from uuid import uuid4

from graphmem.async_memory import AsyncMemory
from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import MOST, check_text
from graphmem.ids import entry_id
from graphmem.integrations import extra
from graphmem.integrations.runs import Running, RunOptions, Runs, memory_of
from graphmem.memory import Memory
from graphmem.models.levels import Entry, Found, LevelUpkeep, Tags

with extra("langchain"):
    from langchain.agents.middleware import (
        AgentMiddleware,
        AgentState,
        ModelRequest,
        ModelResponse,
        ToolCallRequest,
    )
    from langchain.agents.middleware.types import PrivateStateAttr
    from langchain_core.messages import (
        AIMessage,
        HumanMessage,
        SystemMessage,
        ToolCall,
        ToolMessage,
    )
    from langgraph.errors import GraphBubbleUp
    from langgraph.runtime import Runtime
    from langgraph.store import base
    from langgraph.store.base.embed import get_text_at_path, tokenize_path
    from langgraph.store.memory import InMemoryStore
    from langgraph.types import Command

__all__ = ["GraphMemMiddleware", "GraphMemStore"]

Request = ModelRequest[Any]
Response = ModelResponse[Any]
Result = ToolMessage | Command[Any]
REMEMBERED = 10_000  # runs that are known to have ended early


class Begun(TypedDict):
    """What is known of a run from its beginning, in the state of the agent."""

    id: str
    task: str
    after: str | None  # id of the message that asked for it
    started_at: str
    context: str


class GraphMemState(AgentState[Any]):
    """The state of an agent that remembers."""

    graphmem: NotRequired[Annotated[Begun | None, PrivateStateAttr]]


class GraphMemMiddleware(AgentMiddleware[GraphMemState, Any, Any]):
    """Gives an agent what is known of its task, and learns how the run went.

    ``create_agent(model, tools, middleware=[GraphMemMiddleware(memory, outcome=judge)])``. Put it
    first: then it sees the results of tools as the agent gets them, after retries of others.

    The task is the last message of a person. What is known of it is added to the end of the system
    prompt in each call of the model, not to the messages.

    An error of a tool or a model that nothing handles ends the run, which is judged with
    :attr:`Run.error`. A run that is interrupted for a person goes on when it is resumed, in any
    process with the same checkpointer. A run is recorded once, at its first end, or not at all.

    What is learned, args and errors: see :class:`graphmem.integrations.runs.Runs`; ``task`` takes
    the state.
    """

    state_schema = GraphMemState

    def __init__(self, memory: Memory | AsyncMemory, **options: Unpack[RunOptions]) -> None:
        super().__init__()
        self._runs = Runs(memory, "langchain", **options)
        self._over: dict[str, None] = {}
        self._lock = threading.Lock()

    def before_agent(self, state: GraphMemState, runtime: Runtime[Any]) -> dict[str, Any]:  # noqa: ARG002
        """Look up what is known of the task."""
        if begun := self._begin(state):
            begun["context"] = self._runs.begin(begun["task"]).context()
        return {"graphmem": begun}

    async def abefore_agent(self, state: GraphMemState, runtime: Runtime[Any]) -> dict[str, Any]:  # noqa: ARG002
        """Look up what is known of the task."""
        if begun := self._begin(state):
            begun["context"] = await self._runs.begin(begun["task"]).acontext()
        return {"graphmem": begun}

    def wrap_model_call(self, request: Request, handler: Callable[[Request], Response]) -> Response:
        """Add what is known to the system prompt; an error ends the run."""
        with _Watch(self._run, request):
            return handler(_add_context(request))

    async def awrap_model_call(
        self, request: Request, handler: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Add what is known to the system prompt; an error ends the run."""
        async with _Watch(self._run, request):
            return await handler(_add_context(request))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]
    ) -> Result:
        """Let an error end the run; what tools return is read from the messages."""
        with _Watch(self._run, request):
            return handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Let an error end the run; what tools return is read from the messages."""
        async with _Watch(self._run, request):
            return await handler(request)

    def after_agent(self, state: GraphMemState, runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """Learn how the run went."""
        if run := self._run(state):
            run.end(**_ending(state))

    async def aafter_agent(self, state: GraphMemState, runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """Learn how the run went."""
        if run := self._run(state):
            await run.aend(**_ending(state))

    def _begin(self, state: Mapping[str, Any]) -> Begun | None:
        """Return what a run is about; None if there is nothing to learn from."""
        people = (one for one in reversed(state["messages"]) if isinstance(one, HumanMessage))
        message = next((one for one in people if one.text.strip()), None)
        task = self._runs.task_of(state, lambda _: None if message is None else str(message.text))
        if not task.strip():
            return None
        return Begun(
            id=uuid4().hex,
            task=task,
            after=None if message is None else message.id,
            started_at=datetime.now(UTC).isoformat(),
            context="",
        )

    def _run(
        self,
        state: Mapping[str, Any],
        error: BaseException | None = None,
        call: ToolCall | None = None,
    ) -> Running | None:
        """Return a run that ends, with its steps; None if it was recorded, or is not to be."""
        begun: Begun | None = state.get("graphmem")
        if begun is None or not self._first(begun["id"]):
            return None
        run = self._runs.begin(
            begun["task"], started_at=datetime.fromisoformat(begun["started_at"])
        )
        ids = [one.id for one in state["messages"]]
        after = begun["after"]
        start = ids.index(after) + 1 if after is not None and after in ids else 0
        messages = state["messages"][start:]
        if error is None and state.get("structured_response") is not None:
            # A model may give it as the call of a tool that does not exist, in its last message.
            last = max(place for place, one in enumerate(messages) if isinstance(one, AIMessage))
            messages = messages[:last]
        returned = {one.tool_call_id: one for one in messages if isinstance(one, ToolMessage)}
        for message in messages:
            if isinstance(message, AIMessage):
                known = message.response_metadata
                run.model = known.get("model_name") or known.get("model") or run.model
                for one in message.tool_calls:
                    answer = returned.get(one["id"] or "")
                    text = None if answer is None else str(answer.text)
                    if answer is not None and answer.status == "error":
                        run.step(one["name"], one["args"], error=text or "error")
                    else:
                        raised = error if call is not None and one["id"] == call["id"] else None
                        run.step(one["name"], one["args"], text, raised)
        return run

    def _first(self, identity: str) -> bool:
        """Return whether a run ends for the first time: parallel calls of tools may all fail."""
        with self._lock:
            first = identity not in self._over
            self._over[identity] = None
            if len(self._over) > REMEMBERED:
                del self._over[next(iter(self._over))]
        return first


@dataclass
class _Watch(AbstractContextManager[None], AbstractAsyncContextManager[None]):
    """Learns from a run that an error ends within."""

    end: Callable[..., Running | None]  # returns the run that ends, if it is to be recorded
    request: Request | ToolCallRequest

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if run := self._ended(error):
            run.end(**_ending(self.request.state, error))

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if run := self._ended(error):
            await run.aend(**_ending(self.request.state, error))

    def _ended(self, error: BaseException | None) -> Running | None:
        if error is None or isinstance(error, GraphBubbleUp):
            return None
        call = getattr(self.request, "tool_call", None)
        return self.end(self.request.state, error, call)


def _ending(state: Mapping[str, Any], error: BaseException | None = None) -> dict[str, Any]:
    """Return the answer and more of a run that ends: a structured response, else the last text."""
    answer = state.get("structured_response")
    last = state["messages"][-1]
    if answer is None and isinstance(last, AIMessage | ToolMessage):
        answer = str(last.text)
    visible = {name: value for name, value in state.items() if name != "graphmem"}
    return {"answer": None if error else answer, "error": error, "metadata": visible}


def _add_context(request: Request) -> Request:
    begun: Begun | None = request.state.get("graphmem")  # type: ignore[assignment]
    if begun is None or not begun["context"]:
        return request
    known, prompt = begun["context"], request.system_message
    if prompt is None:
        return request.override(system_message=SystemMessage(known))
    content = prompt.content
    if isinstance(content, str):
        more: Any = f"{content}\n\n{known}"
    else:
        more = [*content, {"type": "text", "text": f"\n\n{known}"}]
    return request.override(system_message=prompt.model_copy(update={"content": more}))


WHOLE = "$"  # the path of the whole item
UNSEARCHED = "unsearched"  # the tag of items that are not searched by meaning
EMPTY = "%"  # what an empty key is called; no other key is
_KEPT = LevelUpkeep(decay=0, prune=0, dedup=None)  # items stay until they expire, or are deleted
_OWNER = "collective"

Namespace = tuple[str, ...]


class GraphMemStore(base.BaseStore):
    """A store of LangGraph in a memory: ``create_agent(..., store=GraphMemStore(memory))``.

    Each namespace is a level for all to read: ``("users", "17")`` is the level
    ``collective:store:users:17``. Items are found by meaning with the embedder of the memory,
    without any setting. Without words, a search gives the latest first. A namespace is listed as
    long as it has items.

    In a batch, what is read is read before anything is written. Each write is durable by itself.
    Times to live are kept: what has expired is not there any more, and ``levels.maintain`` (or
    ``levels.start``) removes it. Values are JSON.

    Args:
        memory: a Memory or an AsyncMemory; both serve calls of both kinds.
        name: the name of the store, which is part of the names of its levels: a memory may have
            several stores.
        index: ``{"fields": [...]}``: which fields are searched, as one text; default: the whole
            item. False: no search by meaning.
        ttl: how long items stay, in LangGraph's form; ``sweep_interval_minutes`` is not used.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Memory | AsyncMemory,
        *,
        name: str = "store",
        index: base.IndexConfig | Literal[False] | None = None,
        ttl: base.TTLConfig | None = None,
    ) -> None:
        super().__init__()
        check_text("name", name)
        self._memory = memory_of(memory)
        self._root = f"{_OWNER}:{_quoted('name', name)}"
        self._fields = _fields(index)
        self.ttl_config = ttl

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Do several operations, reading ones first; see :class:`BaseStore`.

        Raises:
            ValidationError: a namespace, key or value cannot be stored.
        """
        wanted = list(ops)
        results: list[base.Result] = [self._read(op) for op in wanted]
        puts = {(op.namespace, op.key): op for op in wanted if isinstance(op, base.PutOp)}
        for op in puts.values():
            self._put(op)
        return results

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Do what :meth:`batch` does, in a worker thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: base.Op) -> base.Result:
        if isinstance(op, base.GetOp):
            entry = self._entry(self._level(op.namespace), op.key)
            if entry is not None and op.refresh_ttl:
                self._refresh([entry])
            return None if entry is None else base.Item(**self._item(entry))
        if isinstance(op, base.SearchOp):
            return self._search(op)
        if isinstance(op, base.ListNamespacesOp):
            return self._namespaces(op)
        if isinstance(op, base.PutOp):
            return None
        raise ValidationError("ops", op, "is no operation of a store")

    def _search(self, op: base.SearchOp) -> list[base.SearchItem]:
        if op.offset < 0:
            raise ValidationError("offset", op.offset, "must be a whole number from 0")
        levels = self._levels(op.namespace_prefix) if op.limit > 0 else []
        if not levels:
            return []
        most = MOST if op.filter else min(MOST, op.offset + op.limit)
        entries = self._search_levels(levels, op.query, most)
        if op.filter:
            entries = [entry for entry in entries if _fits(_value(entry), op.filter)]
        page = entries[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            self._refresh(page)
        return [base.SearchItem(**self._item(entry), score=entry.similarity) for entry in page]

    def _search_levels(self, levels: Sequence[str], query: str | None, most: int) -> list[Found]:
        """Return the items of levels; indexed ones near to a query come first."""
        recall = self._memory.levels.recall
        if not query or not query.strip() or self._fields is None:
            return recall(levels=levels, limit=most)
        unsearched = Tags(any_of=(UNSEARCHED,))
        near = recall(query, levels=levels, tags=~unsearched, limit=most)
        left = most - len(near)
        return [*near, *(recall(levels=levels, tags=unsearched, limit=left) if left else ())]

    def _namespaces(self, op: base.ListNamespacesOp) -> list[Namespace]:
        levels = self._memory.levels.map().levels
        names = (level.name for level in levels if level.entries)
        there = [self._namespace(name) for name in names if name.startswith(f"{self._root}:")]
        model = InMemoryStore()  # it knows which namespaces match
        model.batch([base.PutOp(namespace, "-", {}) for namespace in there])
        [found] = model.batch([op])
        return found  # type: ignore[return-value]

    def _put(self, op: base.PutOp) -> None:
        level, key = self._level(op.namespace), _key(op.key)
        levels = self._memory.levels
        if op.value is None:
            if level in self._levels(op.namespace):
                levels.remove(level, key)
            return
        before, now = self._entry(level, op.key), datetime.now(UTC).isoformat()
        created = now if before is None else before.metadata.get("created_at", now)
        metadata = {"created_at": created, "updated_at": now, "ttl": op.ttl}
        content: Any = dict(op.value)
        fields = self._fields if op.index is None else _paths(op.index)
        searched = self._fields is not None and fields is not None
        if searched and fields != [WHOLE]:
            parts = (get_text_at_path(op.value, tokenize_path(path)) for path in fields or ())
            text = "\n".join(part for texts in parts for part in texts)
            searched = bool(text.strip())
            if searched:
                content, metadata["value"] = text, content
        tags = () if searched else (UNSEARCHED,)
        ttl = None if op.ttl is None else op.ttl * 60
        add = partial(levels.add, level, content, key=key, metadata=metadata, tags=tags, ttl=ttl)
        try:
            add()
        except NotFoundError:
            levels.put(level, purpose=f"items of {op.namespace}", upkeep=_KEPT)
            add()

    def _entry(self, level: str, key: str) -> Entry | None:
        identity = entry_id(self._memory.namespace, level, _key(key))
        try:
            [entry] = self._memory.levels.entries(identity)
        except NotFoundError:
            return None
        ends = entry.expires_at
        return entry if ends is None or ends > datetime.now(UTC) else None

    def _refresh(self, entries: Sequence[Entry]) -> None:
        """Let items that were read stay as long as new ones."""
        for entry in entries:
            ttl = entry.metadata.get("ttl")
            if isinstance(ttl, int | float) and entry.key is not None:
                self._memory.levels.prolong(entry.level, [entry.key], ttl * 60)

    def _item(self, entry: Entry) -> dict[str, Any]:
        known, key = entry.metadata, entry.id if entry.key is None else entry.key
        return {
            "namespace": self._namespace(entry.level),
            "key": "" if key == EMPTY else unquote(key),
            "value": _value(entry),
            "created_at": known.get("created_at", entry.at),
            "updated_at": known.get("updated_at", entry.at),
        }

    def _level(self, namespace: Namespace) -> str:
        if not namespace or not all(namespace):
            raise ValidationError("namespace", namespace, "is empty, or has an empty part")
        return ":".join((self._root, *(_quoted("namespace", label) for label in namespace)))

    def _levels(self, prefix: Namespace) -> list[str]:
        start = self._level(prefix) if prefix else self._root
        names = self._memory.levels.names(self._root.removeprefix(f"{_OWNER}:"))
        return [name for name in names if f"{name}:".startswith(f"{start}:")]

    def _namespace(self, level: str) -> Namespace:
        return tuple(map(unquote, level.removeprefix(f"{self._root}:").split(":")))


def _key(key: str) -> str:
    return _quoted("key", key, special="%") or EMPTY


def _quoted(name: str, text: str, special: str = "%:") -> str:
    """Return a text for use in a name: as it is, else with all odd letters quoted."""
    check_text(name, text)
    plain = unicodedata.normalize("NFC", text).strip() == text and text.isprintable()
    return text if plain and not any(letter in text for letter in special) else quote(text, safe="")


def _fields(index: base.IndexConfig | Literal[False] | None) -> list[str] | None:
    if index is None or index is False:
        return [WHOLE] if index is None else None
    if own := {"embed", "dims"} & index.keys():
        raise ValidationError(
            "index", sorted(own), "are what the memory has", "Memory.open takes an embedder"
        )
    return _paths(index.get("fields", [WHOLE]))


def _paths(index: object) -> list[str] | None:
    if index is False:
        return None
    if isinstance(index, list | tuple) and all(isinstance(path, str) for path in index):
        return list(index)
    raise ValidationError("index", index, "must be a list of fields, or False")


def _value(entry: Entry) -> dict[str, Any]:
    """Return the value of an item; if only a part is searched, it is stored beside that part."""
    value = entry.metadata.get("value", entry.content)
    return value if isinstance(value, dict) else {"content": value}


def _fits(value: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Return whether a value matches a filter, as LangGraph's own store decides it."""
    model = InMemoryStore()
    model.batch([base.PutOp(("-",), "-", value)])
    try:
        [found] = model.batch([base.SearchOp(("-",), wanted)])
    except (TypeError, AttributeError, ValueError) as error:
        if str(error).startswith("Unsupported operator"):
            remedy = "use $eq, $ne, $gt, $gte, $lt or $lte"
            raise ValidationError("filter", wanted, "names no operator", remedy) from None
        return False  # what is no number is neither more nor less
    return bool(found)
