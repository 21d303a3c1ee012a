"""A map of the levels, for an agent or a person."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from graphmem.errors import ValidationError
from graphmem.models.fields import Output
from graphmem.models.levels import EVENTS, LevelInfo
from graphmem.printable import counted
from graphmem.text.mermaid import NAME, label, short
from graphmem.text.tokens import count_tokens

TOKENS = 300
"""Most tokens of a map as text."""


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
        levels, entries = counted(len(self.levels), "level"), counted(self.entries, "entry")
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
            left = len(self.levels) - shown
            more = f"and {left} more {'level' if left == 1 else 'levels'}"
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
                yield f"{start}{short(name)}{way}: {_contents_of(by_name[name])}", True
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
            f'  {ids[level.name]}["{label(level.name)}<br/>{_contents_of(level)}"]'
            for level in self.levels
        ]
        for edge in self.edges:
            words = ", ".join(_way(edge))
            arrow = f'-->|"{label(words, 4 * NAME)}"|' if words else "-->"
            lines.append(f"  {ids[edge.source]} {arrow} {ids[edge.target]}")
        return "\n".join(lines) + "\n"


_AGAIN = " (above)"


def _contents_of(level: LevelInfo) -> str:
    """Return the contents of a level in words."""
    if level.view:
        return f"shows {level.holds}"
    parts = [counted(level.entries, "entry")]
    words = ("expired", "pending", "missed", "failed")
    parts += [f"{number} {word}" for word in words if (number := getattr(level, word))]
    parts += [f"from {short(name)}" for name in level.subscribed_to if name.startswith(EVENTS)]
    if level.ttl is not None:
        parts.append(f"for {level.ttl:.6g} s")
    if level.capacity is not None:
        parts.append(f"at most {level.capacity}")
    return ", ".join(parts)


def _way(edge: LevelEdge) -> list[str]:
    pending = [f"{edge.pending} pending"] if edge.pending else []
    return [*([short(edge.transformer)] if edge.transformer else []), *pending]
