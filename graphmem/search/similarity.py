"""What is similar: strategies and tasks, searched by meaning and words, and imported skills."""

from __future__ import annotations

import base64
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from graphmem.errors import LockedError, StorageError
from graphmem.graph.access import EVERYTHING, View
from graphmem.graph.arguments import check_limit
from graphmem.graph.estimate import Estimate
from graphmem.graph.graph import Graph, Reader
from graphmem.graph.lookup import described_tasks, find_strategy, keyed_tasks
from graphmem.models.reports import SimilarStrategy
from graphmem.notebook import Listed
from graphmem.search.edges import LINKS
from graphmem.search.vectors import Vectors
from graphmem.store.paging import pages
from graphmem.store.port import TEXTS, Cosines, Near, Row, Vector
from graphmem.text.task_types import GENERAL, infer_task_type
from graphmem.text.words import words

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder

FUSION = 60
"""The constant of reciprocal rank fusion, added to a rank (Cormack, Clarke & Buettcher 2009)."""
ROUNDED = 1e-6  # how far the cosine of a text with itself may be from 1
NEAR_TASKS = 128  # most near tasks whose outcomes count for a question
COMPARED = 20_000  # most tasks of a history that are all compared with each other
_BLOCK = 256
_SAME = 0.9999
"""The cosine of two vectors of one text is at least that: they may be made in other batches."""
_ALIKE = 0.8  # cosine from which a near task counts, however many there are
_UNSEEN = 100  # the assumed number of texts of a label, if there may be more than were looked at
_GROWTH = 4  # factor for looking at more, if too little may be read
SKILLS = 16  # most skills that are near a task
WORTH, RANGE = 2.0, 2.0
"""What a skill says of a strategy counts for so many trials at the floor, and more above it."""


class Hit(NamedTuple):
    """A node that a search found, by its vector (rank from 1, else None), its words, or both."""

    id: str
    label: str
    """``Strategy`` or ``Task``."""
    similarity: float
    """Cosine of its text and the text that was searched for, in [-1, 1]."""
    vector_rank: int | None
    text_rank: int | None
    fused: float
    """Reciprocal rank fusion of the two, at most 2 / 61."""


class NearTasks(NamedTuple):
    """The known tasks that are similar enough to a text."""

    tasks: tuple[tuple[str, float], ...] = ()
    """Their ids and similarities, the nearest first; none is under the floor of relevance."""
    linked: tuple[tuple[str, float], ...] = ()
    """The few nearest, as ``SIMILAR_TO`` links them."""
    around: tuple[tuple[str, float], ...] = ()
    """The near and less similar ones, whose outcomes count for little each, at most 128."""
    lender: str | None = None
    """The nearest task, if it is near enough to lend its type."""
    edge: float = 1.0
    """The cosine at which another task counts for nothing."""


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


@dataclass(frozen=True, slots=True)
class Question:
    """A text that means a task, and what the memory knows of it and of tasks near it."""

    text: str
    known: tuple[Row, ...]
    """All tasks that it names: rows of ``lookup.tasks``."""
    near: NearTasks
    task_type: str | None
    """None: it has none."""
    type_rule: str | None
    """What decided the type: ``given``, the rule that fired, or ``near: <id of the task>``."""
    skills: tuple[NearSkill, ...] = ()
    """The imported skills that tell of such tasks, the nearest first."""

    @property
    def tasks(self) -> list[str]:
        """The ids of the tasks that it names."""
        return [row["id"] for row in self.known]


Expect = Callable[[Question, Sequence[str], View], Sequence[Estimate]]
"""Tells what to expect of strategies (texts), without those that count as another one."""


