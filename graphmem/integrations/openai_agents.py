"""A memory for agents of the OpenAI Agents SDK (extra ``openai-agents``).

The SDK's hooks alone are not enough: they may not change what a model reads, and they do not hear
of a run that raises or is cancelled, or of a guardrail that refuses the last answer. So the runner
adds to each run hooks that record the steps and a filter of the model's input, and ends the record.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace
from typing import Any, Unpack

from graphmem.async_memory import AsyncMemory
from graphmem.integrations import extra
from graphmem.integrations.runs import Running, RunOptions, Runs
from graphmem.memory import Memory
from graphmem.text.words import text_of

with extra("openai-agents"):
    from agents import (
        Agent,
        Model,
        RunConfig,
        RunHooks,
        Runner,
        RunResult,
        RunResultStreaming,
        RunState,
        Tool,
        TResponseInputItem,
    )
    from agents.exceptions import InputGuardrailTripwireTriggered, MaxTurnsExceeded
    from agents.items import ModelResponse
    from agents.models import get_default_model
    from agents.run import CallModelData, ModelInputData
    from agents.run_config import ToolErrorFormatterArgs

__all__ = ["GraphMemRunner"]

HOSTED = ("code_interpreter_call", "file_search_call", "image_generation_call", "web_search_call")
"""Tools that the provider of a model runs, as its answers name them."""
Input = str | list[TResponseInputItem] | RunState[Any]


class GraphMemRunner:
    """Runs agents as ``Runner`` does, gives them what is known, and learns how the runs went.

    ``await GraphMemRunner(memory, outcome=judge).run(agent, "Count the users")``. One runner serves
    any number of agents and runs at once.

    The task is the last message of the user in the input. What is known of it is added to the
    instructions in each call of a model. The run is one episode, also if agents handed it on;
    handoffs are steps, and so is an agent that is called as a tool.

    What is learned, args and errors: see :class:`graphmem.integrations.runs.Runs`; ``task`` takes
    the input.
    """

    def __init__(self, memory: Memory | AsyncMemory, **options: Unpack[RunOptions]) -> None:
        self._runs = Runs(memory, "openai-agents", **options)

    async def run(self, starting_agent: Agent[Any], input: Input, **options: Any) -> RunResult:  # noqa: A002
        """Run an agent; the arguments are those of ``Runner.run``."""
        async with self._begin(starting_agent, input, options) as run:
            run.result = result = await Runner.run(starting_agent, input, **run.options)
        return result

    def run_sync(self, starting_agent: Agent[Any], input: Input, **options: Any) -> RunResult:  # noqa: A002
        """Run an agent outside of event loops; the arguments are those of ``Runner.run_sync``."""
        with self._begin(starting_agent, input, options) as run:
            run.result = result = Runner.run_sync(starting_agent, input, **run.options)
        return result

    def run_streamed(
        self,
        starting_agent: Agent[Any],
        input: Input,  # noqa: A002
        **options: Any,
    ) -> RunResultStreaming:
        """Run an agent whose events are streamed; the arguments are ``Runner.run_streamed``'s."""
        run = self._begin(starting_agent, input, options)
        try:
            result = Runner.run_streamed(starting_agent, input, **run.options)
        except BaseException as error:
            run.__exit__(type(error), error, None)
            raise
        if result.run_loop_task is not None:
            loop = run.until_end(result, result.run_loop_task)
            result.run_loop_task = asyncio.create_task(loop)
        return result

    def _begin(self, agent: Agent[Any], given: Input, options: dict[str, Any]) -> _Recorded:
        task = self._runs.task_of(given, last_request)
        return _Recorded(self._runs.begin(task, agent=agent.name), options)


