"""The commands of memory.policies: what to do in a state, predictions, and cycles in time."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import click

from graphmem.cli import plotting, states
from graphmem.cli.options import JSON, JSON_OBJECT, MOMENT, Group, Options
from graphmem.cli.printing import cell, print_json, print_rows, progress
from graphmem.printable import counted

if TYPE_CHECKING:
    from graphmem.memory import Memory
    from graphmem.models import Candidate, CrystallizeReport
    from graphmem.models.cycles import CycleReport

STATE = click.argument("state", nargs=-1, required=True, metavar="STATE...")
YES_OR_NO = click.Choice(["yes", "no"])
SHOWN = 20
"""Candidates in one table; --json lists all."""


@click.group(cls=Group)
def policies() -> None:
    """Learn from rewards and outcomes what to do in a state; keep predictions; find cycles.

    STATE is JSON ('{"task": "deploy"}'), a fingerprint (16 hex digits), or NAME=VALUE for each
    feature (task=deploy replicas=3). A value is JSON if it parses as JSON, else text.

    `graphmem list` shows policies, predictions and cycles, `graphmem explain ID` one of them.
    """


@policies.command()
@STATE
@click.option("--agent", default="default", show_default=True, help="Whose policies.")
@click.option(
    "--explore",
    type=click.Choice(["ucb", "epsilon"]),
    help="Prefer rarely tried actions, or sometimes take a random one.",
)
@click.option("--at", type=MOMENT, metavar="TIME", help="Values at this ISO 8601 time [now].")
@click.pass_obj
def best(
    options: Options,
    state: tuple[str, ...],
    agent: str,
    explore: Literal["ucb", "epsilon"] | None,
    at: datetime | None,
) -> None:
    """Show the action with the highest value in STATE.

    \b
    Example:
      graphmem --url ./ops.graph policies best task=deploy env=staging
    """
    place = states.parse(state)
    memory = options.memory()
    policy = memory.policies.best(place, agent=agent, explore=explore, at=at)
    if options.as_json:
        print_json(policy)
    elif policy is not None:
        columns = "action agent q updates worked bounds status confidence last_update"
        columns = columns.replace("q ", "q value_then=score " if at else "q ")
        last = policy.last_updated_at
        cells = {**states.CELLS, "last_update": lambda _: last and f"{last:%Y-%m-%d}"}
        print_rows([policy], columns, **cells)
    elif observed := len(memory.policies.list(place, agent=agent)):
        words = " ".join(f"--state {shlex.quote(word)}" for word in state)
        click.echo(
            f"no action has a value in this state (agent {cell(agent)}); {observed} known without "
            f"one: graphmem list policies {words}"
        )
    else:
        click.echo(f"nothing is known of this state (agent {cell(agent)})")
    options.note_snapshot()


@policies.command()
@STATE
@click.argument("action")
@click.option("--reward", type=float, help="Any finite number; without it, only --success counts.")
@click.option(
    "--next",
    "after",
    multiple=True,
    metavar="STATE",
    help="The next state; NAME=VALUE may be given several times.",
)
@click.option("--next-max-q", type=float, help="The value of the best action in the next state.")
@click.option("--terminal", is_flag=True, default=None, help="There is no next state.")
@click.option("--spec", type=JSON, metavar="JSON", help="Further identification of the action.")
@click.option("--agent", default="default", show_default=True, help="Who learns.")
@click.option("--success", type=YES_OR_NO, help="Count a trial that worked or did not.")
@click.pass_obj
def update(
    options: Options,
    /,
    state: tuple[str, ...],
    action: str,
    reward: float | None,
    after: tuple[str, ...],
    success: str | None,
    spec: Any,
    agent: str,
    **step: Any,
) -> None:
    """Learn from ACTION in STATE: its reward and what came next, whether it worked, or both.

    With --reward give one of --next, --next-max-q and --terminal. Without it the value stays as it
    is; `graphmem policies crystallize` makes policies of actions that worked often enough.

    \b
    Examples:
      graphmem --url ./ops.graph policies update task=deploy run_playbook \\
          --reward 1 --next task=verify
      graphmem --url ./ops.graph policies update task=deploy run_playbook --success yes
    """
    place, worked = states.parse(state), None if success is None else success == "yes"
    step = {name: value for name, value in step.items() if value is not None}
    if after:
        step["next_state"] = states.parse(after, "--next")
    found = options.memory(must_exist=False).policies
    if reward is None:
        if worked is None or step:
            raise click.UsageError("give --reward NUMBER, or --success yes or no alone")
        policy = found.get(found.observe(place, action, worked, spec=spec, agent=agent))
        assert policy is not None  # noqa: S101 - it was just counted
        options.show(
            policy,
            f"{states.describe_action(policy)} worked in {policy.successes:,} of "
            f"{counted(policy.trials, 'trial')} (bounds {policy.lower:.2f} to {policy.upper:.2f}), "
            f"policy {policy.id}",
        )
        return
    if len(step.keys() & {"next_state", "next_max_q", "terminal"}) != 1:
        raise click.UsageError("give one of --next STATE, --next-max-q Q and --terminal")
    done = found.update(place, action, reward, spec=spec, success=worked, agent=agent, **step)
    options.show(
        done._asdict(),
        f"value {done.q:.6g} (TD error {done.td_error:.6g}), event {done.seq} of agent "
        f"{cell(agent)}, policy {done.policy_id}",
    )


@policies.command()
@click.option("--agent", help="Only this agent's episodes; default: all agents.")
@click.pass_obj
def learn(options: Options, agent: str | None) -> None:
    """Learn from the steps of recorded episodes, by TD(0).

    It takes each episode once, and only steps that have a state.

    \b
    Example:
      graphmem --url ./grid.graph policies learn
    """
    memory = options.memory()
    with progress("learning", options) as advance:
        report = memory.policies.learn_episodes(
            agent, on_progress=None if advance is None else lambda done: advance(done, None)
        )
    options.show(
        report,
        f"{counted(report.transitions, 'transition')} of {counted(report.episodes, 'episode')} "
        "learned" + (f"; incomplete steps: {report.incomplete:,}" if report.incomplete else ""),
    )


@policies.command()
@click.option("--agent", help="Only this agent; default: all agents, each separately.")
@click.option("--threshold", type=float, help="Lower bound to pass; default: the setting.")
@click.pass_obj
def crystallize(options: Options, agent: str | None, threshold: float | None) -> None:
    """Crystallize actions that worked often enough. It takes back those that no longer do.

    \b
    Example:
      graphmem --url ./ops.graph policies crystallize --threshold 0.5
    """
    memory = options.memory()
    report = memory.policies.crystallize(agent, threshold=threshold)
    options.show(report, lambda: _print_crystallized(memory, report))


def _print_crystallized(memory: Memory, report: CrystallizeReport) -> None:
    click.echo(
        f"{len(report.created):,} created, {len(report.updated):,} updated, "
        f"{len(report.taken_back):,} taken back, {report.kept:,} kept as they are, "
        f"{report.below_count:,} below"
    )
    short = "missing successes_in_a_row_that_would_do=more"
    _print_candidates(memory, "Created", report.created)
    _print_candidates(memory, "Updated", report.updated)
    _print_candidates(memory, "Taken back", report.taken_back, short)
    _print_candidates(memory, "The nearest of those below", report.below, short)
    needs = (
        f"{report.needed} of {report.needed} at z {report.z:g} is the least that passes "
        f"{report.threshold:g}"
    )
    asked = f" ({report.min_events} trials are asked for)"
    click.echo(needs + (asked if report.needed == report.min_events else ""))


def _print_candidates(
    memory: Memory, title: str, candidates: Sequence[Candidate], more: str = ""
) -> None:
    if candidates:
        click.echo(title)
        policies = {one.id: memory.policies.get(one.id) for one in candidates[:SHOWN]}
        shown = {name: policy for name, policy in policies.items() if policy is not None}
        print_rows(
            [one for one in candidates[:SHOWN] if one.id in shown],  # others were erased meanwhile
            f"state action agent worked lower_bound=lower {more}",
            state=lambda row: states.describe_state(shown[row.id]),
            action=lambda row: states.describe_action(shown[row.id]),
        )
    if len(candidates) > SHOWN:
        click.echo(f"... and {len(candidates) - SHOWN:,} more; --json lists all")


# Cycles in time


@policies.command()
@click.argument("subject")
@click.option(
    "--timezone",
    default="UTC",
    show_default=True,
    metavar="NAME",
    help="The zone of hours and days, such as Europe/Paris.",
)
@click.option(
    "--only",
    type=click.Choice(["success", "failure"]),
    help="Count only successes or only failures; default: all.",
)
@click.option(
    "--store", "keep", is_flag=True, help="Store the cycles; they then change policy values."
)
@click.pass_obj
def cycles(options: Options, /, subject: str, **question: Any) -> None:
    """Show when SUBJECT happens more often than by chance: hours, days, weeks and months.

    SUBJECT is the id of a policy, or the id or text of a strategy.

    \b
    Example:
      graphmem --url ./airline.graph policies cycles cancel_reservation --timezone America/New_York
    """
    report = options.memory().cycles.examine(subject, **question)
    options.show(report, lambda: _print_cycles(report))


def _print_cycles(report: CycleReport) -> None:
    if report.cycles:
        print_rows(
            report.cycles,
            "cycle=kind peak=when p amplitude events",
            p=lambda row: f"{row.p_value:.2g}" if row.p_value >= 1e-4 else "< 0.0001",
            amplitude=lambda row: f"{row.amplitude:g}",
        )
    else:
        click.echo("no cycle was found")
    for test in report.tests:
        if not test.tested:
            click.echo(f"not tested: {test.kind} ({test.reason})")
    what = {None: "events", "success": "successes", "failure": "failures"}[report.only]
    text = f"{report.events:,} {what} with a date, {report.undated:,} without"
    if report.unjudged:
        text += f", {report.unjudged:,} of unknown outcome"
    click.echo(f"{text}; times in {report.timezone}")


# Predictions


@policies.command()
@click.argument("subject")
@click.option(
    "--probability", type=float, metavar="P", help="Probability that it comes true, from 0 to 1."
)
@click.option(
    "--outcome", type=JSON_OBJECT, metavar="JSON", help="The expected outcome, a JSON object."
)
@click.option("--agent", help="The predicting agent [the agent of the policy; default].")
@click.option("--due", type=MOMENT, help="When it expires: ISO 8601 with time zone.")
@click.option("--key", help="A key of the prediction; the same key is stored once.")
@click.pass_obj
def expect(options: Options, /, subject: str, **expected: Any) -> None:
    """Store a prediction about SUBJECT.

    SUBJECT is the id of a policy, the id or text of a strategy, or any text.

    \b
    Examples:
      graphmem --url ./airline.graph policies expect cancel_reservation --probability 0.7
      graphmem --url ./airline.graph policies expect "night build" \\
          --outcome '{"minutes": 12, "green": true}' --due 2026-12-01T06:00:00Z
    """
    stored = options.memory(must_exist=False).predictions.expect(subject, **expected)
    done = "stored" if stored.created else "known already:"
    about = "something else" if stored.kind == "free" else f"a {stored.kind}"
    options.show(stored, f"{done} prediction {stored.id} about {about}")


@policies.command()
@click.argument("prediction_id", metavar="ID")
@click.option(
    "--actual", type=JSON_OBJECT, metavar="JSON", help="The actual outcome, a JSON object."
)
@click.option("--happened", type=YES_OR_NO, help="Whether it came true.")
@click.pass_obj
def resolve(
    options: Options, prediction_id: str, actual: dict[str, Any] | None, happened: str | None
) -> None:
    """Resolve the prediction ID, and show its error.

    \b
    Examples:
      graphmem --url ./airline.graph policies resolve \\
          5d0c7be39b1c5a6e8b4d1d0a9a2c7f31 --happened yes
      graphmem --url ./airline.graph policies resolve \\
          5d0c7be39b1c5a6e8b4d1d0a9a2c7f31 --actual '{"minutes": 15, "green": true}'
    """
    if actual is None and happened is None:
        raise click.UsageError("give --actual JSON, --happened yes or --happened no")
    resolved = options.memory().predictions.resolve(
        prediction_id, actual=actual, happened=None if happened is None else happened == "yes"
    )
    came = "it happened" if resolved.happened else "it did not happen"
    options.show(resolved, f"error {resolved.error:.3f}, {came}")


@policies.command()
@click.pass_obj
def expire(options: Options) -> None:
    """Expire open predictions that are due.

    \b
    Example:
      graphmem --url ./airline.graph policies expire
    """
    count = options.memory().predictions.expire()
    options.show({"expired": count}, f"{counted(count, 'prediction')} expired")


@policies.command()
@click.option(
    "--bins",
    type=click.IntRange(1, 1_000),
    default=10,
    show_default=True,
    help="Number of bins of equal width.",
)
@click.option("--subject", help="Only predictions about this.")
@plotting.option("the reliability diagram")
@click.pass_obj
def reliability(options: Options, /, plot: str | None, **which: Any) -> None:
    """Show how often predictions came true, by their probability.

    \b
    Example:
      graphmem --url ./airline.graph policies reliability --bins 5
    """
    measured = options.memory().predictions.reliability(**which)
    lines = ["no prediction with a probability was resolved yet"]
    if measured.count:
        lines = [
            f"{measured.happened:,} of {measured.count:,} happened "
            f"(base rate {measured.base_rate:.3f})",
            f"Brier score {measured.brier:.3f} "
            f"(always saying the base rate: {measured.baseline:.3f})",
            f"log loss {measured.log_loss:.3f}, "
            f"expected calibration error {measured.calibration_error:.3f}",
        ]
    if plot is not None:
        plotting.draw_reliability(measured.bins, measured.z, lines, plot)

    def text() -> None:
        if rows := [one for one in measured.bins if one.count]:
            print_rows(
                rows,
                "probability mean happened share bounds",
                probability=lambda row: f"{row.low:.3g} to {row.high:.3g}",
                happened=lambda row: f"{row.happened} of {row.count}",
            )
        click.echo("\n".join(lines))
        if plot is not None:
            click.echo(f"drawn in {plot}")

    options.show(measured, text)
