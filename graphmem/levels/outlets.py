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
    domain_of,
    is_episode_entry,
    is_fact,
    is_record,
    mapping_of,
)
from graphmem.models.episodes import Episode
from graphmem.models.knowledge import Knowledge
from graphmem.models.reports import LearnReport, Rejection
from graphmem.store.port import Row

_OUTCOMES = {"success": True, "failure": False}
_FACT_FIELDS = ("source", "user", "contradicts")


class Outlets(NamedTuple):
    """What the rest of the memory does with what flows out of levels."""

    learn: Callable[..., LearnReport]
    """Learns many episodes."""
    know: Callable[..., Knowledge]
    """Stores a fact."""
    chat: Chat | None
    """Asks the model of the settings."""


@dataclass(slots=True)
class Conversion:
    """What entries became: rows {id, target}, and why others became nothing."""

    rows: list[Row] = field(default_factory=list)
    skipped: int = 0
    reasons: list[str] = field(default_factory=list)

    def add(self, draft: Draft, target: str) -> None:
        """Note what the entries of a draft became."""
        self.rows += [{"id": row["id"], "target": target} for row in draft.sources]

    def skip(self, reason: str, count: int = 1) -> None:
        """Count drafts that became nothing."""
        self.skipped += count
        if reason not in self.reasons:
            self.reasons.append(reason)


def convert(
    namespace: str, holds: str, owner: str | None, drafts: Iterable[Draft], outlets: Outlets
) -> Conversion:
    """Turn drafts into what the view of an owner holds; a repeated call changes nothing."""
    done = Conversion()
    if holds == "episodes":
        _learn(namespace, owner, drafts, outlets, done)
    elif holds == "knowledge":
        _know(drafts, outlets, done)
    else:
        done.skip(
            "the level shows strategies, which come from episodes alone", sum(1 for _ in drafts)
        )
    return done


def _learn(
    namespace: str,
    owner: str | None,
    drafts: Iterable[Draft],
    outlets: Outlets,
    done: Conversion,
) -> None:
    episodes: list[tuple[Episode, Draft]] = []
    for draft in drafts:
        if is_episode_entry(draft.row):
            done.skip("it tells of an episode that was learned already")
        elif not is_record(draft.row):
            done.skip("an episode needs a task, and success, score or outcome")
        else:
            try:
                episodes.append((_episode(draft, owner), draft))
            except ValidationError as error:
                done.skip(str(error))
    refused: set[int] = set()

    def reject(rejection: Rejection) -> None:
        refused.add(rejection.index)
        done.skip(rejection.reason)

    if episodes:
        outlets.learn([one for one, _ in episodes], on_error="collect", on_reject=reject)
    for index, (episode, draft) in enumerate(episodes):
        if index not in refused:
            done.add(draft, node_id(namespace, "Episode", "key", str(episode.source_key)))


def _episode(draft: Draft, owner: str | None) -> Episode:
    """Return the episode that the record of an attempt becomes.

    Raises:
        ValidationError: it cannot become one.
    """
    fields = mapping_of(draft.row)
    outcome = fields.pop("outcome", None)
    if isinstance(outcome, str):
        outcome = _OUTCOMES.get(outcome.lower(), outcome)
    if outcome is not None:
        number = isinstance(outcome, int | float) and not isinstance(outcome, bool)
        fields.setdefault("score" if number else "success", outcome)
    agent = fields.setdefault("agent", owner)
    if agent != owner:
        raise ValidationError("agent", agent, f"does not own the level, which is {owner!r}'s")
    extra = fields.pop("extra", {})
    others = {name: fields.pop(name) for name in fields.keys() - Episode.model_fields}
    fields["extra"] = {**others, **extra} if isinstance(extra, dict) else extra
    fields.setdefault("strategy", [])
    if fields.get("started_at") is None and fields.get("ended_at") is None:
        fields["ended_at"] = from_millis(draft.row["at"])
    fields["source_key"] = source_key(draft)
    fields.pop("occurrence", None)
    return Episode(**fields)


def source_key(draft: Draft) -> str:
    """Return the source key: the id of the entry, or of the entries that it was made from."""
    ids = sorted(row["id"] for row in draft.sources)
    return str(ids[0]) if len(ids) == 1 else digest(" ".join(ids))


def _know(drafts: Iterable[Draft], outlets: Outlets, done: Conversion) -> None:
    for draft in drafts:
        if not is_fact(draft.row):
            done.skip("knowledge needs a fact, and a domain or a tag domain:...")
            continue
        fields = mapping_of(draft.row)
        how: dict[str, Any] = {"source": "observed"}
        how |= {name: fields[name] for name in _FACT_FIELDS if fields.get(name) is not None}
        try:
            fact = outlets.know(
                domain_of(draft.row), fields["fact"], at=from_millis(draft.row["at"]), **how
            )
        except (ValidationError, NotFoundError) as error:
            done.skip(str(error))
        else:
            done.add(draft, fact.id)
