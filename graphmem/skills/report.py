"""A page of HTML on what was learned, for whoever got a log: one file, no script, no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from graphmem.notebook.html import draw_interval
from graphmem.skills.conclusions import Finding, Kind
from graphmem.skills.markdown import TEXT, sections, summary
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
the dot is the rate since, and the other end of the bar the one before.
<code>graphmem explain ID</code> shows the runs behind a line.</p>
"""


def write_report(kinds: Sequence[Kind], namespace: str) -> str:
    """Return the page on all kinds of tasks."""
    every = Kind(namespace, "", [task for kind in kinds for task in kind.tasks])
    told = "<p>Nothing was learned yet.</p>\n"
    if every.runs:
        told = f"<p>{summary(every, _quoted)} Namespace: {_quoted(namespace)}.</p>\n"
        told += _READ + _overview(kinds)
    body = "".join(_section(place, kind) for place, kind in enumerate(kinds) if kind.findings)
    return f"{_HEAD}<h1>What worked</h1>\n{told}{body}</body>\n</html>\n"


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
    for title, said, more in sections(kind, _quoted):
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
