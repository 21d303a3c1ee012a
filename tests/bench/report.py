"""One measured figure, and the table of them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec

P = ParamSpec("P")


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


def apart(work: Callable[P, Iterable[Result]], *args: P.args, **named: P.kwargs) -> list[Result]:
    """Work in a process of its own, so that what it takes is in no other's peak."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_listed, work, args, named).result()


def _listed(
    work: Callable[..., Iterable[Result]], args: tuple[object, ...], named: dict[str, object]
) -> list[Result]:
    return list(work(*args, **named))
