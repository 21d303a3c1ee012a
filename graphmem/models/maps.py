"""A map of the levels, for an agent or a person."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from graphmem.errors import SettingsError, ValidationError
from graphmem.files import writing
from graphmem.models.fields import Output
from graphmem.models.levels import EVENTS, LevelInfo
from graphmem.text.mermaid import NAME, label, short
from graphmem.text.tokens import count_tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOKENS = 300
"""Most tokens of a map as text."""
_ENDINGS = (".png", ".svg")


class LevelEdge(Output):
    """A level that pulls from another, in a map."""

    source: str
    target: str
    """The level that pulls."""
    transformer: str | None
    pending: int
    """Changes of the source that the target has not ingested yet."""


class LevelStatistics(Output):
    """The totals of levels."""

    at: datetime
    levels: int
    subscriptions: int
    entries: int
    """Entries that have not expired."""
    expired: int
    """Entries that expired, and that maintenance did not remove yet."""
    missed: int
    """Entries that expired, or were removed, before a subscriber ingested them."""
    failed: int
    """Calls of functions that producers could not remember."""
    pending: int
    """Changes that levels have not ingested yet, summed over all subscriptions."""
    kinds: dict[str, int]
    """Entries by kind of level: ``sensory``, ``working`` ..."""
    over_capacity: tuple[str, ...]
    """The levels that hold more than they should, by name."""
    oldest_at: datetime | None
    newest_at: datetime | None


class MemoryMap(Output):
    """The levels that a reader may read, their contents, and which pulls from which.

    ``str`` of it is a tree of at most 300 tokens, for a prompt.
    """

    _rows = "levels"

    agent: str | None
    """Who reads; None: anybody."""
    at: datetime
    levels: tuple[LevelInfo, ...]
    """The reader's own levels first, then by name."""
    edges: tuple[LevelEdge, ...]

    @property
    def entries(self) -> int:
        """Entries that have not expired."""
        return sum(level.entries for level in self.levels)

    @property
    def pending(self) -> int:
        """Changes that levels have not ingested yet."""
        return sum(level.pending for level in self.levels)

    def to_json(self) -> str:
        """Return the map as JSON."""
        return self.model_dump_json(indent=2)

    def __str__(self) -> str:
        return self.tree()

    def tree(self, max_tokens: int = TOKENS) -> str:
        """Return the map as text: under each level the levels that pull from it.

        Args:
            max_tokens: most tokens of the text; what does not fit is counted in its last line.

        Raises:
            ValidationError: ``max_tokens`` is below 50.
        """
        if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 50:
            raise ValidationError("max_tokens", max_tokens, "is no number from 50 on")
        whose = "" if self.agent is None else f" that {short(self.agent)} may read"
        levels, entries = _many(len(self.levels), "level"), _many(self.entries, "entry")
        head = f"{levels}{whose}: {entries}, {self.pending} pending"
        lines, left, shown = [head], max_tokens - count_tokens(head), 0
        for line, new in self._lines():
            left -= count_tokens(line)
            if left < 0:
                break
            lines.append(line)
            shown += new
        # The last lines say what is left out.
        while shown < len(self.levels):
            more = f"and {_many(len(self.levels) - shown, 'more level')}"
            if count_tokens("\n".join([*lines, more])) <= max_tokens:
                return "\n".join([*lines, more])
            shown -= not lines.pop().endswith(_AGAIN)
        return "\n".join(lines)

    def _lines(self) -> Iterator[tuple[str, bool]]:
        """Yield the lines of the tree, and whether each shows a level for the first time."""
        by_name = {level.name: level for level in self.levels}
        above: dict[str, list[LevelEdge]] = {}
        for edge in self.edges:
            above.setdefault(edge.source, []).append(edge)
        fed = {edge.target for edge in self.edges}
        seen: set[str] = set()
        roots = [level.name for level in self.levels if level.name not in fed]
        for root in (*roots, *by_name):  # a circle, which an import can close, has no root
            waiting = [] if root in seen else [(0, root, "")]
            while waiting:
                depth, name, way = waiting.pop()
                start = f"{'  ' * (depth - 1)}└ " if depth else ""
                if name in seen:
                    yield f"{start}{short(name)}{way}{_AGAIN}", False
                    continue
                seen.add(name)
                yield f"{start}{short(name)}{way}: {_held(by_name[name])}", True
                waiting += [
                    (
                        depth + 1,
                        edge.target,
                        f" ({short(edge.transformer)})" if edge.transformer else "",
                    )
                    for edge in reversed(above.get(name, ()))
                ]

    def mermaid(self) -> str:
        """Return the map as a flow chart in Mermaid."""
        ids = {level.name: f"l{number}" for number, level in enumerate(self.levels)}
        lines = ["flowchart LR"]
        lines += [
            f'  {ids[level.name]}["{label(level.name)}<br/>{_held(level)}"]'
            for level in self.levels
        ]
        for edge in self.edges:
            words = _way(edge)
            arrow = f'-->|"{label(words, 4 * NAME)}"|' if words else "-->"
            lines.append(f"  {ids[edge.source]} {arrow} {ids[edge.target]}")
        return "\n".join(lines) + "\n"

    def plot(self, file: str | Path | None = None) -> Figure:
        """Draw the map, from the left to the right as entries flow; return the figure.

        Args:
            file: a .png or .svg to write; None: none.

        Raises:
            ValidationError: the name of the file has another ending.
            SettingsError: matplotlib is not installed.
            StorageError: the file cannot be written.
        """
        if file is not None and Path(file).suffix.lower() not in _ENDINGS:
            raise ValidationError("file", str(file), "is no .png or .svg")
        figure = _drawn(self)
        if file is not None:
            with writing(file) as picture, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a font that lacks a letter
                figure.savefig(picture, format=Path(file).suffix[1:].lower())
        return figure


