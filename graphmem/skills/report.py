"""A page of HTML on what was learned, for whoever got a log: one file, no script, no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from graphmem.models.forecasts import Change
from graphmem.notebook.html import draw, draw_interval
from graphmem.printable import counted, percent
from graphmem.skills.conclusions import Finding, Kind
from graphmem.skills.wording import LINES, SECTIONS, TEXT, day, sentences, summary
from graphmem.text.fencing import fenced

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
the circle is the rate before, the dot the rate since.
<code>graphmem explain ID</code> shows the runs behind a line.</p>
"""
_HEADINGS = {
    "do": "What works",
    "avoid": "What fails",
    "errors": "What to do on errors",
    "changed": "What changed",
}


def write_report(kinds: Sequence[Kind], namespace: str) -> str:
    """Return the page on all kinds of tasks."""
    runs, solved = sum(kind.runs for kind in kinds), sum(kind.solved for kind in kinds)
    if not runs:
        return f"{_HEAD}<h1>What worked</h1>\n<p>Nothing was learned yet.</p>\n</body>\n</html>\n"
    agents = {agent for kind in kinds for agent in kind.agents}
    first = min((kind.first_at for kind in kinds if kind.first_at), default=None)
    last = max((kind.last_at for kind in kinds if kind.last_at), default=None)
    tasks, by = sum(len(kind.tasks) for kind in kinds), counted(len(agents), "agent")
    when = f" from {day(first)} to {day(last)}" if last else ""
    said = (
        f"<p>{counted(runs, 'run')} of {counted(tasks, 'task')} by {by}{when}, in namespace "
        f"{_quoted(namespace)}: {solved:,} worked ({percent(solved / runs)}).</p>\n"
    )
    body = "".join(_section(place, kind) for place, kind in enumerate(kinds) if kind.findings)
    return f"{_HEAD}<h1>What worked</h1>\n{said}{_READ}{_overview(kinds)}{body}</body>\n</html>\n"


def _quoted(text: str, most: int = TEXT) -> str:
    """Return a text from a log as code."""
    return f"<code>{escape(fenced(text, most))}</code>"


def _overview(kinds: Sequence[Kind]) -> str:
    """Return how well each kind of task goes, and what is best."""
    rows = []
    for place, kind in enumerate(kinds):
        name, best = _quoted(kind.name, TITLE), "nothing is certain yet"
        if kind.findings:
            name = f'<a href="#kind-{place}">{name}</a>'
            best = "nothing works for certain"
        if kind.do:
            best = _quoted(kind.do[0].text, TITLE)
        rate = kind.solved / kind.runs if kind.runs else None
        bar = draw_interval(kind.lower, rate, kind.upper)
        rows.append(
            f"<tr><td>{name}</td><td>{kind.solved:,}&nbsp;of&nbsp;{kind.runs:,}</td><td>{bar}</td>"
            f"<td>{best}</td></tr>\n"
        )
    head = "<tr><th>kind of task</th><th>worked</th><th></th><th>what works best</th></tr>\n"
    return f"<table>\n{head}{''.join(rows)}</table>\n"


def _section(place: int, kind: Kind) -> str:
    parts = [f'<h2 id="kind-{place}">{_quoted(kind.name, TITLE)}</h2>\n']
    parts.append(f"<p>{summary(kind, _quoted)}</p>\n")
    for _, section in SECTIONS:
        said = sentences(kind, section, _quoted)
        lines = []
        for told, grounds in said[:LINES]:
            ids = " ".join(one.id for one in grounds)
            lines.append(
                f"<tr><td>{_bar(grounds[0])}</td><td>{told} <small>{ids}</small></td></tr>\n"
            )
        if lines:
            more = len(said) - LINES
            rest = f"<p>and {more:,} more</p>\n" if more > 0 else ""
            parts.append(
                f"<h3>{_HEADINGS[section]}</h3>\n<table>\n{''.join(lines)}</table>\n{rest}"
            )
    return "".join(parts)


def _bar(found: Finding) -> str:
    """Return the picture of a conclusion: a rate with its bounds, or a change."""
    if found.change is not None:
        return _arrow(found.change)
    rate = found.successes / found.trials
    if found.error is not None:  # the bounds are those of failing
        return draw_interval(1 - found.upper, rate, 1 - found.lower)
    return draw_interval(found.lower, rate, found.upper)


def _arrow(change: Change) -> str:
    """Return a line from the rate before a change, a circle, to the one since, a dot."""
    before, since = (
        4 + 92 * won / trials
        for won, trials in (
            (change.successes_before, change.trials_before),
            (change.successes_since, change.trials_since),
        )
    )
    return draw(
        100,
        14,
        "before and since",
        '<line x1="4" y1="7" x2="96" y2="7" stroke="currentColor" opacity=".25"/>'
        f'<line x1="{before:.1f}" y1="7" x2="{since:.1f}" y2="7" stroke="#3d8fd1" '
        'stroke-width="2"/>'
        f'<circle cx="{before:.1f}" cy="7" r="3" fill="none" stroke="currentColor"/>'
        f'<circle cx="{since:.1f}" cy="7" r="3.5" fill="currentColor"/>',
    )
