"""JSON that is read value by value: what a parser would read, within limits, and no more."""

from __future__ import annotations

import io
import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from graphmem.errors import SeedingError, ValidationError
from graphmem.seeding import reading
from graphmem.seeding.reading import DamagedError, Limits, Values, read_lines

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


def read(text: bytes, limits: Limits = SMALL) -> list[Any]:
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
    found = read(text.encode())
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
        found = read(text, Limits())
    except DamagedError:
        return
    if not any(isinstance(item, ValidationError) for item in found):
        assert json.dumps(found) == json.dumps(json.loads(text))


@pytest.mark.parametrize(
    "text", [b"[NaN]", b'[{"a": -Infinity}]', b'["\xff"]', b"[1" + b"0" * 5000 + b"]"]
)
def test_what_is_no_json_in_one_item_leaves_the_others(text: bytes) -> None:
    found = read(text[:-1] + b", 5]", Limits())
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
