"""A memory with something of everything in it, and arguments for every procedure there."""

from __future__ import annotations

import functools
import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise, permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import JsonValue

from graphmem import Episode, Memory, Settings, Step, StrategyUse
from graphmem.config import KEPT
from graphmem.episodes.counting import addition, parts
from graphmem.episodes.rows import episode_row
from graphmem.ids import node_id, rule_id, strategy_id
from graphmem.models import LevelUpkeep, MistakeCard, Tags
from graphmem.search.embedding import Hashing
from graphmem.store.queries import Query, procedure

DAY = datetime(2026, 5, 1, tzinfo=UTC)
HERE: dict[str, JsonValue] = {"place": "here"}
THERE: dict[str, JsonValue] = {"place": "there"}
PARTS = ("rules", "mistakes", "heuristics", "anti_patterns", "general_rules", "episodes")
STRENGTHS: dict[str, JsonValue] = {
    **dict.fromkeys(("task_strength", "strategy_strength", "cell_strength"), 3.0),
    "trials": 100,
    "gain": 5.0,
    "score": 4.0,
    "fitted": True,
}
STORE_WIDE = {
    *("schema.version", "schema.stamp", "schema.indexes", "maintenance.namespaces"),
    "maintenance.inhabited",
    *(f"schema.put_{kind}" for kind in ("tallies", "outcomes")),
    *("schema.count_successes", "schema.weigh_heuristics", "schema.weigh_anti_patterns"),
}
"""These concern the store, not a namespace: nobody calls them with what is not theirs."""


def populate(memory: Memory, tag: str) -> None:
    """The same words in every namespace, so that a missing filter would show."""
    for number in range(3):
        memory.learn(
            "shared task",
            [chosen("shared a"), "shared b"],
            success=number != 1,
            agent="shared agent",
            task_type="shared",
            ended_at=DAY,
            source_key=f"{tag}/{number}",
            steps=[
                Step(action=tag, error="shared error"),
                Step(action="go", state=HERE, reward=1.0, next_state=THERE),
                Step(action="stay", state=THERE, reward=1.0, terminal=True),
            ],
        )
    policies = memory.policies
    policies.learn_episodes()
    policies.update(HERE, "go", 1.0, next_state=THERE, agent="shared agent", at=DAY)
    policies.update(THERE, "go", 1.0, terminal=True, agent="shared agent", success=True)
    go, stay = ids(memory, "Policy")[:2]
    policies.strengthen(go, stay)
    memory.predictions.expect(go, probability=0.5)
    next(memory.events.listen("shared group", consumer="shared consumer", limit=3))
    for week in range(12):
        policies.observe(HERE, "weekly", True, agent="shared agent", at=DAY + timedelta(weeks=week))
    weekly = policies.get(HERE, "weekly", agent="shared agent")
    assert weekly is not None
    assert memory.cycles.examine(weekly, keep=True).cycles
    memory.policies.crystallize(threshold=0.1)
    assert memory.policies.crystallize(threshold=0.9).taken_back
    say(memory)
    hold(memory)
    keep(memory, tag)
    teach(memory, tag)
    generalize(memory, tag)
    memory.upkeep.relink("hashing")
    given: dict[str, Any] = {"source_key": f"{tag}/pending", "error": "shared error"}
    memory.learn("shared pending", "shared pending", success=True, **given)
    memory.settle(f"{tag}/pending", score=0.8, error="another")
    memory.store.write(
        procedure("forecasting.put_pooling"),
        ns=memory.namespace,
        now=1,
        id=f"pooling in {memory.namespace}",
        strengths=STRENGTHS,
    )
    with memory.attempt("shared task", agent="shared agent", extra={"tag": tag}) as attempt:
        attempt.used("shared a")  # and no outcome
    memory.upkeep.flush()  # else counts of reads come in while a test looks


def chosen(text: str) -> StrategyUse:
    """A strategy that was chosen among two."""
    return StrategyUse(text, explore="shared way", candidates={text: 0.5, "shared rest": 0.5})


