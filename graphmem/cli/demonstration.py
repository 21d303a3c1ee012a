"""What `graphmem demo` prints: what works in its logs, and an agent that learns while it acts."""

from __future__ import annotations

import importlib
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

import click

import graphmem
from graphmem.cli import plotting, states
from graphmem.cli.options import Options
from graphmem.cli.printing import cell, print_json, print_rows, print_table
from graphmem.errors import NotFoundError
from graphmem.memory import Memory
from graphmem.models import EpisodesLearned, Policy, Recall
from graphmem.models.choices import Choice
from graphmem.printable import counted, listed, percent
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
        shown |= {"recalled": recalled, "verified": checked.ok}
        print_json({**shown, "learned": learn(questions, plot).plain()})
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
    show(learn(questions, plot))
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


SCRIPT = "choosing_agent"
FIRST = 10
"""Questions before the curve begins."""
WINDOW = 50
"""A point of the curve is the share among so many latest questions."""
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 24
"""Bars of a curve in a terminal."""


@dataclass(frozen=True)
class Line:
    """Which questions an agent answered right, in order."""

    name: str
    right: list[bool]

    @property
    def rate(self) -> float:
        """The share of right answers."""
        return sum(self.right) / len(self.right)

    @property
    def late(self) -> float:
        """The share of right answers among the last third."""
        last = self.right[-max(1, len(self.right) // 3) :]
        return sum(last) / len(last)

    def curve(self) -> list[tuple[int, float]]:
        """Return how many questions were met, and the share of right answers among the latest."""
        ends = range(min(FIRST, len(self.right)), len(self.right) + 1)
        spans = [(end, self.right[max(0, end - WINDOW) : end]) for end in ends]
        return [(end, sum(span) / len(span)) for end, span in spans]

    def bars(self) -> str:
        """Return one bar for each few questions: how many of them are right."""
        count = len(self.right)
        wide = min(WIDTH, count)
        spans = (self.right[n * count // wide : (n + 1) * count // wide] for n in range(wide))
        shares = (sum(span) / len(span) for span in spans)
        return "".join(BARS[min(len(BARS) - 1, int(share * len(BARS)))] for share in shares)


@dataclass(frozen=True)
class Learned:
    """How agents did on the same questions, and the choice for the last one now."""

    ways: int
    asked: int
    """Different questions among those met."""
    best: str
    """The way that is right most often, if one way is taken for all questions."""
    lines: dict[str, Line]
    choice: Choice
    seconds: float
    """For the agent with the memory."""

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        lines = {
            name: {"rate": line.rate, "last_third": line.late, "right": line.right}
            for name, line in self.lines.items()
        }
        return {
            "ways": self.ways,
            "different_questions": self.asked,
            "best_single_way": self.best,
            "seconds": self.seconds,
            "agents": lines,
        }


def _agent() -> Any:
    """Import the agent that comes with graphmem (in the wheel, or in the source tree).

    Raises:
        NotFoundError: its script is missing.
    """
    here = Path(graphmem.__file__).parent
    for folder in (here / "seeds", here.parent / "seeds"):
        if (folder / f"{SCRIPT}.py").is_file():
            sys.path.insert(0, str(folder))
            try:
                return importlib.import_module(SCRIPT)
            finally:
                sys.path.remove(str(folder))
    raise NotFoundError("the agent of the demo is missing; reinstall graphmem")


def learn(questions: int, plot: str | None) -> Learned:
    """Let each agent meet the same questions; the one with a memory has its own.

    Raises:
        NotFoundError: the script of the agents is missing.
        StorageError: the picture cannot be written.
    """
    agent = _agent()
    found = agent.world(count=questions)
    best, fixed, ceiling = agent.in_hindsight(found)
    with Memory.open("memory:") as memory:
        started = time.perf_counter()
        chosen = agent.with_memory(found, memory)
        seconds = time.perf_counter() - started
        choice = memory.choose(found.questions[-1].text, list(agent.WAYS), seed=0)
    learned = Learned(
        ways=len(agent.WAYS),
        asked=len({question.text for question in found.questions}),
        best=best,
        lines={
            "random": Line("a way drawn at random", agent.at_random(found)),
            "fixed": Line("the best single way, in hindsight", fixed),
            "memory": Line("memory.attempt, choose, learn", chosen),
            "ceiling": Line("the best way for each question", ceiling),
        },
        choice=choice,
        seconds=seconds,
    )
    if plot is not None:
        draw(learned, plot)
    return learned


def show(learned: Learned) -> None:
    """Print the curves, and the choice now."""
    memory, fixed = learned.lines["memory"], learned.lines["fixed"]
    met = len(memory.right)
    print_table(
        ("how the way is chosen", "right answers, first to last", "the last third", "all"),
        [
            (line.name, line.bars(), percent(line.late), percent(line.rate))
            for line in learned.lines.values()
        ],
        f"An agent that learns while it acts: {met} questions to a database, {learned.ways} ways",
    )
    click.echo(
        f"The memory began with nothing, learned only whether each answer was right, and has "
        f"{sum(memory.right)}\nof {met} right ({learned.asked} different questions, "
        f"{learned.seconds:.1f} s with all answers). The best single way, of those that are\n"
        f'right for some kinds of questions only, has {sum(fixed.right)}: "{learned.best}".\n'
        f'It now chooses for "{cell(learned.choice.task, 60)}":\n'
        f"  {cell(learned.choice.text)}\n  {cell(learned.choice.why)}\n"
    )


def draw(learned: Learned, file: str) -> None:
    """Draw the curves, beside the share of all right answers.

    Raises:
        StorageError: the file cannot be written.
    """
    colours = {"random": "#999999", "fixed": "#d9822b", "memory": "#3b6ea5", "ceiling": "#999999"}
    figure = plotting.blank(8.5, 4.2)
    axes = figure.add_subplot()
    for name, line in learned.lines.items():
        axes.plot(
            *zip(*line.curve(), strict=True),
            color=colours[name],
            linewidth=2.4 if name == "memory" else 1.4,
            linestyle=":" if name == "ceiling" else "-",
            label=f"{line.name}: {percent(line.rate)} of all, "
            f"{percent(line.late)} of the last third",
        )
    axes.set_ylim(0.0, 1.02)
    axes.set_xlim(0, len(learned.lines["memory"].right))
    axes.set_xlabel("questions met")
    axes.set_ylabel(f"right among the latest {WINDOW}")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", frameon=False, fontsize=9, ncols=1)
    plotting.save(figure, file)
