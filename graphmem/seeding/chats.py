"""Chats with tool calls as steps, as OpenAI and Anthropic write messages.

Formats whose records hold messages share this: a call is a step, its answer the observation; a
reply without a call is a step, too. Answers belong to calls by their ids, else by their order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphmem.ids import canonical_json
from graphmem.models import MAX_TEXT, Step
from graphmem.models.fields import MAX_KEY

MAX_JSON = 4_000_000
"""Most characters of a text that is read as JSON: empty lists take twenty times as much."""
REPLY = "respond"
"""The type of a step that replies without a tool; it is no tool."""
ENDS = frozenset({"submit", "finish", "mark_task_complete"})
"""Tools that end a run. They tell of its outcome, so they are no strategies."""
_NO_TOOLS = ENDS | {REPLY}
_FRAMES = (
    re.compile(r"<(?:pr|issue)_description>(.+?)</(?:pr|issue)_description>", re.DOTALL),
    re.compile(r"^ISSUE:\n(.+?)\n+INSTRUCTIONS:$", re.DOTALL | re.MULTILINE),
    re.compile(r"^Task Description:\n(.+?)\n+Current terminal state:$", re.DOTALL | re.MULTILINE),
)
_ASKING = ("user", "human")
_ACTING = ("assistant", "ai")


@dataclass(frozen=True, slots=True)
class _Call:
    id: Any
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class _Answer:
    id: Any
    observation: str | None
    failed: bool


def steps(
    messages: Sequence[Mapping[str, Any]], *, is_error: Callable[[str], bool] | None = None
) -> Iterator[Step]:
    """Yield the steps of a chat.

    Args:
        messages: the messages in order, in OpenAI's form with ``tool_calls`` and messages of the
            role ``tool``, or in Anthropic's with blocks ``tool_use`` and ``tool_result``.
        is_error: whether an observation tells of an error; a result that is marked as an error
            always does.
    """
    for at, message in enumerate(messages):
        if message.get("role") not in _ACTING:
            continue
        calls = _calls(message)
        if calls:
            answers = _pair_answers(calls, _answers(messages, at))
            for call, answer in zip(calls, answers, strict=True):
                yield _step(call, answer, is_error)
        elif content := message.get("content"):
            reply = messages[at + 1] if at + 1 < len(messages) else {}
            said = text_of(reply.get("content")) if reply.get("role") in _ASKING else None
            what = content if isinstance(content, str) else text_of(content)
            if what:
                yield Step(action_type=REPLY, action=what, observation=cut_text(said))


def tools(taken: Sequence[Step]) -> list[str]:
    """Return the tools that were called, in order, without those that only end a run."""
    return [step.action_type for step in taken if step.action_type not in _NO_TOOLS]


def question(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return what the user said first, without what demonstrates another task."""
    for message in messages:
        asks = message.get("role") in _ASKING and not message.get("is_demo")
        if asks and (said := text_of(message.get("content"))):
            return said
    return None


def text_of(content: Any) -> str | None:
    """Return the text of a message's content: a text, or the texts of its blocks."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        return canonical_json(content)
    parts = [
        part if isinstance(part, str) else part.get("text")
        for part in content
        if isinstance(part, str | Mapping)
    ]
    said = "\n".join(part for part in parts if isinstance(part, str))
    return said or (canonical_json(content) if content else None)


def cut_text(observation: str | None) -> str | None:
    """Return an observation, cut to the length that a step may hold."""
    return None if observation is None else observation[:MAX_TEXT]


def cut_task(said: str) -> str:
    """Return a text, cut to the length of a task."""
    return said[:MAX_KEY]


def task_of(said: str | None) -> str | None:
    """Return what a prompt asks for, cut to the length of a task.

    Prompts of coding agents frame an issue; only the text in the frame is the task.
    """
    if said is None:
        return None
    framed = next(filter(None, (frame.search(said) for frame in _FRAMES)), None)
    return cut_task((framed[1] if framed else said).strip()) or None


def arguments(given: Any) -> Any:
    """Return the arguments of a call, which may be JSON in a text; a long text stays a text."""
    if not isinstance(given, str) or len(given) > MAX_JSON:
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return given


def _calls(message: Mapping[str, Any]) -> list[_Call]:
    content = message.get("content")
    calls = [_call(call) for call in message.get("tool_calls") or ()]
    if isinstance(content, list):
        calls += [
            _Call(part.get("id"), part["name"], part.get("input"))
            for part in content
            if isinstance(part, Mapping) and part.get("type") == "tool_use"
        ]
    return calls


def _call(call: Mapping[str, Any]) -> _Call:
    function = call.get("function")
    if isinstance(function, Mapping):
        return _Call(call.get("id"), function["name"], arguments(function.get("arguments")))
    name = function if isinstance(function, str) else call["name"]
    given = call.get("arguments", call.get("args"))
    return _Call(call.get("id"), name, arguments(given))


def _answers(messages: Sequence[Mapping[str, Any]], at: int) -> list[_Answer]:
    """Return the answers that follow a message, up to the next words."""
    answers: list[_Answer] = []
    for place in range(at + 1, len(messages)):
        message = messages[place]
        content = message.get("content")
        if message.get("role") == "tool":
            failed = bool(message.get("is_error")) or message.get("status") == "error"
            answers.append(_Answer(message.get("tool_call_id"), text_of(content), failed))
            continue
        results = [
            part
            for part in (content if isinstance(content, list) else ())
            if isinstance(part, Mapping) and part.get("type") == "tool_result"
        ]
        if not results:
            break
        answers += [
            _Answer(
                part.get("tool_use_id"), text_of(part.get("content")), bool(part.get("is_error"))
            )
            for part in results
        ]
    return answers


def _pair_answers(calls: Sequence[_Call], answers: Sequence[_Answer]) -> list[_Answer | None]:
    """Return the answer of each call."""
    asked = [canonical_json(call.id) for call in calls]
    by_id = {canonical_json(answer.id): answer for answer in answers}
    if len(set(asked)) == len(asked) and by_id.keys() & set(asked):
        return [by_id.get(key) for key in asked]
    return [*answers[: len(calls)], *[None] * (len(calls) - len(answers))]


def _step(call: _Call, answer: _Answer | None, is_error: Callable[[str], bool] | None) -> Step:
    seen = cut_text(answer.observation) if answer else None
    failed = answer is not None and answer.failed
    if seen is not None and is_error is not None:
        failed = failed or is_error(seen)
    return Step(
        action_type=call.name,
        action=call.arguments,
        observation=seen,
        error=seen if failed else None,
    )
