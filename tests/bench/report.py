"""One measured figure, and the table of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """What was measured, against which baseline, and what was asked for."""

    what: str
    figure: str
    baseline: str
    ratio: str
    asked: str


def table(results: Sequence[Result]) -> str:
    """Return the results as a Markdown table."""
    lines = [
        "| what | figure | baseline in the same run | ratio | asked |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {r.what} | {r.figure} | {r.baseline} | {r.ratio} | {r.asked} |" for r in results]
    return "\n".join(lines)
