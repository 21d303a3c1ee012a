"""What new episodes add to the graph: the parts of ``learning.add_many``, counted beforehand.

Rows are those of :func:`graphmem.episodes.rows.episode_row`, with ``at``, which orders episodes
(ended, else started, else recorded). Each part is a list of rows, one for each node or edge that
grows, in the order of their ids. So writers of a server seldom wait for each other crosswise, and
the order of the given episodes does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphmem.lessons.anti_patterns import SAMPLE
from graphmem.lessons.reading import RECENT
from graphmem.store.port import Row

KEPT = 2
"""So many times the sample is kept before the rest is cut off."""

_TOLD = ("error", "feedback", "summary", "duration", "source", "extra", "error_class")
_ADDED = (
    *("id", "agent", "agent_name", "task", "stream", "tally", "scope", "content_hash"),
    "description",
    *("keyed", "task_type", "success", "score", "reward", "started_at", "ended_at", "used_at"),
    *("steps", "step_count", "source_key", "occurrence", "type", "type_rule"),
    *_TOLD,
)
_RECORDED = (
    *("id", "agent", "task", "stream", "content_hash", "description", "keyed", "task_type"),
    *("success", "score", "reward", "error", "feedback", "summary", "started_at", "ended_at"),
    *("duration", "step_count", "use_count", "source_key", "occurrence", "source", "extra"),
    *("type", "type_rule", "error_class", "steps", "followers"),
)

_LATEST = ("at", "id", "description", "inferred", "inferred_rule")
_NEW = ("new_agents", "new_streams", "new_tasks", "new_strategies")
_USED = ("strategy", "rank", "credit", "shown", "applied")
_CHOSEN = ("propensity", "explore", "candidates")
_EMPTY = {
    "trials": 0,
    "successes": 0,
    "credit_sum": 0.0,
    "score_sum": 0.0,
    "first_at": None,
    "last_at": None,
}
_NOTHING = {"won": 0, "lost": 0}
_SAID = ("bad_decision", "evidence", "lesson")
"""What a mistake has of the latest card that says it."""

Found = Mapping[str, Mapping[str, Row]]
"""Rows of ``learning.look_at``: label -> id -> row."""
Parts = dict[str, dict[str, list[Any]]]
"""Option of ``learning.add_many`` -> its parameters."""


def is_full(before: int, after: int, keep: int) -> bool:
    """Return whether to cut off what is beyond a sample, now that there is more evidence.

    That is when another ``keep`` have come, so that there are at most :data:`KEPT` times as many.
    """
    return after >= KEPT * keep and after // keep > before // keep


def is_plain(row: Row) -> bool:
    """Return whether ``learning.add`` can learn an episode.

    It can if all strategies were applied, no step has a state, and nothing is said in words.
    """
    uses = row["uses"]
    said = row["listed"] or row["made"] or row["_took"]
    return bool(uses) and not said and all(use["applied"] for use in uses)


def addition(row: Row, now: int) -> tuple[list[str], Row]:
    """Return the options of ``learning.add`` for an episode, and its parameters.

    Parameters that are the same for all episodes of a namespace are left out.
    """
    uses, dated = row["uses"], row["used_at"]
    failed = row["error_class"] is not None and not row["success"]
    options = {
        "failed": failed,
        "worked": row["success"] == 1,
        "typed": row["task_type"] is not None,
        "dated": dated is not None,
        "told": any(row[name] is not None for name in _TOLD),
        "stepped": bool(row["steps"]),
        "sourced": row["source_key"] is not None,
        "together": len(uses) > 1,
        "chosen": any("propensity" in use for use in uses),
    }
    params = {name: row[name] for name in _ADDED}
    params |= {
        "now": now,
        "at": now if dated is None else dated,
        "supports": row["success"] == 1,
        "used": len(uses),
        "heuristics": [use["heuristic"] for use in uses],
        "anti_patterns": [use["anti_pattern"] for use in uses],
        "uses": [
            {**use, "worth": use["credit"] * row["score"]}
            for use in sorted(uses, key=lambda use: str(use["strategy"]))
        ],
        "pairs": [{"low": low, "high": high} for low, high in pairs_of(row)],
    }
    return [name for name, wanted in options.items() if wanted], params


def overgrown(row: Row, grown: list[Row]) -> Crowded:
    """Return what has too much evidence after an episode, from the answer of ``learning.add``."""
    crowded = Crowded()
    if is_full(grown[0]["episodes"] - 1, grown[0]["episodes"], RECENT):
        crowded.tasks.add(row["task"])
    patterns = {use["heuristic"]: use["anti_pattern"] for use in row["uses"]}
    for lesson in grown:
        won, failures = lesson["successes"], lesson["occurrences"]
        count = won if row["success"] else lesson["trials"] - won
        if is_full(count - 1, count, SAMPLE):
            crowded.heuristics.add(lesson["heuristic"])
        if is_full(failures - 1, failures, SAMPLE):
            crowded.anti_patterns.add(patterns[lesson["heuristic"]])
    return crowded


def asked(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Return the parameters of ``learning.look_at`` for new episodes."""
    ids: dict[str, set[str]] = {
        name: set()
        for name in (
            *("episodes", "agents", "streams", "tallies", "tasks", "strategies"),
            *("heuristics", "anti_patterns"),
        )
    }
    for row in rows:
        ids["episodes"].add(row["id"])
        ids["agents"].add(row["agent"])
        ids["streams"].add(row["stream"])
        ids["tasks"].add(row["task"])
        for use in row["uses"]:
            ids["strategies"].add(use["strategy"])
            if use["applied"]:
                ids["tallies"].add(row["tally"])
                ids["heuristics"].add(use["heuristic"])
                if use["anti_pattern"] is not None:
                    ids["anti_patterns"].add(use["anti_pattern"])
    return {name: sorted(found) for name, found in ids.items()}


