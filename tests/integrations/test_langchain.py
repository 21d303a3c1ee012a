"""An agent of LangChain asks the memory before a run, and learns after it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from graphmem import AsyncMemory, Memory
from graphmem.errors import StoreError
from graphmem.integrations.langchain import GraphMemMiddleware
from graphmem.integrations.outcomes import Run
from tests.conftest import Opener
from tests.integrations.made_up import MadeUp, Script, calls, once
from tests.integrations.recorded import abandoned, cancelled_there, episodes, for_ever

TASK = "refund a cancelled flight"


@tool
def look(about: str) -> str:
    """Look it up."""
    return f"looked at {about}"


@tool
def crash(about: str) -> str:
    """Fail."""
    raise OSError(f"no {about}")


@tool
async def wait(about: str) -> str:
    """Never come back."""
    await for_ever()
    return about


def done(run: Run) -> bool | None:
    return None if run.error else run.answer == "done"


def agent_of(
    memory: Memory | AsyncMemory, script: Script | MadeUp, *others: Any, **given: Any
) -> Any:
    """Return an agent that remembers; ``given`` to the middleware, but for a checkpointer."""
    saver = given.pop("checkpointer", None)
    prompt = given.pop("system_prompt", None)
    response = given.pop("response_format", None)
    return create_agent(
        script if isinstance(script, MadeUp) else MadeUp(script=script),
        [look, crash, wait],
        system_prompt=prompt,
        middleware=[GraphMemMiddleware(memory, **{"outcome": done, **given}), *others],
        checkpointer=saver,
        response_format=response,
    )


def ask(task: str = TASK) -> Any:
    return {"messages": [HumanMessage(task)]}


def test_a_run_is_learned_and_the_next_one_knows(memory: Memory) -> None:
    for number in range(4):
        tool = "look" if number % 2 else "crash_gently"
        given = "done" if number % 2 else "sorry"
        agent_of(memory, once(tool, answer=given), agent="ada").invoke(ask())
    learned = episodes(memory)
    assert [row["success"] for row in learned] == [False, True, False, True]
    assert [row["strategies"] for row in learned] == [["crash_gently"], ["look"]] * 2
    assert (learned[1]["seen"], learned[1]["errors"]) == (["looked at it"], [""])
    assert learned[0]["seen"] == [""]
    assert "not a valid tool" in learned[0]["errors"][0]

    known = memory.context(TASK, agent="ada")
    assert "look" in known
    model = MadeUp(script=once("look"))
    agent_of(memory, model, agent="ada", system_prompt="Be kind.").invoke(ask())
    assert model.prompts == [f"Be kind.\n\n{known}"] * 2
    blocks = SystemMessage([{"type": "text", "text": "Be kind."}])
    result = agent_of(memory, model, agent="ada", system_prompt=blocks).invoke(ask())
    assert model.prompts[2].startswith("Be kind.")
    assert "look" in model.prompts[2]
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert "graphmem" not in result


@pytest.mark.parametrize("awaiting", [False, True])
def test_runs_of_all_kinds_at_once_are_kept_apart(memory: Memory, awaiting: bool) -> None:
    def script(messages: Sequence[BaseMessage]) -> AIMessage:
        return AIMessage("done") if messages[-1].type == "tool" else calls("look", "look")

    agent = agent_of(AsyncMemory(memory) if awaiting else memory, script)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: agent.invoke(ask(f"task {number}")), range(7)))
    list(agent.stream(ask("task 7"), stream_mode="values"))

    async def more() -> None:
        await asyncio.gather(*(agent.ainvoke(ask(f"task {number}")) for number in range(8, 12)))

    asyncio.run(more())
    learned = episodes(memory)
    assert sorted(row["task"] for row in learned) == sorted(f"task {n}" for n in range(12))
    assert all(row["success"] and row["tools"] == ["look", "look"] for row in learned)
    assert memory.verify().ok


class Total(BaseModel):
    """The answer."""

    euros: int


def test_the_judge_sees_the_whole_run(memory: Memory) -> None:
    seen: list[Run] = []

    def script(messages: Sequence[BaseMessage]) -> AIMessage:
        if messages[-1].type != "tool":
            return calls("look")
        return AIMessage("", tool_calls=[{"name": "Total", "args": {"euros": 7}, "id": "t"}])

    agent = agent_of(memory, script, outcome=seen.append, response_format=Total, agent="ada")
    agent.invoke(ask())
    [run] = seen
    assert (run.task, run.output, run.agent, run.error) == (TASK, Total(euros=7), "ada", None)
    assert run.answer == '{"euros":7}'
    assert [step.action_type for step in run.steps] == ["look"]
    assert len(run.metadata["messages"]) == 5


class TestEndings:
    """A run is recorded once, at its first end, or not at all."""

    def test_a_tool_that_raises_ends_the_run(self, memory: Memory) -> None:
        agent = agent_of(memory, once("look", "crash", "crash"), outcome=lambda run: not run.error)
        with pytest.raises(OSError, match="no it"):
            agent.invoke(ask())
        with pytest.raises(OSError, match="no it"):
            asyncio.run(agent.ainvoke(ask()))
        learned = [(row["success"], row["error"], len(row["tools"])) for row in episodes(memory)]
        assert learned == [(False, "OSError: no it", 3)] * 2

    def test_so_does_a_model_that_raises(self, memory: Memory) -> None:
        def script(messages: Sequence[BaseMessage]) -> AIMessage:
            if messages[-1].type == "tool":
                raise TimeoutError("too slow")
            return calls("look")

        with pytest.raises(TimeoutError):
            agent_of(memory, script).invoke(ask())
        assert episodes(memory) == []
        [left] = abandoned(memory)
        assert (left["error"], left["step_count"]) == ("TimeoutError: too slow", 1)

    def test_an_error_that_is_mended_inside_does_not(self, memory: Memory) -> None:
        retry = ToolRetryMiddleware(max_retries=1, initial_delay=0, on_failure="continue")
        agent_of(memory, once("crash"), retry).invoke(ask())
        [learned] = episodes(memory)
        assert (learned["success"], learned["seen"]) == (True, [""])
        assert "OSError" in learned["errors"][0]

    def test_a_cancelled_run_is_abandoned_and_a_stream_left_early_is_not_recorded(
        self, memory: Memory
    ) -> None:
        for _ in agent_of(memory, once("look")).stream(ask()):
            break
        assert episodes(memory) == abandoned(memory) == []
        agent = agent_of(memory, once("look", "wait"), outcome=lambda _: False)
        asyncio.run(cancelled_there(agent.ainvoke(ask())))
        assert episodes(memory) == []
        [left] = abandoned(memory)
        assert left["step_count"] == 2

    def test_an_interrupted_run_goes_on_in_another_process(self, opened: Opener) -> None:
        saver, config = InMemorySaver(), {"configurable": {"thread_id": "7"}}
        memory = opened()

        def made() -> Any:
            """Return a new agent with a new middleware, as another process has them."""
            person = HumanInTheLoopMiddleware(interrupt_on={"look": True})
            return agent_of(memory, once("look"), person, checkpointer=saver)

        assert "__interrupt__" in made().invoke(ask(), config)
        assert episodes(memory) == abandoned(memory) == []
        approved: Command[Any] = Command(resume={"decisions": [{"type": "approve"}]})
        made().invoke(approved, config)
        made().invoke(ask("something else"), config)
        made().invoke(approved, config)
        learned = [(row["task"], row["success"], row["seen"]) for row in episodes(memory)]
        assert learned == [(task, True, ["looked at it"]) for task in (TASK, "something else")]


def test_the_agent_goes_on_where_the_memory_is_gone(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """What is wrong with the memory is not the agent's problem, unless it is strict."""
    lenient = agent_of(memory, once("look"))
    strict = agent_of(memory, once("look"), strict=True)
    memory.close()
    with caplog.at_level(logging.WARNING, "graphmem"):
        assert lenient.invoke(ask())["messages"][-1].text == "done"
    told = [one.getMessage() for one in caplog.records if one.name.endswith("integrations.runs")]
    assert [text.split(":")[0] for text in told] == [
        "the context is not known",
        "the run was not learned",
    ]
    with pytest.raises(StoreError):
        strict.invoke(ask())
