"""How an episode lies in the graph: its rows for the procedures, and its content read back.

What a row says beyond the episode itself (its type of task, the class of its error, what it lists)
is a pure function of the episode, so `verify` and `rebuild` can compute it again.
"""

from __future__ import annotations

import json
import sqlite3
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from graphmem import ids
from graphmem.errors import ConflictError, StorageError
from graphmem.graph.graph import Reader
from graphmem.ids import canonical_json, digest, from_millis, node_id
from graphmem.models.episodes import Episode, MistakeCard, Outcome, Step, StrategyUse, resolve
from graphmem.models.fields import millis
from graphmem.models.reports import Told
from graphmem.policies.streams import took
from graphmem.store.port import Row
from graphmem.text.error_classes import error_class
from graphmem.text.task_types import infer_task_type

_COPIED = ("user", "task_type", "error", "feedback", "summary", "duration", "source_key", "source")
_CARD = ("type", "worker", "correct_decision", "bad_decision", "evidence", "lesson")
_ORIGIN = ("source", "source_key", "occurrence")
"""Fields of an episode that say where it came from, and are no content."""

FIRST = "1"
"""The occurrence of the first of equal episodes: its id needs no mark."""


def episode_row(
    episode: Episode,
    namespace: str,
    threshold: float,
    counted: Occurrences | None = None,
    *,
    occurrence: str | None = None,
    started_at: int | None = None,
    ended_at: int | None = None,
) -> Row:
    """Return what the procedures need of an episode; a score of ``threshold`` is a success.

    A live call has an ``occurrence`` and times (ms) of its own, where the episode has none.

    ``counted`` numbers equal episodes without source key or occurrence; without it they are one.
    """
    outcome = resolve(episode, threshold)
    held = content(episode, outcome)
    timeless = not ("started_at" in held or "ended_at" in held)
    if started_at is not None:
        held["started_at"] = started_at
    if ended_at is not None:
        held["ended_at"] = ended_at
    written = canonical_json(hashed(held))
    content_hash = digest(written)
    if episode.source_key:
        episode_id = node_id(namespace, "Episode", "key", episode.source_key)
    else:
        if occurrence is None:
            occurrence = episode.occurrence
            if counted is not None:
                occurrence = counted.of(content_hash, occurrence)
            occurrence = None if occurrence == FIRST else occurrence
        key = ("content", content_hash, *(() if occurrence is None else (occurrence,)))
        episode_id = node_id(namespace, "Episode", *key)
    task_key = episode.task_key or episode.task
    started, ended = held.get("started_at"), held.get("ended_at")
    used_at = ended if ended is not None else started
    classes = classes_of(held)
    inferred = infer_task_type(episode.task)
    kind = str(classes["type"])
    failure = None if outcome.success else classes["error_class"]
    agent = episode.agent
    return {
        "id": episode_id,
        "content_hash": content_hash,
        "agent": ids.agent_id(namespace, agent),
        "agent_name": agent,
        "task": ids.task_id(namespace, task_key),
        "task_key": task_key,
        "keyed": episode.task_key is not None,
        "description": episode.task,
        **{name: getattr(episode, name) for name in _COPIED},
        **classes,
        "inferred": inferred.name,
        "inferred_rule": inferred.rule,
        "used_at": used_at,
        "success": int(outcome.success),
        "score": outcome.score,
        "reward": outcome.reward,
        "started_at": started,
        "ended_at": ended,
        "step_count": len(episode.steps),
        "use_count": len(episode.strategy),
        "occurrence": occurrence,
        "extra": canonical_json(episode.extra) if episode.extra else None,
        "steps": [
            _step_row(node_id(namespace, "Step", episode_id, str(index)), index, step)
            for index, step in enumerate(episode.steps)
        ],
        "uses": [
            {
                "strategy": ids.strategy_id(namespace, use.text),
                "text": use.text,
                "rank": rank,
                "credit": use.credit,
                "shown": use.shown,
                "applied": use.applied,
                "failed": failed,
                **_chosen(use),
                "heuristic": ids.heuristic_id(namespace, agent, kind, use.text),
                "anti_pattern": ids.anti_pattern_id(namespace, agent, use.text, wrong)
                if (wrong := failed or failure)
                else None,
            }
            for rank, (use, failed) in enumerate(
                zip(episode.strategy, failures_of(held), strict=True)
            )
        ],
        "sentences": [
            {
                "rule": ids.rule_id(namespace, task_key, text),
                "text": text,
                "as_success": as_success,
                "rank": rank,
            }
            for as_success, texts in ((True, episode.successes), (False, episode.mistakes))
            for rank, text in enumerate(texts)
        ],
        "cards": [
            _card_row(namespace, task_key, rank, card)
            for rank, card in enumerate(episode.mistake_cards)
        ],
        "stream": ids.stream_id(namespace, agent),
        "tally": ids.tally_id(namespace, agent, kind),
        "scope": ids.scope_id(namespace, agent),
        "_took": took(
            namespace, agent, [(one.state, one.action_type, one.action) for one in episode.steps]
        ),
        "_content": held,
        "_size": len(written),
        "_timeless": timeless,  # it gives no time
    }


