"""What a peer's functions for lessons answered, and where this library answers otherwise."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from graphmem import Memory
from graphmem.text.error_classes import error_class
from graphmem.text.task_types import infer_task_type
from tests.contract.test_peers import VECTORS

pytestmark = pytest.mark.skipif(
    not VECTORS.exists(), reason=f"PEERS SKIPPED: their vectors are not at {VECTORS}"
)


@functools.cache
def vectors() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(VECTORS.read_text(encoding="utf-8"))["alma"]
    return found


CORRECTED = {"rapid prototyping": "general"}
"""The peer looks for letters, and finds "api" in "rapid"; here a word must say it."""


def test_types_of_tasks_are_the_peers(memory: Memory) -> None:
    """Asked of the function, and of what a memory stores of a task without a given type."""
    for place, entry in enumerate(vectors()["infer_task_type"]):
        expected = CORRECTED.get(entry["task"], entry["expect"])
        assert infer_task_type(entry["task"]).name == expected, entry
        memory.learn(entry["task"], "try", success=True, source_key=str(place))
        query = (
            "MATCH (t:Task) WHERE t.ns = $ns AND t.key = $task RETURN t.type AS t, t.type_rule AS r"
        )
        [stored] = memory.query(query, task=entry["task"])
        assert stored == {"t": expected, "r": infer_task_type(entry["task"]).rule}


def test_errors_are_the_same_only_where_their_wording_is() -> None:
    """The peer takes an error for another's that it is a part of: "E" is any with an e.

    Here each has a class of its own, and what differs in particulars alone has the same.
    """
    for entry in vectors()["errors_similar"]:
        assert entry["expect"]
        assert error_class(entry["e1"]) != error_class(entry["e2"])
    late, later = "Connection timeout after 30s", "Connection timeout after 7s"
    assert error_class(late) == error_class(later)
