"""The command explain."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli import plotting
from graphmem.cli.options import Options
from graphmem.cli.printing import print_json, print_lines
from graphmem.kinds import ITEM_KINDS

if TYPE_CHECKING:
    from graphmem.models.explanations import Explanation

_BLUE, _GREY = "#3b6ea5", "#333333"


@click.command()
@click.argument("item")
@click.option(
    "--kind", type=click.Choice(ITEM_KINDS), help="Kind of ITEM, if a text matches several."
)
@click.option("--agent", help="Use only episodes that this agent may read.")
@click.option("--task", help="Say also what is expected of the strategy on this task, and why.")
@click.option("--cypher", is_flag=True, help="Print a query that Neo4j Browser shows as a graph.")
@plotting.option("the rate over time")
@click.pass_obj
def explain(
    options: Options,
    item: str,
    kind: str | None,
    agent: str | None,
    task: str | None,
    cypher: bool,
    plot: str | None,
) -> None:
    """Show the evidence for ITEM, and what would change it.

    ITEM is an id, or the text of a strategy, anti-pattern or rule.

    \b
    Examples:
      graphmem --url ./airline.graph explain "check the fare rules"
      graphmem --url ./airline.graph explain refund --kind anti-pattern --agent ada
      graphmem --url neo4j://localhost:7687 explain refund --cypher
    """
    if plot is not None:
        plotting.check(plot)
    explanation = options.memory().explain(item, kind=kind, agent=agent, task=task)
    if plot is not None:
        draw(explanation, Path(plot))

    def text() -> None:
        if cypher:
            click.echo(f"{explanation.cypher};")
        else:
            print_lines(str(explanation))
        if plot is not None:
            click.echo(f"drawn in {plot}", err=cypher)

    if cypher and options.as_json:
        print_json({"cypher": explanation.cypher})
        options.note_snapshot()
    else:
        options.show(explanation, text)


# The picture


def draw(explanation: Explanation, file: Path) -> None:
    """Draw the rate after each dated trial, with its bounds.

    Raises:
        OSError: the file cannot be written.
    """
    figure = plotting.blank(10, 5)
    axes = figure.subplots()
    if explanation.course:
        _curve(axes, explanation)
    else:
        axes.text(0.5, 0.5, "no evidence has a date", ha="center", transform=axes.transAxes)
    axes.set_title(f"{explanation.kind}: {plotting.plain(explanation.text)}", loc="left")
    axes.set_xlabel("date of the trial")
    axes.set_ylabel("rate")
    axes.set_ylim(-0.03, 1.03)
    axes.grid(visible=True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    plotting.save(figure, file)


def _curve(axes: Any, explanation: Explanation) -> None:  # Axes' types lack datetimes
    moments = [point.at for point in explanation.course]
    means = [point.mean for point in explanation.course]
    lower = [point.lower for point in explanation.course]
    upper = [point.upper for point in explanation.course]
    axes.fill_between(moments, lower, upper, color=_BLUE, alpha=0.15, linewidth=0, label="bounds")
    axes.plot(moments, means, "o-", color=_BLUE, markersize=3, label="mean of the trials so far")
    if explanation.trend is not None:
        begins = explanation.trend.later_from
        axes.axvline(begins, color=_GREY, linestyle=":", linewidth=1, label="later half")
    if moments[0] == moments[-1]:  # else the axis would have no width
        axes.set_xlim(moments[0] - timedelta(days=1), moments[0] + timedelta(days=1))
    axes.tick_params(axis="x", rotation=30)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
