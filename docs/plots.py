"""Draw the pictures of docs/explanation: ``python docs/plots.py [FOLDER]``.

All numbers in them come out of a memory, but for the window that one of them is compared with.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from graphmem import Memory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDER = Path(__file__).resolve().parent / "explanation"
NAME = "td-learning.svg"
LATE_NAME = "late-successes.svg"
STATE = {"page": "cart"}
ALPHAS = {0.03: "#7a9cc6", 0.1: "#3b6ea5", 0.3: "#d1682e"}
UPDATES = 150
RATE = 0.7
"""How often an action earns 1 in the upper part; else it earns 0."""
GOOD, BAD = 24, 14
"""Trials in the lower part: first the action works often, then it no longer does."""
FAILURES, SUCCESSES = 97, 3
"""What came of the trials of the second picture, in this order."""
WINDOW = 4
"""The latest trials that the other way of counting looks at."""
_GREY, _BLUE, _ORANGE = "#333333", "#3b6ea5", "#d1682e"


@dataclass(frozen=True)
class Trial:
    """What was known after a trial, and what crystallizing made of it."""

    mean: float
    lower: float
    upper: float
    crystallized: bool


@dataclass(frozen=True)
class Belief:
    """What was believed of a strategy after a trial, and what the latest trials alone say."""

    confidence: float
    lower: float
    upper: float
    window: float


def main(folder: Path = FOLDER) -> list[Path]:
    """Draw the pictures into a folder; return the files."""
    learning = Figure(figsize=(10, 7), layout="constrained")
    above, below = learning.subplots(2, 1)
    _draw_values(above)
    _draw_bounds(below)
    late = Figure(figsize=(10, 4), layout="constrained")
    _draw_beliefs(late.subplots())
    return [_save(learning, folder / NAME), _save(late, folder / LATE_NAME)]


def _save(figure: Figure, file: Path) -> Path:
    FigureCanvasAgg(figure)
    for axes in figure.axes:
        axes.grid(visible=True, alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    # Nothing of the machine or the day, so that the same numbers give the same file.
    with mpl.rc_context({"svg.hashsalt": "graphmem", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file


def values(alpha: float) -> list[float]:
    """Return the values of an action that earns 1 in 70 % of its steps, update by update."""
    chance = random.Random(5)  # noqa: S311 - no secret
    with Memory.open("memory:") as memory:
        return [0.0] + [
            memory.policies.update(
                STATE, "remind", float(chance.random() < RATE), terminal=True, alpha=alpha
            ).q
            for _ in range(UPDATES)
        ]


def trials() -> tuple[list[Trial], float]:
    """Return what is known of an action trial by trial, and the threshold of crystallizing."""
    found = []
    with Memory.open("memory:") as memory:
        for number in range(GOOD + BAD):
            memory.policies.update(STATE, "offer", success=number < GOOD and number not in (2, 11))
            threshold = memory.policies.crystallize().threshold
            [known] = memory.policies.list(STATE)
            found.append(Trial(known.mean, known.lower, known.upper, known.crystallized))
    return found, threshold


def beliefs() -> list[Belief]:
    """Return what is believed of a strategy that fails 97 times and then works 3 times."""
    outcomes = [False] * FAILURES + [True] * SUCCESSES
    found = []
    with Memory.open("memory:") as memory:
        for number, success in enumerate(outcomes, 1):
            memory.learn("deploy", "push at once", success=success, source_key=str(number))
            [known] = memory.strategies()
            latest = outcomes[max(0, number - WINDOW) : number]
            window = sum(latest) / len(latest)
            found.append(Belief(known.mean, known.lower, known.upper, window))
    return found


def _draw_values(axes: Axes) -> None:
    axes.axhline(RATE, color=_GREY, linestyle="--", linewidth=1, label="mean of the rewards, 0.7")
    for alpha, colour in ALPHAS.items():
        axes.plot(values(alpha), color=colour, linewidth=1.3, label=f"alpha {alpha:g}")
    axes.set_title("The value of an action that earns 1 in 70 % of its steps", loc="left")
    axes.set_xlabel("updates")
    axes.set_ylabel("value (Q)")
    axes.set_ylim(-0.03, 1.03)
    _legend(axes)


def _draw_bounds(axes: Axes) -> None:
    found, threshold = trials()
    places = range(1, len(found) + 1)
    lower, upper = [trial.lower for trial in found], [trial.upper for trial in found]
    axes.fill_between(places, lower, upper, color=_BLUE, alpha=0.15, label="Wilson bounds, 95 %")
    axes.plot(places, [trial.mean for trial in found], color=_BLUE, label="posterior mean")
    axes.axhline(
        threshold, color=_GREY, linestyle="--", linewidth=1, label=f"threshold {threshold:g}"
    )
    held = [
        (place, trial.lower)
        for place, trial in zip(places, found, strict=True)
        if trial.crystallized
    ]
    axes.plot(*zip(*held, strict=True), "o", color="#d1682e", markersize=4, label="crystallized")
    axes.axvline(GOOD + 0.5, color=_GREY, linewidth=0.8, alpha=0.5)
    axes.text(GOOD + 0.8, 0.03, "from here on it fails", fontsize=9)
    axes.set_title("The success rate of another one: its bounds decide", loc="left")
    axes.set_xlabel("trials")
    axes.set_ylabel("success rate")
    axes.set_ylim(-0.03, 1.03)
    _legend(axes)


def _draw_beliefs(axes: Axes) -> None:
    found = beliefs()
    places = range(1, len(found) + 1)
    lower, upper = [belief.lower for belief in found], [belief.upper for belief in found]
    windows = [belief.window for belief in found]
    axes.fill_between(places, lower, upper, color=_BLUE, alpha=0.15, label="Wilson bounds, 95 %")
    axes.plot(
        places,
        [belief.confidence for belief in found],
        color=_BLUE,
        label=f"confidence (all trials), at the end {found[-1].confidence:.2f}",
    )
    axes.plot(
        places,
        windows,
        color=_ORANGE,
        linewidth=1.3,
        label=f"share in a window of the last {WINDOW}, at the end {windows[-1]:.2f}",
    )
    axes.axvline(FAILURES + 0.5, color=_GREY, linewidth=0.8, alpha=0.5)
    axes.text(FAILURES, 0.85, "from here on it works", fontsize=9, horizontalalignment="right")
    axes.set_title(f"{FAILURES} failures, then {SUCCESSES} successes", loc="left")
    axes.set_xlabel("trials")
    axes.set_ylabel("success rate")
    axes.set_ylim(-0.03, 1.03)
    _legend(axes)


def _legend(axes: Axes) -> None:
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


if __name__ == "__main__":
    sys.stdout.writelines(f"{file}\n" for file in main(*map(Path, sys.argv[1:2])))
