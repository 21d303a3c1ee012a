"""The command list: what a memory holds, by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli import states
from graphmem.cli.options import MOMENT, Options, at_most
from graphmem.cli.printing import cell, print_facts, print_lines
from graphmem.printable import percent

if TYPE_CHECKING:
    from datetime import datetime

    from graphmem.memory import Memory
    from graphmem.models import Knowledge, Scope
    from graphmem.models.lessons import AntiPattern, Heuristic, Rule
    from graphmem.models.predictions import Prediction
    from graphmem.models.reports import Community, TaskRow

NO_TASK = (
    "nothing is known of this task: --task takes a key or the whole wording, as `graphmem list "
    "tasks` shows them; `graphmem recall` finds tasks that are like a text"
)
_NAMES = {
    "outcomes": "results on tasks",
    "co_occurrences": "pairs used together",
    "abandoned": "without an outcome",
    "first_at": "first episode",
    "last_at": "latest episode",
}
"""Names of counts that their fields do not say well."""


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


def _strategies(memory: Memory, *, like: str | None = None, limit: int, **filters: Any) -> Any:
    if like is None:
        return memory.strategies(limit=limit, **filters)
    if filters:
        raise click.UsageError("--like stands alone: it orders all strategies by their texts")
    return memory.similar(like, limit)


def _policies(memory: Memory, *, state: tuple[str, ...] = (), limit: int, **filters: Any) -> Any:
    place = states.parse(state, "--state") if state else None
    return memory.policies.list(place, limit=limit, **filters)


def _levels(memory: Memory, **filters: Any) -> list[dict[str, str]]:
    return [{"name": name} for name in memory.levels.names(**filters)]


def _day(moment: datetime | None) -> str | None:
    return f"{moment:%Y-%m-%d}" if moment else None


def _best(row: TaskRow) -> str:
    return f"{row.best_successes} of {row.best_trials}" if row.best else ""


def _type(row: Heuristic) -> str:
    return "none" if row.task_type == "general" else row.task_type


def _task(row: Rule) -> str:
    return "all tasks" if row.task is None else row.task


def _pooled(row: Heuristic) -> str:
    return "; ".join(
        f"{cell(one.strategy, 60)} ({one.successes} of {one.trials}, times {one.similarity:.2f})"
        for one in row.pooled
    )


def _better(row: AntiPattern, form: str, nothing: str = "") -> str:
    better = row.better_alternative
    return nothing if better is None else form.format(better)


def _expected(row: Prediction) -> str:
    expected = [] if row.probability is None else [percent(row.probability)]
    return ", ".join([*expected, *([] if row.outcome is None else [cell(row.outcome)])])


def _status(row: Prediction) -> str:
    if row.status == "open" and row.due is not None:
        return f"open, due {row.due:%Y-%m-%d}"
    if row.happened is not None:
        return "happened" if row.happened else "did not happen"
    return row.how or row.status


def _sources(row: Knowledge) -> str:
    return ", ".join(dict.fromkeys(one.user or one.source for one in row.statements))


def _against(row: Knowledge) -> str:
    return "; ".join(dict.fromkeys(one.fact for one in (*row.contradicts, *row.contradicted_by)))


def _can_learn(row: Scope) -> str:
    return "everything" if row.can_learn is None else ", ".join(row.can_learn) or "nothing"


def _few(row: Community) -> str:
    texts = [cell(text, 60) for text in row.strategies[:5]]
    more = len(row.strategies) - len(texts)
    return "; ".join([*texts, *([f"and {more:,} more"] if more else [])])


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
        "task=text type=task_type worked 95_%_bounds=bounds tried=strategies best_strategy=best "
        "worked_there",
        "no task fits",
        {"best": lambda row: row.best or "none worked", "worked_there": _best},
    ),
    "strategies": Kind(
        _strategies,
        "limit task task_type agent like",
        "strategy=text similarity linked worked mean 95_%_bounds=bounds status tasks last_used",
        "nothing is known of this yet: no episode used a strategy there",
        {
            "similarity": lambda row: getattr(row, "similarity", None),
            "linked": lambda row: "yes" if getattr(row, "linked", False) else None,
            "bounds": lambda row: (
                f"{row.lower:.2f} to {row.upper:.2f}"
                if hasattr(row, "upper")
                else f"over {row.lower:.2f}"
            ),
            "tasks": lambda row: getattr(row, "tasks", None),
            "last_used": lambda row: _day(getattr(row, "last_used_at", None)),
        },
    ),
    "policies": Kind(
        _policies,
        "limit agent state",
        "state action agent q updates worked bounds status last_update",
        "there are no such policies",
        {**states.CELLS, "last_update": lambda row: _day(row.last_updated_at)},
    ),
    "heuristics": Kind(
        lambda memory, *, limit, **given: memory.lessons.heuristics(**given)[:limit],
        "limit task_type agent min_confidence pooled",
        "strategy agent type worked confidence 95_%_bounds=bounds status counted_with",
        "no such heuristics; one needs some trials, and successes in most of them",
        {"type": _type, "counted_with": _pooled},
    ),
    "anti-patterns": Kind(
        lambda memory, *, limit, **given: memory.lessons.anti_patterns(**given)[:limit],
        "limit task_type agent min_confidence",
        "strategy agent error=error_class failed warned_of instead which_worked better_by",
        "no such anti-patterns; one needs repeated failures with the same error",
        {
            "failed": lambda row: f"{row.occurrences} of {row.occurrences + row.successes}",
            "warned_of": lambda row: "no" if row.usual else None,
            "instead": lambda row: _better(row, "{0.strategy}", "nothing better is known"),
            "which_worked": lambda row: _better(row, "{0.successes} of {0.trials}"),
            "better_by": lambda row: _better(row, "{0.lift:+.2f}"),
        },
    ),
    "rules": Kind(
        lambda memory, **given: memory.lessons.rules(**given),
        "limit task agent",
        "rule task from=source for=supporting against=opposing confidence",
        "no rule holds here yet",
        {"rule": str, "task": _task},
    ),
    "mistakes": Kind(
        lambda memory, *, owner=None, **given: memory.lessons.mistakes(worker=owner, **given),
        "limit task agent owner",
        "seen mistake=type task worker instead=correct_decision lesson",
        "no such mistakes",
    ),
    "scores": Kind(
        lambda memory, *, task, limit: memory.lessons.scores(task, last=limit),
        "limit task",
        "when=at score worked=success agent what_happened=summary",
        NO_TASK,
        required="task",
    ),
    "predictions": Kind(
        lambda memory, *, about=None, **given: memory.predictions.list(subject=about, **given),
        "limit status about",
        "id about=text expected status error",
        "no prediction fits",
        {"expected": _expected, "status": _status},
    ),
    "knowledge": Kind(
        lambda memory, *, about=None, **given: memory.people.knowledge(about, **given),
        "limit about",
        "id domain fact confidence stated_by against_it",
        "nothing is known yet",
        {"stated_by": _sources, "against_it": _against},
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
        {"can_learn": _can_learn},
    ),
    "levels": Kind(
        _levels,
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
        {"not_older_than": lambda row: row.max_age and f"{row.max_age:,.6g} s"},
    ),
    "communities": Kind(
        lambda memory, *, limit: memory.communities(limit),
        "limit",
        "strategies number worked together alike",
        "no strategies were used together, and none are linked as alike",
        {
            "strategies": _few,
            "number": lambda row: len(row.strategies),
            "worked": lambda row: f"{row.successes} of {row.uses}",
        },
    ),
    "cycles": Kind(
        lambda memory, *, about=None: memory.cycles.list(about),
        "about",
        "cycle=kind peak=when p amplitude events only timezone",
        "no cycle is stored; `graphmem policies cycles SUBJECT --store` looks for them",
        {"p": lambda row: f"{row.p_value:.2g}", "amplitude": lambda row: f"{row.amplitude:g}"},
    ),
}
"""What can be listed, in the order of the help."""


@click.command("list")
@click.argument("kind", type=click.Choice(tuple(KINDS)), required=False, metavar="[KIND]")
@at_most(20)
@click.option("--task", help="Only of this task: its key, id or wording.")
@click.option("--task-type", help="Only of tasks of this type.")
@click.option("--agent", help="What this agent may read; policies: only its own.")
@click.option("--user", help="preferences: whose they are.")
@click.option("--owner", help="levels, lenses: only of this owner; mistakes: of this worker.")
@click.option("--strategy", help="episodes: only with this strategy, its text or id.")
@click.option("--success/--failure", default=None, help="episodes: that worked, or did not.")
@click.option("--since", type=MOMENT, help="episodes: since this ISO 8601 time with time zone.")
@click.option(
    "--sort",
    type=click.Choice(("trials", "best", "worst", "latest")),
    help="tasks: most episodes first, the best or worst bound, or the latest episode.",
)
@click.option("--like", metavar="TEXT", help="strategies: the texts most like this one first.")
@click.option(
    "--state", multiple=True, metavar="STATE", help="policies: in this state; see `policies`."
)
@click.option(
    "--min-confidence",
    type=float,
    metavar="NUMBER",
    help="heuristics, anti-patterns: at least this confidence, from 0 to 1.",
)
@click.option(
    "--pooled", is_flag=True, default=None, help="heuristics: count what is similar, and name it."
)
@click.option(
    "--status",
    type=click.Choice(["open", "resolved", "expired"]),
    help="predictions: only those.",
)
@click.option(
    "--about",
    metavar="TEXT",
    help="predictions, cycles: their subject; knowledge: its domain; preferences: their category.",
)
@click.option("--history", is_flag=True, default=None, help="preferences: also superseded ones.")
@click.pass_obj
def list_(options: Options, /, kind: str | None, limit: int, **given: Any) -> None:
    """List what the memory holds; without KIND count it.

    KIND is episodes, tasks, strategies, policies, heuristics, anti-patterns, rules, mistakes,
    scores, predictions, knowledge, preferences, scopes, levels, lenses, communities or cycles.
    `graphmem explain ID` tells more of each.

    \b
    Examples:
      graphmem --url ./airline.graph list
      graphmem --url ./airline.graph list strategies --task "change a seat"
      graphmem --url ./airline.graph list tasks --sort worst --limit 5
      graphmem --url ./airline.graph list episodes --failure --agent gpt-4o
    """
    unset = (None, ())
    filters = {name: value for name, value in given.items() if value not in unset}
    _check_options(kind, filters)
    memory = options.memory()
    if given["like"]:
        from graphmem.cli.asking import embed_new_texts

        embed_new_texts(memory, options)
    if kind is None:
        counts = memory.stats()
        facts = {_NAMES.get(name, name): value for name, value in counts}
        options.show(counts, lambda: print_facts(facts))
        if not counts.episodes and not options.as_json:
            click.echo("nothing is learned yet: try `graphmem seed LOG` or `graphmem learn`")
        return
    shown = KINDS[kind]
    if "limit" in shown.options.split():
        filters["limit"] = limit
    rows = shown.read(memory, **filters)[:limit]
    nothing = NO_TASK if kind == "strategies" and "task" in filters else shown.nothing
    options.show_rows(rows, shown.columns, nothing, **shown.cells)
    if kind == "anti-patterns" and any(row.usual for row in rows) and not options.as_json:
        print_lines(
            "warned of: no  It works on such tasks no less often than other ways, so its errors "
            "are those of each run. recall and choose leave it out.",
            0,
        )


def _check_options(kind: str | None, filters: Mapping[str, Any]) -> None:
    """Refuse an option that does not fit the kind, and say which kinds take it."""
    fitting = KINDS[kind].options.split() if kind else []
    for name in filters:
        if name not in fitting:
            takers = ", ".join(one for one in KINDS if name in KINDS[one].options.split())
            option = "--success" if name == "success" else f"--{name.replace('_', '-')}"
            where = f"`list {kind}`" if kind else "`list` without a KIND"
            raise click.UsageError(f"{where} does not take {option}; these do: {takers}")
    if kind and (required := KINDS[kind].required) and required not in filters:
        raise click.UsageError(f"`list {kind}` needs --{required} {required.upper()}")
