"""What imported files say of candidates on a task, and what it counts for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphmem.graph.graph import Graph
from graphmem.graph.nearness import NearSkill, Question
from graphmem.ids import prior_id
from graphmem.models.skills import Prior


def read_priors(
    graph: Graph, question: Question, texts: Mapping[str, Sequence[str]]
) -> dict[str, list[Prior]]:
    """Return what near skills say of candidates, by key; ``texts`` are those that count as each."""
    of: dict[str, tuple[str, NearSkill]] = {}
    for skill in question.skills:
        for key, several in texts.items():
            for text in several:
                of[prior_id(graph.ns, skill.id, text)] = key, skill
    told = {row["id"]: row for row in graph.read("skills.told", ids=list(of))}
    found: dict[str, list[Prior]] = {}
    for identity, (key, skill) in of.items():
        if identity not in told:
            continue
        row = told[identity]
        if skill.places is None or row["place"] in skill.places:
            said = {name: row[name] for name in ("verdict", "trials", "successes")}
            prior = Prior(source=skill.source, kind=skill.kind, worth=skill.worth, **said)
            found.setdefault(key, []).append(prior)
    return {key: _weighed(said) for key, said in found.items()}


def _weighed(priors: Sequence[Prior]) -> list[Prior]:
    """Return what files say of a strategy, each with its share of what they count for together.

    They count for ``n v / (n + v)`` of their n trials, v being what the nearest one counts for, at
    most. A word without counts is one trial.
    """
    most = max(one.worth for one in priors)
    total = sum(one.trials or 1 for one in priors)
    return [
        one.model_copy(update={"worth": (one.trials or 1) * most / (total + most)})
        for one in priors
    ]