_AGAIN = " (above)"


def _held(level: LevelInfo) -> str:
    """Return the contents of a level in words."""
    if level.view:
        return f"shows {level.holds}"
    parts = [_many(level.entries, "entry")]
    words = ("expired", "pending", "missed", "failed")
    parts += [f"{number} {word}" for word in words if (number := getattr(level, word))]
    parts += [f"from {short(name)}" for name in level.subscribed_to if name.startswith(EVENTS)]
    if level.ttl is not None:
        parts.append(f"for {level.ttl:.6g} s")
    if level.capacity is not None:
        parts.append(f"at most {level.capacity}")
    return ", ".join(parts)


def _many(number: int, what: str) -> str:
    """Return a number of things in words."""
    more = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number} {what if number == 1 else more}"


def _way(edge: LevelEdge) -> str:
    words = [short(edge.transformer)] if edge.transformer else []
    if edge.pending:
        words.append(f"{edge.pending} pending")
    return ", ".join(words)


def _drawn(memory: MemoryMap) -> Figure:
    try:
        import networkx as nx
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingsError(
            f"plot needs {error.name}, which is not installed; "
            "in a clone of graphmem: pip install -e '.[plots]'"
        ) from None

    graph = nx.DiGraph()
    graph.add_nodes_from(level.name for level in memory.levels)
    graph.add_edges_from((edge.source, edge.target) for edge in memory.edges)
    whole = nx.condensation(graph)  # a circle, which an import can close, is in one column
    columns = [
        sorted(name for part in parts for name in whole.nodes[part]["members"])
        for parts in nx.topological_generations(whole)
    ]
    place: Mapping[str, tuple[float, float]] = {
        name: (x, -(y + 0.5) / len(names))
        for x, names in enumerate(columns)
        for y, name in enumerate(names)
    }
    tallest = max(map(len, columns), default=1)
    height = min(0.5 + 0.8 * tallest, 300)  # inches; pictures have a largest size
    figure = Figure(figsize=(3.4 * max(1, min(len(columns), 80)), height))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-0.5, max(1, len(columns)) - 0.5)
    axes.set_ylim(-1, 0)
    boxes: dict[str, object] = {}
    for level in memory.levels:
        text = f"{short(level.name)}\n{_held(level)}".replace("$", r"\$")
        box = {"boxstyle": "round", "facecolor": "#e8f1fa" if level.view else "white"}
        at = place[level.name]
        shown = axes.text(*at, text, ha="center", va="center", fontsize=7, bbox=box)
        boxes[level.name] = shown.get_bbox_patch()
    for edge in memory.edges:
        axes.annotate(
            "",
            xy=place[edge.target],
            xytext=place[edge.source],
            arrowprops={
                "arrowstyle": "->",
                "color": "#888888",
                "patchA": boxes[edge.source],
                "patchB": boxes[edge.target],
            },
        )
    return figure