class Similarity:
    """Searches the strategies and tasks of one namespace."""

    def __init__(self, graph: Graph, embedder: Embedder | None = None) -> None:
        self._graph = graph
        self.vectors = Vectors(graph, embedder)
        self.fresh = self.vectors.fresh
        self.skills = SkillSearch(graph, self.vectors)

    def search(self, text: str, limit: int = 50, view: View = EVERYTHING) -> list[Hit]:
        """Return the tasks and strategies in a view that match a text, the best first.

        It searches by meaning (vectors) and by words (BM25), up to ``limit`` for each label and
        way, and fuses the ranks of both. An empty memory gives nothing, and loads no model.
        """
        index = self.fresh()
        if index is None:
            return []
        hits: list[Hit] = []
        vector, said = self.vectors.of(text, index), words(text)
        for label in TEXTS:
            ways = partial(index.near, label, vector), partial(index.matching, label, said, vector)
            near, matching = (self._readable(label, limit, view, find) for find in ways)
            similar = dict(matching) | dict(near)
            by_vector = {key: rank for rank, (key, _) in enumerate(near, 1)}
            by_words = {key: rank for rank, (key, _) in enumerate(matching, 1)}
            for key in by_vector | by_words:
                ranks = by_vector.get(key), by_words.get(key)
                fused = sum(1.0 / (FUSION + rank) for rank in ranks if rank is not None)
                hits.append(Hit(key, label, similar[key], *ranks, fused))
        return sorted(hits, key=lambda hit: (-hit.fused, -hit.similarity, hit.id))

    def _readable(
        self, label: str, limit: int, view: View, find: Callable[[int], Near], least: float = -1.0
    ) -> Near:
        """Return what a search finds in a view: it looks at more until enough may be read.

        Below a similarity :data:`LINKS` are enough.
        """
        found = find(limit)
        if view.agents is None:
            return found
        known: set[str] = set()
        there: set[str] = set()
        size = limit
        while True:
            ids = [key for key, _ in found if key not in known]
            known.update(ids)
            read = view.tasks if label == "Task" else view.strategies
            there.update(read(self._graph, ids))
            seen = [pair for pair in found if pair[0] in there]
            enough = LINKS if found and found[-1][1] < least else limit
            if len(seen) >= enough or len(found) < size:
                return seen[:limit]
            size *= _GROWTH
            found = find(size)

    def understand(self, text: str, view: View, task_type: str | None = None) -> Question:
        """Return what a question is about.

        The type is the given one, else that of the known tasks, else that of the wording, else that
        of the nearest known task if that is near enough. "general" means no type.
        """
        known, found = keyed_tasks(self._graph, text, view), NearTasks()
        if not known:
            found = self.near_tasks(text, view, ())
            among = self.same_tasks(text, found, view)
            known = described_tasks(self._graph, text, view, among)
        said = known[0]["text"] if known else text
        if known:
            found = self.near_tasks(said, view, [row["id"] for row in known])
        kind, rule = _type(self._graph, text, known, found, view, task_type)
        skills = self.skills.near(said, kind, view) if self.vectors.skills else ()
        return Question(text, tuple(known), found, kind, rule, tuple(skills))

    def near_strategies(self, text: str, view: View) -> list[tuple[str, float]]:
        """Return the ids and similarities of the strategies that lend to a strategy with a text."""
        index = self.fresh()
        if index is None:
            return []
        find = partial(index.near, "Strategy", self.vectors.of(text, index))
        near = self._readable("Strategy", LINKS, view, find)
        return [pair for pair in near if pair[1] >= self.similar_from]

    def near_tasks(self, text: str, view: View, own: Sequence[str]) -> NearTasks:
        """Return the tasks to which a text is relevantly similar, at most :data:`NEAR_TASKS`.

        ``own`` are the ids of the tasks with that text, which are left out. The nearest one can
        lend its type if their similarity is at least the embedder's ``near``, which one in 1,000
        pairs of unrelated texts exceeds; to a known task from ``similar`` on.
        """
        index = self.fresh()
        if index is None:
            return NearTasks()
        thresholds, size = self.vectors.embedder.thresholds, NEAR_TASKS + len(own)
        floor, given = thresholds.lowest, self._graph.settings.relevance_floor
        vector = self.vectors.of(text, index, own if view.agents is None else ())
        near = self._readable("Task", size, view, partial(index.near, "Task", vector), floor)
        least = max(self._floor("Task", len(near), LINKS, view) - ROUNDED, 0.0)
        lowest = least if given is not None else min(floor, least)
        around = tuple([pair for pair in near if pair[1] >= lowest and pair[0] not in own])
        around = around[:NEAR_TASKS]
        tasks = tuple([pair for pair in around if pair[1] >= least])
        lends = thresholds.similar if own else thresholds.near
        from_ = thresholds.similar if own else least
        return NearTasks(
            tasks,
            tuple([pair for pair in tasks[:LINKS] if pair[1] >= from_]),
            around,
            tasks[0][0] if tasks and tasks[0][1] >= lends else None,
            min(around[-1][1], max(floor, _ALIKE)) if len(around) == NEAR_TASKS else floor,
        )

    def same_tasks(self, text: str, found: NearTasks, view: View) -> Sequence[str] | None:
        """Return tasks (ids) among which are all with a text, for which these were found.

        None: there may be others.
        """
        index = self.vectors.index
        same = None if index is None else index.same_tasks(text)
        if same is None and view.agents is None:
            same = [key for key, cosine in found.around if cosine >= _SAME]
            return same if len(same) < NEAR_TASKS else None
        return same

    def near_before(self, tasks: Sequence[str]) -> Iterator[list[tuple[str, float]]] | None:
        """Return what was near each task (id) of a history when only those before it were known.

        That is an item for each task, in order: the ids of near tasks, and the weight of an outcome
        there, over 0. None: the history has more than :data:`COMPARED` tasks, or no vectors.
        """
        distinct = list(dict.fromkeys(tasks))
        index = self.fresh() if len(distinct) <= COMPARED else None
        return None if index is None else self._near_before(tasks, *index.matrix("Task", distinct))

    def _near_before(
        self, tasks: Sequence[str], there: Sequence[str], matrix: Vector
    ) -> Iterator[list[tuple[str, float]]]:
        import numpy as np

        given, known = self._graph.settings.relevance_floor, 0
        floor = self.vectors.embedder.thresholds.lowest
        places = {key: place for place, key in enumerate(there)}
        lowest = max((floor if given is None else given) - ROUNDED, 0.0)
        for page in pages(tasks, _BLOCK):
            rows = [places[key] for key in page if key in places]
            scores = iter(matrix[rows] @ matrix[: max([known, *rows]) + 1].T)
            for place in (places.get(key) for key in page):
                if place is None:
                    yield []
                    continue
                row = next(scores)[:known]
                if place < known:
                    row[place] = -1.0
                near = np.flatnonzero(row >= lowest)
                edge = floor
                if len(near) >= NEAR_TASKS:
                    near = near[np.argpartition(-row[near], NEAR_TASKS - 1)[:NEAR_TASKS]]
                    edge = min(float(row[near].min()), max(floor, _ALIKE))
                weights = (row[near] - edge) / max(1.0 - edge, 1e-9)
                pairs = zip(near.tolist(), weights.tolist(), strict=True)
                yield [(there[other], weight) for other, weight in pairs if weight > 0.0]
                known = max(known, place + 1)

    @property
    def similar_from(self) -> float:
        """The similarity from which strategies lend to each other."""
        return self.vectors.embedder.thresholds.similar

    def floors(self, hits: Sequence[Hit], limit: int, view: View) -> dict[str, float]:
        """Return by label the similarity below which no hit is relevant.

        The embedder's depends on the number of nodes. What others did must not show: for a reader
        with limits that is the number of hits, or :data:`_UNSEEN` if there may be more.
        """
        found = Counter(hit.label for hit in hits if hit.vector_rank is not None)
        return {label: self._floor(label, found[label], limit, view) for label in TEXTS}

    def _floor(self, label: str, found: int, limit: int, view: View) -> float:
        if (index := self.vectors.index) is None:  # the embedder is not asked for nothing
            return self._graph.settings.relevance_floor or 0.0
        if view.agents is None:
            return self.vectors.floor(index.count(label))
        return self.vectors.floor(found if found < limit else _UNSEEN)

    def cosines(self, label: str, ids: Sequence[str], others: Sequence[str]) -> Cosines:
        """Return the similarities of nodes and others, as of the last search.

        The shape is (ids, others); NaN stands for a missing vector.
        """
        import numpy as np

        index = self.vectors.index or self.fresh()
        if index is None:
            return np.full((len(ids), len(others)), np.nan)
        return index.cosines(label, ids, others)

    def similar(self, strategy: str, limit: int = 10) -> Listed[SimilarStrategy]:
        """Return the strategies with the most similar texts, the nearest first.

        Strategies are linked (SIMILAR_TO) if the similarity is over the embedder's threshold, and
        merged by ``memory.lessons.merge`` alone. New texts are embedded first.

        Args:
            strategy: its id or text.
            limit: most strategies to return.

        Raises:
            NotFoundError: there is no such strategy.
            SettingsError: the memory was built with another embedder.
            ValidationError: an argument is wrong.
        """
        check_limit(limit)
        found = find_strategy(self._graph, "strategy", strategy)
        own = found["id"]
        index = self.fresh()
        if index is None:  # it was erased meanwhile
            return Listed()
        there, rows = index.matrix("Strategy", [own])
        vector = rows[0] if there else self.vectors.of(found["text"])
        near = index.near("Strategy", vector, limit + 1)
        links = self._graph.read("similarity.links_of_strategies", ids=[own])
        linked = {row["other"] for row in links}
        rated = self._graph.read("similarity.rates", ids=[key for key, _ in near])
        rates = {row["id"]: row for row in rated}
        others = [one for one in near if one[0] != own and one[0] in rates]
        return Listed(
            SimilarStrategy(similarity=similarity, linked=key in linked, **rates[key])
            for key, similarity in others[:limit]
        )


