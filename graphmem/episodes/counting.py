"""What new episodes add to the graph: where an outcome is counted.

:func:`addition` gives the parameters of ``learning.add``, which counts one episode about known
things; :func:`parts` those of ``learning.add_many``, which counts a batch.

Each part is a list of rows, one for each node or edge that grows, in the order of their ids. So
writers of a server seldom wait for each other crosswise, and the order of the episodes does not
matter. ``at`` of a row orders episodes (ended, else started, else recorded).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from operator import itemgetter
from typing import Any

from graphmem.lessons import RECENT
from graphmem.lessons.anti_patterns import SAMPLE
from graphmem.store.paging import grouped
from graphmem.store.port import Row

FULL = 2
"""Evidence is cut off when there is so many times the sample that is kept, or more."""
EVERY = 20
"""It is cut off after so many more episodes."""
_COUNTS = ("trials", "successes", "credit_sum", "score_sum")
"""The counts of outcomes, on whatever node or edge they are."""

_DETAILS = ("user", "error", "feedback", "summary", "duration", "source", "extra", "error_class")
_ADDED = (
    *("id", "agent", "agent_name", "task", "stream", "tally", "scope", "content_hash"),
    *("description", "keyed", "task_type", "success", "score", "reward", "started_at", "ended_at"),
    *("steps", "step_count", "source_key", "occurrence", "type", "type_rule", *_DETAILS),
)
_RECORDED = (
    *("id", "agent", "task", "stream", "content_hash", "description", "keyed", "task_type"),
    *("success", "score", "reward", "started_at", "ended_at", "step_count", "use_count"),
    *("source_key", "occurrence", "type", "type_rule", "steps", "followers", *_DETAILS),
)
_LATEST = ("at", "id", "description", "inferred", "inferred_rule")
_USED = (
    *("strategy", "rank", "credit", "shown", "applied", "failed"),
    *("propensity", "explore", "candidates"),
)
_NEW = ("new_agents", "new_streams", "new_tasks", "new_strategies")
_NOTHING = {"won": 0, "lost": 0}
_LATEST_TEXTS = ("bad_decision", "evidence", "lesson")
"""What a mistake has of the latest card that gives it."""

Known = Mapping[str, Mapping[str, Row]]
"""Rows of ``learning.look_at``: label -> id -> row."""
Parts = dict[str, dict[str, list[Any]]]
"""Option of ``learning.add_many`` -> its parameters."""


class Excess(dict[str, set[str]]):
    """Ids of what has much more evidence than is kept, for ``lessons.trim_*``, by kind."""

    def note(self, kind: str, identity: str, before: int, after: int) -> None:
        """Note a node if so much more came that its evidence is to be cut off."""
        sample = RECENT if kind == "tasks" else SAMPLE
        if after >= FULL * sample and after // EVERY > before // EVERY:
            self.setdefault(kind, set()).add(identity)


def is_plain(row: Row) -> bool:
    """Return whether ``learning.add`` can learn an episode."""
    if row["sentences"] or row["cards"] or row["_took"] or row["used_at"] is None:
        return False
    uses, blames = row["uses"], _blames(row)
    return bool(uses) and all(use["applied"] and (blames or not use["failed"]) for use in uses)


def _blames(row: Row) -> bool:
    """Return whether an episode counts for an anti-pattern of each of its strategies."""
    return not row["success"] and row["error_class"] is not None


def addition(row: Row, now: int) -> tuple[list[str], Row]:
    """Return the options of ``learning.add`` for an episode, and its parameters."""
    uses = row["uses"]
    wanted = {
        "failed": _blames(row),
        "worked": row["success"],
        "typed": row["task_type"] is not None,
        "stepped": row["steps"],
        "together": len(uses) > 1,
        "detailed": [name for name in _DETAILS if row[name] is not None],
        "chosen": [use for use in uses if "propensity" in use],
    }
    options = [name for name, there in wanted.items() if there]
    params = {name: row[name] for name in _ADDED}
    params |= {
        "now": now,
        "at": row["used_at"],
        "supports": row["success"] == 1,
        "used": len(uses),
        "heuristics": [use["heuristic"] for use in uses],
        "anti_patterns": [use["anti_pattern"] for use in uses],
        "uses": [
            {
                **use,
                "worth": _outcome(row, use)["score_sum"],
                "stamp": _stamps(row, row["success"])[0],
            }
            for use in (sorted(uses, key=itemgetter("strategy")) if len(uses) > 1 else uses)
        ],
        "pairs": [{"low": low, "high": high} for low, high in pairs_of(row)],
    }
    return options, params


def overgrown(row: Row, grown: list[Row]) -> Excess:
    """Return what has too much evidence after an episode, from the answer of ``learning.add``."""
    excess = Excess()
    excess.note("tasks", row["task"], grown[0]["episodes"] - 1, grown[0]["episodes"])
    patterns = {use["heuristic"]: use["anti_pattern"] for use in row["uses"]}
    for lesson in grown:
        won, failures = lesson["successes"], lesson["occurrences"]
        count = won if row["success"] else lesson["trials"] - won
        excess.note("heuristics", lesson["heuristic"], count - 1, count)
        if failures:
            excess.note("anti_patterns", patterns[lesson["heuristic"]], failures - 1, failures)
    return excess


def looked_up(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the ids that ``learning.look_at`` looks up for new episodes, by parameter."""
    uses = [use for row in rows for use in row["uses"]]
    ids: dict[str, set[Any]] = {
        "episodes": {row["id"] for row in rows},
        **{f"{name}s": {row[name] for row in rows} for name in ("agent", "stream", "task")},
        "tallies": {row["tally"] for row in rows},
        "strategies": {use["strategy"] for use in uses},
        "heuristics": {use["heuristic"] for use in uses},
        "anti_patterns": {use["anti_pattern"] for use in uses} - {None},
    }
    return {name: sorted(values) for name, values in ids.items()}


