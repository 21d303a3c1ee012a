"""Whatever is in a log, a format yields records and refusals, or says that it cannot read on.

JSON is read value by value: what a parser would read, within limits, and no more.
"""

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
from hypothesis import example, given, settings

from graphmem import Memory
from graphmem.errors import SeedingError, ValidationError
from graphmem.models.episodes import Episode
from graphmem.seeding import Refused, formats, reading, seed, sources
from graphmem.seeding.formats import Origin, Record, detect
from graphmem.seeding.reading import DamagedError, Limits, Values, read_lines
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
    origin = Origin("some", path=Path("/no/such/folder/some.log"))
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


SMALL = Limits(depth=6, text=60, record=400, file=10**9, ratio=200)
texts = st.text(max_size=30) | st.text('\\"[]{},: \n', max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=30,
)  # fmt: skip
spaces = st.sampled_from([None, 1, "\t"])


def height(value: Any) -> int:
    inner = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    )
    return 0 if inner is None else 1 + max(map(height, inner), default=0)


def broken(value: Any, text: str) -> bool:
    """Whether a value breaks one of the small limits, as seen from its parsed form."""

    def pieces(value: Any) -> list[Any]:
        if isinstance(value, dict):
            return [value, *value, *(part for item in value.values() for part in pieces(item))]
        if isinstance(value, list):
            return [value, *(part for item in value for part in pieces(item))]
        return [value]

    long = any(
        isinstance(part, str) and len(json.dumps(part, ensure_ascii=False).encode()) > SMALL.text
        for part in pieces(value)
    )
    nested = sum(isinstance(part, dict | list) for part in pieces(value))
    commas = sum(max(len(part) - 1, 0) for part in pieces(value) if isinstance(part, dict | list))
    many = nested + commas >= SMALL.record // 16
    return long or many or height(value) > SMALL.depth or len(text.encode()) > SMALL.record


@pytest.fixture(params=[1, 7, 65_536])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(reading, "CHUNK", request.param)
    return int(request.param)


def parsed(text: bytes, limits: Limits = SMALL) -> list[Any]:
    """The items of a list, or the errors in their places."""
    values, found = Values(io.BytesIO(text), limits), []
    for _ in values.items():
        try:
            found.append(values.value())
        except ValidationError as error:
            found.append(error)
    values.end()
    return found


@given(items=st.lists(json_values, max_size=5), indent=spaces)
@example(items=[[[[[[[1]]]]]], "after"], indent=None)
@example(items=["x" * 500, {"x" * 70: 1}, ["y" * 70], 5], indent=None)
@example(items=[[[]] * 50, [{}] * 5, list(range(100)), None], indent=1)
def test_what_is_within_limits_is_read_and_what_is_not_is_passed_over(
    chunk: int, items: list[Any], indent: Any
) -> None:
    text = json.dumps(items, ensure_ascii=False, indent=indent)
    found = parsed(text.encode())
    assert len(found) == len(items)
    for item, got in zip(items, found, strict=True):
        alone = json.dumps(item, ensure_ascii=False, indent=indent)
        if isinstance(got, ValidationError):
            assert broken(item, alone.replace("\n", "\n" + " " * 8))
        else:
            assert json.dumps(got) == json.dumps(item)
            assert not broken(item, alone)


@given(value=st.dictionaries(texts, json_values, max_size=4), indent=spaces)
def test_objects_are_read_member_by_member(chunk: int, value: Any, indent: Any) -> None:
    text = json.dumps(value, indent=indent).encode()
    values = Values(io.BytesIO(b"\xef\xbb\xbf" + text), Limits())
    assert {name: values.value() for name in values.members()} == value
    values.end()
    over = Values(io.BytesIO(text), SMALL)

    def go_through() -> None:
        for _ in over.members():
            over.skip()

    if any(len(json.dumps(name)) > SMALL.text for name in value):
        with pytest.raises(SeedingError, match="the name of a member holds a text of over 60"):
            go_through()
    else:
        go_through()
        over.end()


@given(
    items=st.lists(json_values, max_size=4),
    at=st.integers(0, 400),
    junk=st.binary(max_size=6),
    keep=st.booleans(),
)
def test_damage_is_found_and_is_never_another_error(
    chunk: int, items: list[Any], at: int, junk: bytes, keep: bool
) -> None:
    text = json.dumps(items).encode()
    at = min(at, len(text))
    text = text[:at] + junk + (text[at:] if keep else b"")
    try:
        found = parsed(text, Limits())
    except DamagedError:
        return
    if not any(isinstance(item, ValidationError) for item in found):
        assert json.dumps(found) == json.dumps(json.loads(text))


@pytest.mark.parametrize(
    "text", [b"[NaN]", b'[{"a": -Infinity}]', b'["\xff"]', b"[1" + b"0" * 5000 + b"]"]
)
def test_what_is_no_json_in_one_item_leaves_the_others(text: bytes) -> None:
    found = parsed(text[:-1] + b", 5]", Limits())
    assert isinstance(found[0], ValidationError)
    assert found[1] == 5


@given(value=json_values)
@example(value=[[[[[[[1]]]]]]])
@example(value={"a": [{"b": [{"c": {"d": {}}}]}]})
def test_lines_are_held_to_the_same_limits(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    [(number, line)] = read_lines(io.BytesIO(b"\n" + text.encode() + b"\n"), SMALL)
    assert number == 2
    assert isinstance(line, ValidationError) == broken(value, text + "\n")


def test_a_long_line_is_passed_over() -> None:
    text = b"[1]\n" + b"x" * 1_000_000 + b"\n[2]\n" + b"y" * 1_000
    found = list(read_lines(io.BytesIO(text), SMALL))
    assert [number for number, _ in found] == [1, 2, 3, 4]
    assert [isinstance(line, bytes) for _, line in found] == [True, False, True, False]
