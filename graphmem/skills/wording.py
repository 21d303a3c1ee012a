"""Conclusions in words, for each kind of file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from graphmem.printable import counted, percent
from graphmem.skills.conclusions import Finding, Kind
from graphmem.text.words import THEN

LINES = 25
"""Most conclusions in a section of a skill; a convention asks for less than 500 lines."""
ENDS = 3
"""Most strategies that one error ends."""
TEXT = 300
"""Most characters of a text from a log."""
SECTIONS = (
    ("Do", "do"),
    ("Avoid", "avoid"),
    ("On these errors", "errors"),
    ("What changed", "changed"),
)
Quote = Callable[[str], str]
"""Makes a text from a log a part of the file, as which it can do nothing."""


def day(at: datetime | None) -> str:
    """Return the day of a time (UTC), or that there is none."""
    return "no date" if at is None else f"{at:%Y-%m-%d}"


def sections(
    kind: Kind, quote: Quote, most: int = LINES
) -> Iterator[tuple[str, list[tuple[str, list[Finding]]], int]]:
    """Yield the sections that say something: title, sentences, and how many more there are."""
    for title, section in SECTIONS:
        if said := _sentences(kind, section, quote):
            yield title, said[:most], max(len(said) - most, 0)


def _sentences(kind: Kind, section: str, quote: Quote) -> list[tuple[str, list[Finding]]]:
    """Return the conclusions of a section in words, each with what it rests on."""
    found: list[Finding] = getattr(kind, section)
    if section != "errors":
        return [(_sentence(section, one, quote), [one]) for one in found]
    grouped: dict[str, list[Finding]] = {}
    for one in found:
        grouped.setdefault(one.error or "", []).append(one)
    said = []
    for error, ends in grouped.items():
        shown = ends[:ENDS]
        what = ", ".join(f"{quote(one.text)} ({failed(one)})" for one in shown)
        better = next((one for one in kind.do if one.text not in {end.text for end in ends}), None)
        told = f"{quote(error)} ended runs with {what}; "
        told += f"instead {quote(better.text)}" if better else "no remedy is established"
        said.append((told, [*shown, better] if better else shown))
    return said


def _sentence(section: str, found: Finding, quote: Quote) -> str:
    if change := found.change:
        where = "" if change.task is None else f" on {quote(change.task)}"
        return f"{quote(found.text)} worked{where} in {change.sentence}"
    steps = found.text.split(THEN)
    told = quote(found.text)
    if section == "do" and len(steps) > 1:
        told = f"in this order: {', then '.join(map(quote, steps))}"
    others = "" if found.others is None else f", all else on these tasks in {percent(found.others)}"
    bounds = f"{percent(found.lower)} to {percent(found.upper)}"
    return f"{told} worked in {found.successes:,} of {found.trials:,} ({bounds}){others}"


def failed(found: Finding) -> str:
    """Return how often a strategy failed with an error, of these failures and its successes."""
    return f"{found.trials - found.successes:,} of {found.trials:,}"


def summary(kind: Kind, quote: Quote) -> str:
    """Return on how many runs the conclusions about a kind of task rest, in a sentence."""
    if not kind.tasks:
        return "What holds for all tasks."
    by = quote(kind.agents[0]) if len(kind.agents) == 1 else counted(len(kind.agents), "agent")
    span = " to ".join(map(day, kind.span)) if kind.span else "without dates"
    told = f"From {counted(kind.runs, 'run')} of {counted(len(kind.tasks), 'task')} by {by}"
    return f"{told}, {span}; {kind.solved:,} worked."