def say(memory: Memory) -> None:
    """Preferences, knowledge and scopes, each with one that stands against another."""
    for day, text in enumerate(("shared a", "shared b")):
        at = DAY + timedelta(days=day)
        memory.people.prefer("shared user", "shared category", text, at=at)
    first = memory.people.know("shared domain", "shared fact", user="shared user")
    memory.people.know("shared domain", "other fact", user="shared user", contradicts=first)
    memory.scopes.set("shared other", share_with=["shared agent"], inherit_from=["shared agent"])


def hold(memory: Memory) -> None:
    """Levels that pull from each other, and entries that outlive a test."""
    memory.levels.default("shared agent")
    both = ["collective:shared", "collective:spare"]
    fading = LevelUpkeep(decay=0.0001)
    for name in both:
        memory.levels.put(name, purpose="shared purpose", members="shared agent", upkeep=fading)
        memory.levels.add(name, "shared entry", tags=["shared"], key="shared")
    memory.levels.add("agent:shared agent:stm", {"shared": "content"}, tags=["shared"])
    memory.levels.put_lens("collective:lens", both, tags=Tags(any_of=["shared"]), max_age=1e9)


def keep(memory: Memory, tag: str) -> None:
    """A file that was imported, with something beside its episode."""
    with TemporaryDirectory() as folder:
        form = {"task_id": "shared task", "score": 0.9, "successes": ["shared"], "steps": 3}
        (file := Path(folder) / f"{tag}.json").write_text(
            json.dumps({"episode_log": [form], "shared": tag})
        )
        memory.upkeep.import_(file, "sentinel", document="shared file")
        file.write_text(
            "---\nname: shared task\ndescription: shared\n---\n- shared a\n- never shared b\n"
        )
        memory.skills.import_(file, "shared source")


