"""Commands on the event streams: look at them, and consume them as one of a group."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from graphmem.cli.options import Group, Options, at_most, several
from graphmem.cli.printing import cell
from graphmem.cli.states import describe_action, describe_state

if TYPE_CHECKING:
    from graphmem.memory import Memory
    from graphmem.models import Event

SECONDS = 0.5
"""Time between two looks for new events."""
PAGE = 1_000
_WORDS = {
    "set": "value",
    "signal": "signal",
    "crystallized": "lower bound",
    "taken_back": "lower bound",
    "linked": "weight",
    "strengthened": "weight +",
    "weakened": "weight *",
}


@click.group(cls=Group)
def events() -> None:
    """Read every change of a policy or a strategy.

    Changes are numbered in the stream of their agent.
    """


@events.command()
@at_most(20)
@click.option("--agent", help="Only this agent's stream.")
@click.option("--follow", is_flag=True, help="Print new events as they come, until Ctrl-C.")
@click.pass_obj
def tail(options: Options, limit: int, agent: str | None, follow: bool) -> None:
    """Print the latest events, one on a line, the latest last.

    With --json each line is JSON. Times are the times of recording, in UTC.

    \b
    Example:
      graphmem --url ./ops.graph events tail --limit 3
    """
    memory = options.memory()
    lines = _Lines(options, memory)
    places = memory.events.positions() if follow else {}
    events = memory.events.tail(limit, agent=agent)
    lines.print(events)
    if not follow:
        if not events and not options.as_json:
            click.echo("there are no events yet")
        options.note_snapshot()
        return
    shown = {event.id for event in events}
    try:
        while True:
            new, places = _read_new(memory, places)
            lines.print(
                event
                for event in new
                if event.id not in shown and (agent is None or event.agent == agent)
            )
            if not new:
                time.sleep(SECONDS)
    except KeyboardInterrupt:
        return


def _read_new(memory: Memory, places: dict[str, int]) -> tuple[list[Event], dict[str, int]]:
    """Return a page of events after some places, and the places after it."""
    ends = memory.events.positions()
    # A stream that was erased and begun again counts from 1.
    places = {name: seq for name, seq in places.items() if seq <= ends.get(name, 0)}
    events = memory.events.since(places, PAGE)
    after = {name: min(end, places.get(name, 0) + PAGE) for name, end in ends.items()}
    for event in events:  # newer events than the ends that were read
        after[event.agent] = max(after.get(event.agent, 0), event.seq)
    return events, after


@events.command()
@click.option("--group", required=True, help="Each event goes to one consumer of a group.")
@click.option(
    "--consumer", default="one", show_default=True, help="A name that is this consumer's own."
)
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

    \b
    Examples:
      graphmem --url ./ops.graph events consume --group audit
      graphmem --url ./ops.graph events consume --group audit --follow --agent "agent:ada:*"
    """
    if follow and (no_ack or reclaim is not None):
        raise click.UsageError("--no-ack and --reclaim do not go with --follow")
    if not follow and (kinds or agent is not None):
        raise click.UsageError("--kind and --agent need --follow")
    memory = options.memory()
    if follow:
        _follow(memory, group, consumer, kinds, agent)
    else:
        _consume(memory, group, consumer, limit, ack=not no_ack, reclaim=reclaim)
    options.note_snapshot()


def _consume(
    memory: Memory, group: str, consumer: str, limit: int, *, ack: bool, reclaim: float | None
) -> None:
    from graphmem.errors import ValidationError

    reader = memory.events.consume(group, consumer, limit=limit)
    events = [] if reclaim is None else reader.reclaim(idle=reclaim)
    events += reader
    for event in events:
        sys.stdout.write(event.model_dump_json() + "\n")
    sys.stdout.flush()
    if events and ack:
        try:
            reader.ack(*events)
        except ValidationError as error:  # not a usage error: another consumer took them over
            raise click.ClickException(str(error)) from error


def _follow(
    memory: Memory, group: str, consumer: str, kinds: tuple[str, ...], agent: str | None
) -> None:
    listening = memory.events.listen(group, kinds or None, agent=agent, consumer=consumer)
    try:
        for event in listening:
            sys.stdout.write(event.model_dump_json() + "\n")
            sys.stdout.flush()
            listening.ack()
    except KeyboardInterrupt:
        return


class _Lines:
    """Prints events, with the names of their policies."""

    def __init__(self, options: Options, memory: Memory) -> None:
        self._as_json = options.as_json
        self._memory = memory
        self._names: dict[str, str] = {}

    def print(self, events: Iterable[Event]) -> None:
        for event in events:
            click.echo(event.model_dump_json() if self._as_json else self._line(event))

    def _line(self, event: Event) -> str:
        moment = event.recorded_at.strftime("%Y-%m-%d %H:%M:%S")
        parts = (moment, cell(event.agent, 40), str(event.seq), event.kind, self._describe(event))
        return "  ".join(part for part in parts if part)

    def _describe(self, event: Event) -> str:
        if event.subject is None:
            return ""
        if event.kind == "episode":
            return event.subject
        text = self._name(event.subject)
        if event.other is not None:
            text += f" with {self._name(event.other)}"
        details = _describe_change(event)
        return f"{text}: {details}" if details else text

    def _name(self, policy_id: str) -> str:
        if policy_id not in self._names:
            policy = self._memory.policies.get(policy_id)
            if policy is None:  # erased meanwhile
                return policy_id
            self._names[policy_id] = cell(
                f"{describe_action(policy)} in {describe_state(policy)}", 120
            )
        return self._names[policy_id]


def _describe_change(event: Event) -> str:
    if event.kind == "outcome":
        return _describe_outcome(event)
    if event.kind != "transition":
        word = _WORDS.get(event.kind, "")
        return word if event.value is None else f"{word} {event.value:.6g}"
    facts = event.facts
    parts = [f"reward {facts['reward']:.6g}"]
    if facts["terminal"]:
        parts.append("the last step")
    elif facts["next_state"] is not None:
        parts.append(f"then state {facts['next_state']}")
    if facts["next_max"] is not None:
        parts.append(f"best value there {facts['next_max']:.6g}")
    if event.success is not None:
        parts.append(_describe_outcome(event))
    return ", ".join(parts)


def _describe_outcome(event: Event) -> str:
    return "worked" if event.success else "did not work"
