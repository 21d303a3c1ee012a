"""How a value and the name of a field are shown: on a terminal, in a notebook, in a line."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from graphmem.printable import short

CELL = 400  # most characters of a cell
_NAMES = {
    "abandoned": "attempts without an outcome",
    "anti_patterns": "anti-patterns",
    "below_count": "below the threshold",
    "co_occurrences": "pairs used together",
    "compacted": "files written anew",
    "course": "over time",
    "first_at": "first episode",
    "here_worked": "worked here",
    "last_at": "latest episode",
    "mean": "expected rate",
    "near_worked": "on tasks like it",
    "needed": "least that passes",
    "outcomes": "results on tasks",
    "propensity": "taken",
    "q": "value",
    "read_by": "an older snapshot is held by",
    "type_worked": "on its type",
}
"""Fields that do not say well what they hold."""


def name_field(name: str) -> str:
    """Return the name of a field or a class in words."""
    return _NAMES.get(name) or re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name)


def cell(value: Any, limit: int = CELL) -> str:
    """Return ``value`` as a cell: short, without control characters."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        value = ", ".join(value)
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, default=_plain)
    return short(value, limit)


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(value, "model_dump") else str(value)
