"""Ask the memory before acting: choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import cell, print_lines, print_rows, worked
from graphmem.printable import percent

if TYPE_CHECKING:
    from graphmem.models.choices import Choice


@click.command()
@click.argument("task")
@click.argument("candidates", metavar="[CANDIDATE...]", nargs=-1)
@click.option("--agent", help="Use only episodes that this agent may read.")
@click.option(
    "--task-type", help="The type of the task; default: the known one, else that of its wording."
)
@click.option(
    "--explore",
    default="thompson",
    show_default=True,
    metavar="WAY",
    help="thompson, greedy, ucb or epsilon.",
)
@click.option("--seed", type=int, help="A whole number from 0, which repeats the choice.")
@click.pass_obj
def choose(options: Options, /, task: str, candidates: tuple[str, ...], **how: Any) -> None:
    """Choose the strategy to try now on TASK.

    It is one of CANDIDATES; without any, one of the memory.

    Mostly it is what works; from time to time it is one that is not known well.

    \b
    Examples:
      graphmem --url ./airline.graph choose "change a seat" get_user_details think
      graphmem --url ./airline.graph --json choose "refund a flight" --explore greedy
    """
    choice = options.memory().choose(task, candidates or None, **how)
    options.show(choice, lambda: _print(choice))


def _print(choice: Choice) -> None:
    click.echo(cell(choice.text))
    print_lines(f"  {cell(choice.why)}", 0)
    print_rows(
        (choice, *choice.others),
        "strategy=text taken expected 95_%=bounds here on_tasks_like_it in_all it_fails_with",
        taken=lambda one: percent(one.propensity, 1),
        expected=lambda one: percent(one.probability),
        bounds=lambda one: f"{percent(one.low)} to {percent(one.high)}",
        here=lambda one: _of(one.here_successes, one.here_trials),
        on_tasks_like_it=lambda one: _of(one.near_successes, one.near_trials),
        in_all=worked,
        it_fails_with=lambda one: "; ".join(
            dict.fromkeys(warning.error_class for warning in one.warnings)
        ),
    )


def _of(successes: int, trials: int) -> str:
    return f"{successes} of {trials}" if trials else ""