def parts(rows: list[Row], now: int, known: Known) -> tuple[Parts, Excess]:
    """Return what new episodes, in the order of their ids, add, and what has too much evidence."""
    excess = Excess()
    lists = {
        **_streams(rows, known),
        **_tasks(rows, known, excess),
        **_uses(rows, known, excess),
        **_sentences(rows),
        **_cards(rows),
    }
    agents = sorted({row["agent"] for row in rows} & known["Agent"].keys())
    lists["older"] = [key for key in agents if known["Agent"][key]["created_at"] > now]
    new = {name: lists.pop(name) for name in _NEW}
    added: Parts = {"new": new} if any(new.values()) else {}
    added |= {name: {name: part} for name, part in lists.items() if part}
    return added, excess


def pairs_of(row: Row) -> list[tuple[str, str]]:
    """Return the pairs of strategies that an episode applied, from the smaller id."""
    applied = sorted(use["strategy"] for use in row["uses"] if use["applied"])
    return list(combinations(applied, 2))


def _add(sums: dict[Any, Row], key: Hashable, row: Row, names: Sequence[str] = _COUNTS) -> Row:
    """Add a row to the sum of a key, with the times that it spans; return the sum."""
    total = sums.get(key)
    if total is None:
        total = sums[key] = dict(row)
        return total
    for name in names:
        total[name] = total[name] + row[name]
    for stamp in row.get("latest", ()):
        insort(total["latest"], stamp)
    if row.get("last_at") is not None:
        first, last = total["first_at"], total["last_at"]
        total["first_at"] = row["first_at"] if first is None else min(first, row["first_at"])
        total["last_at"] = row["last_at"] if last is None else max(last, row["last_at"])
    return total


def _streams(rows: Iterable[Row], known: Known) -> dict[str, list[Any]]:
    """Return how many new episodes each agent has; these are numbered from the last one."""
    agents: dict[str, Row] = {}
    streams: dict[str, Row] = {}
    for row in sorted(rows, key=itemgetter("_place"), reverse=True):
        stream, name = row["stream"], row["agent_name"]
        agents[row["agent"]] = {"id": row["agent"], "name": name}
        held = _add(streams, stream, {"id": stream, "agent": name, "episodes": 1}, ("episodes",))
        row["followers"] = held["episodes"] - 1
    new_agents = [row for key, row in sorted(agents.items()) if key not in known["Agent"]]
    return {"new_agents": new_agents, **_split(known["Stream"], streams, "streams", "advanced")}


