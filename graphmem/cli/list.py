"""The command list: what a memory holds, by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import NO_TASK, Options, at_most, example, moment
from graphmem.cli.policies import CELLS, parse_state
from graphmem.cli.printing import span

if TYPE_CHECKING:
    from graphmem.memory import Memory

_RATE = "worked=successes/trials 95_%_bounds=lower..upper"


@dataclass(frozen=True)
class Kind:
    """How one kind is read and shown."""

    read: Callable[..., Sequence[Any]]
    """Takes the memory, and of the options those that this kind takes."""
    options: str
    columns: str
    nothing: str
    cells: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    required: str | None = None


def _policies(memory: Memory, *, state: tuple[str, ...] = (), limit: int, **filters: Any) -> Any:
    place = parse_state(state, "--state") if state else None
    return memory.policies.list(place, limit=limit, **filters)


KINDS: Mapping[str, Kind] = {
    "episodes": Kind(
        lambda memory, **given: memory.episodes(**given),
        "limit task task_type agent strategy success since",
        "episode=id time=at agent task strategy=strategies worked=success",
        "no episode fits",
    ),
    "tasks": Kind(
        lambda memory, **given: memory.tasks(**given),
        "limit task_type agent sort",
        f"task=text type=task_type {_RATE} tried=strategies best_strategy=best "
        "worked_there=best_successes/best_trials",
        "no task fits",
    ),
    "strategies": Kind(
        lambda memory, **given: memory.strategies(**given),
        "limit task task_type agent as_of",
        "strategy=text worked=successes/trials mean 95_%_bounds=lower..upper status tasks "
        "last_used=last_used_at",
        "nothing is known of this yet: no episode used a strategy there",
    ),
    "policies": Kind(
        _policies,
        "limit agent state",
        f"state action agent q updates {_RATE} status last_update=last_updated_at",
        "there are no such policies",
        CELLS,
    ),
    "heuristics": Kind(
        lambda memory, *, limit, **given: memory.lessons.heuristics(**given)[:limit],
        "limit task_type agent min_confidence pooled",
        f"strategy agent type=task_type {_RATE} confidence status counted_with",
        "no such heuristics; one needs some trials, and successes in most of them",
        {"counted_with": lambda row: tuple(one.strategy for one in row.pooled)},
    ),
    "anti-patterns": Kind(
        lambda memory, *, limit, **given: memory.lessons.anti_patterns(**given)[:limit],
        "limit task_type agent min_confidence",
        "strategy agent error=error_class failures=occurrences worked=successes warned_of "
        "instead=better_alternative.strategy better_by=better_alternative.lift",
        "no such anti-patterns; one needs repeated failures with the same error",
        {"warned_of": lambda row: "no" if row.usual else None},
    ),
    "rules": Kind(
        lambda memory, **given: memory.lessons.rules(**given),
        "limit task agent",
        "rule task from=source for=supporting against=opposing confidence",
        "no rule holds here yet",
        {"rule": str, "task": lambda row: row.task or "all tasks"},
    ),
    "mistakes": Kind(
        lambda memory, *, owner=None, **given: memory.lessons.mistakes(worker=owner, **given),
        "limit task agent owner",
        "seen mistake=type task worker instead=correct_decision lesson weak",
        "no such mistakes",
    ),
    "predictions": Kind(
        lambda memory, *, about=None, **given: memory.predictions.list(subject=about, **given),
        "limit status about",
        "id about=text probability=probability% outcome status due happened error",
        "no prediction fits",
    ),
    "knowledge": Kind(
        lambda memory, *, about=None, **given: memory.people.knowledge(about, **given),
        "limit about",
        "id domain fact confidence stated_by against_it",
        "nothing is known yet",
        {
            "stated_by": lambda row: tuple(one.user or one.source for one in row.statements),
            "against_it": lambda row: tuple(
                one.fact for one in (*row.contradicts, *row.contradicted_by)
            ),
        },
    ),
    "preferences": Kind(
        lambda memory, *, user, about=None, **given: memory.people.preferences(
            user, about, **given
        ),
        "user about history",
        "category preference=text source confidence stated in_force",
        "no such preferences",
        {"stated": lambda row: row.at or row.recorded_at},
        required="user",
    ),
    "scopes": Kind(
        lambda memory: memory.scopes.list(),
        "",
        "agent can_learn cannot_learn shares_with=share_with inherits_from=inherit_from "
        "occurrences=min_occurrences",
        "no agent has a scope",
        {"can_learn": lambda row: "everything" if row.can_learn is None else row.can_learn},
    ),
    "levels": Kind(
        lambda memory, **given: [{"name": name} for name in memory.levels.names(**given)],
        "agent owner",
        "level",
        "there are no levels",
        {"level": lambda row: row["name"]},
    ),
    "lenses": Kind(
        lambda memory, **given: memory.levels.lenses(**given),
        "agent owner",
        "lens=name looks_at=levels not_older_than at_most=limit purpose",
        "nobody put a lens",
        {"not_older_than": lambda row: span(row.max_age, "")},
    ),
    "cycles": Kind(
        lambda memory, *, about=None: memory.cycles.list(about),
        "about",
        "cycle=kind peak=when p amplitude events only timezone",
        "no cycle is stored; `graphmem policies cycles SUBJECT --store` looks for them",
        {"p": lambda row: f"{row.p_value:.2g}"},
    ),
}
"""What can be listed, in the order of the help."""


@click.command("list")
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
@click.pass_obj
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
    if "limit" in shown.options.split():
        filters["limit"] = limit
    rows = shown.read(memory, **filters)[:limit]
    nothing = NO_TASK if kind == "strategies" and "task" in filters else shown.nothing
    options.show_rows(rows, shown.columns, nothing, **shown.cells)


def _check_options(kind: str | None, filters: Mapping[str, Any]) -> None:
    fitting = KINDS[kind].options.split() if kind else []
    for name in filters:
        if name not in fitting:
            takers = ", ".join(one for one in KINDS if name in KINDS[one].options.split())
            option = "--success" if name == "success" else f"--{name.replace('_', '-')}"
            where = f"`list {kind}`" if kind else "`list` without a KIND"
            raise click.UsageError(f"{where} does not take {option}; these do: {takers}")
    if kind and (required := KINDS[kind].required) and required not in filters:
        raise click.UsageError(f"`list {kind}` needs --{required} {required.upper()}")
