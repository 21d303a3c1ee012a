"""A middleware for agents of LangChain: ask before the run, learn after it.

The middleware holds no state of a run. The task, the beginning and the context are in the state of
the agent, which a checkpointer keeps; the steps are the messages of the run. So one middleware
serves any number of runs at once, and an interrupted run can go on in another process.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, NotRequired, TypedDict, Unpack
from uuid import uuid4

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
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime
from langgraph.types import Command

from graphmem.async_memory import AsyncMemory
from graphmem.integrations.runs import Running, RunOptions, Runs
from graphmem.memory import Memory

REMEMBERED = 10_000
"""Runs that are known to have ended early."""


class Begun(TypedDict):
    """What is known of a run from its beginning, in the state of the agent."""

    id: str
    task: str
    after: str | None
    """Id of the message that asked for it."""
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
    prompt in each call of the model, not to the messages. At the end of the run one episode is
    learned: its steps are the tool calls, and ``outcome`` says whether it succeeded. A run without
    an outcome is stored as an abandoned attempt, and counts nowhere.

    An error of a tool or a model that nothing handles ends the run, which is judged with
    :attr:`Run.error`. A cancelled run is abandoned. A run that is interrupted for a person goes on
    when it is resumed, in any process with the same checkpointer. A run is recorded once, at its
    first end, or not at all.

    Args and errors: see :class:`graphmem.integrations.runs.Runs`; ``task`` takes the state.
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

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Add what is known to the system prompt; an error ends the run."""
        with self._watching(request):
            return handler(_add_context(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Add what is known to the system prompt; an error ends the run."""
        async with self._awatching(request):
            return await handler(_add_context(request))

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Let an error end the run; what tools return is read from the messages."""
        with self._watching(request):
            return handler(request)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Let an error end the run; what tools return is read from the messages."""
        async with self._awatching(request):
            return await handler(request)

    def after_agent(self, state: GraphMemState, runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """Learn how the run went."""
        if run := self._run(state):
            run.end(**_ending(state))

    async def aafter_agent(self, state: GraphMemState, runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """Learn how the run went."""
        if run := self._run(state):
            await run.aend(**_ending(state))

    @contextmanager
    def _watching(self, request: ModelRequest[Any] | ToolCallRequest) -> Iterator[None]:
        """Learn from a run that an error ends here."""
        try:
            yield
        except GraphBubbleUp:
            raise
        except BaseException as error:
            if run := self._run(request.state, error, getattr(request, "tool_call", None)):
                run.end(**_ending(request.state, error))
            raise

    @asynccontextmanager
    async def _awatching(self, request: ModelRequest[Any] | ToolCallRequest) -> AsyncIterator[None]:
        """Do what :meth:`_watching` does."""
        try:
            yield
        except GraphBubbleUp:
            raise
        except BaseException as error:
            if run := self._run(request.state, error, getattr(request, "tool_call", None)):
                await run.aend(**_ending(request.state, error))
            raise

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
        messages = _since(state["messages"], begun["after"])
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


def _since(messages: Sequence[AnyMessage], identity: str | None) -> Sequence[AnyMessage]:
    """Return the messages after the one with an id; all if it is gone."""
    for place, message in enumerate(messages):
        if identity is not None and message.id == identity:
            return messages[place + 1 :]
    return messages


def _ending(state: Mapping[str, Any], error: BaseException | None = None) -> dict[str, Any]:
    """Return the answer and more of a run that ends: a structured response, else the last text."""
    answer = state.get("structured_response")
    last = state["messages"][-1]
    if answer is None and isinstance(last, AIMessage | ToolMessage):
        answer = str(last.text)
    visible = {name: value for name, value in state.items() if name != "graphmem"}
    return {"answer": None if error else answer, "error": error, "metadata": visible}


def _add_context(request: ModelRequest[Any]) -> ModelRequest[Any]:
    """Return a request with what is known of the task at the end of its system prompt."""
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
