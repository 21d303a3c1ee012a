"""The command list: what a memory holds, by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import click

from graphmem.cli.options import NO_TASK, Command, Options, at_most, example, moment
from graphmem.cli.policies import CELLS, parse_state
from graphmem.cli.printing import span

_RATE = "worked=successes/trials 95_%_bounds=lower..upper"


@dataclass(frozen=True)
class Kind:
    """How one kind is read and shown."""

    read: str
    """The method of a memory."""
    options: str
    """Those that it takes; ``option=parameter`` where the names differ."""
    columns: str
    cells: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    hint: str = ""
    """What it takes to have some."""
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
        "changed=change.said confidence warned_of "
        "instead=better_alternative.strategy better_by=better_alternative.lift",
        {"warned_of": lambda row: "no" if row.usual else None},
        "one needs repeated failures with the same error",
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