@dataclass
class Crowded:
    """What has more evidence than is kept: ids, by label."""

    heuristics: set[str] = field(default_factory=set)
    anti_patterns: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)

    def add(self, other: Crowded) -> None:
        """Add what another batch of the same transaction has."""
        self.heuristics |= other.heuristics
        self.anti_patterns |= other.anti_patterns
        self.tasks |= other.tasks


def parts(rows: list[Row], now: int, found: Found) -> tuple[Parts, Crowded]:
    """Return what new episodes add, and what then has too much evidence.

    Args:
        rows: in the order of their ids; ``_place`` says in which order they were given.
        now: milliseconds since the epoch.
        found: the existing nodes that they are about.
    """
    crowded = Crowded()
    given = {
        **_streams(rows, found),
        **_tasks(rows, found, crowded),
        **_tallies(rows, found),
        **_uses(rows, found, crowded),
        **_sentences(rows),
        **_cards(rows),
    }
    agents = sorted({row["agent"] for row in rows} & found["Agent"].keys())
    given["older"] = [key for key in agents if found["Agent"][key]["created_at"] > now]
    new = {name: given.pop(name) for name in _NEW}
    added: Parts = {"new": new} if any(new.values()) else {}
    added |= {name: {name: part} for name, part in given.items() if part}
    return added, crowded


def _split(there: Collection[str], rows: Mapping[str, Row]) -> tuple[list[Row], list[Row]]:
    """Return what is new and what grows, each in the order of ids."""
    new: list[Row] = []
    growing: list[Row] = []
    for key in sorted(rows):
        (growing if key in there else new).append(rows[key])
    return new, growing


def _streams(rows: Iterable[Row], found: Found) -> dict[str, list[Any]]:
    """Return how many new episodes each agent has; these are numbered from the last one."""
    agents: dict[str, Row] = {}
    streams: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: int(row["_place"]), reverse=True):
        stream, name = row["stream"], row["agent_name"]
        agents[row["agent"]] = {"id": row["agent"], "name": name}
        counted = streams.setdefault(stream, {"id": stream, "agent": name, "episodes": 0})
        row["followers"] = counted["episodes"]
        counted["episodes"] += 1
    new, growing = _split(found["Stream"], streams)
    return {
        "new_agents": _split(found["Agent"], agents)[0],
        "new_streams": new,
        "advanced": growing,
    }