def _tasks(rows: Iterable[Row], known: Known, excess: Excess) -> dict[str, list[Any]]:
    tasks: dict[str, Row] = {}
    recorded: list[Row] = []
    for task, group in grouped(rows, "task").items():
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
            "successes": sum([row["success"] for row in group]),
            "score_sum": sum([row["score"] for row in group]),
        }
        before = known["Task"].get(task, _NOTHING)["won"] or 0
        excess.note("tasks", task, before, before + len(group))
        for place, row in enumerate(group):
            kept = {name: row[name] for name in _RECORDED if row[name] is not None}
            kept["recent"] = [row["at"]] if place < RECENT else []
            recorded.append(kept)
    recorded.sort(key=itemgetter("id"))
    return {**_split(known["Task"], tasks, "tasks"), "recorded": recorded}


def _stamps(row: Row, won: int) -> list[int]:
    """Return the time of an outcome and its success as one number, by which they are in order."""
    return [] if row["used_at"] is None else [row["used_at"] * 2 + won]


def _outcome(row: Row, use: Row) -> Row:
    """Return what one use of a strategy counts; nothing, if it was only shown."""
    if not use["applied"]:
        return {**dict.fromkeys(_COUNTS, 0), "first_at": None, "last_at": None}
    won, score = (0, 0.0) if use["failed"] else (row["success"], row["score"])
    counts = (1, won, use["credit"], use["credit"] * score)
    times = {"first_at": row["used_at"], "last_at": row["used_at"]}
    return {**dict(zip(_COUNTS, counts, strict=True)), **times}


def _uses(rows: Iterable[Row], known: Known, excess: Excess) -> dict[str, list[Any]]:
    """Return what the uses of strategies add: to strategies, outcomes, tallies and lessons."""
    used: list[Row] = []
    strategies: dict[str, Row] = {}
    outcomes: dict[tuple[str, str, str], Row] = {}
    tallies: dict[str, Row] = {}
    heuristics: dict[str, Row] = {}
    patterns: dict[str, Row] = {}
    for row in rows:
        link, agent, kind = (row["at"], row["id"]), row["agent_name"], row["type"]
        tally = {"id": row["tally"], "home": row["agent"], "agent": agent, "type": kind}
        for use in row["uses"]:
            strategy, outcome = use["strategy"], _outcome(row, use)
            used.append({"episode": row["id"], **{name: use.get(name) for name in _USED}})
            latest = _stamps(row, outcome["successes"]) if use["applied"] else []
            shown = {"id": strategy, "text": use["text"], **outcome}
            _add(strategies, strategy, {**shown, "latest": latest})
            if not use["applied"]:
                continue
            about = {"strategy": strategy, "agent": agent}
            edge = strategy, row["task"], agent
            _add(outcomes, edge, {**about, "task": row["task"], **outcome, "latest": [*latest]})
            _add(tallies, row["tally"], {**tally, **outcome})
            lesson = {"id": use["heuristic"], "type": kind, "tally": row["tally"]}
            lesson = {**lesson, **about, **outcome}
            held = _add(heuristics, use["heuristic"], lesson)
            held.setdefault("won" if outcome["successes"] else "lost", []).append(link)
            if use["anti_pattern"] is not None:
                wrong = use["failed"] or row["error_class"]
                lesson = {"id": use["anti_pattern"], "error_class": wrong}
                held = _add(patterns, use["anti_pattern"], {**lesson, **about, **outcome})
                held.setdefault("won", []).append(link)
                held.setdefault("kinds", {})[kind] = use["heuristic"]
    evidence: list[Row] = []
    failures: list[Row] = []
    for key, lesson in sorted(heuristics.items()):
        before = known["Heuristic"].get(key, _NOTHING)
        for side in ("won", "lost"):
            links = lesson.pop(side, ())
            evidence += [{"supports": side == "won", **link} for link in _latest(key, links)]
            excess.note("heuristics", key, before[side], before[side] + len(links))
    for key, lesson in sorted(patterns.items()):
        count, links = known["AntiPattern"].get(key, _NOTHING)["won"], lesson.pop("won")
        failures += _latest(key, links)
        excess.note("anti_patterns", key, count, count + len(links))
        kinds = lesson.pop("kinds")
        lesson["types"], lesson["opposing"] = list(kinds), list(kinds.values())
    opposing = {key for lesson in patterns.values() for key in lesson["opposing"]}
    opposing |= {key for key, lesson in heuristics.items() if lesson["successes"]}
    return {
        **_split(known["Strategy"], strategies, "strategies"),
        **_split(known["Tally"], tallies, "tallies"),
        "used": used,
        "outcomes": [outcomes[key] for key in sorted(outcomes)],
        "together": _pairs(rows),
        **_split(known["Heuristic"], heuristics, "heuristics"),
        **_split(known["AntiPattern"], patterns, "anti_patterns"),
        "opposing": sorted(opposing),
        "evidence": evidence,
        "failures": failures,
    }


