"""Chats with tool calls as steps, in the forms that providers write."""

from __future__ import annotations

from typing import Any

import pytest

from graphmem.seeding import chats

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
