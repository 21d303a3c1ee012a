"""Pictures: the option for them, the reliability diagram, and how they are saved.

matplotlib is imported only for drawing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphmem.errors import SettingsError
from graphmem.files import writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg")


def option(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option --plot of a command that draws ``what``."""
    return click.option(
        "--plot",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        callback=_check,
        help=f"Draw {what} into FILE, a .png or .svg.",
    )


def _check(_: click.Context, __: click.Parameter, file: str | None) -> str | None:
    """Check the file name and matplotlib before any work is done."""
    if file is None:
        return None
    if Path(file).suffix.lower() not in ENDINGS:
        raise click.UsageError(f"--plot {file}: give a name that ends in {' or '.join(ENDINGS)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise SettingsError("--plot needs matplotlib; pip install matplotlib") from None
    return file


def blank(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=110, layout="constrained")


def save(figure: Figure, file: str | Path) -> None:
    """Write a figure in the format that the ending of the file names."""
    with writing(file) as picture, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a font that lacks a letter
        figure.savefig(picture, format=Path(file).suffix[1:].lower())


def draw_reliability(bins: Sequence[Any], z: float, lines: Sequence[str], file: str) -> None:
    """Draw the share that happened by probability, with its bounds, against the diagonal."""
    figure = blank(6.5, 6.0)
    axes = figure.add_subplot()
    filled = [one for one in bins if one.count]
    axes.plot([0, 1], [0, 1], color="#333333", linestyle="--", label="as predicted")
    axes.errorbar(
        [one.mean for one in filled],
        [one.share for one in filled],
        yerr=[
            [max(0.0, one.share - one.lower) for one in filled],
            [max(0.0, one.upper - one.share) for one in filled],
        ],
        fmt="o",
        color="#3b6ea5",
        capsize=3,
        label=f"share that happened, bounds at z {z:g}",
    )
    for one in filled:
        axes.annotate(f"{one.count:,}", (one.mean, one.share), (4, 4), textcoords="offset points")
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("probability that was predicted")
    axes.set_ylabel("share that happened, with the number of predictions")
    axes.legend(loc="upper left", frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("\n".join(["Reliability of predictions", *lines]), fontsize=10)
    save(figure, file)
