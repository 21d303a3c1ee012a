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

    def text() -> None:
        for line in lines(prediction):
            print_lines(line)

    options.show(prediction, text)


def lines(prediction: OutcomePrediction) -> list[str]:
    """Return a predicted outcome in words."""
    bounds = f"{percent(prediction.low)} to {percent(prediction.high)}, 95% credible"
    tried = {0: "not tried", 1: "tried once"}.get(
        prediction.trials, f"tried {prediction.trials} times"
    )
    basis = prediction.basis
    first = f"expected {percent(prediction.probability)} ({bounds}), {tried} on this task"
    return [first, *(f"  {cell(line)}" for line in basis.lines), f"  {described(basis.strengths)}"]


def described(strengths: PoolingStrengths) -> str:
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
