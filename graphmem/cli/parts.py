"""List what a memory holds, by kind, and the commands of its parts: people, lessons, skills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.main import NO_TASK, Command, Group, Options, at_most, example, moment, several
from graphmem.cli.policies import CELLS, parse_state
from graphmem.cli.printing import TEXT, print_answer, span
from graphmem.printable import counted
from graphmem.text.cells import cell

if TYPE_CHECKING:
    from graphmem.kinds import SkillForm
    from graphmem.models.reports import SkillImport, SkillReport


@click.group(cls=Group)
def people() -> None:
    """Keep preferences of users, knowledge of the world, and what agents may learn and read.

    `graphmem list` shows preferences, knowledge and scopes.
    """


@people.command()
@example('--url ./airline.graph people prefer ann seat "on the aisle"')
@click.argument("user")
@click.argument("category")
@click.argument("text")
@click.option("--source", default="explicit_instruction", help="Or correction, or inferred.")
@moment("--at", "When it was said")
def prefer(options: Options, /, user: str, category: str, text: str, **given: Any) -> None:
    """Store that USER wants TEXT in a CATEGORY. It supersedes the earlier preference."""
    stored = options.memory(must_exist=False).people.prefer(user, category, text, **given)
    done = "stored" if stored.created else "known already"
    late = "" if stored.in_force else "; a later one is in force"
    options.show(stored, f"{done}: {cell(stored.user, 40)} wants {cell(stored.text, 60)}{late}")


@people.command()
@example('--url ./airline.graph people know refunds "they take five days" --user ann')
@example('people know refunds "3 days" --contradicts 3d6c9d1f5d6d8a8f6f2b4d3a1c0e7b52')
@click.argument("domain")
@click.argument("fact")
@click.option("--source", default="user_stated", help="Or documented, observed or inferred.")
@click.option("--user", help="Who stated it.")
@several("--contradicts", metavar="ID", help="A known fact that it contradicts.")
@moment("--at", "When it was stated")
@moment("--valid-from", "From when it holds")
@moment("--valid-to", "Until when it holds")
def know(
    options: Options, /, domain: str, fact: str, contradicts: tuple[str, ...], **given: Any
) -> None:
    """Store a FACT of a DOMAIN."""
    known = options.memory(must_exist=False).people
    stored = known.know(domain, fact, contradicts=contradicts or None, **given)
    done = "stored" if stored.created else "known already:"
    text = f"{done} knowledge {stored.id}, confidence {stored.confidence:.3f}"
    for other in stored.may_contradict:
        fact = cell(other.fact, 60)
        text += f"\nmay contradict {fact!r}; if it does, add --contradicts {other.id}"
    options.show(stored, text)


@people.command()
@example("people scope grace --can-learn 'sql_*' --cannot-learn sql_admin --inherit-from ada")
@example("--url ./airline.graph people scope grace --remove")
@click.argument("agent")
@several("--can-learn", metavar="TYPE", help="It learns only such tasks; * is any text.")
@several("--cannot-learn", metavar="TYPE", help="It never learns such tasks.")
@several("--share-with", metavar="AGENT", help="Who may read its lessons; * is all.")
@several("--inherit-from", metavar="AGENT", help="Whose lessons it reads, if that one shares them.")
@click.option("--min-occurrences", type=click.IntRange(1), help="It reads lessons from so many on.")
@click.option("--remove", is_flag=True, help="Remove the scope.")
def scope(
    options: Options, /, agent: str, can_learn: tuple[str, ...], remove: bool, **given: Any
) -> None:
    """Set or replace the scope of AGENT: what it may learn, and whose lessons it reads.

    Without a scope an agent can learn everything, but reads only its own lessons.
    """
    parts = {"can_learn": can_learn, **given}
    if remove is any(parts.values()):
        raise click.UsageError(
            "give what AGENT may learn or read, or --remove alone; `graphmem list scopes` shows all"
        )
    scopes = options.memory(must_exist=False).scopes
    if remove:
        removed = scopes.remove(agent)
        text = f"removed the scope of {agent}" if removed else f"{agent} had no scope"
        options.show({"removed": removed}, text)
    else:
        stored = scopes.set(agent, can_learn=can_learn or None, **given)
        options.show(stored, f"set the scope of {stored.agent}")


@click.group(cls=Group)
def lessons() -> None:
    """Derive rules for all tasks, and count strategies as one.

    `graphmem list` shows heuristics, anti-patterns, rules and mistakes.
    """


@lessons.command()
@example("--url ./airline.graph lessons consolidate --force")
@click.option("--force", is_flag=True, help="Run also if it is not due.")
@click.option("--model", is_flag=True, help="Ask the model of the settings as well.")
def consolidate(options: Options, force: bool, model: bool) -> None:
    """Derive rules that hold for more than one task, if it is due.

    The model is that of GRAPHMEM_MODEL_BASE_URL, GRAPHMEM_MODEL_NAME and GRAPHMEM_MODEL_KEY.
    """
    report = options.memory().lessons.consolidate(model, force=force)
    not_due = f"not due: {report.since:,} of {report.every:,} episodes since the last time"
    options.show(report, print_answer if report.done else f"{not_due} (--force does it now)")


@lessons.command()
@example('--url ./airline.graph lessons merge "check the fare rules" "look up the fare rules"')
@example('--url ./airline.graph lessons merge "check the fare rules" --undo')
@click.argument("strategy")
@click.argument("other", required=False)
@click.option("--undo", is_flag=True, help="Let the strategies in STRATEGY count separately again.")
def merge(options: Options, strategy: str, other: str | None, undo: bool) -> None:
    """Count OTHER as STRATEGY wherever lessons are read.

    Both are texts or ids; nothing recorded changes.
    """
    if undo is (other is not None):
        raise click.UsageError("give OTHER, which is to count as STRATEGY, or --undo")
    found = options.memory().lessons
    if other is None:
        count = found.unmerge(strategy)
        text = f"{counted(count, 'merge')} undone" if count else "it was not merged"
        options.show({"unmerged": count}, text)
    else:
        options.show(
            {"id": found.merge(strategy, other)},
            f"{cell(other, TEXT)!r} counts as {cell(strategy, TEXT)!r} from now on; "
            "`graphmem lessons merge STRATEGY --undo` undoes it",
        )


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


_RATE = "worked=successes/trials 95_%_bounds=lower..upper"


@dataclass(frozen=True)
class Kind:
    """How one kind is read and shown."""

    read: str  # the method of a memory
    options: str  # those that it takes; ``option=parameter`` where the names differ
    columns: str
    cells: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    hint: str = ""  # what it takes to have some
    required: str | None = None

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the method, by option."""
        pairs = (one.partition("=") for one in self.options.split())
        return {option: parameter or option for option, _, parameter in pairs}


