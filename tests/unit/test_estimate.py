"""How an estimate says which counts moved it."""

from __future__ import annotations

from typing import Any

import pytest

from graphmem.advice.estimate import Estimate


@pytest.mark.parametrize(
    ("here", "near", "typed", "everywhere", "told"),
    [
        ((26, 30), (37, 60), (0, 0), (63, 90), "26 of 30 here; 37 of 60 on tasks like it"),
        ((0, 0), (0, 0), (4, 5), (9, 20), "4 of 5 on its type; 9 of 20 in all"),
        ((2, 3), (0, 0), (2, 3), (2, 3), "2 of 3 here"),
        ((2, 3), (1, 2), (3, 5), (3, 6), "2 of 3 here; 1 of 2 on tasks like it; 3 of 6 in all"),
        ((0, 0), (0, 0), (0, 0), (0, 0), "never tried"),
    ],
)
def test_the_counts_are_said_from_the_task_itself_outwards(
    here: Any, near: Any, typed: Any, everywhere: Any, told: str
) -> None:
    """Those that add nothing are left out."""
    names = dict.fromkeys(Estimate.__dataclass_fields__, 0) | {
        name: value
        for kind, pair in (("here_", here), ("near_", near), ("type_", typed), ("", everywhere))
        for name, value in zip((f"{kind}successes", f"{kind}trials"), pair, strict=True)
    }
    fields: Any = names
    assert Estimate(**fields).said == told
