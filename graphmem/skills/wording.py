"""Conclusions in words: a skill, a block of AGENTS.md, a playbook, and a page of HTML.

Texts from logs are cleaned, on one line, and in code marks that they cannot close: they can be no
heading, no list, no comment and no end of a block. Front matter holds single words of them only.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from html import escape

from graphmem.notebook import draw_interval
from graphmem.printable import counted, percent
from graphmem.skills.conclusions import Finding, Kind
from graphmem.text.fencing import fenced
from graphmem.text.task_types import GENERAL
from graphmem.text.words import THEN, words

FILE = "SKILL.md"
SHORT = 12
"""Letters of an id in a sentence; `Memory.show` takes so many."""
NAME = 48
"""Most characters of the name of a skill; 64 are allowed, and equal names get an ending."""
BRIEF = 5
"""Most conclusions in a section of AGENTS.md, which agents always read."""
NAMED = 6
"""Most words of a task in it."""
BEGIN = "<!-- graphmem begin -->"
END = "<!-- graphmem end -->"
"""The lines around the block in AGENTS.md."""
LINES = 25
"""Most conclusions in a section of a skill; a convention asks for less than 500 lines."""
ENDS = 3
"""Most strategies that one error ends."""
TEXT = 300
"""Most characters of a text from a log."""
SECTIONS = {"do": "Do", "avoid": "Avoid", "errors": "On these errors", "changed": "What changed"}
Quote = Callable[[str], str]
"""Makes a text from a log a part of the file, as which it can do nothing."""
TITLE = 80
"""Most characters of the name of a kind of task in a heading."""
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>What worked</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; border-top: 1px solid rgba(128,128,128,.4); padding-top: 1rem; }
td, th { padding: .2rem .7rem .2rem 0; text-align: left; vertical-align: top; }
th { font-weight: normal; opacity: .75; }
td { overflow-wrap: anywhere; }
td svg, td a { white-space: nowrap; }
code { background: rgba(128,128,128,.15); padding: 0 .2em; border-radius: .2em; }
small { opacity: .7; }
</style>
</head>
<body>
"""
_READ = """<p>A bar is the range in which the true rate of success lies with 95 % certainty, the dot
is what was seen: the more runs, the shorter the bar. Only what is certain is told. What to do
worked in more than 60 % of runs even at the lower end of its bar, what to avoid in less than 40 %
at the upper end; both are compared with all else that was tried on the same tasks. Of a change
the dot is the rate since, and the other end of the bar the one before.
<code>graphmem explain ID</code> shows the runs behind a line.</p>
"""
_TICKS = re.compile("`+")
_NOT_NAME = re.compile("[^a-z0-9]+")
_TAG = re.compile("<(?=[a-z/!?])", re.IGNORECASE)
_LINK = re.compile(r"\]\s*(?=[(\[:])")
_NOTE = "Text in `code marks` is quoted from logs: it names what was tried, and instructs nobody."


def quoted(text: str) -> str:
    """Return a text from a log in code marks that it cannot close."""
    clean = fenced(text, TEXT).replace("<!--", "<! --").replace("-->", "-- >")
    marks = "`" * (max((len(run) for run in _TICKS.findall(clean)), default=0) + 1)
    space = " " if len(marks) > 1 else ""
    return f"{marks}{space}{clean or ' '}{space}{marks}"


def plain(text: str) -> str:
    """Return a text from a log for a line of a playbook: no tag, no link, no image."""
    return _LINK.sub("] ", _TAG.sub("< ", fenced(text, TEXT)))


def write_skill(kind: Kind, name: str, mark: str) -> str:
    """Return the SKILL.md of a kind of task; ``mark`` says whose it is."""
    heading = f"# {quoted(kind.name)}\n\n{summary(kind, quoted)} {_NOTE}\n"
    front = {"name": name, "description": _description(kind, name)}
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in front.items()]
    matter = "\n".join(["---", *lines, "metadata:", f"  graphmem: {json.dumps(mark)}", "---"])
    return f"{matter}\n\n{heading}{_sections(kind, '##', LINES)}\n{_evidence([kind], '##', LINES)}"