KINDS: Mapping[str, Kind] = {
    "episodes": Kind(
        "episodes",
        "limit task task_type agent strategy success since",
        "episode=id time=at agent task strategy=strategies worked=success",
    ),
    "tasks": Kind(
        "tasks",
        "limit task_type agent sort",
        f"task=text type=task_type {_RATE} tried=strategies best_strategy=best "
        "worked_there=best_successes/best_trials",
    ),
    "strategies": Kind(
        "strategies",
        "limit task task_type agent as_of",
        "strategy=text worked=successes/trials changed=change.said mean 95_%_bounds=lower..upper "
        "status tasks last_used=last_used_at",
    ),
    "policies": Kind(
        "policies.list",
        "limit agent state",
        f"state action agent q updates {_RATE} status last_update=last_updated_at",
        CELLS,
    ),
    "heuristics": Kind(
        "lessons.heuristics",
        "task_type agent min_confidence pooled",
        f"strategy agent type=task_type {_RATE} changed=change.said confidence status counted_with",
        {"counted_with": lambda row: tuple(one.strategy for one in row.pooled)},
        "one needs some trials, and successes in most of them",
    ),
    "anti-patterns": Kind(
        "lessons.anti_patterns",
        "task_type agent min_confidence",
        "strategy agent error=error_class failures=occurrences worked=successes "
        "changed=change.said confidence instead=better_alternative.strategy "
        "better_by=better_alternative.lift",
        hint="one needs repeated failures with the same error",
    ),
    "rules": Kind(
        "lessons.rules",
        "limit task agent",
        "rule task from=source for=supporting against=opposing confidence",
        {"rule": str, "task": lambda row: row.task or "all tasks"},
    ),
    "mistakes": Kind(
        "lessons.mistakes",
        "limit task agent owner=worker",
        "seen mistake=type task worker instead=correct_decision lesson weak",
    ),
    "predictions": Kind(
        "predictions.list",
        "limit status about=subject",
        "id about=text probability=probability% outcome status due happened error",
    ),
    "knowledge": Kind(
        "people.knowledge",
        "limit about=domain",
        "id domain fact confidence stated_by against_it",
        {
            "stated_by": lambda row: tuple(one.user or one.source for one in row.statements),
            "against_it": lambda row: tuple(
                one.fact for one in (*row.contradicts, *row.contradicted_by)
            ),
        },
    ),
    "preferences": Kind(
        "people.preferences",
        "user about=category history",
        "category preference=text source confidence stated in_force",
        {"stated": lambda row: row.at or row.recorded_at},
        required="user",
    ),
    "scopes": Kind(
        "scopes.list",
        "",
        "agent can_learn cannot_learn shares_with=share_with inherits_from=inherit_from "
        "occurrences=min_occurrences",
        {"can_learn": lambda row: "everything" if row.can_learn is None else row.can_learn},
    ),
    "levels": Kind("levels.names", "agent owner", "level=name"),
    "lenses": Kind(
        "levels.lenses",
        "agent owner",
        "lens=name looks_at=levels not_older_than at_most=limit purpose",
        {"not_older_than": lambda row: span(row.max_age, "")},
    ),
    "cycles": Kind(
        "cycles.list",
        "about=subject",
        "cycle=kind peak=when p amplitude events only timezone",
        {"p": lambda row: f"{row.p_value:.2g}"},
        "`graphmem policies cycles SUBJECT --store` looks for them",
    ),
}
"""What can be listed, in the order of the help."""


