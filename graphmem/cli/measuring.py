"""Measure predictions and choices against the past: calibrate, evaluate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphmem.cli import plotting
from graphmem.cli.options import Options, several
from graphmem.cli.printing import print_answer, print_facts, print_rows, progress
from graphmem.printable import counted
from graphmem.text.answers import BASELINES

if TYPE_CHECKING:
    from graphmem.models import Calibration, Evaluation

_LEFT_OUT = {
    "no_propensity": "whose record does not say how a strategy was chosen",
    "several_choices": "whose record says it of several strategies",
    "no_candidates": "whose record does not say what the candidates were",
    "none_offered": "without any of the strategies among the candidates",
}


@click.command()
@plotting.option("the reliability diagram")
@click.pass_obj
def calibrate(options: Options, plot: str | None) -> None:
    """Show how well the memory predicts past outcomes.

    It predicts each episode from earlier ones, and compares with simple predictors.

    \b
    Example:
      graphmem --url ./airline.graph calibrate --plot reliability.png
    """
    with progress("predicting", options) as advance:
        calibration = options.memory().calibrate(on_progress=advance)
    worked = f"{calibration.successes:,} of {calibration.episodes:,} episodes succeeded"
    if plot is not None:
        plotting.draw_reliability(calibration.bins, calibration.z, [worked], plot)
    options.show(calibration, _print_calibration if calibration.episodes else "no episodes yet")


def _print_calibration(found: Calibration) -> None:
    print_rows(
        (found, *found.baselines),
        "predicted_by Brier=brier log_loss AUC=auc calibration_error=ece",
        predicted_by=lambda one: BASELINES[one.name] if one is not found else "this memory",
    )
    click.echo(f"{found.successes:,} of {found.episodes:,} episodes succeeded")
    click.echo(found.verdict)
    click.echo("strengths of pooling")
    print_answer(found.strengths)


@click.command()
@click.option(
    "--explore",
    metavar="WAY",
    help="thompson, greedy, ucb or epsilon [default: each --strategy equally often].",
)
@several("--strategy", "strategies", metavar="TEXT", help="Choose among these alone.")
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
    with progress("replaying", options) as advance:
        found = options.memory().evaluate(strategies=strategies or None, **how, on_progress=advance)
    options.show(found, _print_evaluation)


def _print_evaluation(found: Evaluation) -> None:
    names = ("inverse_propensity", "self_normalised", "doubly_robust")
    titles = {id(getattr(found, name)): name.replace("_", " ") for name in names}
    print_rows(
        [getattr(found, name) for name in names],
        "estimate success_rate=value 95_%_interval=low..high gain of_gain=gain_low..gain_high",
        estimate=lambda one: titles[id(one)],
    )
    print_facts({"what was got": f"{found.got:.3f} ({found.got_low:.3f} to {found.got_high:.3f})"})
    facts = ("episodes", "effective", "largest_weight", "unsupported")
    print_facts({name: getattr(found, name) for name in facts})
    for name, reason in _LEFT_OUT.items():
        if count := getattr(found.left_out, name):
            click.echo(f"left out: {counted(count, 'episode')} {reason}")