class SkillSearch:
    """Searches imported skills: which of them tell of tasks like one that is asked about.

    A skill is near by its name and description. One without a description, as the part of a
    playbook under a heading, is also near by each of its first priors, which is then told alone.
    """

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
        least = self._vectors.floor(sum(len(rows) for _, rows in known)) - ROUNDED
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
                worth = WORTH + RANGE * (nearest - least) / max(1.0 - least, ROUNDED)
                skill = row["id"], row["source"], row["name"]
                found.append(NearSkill(*skill, nearest, worth, places))
        return sorted(found, key=lambda skill: (-skill.worth, skill.source, skill.kind))[:SKILLS]

    def embed(self, ids: Sequence[str]) -> list[tuple[Row, Vector]]:
        """Return skills and their vectors; new ones are stored if this process writes."""
        import numpy as np

        name, wanted = self._vectors.embedder.name, {*ids}
        made_by, known = self._known  # another thread may replace it
        if made_by != name or known.keys() != wanted:
            kept = {one: known[one] for one in wanted & known.keys()} if made_by == name else {}
            for row in self._read(sorted(wanted - kept.keys())):
                held = np.frombuffer(base64.b64decode(row["vectors"]), np.float32)
                kept[row["id"]] = row, held.reshape(-1, self._vectors.embedder.dimensions)
            known = kept
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


def _type(
    reader: Reader, text: str, known: Sequence[Row], near: NearTasks, view: View, given: str | None
) -> tuple[str | None, str | None]:
    if given is not None:
        return (None, None) if given == GENERAL else (given, "given")
    types = {row["task_type"]: row["type_rule"] for row in known if row["task_type"] != GENERAL}
    if types:
        return next(iter(types.items())) if len(types) == 1 else (None, None)
    if not known and (inferred := infer_task_type(text)).name != GENERAL:
        return inferred.name, inferred.rule
    if near.lender is not None:
        row = view.tasks(reader, [near.lender]).get(near.lender)
        if row is not None and row["task_type"] != GENERAL:
            return row["task_type"], f"near: {near.lender}"
    return None, None
