"""A memory for agents of Pydantic AI (extra ``pydantic-ai``).

An agent with the capability asks the memory before it acts, and learns after it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from typing_extensions import override

from graphmem.async_memory import AsyncMemory
from graphmem.integrations import extra
from graphmem.integrations.runs import RunOptions, Runs
from graphmem.memory import Memory

with extra("pydantic-ai"):
    from pydantic_ai import AgentRunResult, DeferredToolRequests, RunContext, ToolReturn, exceptions
    from pydantic_ai.capabilities import AbstractCapability, WrapRunHandler, WrapToolExecuteHandler
    from pydantic_ai.messages import ModelRequest, TextContent, ToolCallPart, UserPromptPart
    from pydantic_ai.tools import ToolDefinition

__all__ = ["GraphMemCapability"]

_NO_ERRORS = (exceptions.ApprovalRequired, exceptions.CallDeferred, exceptions.SkipToolExecution)
_ANSWERS = (exceptions.ToolFailedError, exceptions.ToolRetryError)
"""What the model is told of an error; the error itself is the cause of these."""


class GraphMemCapability(AbstractCapability[Any]):
    """Gives an agent what is known of its task, and learns how the run went.

    ``Agent(model, capabilities=[GraphMemCapability(memory, outcome=judge)])``. One capability
    serves any number of agents and runs at once.

    The task is the prompt of the run. What is known of it is added to the instructions.

    What is learned, args and errors: see :class:`graphmem.integrations.runs.Runs`; ``task`` takes
    the RunContext.
    """

    def __init__(self, memory: Memory | AsyncMemory, **options: Unpack[RunOptions]) -> None:
        self._runs = Runs(memory, "pydantic-ai", **options)
        self._running = self._runs.begin("")  # outside of runs there is nothing to record

    @override
    async def for_run(self, ctx: RunContext[Any]) -> GraphMemCapability:
        """Return the capability of one run, which holds its state."""
        mine = copy.copy(self)
        agent = None if ctx.agent is None else ctx.agent.name
        mine._running = self._runs.begin(self._runs.task_of(ctx, _task_of), agent=agent)
        return mine

    @override
    def get_instructions(self) -> Callable[[], Any]:
        """Return the function that adds the context to the instructions of a run."""
        return self._running.acontext

    @override
    async def wrap_run(
        self, ctx: RunContext[Any], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        """Learn how the run went."""
        running = self._running
        running.model = ctx.model.model_name
        try:
            result = await handler()
        except BaseException as error:
            await running.aend(error=error, metadata=_metadata(ctx))
            raise
        paused = isinstance(result.output, DeferredToolRequests)
        await running.aend(result.output, paused=paused, metadata=_metadata(ctx))
        return result

    @override
    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """Record a call of a tool, and what it returned or raised."""
        try:
            result = await handler(args)
        except _NO_ERRORS:
            raise
        except BaseException as error:
            cause = error.__cause__ if isinstance(error, _ANSWERS) else None
            self._running.step(call.tool_name, args, error=cause or error)
            raise
        returned = result.return_value if isinstance(result, ToolReturn) else result
        self._running.step(call.tool_name, args, returned)
        return result

    @override
    async def on_tool_validate_error(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
        error: Any,
    ) -> dict[str, Any]:
        """Record a call of a tool with wrong arguments."""
        self._running.step(call.tool_name, args, error=error)
        raise error


def _task_of(ctx: RunContext[Any]) -> str:
    """Return the words of the prompt; if a run goes on from messages, those of the last one."""
    prompts: list[str | Sequence[Any]] = [] if ctx.prompt is None else [ctx.prompt]
    for message in reversed(ctx.messages):
        if isinstance(message, ModelRequest):
            parts = reversed(message.parts)
            prompts += [part.content for part in parts if isinstance(part, UserPromptPart)]
    prompt = prompts[0] if prompts else ""
    if isinstance(prompt, str):
        return prompt
    words = (part.content if isinstance(part, TextContent) else part for part in prompt)
    return "\n".join(part for part in words if isinstance(part, str))


def _metadata(ctx: RunContext[Any]) -> dict[str, Any]:
    return {"deps": ctx.deps, **(ctx.metadata or {})}
