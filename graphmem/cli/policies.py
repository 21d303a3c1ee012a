"""The commands of memory.policies: what to do in a state, and learning it step by step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal

import click

from graphmem.cli import plotting
from graphmem.cli.options import Group, Options, at_most, moment
from graphmem.cli.printing import cell, print_json, print_table, progress
from graphmem.printable import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from graphmem.memory import Memory
    from graphmem.models import Candidate, CrystallizeReport, Point, Policy

AGENT = click.option("--agent", default="default", show_default=True, help="Whose policies.")
SPEC = click.option("--spec", metavar="JSON", help="Further identification of the action.")
AT = click.option(
    "--at", callback=moment, metavar="TIME", help="Values at this ISO 8601 time [default: now]."
)
STORED = click.option("--stored", is_flag=True, help="Rank by the stored values: without decay.")
STATE = click.argument("state", nargs=-1, required=True, metavar="STATE...")
SUCCESS = click.Choice(["yes", "no"])
SHOWN = 20
"""Candidates in one table; --json lists all."""
DRAWN = 12
"""Most actions in one picture; more lines would be indistinguishable."""


@click.group(cls=Group)
def policies() -> None:
    """Learn from rewards and outcomes what to do in a state.

    STATE is JSON ('{"task": "deploy"}'), a fingerprint (16 hex digits), or NAME=VALUE for each
    feature (task=deploy replicas=3). A value is JSON if it parses as JSON, else text.
    """


@policies.command()
@STATE
@AGENT
@click.option(
    "--explore",
    type=click.Choice(["ucb", "epsilon"]),
    help="Prefer rarely tried actions, or sometimes take a random one.",
)
@AT
@STORED
@click.pass_obj
def best(
    options: Options,
    state: tuple[str, ...],
    agent: str,
    explore: Literal["ucb", "epsilon"] | None,
    at: datetime | None,
    stored: bool,
) -> None:
    """Show the action with the highest value in STATE.

    \b
    Example:
      graphmem --url ./ops.graph policies best task=deploy env=staging
    """
    place = state_of(state)
    memory = options.memory()
    policy = memory.policies.best(place, agent=agent, explore=explore, at=at, stored=stored)
    if options.as_json:
        print_json(policy)
    elif policy is not None:
        print_policies([policy], at=at)
    elif observed := len(memory.policies.list(place, agent=agent)):
        click.echo(
            f"no action has a value in this state (agent {cell(agent)}); "
            f"{observed} known without one, see `graphmem policies show`"
        )
    else:
        click.echo(f"nothing is known of this state (agent {cell(agent)})")
    options.note_snapshot()


@policies.command("list")
@click.option("--agent", help="Only this agent's; default: all agents.")
@at_most(20)
@click.pass_obj
def list_(options: Options, agent: str | None, limit: int) -> None:
    """List policies by value, the highest first.

    \b
    Example:
      graphmem --url ./ops.graph policies list --agent ada --limit 5
    """
    policies = options.memory().policies.list(agent=agent, limit=limit)

    def table() -> None:
        if policies:
            print_policies(policies, states=True)
        else:
            click.echo("there are no policies yet")

    options.show(policies, table)


@policies.command()
@STATE
@click.option("--agent", help="Only this agent's; default: all agents.")
@click.option("--action", help="Only this action.")
@AT
@STORED
@plotting.option("how they came about")
@click.pass_obj
def show(
    options: Options,
    state: tuple[str, ...],
    agent: str | None,
    action: str | None,
    at: datetime | None,
    stored: bool,
    plot: str | None,
) -> None:
    """Show the policies of the actions in STATE.

    \b
    Example:
      graphmem --url ./ops.graph policies show task=deploy --at 2026-05-01T09:00:00Z
    """
    place = state_of(state)
    if plot is not None:
        plotting.check(plot)
    memory = options.memory()
    shown = [
        policy
        for policy in memory.policies.list(place, agent=agent, at=at, stored=stored)
        if action is None or policy.action == action
    ]
    gaps = 0
    if plot is not None and shown:
        histories: dict[str, list[Point]] = {policy.id: [] for policy in shown[:DRAWN]}
        for point in memory.policies.history([*histories]):
            histories[point.policy].append(point)
        gaps = _unrecorded(shown[:DRAWN], histories)
        draw(shown, histories, plot)

    def table() -> None:
        if not shown:
            click.echo("nothing is known of this")
            return
        click.echo(f"state {described(shown[0])}")
        print_policies(shown, at=at)
        if plot is not None:
            note = f"; {counted(gaps, 'update')} made without a record: missing" if gaps else ""
            click.echo(f"drawn in {plot}{note}")

    options.show(shown, table)


@policies.command()
@STATE
@click.argument("action")
@click.option("--reward", type=float, required=True, help="Any finite number.")
@click.option(
    "--next",
    "after",
    multiple=True,
    metavar="STATE",
    help="The next state; NAME=VALUE may be given several times.",
)
@click.option("--next-max-q", type=float, help="The value of the best action in the next state.")
@click.option("--terminal", is_flag=True, help="There is no next state.")
@SPEC
@click.option("--agent", default="default", show_default=True, help="Who learns.")
@click.option("--alpha", type=float, help="Learning rate in (0, 1]; default: the setting.")
@click.option("--gamma", type=float, help="Discount in [0, 1]; default: the setting.")
@click.option("--success", type=SUCCESS, help="Also count the step as a trial that worked or not.")
@click.pass_obj
def update(
    options: Options,
    /,
    state: tuple[str, ...],
    action: str,
    reward: float,
    after: tuple[str, ...],
    next_max_q: float | None,
    terminal: bool,
    spec: str | None,
    success: str | None,
    **given: Any,
) -> None:
    """Learn the reward of ACTION in STATE, and what came next.

    Give one of --next, --next-max-q and --terminal.

    \b
    Example:
      graphmem --url ./ops.graph policies update task=deploy run_playbook \\
          --reward 1 --next task=verify
    """
    if (after != ()) + (next_max_q is not None) + terminal != 1:
        raise click.UsageError("give one of --next STATE, --next-max-q Q and --terminal")
    arguments = {
        "state": state_of(state),
        "next_state": state_of(after, "--next") if after else None,
        "spec": _spec(spec),
        "success": None if success is None else success == "yes",
    }
    done = options.memory(must_exist=False).policies.update(
        action=action, reward=reward, next_max_q=next_max_q, terminal=terminal, **arguments, **given
    )
    if options.as_json:
        print_json(done._asdict())
        return
    click.echo(
        f"value {done.q:.6g} (TD error {done.td_error:.6g}), "
        f"event {done.seq} of agent {cell(given['agent'])}, policy {done.policy_id}"
    )


@policies.command()
@STATE
@click.argument("action")
@click.option("--success", type=SUCCESS, required=True, help="Whether it worked.")
@SPEC
@click.option("--agent", default="default", show_default=True, help="Who did it.")
@click.pass_obj
def observe(
    options: Options,
    state: tuple[str, ...],
    action: str,
    success: str,
    spec: str | None,
    agent: str,
) -> None:
    """Record whether ACTION worked in STATE. The value stays as it is.

    `graphmem policies crystallize` makes policies of actions that worked often enough.

    \b
    Example:
      graphmem --url ./ops.graph policies observe task=deploy run_playbook --success yes
    """
    place, details = state_of(state), _spec(spec)
    known = options.memory(must_exist=False).policies
    policy = known.get(known.observe(place, action, success == "yes", spec=details, agent=agent))
    assert policy is not None  # noqa: S101 - it was just counted
    options.show(
        policy,
        lambda: click.echo(
            f"{named(policy)} worked in {policy.successes:,} of {policy.trials:,} trials "
            f"(bounds {policy.lower:.2f} to {policy.upper:.2f}), policy {policy.id}"
        ),
    )


@policies.command()
@click.option("--agent", help="Only this agent's episodes; default: all agents.")
@click.option("--alpha", type=float, help="Learning rate in (0, 1]; default: the setting.")
@click.option("--gamma", type=float, help="Discount in [0, 1]; default: the setting.")
@click.pass_obj
def learn(options: Options, agent: str | None, alpha: float | None, gamma: float | None) -> None:
    """Learn from the steps of recorded episodes, by TD(0).

    It takes each episode once, and only steps that have a state.

    \b
    Example:
      graphmem --url ./grid.graph policies learn
    """
    memory = options.memory()
    with progress("learning", options) as advance:
        report = memory.policies.learn_episodes(
            agent,
            alpha=alpha,
            gamma=gamma,
            on_progress=None if advance is None else lambda done: advance(done, None),
        )

    def table() -> None:
        click.echo(
            f"{counted(report.transitions, 'transition')} of {report.episodes:,} episodes learned"
            + (f"; incomplete steps: {report.incomplete:,}" if report.incomplete else "")
        )

    options.show(report, table)


@policies.command()
@click.option("--agent", help="Only this agent; default: all agents, each separately.")
@click.option("--min-events", type=int, help="Required trials; default: the setting (3).")
@click.option("--threshold", type=float, help="Lower bound to pass; default: the setting (0.6).")
@click.option("--z", type=float, help="Normal quantile of the bound; default: the setting (1.96).")
@click.pass_obj
def crystallize(
    options: Options,
    agent: str | None,
    min_events: int | None,
    threshold: float | None,
    z: float | None,
) -> None:
    """Crystallize actions that worked often enough. It takes back those that no longer do.

    \b
    Example:
      graphmem --url ./ops.graph policies crystallize --threshold 0.5
    """
    memory = options.memory()
    report = memory.policies.crystallize(agent, min_events=min_events, threshold=threshold, z=z)
    options.show(report, lambda: _crystallized(memory, report))


def _crystallized(memory: Memory, report: CrystallizeReport) -> None:
    click.echo(
        f"{len(report.created):,} created, {len(report.updated):,} updated, "
        f"{len(report.taken_back):,} taken back, {report.kept:,} kept as they are, "
        f"{report.below_count:,} below"
    )
    for title, candidates in (
        ("Created", report.created),
        ("Updated", report.updated),
        ("Taken back", report.taken_back),
    ):
        _candidates(memory, title, candidates, short=title == "Taken back")
    _candidates(memory, "The nearest of those below", report.below, short=True)
    click.echo(_needs(report))


def _candidates(
    memory: Memory, title: str, candidates: Sequence[Candidate], *, short: bool
) -> None:
    """Print candidates; those ``short`` of the threshold with how far."""
    if not candidates:
        return
    columns = [("state", "left"), ("action", "left"), ("agent", "left"), ("worked", "right")]
    columns += [("lower bound", "right")]
    if short:
        columns += [("missing", "right"), ("successes in a row that would do", "right")]
    rows = []
    for item in candidates[:SHOWN]:
        policy = memory.policies.get(item.id)
        if policy is None:  # erased meanwhile
            continue
        row: list[Any] = [described(policy), named(policy), item.agent]
        row += [f"{item.successes} of {item.trials}", item.lower]
        rows.append([*row, item.missing, item.more] if short else row)
    print_table(title, columns, rows)
    if len(candidates) > SHOWN:
        click.echo(f"... and {len(candidates) - SHOWN:,} more; --json lists all")


def _needs(report: CrystallizeReport) -> str:
    """Say what these thresholds need: "6 of 6 at z 1.96 is the least that passes 0.6"."""
    text = (
        f"{report.needed} of {report.needed} at z {report.z:g} is the least that passes "
        f"{report.threshold:g}"
    )
    asked = f" ({report.min_events} trials are asked for)"
    return text + asked if report.needed == report.min_events else text


# What is given


def state_of(words: Sequence[str], name: str = "STATE") -> dict[str, Any] | str:
    """Return the features or the fingerprint in the words of an argument.

    Raises:
        UsageError: they are neither JSON, nor a fingerprint, nor NAME=VALUE.
    """
    forms = "give JSON, a fingerprint (16 hex digits), or NAME=VALUE for each feature"
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            parsed = _json(words[0])
        except ValueError as error:
            raise click.UsageError(f"{name} {words[0]!r} is not JSON ({error}); {forms}") from error
        assert isinstance(parsed, dict)  # noqa: S101 - it begins with a brace
        return parsed
    if len(words) == 1 and "=" not in words[0]:
        if len(words[0]) != 16:
            raise click.UsageError(f"{name} {words[0]!r}: {forms}")
        return words[0]
    features: dict[str, Any] = {}
    for word in words:
        feature, equals, value = word.partition("=")
        if not equals or not feature:
            raise click.UsageError(f"{name} {word!r}: {forms}")
        if feature in features:
            raise click.UsageError(f"{name}: {feature!r} is given twice")
        try:
            features[feature] = _json(value)
        except ValueError:
            features[feature] = value
    return features


def _spec(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return _json(text)
    except ValueError as error:
        raise click.UsageError(f"--spec {text!r} is not JSON ({error})") from error


def _json(text: str) -> Any:
    """Parse JSON; raise for NaN and Infinity, which Python accepts."""

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not a JSON number")

    return json.loads(text, parse_constant=refuse)


# What is shown


def print_policies(
    policies: Sequence[Policy], *, states: bool = False, at: datetime | None = None
) -> None:
    """Print a table of policies; either with their states, or with confidence and dates.

    With ``at``, their values at that time are beside the stored ones.
    """
    columns = [("action", "left"), ("agent", "left"), ("q", "right"), ("updates", "right")]
    columns += [("worked", "right"), ("bounds", "right"), ("status", "left")]
    if states:
        columns.insert(0, ("state", "left"))
    else:
        columns += [("confidence", "right"), ("last update", "left")]
    if at is not None:
        columns.insert(3, ("value then", "right"))
    rows = []
    for policy in policies:
        row: list[Any] = [named(policy), policy.agent, policy.q, policy.updates]
        row += [f"{policy.successes} of {policy.trials}"]
        row += [f"{policy.lower:.2f} to {policy.upper:.2f}"]
        row += [policy.status + (", crystallized" if policy.crystallized else "")]
        if states:
            row.insert(0, described(policy))
        else:
            row += [policy.confidence if policy.signals else "no signals"]
            row += [policy.last_updated_at.strftime("%Y-%m-%d") if policy.last_updated_at else ""]
        if at is not None:
            row.insert(3, policy.score)
        rows.append(row)
    print_table(None, columns, rows)


def described(policy: Policy) -> str:
    """Return the state of a policy as NAME=VALUE, else its fingerprint."""
    if not policy.features:
        return policy.state
    return " ".join(f"{name}={_value(value)}" for name, value in policy.features.items())


def named(policy: Policy) -> str:
    """Return the action of a policy, with its spec."""
    return policy.action if policy.spec is None else f"{policy.action} {_value(policy.spec)}"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# The picture


def draw(policies: Sequence[Policy], histories: Mapping[str, Sequence[Point]], file: str) -> None:
    """Draw the values over updates, and the success rates with their bounds over trials.

    Raises:
        OSError: the file cannot be written.
    """
    shown = policies[:DRAWN]
    figure = plotting.blank(11, 8)
    above, below = figure.subplots(2, 1)
    several = len({policy.agent for policy in shown}) > 1
    for policy, colour in zip(shown, cycle(_colours()), strict=False):
        name = plotting.plain(named(policy) + (f" ({policy.agent})" if several else ""), 40)
        points = histories[policy.id]
        _draw_values(above, points, name, colour)
        _draw_rates(below, points, colour)
    _finish(above, "Value", "updates of the action", "value (Q)")
    signals = any(point.kind == "signal" for policy in shown for point in histories[policy.id])
    counted = "trials and signals" if signals else "trials"
    _finish(below, "Success rate and confidence", f"{counted} of the action", "rate")
    if not below.has_data():
        below.text(0.5, 0.5, "no trials yet", transform=below.transAxes, ha="center")
    below.set_ylim(-0.03, 1.03)
    heading = plotting.plain(f"What was learned in state {described(shown[0])}", 100)
    if len(policies) > len(shown):
        heading += f"\nthe best {len(shown)} of {len(policies)} actions"
    figure.suptitle(heading, fontsize=12)
    figure.legend(*above.get_legend_handles_labels(), loc="outside right upper", title="action")
    figure.legend(*_key(), loc="outside lower center", ncols=3, frameon=False)
    plotting.save(figure, file)


def _draw_values(axes: Axes, points: Sequence[Point], name: str, colour: Any) -> None:
    """Draw a line from the set value, or from 0."""
    known = [(point.updates, point.q) for point in points]
    if not known or known[0][0] > 0:
        known.insert(0, (0, 0.0))
    few = len(known) <= 60
    style, width = ("o-", 1.5) if few else ("-", 0.8)
    places, values = zip(*known, strict=True)
    axes.plot(places, values, style, color=colour, label=name, markersize=3, linewidth=width)


def _draw_rates(axes: Axes, points: Sequence[Point], colour: Any) -> None:
    """Draw rate and confidence after each trial and signal; other events change neither."""
    trials = signals = 0
    rates: list[tuple[int, Point]] = []
    trust: list[tuple[int, float]] = []
    for point in points:
        counted, trials = point.trials - trials, point.trials
        signals += point.kind == "signal"
        place = trials + signals
        if counted:
            rates.append((place, point))
        if counted or point.kind == "signal":
            trust.append((place, point.confidence))
    style = "o" if len(rates) <= 60 else ""
    places = [place for place, _ in rates]
    lower, upper = [p.lower for _, p in rates], [p.upper for _, p in rates]
    if rates:
        axes.plot(places, [p.mean for _, p in rates], f"{style}-", color=colour, markersize=3)
        axes.fill_between(places, lower, upper, color=colour, alpha=0.15, linewidth=0)
    if signals:
        axes.plot(*zip(*trust, strict=True), f"{style}:", color=colour, markersize=2)


def _finish(axes: Axes, title: str, below: str, left: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(below)
    axes.set_ylabel(left)
    if axes.get_xlim()[1] < 1:  # nothing but what was there at first
        axes.set_xlim(-0.05, 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _key() -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Line2D([], [], color="#333333"),
        Patch(color="#333333", alpha=0.15, linewidth=0),
        Line2D([], [], color="#333333", linestyle=":"),
    ]
    return handles, ["posterior mean", "Wilson bounds", "confidence (where signals were given)"]


def _colours() -> Sequence[Any]:
    from matplotlib import colormaps

    map_ = colormaps["tab20"]
    return [map_(place) for place in (*range(0, 20, 2), *range(1, 20, 2))]


def _unrecorded(policies: Sequence[Policy], histories: Mapping[str, Sequence[Point]]) -> int:
    """Return the number of updates without an event."""
    return sum(
        policy.updates - (histories[policy.id][-1].updates if histories[policy.id] else 0)
        for policy in policies
    )