class _Recorded(RunHooks[Any], AbstractContextManager[Any], AbstractAsyncContextManager[Any]):
    """The hooks of one run, before those of the user; the end of its block ends the run."""

    def __init__(self, running: Running, options: dict[str, Any]) -> None:
        self.result: RunResult | RunResultStreaming | None = None
        self._running = running
        theirs: RunHooks[Any] = options.get("hooks") or RunHooks()
        # Theirs alone: a guardrail may still refuse what an agent ends with.
        vars(self).update(on_agent_end=theirs.on_agent_end, on_llm_start=theirs.on_llm_start)
        self._theirs = theirs
        self._agents: set[int] = set()
        """Identities of the agents of this run, without those that are called as tools."""
        self._called: dict[int | str, tuple[str, Any]] = {}
        """Tools that run, with their arguments."""
        self._failed: dict[str, Exception] = {}
        """What tools raised, by the id of the call, if the model gets a text instead."""
        config: RunConfig | dict[str, Any] = options.get("run_config") or {}
        self._config: dict[str, Any] = config if isinstance(config, dict) else vars(config)
        self._context = options.get("context")
        ours: dict[str, Any] = {
            "call_model_input_filter": self._inform,
            "tool_error_formatter": self._note_error,
        }
        self.options = options | {
            "hooks": self,
            "run_config": config | ours if isinstance(config, dict) else replace(config, **ours),
        }

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._running.end(**self._ending(error))

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._running.aend(**self._ending(error))

    async def until_end(self, result: RunResultStreaming, loop: asyncio.Task[Any]) -> Any:
        """Wait for the loop of a streamed run, and learn how it went."""
        async with self:
            returned = await loop
            self.result = result
        return returned

    def _ending(self, error: BaseException | None) -> dict[str, Any]:
        result, paused = self.result, False
        if isinstance(result, RunResultStreaming):
            error = error or _stopped(result)
            paused = result.final_output is None  # its reader had enough
        for name, arguments in self._called.values():  # they did not return
            self._running.step(name, arguments, error=error)
        return {
            "answer": None if result is None or error else result.final_output,
            "error": error,
            "paused": not error and (paused or bool(result and result.interruptions)),
            "metadata": {"context": self._context, **(self._config.get("trace_metadata") or {})},
        }

    async def _inform(self, data: CallModelData[Any]) -> ModelInputData:
        """Add what is known to the instructions of an agent of this run."""
        given = data.model_data
        if theirs := self._config.get("call_model_input_filter"):
            made = theirs(data)
            given = await made if inspect.isawaitable(made) else made
        if id(data.agent) in self._agents and (known := await self._running.acontext()):
            parts = [part for part in (given.instructions, known) if part]
            return ModelInputData(input=given.input, instructions="\n\n".join(parts))
        return given

    async def _note_error(self, failed: ToolErrorFormatterArgs[Any]) -> str | None:
        """Note what a tool raised; what the model reads stays as it is."""
        if failed.error is not None:
            self._failed[failed.call_id] = failed.error
        theirs = self._config.get("tool_error_formatter")
        said = None if theirs is None else theirs(failed)
        return await said if inspect.isawaitable(said) else said

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Note an agent of this run, and its model."""
        self._agents.add(id(agent))
        self._running.model = _model(self._config.get("model") or agent.model)
        await self._theirs.on_agent_start(context, agent)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        names = {"from": from_agent.name, "to": to_agent.name}
        self._running.step(f"handoff to {to_agent.name}", names)
        await self._theirs.on_handoff(context=context, from_agent=from_agent, to_agent=to_agent)

    async def on_tool_start(self, context: Any, agent: Any, tool: Tool) -> None:
        """Note which tool runs, with which arguments."""
        name = getattr(context, "qualified_tool_name", tool.name)
        self._called[_call(context, tool)] = (name, getattr(context, "tool_arguments", None))
        await self._theirs.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Tool, result: object) -> None:
        """Record a call of a tool, and what it returned or raised."""
        call = _call(context, tool)
        name, arguments = self._called.pop(call, (tool.name, None))
        error = self._failed.pop(str(call), None)
        self._running.step(name, arguments, None if error else result, error)
        await self._theirs.on_tool_end(context, agent, tool, result)

    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:
        """Record the tools that the provider of the model called itself."""
        for item in response.output:
            if item.type == "mcp_call":
                failed = None if item.error is None else str(item.error)
                self._running.step(item.name, item.arguments, item.output, failed)
            elif item.type in HOSTED:
                self._running.step(item.type.removesuffix("_call"))
        await self._theirs.on_llm_end(context, agent, response)


def _call(context: Any, tool: Tool) -> int | str:
    return getattr(context, "tool_call_id", None) or id(tool)


def _model(model: str | Model | None) -> str:
    if isinstance(model, Model):
        return str(getattr(model, "model", None) or type(model).__name__)
    return model or get_default_model()


def _stopped(result: RunResultStreaming) -> Exception | None:
    """Return what a streamed run raises to the reader of its events, but not in its loop."""
    for checked in result.input_guardrail_results:
        if checked.output.tripwire_triggered:
            return InputGuardrailTripwireTriggered(checked)
    most = result.max_turns
    if result.final_output is None and most is not None and result.current_turn > most:
        return MaxTurnsExceeded(f"Max turns ({most}) exceeded")
    return None


def last_request(given: Any) -> str:
    """Return the words of the last message of the user in the input of a run."""
    if isinstance(given, RunState):
        given = given.to_json()["original_input"]
    if isinstance(given, str):
        return given
    for item in reversed(given or []):
        if isinstance(item, Mapping) and item.get("role") == "user":
            return text_of(item.get("content"))
    return ""
