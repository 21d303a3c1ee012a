"""What `graphmem demo` prints."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from shutil import which

import click

import graphmem
from graphmem.cli import learning_curve, states
from graphmem.cli.options import Options
from graphmem.cli.printing import cell, print_json, print_rows, print_table
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
    policies = memory.policies.top(limit=3)
    recalled = memory.recall(ASKED, limit=3, kinds=["strategy"])
    checked = memory.verify()
    if options.as_json:
        shown = {"seeded": report, "best": best, "refuted": failing, "policies": policies}
        shown |= {"recalled": recalled, "verified": checked.ok}
        print_json({**shown, "learned": learning_curve.learn(questions, plot).plain()})
        return
    click.echo(
        f"{counted(report.created + report.skipped, 'episode')} from "
        f"{counted(report.files, 'log')} in {seconds:.1f} s into {memory.store.url} "
        f"({memory.store.capabilities.engine}); no server, no language model."
    )
    print_table(
        ("kind of task", "episodes", "strategy", "worked", "95 % bounds", "status"),
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
        "\nWhat works best, by kind of task (the strategy with the highest lower bound)",
    )
    if failing:
        click.echo("What does not work (the upper bound is under .4)")
        print_rows(failing[:3], "strategy=text worked mean 95_%_bounds=bounds status tasks")
    _print_policies(policies, studied)
    _print_context(memory)
    _print_recalled(recalled)
    _print_evidence(memory)
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


def _print_policies(policies: list[Policy], studied: EpisodesLearned) -> None:
    steps = f"from {counted(studied.transitions, 'step')} " if studied.transitions else ""
    click.echo(f"What to do in a state, learned {steps}by TD(0) (the highest values)")
    print_rows(policies, "state action value=q worked", **states.CELLS)


def _print_context(memory: Memory) -> None:
    """Show the context for a task with a failing strategy that has an alternative."""
    for pattern in memory.lessons.anti_patterns():
        if pattern.better_alternative:
            for episode in memory.evidence(pattern.strategy, limit=50):
                if not episode.success:
                    text = memory.context(episode.task)
                    task = cell(episode.task, 52)
                    click.echo(f'What an agent reads before "{task}" (graphmem context)\n')
                    click.echo("\n".join(f"  {line}" for line in text.splitlines()) + "\n")
                    return


def _print_recalled(recalled: Recall) -> None:
    click.echo(f'What is recalled for a task that no agent had: "{recalled.text}"')
    print_rows(
        recalled.items,
        "strategy=text on_like_tasks at_least=lower the_most_like_it",
        on_like_tasks=lambda item: f"{item.near_successes} of {item.near_trials}",
        the_most_like_it=lambda item: cell(item.path[1].removeprefix("task: "), 44),
    )


def _print_evidence(memory: Memory) -> None:
    for strategy in memory.strategies(limit=1):
        click.echo(f'Why "{cell(strategy.text)}"? Its latest episodes')
        rows = memory.evidence(strategy.text, limit=5)
        columns = "episode worked=success task source=source_key"
        print_rows(rows, columns, episode=lambda row: row.id[:12])
