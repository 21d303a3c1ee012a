"""Whose doing it was: a strategy can fail in a run that another one saves.

A step is a strategy's own if its type is the text of the strategy, else if its action names it: as
a text, or as the ``name`` or ``tool`` of an object. A strategy whose own steps all ended in an
error did not work there, also when the run succeeded. Where steps tell nothing of a strategy, it
has the outcome of the run.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from typing import Any

from graphmem.text.error_classes import error_class


def failures_of(held: Mapping[str, Any]) -> list[str | None]:
    """Return for each use of a strategy the class of error in which it failed, from the content.

    None: it has the outcome of the run. In a failed run, all have.
    """
    texts = [use["text"] for use in held["strategy"] if use["applied"]]
    errors: dict[str, list[str | None]] = {}
    if held["success"] and any(step.get("error") for step in held.get("steps", ())):
        for step in held["steps"]:
            errors.setdefault(_owner(step, texts), []).append(step.get("error"))
    return [
        error_class(own[-1]) or None
        if use["applied"] and (own := errors.get(use["text"])) and all(own) and own[-1]
        else None
        for use in held["strategy"]
    ]


def _owner(step: Mapping[str, Any], texts: Collection[str]) -> str:
    """Return the strategy of a step; "" if it is none of these."""
    action = step.get("action")
    named = [action] if not isinstance(action, dict) else [action.get("name"), action.get("tool")]
    for text in (step.get("action_type"), *named):
        if isinstance(text, str) and (text := unicodedata.normalize("NFC", text).strip()) in texts:
            return text
    return ""
