"""The commands of memory.lessons: heuristics, anti-patterns, rules, mistakes; merging."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli import plotting
from graphmem.cli.options import Group, Options, at_most
from graphmem.cli.printing import cell, print_json, print_lines, print_table
from graphmem.printable import counted
from graphmem.text.task_types import GENERAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from graphmem.models import ConsolidationReport
    from graphmem.models.lessons import AntiPattern, Heuristic, Mistake, Rule, Score

HEURISTIC_COLUMNS = (
    ("strategy", "left"),
    ("agent", "left"),
    ("type", "left"),
    ("worked", "right"),
    ("confidence", "right"),
    ("95 % bounds", "right"),
    ("status", "left"),
)
WARNED = ("warned of", "left")
ANTI_PATTERN_COLUMNS = (
    ("strategy", "left"),
    ("agent", "left"),
    ("error", "left"),
    ("failed", "right"),
    WARNED,
    ("instead", "left"),
    ("which worked", "right"),
    ("better by", "right"),
)
RULE_COLUMNS = (
    ("rule", "left"),
    ("task", "left"),
    ("from", "left"),
    ("for", "right"),
    ("against", "right"),
    ("confidence", "right"),
)
MISTAKE_COLUMNS = (
    ("seen", "right"),
    ("mistake", "left"),
    ("task", "left"),
    ("worker", "left"),
    ("instead", "left"),
    ("lesson", "left"),
)
SCORE_COLUMNS = (
    ("when", "left"),
    ("score", "right"),
    ("worked", "left"),
    ("agent", "left"),
    ("what happened", "left"),
)
USUAL = (
    "warned of: no  It works on such tasks no less often than other ways, so its errors are those "
    "of each run. recall and choose leave it out, and context says only where it failed itself."
)
TEXT = 90
"""Most characters of a text in a table; --json has the whole text."""
WINDOW = 10
"""Episodes in the running mean of the picture."""
_BLUE, _ORANGE, _GREY = "#3b6ea5", "#d1682e", "#333333"


@click.group(cls=Group)
def lessons() -> None:
    """See what works, what fails, and which rules hold."""


@lessons.command()
@click.option("--task-type", help="Only tasks of this type.")
@click.option("--agent", help="What this agent may read: its own, and what others share with it.")
@click.option(
    "--min-confidence",
    type=float,
    default=0.0,
    metavar="NUMBER",
    help="Posterior mean of the success rate, from 0 to 1.",
)
@click.option("--pooled", is_flag=True, help="Count also what is similar by meaning, and name it.")
@at_most(20)
@click.pass_obj
def heuristics(options: Options, /, limit: int, **asked: Any) -> None:
    """Show what works for agents on types of tasks.

    These are the heuristics, the best lower bound first.

    \b
    Examples:
      graphmem --url ./airline.graph lessons heuristics --task-type refund
      graphmem --url ./airline.graph --json lessons heuristics --agent ada --min-confidence 0.8
      graphmem --url ./airline.graph lessons heuristics --pooled
    """
    rows = options.memory().lessons.heuristics(**asked)[:limit]

    def table() -> None:
        if rows:
            print_table(None, HEURISTIC_COLUMNS, map(_heuristic, rows))
            for row in rows:
                if row.pooled:
                    click.echo(_pooled(row))
        else:
            click.echo("no such heuristics; one needs some trials, and successes in most of them")

    options.show(rows, table)


def _heuristic(row: Heuristic) -> tuple[Any, ...]:
    return (
        cell(row.strategy, TEXT),
        cell(row.agent, 40),
        "none" if row.task_type == GENERAL else cell(row.task_type, 40),
        f"{row.successes} of {row.trials}",
        row.confidence,
        f"{row.lower:.2f} to {row.upper:.2f}",
        row.status,
    )


def _pooled(row: Heuristic) -> str:
    """Return the line that says what was pooled with a strategy."""
    others = "; ".join(
        f"{cell(one.strategy, 60)} ({one.successes} of {one.trials}, times {one.similarity:.2f})"
        for one in row.pooled
    )
    return f"{cell(row.strategy, 60)}, {cell(row.agent, 40)}: with {others}"


@lessons.command("anti-patterns")
@click.option("--task-type", help="Only failures on tasks of this type.")
@click.option("--agent", help="What this agent may read: its own, and what others share with it.")
@click.option(
    "--min-confidence",
    type=float,
    default=0.0,
    metavar="NUMBER",
    help="Share of the failures among failures and successes, from 0 to 1.",
)
@at_most(20)
@click.pass_obj
def anti_patterns(options: Options, /, limit: int, **asked: Any) -> None:
    """Show what fails with which errors, and what did better.

    These are the anti-patterns, the most certain first.

    \b
    Example:
      graphmem --url ./airline.graph lessons anti-patterns --task-type refund --limit 5
    """
    rows = options.memory().lessons.anti_patterns(**asked)[:limit]

    usual = any(row.usual for row in rows)

    options.show_rows(
        rows,
        ANTI_PATTERN_COLUMNS if usual else [one for one in ANTI_PATTERN_COLUMNS if one != WARNED],
        partial(_anti_pattern, told=usual),
        "no such anti-patterns; one needs repeated failures with the same error",
    )
    if usual and not options.as_json:
        print_lines(USUAL, 0)


def _anti_pattern(row: AntiPattern, *, told: bool) -> tuple[Any, ...]:
    better = row.better_alternative
    return (
        cell(row.strategy, TEXT),
        cell(row.agent, 40),
        cell(row.error_class, TEXT),
        f"{row.occurrences} of {row.occurrences + row.successes}",
        *(("no" if row.usual else "yes",) if told else ()),
        "nothing better is known" if better is None else cell(better.strategy, TEXT),
        "" if better is None else f"{better.successes} of {better.trials}",
        "" if better is None else f"{better.lift:+.2f}",
    )


@lessons.command()
@click.argument("task", required=False)
@click.option("--agent", help="Only from episodes that this agent may read.")
@click.option("--limit", type=click.IntRange(1), help="Rows at most [10 of a TASK; else all].")
@click.pass_obj
def rules(options: Options, task: str | None, agent: str | None, limit: int | None) -> None:
    """Show the rules of TASK, or all rules. TASK is its key or wording; the newest come first.

    \b
    Examples:
      graphmem --url ./airline.graph lessons rules "refund a cancelled flight"
      graphmem --url ./airline.graph lessons rules --limit 20
    """
    rows = options.memory().lessons.rules(task, agent, limit=limit)

    options.show_rows(rows, RULE_COLUMNS, _rule, "no rule holds here yet")


def _rule(row: Rule) -> tuple[Any, ...]:
    return (
        cell(str(row), TEXT),
        "all tasks" if row.task is None else cell(row.task, 40),
        row.source,
        row.supporting,
        row.opposing,
        row.confidence,
    )


@lessons.command()
@click.option("--task", help="Only mistakes in this task.")
@click.option("--worker", help="Only mistakes of this worker.")
@click.option("--agent", help="Only from episodes that this agent may read.")
@at_most(30)
@click.pass_obj
def mistakes(options: Options, /, **asked: Any) -> None:
    """Show the mistakes of mistake cards, the most frequent first.

    \b
    Example:
      graphmem --url ./airline.graph lessons mistakes --task "refund a cancelled flight"
    """
    rows = options.memory().lessons.mistakes(**asked)

    options.show_rows(rows, MISTAKE_COLUMNS, _mistake, "no such mistakes")


def _mistake(row: Mistake) -> tuple[Any, ...]:
    return (
        row.seen,
        cell(row.type, TEXT),
        cell(row.task, 40),
        row.worker and cell(row.worker, 40),
        row.correct_decision and cell(row.correct_decision, TEXT),
        row.lesson and cell(row.lesson, TEXT),
    )


@lessons.command()
@click.argument("task")
@at_most(20)
@plotting.option("all scores")
@click.pass_obj
def scores(options: Options, task: str, limit: int, plot: str | None) -> None:
    """Show the latest scores of TASK, in order. TASK is its key or wording.

    \b
    Example:
      graphmem --url ./airline.graph lessons scores "refund a cancelled flight" --plot scores.png
    """
    if plot is not None:
        plotting.check(plot)
    all_scores = options.memory().lessons.scores(task)
    if plot is not None:
        draw(all_scores, task, Path(plot))
    latest = all_scores[-limit:]

    def table() -> None:
        if not all_scores:
            click.echo("nothing is known of this task yet; `graphmem tasks` lists those that are")
        else:
            print_table(None, SCORE_COLUMNS, map(_score, latest))
            click.echo(_summary(all_scores, latest))
        if plot is not None:
            click.echo(f"drawn in {plot}")

    options.show(latest, table)


def _score(row: Score) -> tuple[Any, ...]:
    summary = row.summary and cell(row.summary, TEXT)
    return row.at, row.score, row.success, cell(row.agent, 40), summary


def _summary(all_scores: Sequence[Score], latest: Sequence[Score]) -> str:
    mean = sum(row.score for row in all_scores) / len(all_scores)
    shown = (
        "" if len(latest) == len(all_scores) else f", of which the latest {len(latest):,} are shown"
    )
    return f"mean score {mean:.3f} of {counted(len(all_scores), 'episode')}{shown}"


@lessons.command()
@click.option("--force", is_flag=True, help="Run also if it is not due.")
@click.option("--model", is_flag=True, help="Ask the model of the settings as well.")
@click.pass_obj
def consolidate(options: Options, force: bool, model: bool) -> None:
    """Derive rules that hold for more than one task, if it is due.

    The model is that of GRAPHMEM_MODEL_BASE_URL, GRAPHMEM_MODEL_NAME and GRAPHMEM_MODEL_KEY.

    \b
    Example:
      graphmem --url ./airline.graph lessons consolidate --force
    """
    report = options.memory().lessons.consolidate(model or None, force=force)
    options.show(report, lambda: click.echo(_said(report)))


def _said(report: ConsolidationReport) -> str:
    if not report.done:
        return (
            f"not due: {report.since:,} of {report.every:,} episodes since the last time "
            "(--force does it now)"
        )
    lines = [
        f"{report.rules:,} general rules from {report.since:,} new episodes: "
        f"{report.created:,} new, {report.removed:,} no longer hold"
    ]
    if report.how == "model" or report.model_rules:
        lines.append(
            f"{counted(report.model_rules, 'rule')} of a model, {report.dropped:,} dropped without "
            "evidence"
        )
    if report.reason:
        lines.append(f"the model was not used: {report.reason}")
    return "\n".join(lines)


@lessons.command()
@click.argument("strategy")
@click.argument("other")
@click.pass_obj
def merge(options: Options, strategy: str, other: str) -> None:
    """Count OTHER as STRATEGY wherever lessons are read.

    Both are texts or ids; nothing recorded changes.

    \b
    Example:
      graphmem --url ./airline.graph lessons merge "check the fare rules" "look up the fare rules"
    """
    identity = options.memory().lessons.merge(strategy, other)
    if options.as_json:
        print_json({"id": identity})
    else:
        click.echo(
            f"{cell(other, TEXT)!r} counts as {cell(strategy, TEXT)!r} from now on; "
            "`graphmem lessons unmerge` undoes it"
        )


@lessons.command()
@click.argument("strategy")
@click.pass_obj
def unmerge(options: Options, strategy: str) -> None:
    """Undo merging: the strategies in STRATEGY count separately. STRATEGY is its text or id.

    \b
    Example:
      graphmem --url ./airline.graph lessons unmerge "check the fare rules"
    """
    count = options.memory().lessons.unmerge(strategy)
    if options.as_json:
        print_json({"unmerged": count})
    elif count:
        click.echo(f"{counted(count, 'merge')} undone")
    else:
        click.echo("it was not merged")


# The picture


def draw(all_scores: Sequence[Score], title: str, file: Path) -> None:
    """Draw the scores of a task, episode by episode, and their running mean.

    Raises:
        OSError: the file cannot be written.
    """
    figure = plotting.blank(10, 5)
    axes = figure.subplots()
    if all_scores:
        _curves(axes, [row.score for row in all_scores], [row.success for row in all_scores])
    else:
        axes.text(0.5, 0.5, "no episode yet", ha="center", transform=axes.transAxes)
    axes.set_title(f"Scores of {plotting.plain(title)}", loc="left")
    axes.set_xlabel("episode, the earliest first")
    axes.set_ylabel("score")
    axes.set_ylim(-0.03, 1.03)
    axes.grid(visible=True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    plotting.save(figure, file)


def _curves(axes: Axes, scores: Sequence[float], worked: Sequence[bool]) -> None:
    from matplotlib.ticker import MaxNLocator

    for outcome, colour, name in ((True, _BLUE, "worked"), (False, _ORANGE, "did not work")):
        places = [place for place, success in enumerate(worked, 1) if success is outcome]
        heights = [scores[place - 1] for place in places]
        axes.plot(places, heights, "o", color=colour, markersize=4, alpha=0.6, label=name)
    axes.plot(
        range(1, len(scores) + 1),
        running_mean(scores),
        color=_GREY,
        linewidth=1.6,
        label=f"mean of the latest {WINDOW}",
    )
    mean = sum(scores) / len(scores)
    axes.axhline(mean, color=_GREY, linestyle="--", linewidth=1, label=f"mean of all, {mean:.2f}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def running_mean(scores: Sequence[float]) -> list[float]:
    """Return after each score the mean of the latest ten, or of fewer at the beginning."""
    windows = (scores[max(0, end - WINDOW) : end] for end in range(1, len(scores) + 1))
    return [sum(window) / len(window) for window in windows]
