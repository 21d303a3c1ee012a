"""Every public method and model, given what it does not want: one of our errors, and no harm."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from graphmem import Memory, Settings
from graphmem.errors import GraphMemError
from graphmem.models.fields import Input
from tests.conftest import Opener
from tests.contract.calling import calls, methods, models, parameters, populate
from tests.faults.attack import rounds


class Rude:
    """An object that cannot be shown, compared or measured."""

    def _refuse(self, *_: object) -> Any:
        raise RuntimeError("no")

    __str__ = __repr__ = __eq__ = __len__ = __iter__ = __bool__ = __int__ = __float__ = _refuse
    __index__ = __lt__ = __contains__ = __getitem__ = __fspath__ = __call__ = _refuse
    __hash__ = None  # type: ignore[assignment]


class Holder:
    """Has an id, as what a memory returns; but it is none."""

    def __init__(self, identity: object) -> None:
        self.id = identity


def nested() -> list[Any]:
    found: list[Any] = []
    for _ in range(100_000):
        found = [found]
    return found


def circular() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def circular_dict() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["again"] = found
    return found


HOSTILE: dict[str, Callable[[], Any]] = {
    "none": lambda: None, "true": lambda: True, "zero": lambda: 0, "minus": lambda: -1,
    "over 64 bits": lambda: 2**63, "huge": lambda: 10**400, "unprintable": lambda: 10**5_000,
    "nan": lambda: math.nan, "inf": lambda: math.inf, "minus inf": lambda: -math.inf,
    "denormal": lambda: 5e-324, "greatest": lambda: 1.7976931348623157e308, "complex": lambda: 1j,
    "decimal": lambda: Decimal("NaN"), "fraction": lambda: Fraction(1, 3), "empty": lambda: "",
    "blank": lambda: " \n\t\u00a0", "surrogate": lambda: "half of \ud83d", "nul": lambda: "a\0b",
    "controls": lambda: "\x1b[2J\u202e\u009b\x7f", "long": lambda: "x" * 1_000_000,
    "quotes": lambda: "'\"`\\$n {} //", "bytes": lambda: b"bytes", "rude": Rude,
    "type": lambda: int, "function": lambda: len, "holder of none": lambda: Holder(None),
    "holder of a surrogate": lambda: Holder("\ud83d"), "naive": lambda: datetime(2026, 5, 1),
    "latest": lambda: datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
    "earliest": lambda: datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    "year 1": lambda: datetime(1, 1, 1, tzinfo=UTC), "date": lambda: date(2026, 5, 1),
    "timedelta": lambda: timedelta.max, "folder": Path, "root": lambda: "/",
    "nowhere": lambda: Path("/nowhere/at/all"), "empty list": list, "list of none": lambda: [None],
    "list of lists": lambda: [[]], "list of rude": lambda: [Rude()], "circular list": circular,
    "circular dict": circular_dict, "deep": nested, "empty dict": dict,
    "dict of numbers": lambda: {1: 2}, "dict of surrogates": lambda: {"\ud83d": "\ud83d"},
    "dict of rude": lambda: {"x": Rude()}, "dict of nan": lambda: {"x": math.nan},
    "set": lambda: {1}, "tuple": lambda: (1, "x", None), "iterator": lambda: iter([1, 2]),
    "numpy int": lambda: np.int64(3), "numpy float": lambda: np.float64("nan"),
    "numpy text": lambda: np.str_("x"), "numpy bool": lambda: np.bool_(True),
    "array": lambda: np.zeros(3),
}  # fmt: skip


OWN = {"rude", "type", "function"}
"""Can be called, or iterated: what a function of the caller raises is its own error."""
STRIDE = rounds(8, 1)
"""Each parameter is given one in so many hostile values, in turn."""
CALLED = {
    "count",
    "episodes",
    "explore",
    "extract",
    "judge",
    "on_progress",
    "on_reject",
    "transformer",
}


def refused(call: Callable[[], Any]) -> str | None:
    """Call, and return what went wrong, if that was not an error of ours."""
    try:
        call()
    except GraphMemError as error:
        return None if str(error) else "says nothing"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return f"{type(error).__name__}: {ascii(error)[:200]}"
    return None


def attack(memory: Memory, folder: Path, stride: int) -> list[str]:
    """Give each parameter of each method one in ``stride`` of all hostile values, in turn."""
    public, found = methods(memory), []
    place = 0
    for name, arguments in calls(memory, folder).items():
        if name == "close":
            continue
        for parameter in parameters(public[name]):
            if parameter.kind is parameter.VAR_KEYWORD:
                continue
            place += 1
            if (name, parameter.name) == ("events.crystallize", "follow"):
                continue  # True waits for ever
            for number, (word, make) in enumerate(HOSTILE.items()):
                if (place + number) % stride or (parameter.name in CALLED and word in OWN):
                    continue
                given = arguments() | {parameter.name: make()}
                first = [given.pop(only) for only in ("cypher", "params") if only in given]
                wrong = refused(functools.partial(public[name], *first, **given))
                if wrong:
                    found.append(f"{name}({parameter.name}={word}): {wrong}")
    return found


@pytest.mark.slow
def test_whatever_a_method_is_given_it_raises_an_error_of_ours(
    engine: str, opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    memory = opened(embedder="hashing")
    populate(memory, "hostile")
    memory.upkeep.export(tmp_path / "exported.jsonl", "jsonl")
    stride = STRIDE if engine == "embedded" else 4 * STRIDE
    assert attack(memory, tmp_path, stride) == []
    assert memory.verify().ok


MODELS: dict[str, type[BaseModel]] = {
    name: kind for name, kind in models().items() if issubclass(kind, Input)
}


@pytest.mark.parametrize("kind", [Settings, *MODELS.values()], ids=lambda kind: kind.__name__)
def test_whatever_a_model_is_given_it_raises_an_error_of_ours(kind: type[BaseModel]) -> None:
    found = []
    for place, name in enumerate(kind.model_fields):
        for word, make in list(HOSTILE.items())[place % STRIDE :: STRIDE]:
            wrong = refused(functools.partial(kind, **{name: make()}))
            if wrong:
                found.append(f"{kind.__name__}({name}={word}): {wrong}")
    assert found == []


@pytest.mark.parametrize("word", HOSTILE)
def test_whatever_a_memory_is_opened_with(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    make = HOSTILE[word]

    def opened(url: Any, **given: Any) -> None:
        Memory.open(url, **given).close()

    for wrong in (
        refused(lambda: opened(make())),
        refused(lambda: opened("memory:", namespace=make())),
        refused(lambda: opened("memory:", settings=make())),
        refused(lambda: opened("memory:", embedder=make())),
    ):
        assert wrong is None
    assert {name.name for name in os.scandir(tmp_path)} <= {"graphmem"}