def _split(
    there: Mapping[str, Row], rows: Mapping[str, Row], name: str, growing: str | None = None
) -> dict[str, list[Row]]:
    """Return what is new and what grows, each in the order of ids."""
    return {
        f"new_{name}": [row for key, row in sorted(rows.items()) if key not in there],
        growing or name: [row for key, row in sorted(rows.items()) if key in there],
    }


def _latest(identity: str, links: Iterable[tuple[int, str]]) -> Iterator[Row]:
    for at, episode in sorted(links)[-SAMPLE:]:
        yield {"id": identity, "episode": episode, "at": at}


def _pairs(rows: Iterable[Row]) -> list[Row]:
    pairs: dict[tuple[str, str], Row] = {}
    for row in rows:
        dates = [] if row["used_at"] is None else [row["used_at"]]
        for low, high in pairs_of(row):
            pair = {"low": low, "high": high, "times": 1, "successes": row["success"]}
            _add(pairs, (low, high), {**pair, "dates": dates}, ("times", "successes", "dates"))
    return [
        {**pair, "last_at": max(pair["dates"], default=None)} for _, pair in sorted(pairs.items())
    ]


def _sentences(rows: Iterable[Row]) -> dict[str, list[Any]]:
    new: dict[str, Row] = {}
    sentences: list[Row] = []
    rules: list[Row] = []
    for row in rows:
        listed: dict[str, Row] = {}
        for item in row["sentences"]:
            rule = item["rule"]
            new.setdefault(rule, {"id": rule, "task": row["task"], "text": item["text"]})
            sentences.append({"episode": row["id"], **item})
            sentence = listed.setdefault(rule, {"rule": rule, "success": False, "mistake": False})
            sentence["success" if item["as_success"] else "mistake"] = True
        if listed:
            about = {name: row[name] for name in ("score", "at", "used_at")}
            rules.append({**about, "sentences": list(listed.values())})
    return {"new_rules": [new[key] for key in sorted(new)], "sentences": sentences, "rules": rules}


def _cards(rows: Iterable[Row]) -> dict[str, list[Any]]:
    cards: list[Row] = []
    mistakes: dict[str, list[Row]] = {}
    for row in rows:
        for card in row["cards"]:
            about = {"episode": row["id"], "at": row["at"], "used_at": row["used_at"]}
            cards.append({**about, **card})
            mistakes.setdefault(card["mistake"], []).append(cards[-1])
    counted = []
    for mistake, seen in sorted(mistakes.items()):
        seen.sort(key=lambda card: (card["at"], card["episode"], card["rank"]))
        dates = [card["used_at"] for card in seen if card["used_at"] is not None]
        latest = {name: seen[-1][name] for name in ("at", "episode", "rank")}
        for name in _LATEST_TEXTS:
            latest[name] = next((card[name] for card in reversed(seen) if card[name]), None)
        counted.append(
            {
                "id": mistake,
                "seen": len(seen),
                "earliest": {name: seen[0][name] for name in ("at", "episode")},
                "latest": latest,
                "first_at": min(dates, default=None),
                "last_at": max(dates, default=None),
            }
        )
    new = [mistakes[key][0] for key in sorted(mistakes)]
    return {"new_mistakes": new, "cards": cards, "mistakes": counted}
