"""Commands around prompts: the context of a task, and the general rules that it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from graphmem.cli.context import Context, print_json

if TYPE_CHECKING:
    from graphmem.models import ConsolidationReport


@click.command("context")
@click.argument("task")
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Tokens at most, as the default embedder counts them.",
)
@click.option("--agent", help="Read as this agent; default: read everything.")
@click.pass_obj
def write_context(context: Context, task: str, max_tokens: int, agent: str | None) -> None:
    """Write what is known before TASK (its key or wording), as text for a system prompt.

    \b
    Example:
      graphmem --url ./airline.graph context "cancel a reservation" --max-tokens 300
    """
    text = context.memory().context(task, max_tokens=max_tokens, agent=agent)
    if context.as_json:
        from graphmem.text.tokens import count_tokens

        print_json({"task": task, "context": text, "tokens": count_tokens(text)})
    elif text:
        click.echo(text)
    else:
        click.echo("nothing is known of this yet, or nothing fits", err=True)
    context.note_snapshot()


@click.command()
@click.option("--force", is_flag=True, help="Also where it is not due.")
@click.option("--model", is_flag=True, help="Ask the model of the settings as well.")
@click.pass_obj
def consolidate(context: Context, force: bool, model: bool) -> None:
    """Find what holds for more than one task, if that is due.

    The model is that of GRAPHMEM_MODEL_BASE_URL, GRAPHMEM_MODEL_NAME and GRAPHMEM_MODEL_KEY.

    \b
    Example:
      graphmem --url ./airline.graph consolidate --force
    """
    report = context.memory().lessons.consolidate(model or None, force=force)
    context.show(report, lambda: click.echo(_said(report)))


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
            f"{report.model_rules:,} rules of a model, {report.dropped:,} dropped without evidence"
        )
    if report.reason:
        lines.append(f"the model was not used: {report.reason}")
    return "\n".join(lines)
