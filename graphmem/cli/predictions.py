"""The commands of the prediction ledger, and the reliability diagram."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from graphmem.cli import plotting
from graphmem.cli.options import Group, Options, at_most, json_object, moment
from graphmem.cli.printing import cell, print_json, print_table
from graphmem.printable import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from graphmem.models.predictions import Prediction, Reliability, ReliabilityBin

COLUMNS = (
    ("id", "left"),
    ("about", "left"),
    ("expected", "left"),
    ("status", "left"),
    ("error", "right"),
)
BIN_COLUMNS = (
    ("probability", "left"),
    ("mean", "right"),
    ("happened", "right"),
    ("share", "right"),
    ("bounds", "right"),
)
_BLUE, _GREY, _PALE = "#3b6ea5", "#333333", "#9db8d6"


@click.group(cls=Group)
def predictions() -> None:
    """Keep predictions, and see how reliable they were."""


@predictions.command()
@click.argument("subject")
@click.option(
    "--probability", type=float, metavar="P", help="Probability that it comes true, from 0 to 1."
)
@click.option(
    "--outcome", callback=json_object, metavar="JSON", help="The expected outcome, a JSON object."
)
@click.option("--agent", help="The predicting agent [the agent of the policy; default].")
@click.option("--due", callback=moment, help="When it expires: ISO 8601 with time zone.")
@click.option("--key", help="A key of the prediction; the same key is stored once.")
@click.pass_obj
def expect(options: Options, /, subject: str, **expected: Any) -> None:
    """Store a prediction about SUBJECT.

    SUBJECT is the id of a policy, the id or text of a strategy, or any text.

    \b
    Examples:
      graphmem --url ./airline.graph predictions expect cancel_reservation --probability 0.7
      graphmem --url ./airline.graph predictions expect "night build" \\
          --outcome '{"minutes": 12, "green": true}' --due 2026-12-01T06:00:00Z
    """
    made = options.memory(must_exist=False).predictions.expect(subject, **expected)

    def line() -> None:
        done = "stored" if made.created else "known already:"
        about = "something else" if made.kind == "free" else f"a {made.kind}"
        click.echo(f"{done} prediction {made.id} about {about}")

    options.show(made, line)


@predictions.command()
@click.argument("prediction_id", metavar="ID")
@click.option(
    "--actual", callback=json_object, metavar="JSON", help="The actual outcome, a JSON object."
)
@click.option("--happened", type=click.Choice(["yes", "no"]), help="Whether it came true.")
@click.pass_obj
def resolve(
    options: Options,
    prediction_id: str,
    actual: dict[str, Any] | None,
    happened: Literal["yes", "no"] | None,
) -> None:
    """Resolve the prediction ID, and show its error.

    \b
    Examples:
      graphmem --url ./airline.graph predictions resolve \\
          5d0c7be39b1c5a6e8b4d1d0a9a2c7f31 --happened yes
      graphmem --url ./airline.graph predictions resolve \\
          5d0c7be39b1c5a6e8b4d1d0a9a2c7f31 --actual '{"minutes": 15, "green": true}'
    """
    if actual is None and happened is None:
        raise click.UsageError("give --actual JSON, --happened yes or --happened no")
    made = options.memory().predictions.resolve(
        prediction_id, actual=actual, happened=None if happened is None else happened == "yes"
    )
    came = "it happened" if made.happened else "it did not happen"
    options.show(made, lambda: click.echo(f"error {made.error:.3f}, {came}"))


@predictions.command("list")
@click.option("--status", type=click.Choice(["open", "resolved", "expired"]), help="Only these.")
@click.option("--subject", help="Only those about this.")
@at_most(20)
@click.pass_obj
def list_(
    options: Options,
    status: Literal["open", "resolved", "expired"] | None,
    subject: str | None,
    limit: int,
) -> None:
    """Show the latest predictions.

    \b
    Example:
      graphmem --url ./airline.graph predictions list --status open
    """
    rows = options.memory().predictions.list(status, subject, limit)

    options.show_rows(rows, COLUMNS, _cells, "no prediction fits")


def _cells(row: Prediction) -> tuple[Any, ...]:
    expected = [] if row.probability is None else [percent(row.probability)]
    if row.outcome is not None:
        expected.append(cell(row.outcome))
    # Short, so that the id, which people copy, stays on a line.
    return row.id, cell(row.text, 25), cell(", ".join(expected), 25), _status(row), row.error


def _status(row: Prediction) -> str:
    if row.status == "open" and row.due is not None:
        return f"open, due {row.due:%Y-%m-%d}"
    if row.happened is not None:
        return "happened" if row.happened else "did not happen"
    return row.how or row.status


@predictions.command()
@click.pass_obj
def expire(options: Options) -> None:
    """Expire open predictions that are due.

    \b
    Example:
      graphmem --url ./airline.graph predictions expire
    """
    count = options.memory().predictions.expire()
    if options.as_json:
        print_json({"expired": count})
    else:
        click.echo(f"{count:,} prediction{'' if count == 1 else 's'} expired")


@predictions.command()
@click.option(
    "--bins",
    type=click.IntRange(1, 1_000),
    default=10,
    show_default=True,
    help="Number of bins of equal width.",
)
@click.option("--subject", help="Only predictions about this.")
@click.option("--agent", help="Only predictions of this agent.")
@plotting.option("the reliability diagram")
@click.pass_obj
def reliability(
    options: Options, bins: int, subject: str | None, agent: str | None, plot: str | None
) -> None:
    """Show how often predictions came true, by their probability.

    \b
    Example:
      graphmem --url ./airline.graph predictions reliability --bins 5
    """
    if plot is not None:
        plotting.check(plot)
    measured = options.memory().predictions.reliability(bins=bins, subject=subject, agent=agent)
    if plot is not None:
        draw(measured, Path(plot))

    def table() -> None:
        if measured.count:
            print_table(None, BIN_COLUMNS, [_bin_cells(one) for one in measured.bins if one.count])
        for line in summary(measured):
            click.echo(line)
        if plot is not None:
            click.echo(f"drawn in {plot}")

    options.show(measured, table)


def _bin_cells(row: ReliabilityBin) -> tuple[Any, ...]:
    return (
        f"{row.low:.3g} to {row.high:.3g}",
        row.mean,
        f"{row.happened} of {row.count}",
        row.share,
        f"{row.lower:.2f} to {row.upper:.2f}",
    )


def summary(scores: Reliability) -> list[str]:
    """Return the scores in words."""
    if not scores.count:
        return ["no prediction with a probability was resolved yet"]
    return [
        f"{scores.happened:,} of {scores.count:,} happened (base rate {scores.base_rate:.3f})",
        f"Brier score {scores.brier:.3f} (always saying the base rate: {scores.baseline:.3f})",
        f"log loss {scores.log_loss:.3f}, "
        f"expected calibration error {scores.calibration_error:.3f}",
    ]


# The picture


def draw(measured: Reliability, file: Path) -> None:
    """Draw the share that happened by probability, against the diagonal, over the counts.

    Raises:
        OSError: the file cannot be written.
    """
    figure = plotting.blank(6.5, 7.5)
    shares, counts = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    _draw_shares(shares, measured)
    _draw_counts(counts, measured)
    figure.suptitle("\n".join(["Reliability of predictions", *summary(measured)]), fontsize=10)
    plotting.save(figure, file)


def _draw_shares(axes: Axes, measured: Reliability) -> None:
    axes.plot([0, 1], [0, 1], color=_GREY, linestyle="--", linewidth=1.2, label="as predicted")
    if measured.base_rate is not None:
        axes.axhline(measured.base_rate, color=_PALE, linewidth=1.2, label="base rate")
    known = [one for one in measured.bins if one.count]
    means = [one.mean or 0.0 for one in known]
    shares = [one.share or 0.0 for one in known]
    bounds = (
        [max(0.0, share - one.lower) for share, one in zip(shares, known, strict=True)],
        [max(0.0, one.upper - share) for share, one in zip(shares, known, strict=True)],
    )
    words = f"share that happened, bounds at z {measured.z:g}"
    axes.errorbar(means, shares, yerr=bounds, fmt="o", color=_BLUE, capsize=3, label=words)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("share that happened")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", frameon=False, fontsize=9)


def _draw_counts(axes: Axes, measured: Reliability) -> None:
    from matplotlib.ticker import MaxNLocator

    edges = [one.low for one in measured.bins] + [1.0]
    widths = [high - low for low, high in pairwise(edges)]
    heights = [one.count for one in measured.bins]
    axes.bar(edges[:-1], heights, width=widths, align="edge", color=_PALE, edgecolor="white")
    axes.set_ylim(bottom=0, top=max(*heights, 1) * 1.08)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_ylabel("predictions")
    axes.set_xlabel("probability that was predicted")
    axes.spines[["top", "right"]].set_visible(False)
