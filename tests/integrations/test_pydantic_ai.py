"""A capability for agents of Pydantic AI, with the framework's own made-up models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, RunContext
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.models.test import TestModel

from graphmem import AsyncMemory, Memory
from graphmem.integrations.outcomes import Run
from graphmem.integrations.pydantic_ai import GraphMemCapability
from tests.integrations.test_runs import abandoned, arguments, cancelled_there, episodes, for_ever

TASK = "count the users"


def right(run: Run) -> bool:
    return run.error is None and run.answer == "3"


class Script:
    """A model that calls tools and then answers, and what it was told."""

    def __init__(self, *calls: list[tuple[str, dict[str, Any]]], answer: str = "3") -> None:
        self.calls = calls
        self.answer = answer
        self.told: list[str] = []

    def model(self) -> FunctionModel:
        return FunctionModel(self._answer, stream_function=self._stream)

    def _turn(self, messages: list[ModelMessage], info: AgentInfo) -> list[tuple[str, Any]]:
        self.told.append(info.instructions or "")
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        return self.calls[turn] if turn < len(self.calls) else []

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        calls = self._turn(messages, info)
        return ModelResponse([ToolCallPart(*call) for call in calls] or [TextPart(self.answer)])

    async def _stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        calls = self._turn(messages, info)
        for place, (name, given) in enumerate(calls):
            text = ToolCallPart(name, given).args_as_json_str()
            yield {place: DeltaToolCall(name, text, tool_call_id=str(place))}
        if not calls:
            yield self.answer


def agent_of(script: Script, *capabilities: GraphMemCapability, **more: Any) -> Agent[Any, Any]:
    agent = Agent(
        script.model(),
        name="ada",
        instructions="Be brief.",
        retries=3,
        capabilities=capabilities,
        **more,
    )

    @agent.tool_plain
    def look(table: str) -> dict[str, int]:
        if table == "customers":
            raise ModelRetry("no such table")
        if table == "secrets":
            raise PermissionError("not for you")
        return {"rows": 3}

    @agent.tool
    def drop(context: RunContext[Any], table: str) -> str:
        if not context.tool_call_approved:
            raise ApprovalRequired
        return f"{table} is gone"

    return agent


def test_a_run_is_an_episode_and_the_next_one_knows_of_it(memory: Memory) -> None:
    script = Script(
        [("look", {"table": "customers"})],
        [("look", {"tabel": "users"}), ("look", {"table": "users"})],
    )
    agent = agent_of(
        script, GraphMemCapability(memory, outcome=right, task_type="sql", strict=True)
    )
    for _ in range(4):
        assert agent.run_sync(TASK).output == "3"
    learned = episodes(memory)
    assert len(learned) == 4
    first = learned[0]
    assert (first["task"], first["agent"], first["source"]) == (TASK, "ada", "pydantic-ai")
    assert (first["success"], first["strategies"]) == (True, ["look"])
    assert arguments(first) == [{"table": "customers"}, {"tabel": "users"}, {"table": "users"}]
    assert first["seen"] == ["", "", '{"rows":3}']
    assert first["errors"][0] == "ModelRetry: no such table"
    assert first["errors"][1].startswith("ValidationError: 2 validation errors")
    assert script.told[0] == "Be brief."
    assert script.told[-1].startswith("Be brief.\n\nFrom memory.")
    assert "3 of 3 here" in script.told[-1]
    assert script.told[-3:] == [script.told[-1]] * 3


def test_a_run_that_raises_or_is_cancelled_or_stops(memory: Memory) -> None:
    capability = GraphMemCapability(memory, outcome=right, strict=True)
    with pytest.raises(PermissionError):
        agent_of(Script([("look", {"table": "secrets"})]), capability).run_sync(TASK)
    [episode] = episodes(memory)
    assert (episode["success"], episode["errors"]) == (False, ["PermissionError: not for you"])

    slow = agent_of(Script([("wait", {})]), capability)

    @slow.tool_plain
    async def wait() -> None:
        await for_ever()

    asyncio.run(cancelled_there(slow.run("wait for it")))
    agent = agent_of(
        Script([("drop", {"table": "users"})]), capability, output_type=[str, DeferredToolRequests]
    )
    asked = agent.run_sync("drop the users")
    assert isinstance(asked.output, DeferredToolRequests)
    assert len(episodes(memory)) == 1
    assert {(row["task"], row["error"]) for row in abandoned(memory)} == {
        ("wait for it", "CancelledError"),
        ("drop the users", None),
    }
    results = asked.output.build_results(approve_all=True)
    done = agent.run_sync(message_history=asked.all_messages(), deferred_tool_results=results)
    assert done.output == "3"
    episode = episodes(memory)[-1]
    assert (episode["task"], episode["seen"]) == ("drop the users", ["users is gone"])


def test_streams_and_runs_at_once(memory: Memory) -> None:
    script = Script([("look", {"table": "users"})])
    agent = agent_of(script, GraphMemCapability(AsyncMemory(memory), outcome=right, strict=True))

    async def read(task: str, early: bool = False) -> str:
        async with agent.run_stream(task) as stream:
            if early:
                return ""
            return str(await stream.get_output())

    async def events(task: str) -> str:
        async with agent.run_stream_events(task) as stream:
            return str([event async for event in stream][-1].result.output)  # type: ignore[union-attr]

    async def plain(task: str) -> str:
        return str((await agent.run(task)).output)

    async def main() -> list[str]:
        runs = [kind(f"count {n}") for n, kind in enumerate([read, events, *[plain] * 6])]
        return await asyncio.gather(*runs, read("left early", True))

    assert asyncio.run(main()) == ["3"] * 8 + [""]
    learned = episodes(memory)
    assert sorted(row["task"] for row in learned) == [f"count {n}" for n in range(8)]
    assert {(*row["tools"], row["success"]) for row in learned} == {("look", True)}
    assert [row["task"] for row in abandoned(memory)] == ["left early"]


def test_what_a_run_is_about(unstored: Memory) -> None:
    asked: list[Run] = []

    def outcome(run: Run) -> bool:
        asked.append(run)
        return True

    agent: Agent[int, str] = Agent(
        TestModel(custom_output_text="fine"),
        deps_type=int,
        capabilities=[GraphMemCapability(unstored, outcome=outcome, strategy="plan", agent="bo")],
    )
    agent.run_sync(["count", "the users"], deps=7, metadata={"plan": "look"})
    agent.run_sync("", deps=7)
    of_deps = GraphMemCapability(
        unstored, outcome=outcome, task=lambda context: f"order {context.deps}", strategy="model"
    )
    Agent(TestModel(), capabilities=[of_deps]).run_sync("where is it", deps=8)
    assert [run.task for run in asked] == ["count\nthe users", "order 8"]
    assert (asked[0].answer, asked[0].metadata) == ("fine", {"deps": 7, "plan": "look"})
    learned = episodes(unstored)
    assert [row["strategies"] for row in learned] == [["look"], ["test"]]
    assert [row["agent"] for row in learned] == ["bo", "default"]
