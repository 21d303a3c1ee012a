"""A small log of each format, as bytes: what tests change, break and mix."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable
from typing import Any

from graphmem import Memory
from graphmem.models.episodes import Episode
from graphmem.models.reports import LearnReport


class Collector(Memory):
    """A memory that also keeps the episodes as it got them."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.collected: list[Episode] = []

    def learn_many(self, episodes: Iterable[Any], **options: Any) -> LearnReport:
        def collect() -> Iterable[Any]:
            for episode in episodes:
                self.collected.append(episode)
                yield episode

        return super().learn_many(collect(), **options)


BEGUN = 1_793_534_400_000_000_000
"""2026-11-01T12:00:00Z in nanoseconds."""
ISSUE = "Here is the issue:\nISSUE:\nthe page is blank\n\nINSTRUCTIONS:\nNow solve it."

EPISODE = {
    "task": "t", "strategy": ["a", {"text": "b", "credit": 0.5}], "success": True, "agent": "ada",
    "steps": [{"action_type": "look", "action": {"at": [1]}, "observation": "o"}],
    "started_at": "2026-01-01T10:00:00+02:00", "source_key": "k", "extra": {"seed": 3},
}  # fmt: skip
TAU: dict[str, Any] = {
    "task_id": 7, "trial": 2, "reward": 1.0, "flavour": "kept",
    "info": {
        "task": {"user_id": "u1", "instruction": "cancel it", "actions": ["GOLD"], "outputs": []},
        "reward_info": {"gold": "GOLD"}},
    "traj": [
        {"role": "system", "content": "policy"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "function": {"name": "get_user", "arguments": "{\"id\": \"u1\"}"}}]},
        {"role": "tool", "tool_call_id": "c1", "name": "get_user", "content": "Error: no user"},
        {"role": "assistant", "content": "What is your id?"},
        {"role": "user", "content": "u2"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c2", "function": {"name": "cancel_x", "arguments": "broken{"}}]},
        {"role": "tool", "tool_call_id": "c2", "name": "cancel_x", "content": "done"},
    ],
}  # fmt: skip
CHAT = {
    "id": "c", "created": BEGUN // 10**9, "model": "gpt-x", "score": 0.9,
    "metadata": {"suite": "s"},
    "messages": [
        {"role": "user", "content": "Is it on?"},
        {"role": "assistant", "tool_calls": [
            {"id": "a", "function": {"name": "look", "arguments": "{\"at\": 1}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "off"},
        {"role": "assistant", "function_call": {"name": "push", "arguments": "{}"}},
        {"role": "function", "name": "push", "content": "pushed"}],
}  # fmt: skip
TAU2: dict[str, Any] = {
    "info": {"git_commit": "g", "num_trials": 1, "user_info": {"llm": "u"},
             "agent_info": {"implementation": "llm_agent", "llm": "gpt-x"},
             "environment_info": {"domain_name": "airline", "policy": "p"}},
    "tasks": [{"id": "7", "evaluation_criteria": "GOLD", "user_scenario": {
        "instructions": {"reason_for_call": "cancel it", "task_instructions": "be brief"}}}],
    "simulations": [
        {"id": "s", "task_id": "7", "trial": 0, "seed": 3, "duration": 60.5,
         "start_time": "2025-06-11T15:00:00.1", "termination_reason": "user_stop",
         "reward_info": {"reward": 1.0, "action_checks": "GOLD"},
         "messages": [
             {"role": "assistant", "content": "Hi!"}, {"role": "user", "content": "Cancel it."},
             {"role": "assistant", "tool_calls": [{"id": "x", "name": "cancel", "arguments": {}}]},
             {"id": "x", "role": "tool", "content": "no flight", "error": True},
             {"role": "user", "tool_calls": [{"id": "y", "name": "hang_up", "arguments": {}}]}]},
    ],
}  # fmt: skip
INTERCODE: dict[str, Any] = {
    "environment": "sql", "task_id": 3, "query": "How many?", "hardness": "easy",
    "turn_history": {
        "actions": ["execute[DESC t]", "I think so", "SELECT 1"],
        "observations": ["Error executing query: no table", None, [[1]]],
        "rewards": [0.0, 0.0, 1.0], "valid_action": [False, True, True]},
    "summary": {"max_reward": 1.0, "turns_taken": 3},
}  # fmt: skip
SENTINEL = {"task_id": "t", "score": 0.5, "trajectory_summary": "s", "successes": ["a"]}
REFLEXION = """BEGIN TRIAL 1
------- BEGIN CORRECT AGENTS -------
Question: Who?
Thought 1: Hm.
Action 1: Search[Who]
Observation 1: Nobody.
Correct answer: x
"""
TRIAL = {
    "id": "b5b4", "trial_name": "hello.1-of-1.run", "task_id": "hello",
    "instruction": "Write hello.txt.", "is_resolved": True, "failure_mode": "unset",
    "parser_results": {"test_file": "passed"}, "total_input_tokens": 5,
    "agent_started_at": "2025-09-05T23:34:12+00:00", "agent_ended_at": "2025-09-05T23:35:12+00:00",
}  # fmt: skip
RESULT: dict[str, Any] = {
    "id": "5f1c", "task_name": "org/hello", "trial_name": "hello__a1", "trial_uri": "file:///x",
    "task_id": {"path": "hello"}, "source": "set", "task_checksum": "abc", "config": {"task": {}},
    "agent_info": {"name": "terminus-2", "version": "2.0",
                   "model_info": {"name": "opus", "provider": "anthropic"}},
    "verifier_result": {"rewards": {"reward": 1.0}}, "exception_info": None,
    "started_at": "2026-08-25T03:44:06.284448Z", "finished_at": "2026-08-25T03:45:35.679100Z",
}  # fmt: skip
TRAJECTORY = {
    "schema_version": "ATIF-v1.6", "session_id": "s-1",
    "agent": {"name": "terminus-2", "version": "2.0", "model_name": "anthropic/opus"},
    "steps": [
        {"step_id": 1, "source": "user",
         "message": "Do it.\nTask Description:\nWrite hello.\n\nCurrent terminal state:\n$"},
        {"step_id": 2, "source": "agent", "message": "old", "is_copied_context": True},
        {"step_id": 3, "source": "agent", "message": "I look.",
         "tool_calls": [
             {"tool_call_id": "a", "function_name": "look", "arguments": {"at": "."}},
             {"tool_call_id": "b", "function_name": "write", "arguments": {}}],
         "observation": {"results": [
             {"source_call_id": "b", "content": [{"type": "text", "text": "written"}]},
             {"source_call_id": "a", "content": "empty"}]},
         "metrics": {"prompt_tokens": 5}},
        {"step_id": 4, "source": "agent", "message": "Done."},
    ],
}  # fmt: skip
OPENHANDS = {
    "instance_id": "org__page-1", "instruction": "<issue_description>\nit is blank\n"
    "</issue_description>\nSolve it.", "test_result": {"git_patch": "diff"}, "error": None,
    "metadata": {"agent_class": "CodeActAgent", "llm_config": {"model": "opus"},
                 "start_time": "2025-01-01 10:00:00", "dataset": "bench"},
    "history": [
        {"id": 0, "source": "user", "action": "message", "args": {"content": "hello"}},
        {"id": 1, "source": "agent", "action": "run", "args": {"command": "ls"}},
        {"id": 2, "source": "agent", "action": "edit", "args": {"path": "a"}},
        {"id": 3, "source": "agent", "observation": "edit", "cause": 2, "content": "edited"},
        {"id": 4, "source": "agent", "observation": "run", "cause": 1, "content": "a b"},
        {"id": 5, "source": "agent", "action": "finish", "args": {}},
    ],
}  # fmt: skip
SWE = {
    "environment": "main",
    "trajectory": [
        {"action": "find_file page.py", "observation": "1 match", "thought": "I look.",
         "response": "", "state": {}},
        {"action": "edit 1:1\nx = 1\nend_of_edit\n", "observation": "edited", "thought": ""},
        {"action": "", "observation": "", "thought": "Hm."},
        {"action": "submit", "observation": "diff", "thought": ""},
    ],
    "history": [{"role": "system", "content": "s"},
                {"role": "user", "content": "a demonstration", "is_demo": True},
                {"role": "user", "content": ISSUE}],
    "info": {"exit_status": "submitted", "submission": "diff", "model_stats": {"api_calls": 4}},
    "replay_config": {"agent": {"model": {"name": "gpt-4o"}}, "problem_statement": {"id": "x"}},
}  # fmt: skip

INSPECT = {
    "version": 2, "status": "success",
    "eval": {"eval_id": "e", "run_id": "r", "task": "lookups", "model": "m", "solver": "react"},
    "samples": [
        {"id": 1, "epoch": 1, "input": "attachment://ab", "target": "GOLD",
         "messages": [
             {"role": "user", "content": "What is x?"},
             {"role": "assistant", "content": "", "tool_calls": [
                 {"id": "c", "function": "look_up", "arguments": {"name": "x"}}]},
             {"role": "tool", "tool_call_id": "c", "error": {"message": "gone"}},
         ],
         "scores": {"match": {"value": "C"}, "taste": {"value": {"tone": 1}}},
         "attachments": {"ab": "What is x?"}},
    ],
}  # fmt: skip
GYMNASIUM = {
    "gymnasium": 1, "env": "e", "run": "r", "step": 0, "at": "2026-11-01T12:00:00+00:00",
    "agent": "ada", "strategy": ["wander"], "seed": 3, "state": {"at": 1}, "action": "left",
    "reward": 1.0, "next_state": {"at": 2}, "terminated": True, "truncated": False,
    "outcome": True,
}  # fmt: skip
MLFLOW: dict[str, Any] = {
    "info": {
        "trace_id": "t0", "state": "OK", "request_time": "2026-11-01T12:00:00Z",
        "trace_metadata": {"mlflow.user": "me", "kept": "yes"},
        "tags": {"mlflow.traceName": "answering"},
        "assessments": [
            {"assessment_name": "correct", "feedback": {"value": True}, "last_update_time": "2"},
            {"assessment_name": "correct", "feedback": {"value": False}, "last_update_time": "1"},
            {"assessment_name": "stars", "feedback": {"value": 4}},
            {"assessment_name": "of the tool", "feedback": {"value": False}, "span_id": "c"},
            {"assessment_name": "gold", "expectation": {"value": "GOLD"}},
        ],
    },
    "data": {"spans": [
        {"span_id": "b", "parent_span_id": "a", "name": "gpt", "status": {"code": "OK"},
         "start_time_unix_nano": BEGUN + 1, "attributes": {
             "mlflow.spanType": "\"CHAT_MODEL\"", "mlflow.llm.model": "\"gpt-x\""}},
        {"context": {"span_id": "c"}, "parent_id": "a", "name": "look_up_1",
         "status_code": "ERROR", "events": [{"attributes": {"exception.message": "gone"}}],
         "attributes": {
             "mlflow.spanType": "\"TOOL\"", "mlflow.spanFunctionName": "\"look_up\"",
             "mlflow.spanInputs": "{\"name\": \"x\"}", "mlflow.spanOutputs": "\"found\""}},
        {"span_id": "a", "parent_span_id": None, "name": "ada", "status": {"code": "OK"},
         "start_time_unix_nano": BEGUN, "end_time_unix_nano": str(BEGUN + 500_000_000),
         "attributes": {
             "mlflow.spanType": "\"AGENT\"", "mlflow.spanOutputs": "\"x is 42\"",
             "mlflow.spanInputs": "{\"question\": \"What is x?\"}"}},
    ]},
}  # fmt: skip
LANGSMITH: dict[str, Any] = {
    "id": "t0", "trace_id": "t0", "name": "ada", "run_type": "chain", "session_name": "answering",
    "start_time": "2026-11-01T12:00:00", "end_time": "2026-11-01T12:00:00.5", "error": None,
    "inputs": {"messages": [{"type": "human", "content": "What is x?"}]},
    "outputs": {"messages": [{"type": "ai", "content": "x is 42"}]},
    "extra": {"metadata": {"kept": "yes"}},
    "feedback_stats": {"correct": {"n": 1, "avg": 1.0}, "stars": {"n": 1, "avg": 4}},
    "feedback": [{"key": "correct", "score": 1, "run_id": "t0"}],
    "child_runs": [
        {"id": "b", "parent_run_id": "t0", "trace_id": "t0", "name": "gpt", "run_type": "llm",
         "start_time": "2026-11-01T12:00:01", "extra": {"metadata": {"ls_model_name": "gpt-x"}}},
        {"id": "c", "parent_run_id": "t0", "trace_id": "t0", "name": "look_up",
         "run_type": "tool", "start_time": "2026-11-01T12:00:02", "inputs": {"name": "x"},
         "outputs": {"output": "found"}, "error": "gone"},
    ],
}  # fmt: skip
LANGFUSE: dict[str, Any] = {
    "id": "t0", "name": "answering", "timestamp": "2026-11-01T12:00:00Z", "sessionId": None,
    "input": {"question": "What is x?"}, "output": "x is 42", "metadata": {"kept": "yes"},
    "tags": ["a"],
    "observations": [
        {"id": "c", "type": "TOOL", "name": "look_up", "parentObservationId": "a",
         "startTime": "2026-11-01T12:00:03Z", "input": "{\"name\": \"x\"}", "output": "found",
         "level": "ERROR", "statusMessage": "gone"},
        {"id": "b", "type": "GENERATION", "name": "gpt", "model": "gpt-x",
         "parentObservationId": "a", "startTime": "2026-11-01T12:00:01Z"},
        {"id": "a", "type": "AGENT", "name": "ada", "parentObservationId": None,
         "startTime": "2026-11-01T12:00:00Z", "endTime": "2026-11-01T12:00:00.5Z"},
    ],
    "scores": [
        {"name": "correct", "value": 1, "dataType": "BOOLEAN", "timestamp": "2"},
        {"name": "correct", "value": 0, "dataType": "BOOLEAN", "timestamp": "1"},
        {"name": "stars", "value": 4, "dataType": "NUMERIC"},
        {"name": "tool", "value": 0, "dataType": "NUMERIC", "observationId": "c"},
    ],
}  # fmt: skip
OBSERVATIONS = """id,trace_id,parent_observation_id,type,name,input,accuracy
a,t,,AGENT,ada,"{""question"": ""q""}",[1]
b,t,a,TOOL,f,"one,
two",
"""

OTLP = {"resourceSpans": [{
    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
    "scopeSpans": [{"spans": [
        {"traceId": "1" * 32, "spanId": "a" * 16, "name": "invoke_agent ada",
         "startTimeUnixNano": "1000", "endTimeUnixNano": "5000", "status": {"code": 1},
         "attributes": [
             {"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}},
             {"key": "gen_ai.agent.name", "value": {"stringValue": "ada"}},
             {"key": "gen_ai.input.messages", "value": {"stringValue":
                 "[{\"role\": \"user\", \"parts\":"
                 " [{\"type\": \"text\", \"content\": \"hi\"}]}]"}}],
         "events": [{"name": "gen_ai.evaluation.result", "attributes": [
             {"key": "gen_ai.evaluation.name", "value": {"stringValue": "correct"}},
             {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": 1}}]}]},
        {"traceId": "1" * 32, "spanId": "b" * 16, "parentSpanId": "a" * 16, "name": "look_up",
         "startTimeUnixNano": 2000, "status": {"code": 2, "message": "gone"},
         "attributes": [
             {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
             {"key": "gen_ai.tool.call.arguments", "value": {"kvlistValue": {"values": [
                 {"key": "n", "value": {"intValue": "3"}}]}}}]},
    ]}],
}]}  # fmt: skip

SHAPES: dict[str, list[Any]] = {
    "jsonl": [EPISODE],
    "tau-bench": [[TAU]],
    "intercode": [{"0": INTERCODE}],
    "openai-chat": [CHAT, [CHAT]],
    "tau2": [TAU2],
    "sentinel": [{"episode_log": [SENTINEL], "total_episodes": 1}],
    "terminal-bench": [{"id": "r", "results": [TRIAL], "accuracy": 1.0}, TRIAL],
    "harbor": [RESULT, TRAJECTORY],
    "openhands": [OPENHANDS],
    "swe-agent": [SWE],
    "inspect": [INSPECT],
    "gymnasium": [GYMNASIUM],
    "mlflow": [MLFLOW, {"traces": [MLFLOW]}],
    "langsmith": [LANGSMITH, [LANGSMITH]],
    "langfuse": [LANGFUSE],
    "otlp": [OTLP],
}
"""The JSON values that logs of formats hold."""


def logs() -> list[tuple[str, bytes]]:
    """Return small logs with the formats that they are in."""
    texts = [("reflexion", REFLEXION.encode()), ("langfuse", OBSERVATIONS.encode())]
    texts.append(("inspect", zipped(INSPECT)))
    return texts + [
        (name, json.dumps(shape).encode()) for name, shapes in SHAPES.items() for shape in shapes
    ]


def zipped(log: dict[str, Any]) -> bytes:
    """Return a log of Inspect as a zip file, the same bytes at each call."""
    samples = {f"samples/{sample['id']}_epoch_1.json": sample for sample in log["samples"]}
    return packed({"header.json": {"eval": log["eval"]}, **samples})


def packed(members: dict[str, Any], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip file; bytes are written as they are."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in members.items():
            text = content if isinstance(content, bytes) else json.dumps(content)
            # With a date of its own: the bytes name tests, which each process must name alike.
            made.writestr(zipfile.ZipInfo(name), text, method)
    return file.getvalue()
