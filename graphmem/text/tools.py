"""Sequences of tools, which are the strategies of a run that names none."""

from __future__ import annotations

from collections.abc import Iterable

THEN = " > "
"""Between the tools of a sequence."""


def sequences(texts: Iterable[str]) -> dict[str, list[str]]:
    """Return the strategies that are sequences of tools, and these tools, with the tools of each.

    A tool is its own one. Tools are known by the sequences that name them.
    """
    found = {text: text.split(THEN) for text in texts if THEN in text}
    return found | {tool: [tool] for tools in list(found.values()) for tool in tools}
