"""The commands of memory.policies (with cycles), and of memory.events."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.main import Group, Options, at_most, example, moment
from graphmem.cli.printing import print_answer, print_facts, print_rows
from graphmem.printable import counted
from graphmem.text.cells import cell

if TYPE_CHECKING:
    from graphmem.models.policies import CycleReport, Event, Policy

with_state = click.argument("state", nargs=-1, required=True, metavar="STATE...")


def parse_json(text: str) -> Any:
    """Return what a text says as JSON."""
    from pydantic_core import from_json

    try:
        return from_json(text, allow_inf_nan=False)
    except (ValueError, TypeError) as error:  # it is no JSON, or it has lone surrogates
        raise click.BadParameter(f"{text!r:.200} is not JSON ({error})") from None


def parse_value(text: str) -> Any:
    """Return what a text says as JSON, else the text."""
    try:
        return parse_json(text)
    except click.BadParameter:
        return text


def parse_state(words: Sequence[str], name: str = "STATE") -> dict[str, Any] | str:
    """Return the features or the fingerprint in the words of an argument."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return dict(parse_json(words[0]))
    if len(words) == 1 and len(words[0]) == 16 and "=" not in words[0]:
        return words[0]
    features: dict[str, Any] = {}
    for word in words:
        feature, equals, value = word.partition("=")
        if not equals or not feature:
            forms = "give JSON, a fingerprint (16 hex digits), or NAME=VALUE for each feature"
            raise click.UsageError(f"{name} {word!r}: {forms}")
        if feature in features:
            raise click.UsageError(f"{name}: {feature!r} is given twice")
        features[feature] = parse_value(value)
    return features


def _write(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


CELLS: Mapping[str, Callable[[Policy], Any]] = {
    "state": lambda one: (
        " ".join(f"{name}={_write(value)}" for name, value in (one.features or {}).items())
        or one.state
    ),
    "action": lambda one: one.action if one.spec is None else f"{one.action} {_write(one.spec)}",
}
"""The columns of a table of policies that are no fields."""


@click.group(cls=Group)
def policies() -> None:
    """Learn from rewards and outcomes what to do in a state; find cycles.

    STATE is JSON ('{"task": "deploy"}'), a fingerprint (16 hex digits), or NAME=VALUE for each
    feature (task=deploy replicas=3). A value is JSON if it parses as JSON, else text.

    `graphmem list` shows policies, predictions and cycles, `graphmem explain ID` one of them.
    """


@policies.command()
@example("--url ./ops.graph policies best task=deploy env=staging")
@with_state
@click.option("--agent", default="default", help="Whose policies.")
@click.option("--explore", help="ucb: prefer what is rarely tried; epsilon: at times a random one.")
@moment("--at", "Values at this time [now]")
def best(options: Options, /, state: tuple[str, ...], agent: str, **how: Any) -> None:
    """Show the action with the highest value in STATE."""
    policy = options.memory().policies.best(parse_state(state), agent=agent, **how)
    nothing = f"no action has a value in this state (agent {cell(agent)})"
    options.show(policy, nothing if policy is None else print_answer)


@policies.command()
@example("--url ./grid.graph policies learn")
@click.option("--agent", help="Only this agent's episodes; default: all agents.")
def learn(options: Options, agent: str | None) -> None:
    """Learn from the steps of recorded episodes, by TD(0).

    It takes each episode once, and only steps that have a state.
    """
    report = options.memory().policies.learn_episodes(agent)
    options.show(
        report,
        f"{counted(report.transitions, 'transition')} of {counted(report.episodes, 'episode')} "
        "learned" + (f"; incomplete steps: {report.incomplete:,}" if report.incomplete else ""),
    )


@policies.command()
@example("--url ./ops.graph policies crystallize --threshold 0.5")
@click.option("--agent", help="Only this agent; default: all agents, each separately.")
@click.option("--threshold", type=float, help="Lower bound to pass; default: the setting.")
def crystallize(options: Options, agent: str | None, threshold: float | None) -> None:
    """Crystallize actions that worked often enough. It takes back those that no longer do."""
    options.show(options.memory().policies.crystallize(agent, threshold=threshold))


@policies.command()
@example("--url ./airline.graph policies cycles cancel_reservation --timezone America/New_York")
@click.argument("subject")
@click.option("--timezone", default="UTC", metavar="NAME", help="Zone, such as Europe/Paris.")
@click.option("--only", help="success or failure: count only these; default: all.")
@click.option("--store", "keep", is_flag=True, help="Store them, which changes values of policies.")
def cycles(options: Options, /, subject: str, **question: Any) -> None:
    """Show when SUBJECT happens more often than by chance: hours, days, weeks and months.

    SUBJECT is the id of a policy, or the id or text of a strategy.
    """
    options.show(options.memory().cycles.examine(subject, **question), _print_cycles)


def _print_cycles(report: CycleReport) -> None:
    if report.cycles:
        columns = "cycle=kind peak=when p amplitude events"
        print_rows(report.cycles, columns, p=lambda row: f"{row.p_value:.2g}")
    else:
        click.echo("no cycle was found")
    for test in report.tests:
        if test.reason:
            click.echo(f"not tested: {test.kind} ({test.reason})")
    names = ("only", "events", "undated", "unjudged", "timezone")
    print_facts({name: getattr(report, name) for name in names})


SECONDS = 0.5  # time between two looks for new events
PAGE = 1_000


@click.group(cls=Group)
def events() -> None:
    """Read every change of a policy or a strategy.

    Changes are numbered in the stream of their agent. In Python memory.events.listen gives each
    to one consumer of a group, which acknowledges it.
    """


@events.command()
@example("--url ./ops.graph events tail --limit 3")
@at_most(20)
@click.option("--agent", help="Only this agent's stream.")
@click.option("--follow", is_flag=True, help="Print new events as they come, until Ctrl-C.")
def tail(options: Options, limit: int, agent: str | None, follow: bool) -> None:
    """Print the latest events, one on a line, the latest last.

    With --json each line is JSON. Times are the times of recording, in UTC.
    """
    memory = options.memory()
    positions = memory.events.positions() if follow else {}
    events = memory.events.tail(limit, agent=agent)
    if not (events or follow or options.as_json):
        click.echo("there are no events yet")
    with suppress(KeyboardInterrupt):
        while True:
            for event in events:
                positions[event.agent] = max(event.seq, positions.get(event.agent, 0))
                click.echo(event.model_dump_json() if options.as_json else _line(event))
            if not follow:
                break
            if not events:
                time.sleep(SECONDS)
            events = memory.events.tail(PAGE, agent=agent, after=positions)
    options.note_snapshot()


def _line(event: Event) -> str:
    about = event.subject or ""
    if event.other is not None:
        about += f" with {event.other}"
    facts = {"value": event.value, "worked": event.success, **event.facts}
    details = ", ".join(
        f"{name.replace('_', ' ')} {cell(value)}"
        for name, value in facts.items()
        if value is not None
    )
    moment = event.recorded_at.strftime("%Y-%m-%d %H:%M:%S")
    parts = (moment, cell(event.agent, 40), str(event.seq), event.kind, about, details)
    return "  ".join(part for part in parts if part)
