"""General rules from summaries alone: what repeats in those of praised or blamed episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from graphmem.graph.graph import Reader
from graphmem.ids import node_id
from graphmem.store.port import Row
from graphmem.text.sentences import clauses

SUMMARIES = "summaries"
REPEATED = 3
"""Fewest episodes that say a clause of a rule (as in the procedure)."""


def rules_of_summaries(reader: Reader, seen: Mapping[str, Any]) -> list[Row]:
    """Return the rules from the summaries of episodes without strategies and listed sentences.

    A clause that is part of a longer one of the same episodes is no rule of its own. ``seen`` are
    the ``agents`` and ``types`` of tasks whose episodes count; without it all count.
    """
    told = reader.read("consolidation.summaries", *(("agents",) if seen else ()), **seen)
    there: dict[str, Counter[bool]] = {}
    forms: dict[str, set[str]] = {}
    saying: dict[str, list[Row]] = {}
    for row in told:
        there.setdefault(row["task"], Counter())[row["good"]] += 1
        for wording, clause in clauses(row["summary"]).items():
            saying.setdefault(wording, []).append(row)
            forms.setdefault(wording, set()).add(clause)
    rows: list[Row] = []
    longer: dict[tuple[str, ...], list[str]] = {}
    for wording in sorted(saying, key=lambda wording: (-len(wording), wording)):
        found = saying[wording]
        episodes = tuple(row["id"] for row in found)
        wholes = longer.setdefault(episodes, [])
        if len(found) < REPEATED or any(f" {wording} " in f" {whole} " for whole in wholes):
            continue
        wholes.append(wording)
        tasks = {row["task"] for row in found}
        rows.append(
            {
                "text": min(forms[wording], key=lambda text: (len(text), text)),
                "episodes": list(episodes),
                "praised": sum(there[task][True] for task in tasks),
                "blamed": sum(there[task][False] for task in tasks),
            }
        )
    if not rows:
        return []
    rules = reader.read("consolidation.repeated_clauses", rows=rows)
    return [
        {"id": node_id(reader.ns, "Rule", "", SUMMARIES, row["text"]), "source": SUMMARIES, **row}
        for row in rules
    ]
