"""The command evaluate, and its picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphmem.cli import plotting
from graphmem.cli.options import Options
from graphmem.cli.printing import print_table, progress
from graphmem.printable import counted, percent

if TYPE_CHECKING:
    from graphmem.models.evaluations import Evaluation

COLUMNS = (
    ("estimate", "left"),
    ("success rate", "right"),
    ("95 % interval", "right"),
    ("gain", "right"),
    ("95 % interval", "right"),
)
_NAMES = {
    "inverse_propensity": "inverse propensity",
    "self_normalised": "self-normalised",
    "doubly_robust": "doubly robust",
}
_REASONS = {
    "no_propensity": "do not say how a strategy was chosen",
    "several_choices": "say it of several strategies",
    "no_candidates": "do not say what the candidates were",
    "none_offered": "had none of the strategies among the candidates",
}


@click.command()
@click.option(
    "--explore",
    type=click.Choice(["thompson", "greedy", "ucb", "epsilon"]),
    help="The way to choose among the candidates. [default: each --strategy equally often]",
)
@click.option(
    "--strategy",
    "strategies",
    metavar="TEXT",
    multiple=True,
    help="Take this strategy alone, or (repeated) choose among these alone.",
)
@click.option(
    "--epsilon",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    help="How often epsilon takes any candidate.",
)
@click.option(
    "--width",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    help="How many standard deviations ucb adds.",
)
@click.option("--clip", type=click.FloatRange(1), help="Largest weight of an episode.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the resamples."
)
@click.option(
    "--resamples",
    type=click.IntRange(100, 100_000),
    default=1_000,
    show_default=True,
    help="Resamples for the intervals.",
)
@plotting.option("the estimates with their intervals")
@click.pass_obj
def evaluate(
    options: Options, /, plot: str | None, strategies: tuple[str, ...], **how: Any
) -> None:
    """Estimate what another way to choose would have got.

    It needs past episodes that say with which probability their strategy was chosen.

    \b
    Examples:
      graphmem --url ./refunds.graph evaluate --explore greedy
      graphmem --url ./refunds.graph evaluate --strategy "check the fare rules"
    """
    if not (how["explore"] or strategies):
        raise click.UsageError("say what to compare with: --explore greedy, or --strategy TEXT")
    if plot is not None:
        plotting.check(plot)
    memory = options.memory()
    with progress("replaying", options) as advance:
        found = memory.evaluate(strategies=strategies or None, **how, on_progress=advance)
    if plot is not None:
        draw(found, plot)

    def table() -> None:
        rows = [("what was got", *_shown(found.got, found.got_low, found.got_high), "", "")]
        for name, title in _NAMES.items():
            one = getattr(found, name)
            shown = _shown(one.value, one.low, one.high)
            rows.append((title, *shown, *_shown(one.gain, one.gain_low, one.gain_high, "+")))
        print_table(None, COLUMNS, rows)
        click.echo(
            f"{counted(found.episodes, 'episode')}, worth {found.effective:,.1f} with equal "
            f"weights; the largest weight is {found.largest_weight:.1f}"
        )
        if found.unsupported:
            click.echo(
                f"{percent(found.unsupported, 1)} of the choices fall on candidates that "
                "had no chance of being chosen"
            )
        for name, reason in _REASONS.items():
            if count := getattr(found.left_out, name):
                click.echo(f"left out: {counted(count, 'episode')} that {reason}")
        if plot is not None:
            click.echo(f"drawn in {plot}")

    options.show(found, table)


def _shown(value: float, low: float, high: float, sign: str = "") -> tuple[str, str]:
    return f"{value:{sign}.3f}", f"{low:{sign}.3f} to {high:{sign}.3f}"


def draw(found: Evaluation, file: str) -> None:
    """Draw the estimates with their intervals, and the actual result.

    Raises:
        StorageError: the file cannot be written.
    """
    estimates = [getattr(found, name) for name in _NAMES]
    rows = [(found.got, found.got_low, found.got_high)]
    rows += [(one.value, one.low, one.high) for one in estimates]
    figure = plotting.blank(7.0, 2.8)
    axes = figure.add_subplot()
    for place, (value, low, high) in enumerate(rows):
        colour = "#d9822b" if place else "#4c8eda"
        axes.plot([low, high], [place, place], color=colour, linewidth=2)
        axes.plot([value], [place], "o", color=colour)
    axes.axvline(found.got, color="#4c8eda", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(rows)), ["what was got", *_NAMES.values()])
    axes.invert_yaxis()
    axes.set_xlabel("success rate, with 95 % intervals")
    way = found.explore or "each alike"
    only = "" if found.strategies is None else f" of {', '.join(found.strategies)}"
    axes.set_title(
        plotting.plain(f"{way}{only}: {counted(found.episodes, 'episode')}", 80), fontsize=10
    )
    plotting.save(figure, file)
