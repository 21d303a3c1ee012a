"""The command predict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import cell, print_lines
from graphmem.printable import counted, percent

if TYPE_CHECKING:
    from graphmem.models.forecasts import OutcomePrediction, PoolingStrengths


@click.command()
@click.argument("task")
@click.argument("strategies", metavar="STRATEGY...", nargs=-1, required=True)
@click.option("--agent", help="Use only episodes that this agent may read.")
@click.pass_obj
def predict(options: Options, task: str, strategies: tuple[str, ...], agent: str | None) -> None:
    """Show the probability that STRATEGY works on TASK, and why. TASK is its key or wording.

    With several strategies: the probability that an episode with all of them succeeds.

    \b
    Examples:
      graphmem --url ./airline.graph predict 12 cancel_reservation
      graphmem --url ./airline.graph predict "change a seat" get_user_details think --agent ada
    """
    prediction = options.memory().predict(task, strategies, agent)

    options.show(prediction, lambda: _print(prediction))


def _print(prediction: OutcomePrediction) -> None:
    bounds = f"{percent(prediction.low)} to {percent(prediction.high)}, 95% credible"
    trials = prediction.trials
    tried = {0: "not tried", 1: "tried once"}.get(trials, f"tried {trials:,} times")
    expected = percent(prediction.probability)
    print_lines(f"expected {expected} ({bounds}), {tried} on this task")
    for line in prediction.basis.lines:
        print_lines(f"  {cell(line)}")
    print_lines(f"  {describe_strengths(prediction.basis.strengths)}")


def describe_strengths(strengths: PoolingStrengths) -> str:
    """Return the strengths of pooling in words."""
    numbers = (
        f"strengths: task {strengths.task:g}, strategy {strengths.strategy:g}, "
        f"on the task {strengths.cell:g}; slopes {strengths.task_slope:g} and "
        f"{strengths.strategy_slope:g}"
    )
    if strengths.fitted:
        gained = f"{strengths.score:.1f} standard errors better than the defaults"
        return f"{numbers} (fitted to {counted(strengths.trials, 'trial')}, {gained})"
    return f"{numbers} (the defaults)"