def content(episode: Episode, outcome: Outcome) -> dict[str, Any]:
    """Return the content by which two episodes are the same: all fields but their origin.

    Times are milliseconds. Missing fields are left out, so that a field added to the models later
    does not change the content of old episodes.
    """
    held = {name: value for name, value in episode.__dict__.items() if name not in _ORIGIN}
    for name in ("strategy", "steps", "mistake_cards"):
        held[name] = [_held(part) for part in held[name]]
    for name in ("started_at", "ended_at"):
        held[name] = millis(held[name])
    for name in ("successes", "mistakes"):
        held[name] = list(held[name])
    held |= outcome._asdict()
    given = {name: value for name, value in held.items() if value not in (None, [], {})}
    return {"strategy": [], **given}


def _held(part: StrategyUse | Step | MistakeCard) -> dict[str, Any]:
    """Return what a part of an episode says."""
    held = {name: value for name, value in part.__dict__.items() if value is not None}
    if isinstance(part, MistakeCard) and not part.extra:
        del held["extra"]
    return held


def hashed(held: dict[str, Any]) -> dict[str, Any]:
    """Return the content of an episode whose digest identifies it, which never changes.

    There a ``bad_decision`` of a mistake card is in its ``extra``, where it once was.
    """
    cards = [dict(card) for card in held.get("mistake_cards", ())]
    for card in cards:
        extra = card.get("extra", {})
        if "bad_decision" in card and "bad_decision" not in extra:
            card["extra"] = {**extra, "bad_decision": card.pop("bad_decision")}
    return {**held, "mistake_cards": cards} if cards else held


def _chosen(use: StrategyUse) -> Row:
    if use.propensity is None and use.explore is None:
        return {}
    candidates = None if use.candidates is None else canonical_json(use.candidates)
    return {"propensity": use.propensity, "explore": use.explore, "candidates": candidates}


def conflict(row: Row, stored: Mapping[str, Any]) -> ConflictError | None:
    """Return the error if an episode differs from what is stored under its source key."""
    ignored = {"started_at", "ended_at"} if row["_timeless"] else set()
    known, given = (
        {name: held[name] for name in held if name not in ignored}
        for held in (stored, row["_content"])
    )
    if canonical_json(hashed(known)) == canonical_json(hashed(given)):
        return None
    return ConflictError(row["source_key"] or row["id"], known, given)


