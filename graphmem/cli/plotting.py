"""Shared code of pictures: checks the file name, draws without a display, saves.

matplotlib is imported only for drawing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

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
        help=f"Draw {what} into FILE, a .png or .svg.",
    )


def check(file: str) -> None:
    """Check the file name and matplotlib before any work is done.

    Raises:
        UsageError: the name of the file has another ending.
        SettingsError: matplotlib is not installed.
    """
    if Path(file).suffix.lower() not in ENDINGS:
        raise click.UsageError(f"--plot {file}: give a name that ends in {' or '.join(ENDINGS)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise SettingsError("--plot needs matplotlib; pip install matplotlib") from None


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


def plain(text: str, limit: int = 80) -> str:
    """Return text that is drawn literally, on one line of at most ``limit`` characters.

    A dollar sign would begin mathematics.
    """
    shown = "".join(char if char.isprintable() else " " for char in text)
    shown = shown if len(shown) <= limit else f"{shown[: limit - 1]}…"
    return shown.replace("$", r"\$")
