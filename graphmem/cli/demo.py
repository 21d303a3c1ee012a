"""What `graphmem demo` shows."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

import graphmem
from graphmem.cli.asking import STRATEGY_COLUMNS, strategy_cells
from graphmem.cli.context import Context, cell, print_json, print_table
from graphmem.errors import NotFoundError
from graphmem.seeding import seed, sources


def logs() -> list[Path]:
    """Return the logs that come with graphmem (in the wheel, or in the source tree).

    Raises:
        NotFoundError: there are none.
    """
    here = Path(graphmem.__file__).parent
    for folder in (here / "seeds", here.parent / "seeds" / "logs"):
        found = sorted(folder.glob("*.jsonl.gz"))
        if found:
            return found
    raise NotFoundError("the logs of the demo are missing; reinstall graphmem")


def run(context: Context) -> None:
    """Seed the logs and show what works per task type, with the evidence of one strategy."""
    memory = context.memory(must_exist=False)
    started = time.perf_counter()
    report = seed(
        lambda episodes: memory.learn_many(episodes, on_error="collect"),
        sources(map(str, logs())),
    )
    seconds = time.perf_counter() - started
    kinds = memory.query("analysis.task_types")
    best = {row["type"]: memory.strategies(task_type=row["type"], limit=4) for row in kinds}
    checked = memory.verify()
    if context.as_json:
        print_json({"seeded": report, "best": best, "verified": checked.ok})
        return
    click.echo(
        f"{report.created + report.skipped:,} episodes from {report.files} logs in {seconds:.1f} s "
        f"into {memory.store.url} ({memory.store.capabilities.engine}); no model, no server.\n"
    )
    click.echo("What works? Strategies by the lower 95 % bound of their success rate:\n")
    for row in kinds:
        print_table(
            f"{row['type']} ({row['episodes']} episodes on {row['tasks']} tasks)",
            STRATEGY_COLUMNS,
            map(strategy_cells, best[row["type"]]),
        )
    overall = memory.strategies(limit=1)
    if overall:
        chosen = overall[0]
        click.echo(f'\nWhy "{chosen.text}"? Its latest episodes:\n')
        print_table(
            None,
            [("episode", "left"), ("worked", "left"), ("task", "left"), ("source", "left")],
            [
                (row["id"][:12], row["success"], cell(row["task"], 60), row["source_key"])
                for row in memory.evidence(chosen.text, limit=5)
            ],
        )
    verdict = "follows" if checked.ok else "DOES NOT FOLLOW"
    click.echo(
        f"Every number {verdict} from the stored episodes "
        f"({json.dumps(dict(checked.checked))[1:-1]})."
    )
    click.echo("\nNext: graphmem --url ./my.graph seed YOUR-LOG.jsonl; graphmem --help")
