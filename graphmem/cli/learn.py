"""The command learn."""

from __future__ import annotations

from typing import Any

import click

from graphmem.cli.options import MOMENT, Options, several


@click.command()
@click.argument("task")
@click.argument("strategies", nargs=-1, required=True, metavar="STRATEGY...")
@click.option("--success/--failure", default=None, help="Whether it worked.")
@click.option("--score", type=float, help="How well it worked, in [0, 1].")
@click.option("--reward", type=float, help="Any finite number; default: the score.")
@click.option("--agent", default="default", show_default=True, help="Who did it.")
@click.option("--task-type", help="A class of tasks.")
@click.option("--error", help="The error that ended it.")
@click.option("--feedback", help="The comment of a person or a judge.")
@click.option("--summary", help="A short summary.")
@several("--worked", "successes", metavar="TEXT", help="What went well.")
@several("--mistake", "mistakes", metavar="TEXT", help="What went badly.")
@click.option("--started-at", type=MOMENT, help="ISO 8601 with time zone.")
@click.option("--ended-at", type=MOMENT, help="ISO 8601 with time zone; default: now.")
@click.option("--source-key", help="A key of the episode; the same key is learned once.")
@click.pass_obj
def learn(
    options: Options,
    /,
    task: str,
    strategies: tuple[str, ...],
    **outcome: Any,
) -> None:
    """Learn one episode: an attempt at TASK by STRATEGY.

    With several strategies, give the main one first.

    Every call counts, unless it has a known source key. `graphmem seed -` takes whole episodes,
    with steps and mistake cards, as JSON lines.

    \b
    Example:
      graphmem learn "refund a cancelled flight" "check policy, then refund" \\
          --success --agent gpt-4o --source-key run-17/3
    """
    learned = options.memory(must_exist=False).learn(task, list(strategies), **outcome)
    done = "learned" if learned.created else "known already:"
    options.show(learned, f"{done} episode {learned.episode_id}")
