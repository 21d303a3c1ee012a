"""Measure predictions and choices against the past: calibrate, evaluate."""

from __future__ import annotations

from typing import Any

import click

from graphmem.cli import plotting
from graphmem.cli.asking import describe_strengths
from graphmem.cli.options import Options, several
from graphmem.cli.printing import print_table, progress
from graphmem.printable import counted, percent

_BASELINES = {
    "global": "rate of all",
    "task": "rate of the task",
    "strategy": "rate of the strategy",
    "cell": "rate of the strategy on the task",
}


@click.command()
@plotting.option("the reliability diagram")
@click.pass_obj
def calibrate(options: Options, /, plot: str | None, **how: Any) -> None:
    """Show how well the memory predicts past outcomes.

    It predicts each episode from earlier ones, and compares with simple predictors.

    \b
    Example:
      graphmem --url ./airline.graph calibrate --plot reliability.png
    """
    memory = options.memory()
    with progress("predicting", options) as advance:
        calibration = memory.calibrate(**how, on_progress=advance)
    worked = f"{calibration.successes:,} of {calibration.episodes:,} episodes succeeded"
    if plot is not None:
        plotting.draw_reliability(calibration.bins, calibration.z, [worked], plot)

    def text() -> None:
        if not calibration.episodes:
            click.echo("no episodes yet")
        else:
            named: list[tuple[str, Any]] = [("this memory", calibration)]
            named += [(_BASELINES[one.name], one) for one in calibration.baselines]
            headings = ("predicted by", "Brier", "log loss", "AUC", "calibration error")
            print_table(headings, ((name, *_scores(one)) for name, one in named))
            click.echo(worked)
            click.echo(describe_strengths(calibration.strengths))
        if plot is not None:
            click.echo(f"drawn in {plot}")

    options.show(calibration, text)


def _scores(row: Any) -> tuple[str, ...]:
    values = (row.brier, row.log_loss, row.auc, row.ece)
    return tuple("" if value is None else f"{value:.4f}" for value in values)


_NAMES = {
    "inverse_propensity": "inverse propensity",
    "self_normalised": "self-normalised",
    "doubly_robust": "doubly robust",
}
_REASONS = {
    "no_propensity": "whose record does not say how a strategy was chosen",
    "several_choices": "whose record says it of several strategies",
    "no_candidates": "whose record does not say what the candidates were",
    "none_offered": "without any of the strategies among the candidates",
}


@click.command()
@click.option(
    "--explore",
    type=click.Choice(["thompson", "greedy", "ucb", "epsilon"]),
    help="The way to choose among the candidates. [default: each --strategy equally often]",
)
@several(
    "--strategy",
    "strategies",
    metavar="TEXT",
    help="Take this strategy alone, or (several) choose among these alone.",
)
@click.pass_obj
def evaluate(options: Options, /, strategies: tuple[str, ...], **how: Any) -> None:
    """Estimate what another way to choose would have got.

    It needs past episodes that say with which probability their strategy was chosen.

    \b
    Examples:
      graphmem --url ./refunds.graph evaluate --explore greedy
      graphmem --url ./refunds.graph evaluate --strategy "check the fare rules"
    """
    if not (how["explore"] or strategies):
        raise click.UsageError("say what to compare with: --explore greedy, or --strategy TEXT")
    memory = options.memory()
    with progress("replaying", options) as advance:
        found = memory.evaluate(strategies=strategies or None, **how, on_progress=advance)

    def text() -> None:
        rows = [("what was got", *_interval(found.got, found.got_low, found.got_high), "", "")]
        for name, title in _NAMES.items():
            one = getattr(found, name)
            shown = _interval(one.value, one.low, one.high)
            rows.append((title, *shown, *_interval(one.gain, one.gain_low, one.gain_high, "+")))
        interval = "95 % interval"
        print_table(("estimate", "success rate", interval, "gain", interval), rows)
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
                click.echo(f"left out: {counted(count, 'episode')} {reason}")

    options.show(found, text)


def _interval(value: float, low: float, high: float, sign: str = "") -> tuple[str, str]:
    return f"{value:{sign}.3f}", f"{low:{sign}.3f} to {high:{sign}.3f}"
