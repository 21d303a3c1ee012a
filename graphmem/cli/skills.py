"""The commands of memory.skills: files that agents read, out and in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Command, Group, Options, example
from graphmem.printable import counted

if TYPE_CHECKING:
    from graphmem.kinds import SkillForm
    from graphmem.models.reports import SkillImport, SkillReport


@click.group(cls=Group)
def skills() -> None:
    """Write and read files that agents read: SKILL.md, AGENTS.md, a playbook."""


@skills.command()
@example("--url ./airline.graph skills export .claude/skills")
@example("--url ./airline.graph skills export --agents-md AGENTS.md --task-type airline")
@click.argument("folder", metavar="[DIR]", required=False)
@click.option("--agents-md", metavar="FILE", help="A block in this AGENTS.md or CLAUDE.md instead.")
@click.option("--playbook", metavar="FILE", help="Lines with counts in this file instead.")
@click.option("--task-type", metavar="TYPE", help="Only tasks of this type.")
@click.option("--agent", help="Only what this agent may read.")
def export(
    options: Options,
    /,
    folder: str | None,
    agents_md: str | None,
    playbook: str | None,
    **which: Any,
) -> None:
    """Write a skill for each kind of task into DIR, or all of it into one FILE.

    Only what outcomes established or refuted is told, with the ids of its evidence. Without new
    evidence no file changes.
    """
    asked: dict[SkillForm, str | None]
    asked = {"skills": folder, "agents-md": agents_md, "playbook": playbook}
    given = [(path, form) for form, path in asked.items() if path is not None]
    if len(given) != 1:
        raise click.UsageError("give DIR, --agents-md FILE or --playbook FILE")
    options.show(options.memory().skills.export(*given[0], **which), _told)


def _told(report: SkillReport) -> None:
    if not report.kinds:
        click.echo("nothing is established or refuted yet; `graphmem list heuristics` shows more")
    found = (
        f"{counted(report.conclusions, 'conclusion')} on {counted(report.kinds, 'kind')} of task"
    )
    click.echo(f"{found} in {report.path}")
    click.echo(f"changed: {', '.join(report.changed) or 'nothing'}")
    if report.removed:
        click.echo(f"removed: {', '.join(report.removed)}")


@click.command(cls=Command)
@example("--url ./airline.graph report learned.html")
@click.argument("file", metavar="FILE")
@click.option("--task-type", metavar="TYPE", help="Only tasks of this type.")
@click.option("--agent", help="Only what this agent may read.")
def report(options: Options, /, file: str, **which: Any) -> None:
    """Write a page on what was learned, for people: one FILE of HTML with pictures."""
    options.show(options.memory().skills.export(file, "report", **which), _told)


@skills.command("import")
@example("--url ./airline.graph skills import .claude/skills")
@example("--url ./airline.graph skills import team-playbook.md --source team")
@click.argument("path")
@click.option("--source", metavar="NAME", help="Whose word it is [the name of the file or folder].")
def import_(options: Options, path: str, source: str | None) -> None:
    """Let PATH count where nothing was tried yet: a SKILL.md, a folder of them, or a playbook.

    It is a prior, no outcome: a few own outcomes outweigh it. Importing a source again replaces
    what it said; `graphmem upkeep erase --source NAME` removes that.
    """
    report = options.memory(must_exist=False).skills.import_(path, source)
    options.show(report, _said)


def _said(report: SkillImport) -> None:
    avoid = f" ({report.avoid:,} to avoid)" if report.avoid else ""
    kinds = counted(report.skills, "kind")
    click.echo(f"{counted(report.priors, 'prior')}{avoid} on {kinds} of task from {report.source}")
    if not report.changed:
        click.echo("changed: nothing")
    elif report.replaced:
        click.echo(f"in place of {counted(report.replaced, 'prior')} that it had before")
