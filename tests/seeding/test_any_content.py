"""Whatever is in a log, a format yields records and refusals, or says that it cannot read on."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from graphmem import Memory
from graphmem.errors import SeedingError
from graphmem.models.episodes import Episode
from graphmem.seeding import Origin, Record, Refused, detect, formats, seed, sources
from graphmem.seeding.settling import Settling
from tests.faults.attack import rounds
from tests.seeding.samples import SHAPES, logs

PYTHON = re.compile(
    r"\w+Error\b|NoneType|has no attribute|\w object\b.*\bnot|not subscriptable|not iterable"
    r"|unhashable|indices must|could not convert|instance of|<class|datetime\.|got b'|_List|_Object"
    r"|codec can't|\[Errno"
)
"""What Python says, and no log does."""


def read(name: str, content: bytes) -> list[Record]:
    stream = io.BufferedReader(io.BytesIO(content))
    origin = Origin("some.log", "some", path=Path("/no/such/folder/some.log"))
    try:
        return list(formats()[name].read(stream, origin))
    except SeedingError:
        return []


def settle(found: list[Record]) -> None:
    """Everything is an episode or a refusal with a reason, whatever counts as strategy."""
    for by in (None, "tools", "model", "a.b"):
        for item in Settling(None, by, None, None, 0.5).settle(iter(found)):
            if isinstance(item, Refused):
                assert item.reason
                assert len(item.reason) < 2_000
                assert not PYTHON.search(item.reason)
            else:
                assert isinstance(item[1], Episode)


@pytest.mark.parametrize(("name", "log"), logs(), ids=lambda part: str(part)[:40])
def test_each_log_is_known_by_one_format(name: str, log: bytes) -> None:
    assert detect(log, "some.log").name == name
    [item] = read(name, log)
    assert not isinstance(item, Refused)
    settle([item])


@given(content=st.binary(max_size=200) | st.text('{"[]:,}\n task_id', max_size=80).map(str.encode))
@settings(max_examples=rounds(60, 2_000))
def test_any_bytes(content: bytes) -> None:
    for name, format_ in formats().items():
        format_.detect(content)
        settle(read(name, content))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every list and object in a value, with the place of each of its parts."""
    if isinstance(value, dict | list):
        for place in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, place
            yield from places(value[place])


@pytest.mark.parametrize("name", SHAPES)
def test_whatever_stands_at_a_place_it_is_told_in_the_words_of_the_format(name: str) -> None:
    """Each part of each sample is left out, and is something else, one after the other."""
    others: list[Any] = [5, None, [], {}, "x", [5], {"a": 5}, True]
    for shape in SHAPES[name]:
        value = copy.deepcopy(shape)
        for holder, place in places(value):
            whole = copy.copy(holder)
            for other in others:
                holder[place] = other
                settle(read(name, json.dumps(value).encode()))
            del holder[place]
            settle(read(name, json.dumps(value).encode()))
            if isinstance(holder, dict):
                holder.update(whole)
            else:
                holder[:] = whole


WRONG: list[tuple[str, str, Any, str]] = [
    ("tau-bench", "traj", None, "traj: is missing in this tau-bench run"),
    ("tau-bench", "reward", "high", "reward: is no number, as reward has to be (got 'high')"),
    ("tau-bench", "info.task.instruction", 5,
     "info.task.instruction: input should be a valid string (got 5); give a text"),
    ("intercode", "turn_history", "x",
     "turn_history: cannot be so in this InterCode run (got 'x')"),
    ("terminal-bench", "task_id", None, "task_id: is missing in this terminal-bench trial"),
    ("openhands", "instance_id", None, "instance_id: is missing in this OpenHands run"),
    ("openhands", "history", 5, "history: cannot be so in this OpenHands run (got 5)"),
    ("swe-agent", "trajectory", None, "trajectory: is missing in this SWE-agent trajectory"),
    ("gymnasium", "reward", None, "lines.0.reward: is missing in this run"),
    ("mlflow", "data.spans", 5, "data.spans: cannot be so in this trace of MLflow (got 5)"),
    ("langsmith", "feedback", [5], "feedback.0: cannot be so in this trace of LangSmith (got 5)"),
    ("langfuse", "observations", [{}], "id: is missing in this trace of Langfuse"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "place", "other", "reason"), WRONG)
def test_a_refusal_names_what_is_wrong_as_the_log_does(
    name: str, place: str, other: Any, reason: str
) -> None:
    first, *into = place.split(".")
    shapes = copy.deepcopy(SHAPES[name])
    records = [one[0] if isinstance(one, list) else one.get("0", one) for one in shapes]
    value, holder = next(pair for pair in zip(shapes, records, strict=True) if first in pair[1])
    *into, last = (first, *into)
    for part in into:
        holder = holder[part]
    if other is None:
        del holder[last]
    else:
        holder[last] = other
    told = Settling(None, None, None, None, 0.5).settle(
        iter(read(name, json.dumps(value).encode()))
    )
    [item] = told
    assert isinstance(item, Refused)
    assert item.reason == reason
    assert item.reason.startswith(f"{item.field}: ")


def test_what_is_learned_beside_damage_is_whole(unstored: Memory, tmp_path: Path) -> None:
    """Each log is cut and changed in many ways; what is learned of all of them is as if told."""
    for number, (_, log) in enumerate(logs()):
        for at in range(0, len(log), max(1, len(log) // rounds(6, 300))):
            path = tmp_path / f"{number}-{at}.log"
            path.write_bytes(log[:at] + (b"" if at % 2 else b"\xff\x00" + log[at + 1 :]))
            with contextlib.suppress(SeedingError):  # no known format
                seed(unstored, sources([str(path)]))
    assert unstored.stats().episodes
    assert not unstored.verify().differences