def classes_of(held: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the classes under which an episode counts, from its content.

    ``type`` is the type of task that was given, else that of the wording; ``type_rule`` names what
    decided; ``error_class`` is that of its error, else of the last error of a step, or None.
    """
    name, rule = held.get("task_type"), "given"
    if not name:
        name, rule = infer_task_type(held["task"])
    errors = (step["error"] for step in reversed(held.get("steps", ())) if step.get("error"))
    error = held.get("error") or next(errors, None)
    wrong = (error_class(error) or None) if error else None
    return {"type": name, "type_rule": rule, "error_class": wrong}


def failures_of(held: Mapping[str, Any]) -> list[str | None]:
    """Return for each use of a strategy the class of error in which it failed, from the content.

    Whose doing it was: a strategy can fail in a run that another one saves. A step is a strategy's
    own if its type is the text of the strategy, else if its action names it: as a text, or as the
    ``name`` or ``tool`` of an object. A strategy whose own steps all ended in an error did not work
    there, also when the run succeeded. None: it has the outcome and the error of the run, as the
    only strategy of a failed run has, and those of which the steps tell nothing.
    """
    texts = [use["text"] for use in held["strategy"] if use["applied"]]
    errors: dict[str, list[str | None]] = {}
    told = held["success"] or len(texts) > 1
    if told and any(step.get("error") for step in held.get("steps", ())):
        for step in held["steps"]:
            errors.setdefault(_owner(step, texts), []).append(step.get("error"))
    return [
        error_class(own[-1]) or None
        if use["applied"] and (own := errors.get(use["text"])) and all(own) and own[-1]
        else None
        for use in held["strategy"]
    ]


def _owner(step: Mapping[str, Any], texts: Collection[str]) -> str:
    """Return the strategy of a step; "" if it is none of these."""
    action = step.get("action")
    named = [action] if not isinstance(action, dict) else [action.get("name"), action.get("tool")]
    for text in (step.get("action_type"), *named):
        if isinstance(text, str) and (text := unicodedata.normalize("NFC", text).strip()) in texts:
            return text
    return ""


def _card_row(namespace: str, task_key: str, rank: int, card: MistakeCard) -> Row:
    task, worker, decision = card.task or task_key, card.worker or "", card.correct_decision or ""
    return {
        **{name: getattr(card, name) for name in _CARD},
        "mistake": node_id(namespace, "Mistake", card.type, task, worker, decision),
        "about": task,
        "about_given": card.task is not None,
        "rank": rank,
        "extra": canonical_json(card.extra) if card.extra else None,
    }


def read_contents(reader: Reader, episodes: list[str]) -> dict[str, dict[str, Any]]:
    """Return the content of stored episodes (see :func:`content`), as learned."""
    contents: dict[str, dict[str, Any]] = {}
    rows = reader.read("learning.episodes", ids=episodes)
    for row in sorted(rows, key=lambda row: (row["part"] != "episode", int(row["rank"]))):
        key, part, fields = row["id"], row["part"], _told(row["fields"])
        if part == "episode":
            contents[key] = {**fields, "strategy": []}
        elif key in contents:  # an episode may have lost its task or its agent
            item = fields.get("text") if part in ("successes", "mistakes") else fields
            contents[key].setdefault(part, []).append(item)
    for row in reader.read("learning.steps_of", ids=list(contents)):
        step = _told({name: row[name] for name in Step.model_fields})
        contents[row["id"]].setdefault("steps", []).append(step)
    for row in reader.read("settling.told", ids=list(contents)):
        if row["former"]["success"] is not None:
            contents[row["episode"]].pop("error", None)
            contents[row["episode"]] |= _told(row["former"])
    return contents


def formers(rows: Sequence[Row]) -> tuple[Told, ...]:
    """Return the outcomes of an episode that others replaced, from its ``settling.told``."""
    learned = [{"at": None, **rows[0]["former"]}] if rows else []
    if any(row["former"]["success"] is None for row in rows):
        learned = [{"at": None, **dict.fromkeys(rows[0]["former"])}]
    told = [{"at": from_millis(row["at"]), **row["outcome"]} for row in rows[:-1]]
    return tuple(Told(**{name: one[name] for name in Told.model_fields}) for one in learned + told)


_JSON_FIELDS = frozenset({"action", "state", "next_state", "extra", "candidates"})


def _told(fields: Row) -> Row:
    """Return the fields that are there; some are stored as JSON."""
    return {
        name: json.loads(value) if name in _JSON_FIELDS else value
        for name, value in fields.items()
        if value is not None
    }


def _step_row(identity: str, index: int, step: Step) -> Row:
    row: Row = {"id": identity, "index": index}
    for name, value in step.__dict__.items():
        if value is not None:
            row[name] = canonical_json(value) if name in _JSON_FIELDS else value
    return row


class Occurrences:
    """Counts equal contents in one call, or in one file."""

    def __init__(self) -> None:
        # "" is a file without a name. It is written when its cache in memory is full, it is gone
        # when it is closed, and nobody else can read it.
        self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._file.executescript(
            "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;"
            "CREATE TABLE counts (content BLOB PRIMARY KEY, times INTEGER) WITHOUT ROWID"
        )

    def of(self, content_hash: str, given: str | None = None) -> str:
        """Return which occurrence of its content an episode is: ``given``, else the next one."""
        numbered = given and given.isascii() and given.isdecimal() and len(given) < 10
        try:
            [(count,)] = self._file.execute(
                "INSERT INTO counts VALUES (?, max(1, ?2)) ON CONFLICT DO UPDATE "
                "SET times = max(times + 1, ?2) RETURNING times",
                (bytes.fromhex(content_hash), int(given) if given and numbered else 0),
            ).fetchall()
        except sqlite3.Error as error:
            raise StorageError(f"equal episodes cannot be counted: {error}") from error
        return str(count) if given is None else given

    def close(self) -> None:
        """Drop the counts."""
        self._file.close()