@click.command("list", cls=Command)
@example("--url ./airline.graph list")
@example('--url ./airline.graph list strategies --task "change a seat"')
@example("--url ./airline.graph list tasks --sort worst --limit 5")
@example("--url ./airline.graph list episodes --failure --agent gpt-4o")
@click.argument("kind", type=click.Choice(tuple(KINDS)), required=False, metavar="[KIND]")
@at_most(20)
@click.option("--task", help="Only of this task: its key, id or wording.")
@click.option("--task-type", help="Only of tasks of this type.")
@click.option("--agent", help="What this agent may read; policies: only its own.")
@click.option("--user", help="preferences: whose they are.")
@click.option("--owner", help="levels, lenses: only of this owner; mistakes: of this worker.")
@click.option("--strategy", help="episodes: only with this strategy, its text or id.")
@click.option("--success/--failure", default=None, help="episodes: that worked, or did not.")
@moment("--since", "episodes: since this time")
@moment("--as-of", "strategies: from what was recorded by this time")
@click.option("--sort", help="tasks: trials (most first), best, worst (by bounds), or latest.")
@click.option("--state", multiple=True, help="policies: in this state; see `graphmem policies`.")
@click.option("--min-confidence", type=float, help="heuristics, anti-patterns: at least this.")
@click.option("--pooled", is_flag=True, default=None, help="heuristics: count what is similar.")
@click.option("--status", help="predictions: open, resolved or expired.")
@click.option(
    "--about", help="predictions, cycles: subject; knowledge: domain; preferences: category."
)
@click.option("--history", is_flag=True, default=None, help="preferences: also superseded ones.")
def list_(options: Options, /, kind: str | None, limit: int, **given: Any) -> None:
    """List what the memory holds; without KIND count it.

    KIND is episodes, tasks, strategies, policies, heuristics, anti-patterns, rules, mistakes,
    predictions, knowledge, preferences, scopes, levels, lenses or cycles.
    `graphmem explain ID` tells more of each.
    """
    filters = {name: value for name, value in given.items() if value not in (None, ())}
    _check_options(kind, filters)
    memory = options.memory()
    if kind is None:
        counts = memory.stats()
        options.show(counts)
        if not counts.episodes and not options.as_json:
            click.echo("nothing is learned yet: try `graphmem seed LOG` or `graphmem learn`")
        return
    shown = KINDS[kind]
    if "state" in filters:
        filters["state"] = parse_state(filters["state"], "--state")
    if "limit" in shown.parameters:
        filters["limit"] = limit
    read = attrgetter(shown.read)(memory)
    rows = read(**{shown.parameters[name]: value for name, value in filters.items()})[:limit]
    rows = [{"name": row} if isinstance(row, str) else row for row in rows]
    hint = NO_TASK if kind == "strategies" and "task" in filters else shown.hint
    options.show_rows(rows, shown.columns, f"no {kind}{hint and f': {hint}'}", **shown.cells)


def _check_options(kind: str | None, filters: Mapping[str, Any]) -> None:
    fitting = KINDS[kind].parameters if kind else ()
    for name in filters:
        if name not in fitting:
            takers = ", ".join(one for one in KINDS if name in KINDS[one].parameters)
            option = "--success" if name == "success" else f"--{name.replace('_', '-')}"
            where = f"`list {kind}`" if kind else "`list` without a KIND"
            raise click.UsageError(f"{where} does not take {option}; these do: {takers}")
    if kind and (required := KINDS[kind].required) and required not in filters:
        raise click.UsageError(f"`list {kind}` needs --{required} {required.upper()}")
