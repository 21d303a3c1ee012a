"""Searches imported skills: which of them tell of tasks like one that is asked about.

A skill is near by its name and description. One without a description, as the part of a playbook
under a heading, is also near by each of its first priors, which is then told alone.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from graphmem.errors import LockedError, StorageError
from graphmem.graph.access import View
from graphmem.graph.graph import Graph
from graphmem.store.paging import pages
from graphmem.store.port import Row

if TYPE_CHECKING:
    from graphmem.search.vectors import Vectors
    from graphmem.store.port import Vector

MOST = 16
"""Most skills that are near a task."""
LEAST, RANGE = 2.0, 2.0
"""What a skill says of a strategy counts for so many trials at the floor, and more on a task of
the same words."""
_ROUNDED = 1e-6


class NearSkill(NamedTuple):
    """A skill that tells of tasks like one that is asked about."""

    id: str
    source: str
    kind: str
    similarity: float
    """Cosine of what it is about and the text, 1 for its type."""
    worth: float
    """What all that it says of a strategy counts for, at most, in trials."""
    places: tuple[int, ...] | None = None
    """Which of its priors are near; None: all."""


class SkillSearch:
    """Searches the imported skills of one namespace."""

    def __init__(self, graph: Graph, vectors: Vectors) -> None:
        self._graph = graph
        self._vectors = vectors
        self._known: tuple[str, dict[str, tuple[Row, Vector]]] = "", {}
        """The skills by id, with their vectors, and the embedder that made these."""

    def near(self, text: str, task_type: str | None, view: View) -> list[NearSkill]:
        """Return the skills that tell of tasks like a text or of its type, the nearest first.

        A reader does not get skills with the name of a type that it may not learn.
        """
        known, vector = self.embed(self._vectors.skills), self._vectors.of(text)
        least = self._vectors.floor(sum(len(rows) for _, rows in known)) - _ROUNDED
        found: list[NearSkill] = []
        for row, rows in known:
            if not view.allows(row["name"]):
                continue
            cosines = (rows @ vector).tolist()
            whole = 1.0 if row["name"] == task_type else cosines[0]
            places = None
            if whole < least:
                places = tuple(at for at, cosine in enumerate(cosines[1:]) if cosine >= least)
            if places is None or places:
                nearest = min(max(whole, *cosines), 1.0)
                worth = LEAST + RANGE * (nearest - least) / max(1.0 - least, _ROUNDED)
                skill = row["id"], row["source"], row["name"]
                found.append(NearSkill(*skill, nearest, worth, places))
        return sorted(found, key=lambda skill: (-skill.worth, skill.source, skill.kind))[:MOST]

    def embed(self, ids: Sequence[str]) -> list[tuple[Row, Vector]]:
        """Return skills and their vectors; new ones are stored if this process writes."""
        from graphmem.arrays import np

        name, wanted = self._vectors.embedder.name, {*ids}
        made_by, known = self._known  # another thread may replace it
        if made_by != name or known.keys() != wanted:
            kept = {one: known[one] for one in wanted & known.keys()} if made_by == name else {}
            new = self._read(sorted(wanted - kept.keys()))
            known = dict(kept)
            for row in new:
                held = np.frombuffer(base64.b64decode(row["vectors"]), np.float32)
                known[row["id"]] = row, held.reshape(-1, self._vectors.embedder.dimensions)
            self._known = name, known
        return list(known.values())

    def _read(self, ids: Sequence[str]) -> list[Row]:
        """Return skills with their vectors, as text; embed those that have none yet."""
        rows = self._graph.read("skills.texts", ids=list(ids))
        name, _ = self._vectors.adopt()
        lacking = [row for row in rows if row["embedder"] != name]
        for row in lacking:
            about = f": {row['description']}" if row["description"] else ""
            vectors = self._vectors.embedder.embed([row["name"] + about, *row["texts"]])
            row["vectors"] = base64.b64encode(vectors.tobytes()).decode()
        if lacking and self._graph.store.writing:
            with contextlib.suppress(StorageError, LockedError):
                new = [{"id": row["id"], "vectors": row["vectors"]} for row in lacking]
                for page in pages(new):
                    self._graph.write("skills.embed", embedder=name, rows=page)
        return rows