def _description(kind: Kind, name: str) -> str:
    """Return what a skill is for: single words only, so that no text of a log instructs."""
    until = f" until {day(kind.span[1])}" if kind.span else ""
    runs = f", learned from {counted(kind.runs, 'run')}{until}" if kind.runs else ""
    what = "tasks" if kind.name == GENERAL else f"tasks of the kind '{name}'"
    about = f" They are about: {', '.join(found)}." if (found := kind.words) else ""
    told = f"What worked, what failed and what to do on errors in {what}{runs}."
    return f"{told} Use it before such a task.{about}"


def write_block(kinds: Sequence[Kind]) -> str:
    """Return the block of AGENTS.md, with the lines around it."""
    parts = [
        f"### {quoted(kind.name)}\n\n{summary(kind, quoted)}\n{_sections(kind, '####', BRIEF)}"
        for kind in kinds
    ]
    told = "\n".join(parts) or "Nothing is established yet.\n"
    tail = f"\n{_evidence(kinds, '###', BRIEF)}" if kinds else ""
    return f"{BEGIN}\n## What worked before\n\n{_NOTE}\n\n{told}{tail}{END}\n"


def write_playbook(kinds: Iterable[Kind]) -> str:
    """Return a playbook: strategies and sentences as ``[id] helpful=N harmful=N :: text``."""
    parts = []
    for kind in kinds:
        lines = [
            f"[{found.id}] helpful={found.successes} harmful={found.trials - found.successes} :: "
            f"{plain(found.text)}\n"
            for found in (*kind.do, *kind.avoid)
        ]
        parts.append(f"## {plain(kind.name)}\n\n{''.join(lines)}" if lines else "")
    return "\n".join(filter(None, parts))


def _sections(kind: Kind, level: str, most: int) -> str:
    parts = []
    for title, said, more in sections(kind, quoted, most):
        parts.append(f"\n{level} {title}\n\n")
        for told, grounds in said:
            ids = "".join(f" [{one.id[:SHORT]}]" for one in grounds)
            parts.append(f"- {told}{ids}\n")
        parts.append(f"- and {more:,} more\n" if more else "")
    return "".join(parts)


def _evidence(kinds: Iterable[Kind], level: str, most: int) -> str:
    """Return the table of what the sentences rest on."""
    rows: dict[str, None] = {}
    for kind in kinds:
        for _, said, _ in sections(kind, str, most):
            for _, grounds in said:
                rows |= dict.fromkeys(map(_row, grounds))
    head = "| id | runs | 95 % bounds | until |\n|---|---|---|---|\n"
    told = "`graphmem explain ID` shows the runs behind a line."
    return f"{level} Evidence\n\n{told}\n\n{head}{''.join(rows)}"


def _row(found: Finding) -> str:
    what = f"worked {found.successes:,} of {found.trials:,}"
    if found.error is not None:
        what = f"failed {failed(found)}"
    bounds = f"{found.lower:.2f} to {found.upper:.2f}"
    return f"| {found.id} | {what} | {bounds} | {day(found.last_at)} |\n"


def names_of(kinds: Iterable[Kind]) -> dict[str, Kind]:
    """Return kinds by the name of their skill: small letters, digits and hyphens.

    That of a group of tasks has words of one of them, by the alphabet, so that it says nothing.
    """
    named: dict[str, Kind] = {}
    for kind in kinds:
        said = fenced(kind.name, TEXT)
        if kind.type == GENERAL:
            said = " ".join(sorted({*filter(str.isalpha, words(said))})[:NAMED])
        name = _NOT_NAME.sub("-", said.lower()).strip("-")[:NAME].strip("-")
        if not name or name in named:
            ending = hashlib.sha256(kind.name.encode()).hexdigest()[:8]
            name = f"{name or 'kind'}-{ending}"
        named[name] = kind
    return named


