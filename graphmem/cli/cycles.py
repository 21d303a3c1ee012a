"""The command that finds cycles, and the picture of what it counted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from graphmem.cli import plotting
from graphmem.cli.options import Options
from graphmem.cli.printing import print_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from graphmem.models.cycles import Cycle, CycleReport, CycleTest

COLUMNS = (
    ("cycle", "left"),
    ("peak", "left"),
    ("p", "right"),
    ("amplitude", "right"),
    ("events", "right"),
)
_EVEN, _PEAK, _EXPECTED, _PALE = "#7a9cc6", "#d1682e", "#333333", "#cccccc"


@click.command()
@click.argument("subject")
@click.option(
    "--timezone",
    default="UTC",
    show_default=True,
    metavar="NAME",
    help="The zone of hours and days, such as Europe/Paris.",
)
@click.option(
    "--only",
    type=click.Choice(["success", "failure"]),
    help="Count only successes or only failures; default: all.",
)
@click.option(
    "--alpha",
    type=float,
    default=0.05,
    show_default=True,
    help="A cycle has a corrected p-value below this.",
)
@click.option(
    "--store", "keep", is_flag=True, help="Store the cycles; they then change policy values."
)
@plotting.option("the counts")
@click.pass_obj
def cycles(
    options: Options,
    subject: str,
    timezone: str,
    only: Literal["success", "failure"] | None,
    alpha: float,
    keep: bool,
    plot: str | None,
) -> None:
    """Show when SUBJECT happens more often than by chance.

    It looks at hours, days, weeks and months.

    SUBJECT is the id of a policy, or the id or text of a strategy.

    \b
    Example:
      graphmem --url ./airline.graph cycles cancel_reservation --timezone America/New_York
    """
    if plot is not None:
        plotting.check(plot)
    report = options.memory().cycles.examine(
        subject, timezone=timezone, only=only, alpha=alpha, keep=keep
    )
    if plot is not None:
        draw(report, subject, Path(plot))

    def table() -> None:
        if report.cycles:
            print_table(None, COLUMNS, map(_cells, report.cycles))
        else:
            click.echo("no cycle was found")
        for test in report.tests:
            if not test.tested:
                click.echo(f"not tested: {test.kind} ({test.reason})")
        click.echo(_counted(report))
        if plot is not None:
            click.echo(f"drawn in {plot}")

    options.show(report, table)


def _cells(cycle: Cycle) -> tuple[Any, ...]:
    return (cycle.kind, cycle.when, _p(cycle.p_value), f"{cycle.amplitude:g}", cycle.events)


def _counted(report: CycleReport) -> str:
    what = {None: "events", "success": "successes", "failure": "failures"}[report.only]
    text = f"{report.events:,} {what} with a date, {report.undated:,} without"
    if report.unjudged:
        text += f", {report.unjudged:,} of unknown outcome"
    return f"{text}; times in {report.timezone}"


def _p(value: float) -> str:
    return f"{value:.2g}" if value >= 1e-4 else "< 0.0001"


# The picture


def draw(report: CycleReport, title: str, file: Path) -> None:
    """Draw the counts of each kind by bucket, against what an even spread would give.

    Raises:
        OSError: the file cannot be written.
    """
    figure = plotting.blank(11, 7)
    peaks = {cycle.kind: cycle for cycle in report.cycles}
    for axes, test in zip(figure.subplots(2, 2).flat, report.tests, strict=True):
        _panel(axes, test, peaks.get(test.kind), report.alpha)
    figure.suptitle(
        f"{plotting.plain(title)}\n{plotting.plain(_counted(report), 200)}", fontsize=12
    )
    figure.legend(*_legend(), loc="outside lower center", ncols=3, frameon=False)
    plotting.save(figure, file)


def _panel(axes: Axes, test: CycleTest, cycle: Cycle | None, alpha: float) -> None:
    from matplotlib.ticker import MaxNLocator

    places = range(len(test.buckets))
    usual = _EVEN if test.tested else _PALE
    colours = [_PEAK if cycle and place == cycle.peak else usual for place in places]
    axes.bar(places, test.buckets, color=colours, width=0.85)
    edges = [place - 0.5 for place in range(len(test.buckets) + 1)]
    axes.stairs(test.expected, edges, baseline=None, color=_EXPECTED, linewidth=1.4, linestyle="--")
    axes.set_xticks(*_ticks(test))
    axes.set_xlim(-0.6, len(test.buckets) - 0.4)
    axes.set_ylim(bottom=0, top=max(*test.buckets, *test.expected, 1) * 1.08)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("events")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(_verdict(test, cycle, alpha), fontsize=10, loc="left")


def _verdict(test: CycleTest, cycle: Cycle | None, alpha: float) -> str:
    name = test.kind.capitalize()
    if test.p_corrected is None:
        return f"{name}: not tested\n{test.reason}"
    p = _p(test.p_corrected)
    p = f"p {p}" if p.startswith("<") else f"p = {p}"
    if cycle is None:
        return f"{name}: no cycle\n{p}, not below {alpha:g}"
    return f"{name}: a cycle, peak {cycle.when}\n{p}, below {alpha:g}"


def _ticks(test: CycleTest) -> tuple[list[int], list[str]]:
    from graphmem.models.cycles import BUCKETS

    names = BUCKETS[test.kind]
    match test.kind:
        case "hour of day":
            return list(range(0, 24, 3)), list(names[::3])
        case "week of month":
            return list(range(5)), [name.replace("days ", "") for name in names]
        case _:
            return list(range(len(names))), [name[:3] for name in names]


def _legend() -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Patch(color=_EVEN),
        Patch(color=_PEAK),
        Line2D([], [], color=_EXPECTED, linewidth=1.4, linestyle="--"),
    ]
    return handles, ["counted", "peak of a cycle", "expected of an even spread"]
