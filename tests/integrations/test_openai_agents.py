"""A runner for the OpenAI Agents SDK, with its own made-up model."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelResponse,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunHooks,
    UserError,
    function_tool,
    input_guardrail,
    output_guardrail,
    set_trace_processors,
    set_tracing_disabled,
)
from agents.run import CallModelData, ModelInputData
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseFunctionWebSearch
from openai.types.responses.response_function_web_search import ActionSearch
from openai.types.responses.response_output_item import McpCall

from graphmem import AsyncMemory, Memory
from graphmem.integrations.openai_agents import GraphMemRunner
from graphmem.integrations.outcomes import Run
from tests.integrations.test_runs import abandoned, arguments, cancelled_there, episodes, for_ever

TASK = "count the users"
Calls = list[tuple[str, dict[str, Any]]]


@pytest.fixture(autouse=True)
def offline() -> Iterator[None]:
    """No trace leaves this machine."""
    set_trace_processors([])
    set_tracing_disabled(True)
    yield
    set_trace_processors([])
    set_tracing_disabled(False)
    asyncio.run(asyncio.sleep(0))  # so that no test is given the loop that run_sync left


def right(run: Run) -> bool:
    return run.error is None and run.answer == "3"


@function_tool
def look(table: str) -> str:
    """Look into a table."""
    if table == "customers":
        raise KeyError("no such table")
    return "3 rows"


@function_tool(failure_error_function=None)
def break_off() -> str:
    """Break off."""
    raise PermissionError("not for you")


@function_tool
async def wait() -> str:
    """Wait for long."""
    await for_ever()
    return "done"


@function_tool(needs_approval=True)
def drop(table: str) -> str:
    """Drop a table."""
    return f"{table} is gone"


def script(*turns: Calls, answer: str = "3") -> ScriptedModel:
    """A model that calls tools, turn by turn, and then answers."""
    steps: list[Any] = [
        [function_call(name, given, call_id=uuid4().hex) for name, given in calls]
        for calls in turns
    ]
    return ScriptedModel([*steps, [assistant_message(answer)]])


def agent_of(model: ScriptedModel, **more: Any) -> Agent[Any]:
    tools: list[Any] = [look, break_off, wait, drop]
    return Agent(name="ada", instructions="Be brief.", model=model, tools=tools, **more)


async def stream(runner: GraphMemRunner, agent: Agent[Any], task: str, **options: Any) -> Any:
    result = runner.run_streamed(agent, task, **options)
    async for _ in result.stream_events():
        pass
    return result.final_output


def test_a_run_is_an_episode_and_the_next_one_knows_of_it(memory: Memory) -> None:
    runner = GraphMemRunner(memory, outcome=right, task_type="sql", strict=True)
    users: Calls = [("look", {"table": "users"})]
    turns: list[Calls] = [[("look", {"table": "customers"})], users, [("transfer_to_bo", {})]]
    asked: Any = [{"role": "user", "content": TASK}]
    kinds: list[Callable[[Agent[Any]], Any]] = [
        lambda agent: asyncio.run(runner.run(agent, TASK)).final_output,
        lambda agent: runner.run_sync(agent, asked).final_output,
        lambda agent: asyncio.run(stream(runner, agent, TASK)),
    ]
    for run in kinds:
        bo = Agent(name="bo", instructions="Be bo.", model=script(users), tools=[look])
        model = script(*turns)
        assert run(agent_of(model, handoffs=[bo])) == "3"
    learned = episodes(memory)
    assert len(learned) == 3
    for episode in learned:
        about = (episode["task"], episode["agent"], episode["source"])
        assert about == (TASK, "ada", "openai-agents")
        assert (episode["success"], episode["strategies"][0]) == (True, "look > handoff to bo")
        assert episode["tools"] == ["look", "look", "handoff to bo", "look"]
        assert arguments(episode)[2] == {"from": "ada", "to": "bo"}
        assert episode["seen"] == ["", "3 rows", "", "3 rows"]
        assert episode["errors"] == ["KeyError: 'no such table'", "", "", ""]
    told = [call.system_instructions or "" for call in [*model.calls, *bo.model.calls]]  # type: ignore[union-attr]
    assert [text.partition("\n")[0] for text in told] == ["Be brief."] * 3 + ["Be bo."] * 2
    assert all("(2 episodes)" in text for text in told)

    inner = Agent(name="inner", instructions="Help.", model=script(users), tools=[look])
    as_tool = agent_of(script([("ask", {"input": "deep"})]))
    as_tool.tools.append(inner.as_tool("ask", "Ask another agent."))
    runner.run_sync(as_tool, TASK)
    assert episodes(memory)[-1]["tools"] == ["ask"]
    assert isinstance(inner.model, ScriptedModel)
    assert {call.system_instructions for call in inner.model.calls} == {"Help."}


def test_a_run_that_raises_or_is_cancelled_or_stops(memory: Memory) -> None:
    """The same, whether it is streamed or not."""
    runner = GraphMemRunner(AsyncMemory(memory), outcome=right, strict=True)

    async def plain(agent: Agent[Any], task: str, **options: Any) -> None:
        await runner.run(agent, task, **options)

    streamed = functools.partial(stream, runner)

    @input_guardrail
    async def no_input(*_: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered=True)

    @output_guardrail
    async def no_output(*_: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered=True)

    async def main() -> None:
        for run in (plain, streamed):
            with pytest.raises(UserError, match="not for you"):
                await run(agent_of(script([("break_off", {})])), "raise")
            with pytest.raises(MaxTurnsExceeded):
                await run(agent_of(script([("look", {"table": "users"})])), "turn", max_turns=1)
            with pytest.raises(OutputGuardrailTripwireTriggered):
                await run(agent_of(script(), output_guardrails=[no_output]), "say")
            with pytest.raises(InputGuardrailTripwireTriggered):
                await run(agent_of(script(), input_guardrails=[no_input]), "ask")
            await cancelled_there(run(agent_of(script([("wait", {})])), "wait"))
            await run(agent_of(script([("drop", {"table": "users"})])), "stop")
        for mode in ("immediate", "after_turn"):
            result = runner.run_streamed(agent_of(script([("look", {"table": "users"})])), "leave")
            async for _ in result.stream_events():
                result.cancel(mode)
            assert result.final_output is None
        await asyncio.sleep(0)

    asyncio.run(main())
    failed = [(row["task"], row["success"], *row["tools"]) for row in episodes(memory)]
    assert sorted(failed) == sorted(
        [("raise", False, "break_off"), ("turn", False, "look"), ("say", False), ("ask", False)] * 2
    )
    left = sorted((row["task"], str(row["error"])) for row in abandoned(memory))
    ends = {"leave": ("CancelledError", "None"), "wait": ("CancelledError",) * 2}
    ends["stop"] = ("None", "None")
    assert left == sorted((task, end) for task, each in ends.items() for end in each)


def test_what_stopped_for_an_approval_goes_on(memory: Memory) -> None:
    runner = GraphMemRunner(memory, outcome=right, strict=True)
    agent = agent_of(script([("drop", {"table": "users"})]))
    result = runner.run_sync(agent, TASK)
    state = result.to_state()
    state.approve(result.interruptions[0])
    assert runner.run_sync(agent, state).final_output == "3"
    [episode] = episodes(memory)
    assert (episode["task"], episode["seen"]) == (TASK, ["users is gone"])
    assert len(abandoned(memory)) == 1


def test_runs_at_once_keep_the_hooks_and_filters_of_the_user(unstored: Memory) -> None:
    runner = GraphMemRunner(
        unstored, outcome=right, strategy="plan", task=lambda given: f"order {given}", strict=True
    )
    seen: list[str] = []

    class Mine(RunHooks[Any]):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            seen.append("start")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            seen.append(result)

        async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
            seen.append(f"{from_agent.name} to {to_agent.name}")

        async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:
            seen.append("model")

        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            seen.append("end")

    def shout(data: CallModelData[Any]) -> ModelInputData:
        text = (data.model_data.instructions or "").upper()
        return ModelInputData(input=data.model_data.input, instructions=text)

    def polite(_: Any) -> str:
        return "sorry"

    unstored.learn("order 7", "look", success=True, agent="ada")
    bo = Agent(name="bo", model=script())
    model = script([("look", {"table": "customers"})], [("transfer_to_bo", {})])
    config = RunConfig(
        call_model_input_filter=shout, tool_error_formatter=polite, trace_metadata={"plan": "p"}
    )
    agent = agent_of(model, handoffs=[bo])
    runner.run_sync(agent, "7", hooks=Mine(), run_config=config, context={"user": 1})
    assert seen == ["start", "model", "sorry", "model", "ada to bo", "start", "model", "end"]
    told = model.calls[0].system_instructions or ""
    assert told.startswith("BE BRIEF.\n\nFrom memory.")
    assert episodes(unstored)[-1]["strategies"] == ["p"]
    assert config.call_model_input_filter is shout

    async def one(n: int) -> None:
        agent = agent_of(script([("look", {"table": f"t{n}"})]))
        await runner.run(agent, str(n), run_config={"trace_metadata": {"plan": f"p{n}"}})

    async def many() -> None:
        await asyncio.gather(*map(one, range(8)))

    asyncio.run(many())
    learned = sorted(
        (row["task"], *row["strategies"], *arguments(row)[0].values())
        for row in episodes(unstored)[-8:]
    )
    assert learned == [(f"order {n}", f"p{n}", f"t{n}") for n in range(8)]


def test_tools_that_the_provider_runs_are_steps(unstored: Memory) -> None:
    about = ActionSearch(query="x", type="search")
    search = ResponseFunctionWebSearch(
        id="w", status="completed", type="web_search_call", action=about
    )
    given = '{"url": "x"}'
    fetch = McpCall(
        id="m", type="mcp_call", server_label="s", name="fetch", arguments=given, output="page"
    )
    model = ScriptedModel([[search, fetch, assistant_message("3")]])
    GraphMemRunner(unstored, outcome=right, strict=True).run_sync(agent_of(model), TASK)
    [episode] = episodes(unstored)
    assert episode["tools"] == ["web_search", "fetch"]
    assert (arguments(episode), episode["seen"]) == ([None, {"url": "x"}], ["", "page"])
