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
_BLUE, _GREY, _PALE = "#3b6ea5", "#333333", "#9db8d6"


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
    """Return an empty figure of a size in inches, without a window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, file: str | Path) -> None:
    """Write a figure in the format that the ending of the file names.

    Raises:
        StorageError: the file cannot be written.
    """
    with writing(file) as picture, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a font that lacks a letter
        figure.savefig(picture, format=Path(file).suffix[1:].lower())


def draw_reliability(bins: Sequence[Any], z: float, lines: Sequence[str], file: str) -> None:
    """Draw the share that happened by probability, against the diagonal, over the counts.

    Args:
        bins: with ``low``, ``high``, ``count``, ``mean``, ``share``, ``lower`` and ``upper``.
        z: the quantile of the bounds.
        lines: the scores in words.
        file: the picture.

    Raises:
        StorageError: the file cannot be written.
    """
    from matplotlib.ticker import MaxNLocator

    figure = blank(6.5, 7.5)
    shares, counts = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    filled = [one for one in bins if one.count]
    shares.plot([0, 1], [0, 1], color=_GREY, linestyle="--", linewidth=1.2, label="as predicted")
    shares.errorbar(
        [one.mean for one in filled],
        [one.share for one in filled],
        yerr=[
            [max(0.0, one.share - one.lower) for one in filled],
            [max(0.0, one.upper - one.share) for one in filled],
        ],
        fmt="o",
        color=_BLUE,
        capsize=3,
        label=f"share that happened, bounds at z {z:g}",
    )
    shares.set_xlim(-0.02, 1.02)
    shares.set_ylim(-0.02, 1.02)
    shares.set_ylabel("share that happened")
    shares.legend(loc="upper left", frameon=False, fontsize=9)
    counts.bar(
        [one.low for one in bins],
        [one.count for one in bins],
        width=[one.high - one.low for one in bins],
        align="edge",
        color=_PALE,
        edgecolor="white",
    )
    counts.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    counts.set_ylabel("predictions")
    counts.set_xlabel("probability that was predicted")
    for axes in (shares, counts):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("\n".join(["Reliability of predictions", *lines]), fontsize=10)
    save(figure, file)
