"""The command demo: what works in the logs that come with graphmem, and an agent that learns."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import click

import graphmem
from graphmem.cli.options import Command, Options, example
from graphmem.cli.policies import CELLS
from graphmem.cli.printing import cell, print_json, print_rows, print_table
from graphmem.errors import NotFoundError
from graphmem.printable import counted, listed, percent

ASKED = "which riders signed up in 2022, and how many trips did each of them make?"
"""A task that is in no log."""
SCRIPT = "choosing_agent"
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 24  # bars of a curve in a terminal


@click.command(cls=Command)
@example("demo")
@click.option(
    "--questions", type=click.IntRange(1, 10_000), default=300, help="Questions of the agent."
)
def demo(options: Options, /, questions: int) -> None:
    """Learn the logs that come with graphmem, and show what works.

    At the end an agent answers questions to a database, and learns while it acts. Without --url the
    logs go into a temporary memory without disk. The agent always has a memory of its own.
    """
    from graphmem.seeding import seed, sources

    options.url = options.url or "memory:"
    memory = options.memory(must_exist=False)
    started = time.perf_counter()
    report = seed(memory, sources(map(str, logs())))
    seconds = time.perf_counter() - started
    memory.policies.learn_episodes()
    types = [row["type"] for row in memory.query("analysis.task_types")]
    best = {name: memory.strategies(task_type=name, limit=1) for name in types}
    policies = memory.policies.list(limit=3)
    recalled = memory.recall(ASKED, limit=3, kinds=["strategy"])
    checked = memory.verify()
    learned = _learn(questions)
    if options.as_json:
        shown = {"seeded": report, "best": best, "policies": policies}
        print_json({**shown, "recalled": recalled, "verified": checked.ok, "learned": learned})
        return
    click.echo(
        f"{counted(report.created + report.skipped, 'episode')} from "
        f"{counted(report.files, 'log')} in {seconds:.1f} s into {memory.store.url}; no server, no "
        "language model.\n\nWhat works best, by kind of task (the highest lower bound)"
    )
    print_rows(
        [{"kind_of_task": name, **dict(row)} for name, rows in best.items() for row in rows],
        "kind_of_task strategy=text worked=successes/trials 95_%_bounds=lower..upper status",
    )
    click.echo("What to do in a state, learned by TD(0) (the highest values)")
    print_rows(policies, "state action value=q worked=successes/trials", **CELLS)
    click.echo(f'What an agent reads before a task that none had: "{ASKED}" (graphmem context)\n')
    click.echo("\n".join(f"  {line}" for line in memory.context(ASKED).splitlines()) + "\n")
    click.echo("What is recalled for it (graphmem recall)")
    print_rows(
        recalled.items, "strategy=text on_like_tasks=near_successes/near_trials at_least=lower"
    )
    verdict = "follows" if checked.ok else "DOES NOT FOLLOW"
    click.echo(f"Every number {verdict} from the stored episodes ({listed(checked.checked)}).\n")
    _print_learned(learned)
    click.echo("Next: graphmem --url ./my.graph seed YOUR-LOG.jsonl; graphmem --help")


def logs() -> list[Path]:
    """Return the logs that come with graphmem."""
    return sorted(_find_seeds().rglob("*.jsonl.gz"))


def _find_seeds() -> Path:
    here = Path(graphmem.__file__).parent
    for folder in (here / "seeds", here.parent / "seeds"):
        if (folder / f"{SCRIPT}.py").is_file():
            return folder
    raise NotFoundError("the logs and the agent of the demo are missing; reinstall graphmem")


def _learn(questions: int) -> dict[str, Any]:
    """Let each agent meet the same questions; the one with a memory has its own."""
    from graphmem.memory import Memory

    folder = str(_find_seeds())
    sys.path.insert(0, folder)
    try:
        agent: Any = importlib.import_module(SCRIPT)
    finally:
        sys.path.remove(folder)
    world = agent.world(count=questions)
    best, fixed, ceiling = agent.in_hindsight(world)
    with Memory.open("memory:") as memory:
        started = time.perf_counter()
        chosen = agent.with_memory(world, memory)
        seconds = time.perf_counter() - started
        choice = memory.choose(world.questions[-1].text, list(agent.WAYS), seed=0)
    answers = {"random": agent.at_random(world), "fixed": fixed, "memory": chosen}
    return {
        "ways": len(agent.WAYS),
        "best_single_way": best,
        "seconds": seconds,
        "choice": choice,
        "agents": {
            name: {
                "rate": fmean(right),
                "last_third": fmean(right[-max(1, questions // 3) :]),
                "right": right,
            }
            for name, right in {**answers, "ceiling": ceiling}.items()
        },
    }


_AGENTS = {
    "random": "a way drawn at random",
    "fixed": "the best single way, in hindsight",
    "memory": "memory.attempt, choose, learn",
    "ceiling": "the best way for each question",
}


def _print_learned(learned: dict[str, Any]) -> None:
    agents, choice = learned["agents"], learned["choice"]
    met = len(agents["memory"]["right"])
    wide = min(WIDTH, met)
    click.echo(
        f"An agent that learns while it acts: {met} questions to a database, {learned['ways']} ways"
    )
    rows = []
    for name, one in agents.items():
        spans = (one["right"][n * met // wide : (n + 1) * met // wide] for n in range(wide))
        bars = "".join(BARS[min(len(BARS) - 1, int(fmean(span) * len(BARS)))] for span in spans)
        rows.append((_AGENTS[name], bars, percent(one["last_third"]), percent(one["rate"])))
    print_table(
        ("how the way is chosen", "right answers, first to last", "the last third", "all"), rows
    )
    click.echo(
        "The memory began with nothing, and learned only whether each answer was right\n"
        f"({learned['seconds']:.1f} s with all answers). The best single way is: "
        f'"{learned["best_single_way"]}".\nIt now chooses for "{cell(choice.task, 60)}":\n'
        f"  {cell(choice.text)}\n  {cell(choice.why)}\n"
    )
