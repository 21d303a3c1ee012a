"""Commands on the event streams: look at them, and consume them as one of a group."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING

import click

from graphmem.cli.options import Group, Options, at_most, example, several
from graphmem.cli.policies import describe_action, describe_state
from graphmem.cli.printing import cell

if TYPE_CHECKING:
    from graphmem.memory import Memory
    from graphmem.models import Event

SECONDS = 0.5
"""Time between two looks for new events."""
PAGE = 1_000


@click.group(cls=Group)
def events() -> None:
    """Read every change of a policy or a strategy.

    Changes are numbered in the stream of their agent.
    """


@events.command()
@example("--url ./ops.graph events tail --limit 3")
@at_most(20)
@click.option("--agent", help="Only this agent's stream.")
@click.option("--follow", is_flag=True, help="Print new events as they come, until Ctrl-C.")
@click.pass_obj
def tail(options: Options, limit: int, agent: str | None, follow: bool) -> None:
    """Print the latest events, one on a line, the latest last.

    With --json each line is JSON. Times are the times of recording, in UTC.
    """
    memory = options.memory()
    describe = cache(partial(_describe_subject, memory))
    places = memory.events.positions() if follow else {}
    events = memory.events.tail(limit, agent=agent)
    if not (events or follow or options.as_json):
        click.echo("there are no events yet")
    with suppress(KeyboardInterrupt):
        while True:
            for event in events:
                places[event.agent] = max(event.seq, places.get(event.agent, 0))
                if agent in (None, event.agent):
                    _write(event.model_dump_json() if options.as_json else _line(event, describe))
            if not follow:
                break
            if not events:
                time.sleep(SECONDS)
            events = memory.events.since(places, PAGE)
    options.note_snapshot()


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@events.command()
@example("--url ./ops.graph events consume --group audit")
@example('--url ./ops.graph events consume --group audit --follow --agent "agent:ada:*"')
@click.option("--group", required=True, help="Each event goes to one consumer of a group.")
@click.option("--consumer", default="one", help="A name that is this consumer's own.")
@at_most(100)
@click.option("--no-ack", is_flag=True, help="Leave the events pending with this consumer.")
@click.option(
    "--reclaim",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="First take over events that have been pending in the group for so long.",
)
@click.option("--follow", is_flag=True, help="Go on as events come, until Ctrl-C.")
@several("--kind", "kinds", metavar="KIND", help="With --follow: only these.")
@click.option(
    "--agent", metavar="PATTERN", help="With --follow: only such agents and levels; * is any text."
)
@click.pass_obj
def consume(
    options: Options,
    group: str,
    consumer: str,
    limit: int,
    no_ack: bool,
    reclaim: float | None,
    follow: bool,
    kinds: tuple[str, ...],
    agent: str | None,
) -> None:
    """Print the next events of a group, and acknowledge them. Each is a line of JSON.

    It acknowledges them together, after all were written, with --follow each by itself. What was
    not acknowledged stays pending until a consumer of the group takes it over; nothing is lost.
    """
    if follow and (no_ack or reclaim is not None):
        raise click.UsageError("--no-ack and --reclaim do not go with --follow")
    if not follow and (kinds or agent is not None):
        raise click.UsageError("--kind and --agent need --follow")
    from graphmem.errors import ValidationError

    memory = options.memory()
    if follow:
        listening = memory.events.listen(group, kinds or None, agent=agent, consumer=consumer)
        with suppress(KeyboardInterrupt):
            for event in listening:
                _write(event.model_dump_json())
                listening.ack()
    else:
        reader = memory.events.consume(group, consumer, limit=limit)
        events = [] if reclaim is None else reader.reclaim(idle=reclaim)
        events += reader
        for event in events:
            sys.stdout.write(event.model_dump_json() + "\n")
        sys.stdout.flush()
        if events and not no_ack:
            try:
                reader.ack(*events)
            except ValidationError as error:  # not a usage error: another consumer took them over
                raise click.ClickException(str(error)) from error
    options.note_snapshot()


def _line(event: Event, describe: Callable[[str], str]) -> str:
    """Return an event in words: when, whose, its number, its kind, what it is about, its facts."""
    about = ""
    if event.subject is not None:
        about = event.subject if event.kind == "episode" else describe(event.subject)
    if event.other is not None:
        about += f" with {describe(event.other)}"
    facts = {"value": event.value, "worked": event.success, **event.facts}
    details = ", ".join(
        f"{name.replace('_', ' ')} {cell(value)}"
        for name, value in facts.items()
        if value is not None
    )
    moment = event.recorded_at.strftime("%Y-%m-%d %H:%M:%S")
    parts = (moment, cell(event.agent, 40), str(event.seq), event.kind, about, details)
    return "  ".join(part for part in parts if part)


def _describe_subject(memory: Memory, policy_id: str) -> str:
    policy = memory.policies.get(policy_id)
    if policy is None:  # erased meanwhile
        return policy_id
    return cell(f"{describe_action(policy)} in {describe_state(policy)}", 120)
