"""The output of `graphmem demo`."""

from __future__ import annotations

import itertools
import os
import sys
import time
from pathlib import Path
from shutil import which

import click

import graphmem
from graphmem.cli import learning_curve
from graphmem.cli.options import Options
from graphmem.cli.policies import described, named
from graphmem.cli.printing import cell, print_json, print_table
from graphmem.cli.strategies import STRATEGY_COLUMNS, strategy_cells
from graphmem.errors import NotFoundError
from graphmem.memory import Memory
from graphmem.models import EpisodesLearned, Policy, Recall
from graphmem.printable import counted, listed
from graphmem.seeding import seed, sources

ASKED = "which riders signed up in 2022, and how many trips did each of them make?"
"""A task that is in no log."""


def logs() -> list[Path]:
    """Return the logs that come with graphmem (in the wheel, or in the source tree).

    Raises:
        NotFoundError: the logs are missing.
    """
    here = Path(graphmem.__file__).parent
    for folder in (here / "seeds", here.parent / "seeds" / "logs"):
        files = sorted(folder.glob("*.jsonl.gz"))
        if files:
            return files
    raise NotFoundError("the logs of the demo are missing; reinstall graphmem")


def run(options: Options, questions: int, plot: str | None) -> None:
    """Seed the logs; show what works by type of task, what does not, and the evidence.

    Then let an agent learn while it acts.
    """
    memory = options.memory(must_exist=False)
    started = time.perf_counter()
    report = seed(memory, sources(map(str, logs())))
    seconds = time.perf_counter() - started
    studied = memory.policies.learn_episodes()
    kinds = memory.query("analysis.task_types")
    best = {row["type"]: memory.strategies(task_type=row["type"], limit=1) for row in kinds}
    failing = [row for row in memory.strategies(limit=100) if row.status == "refuted"][::-1]
    policies = memory.policies.list(limit=3)
    recalled = memory.recall(ASKED, limit=3, kinds=["strategy"])
    checked = memory.verify()
    if options.as_json:
        shown = {"seeded": report, "best": best, "refuted": failing, "policies": policies}
        shown["recalled"] = recalled
        learned = learning_curve.learn(questions, plot)
        print_json({**shown, "verified": checked.ok, "learned": learned.plain()})
        return
    click.echo(
        f"{counted(report.created + report.skipped, 'episode')} from "
        f"{counted(report.files, 'log')} in {seconds:.1f} s into {memory.store.url} "
        f"({memory.store.capabilities.engine}); no server, no language model."
    )
    print_table(
        "\nWhat works best, by kind of task (the strategy with the highest lower bound)",
        [
            *(("kind of task", "left"), ("episodes", "right"), ("strategy", "left")),
            *(("worked", "right"), ("95 % bounds", "right"), ("status", "left")),
        ],
        [
            (
                kind["type"],
                kind["episodes"],
                cell(row.text, 90),
                f"{row.successes} of {row.trials}",
                f"{row.lower:.2f} to {row.upper:.2f}",
                row.status,
            )
            for kind in kinds
            for row in best[kind["type"]]
        ],
    )
    if failing:
        print_table(
            "What does not work (the upper bound is under .4)",
            STRATEGY_COLUMNS[:-1],
            (strategy_cells(row)[:-1] for row in failing[:3]),
        )
    _what_to_do(policies, studied)
    _what_to_say(memory)
    _what_is_recalled(recalled)
    _why(memory)
    verdict = "follows" if checked.ok else "DOES NOT FOLLOW"
    click.echo(f"Every number {verdict} from the stored episodes ({listed(checked.checked)}).\n")
    learning_curve.show(learning_curve.learn(questions, plot))
    if plot is not None:
        click.echo(f"drawn in {plot}")
    program = _program()
    click.echo(f"Next: {program} --url ./my.graph seed YOUR-LOG.jsonl; {program} --help")


def _program() -> str:
    """Return what to type for graphmem: its path where the shell would not find it."""
    file = Path(sys.argv[0])
    if which("graphmem") or file.name != "graphmem":
        return "graphmem"
    return os.path.relpath(file)


def _what_is_recalled(recalled: Recall) -> None:
    """Show what the memory recalls for an unknown task, and from which tasks."""
    print_table(
        f'What is recalled for a task that no agent had: "{recalled.text}"',
        [
            *(("strategy", "left"), ("on like tasks", "right"), ("at least", "right")),
            *(("the most like it", "left"),),
        ],
        [
            (
                cell(item.text, 52),
                f"{item.near_successes} of {item.near_trials}",
                item.lower,
                cell(item.path[1].removeprefix("task: "), 44),
            )
            for item in recalled.items
        ],
    )


def _what_to_do(policies: list[Policy], studied: EpisodesLearned) -> None:
    """Show the policies with the highest values."""
    steps = f"from {counted(studied.transitions, 'step')} " if studied.transitions else ""
    print_table(
        f"What to do in a state, learned {steps}by TD(0) (the highest values)",
        [("state", "left"), ("action", "left"), ("value", "right"), ("worked", "right")],
        [
            (
                cell(described(row), 76),
                named(row),
                row.q,
                f"{row.successes} of {row.trials}",
            )
            for row in policies
        ],
    )


def _what_to_say(memory: Memory) -> None:
    """Show the context for a task with a failing strategy that has an alternative."""
    failed = (
        episode.task
        for row in memory.lessons.anti_patterns()
        if row.better_alternative
        for episode in memory.evidence(row.strategy, limit=50)
        if not episode.success
    )
    for task in itertools.islice(failed, 1):
        click.echo(f'What an agent is told before "{cell(task, 52)}" (graphmem context)\n')
        click.echo("\n".join(f"  {line}" for line in memory.context(task).splitlines()) + "\n")


def _why(memory: Memory) -> None:
    """Show the evidence of the best strategy."""
    for chosen in memory.strategies(limit=1):
        print_table(
            f'Why "{chosen.text}"? Its latest episodes',
            [("episode", "left"), ("worked", "left"), ("task", "left"), ("source", "left")],
            [
                (row.id[:12], row.success, cell(row.task, 52), row.source_key)
                for row in memory.evidence(chosen.text, limit=5)
            ],
        )