def _tasks(rows: Iterable[Row], found: Found, crowded: Crowded) -> dict[str, list[Any]]:
    """Return tasks, and episodes with their places among the latest of each."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["task"], []).append(row)
    tasks: dict[str, Row] = {}
    recorded: list[Row] = []
    for task, group in groups.items():
        group.sort(key=lambda row: (row["at"], row["id"]), reverse=True)
        latest = group[0]
        typed = next((row for row in group if row["task_type"] is not None), None)
        tasks[task] = {
            "id": task,
            "key": latest["task_key"],
            "type": typed["task_type"] if typed else latest["inferred"],
            "type_rule": "given" if typed else latest["inferred_rule"],
            "latest": {name: latest[name] for name in _LATEST},
            "typed": typed and {name: typed[name] for name in ("at", "id", "task_type")},
            "episodes": len(group),
            "successes": sum(row["success"] for row in group),
            "score_sum": sum(row["score"] for row in group),
        }
        before = (found["Task"].get(task) or _NOTHING)["won"] or 0
        if is_full(before, before + len(group), RECENT):
            crowded.tasks.add(task)
        for place, row in enumerate(group):
            kept = {name: row[name] for name in _RECORDED if row[name] is not None}
            kept["recent"] = [row["at"]] if place < RECENT else []
            recorded.append(kept)
    new, growing = _split(found["Task"], tasks)
    recorded.sort(key=lambda row: str(row["id"]))
    return {"new_tasks": new, "tasks": growing, "recorded": recorded}


def _tally(tallies: dict[Any, Row], key: Any, row: Row, use: Row | None, **names: Any) -> Row:
    """Count a use of a strategy (None: none) under a key; return the count there."""
    tally = tallies.get(key)
    if tally is None:
        tally = tallies[key] = {**names, **_EMPTY}
    if use is None:
        return tally
    credit, dated = use["credit"], row["used_at"]
    tally["trials"] += 1
    tally["successes"] += row["success"]
    tally["credit_sum"] += credit
    tally["score_sum"] += credit * row["score"]
    if dated is not None:
        tally["first_at"] = _other(min, tally["first_at"], dated)
        tally["last_at"] = _other(max, tally["last_at"], dated)
    return tally


def _other(choose: Callable[[int, int], int], held: int | None, dated: int) -> int:
    return dated if held is None else choose(held, dated)


def _tallies(rows: Iterable[Row], found: Found) -> dict[str, list[Any]]:
    """Return how often agents used strategies on types of tasks."""
    tallies: dict[str, Row] = {}
    for row in rows:
        key = row["tally"]
        names = {"id": key, "home": row["agent"], "agent": row["agent_name"], "type": row["type"]}
        for use in row["uses"]:
            if use["applied"]:
                _tally(tallies, key, row, use, **names)
    new, growing = _split(found["Tally"], tallies)
    return {"new_tallies": new, "tallies": growing}


def _uses(rows: Iterable[Row], found: Found, crowded: Crowded) -> dict[str, list[Any]]:
    """Return what the strategies of episodes add to themselves and to lessons."""
    used: list[Row] = []
    chosen: list[Row] = []
    strategies: dict[str, Row] = {}
    outcomes: dict[tuple[str, str, str], Row] = {}
    heuristics: dict[str, Row] = {}
    patterns: dict[str, Row] = {}
    for row in rows:
        link, agent = (row["at"], row["id"]), row["agent_name"]
        for use in row["uses"]:
            strategy, applied = use["strategy"], use["applied"]
            noted = {"episode": row["id"], **{name: use[name] for name in _USED}}
            if "propensity" in use:
                chosen.append({**noted, **{name: use[name] for name in _CHOSEN}})
            else:
                used.append(noted)
            text = use["text"]
            _tally(strategies, strategy, row, use if applied else None, id=strategy, text=text)
            if not applied:
                continue
            names = {"strategy": strategy, "task": row["task"], "agent": agent}
            _tally(outcomes, (strategy, row["task"], agent), row, use, **names)
            lesson = {"strategy": strategy, "agent": agent}
            key = use["heuristic"]
            tally = _tally(heuristics, key, row, use, id=key, type=row["type"], **lesson)
            tally.setdefault("won" if row["success"] else "lost", []).append(link)
            key = use["anti_pattern"]
            if key is not None:
                failure = row["error_class"]
                tally = _tally(patterns, key, row, use, id=key, error_class=failure, **lesson)
                tally.setdefault("won", []).append(link)
                tally.setdefault("types", {})[row["type"]] = use["heuristic"]
    evidence: list[Row] = []
    failures: list[Row] = []
    for key, tally in sorted(heuristics.items()):
        before = found["Heuristic"].get(key) or _NOTHING
        for kind, count in (("won", before["won"]), ("lost", before["lost"])):
            links = tally.pop(kind, [])
            evidence += [{"supports": kind == "won", **link} for link in _latest(key, links)]
            if is_full(count, count + len(links), SAMPLE):
                crowded.heuristics.add(key)
    for key, tally in sorted(patterns.items()):
        count, links = (found["AntiPattern"].get(key) or _NOTHING)["won"], tally.pop("won")
        failures += _latest(key, links)
        if is_full(count, count + len(links), SAMPLE):
            crowded.anti_patterns.add(key)
        types = tally["types"]
        tally["types"], tally["opposing"] = list(types), list(types.values())
    opposing = {key for tally in patterns.values() for key in tally["opposing"]}
    opposing |= {key for key, tally in heuristics.items() if tally["successes"]}
    new_strategies, strategies_there = _split(found["Strategy"], strategies)
    new_heuristics, heuristics_there = _split(found["Heuristic"], heuristics)
    new_patterns, patterns_there = _split(found["AntiPattern"], patterns)
    return {
        "new_strategies": new_strategies,
        "strategies": strategies_there,
        "used": used,
        "chosen": chosen,
        "outcomes": [outcomes[key] for key in sorted(outcomes)],
        "together": _pairs(rows),
        "new_heuristics": new_heuristics,
        "heuristics": heuristics_there,
        "new_anti_patterns": new_patterns,
        "anti_patterns": patterns_there,
        "opposing": sorted(opposing),
        "evidence": evidence,
        "failures": failures,
    }


def _latest(identity: str, episodes: list[tuple[int, str]]) -> Iterator[Row]:
    for at, episode in sorted(episodes)[-SAMPLE:]:
        yield {"id": identity, "episode": episode, "at": at}


def pairs_of(row: Row) -> list[tuple[str, str]]:
    """Return the pairs of strategies that an episode applied, from the smaller id."""
    applied = sorted(use["strategy"] for use in row["uses"] if use["applied"])
    return [(low, high) for place, low in enumerate(applied) for high in applied[place + 1 :]]


def _pairs(rows: Iterable[Row]) -> list[Row]:
    pairs: dict[tuple[str, str], Row] = {}
    for row in rows:
        for low, high in pairs_of(row) if len(row["uses"]) > 1 else ():
            pair = pairs.get((low, high))
            if pair is None:
                ends = {"low": low, "high": high}
                pair = pairs[low, high] = {**ends, "times": 0, "successes": 0, "dates": []}
            pair["times"] += 1
            pair["successes"] += row["success"]
            if row["used_at"] is not None:
                pair["dates"].append(row["used_at"])
    return [
        {**pair, "last_at": max(pair["dates"], default=None)} for _, pair in sorted(pairs.items())
    ]


def _sentences(rows: Iterable[Row]) -> dict[str, list[Any]]:
    """Return what episodes list as successes and mistakes, and what each list says of each rule."""
    new: dict[str, Row] = {}
    listed: list[Row] = []
    rules: list[Row] = []
    for row in rows:
        said: dict[str, Row] = {}
        for item in row["listed"]:
            rule = item["rule"]
            new.setdefault(rule, {"id": rule, "task": row["task"], "text": item["text"]})
            listed.append(
                {
                    "episode": row["id"],
                    "rule": rule,
                    "as_success": item["as_success"],
                    "rank": item["rank"],
                }
            )
            sentence = said.setdefault(rule, {"rule": rule, "success": False, "mistake": False})
            sentence["success" if item["as_success"] else "mistake"] = True
        if said:
            rules.append(
                {
                    "score": row["score"],
                    "at": row["at"],
                    "used_at": row["used_at"],
                    "sentences": list(said.values()),
                }
            )
    return {"new_rules": [new[key] for key in sorted(new)], "listed": listed, "rules": rules}


def _cards(rows: Iterable[Row]) -> dict[str, list[Any]]:
    """Return the mistakes that cards of episodes describe, and how often each was made."""
    made: list[Row] = []
    mistakes: dict[str, list[Row]] = {}
    for row in rows:
        for card in row["made"]:
            made.append({"episode": row["id"], "at": row["at"], "used_at": row["used_at"], **card})
            mistakes.setdefault(card["mistake"], []).append(made[-1])
    counted = []
    for mistake, cards in sorted(mistakes.items()):
        cards.sort(key=lambda card: (card["at"], card["episode"], card["rank"]))
        dates = [card["used_at"] for card in cards if card["used_at"] is not None]
        counted.append(
            {
                "id": mistake,
                "seen": len(cards),
                "earliest": {name: cards[0][name] for name in ("at", "episode")},
                "latest": {
                    **{name: cards[-1][name] for name in ("at", "episode", "rank")},
                    **{name: _last(name, cards) for name in _SAID},
                },
                "first_at": min(dates, default=None),
                "last_at": max(dates, default=None),
            }
        )
    return {
        "new_mistakes": [mistakes[key][0] for key in sorted(mistakes)],
        "carded": made,
        "mistakes": counted,
    }


def _last(name: str, cards: Iterable[Row]) -> str | None:
    """Return the latest text of that name on cards, the earliest first."""
    return next((card[name] for card in reversed([*cards]) if card[name]), None)
