"""What levels hold, for tests of levels."""

from __future__ import annotations

from graphmem import Memory
from graphmem.models.levels import Entry


def entries_of(memory: Memory, level: str) -> list[Entry]:
    """The entries of a level, in the order of storing."""
    rows = memory.query(
        "MATCH (e:Entry)-[:IN]->(l:Level {name: $level}) WHERE l.ns = $ns "
        "RETURN e.id AS id ORDER BY e.seq",
        level=level,
    )
    found = {entry.id: entry for entry in memory.levels.entries([row["id"] for row in rows])}
    return [found[row["id"]] for row in rows]