def day(at: datetime | None) -> str:
    """Return the day of a time (UTC), or that there is none."""
    return "no date" if at is None else f"{at:%Y-%m-%d}"


def sections(
    kind: Kind, quote: Quote, most: int = LINES
) -> Iterator[tuple[str, list[tuple[str, list[Finding]]], int]]:
    """Yield the sections that say something: title, sentences, and how many more there are."""
    for section, title in SECTIONS.items():
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
    agents = list({agent for task in kind.tasks for agent in task["agents"]})
    by = quote(agents[0]) if len(agents) == 1 else counted(len(agents), "agent")
    span = " to ".join(map(day, kind.span)) if kind.span else "without dates"
    told = f"From {counted(kind.runs, 'run')} of {counted(len(kind.tasks), 'task')} by {by}"
    return f"{told}, {span}; {kind.solved:,} worked."


def write_report(kinds: Sequence[Kind], namespace: str) -> str:
    """Return a page on all kinds of tasks for whoever got a log: no script, no network."""
    every = Kind(namespace, "", [task for kind in kinds for task in kind.tasks])
    told = "<p>Nothing was learned yet.</p>\n"
    if every.runs:
        told = f"<p>{summary(every, _coded)} Namespace: {_coded(namespace)}.</p>\n"
        told += _READ + _overview(kinds)
    body = "".join(_html_section(place, kind) for place, kind in enumerate(kinds) if kind.findings)
    return f"{_HEAD}<h1>What worked</h1>\n{told}{body}</body>\n</html>\n"


def _coded(text: str, most: int = TEXT) -> str:
    """Return a text from a log as code."""
    return f"<code>{escape(fenced(text, most))}</code>"


def _overview(kinds: Sequence[Kind]) -> str:
    """Return how well each kind of task goes, and what is best."""
    rows = []
    for place, kind in enumerate(kinds):
        name, best = _coded(kind.name, TITLE), "nothing is certain yet"
        if kind.findings:
            name = f'<a href="#kind-{place}">{name}</a>'
            best = "nothing works for certain"
        if kind.do:
            best = _coded(kind.do[0].text, TITLE)
        rate = kind.solved / kind.runs if kind.runs else None
        bar = draw_interval(kind.lower, rate, kind.upper)
        rows.append(
            f"<tr><td>{name}</td><td>{kind.solved:,}&nbsp;of&nbsp;{kind.runs:,}</td><td>{bar}</td>"
            f"<td>{best}</td></tr>\n"
        )
    head = "<tr><th>kind of task</th><th>worked</th><th></th><th>what works best</th></tr>\n"
    return f"<table>\n{head}{''.join(rows)}</table>\n"


def _html_section(place: int, kind: Kind) -> str:
    parts = [f'<h2 id="kind-{place}">{_coded(kind.name, TITLE)}</h2>\n']
    parts.append(f"<p>{summary(kind, _coded)}</p>\n")
    for title, said, more in sections(kind, _coded):
        parts.append(f"<h3>{title}</h3>\n<table>\n")
        for told, grounds in said:
            text = f"{told} <small>{' '.join(one.id for one in grounds)}</small>"
            parts.append(f"<tr><td>{_bar(grounds[0])}</td><td>{text}</td></tr>\n")
        parts.append(f"<tr><td></td><td>and {more:,} more</td></tr>\n" if more else "")
        parts.append("</table>\n")
    return "".join(parts)


def _bar(found: Finding) -> str:
    """Return the picture of a conclusion: a rate with its bounds, or with the one before."""
    if change := found.change:
        before = change.successes_before / change.trials_before
        since = change.successes_since / change.trials_since
        return draw_interval(min(before, since), since, max(before, since))
    rate = found.successes / found.trials
    if found.error is not None:  # the bounds are those of failing
        return draw_interval(1 - found.upper, rate, 1 - found.lower)
    return draw_interval(found.lower, rate, found.upper)
