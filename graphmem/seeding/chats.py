"""Chats with tool calls as steps, as OpenAI and Anthropic write messages.

Formats whose records hold messages share this: a call is a step, its answer the observation; a
reply without a call is a step, too. Answers belong to calls by their ids, else by their order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from graphmem.ids import canonical_json
from graphmem.models.episodes import Step
from graphmem.models.fields import MAX_KEY, MAX_TEXT
from graphmem.text import words

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


def steps(
    messages: Sequence[Mapping[str, Any]], *, is_error: Callable[[str], bool] | None = None
) -> Iterator[Step]:
    """Yield the steps of a chat."""
    for at, message in enumerate(messages):
        if message.get("role") not in _ACTING:
            continue
        after = messages[at + 1 :]
        if calls := list(_calls(message)):
            answers = _pair_answers([key for key, _, _ in calls], list(_answers(after)))
            for (_, name, value), (output, failed) in zip(calls, answers, strict=True):
                wrong = failed or (output is not None and is_error is not None and is_error(output))
                error = output if wrong else None
                yield Step(action_type=name, action=value, observation=output, error=error)
        elif what := text_of(message.get("content") or None):
            reply = after[0] if after else {}
            answer = text_of(reply.get("content")) if reply.get("role") in _ASKING else None
            yield Step(action_type=REPLY, action=what, observation=cut_text(answer))


def _calls(message: Mapping[str, Any]) -> Iterator[tuple[Any, str, Any]]:
    """Yield id, name and arguments of the calls in a message."""
    calls = message.get("tool_calls") or ()
    if function := message.get("function_call"):  # as OpenAI wrote the only call
        calls = [{"function": function}]
    for call in calls:
        function = call.get("function") or call.get("custom")
        if isinstance(function, Mapping):
            name, value = function["name"], function.get("arguments", function.get("input"))
        else:
            name = function if isinstance(function, str) else call["name"]
            value = call.get("arguments", call.get("args"))
        yield call.get("id"), name, arguments(value)
    for part in _blocks(message, "tool_use"):
        yield part.get("id"), part["name"], part.get("input")


def _blocks(message: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    return [part for part in parts if isinstance(part, Mapping) and part.get("type") == kind]


def _answers(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, str | None, bool]]:
    """Yield id and text of the answers up to the next words, and whether they are errors."""
    for message in messages:
        if message.get("role") in ("tool", "function"):
            content, error = message.get("content"), message.get("error")
            if not content and isinstance(error, Mapping):
                content = error.get("message")
            failed = bool(error or message.get("is_error")) or message.get("status") == "error"
            yield message.get("tool_call_id"), text_of(content), failed
            continue
        results = _blocks(message, "tool_result")
        if not results:
            return
        for part in results:
            failed = bool(part.get("is_error"))
            yield part.get("tool_use_id"), text_of(part.get("content")), failed


def _pair_answers(
    calls: Sequence[Any], answers: Sequence[tuple[Any, str | None, bool]]
) -> list[tuple[str | None, bool]]:
    """Return the answer of each call: by its id, else by the order."""
    keys = [canonical_json(key) for key in calls]
    outputs = [(cut_text(output), failed) for _, output, failed in answers]
    by_id = {canonical_json(key): one for (key, _, _), one in zip(answers, outputs, strict=True)}
    if len(set(keys)) == len(keys) and by_id.keys() & set(keys):
        return [by_id.get(key, (None, False)) for key in keys]
    return [*outputs[: len(keys)], *[(None, False)] * (len(keys) - len(outputs))]


def tools(sequence: Sequence[Step]) -> list[str]:
    """Return the tools that were called, in order, without those that only end a run."""
    return [step.action_type for step in sequence if step.action_type not in _NO_TOOLS]


def in_order(names: Iterable[str]) -> str:
    """Return names in order as one text, each once where it follows itself."""
    return " > ".join(name for name, _ in groupby(names))


def question(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return what the user said first, without what demonstrates another task."""
    for message in messages:
        asks = message.get("role") in _ASKING and not message.get("is_demo")
        if asks and (said := text_of(message.get("content"))):
            return said
    return None


def text_of(content: Any) -> str | None:
    """Return the text of a message's content: a text, the texts of its blocks, or else JSON."""
    if content is None or isinstance(content, str):
        return content
    return words.text_of(content) or (None if content == [] else canonical_json(content))


def cut_text(observation: str | None) -> str | None:
    """Return an observation, cut to the length that a step may hold."""
    return None if observation is None else observation[:MAX_TEXT]


def cut_task(text: str) -> str:
    """Return a text; of one that is too long for a task, its beginning and its end."""
    return words.ends(text, MAX_KEY)


def task_of(prompt: str | None) -> str | None:
    """Return what a prompt asks for (the issue in its frame, if any), cut to a task's length."""
    if prompt is None:
        return None
    framed = next(filter(None, (frame.search(prompt) for frame in _FRAMES)), None)
    return cut_task((framed[1] if framed else prompt).strip()) or None


def arguments(value: Any) -> Any:
    """Return the arguments of a call, which may be JSON in a text; a long text stays a text."""
    if not isinstance(value, str) or len(value) > MAX_JSON:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
