"""``graphmem lessons``: rules for all tasks, and strategies that count as one."""

from __future__ import annotations

import pytest

from graphmem import Memory
from tests.cli.running import complaint, good
from tests.faults.model_server import rules, serving, status

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def taught(url: str) -> str:
    """Looking first works six times on two tasks, leaping once."""
    with Memory.open(url) as memory:
        looked = {"strategy": ["look first"], "task_type": "work", "score": 0.9}
        memory.learn_many(
            {**looked, "task": f"task {n % 2}", "source_key": str(n)} for n in range(6)
        )
        memory.learn("task 0", "leap", success=True)
    return url


def test_consolidate_when_it_is_due(taught: str) -> None:
    consolidate = ("--url", taught, "lessons", "consolidate")
    assert good(*consolidate).out == (
        "not due: 7 of 20 episodes since the last time (--force does it now)\n"
    )
    assert "rules          1\ncreated        1\n" in good(*consolidate, "--force").out
    assert good("--json", *consolidate).json["since"] == 0


def test_consolidate_with_a_model(taught: str) -> None:
    rule = {"verdict": "WORKS", "text": "Look before you leap", "episodes": [1, 2]}
    with serving(rules(rule), status(401)) as server:
        named = {"GRAPHMEM_MODEL_BASE_URL": server.url, "GRAPHMEM_MODEL_NAME": "m"}
        given = {**named, "GRAPHMEM_MODEL_KEY": KEY}
        consolidate = ("--url", taught, "lessons", "consolidate", "--force", "--model")
        assert "model rules    1\n" in good(*consolidate, **given).out
        refused = good("--debug", *consolidate, **given).out
        assert "HTTP status 401" in refused
        assert KEY not in refused + good("--url", taught, "doctor", "settings", **given).out
    wrong = {"GRAPHMEM_MODEL_BASE_URL": f"http://{KEY}@host", "GRAPHMEM_MODEL_NAME": "m"}
    for settings in ({}, wrong):
        told = complaint(*consolidate, code=2, **settings)
        assert "base_url" in told.lower()
        assert KEY not in told


def test_merge_and_undo(taught: str) -> None:
    merge = ("--url", taught, "lessons", "merge", "look first")
    assert good(*merge, "leap").out == (
        "'leap' counts as 'look first' from now on; `graphmem lessons merge STRATEGY --undo` "
        "undoes it\n"
    )
    [row] = good("--url", taught, "--json", "list", "strategies").json
    assert (row["text"], row["trials"]) == ("look first", 7)
    assert good(*merge, "--undo").out == "1 merge undone\n"
    assert good(*merge, "--undo").out == "it was not merged\n"
    assert len(good("--url", taught, "--json", "list", "strategies").json) == 2
    assert good("--json", *merge, "leap").json["id"] == row["id"]
    assert good("--json", *merge, "--undo").json == {"unmerged": 1}
