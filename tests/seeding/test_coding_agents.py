"""Logs of chats and of coding agents: terminal-bench, Harbor, OpenHands and SWE-agent."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from graphmem import Memory
from graphmem.models.episodes import Episode
from graphmem.seeding import SeedReport, chats, seed, sources
from tests.seeding.samples import CHAT, OPENHANDS, RESULT, SWE, TAU2, TRAJECTORY, TRIAL, Collector

OPENAI = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "Is it on?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{\"at\": 1}"}},
        {"id": "b", "type": "function", "function": {"name": "push", "arguments": "no JSON"}}]},
    {"role": "tool", "tool_call_id": "b", "content": "jammed", "is_error": True},
    {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "off"}]},
    {"role": "assistant", "content": "It is off."},
    {"role": "user", "content": "Thanks."},
]  # fmt: skip
ANTHROPIC = [
    {"role": "user", "content": [{"type": "text", "text": "Is it on?"}]},
    {"role": "assistant", "content": [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "a", "name": "look", "input": {"at": 1}},
        {"type": "tool_use", "id": "b", "name": "push", "input": "no JSON"}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "b", "content": "jammed", "is_error": True},
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "off"}]}]},
    {"role": "assistant", "content": [{"type": "text", "text": "It is off."}]},
    {"role": "user", "content": "Thanks."},
]  # fmt: skip


@pytest.mark.parametrize("chat", [OPENAI, ANTHROPIC], ids=["OpenAI", "Anthropic"])
def test_calls_and_replies_are_steps(chat: list[dict[str, Any]]) -> None:
    steps = list(chats.steps(chat))
    assert [(step.action_type, step.action, step.observation, step.error) for step in steps] == [
        ("look", {"at": 1}, "off", None),
        ("push", "no JSON", "jammed", "jammed"),
        ("respond", "It is off.", "Thanks.", None),
    ]
    assert chats.tools(steps) == ["look", "push"]
    assert chats.question(chat) == "Is it on?"


def test_answers_without_fitting_ids_follow_their_calls_in_order() -> None:
    call = {"id": "x", "function": {"name": "look", "arguments": {}}}
    chat: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [call, call, call]},
        {"role": "tool", "content": "one"},
        {"role": "tool", "content": "Error: two"},
    ]
    steps = list(chats.steps(chat, is_error=lambda seen: seen.startswith("Error")))
    assert [step.observation for step in steps] == ["one", "Error: two", None]
    assert [step.error for step in steps] == [None, "Error: two", None]


def test_what_ends_a_run_is_no_tool() -> None:
    names = ("look", "submit", "finish", "mark_task_complete")
    calls = [{"id": name, "function": {"name": name}} for name in names]
    steps = list(chats.steps([{"role": "assistant", "tool_calls": calls}]))
    assert [step.action_type for step in steps] == list(names)
    assert chats.tools(steps) == ["look"]


@pytest.mark.parametrize(
    ("prompt", "task"),
    [
        ("Solve:\n<pr_description>\nit is blank\n</pr_description>\nNow.", "it is blank"),
        ("Here:\nISSUE:\nit is blank\r\n\n\nINSTRUCTIONS:\nNow solve it.", "it is blank"),
        ("Task Description:\nit is blank\n\nCurrent terminal state:\n$", "it is blank"),
        ("ISSUE: it is blank", "ISSUE: it is blank"),
        ("x" * 20_000, f"{'x' * 4_997} ... {'x' * 4_997}"),
        (" \n", None),
        (None, None),
    ],
)
def test_a_task_stands_in_the_frame_of_a_prompt(prompt: str | None, task: str | None) -> None:
    assert chats.task_of(prompt) == task


def put(folder: Path, files: dict[str, Any]) -> Path:
    for name, value in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
    return folder


def learned(*paths: Path, **options: Any) -> tuple[dict[str, Episode], SeedReport]:
    """Seed a memory without disk; return episodes by source key, and the report."""
    with Collector.open("memory:") as memory:
        report = seed(memory, sources(map(str, paths)), **options)
    return {str(episode.source_key): episode for episode in memory.collected}, report


def one(*paths: Path, **options: Any) -> Episode:
    found, report = learned(*paths, **options)
    assert not report.refusals
    [episode] = found.values()
    return episode


def texts(episode: Episode) -> list[str]:
    return [use.text for use in episode.strategy]


def run(**more: Any) -> dict[str, Any]:
    other = [{**TRIAL, "id": name, "task_id": name, "is_resolved": done, **more}
             for name, done in (("a", False), ("b", None))]  # fmt: skip
    return {
        "results.json": {"id": "r", "results": [TRIAL, *other], "resolved_ids": ["hello"]},
        "run_metadata.json": {"agent_name": "terminus", "model_name": "a/opus"},
        "hello/hello.1-of-1.run/results.json": TRIAL,
        "tb.lock": "{}",
    }


def test_terminal_bench_counts_what_was_resolved(tmp_path: Path) -> None:
    folder = put(tmp_path / "runs" / "r", run(failure_mode="agent_timeout"))
    found, report = learned(tmp_path)
    assert (report.files, report.created, report.refused) == (1, 2, 1)
    [refusal] = report.refusals
    assert (refusal.record, refusal.field) == (3, "outcome")

    good, bad = found["terminal-bench/b5b4"], found["terminal-bench/a"]
    assert (good.task, good.task_key, good.agent) == ("Write hello.txt.", "hello", "terminus")
    assert (good.success, good.error, bad.success, bad.error) == (
        *(True, None, False, "agent_timeout"),
    )
    assert texts(good) == ["terminus, a/opus"]
    assert good.extra["parser_results"] == {"test_file": "passed"}
    assert good.started_at is not None

    trial = folder / "hello" / "hello.1-of-1.run" / "results.json"
    assert one(trial) == good  # the metadata of the run lie above
    assert texts(one(trial, strategy_from="model")) == ["a/opus"]
    _, report = learned(trial, strategy_from="tools")
    assert "are not told here" in report.refusals[0].reason
    found, report = learned(folder, outcomes={"b": True})
    assert found["terminal-bench/b"].success is True


def test_the_runs_of_a_leaderboard_are_told_apart(tmp_path: Path) -> None:
    """Trials without ids have the same names in each run; a copy of a run is known."""
    nameless = [{**TRIAL, "id": None, "trial_name": f"hello.{n}-of-2"} for n in (1, 2)]
    core = tmp_path / "results" / "core@0.1.1"
    for folder, about in (
        ("20250902_ada", {"uuid": "u-1", "run_id": "r"}),
        ("20250903_eve/r", {"uuid": "u-2", "run_id": "r"}),
        ("20250903_eve/copy", {"uuid": "u-2", "run_id": "r"}),
        ("20250904_old", {"run_id": "r-3"}),
        ("20250905_bare", {}),
    ):
        put(core / folder, {"results.json": {"results": nameless}, "run_metadata.json": about})
    found, report = learned(tmp_path)
    assert (report.created, report.skipped, report.refused) == (8, 2, 0)
    assert {name.rpartition("/")[0] for name in found} == {
        f"terminal-bench/{run}" for run in ("u-1", "u-2", "r-3", "20250905_bare")
    }


def test_chats_say_their_outcomes(tmp_path: Path) -> None:
    bare = {name: CHAT[name] for name in ("messages", "metadata")}
    thread = {"messages": [{"type": "human", "content": "hi"}, {"type": "ai", "content": "Hello."}]}
    lines = [
        CHAT,
        {"input": bare, "id": 2, "feedback": "thumbs_down"},
        {"values": thread, "thread_id": "t", "metadata": {"correct": "yes"}},
        {**bare, "id": "text", "feedback": "it was slow"},
        {**bare, "id": "stars", "rating": 4},
        {**bare, "id": "both", "success": True, "score": 0.9},
        {**bare, "score": 1},
    ]
    put(tmp_path, {"chats.jsonl": "\n".join(map(json.dumps, lines))})
    found, report = learned(tmp_path, outcomes={"text": True})
    told = {name: (one.success, one.score) for name, one in found.items()}
    assert told == {
        "c": (None, 0.9),
        "2": (False, None),
        "t": (True, None),
        "text": (True, None),
        "None": (None, 1.0),
    }
    reasons = {item.record: item.reason for item in report.refusals}
    assert "nor a score in [0, 1] (got '{\"rating\":4}')" in reasons[5]
    assert "score, success; name one with --evaluator" in reasons[6]
    episode = found["c"]
    assert (episode.task, episode.extra["model"]) == ("Is it on?", "gpt-x")
    assert texts(episode) == ["look > push", "look", "push"]
    assert [step.observation for step in episode.steps] == ["off", "pushed"]
    assert episode.started_at == datetime(2026, 11, 1, 12, tzinfo=UTC)
    assert (found["t"].task, found["text"].feedback) == ("hi", "it was slow")


def test_tau2_simulations_belong_to_their_tasks(tmp_path: Path) -> None:
    run = TAU2["simulations"][0]
    broken = {**run, "id": "b", "termination_reason": "infrastructure_error"}
    failed = {**run, "id": "f", "termination_reason": "max_steps", "reward_info": {"reward": 0.5}}
    voice = {**run, "id": "v", "messages": None, "ticks": []}
    put(tmp_path, {"runs.json": {**TAU2, "simulations": [run, broken, failed, voice]}})
    found, report = learned(tmp_path)
    assert [item.field for item in report.refusals] == ["outcome", "messages"]
    episode, failure = found["tau2/s"], found["tau2/f"]
    assert (episode.task, episode.task_key, episode.task_type) == (
        "cancel it",
        "airline/7",
        "airline",
    )
    assert (episode.agent, episode.success, episode.error) == ("gpt-x", True, None)
    assert (failure.success, failure.reward, failure.error) == (False, 0.5, "max_steps")
    assert [(step.action_type, step.error) for step in episode.steps] == [
        *(("respond", None), ("cancel", "no flight"))
    ]
    assert "GOLD" not in episode.model_dump_json()


def test_harbor_reads_a_trial_with_its_trajectory(tmp_path: Path) -> None:
    job = put(
        tmp_path / "jobs" / "monday",
        {
            "result.json": {"id": "j", "n_total_trials": 2, "trial_results": [RESULT]},
            "config.json": {},
            "hello__a1/result.json": RESULT,
            "hello__a1/agent/trajectory.json": TRAJECTORY,
            "hello__a1/verifier/ctrf.json": {},
            "hello__a2/agent/trajectory.json": {**TRAJECTORY, "session_id": "s-2"},
        },
    )
    found, report = learned(tmp_path)
    assert (report.files, report.created, report.refused) == (2, 1, 1)
    assert report.refusals[0].field == "outcome"
    episode = found["harbor/5f1c"]
    assert (episode.task, episode.task_key) == ("Write hello.", "org/hello")
    assert (episode.agent, episode.score) == ("terminus-2", 1.0)
    assert texts(episode) == ["look > write", "look", "write"]
    assert [(step.action_type, step.observation) for step in episode.steps] == [
        *(("look", "empty"), ("write", "written"), ("respond", None))
    ]
    assert episode.extra["model"] == "anthropic/opus"
    found, _ = learned(job / "hello__a2", outcomes={"s-2": False})
    assert found["harbor/s-2"].success is False


@pytest.mark.parametrize("version", [f"ATIF-v1.{minor}" for minor in range(9)])
def test_each_version_of_a_trajectory_is_read(tmp_path: Path, version: str) -> None:
    told = {**TRAJECTORY, "schema_version": version}
    put(tmp_path, {"trajectory.json": told, "next.json": {**told, "schema_version": "ATIF-v2.0"}})
    assert len(one(tmp_path / "trajectory.json", outcomes={"s-1": True}).steps) == 3
    _, report = learned(tmp_path / "next.json")
    assert report.refusals[0].field == "trajectory.schema_version"


def test_a_trajectory_goes_on_in_other_files(tmp_path: Path) -> None:
    turn = {"step_id": 1, "source": "agent", "message": "", "tool_calls": [
        {"tool_call_id": "x", "function_name": "stop", "arguments": {}}],
        "observation": {"results": [{"content": "one"}, {"content": "two"}]}}  # fmt: skip
    put(
        tmp_path,
        {
            "result.json": RESULT,
            "agent/trajectory.json": {**TRAJECTORY, "continued_trajectory_ref": "more.json"},
            "agent/more.json": {**TRAJECTORY, "steps": [turn]},
        },
    )
    episode = one(tmp_path)
    assert (episode.steps[-1].action_type, episode.steps[-1].observation) == ("stop", "one\ntwo")
    looping = {**TRAJECTORY, "continued_trajectory_ref": "trajectory.json"}
    put(tmp_path, {"agent/trajectory.json": looping})
    assert len(one(tmp_path).steps) == 300
    put(tmp_path, {"agent/trajectory.json": "{"})
    _, report = learned(tmp_path)
    assert "trajectory.json: cannot be read" in report.refusals[0].reason


def test_rewards_have_names(tmp_path: Path) -> None:
    several = {**RESULT, "verifier_result": {"rewards": {"tests": 1, "style": 0.2}}}
    put(tmp_path, {"result.json": several})
    _, report = learned(tmp_path)
    assert "style, tests" in report.refusals[0].reason
    alone = one(tmp_path, evaluator="style")
    assert alone.score == 0.2
    assert texts(alone) == ["terminus-2, anthropic/opus"]  # no trajectory tells of tools
    assert alone.task == "org/hello"


def test_openhands_outcomes_are_joined_or_told_by_an_evaluation(tmp_path: Path) -> None:
    report_of = {"resolved": True, "error_eval": False}
    lines = [
        OPENHANDS,
        {**OPENHANDS, "instance_id": "b", "test_result": {"report": report_of}},
        {**OPENHANDS, "instance_id": "c",
         "test_result": {"report": {"resolved": False, "error_eval": True}}},
        {**OPENHANDS, "instance_id": "d", "attempt": 2},
    ]  # fmt: skip
    folder = put(
        tmp_path,
        {
            "output.jsonl": "\n".join(map(json.dumps, lines)),
            "metadata.json": {},
            "report.json": {"resolved_ids": ["d"], "unresolved_ids": ["org__page-1"]},
        },
    )
    found, report = learned(folder, outcomes=folder / "report.json")
    key = "openhands/opus, 2025-01-01 10:00:00"
    assert {name: one.success for name, one in found.items()} == {
        f"{key}/org__page-1": False,
        f"{key}/b": True,
        f"{key}/d/2": True,
    }
    assert [(item.record, item.field) for item in report.refusals] == [(3, "outcome")]
    episode = found[f"{key}/org__page-1"]
    assert (episode.task, episode.task_key) == ("it is blank", "org__page-1")
    assert (episode.agent, episode.task_type) == ("CodeActAgent", "bench")
    assert texts(episode) == ["run > edit", "run", "edit"]  # not that it finished
    assert [(step.action_type, step.observation) for step in episode.steps] == [
        *(("run", "a b"), ("edit", "edited"), ("finish", None))
    ]


def test_openhands_events_are_read_in_each_form(tmp_path: Path) -> None:
    """Pairs of events as it wrote them first, and the events of its kit."""
    act, see = OPENHANDS["history"][1], OPENHANDS["history"][4]  # type: ignore[index]
    kit = [
        {"kind": "MessageEvent", "id": "0", "source": "user",
         "llm_message": {"role": "user", "content": [{"type": "text", "text": "fix it"}]}},
        {"kind": "ActionEvent", "id": "1", "source": "agent", "tool_name": "terminal",
         "tool_call_id": "t", "action": {"command": "ls", "kind": "TerminalAction"}},
        {"kind": "ObservationEvent", "id": "2", "source": "environment", "action_id": "1",
         "observation": {"content": [{"type": "text", "text": "no"}], "is_error": True}},
        {"kind": "ActionEvent", "id": "3", "source": "agent", "tool_name": "edit",
         "tool_call_id": "u", "action": None},
        {"kind": "AgentErrorEvent", "id": "4", "source": "agent", "tool_call_id": "u",
         "error": "no such tool"},
    ]  # fmt: skip
    shared = {"test_result": {}, "metadata": {"llm": {"model": "m"}}}
    lines = [
        {"instance_id": "pairs", "history": [[act, see]], **shared},
        {"instance_id": "kit", "history": kit, **shared},
    ]
    put(tmp_path, {"output.jsonl": "\n".join(map(json.dumps, lines))})
    found, _ = learned(tmp_path, outcomes={"pairs": True, "kit": False})
    assert [step.observation for step in found["openhands/m/pairs"].steps] == ["a b"]
    episode = found["openhands/m/kit"]
    assert (episode.task, episode.agent) == ("fix it", "openhands")
    assert [(step.action_type, step.error) for step in episode.steps] == [
        *(("terminal", "no"), ("edit", "no such tool"))
    ]


def test_swe_agent_outcomes_are_joined(memory: Memory, tmp_path: Path) -> None:
    """On the engines: whole folders, and again adds nothing."""
    folder = put(
        tmp_path / "run-1",
        {
            "org__page-1/org__page-1.traj": SWE,
            "org__page-2/org__page-2.traj": {**SWE, "info": {"exit_status": "exit_cost"}},
            "org__page-3.traj": {"history": SWE["history"], "trajectory": [{}]},
            "org__page-4.traj": {"trajectory": [], "history": [], "info": {}},
            "preds.json": {},
            "results.csv": "key,success\norg__page-1,true\norg__page-2,false\nx,true\n",
        },
    )
    found, report = learned(folder, outcomes=folder / "results.csv")
    assert [item.reason for item in report.refusals] == [
        "trajectory.0.action: is missing in this SWE-agent trajectory",
        "outcome: is unknown; join one with --outcomes",
    ]
    assert report.unmatched_keys == ("x",)
    episode = found["swe-agent/run-1/org__page-1"]
    assert (episode.task, episode.task_key) == ("the page is blank", "org__page-1")
    assert texts(episode) == ["find_file > edit", "find_file", "edit"]
    assert [step.action_type for step in episode.steps] == [
        "find_file",
        "edit",
        "respond",
        "submit",
    ]
    assert episode.extra["info"] == {"exit_status": "submitted", "model_stats": {"api_calls": 4}}
    assert found["swe-agent/run-1/org__page-2"].error == "exit_cost"

    for created in (2, 0):
        report = seed(
            memory, sources([str(tmp_path)]), outcomes=folder / "results.csv", strategy_from="model"
        )
        assert (report.files, report.created, report.refused) == (4, created, 2)
    assert [(row.text, row.trials) for row in memory.strategies()] == [("gpt-4o", 2)]
