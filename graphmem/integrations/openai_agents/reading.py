"""What the messages of the SDK say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents import RunState


def last_request(given: Any) -> str:
    """Return the words of the last message of the user in the input of a run or a model."""
    if isinstance(given, RunState):
        given = given._original_input
    if isinstance(given, str):
        return given
    for item in reversed(given or []):
        if isinstance(item, Mapping) and item.get("role") == "user":
            return text_of(item.get("content"))
    return ""


def text_of(content: Any) -> str:
    """Return the words of a message."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else []
    said = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "\n".join(part for part in said if isinstance(part, str))
