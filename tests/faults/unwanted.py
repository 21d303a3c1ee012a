"""Arguments that are not what was asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np


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