def teach(memory: Memory, tag: str) -> None:
    """Something of every lesson, and strategies that were merged."""
    for number in range(4):
        memory.learn_many(
            [
                {
                    "task": "shared task",
                    "strategy": chosen(["shared b", "shared d"][number % 2]),
                    "score": [0.1, 0.9][number // 2],
                    "agent": "shared agent",
                    "task_type": "shared",
                    "error": f"shared error {number}",
                    "successes": ["shared sentence"],
                    "mistakes": ["shared mistake"],
                    "mistake_cards": [{"type": "shared", "evidence": tag, "lesson": "shared"}],
                    "source_key": f"{tag}/lesson/{number}",
                }
            ]
        )
    memory.lessons.merge("shared b", "shared d")


def generalize(memory: Memory, tag: str) -> None:
    """A general rule: a strategy that worked on several tasks."""
    memory.learn_many(
        {
            "task": f"shared task {number % 2}",
            "strategy": [chosen("shared c")],
            "score": 0.9,
            "agent": "shared agent",
            "task_type": "shared",
            "source_key": f"{tag}/general/{number}",
        }
        for number in range(4)
    )
    assert memory.lessons.consolidate(force=True).rules


class Asked:
    """A memory that nothing changes, so that it is asked each thing only once."""

    def __init__(self, memory: Memory) -> None:
        self.namespace = memory.namespace
        self.query = functools.cache(memory.query)


def ids(memory: Memory | Asked, label: str) -> list[str]:
    found = memory.query(f"MATCH (n:{label}) WHERE n.ns = $ns RETURN n.id AS id ORDER BY id")
    return [row["id"] for row in found]


def merged(memory: Memory | Asked) -> set[str]:
    """The strategies that were merged into others."""
    rows = memory.query("MATCH (s:Strategy)-[:MERGED_INTO]->() WHERE s.ns = $ns RETURN s.id AS id")
    return {row["id"] for row in rows}


def variants(query: Query) -> list[tuple[str, ...]]:
    """The options with which a procedure is tried: each alone, and all of them.

    The parts of ``learning.add_many`` build on those before them.
    """
    if query.name == "learning.add_many":
        return [tuple(query.options)]
    return list(dict.fromkeys([(), *((option,) for option in query.options), tuple(query.options)]))


def learned(query: Query, ns: str, target: Memory | Asked) -> dict[str, Any]:
    """Arguments of ``learning.add``: an episode like those that ``target`` knows."""
    uses = [StrategyUse(text) for text in ("shared b", "shared d")]
    row = episode_row(
        Episode(
            task="shared task",
            strategy=uses if "pairs" in query.params else uses[:1],
            score=0.1,
            agent="shared agent",
            task_type="shared",
            error="shared error 0",
            steps=[Step()],
            ended_at=DAY,
            source_key="shared addition",
        ),
        target.namespace,
        0.5,
    )
    _, params = addition(row, 2**50)
    named = {"ns": ns, "namespace": node_id(target.namespace, "Namespace")}
    return {**params, **named, "half_life_days": 90.0, "half_life": 1e9}


def batch(ns: str, target: Asked) -> dict[str, Any]:
    """Arguments of ``learning.add_many``: two episodes with something for each of its parts.

    One is like those that ``target`` knows, one is about what nobody knows; where it is the wrong
    namespace, there is nothing, for ids were found in one before.
    """
    if ns != target.namespace:
        return {}
    rows = []
    for place, word in enumerate(("shared", "new")):
        episode = Episode(
            task=f"{word} task",
            strategy=[chosen(f"{word} b"), f"{word} d"],
            score=0.1,
            agent=f"{word} agent",
            task_type="shared",
            error="shared error 0",
            steps=[Step()],
            ended_at=DAY,
            successes=(f"{word} sentence",),
            mistake_cards=(MistakeCard(type=word),),
            source_key=f"{word} addition",
        )
        row = episode_row(episode, ns, 0.5)
        rows.append({**row, "at": row["used_at"], "_place": place})
    there: dict[str, dict[str, Any]] = {
        label: {key: {"created_at": 2, "won": 9, "lost": 9} for key in ids(target, label)}
        for label in (
            *("Agent", "Stream", "Tally", "Task", "Strategy"),
            *("Heuristic", "AntiPattern"),
        )
    }
    added, _ = parts(sorted(rows, key=lambda row: str(row["id"])), 1, there)
    return {name: found for given in added.values() for name, found in given.items()}


Rows = list[dict[str, Any]]
READS: dict[str, Any] = {"reads": 7, "at": 7}
VECTOR = [1.0, 0.0]
LATE: dict[str, Any] = {"created_at": 2**60, "first_at": None, "last_at": None}
GONE = {"effective_trials": 0.1, "effective_successes": 0.1, "latest": []}
SHARE = {"trials": 0, "successes": 0, "credit_sum": 0.1, "score_sum": 0.1, **GONE, **LATE}
TIMES = {"created_at": 77, "first_at": 77, "last_at": 77}
NUMBERS = {"trials": 77, "successes": 7, "credit_sum": 7.0, "score_sum": 7.0}
EACH: dict[str, tuple[str, dict[str, Any]]] = {
    "maintenance.put_strategies": ("Strategy", {"trials": 77}),
    "maintenance.put_tasks": ("Task", {"description": "77", "type": "77"}),
    "maintenance.put_agents": ("Agent", {"created_at": 77}),
    "lessons_maintenance.put_rules": ("Rule", {"worked": 77}),
    "lessons_maintenance.put_mistakes": ("Mistake", {"seen": 77}),
    "shares.take_strategies": ("Strategy", {"last_used_at": None, **SHARE}),
    "shares.take_heuristics": ("Heuristic", SHARE),
    "shares.take_anti_patterns": ("AntiPattern", {"occurrences": 1, **LATE}),
    "shares.weigh_anti_patterns": ("Heuristic", {}),
    "shares.take_tasks": ("Task", {**SHARE, "episodes": 0, "described_by": "x", "typed_by": None}),
    "shares.take_tallies": ("Tally", {**SHARE, "trials": 1}),
    "shares.take_agents": ("Agent", LATE),
    "shares.set_heuristics": ("Heuristic", {**NUMBERS, **TIMES, "odds": 7.0}),
    "shares.set_anti_patterns": ("AntiPattern", {"types": ["x"], "occurrences": 77, **TIMES}),
    "policies.open_states": ("State", {"features": "{}"}),
    "policies.put": ("Policy", {"q": 77.0}),
    "policies.spread": ("Policy", {"energy": 1.0}),
    "policies.count_reads": ("Policy", READS),
    "learning.count_reads": ("Strategy", READS),
    "consolidation.update": ("Rule", {"worked": 77}),
    **{
        f"search.put_{kind}": (label, {"digest": "x", "words": "x", "vector": VECTOR})
        for kind, label in (("strategies", "Strategy"), ("tasks", "Task"))
    },
    "search.put_facts": ("Knowledge", {"vector": VECTOR}),
    "search.put_entries": ("Entry", {"seq": 1, "vector": VECTOR}),
    "entries.prolong": ("Entry", {"expires_at": 7}),
    "entries.count_reads": ("Entry", READS),
    "upkeep.absorb": ("Entry", {"tags": ["77"], "tagset": "77", "at": 77}),
    "recall_kinds.told": ("Task", {"relevance": 0.7}),
    "lenses.put": ("Lens", {"levels": ["77"], "most": 7}),
}
"""Procedures that take the same row for each node of a label."""


def lesson_rows(query: Query, ns: str, target: Asked) -> dict[str, Rows]:
    """Rows for procedures of lessons; for those that rely on nodes that were found in a namespace
    before, only where that is the one of ``target``."""
    strategies, tasks = ids(target, "Strategy"), ids(target, "Task")
    heuristics, patterns = ids(target, "Heuristic"), ids(target, "AntiPattern")
    episodes, agents = ids(target, "Episode"), ids(target, "Agent")
    sample = {"supporting": episodes[:1], "opposing": episodes[1:2]}
    pair = {"successes": 0, "undated": 0, "weight": 0.1, "last_at": None, "count": 1}
    own = {**NUMBERS, "agent": "x"}
    rows: dict[str, Rows] = {
        "lessons.alternatives_on_tasks": [{"id": "x", "strategy": strategies[0], "tasks": tasks}],
        "lessons.put_preferred": [
            {"id": i, "strategy": s, "lift": 0.7} for i in patterns for s in strategies
        ],
        "lessons_maintenance.put_heuristics": [
            {"id": f"heuristic of {ns} {s}", "strategy": s, **own} for s in strategies
        ],
        "maintenance.put_tallies": [
            {"id": f"tally of {ns} {i}", "home": i, "type": "x", **own} for i in agents
        ],
        "lessons_maintenance.put_anti_patterns": [
            {"id": f"anti-pattern of {ns} {s}", "strategy": s, "types": ["x"], **own}
            for s in strategies
        ],
        "lessons_maintenance.put_recent": [{"id": i, "episodes": episodes} for i in tasks],
        "shares.take_outcomes": [
            {"strategy": s, "task": t, **SHARE, "agent": "shared agent", "trials": 1}
            for s in strategies
            for t in tasks
        ],
        "shares.take_co_occurrences": [
            {"low": low, "high": high, **pair} for low in strategies for high in strategies
        ],
        "maintenance.put_outcomes": [
            {"strategy": s, "task": t, "agent": "x", "trials": 77}
            for s in strategies
            for t in tasks
        ],
        "maintenance.put_co_occurrences": [
            {"low": strategies[0], "high": strategies[1], "count": 77}
        ],
    }
    if ns != target.namespace:
        return rows
    return rows | {
        "lessons_maintenance.link_heuristics": [{"id": i, **sample} for i in heuristics],
        "lessons_maintenance.link_anti_patterns": [
            {"id": i, "supporting": episodes[:1], "opposing": heuristics} for i in patterns
        ],
    }


def explained(name: str, target: Asked) -> dict[str, Any]:
    """What procedures of explanations ask of the nodes of ``target``."""
    strategies, policies = ids(target, "Strategy"), ids(target, "Policy")
    rule = rule_id(target.namespace, "shared task", "shared sentence")
    took = "MATCH (:Episode)-[:TOOK]->(p:Policy) WHERE p.ns = $ns RETURN p.id AS id ORDER BY id"
    of_policy = "policy" in name or name.endswith(("attempts", "transitions"))
    own: dict[str, Any] = {}
    if "near" in name:  # all of them have nothing else beside them
        own["ids"] = [strategy_id(target.namespace, "shared a")]
    return own | {
        "id": target.query(took)[0]["id"] if of_policy else rule,
        "text": "shared a",
        "whole": strategies[0],
        "parts": [{"id": one, "types": None} for one in strategies],
        "by": "task",
        "verdict": "WORKS",
        "types": None,
        "error_class": None,
        "trials": 9,
        "successes": 6,
        "times": [3, 2, 1],
        "outcomes": [0, 1, 1],
        **dict.fromkeys(("worked", "praised"), 3),
        **dict.fromkeys(("failed", "blamed"), 1),
        "lessons": [*ids(target, "Heuristic"), *ids(target, "AntiPattern")],
        "strategies": strategies,
        "rules": [rule],
        "policies": policies,
        "episodes": ids(target, "Episode"),
        "transitions": ids(target, "Transition"),
        "others": policies if of_policy else strategies,
    }


@functools.cache
def kept_settings() -> dict[str, Any]:
    """The defaults of the settings that a memory keeps."""
    return Settings().model_dump(include=set(KEPT))


def arguments(query: Query, ns: str, target: Asked) -> dict[str, Any]:
    """Arguments that aim at the nodes of ``target``, in namespace ``ns``."""
    if query.name == "learning.add":
        return learned(query, ns, target)
    policies, states = ids(target, "Policy"), ids(target, "State")
    of_agents = (
        "MATCH (t:Stream) WHERE t.ns = $ns AND t.level IS NULL RETURN t.id AS id ORDER BY id"
    )
    streams, claims = [row["id"] for row in target.query(of_agents)], ids(target, "Claim")
    level = "MATCH (e:Entry)-[:IN]->(l:Level)-[:WRITES]->(t:Stream) WHERE e.ns = $ns AND t.ns = $ns"
    held = target.query(
        f"{level} RETURN e.id AS id, e.said AS said, l.id AS level, t.id AS stream "
        "ORDER BY id LIMIT 1"
    )[0]
    with_policies = "MATCH (p:Policy) WHERE p.ns = $ns RETURN p.stream AS stream ORDER BY stream"
    decided = [row["stream"] for row in target.query(with_policies)] or streams
    pairs = [{"low": low, "high": high} for low, high in pairwise(policies)]
    levels = permutations(ids(target, "Level"), 2)
    subscriptions = [{"id": low, "source": high} for low, high in levels]
    rows: dict[str, Rows] = {
        "events.advance": [{"stream": streams[0], "last": 777}],
        "policies.open": [
            {"id": f"new {ns} {i}", "state_id": i, "stream": "x", "agent": "x"} for i in states
        ],
        "policies.put_links": [{**pair, "count": 77} for pair in pairs],
        "policies.took": [
            {"episode": ids(target, "Episode")[0], "policies": [{"id": policies[0], "steps": 7}]}
        ],
        "events.append_transitions": [
            {
                "id": f"{ns}:{i}",
                "subject": i,
                "next_id": states[0],
                "episode": ids(target, "Episode")[0],
                "seq": 1,
            }
            for i in policies
        ],
        "consolidation.repeated_sentences": [{"text": "shared", "rules": ids(target, "Rule")}],
        "consolidation.shown": [
            {"id": "x", "verdict": "WORKS", "text": "x", "episodes": ids(target, "Episode")}
        ],
        "consolidation.create": [
            {
                "id": f"rule of {ns}",
                "links": [{"episode": ids(target, "Episode")[0], "supports": False, "at": 7}],
            }
        ],
        "similarity.pend": [{"id": ids(target, "Task")[0], "kind": "Task"}],
        **{
            f"similarity.link_{name}": [
                {"id": low, "links": [{"other": high, "similarity": 0.77}]}
                for low, high in pairwise(ids(target, label))
            ]
            for name, label in (("strategies", "Strategy"), ("tasks", "Task"))
        },
        "attempts.abandon": [
            {"id": i, "episode": "x", "key": "x", "strategies": []}
            for i in (f"abandoned in {ns}", *ids(target, "Abandoned"))
        ],
        "settling.tell": [
            {"id": f"told of {i}", "episode": i, "at": 7, "former": {}}
            for i in ids(target, "Episode")
        ],
        "settling.put": [{"id": i, "success": True} for i in ids(target, "Episode")],
        "levels.put": [{"id": held["level"], "purpose": "77"}],
        "levels.subscribe": subscriptions,
        "levels.unsubscribe": subscriptions,
        "lenses.look_at": [
            {"id": i, "level": level} for i in ids(target, "Lens") for level in ids(target, "Level")
        ],
        "entries.add": [{"id": f"entry of {ns}", "place": 1, "at": 7}],
        "entries.replace": [
            {"id": i, "place": place, "at": 7} for place, i in enumerate(ids(target, "Entry"), 1)
        ],
        "flow.link_entries": [
            {"id": low, "target": high} for low, high in pairwise(ids(target, "Entry"))
        ],
        "flow.link_episodes": [
            {"id": i, "target": ids(target, "Episode")[0]} for i in ids(target, "Entry")
        ],
        "flow.link_knowledge": [
            {"id": i, "target": ids(target, "Knowledge")[0]} for i in ids(target, "Entry")
        ],
        "exchange.hold": [{"episode": i, "position": 7} for i in ids(target, "Episode")],
        "events.append": [{"id": f"{ns}:{i}", "subject": i, "kind": "set"} for i in policies],
        "forecasting.lately": [{"id": i, "first": 0} for i in ids(target, "Strategy")],
        "rates.weigh": [{"trials": 4, "successes": 3}],
        "rates.more": [{"trials": 4, "successes": 3}],
        "recall.episodes": [
            {"task": t, "ids": ids(target, "Strategy")} for t in ids(target, "Task")
        ],
    }
    rows |= lesson_rows(query, ns, target)
    if query.name in EACH:
        label, fields = EACH[query.name]
        rows[query.name] = [{"id": i, **fields} for i in ids(target, label)]
    every = target.query("MATCH (n) WHERE n.ns = $ns RETURN n.id AS id ORDER BY id")
    nodes = [row["id"] for row in every]
    one = {
        "events.open_cursor": f"cursor of {ns}",
        "events.move_cursor": ids(target, "Cursor")[0],
        "events.claim": ids(target, "Cursor")[0],
        "predictions.resolve": ids(target, "Prediction")[0],
        "predictions.expect": f"prediction of {ns}",
        **dict.fromkeys(
            (f"consolidation.{name}" for name in ("state", "stored", "note", "create")),
            ids(target, "Consolidation")[0],
        ),
        "similarity.state": ids(target, "Embedder")[0],
        "similarity.adopt": f"embedder of {ns}",
        "consolidation.open": f"consolidation of {ns}",
        "forecasting.put_pooling": f"another pooling in {ns}",
        **dict.fromkeys(("forecasting.counts", "calibration.similar"), ids(target, "Embedder")[0]),
        "exchange.open": f"document of {ns}",
        "exchange.describe": ids(target, "Document")[0],
        "exchange.hold": ids(target, "Document")[0],
        "scopes.lock": f"lock of {ns}",
        "scopes.put": ids(target, "LearningScope")[0],
        "preferences.prefer": f"preference of {ns}",
        **dict.fromkeys(
            (
                *("levels.count", "levels.drop"),
                *("lenses.forget", "entries.held"),
                *(f"upkeep.{name}" for name in ("look", "fade", "same", "shrink", "mark")),
            ),
            held["level"],
        ),
        "flow.advance": ids(target, "Cursor")[0],
        "knowledge.state": f"statement of {ns}",
    }
    one |= {"lessons.unmerge": next(i for i in ids(target, "Strategy") if i in merged(target))}
    own = ns == target.namespace
    known: dict[str, Any] = {
        "ns": ns,
        "now": 1,
        # Without a namespace: ids that were found in one before.
        "ids": nodes if own or "ns" in query.params else [],
        "tasks": ids(target, "Task"),
        "strategies": ids(target, "Strategy"),
        "types": ["shared"],
        "whole": ids(target, "Strategy")[0] if own else "",
        "part": ids(target, "Strategy")[1] if own else "",
        "id": one.get(
            query.name,
            policies[0] if query.name.startswith("policies.") else ids(target, "Episode")[0],
        )
        if own or "ns" in query.params or query.name in STORE_WIDE
        else "",
        "strategy": ids(target, "Strategy")[0],
        "rows": rows.get(query.name, []),
        "task": None if query.name.startswith("maintenance.") else "shared task",
        "others": ids(target, "Strategy") if query.name.startswith("search.") else None,
        "text": "shared task",
        "worker": "shared worker",
        "task_type": "shared",
        "agent": ids(target, "Agent")[0] if query.name == "erasing.episodes_of" else "shared agent",
        "agents": ids(target, "Agent") if query.name == "learning.look_at" else ["shared agent"],
        "limit": 50,
        "looked_at": 50,
        "first": "",
        "beyond": "~",
        "half_life": 1e9,
        "co_occurrence_half_life_days": 90.0,
        "at_least": 1,
        "consolidation": ids(target, "Consolidation")[0],
        "key": "shared task",
        "keys": ["shared task"],
        **{f"most_{part}": 50 for part in PARTS},
        "established": 0.6,
        "refuted": 0.4,
        "stream": held["stream"]
        if query.name.startswith(("levels.", "entries.", "upkeep."))
        else decided[0],
        "level": held["level"],
        "levels": [held["level"]],
        "tagsets": ['["shared"]'],
        "pattern": ".*",
        "prefix": "",
        "since": 0,
        "until": 2**60,
        "said": [held["said"]],
        "owners": [{"id": ids(target, "Agent")[0], "agent": "shared agent", "decay": 0.01}],
        "kinds": ["success shared", "failure shared"],
        "after": 0,
        "data": "{}",
        "compared": 7 if query.name == "upkeep.mark" else 0,
        "compared_with": "hashing",
        "owner_kind": None,
        "owner": None,
        "stream_id": streams[0],
        "streams": streams,
        "policy_id": policies[0],
        "state_id": states[0],
        "next_state_id": states[0],
        "states": states,
        "group": "shared group",
        "consumer": "shared consumer" if query.name == "events.acknowledge" else "another",
        "claim": claims[0],
        "before": 2**60,
        "done": [1, 2, 3],
        "position": 777,
        "seq": 777,
        "subject": policies[0],
        "subjects": nodes,
        "kind": "policy",
        "how": "acted",
        "episodes": ids(target, "Episode") if query.name == "learning.look_at" else 7,
        "tallies": ids(target, "Tally"),
        "own": ids(target, "Strategy"),
        "heuristics": ids(target, "Heuristic"),
        "anti_patterns": ids(target, "AntiPattern"),
        "sent": ids(target, "Episode"),
        "format": "sentinel",
        "rest": "{}",
        "user_id": ids(target, "User")[0],
        "name": "shared user",
        "user": "shared user",
        "category": "shared category",
        "source": "inferred",
        "knowledge_id": ids(target, "Knowledge")[0],
        "statement": ids(target, "Statement")[0],
        "domain": "shared domain",
        "domains": ["shared domain"],
        "valid_from": 7,
        "valid_to": 9,
        "fact": "shared fact",
        "can_learn": ["shared"],
        "cannot_learn": [],
        "share_with": ["*"],
        "inherit_from": ["shared agent"],
        "embedder": "hashing",
        "nearby": [{"id": i, "similarity": 0.7} for i in ids(target, "Task")],
        "near_tasks": ids(target, "Task"),
        "nearest": ids(target, "Task"),
        "edge": 0.4,
        "seeds": [
            {"task": None, "strategy": None, kind: i, "relevance": 0.7, "weight": 0.7}
            for kind, label in (("task", "Task"), ("strategy", "Strategy"))
            for i in ids(target, label)
        ],
        "floor": 0.4,
        "size": 50,
        "vector": Hashing().embed(["shared task"])[0].tolist(),
        "words": "shared task",
        "strengths": STRENGTHS,
        **kept_settings(),
        "given": kept_settings(),
        "pooling": ids(target, "Pooling")[0],
        "type": "shared",
        "sort": "trials",
    }
    if query.name == "learning.add_many":
        known |= {name: [] for name, param in query.params.items() if param.type == "list"}
        known |= batch(ns, target)
    if query.name.startswith("explaining."):
        known |= explained(query.name, target)
    plain = {"integer": 7, "float": 0.7}
    return {
        name: known.get(name, plain.get(param.type) if param.default is ... else param.default)
        for name, param in query.params.items()
    }
