"""What entries become that flow into a view: episodes, or knowledge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from graphmem.errors import NotFoundError, ValidationError
from graphmem.ids import digest, from_millis, node_id
from graphmem.levels.transformers import (
    Chat,
    Draft,
    domain,
    is_fact,
    is_record,
    mapping,
    tells_of_episode,
)
from graphmem.models.episodes import Episode
from graphmem.models.knowledge import Knowledge
from graphmem.models.reports import LearnReport, Rejection
from graphmem.store.port import Row

_OUTCOMES = {"success": True, "failure": False}
_FACT = ("source", "user", "contradicts")


class Outlets(NamedTuple):
    """What the rest of the memory does with what flows out of levels."""

    learn: Callable[..., LearnReport]
    """Learns many episodes."""
    know: Callable[..., Knowledge]
    """Stores a fact."""
    chat: Chat | None
    """Asks the model of the settings."""


@dataclass(slots=True)
class Became:
    """What entries became: rows {id, target, kind}, and why others became nothing."""

    rows: list[Row] = field(default_factory=list)
    skipped: int = 0
    reasons: list[str] = field(default_factory=list)

    def skip(self, reason: str, count: int = 1) -> None:
        """Count entries that became nothing."""
        self.skipped += count
        if reason not in self.reasons:
            self.reasons.append(reason)

    def by_kind(self) -> dict[str, list[Row]]:
        """Return the rows of each kind."""
        kinds: dict[str, list[Row]] = {}
        for row in self.rows:
            kinds.setdefault(row["kind"], []).append({"id": row["id"], "target": row["target"]})
        return kinds


def become(
    namespace: str, holds: str, owner: str | None, drafts: Iterable[Draft], outlets: Outlets
) -> Became:
    """Turn drafts into what the view of an owner holds; a repeated call changes nothing."""
    became = Became()
    if holds == "episodes":
        _learn(namespace, owner, drafts, outlets, became)
    elif holds == "knowledge":
        _know(drafts, outlets, became)
    else:
        became.skip(
            "the level shows strategies, which come from episodes alone", sum(1 for _ in drafts)
        )
    return became


def _learn(
    namespace: str,
    owner: str | None,
    drafts: Iterable[Draft],
    outlets: Outlets,
    became: Became,
) -> None:
    episodes: list[Episode] = []
    origins: list[Draft] = []
    for draft in drafts:
        if tells_of_episode(draft.row):
            became.skip("it tells of an episode that was learned already")
            continue
        if not is_record(draft.row):
            became.skip("an episode needs a task, and success, score or outcome")
            continue
        try:
            episodes.append(_episode(draft, owner))
        except ValidationError as error:
            became.skip(str(error))
        else:
            origins.append(draft)
    refused: set[int] = set()

    def reject(rejection: Rejection) -> None:
        refused.add(rejection.index)
        became.skip(rejection.reason)

    if episodes:
        outlets.learn(episodes, on_error="collect", on_reject=reject)
    for index, (episode, draft) in enumerate(zip(episodes, origins, strict=True)):
        if index not in refused:
            target = node_id(namespace, "Episode", "key", str(episode.source_key))
            _note(became, "episodes", draft, target)


def _episode(draft: Draft, owner: str | None) -> Episode:
    """Return the episode that the record of an attempt becomes.

    Raises:
        ValidationError: it cannot become one.
    """
    held = mapping(draft.row)
    outcome = held.pop("outcome", None)
    if isinstance(outcome, str):
        outcome = _OUTCOMES.get(outcome.lower(), outcome)
    if outcome is not None:
        number = isinstance(outcome, int | float) and not isinstance(outcome, bool)
        held.setdefault("score" if number else "success", outcome)
    agent = held.setdefault("agent", owner)
    if agent != owner:
        raise ValidationError("agent", agent, f"does not own the level, which is {owner!r}'s")
    extra = held.pop("extra", {})
    others = {name: held.pop(name) for name in held.keys() - Episode.model_fields}
    held["extra"] = {**others, **extra} if isinstance(extra, dict) else extra
    held.setdefault("strategy", [])
    if held.get("started_at") is None and held.get("ended_at") is None:
        held["ended_at"] = from_millis(draft.row["at"])
    held["source_key"] = source_key(draft)
    held.pop("occurrence", None)
    return Episode(**held)


def source_key(draft: Draft) -> str:
    """Return the source key: the id of the entry, or of the entries that it was made from."""
    ids = sorted(row["id"] for row in draft.sources)
    return str(ids[0]) if len(ids) == 1 else digest(" ".join(ids))


def _know(drafts: Iterable[Draft], outlets: Outlets, became: Became) -> None:
    for draft in drafts:
        if not is_fact(draft.row):
            became.skip("knowledge needs a fact, and a domain or a tag domain:...")
            continue
        held = mapping(draft.row)
        given: dict[str, Any] = {"source": "observed"}
        given |= {name: held[name] for name in _FACT if held.get(name) is not None}
        try:
            known = outlets.know(
                domain(draft.row), held["fact"], at=from_millis(draft.row["at"]), **given
            )
        except (ValidationError, NotFoundError) as error:
            became.skip(str(error))
        else:
            _note(became, "knowledge", draft, known.id)


def _note(became: Became, kind: str, draft: Draft, target: str) -> None:
    became.rows += [{"id": row["id"], "target": target, "kind": kind} for row in draft.sources]
