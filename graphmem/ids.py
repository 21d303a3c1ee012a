"""Deterministic ids, canonical JSON and times."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from graphmem.errors import ValidationError, has_surrogate

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_encoder = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)
_features = json.JSONEncoder(sort_keys=True)


def canonical_json(value: Any) -> str:
    """Return the one JSON text of ``value``: sorted keys, no spaces, UTF-8, no NaN."""
    return _encoder.encode(value)


def digest(text: str) -> str:
    """Return 128 bits of BLAKE2b over ``text`` as 32 hex digits."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def node_id(namespace: str, label: str, *key: str) -> str:
    """Return the id of a node: a hash of namespace, label and natural key (32 hex digits).

    The parts are joined with their lengths, so that different keys never give the same text.
    """
    return digest(_joined(namespace, label, *key))


def _joined(*parts: str) -> str:
    return "".join([f"{len(part)}:{part}" for part in parts])


def fingerprint(
    features: Mapping[str, Any],
    include: Iterable[str] | None = None,
    hour_bucket: bool | datetime = False,
) -> str:
    """Return the fingerprint of a state: the first 16 hex digits of a SHA-256 over its features.

    The hash covers Python's default JSON with sorted keys; 1 and 1.0 differ.

    Args:
        features: the features of the state by name: texts, numbers, booleans, None, and lists and
            dicts of them.
        include: names of the features to use; None uses all.
        hour_bucket: True adds the current hour, a datetime (with time zone) adds its hour: the same
            features are then another state in another hour.

    Raises:
        ValidationError: JSON cannot represent a feature exactly, or ``include`` names an unknown
            feature.
    """
    if not isinstance(features, Mapping):
        raise ValidationError("state", features, "must be a dict of features")
    chosen = dict(features)
    if include is not None:
        names = list(include)
        for name in names:
            if name not in chosen:
                raise ValidationError("include", name, "is not one of the features", "leave it out")
        chosen = {name: chosen[name] for name in names}
    if hour_bucket is not False:
        moment = datetime.now(UTC) if hour_bucket is True else hour_bucket
        if moment.tzinfo is None:
            raise ValidationError("hour_bucket", moment, "has no time zone")
        chosen["__hour_bucket__"] = to_millis(moment) // 3_600_000
    return hashed(features_json(chosen))


def features_json(features: Mapping[str, Any], name: str = "state") -> str:
    """Return the JSON text of features, for hashing; errors call the field ``name``."""
    try:
        return _features.encode(_exact(features, name))
    except RecursionError:
        raise ValidationError(name, None, "is nested too deeply") from None
    except ValueError:  # Python writes out 4,300 digits at most
        raise ValidationError(name, None, "holds a number with too many digits") from None


@lru_cache(maxsize=65_536)
def hashed(text: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def event_ids(stream: str, first: int, last: int) -> list[str]:
    """Return the ids of a range of events, including both ends."""
    return [f"{stream}:{seq}" for seq in range(first, last + 1)]


def _exact(value: Any, where: str) -> Any:
    """Return a value, with each mapping as a dict; raise if JSON cannot hold it exactly."""
    kind = type(value)
    if kind is str:
        if has_surrogate(value):
            raise ValidationError(where, value, "contains a lone surrogate, which is not text")
        return value
    if value is None or kind in (int, bool) or (kind is float and math.isfinite(value)):
        return value
    if kind is list:
        return [_exact(item, f"{where}.{index}") for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        for name in value:
            if type(name) is not str:
                raise ValidationError(where, name, "is a name that is not a text", "give texts")
            _exact(name, where)
        return {name: _exact(item, f"{where}.{name}") for name, item in value.items()}
    problem = f"is a {kind.__name__} that JSON cannot hold exactly"
    remedy = "give texts, finite numbers, booleans, None, lists and dicts of them"
    raise ValidationError(where, value, problem, remedy)


EARLIEST = -62_135_596_800_000  # the first millisecond that a datetime can hold


def to_millis(moment: datetime) -> int:
    """Return whole milliseconds since the epoch, UTC (rounded down)."""
    return (moment - _EPOCH) // _MILLISECOND


def from_millis(millis: int | None) -> datetime | None:
    """Return the UTC datetime of ``millis``, or None."""
    return None if millis is None else _EPOCH + timedelta(milliseconds=millis)


def _ids(label: str, *fixed: str, most: int = 4_096) -> Callable[..., str]:
    """Return the function that gives the ids of nodes: of a namespace, and the parts of a key."""

    @lru_cache(maxsize=most)
    def identify(namespace: str, *key: str | None) -> str:
        return node_id(
            namespace, label, *fixed, *("null" if part is None else part for part in key)
        )

    return identify


_Of1 = Callable[[str, str], str]
_Of2 = Callable[[str, str, str], str]
_Of3 = Callable[[str, str, str, str], str]

agent_id: _Of1 = _ids("Agent")
task_id: _Of1 = _ids("Task")
strategy_id: _Of1 = _ids("Strategy")
scope_id: _Of1 = _ids("LearningScope")
level_id: _Of1 = _ids("Level")
lens_id: _Of1 = _ids("Lens")
consolidation_id: Callable[[str], str] = _ids("Consolidation")
abandoned_id: _Of1 = _ids("Abandoned")  # of the key of an attempt without an outcome
stream_id: _Of1 = _ids("Stream")  # of the stream of an agent
level_stream_id: _Of1 = _ids("Stream", "level")
"""Of the stream of a level; it differs from all ids of agents' streams."""
state_id: _Of1 = _ids("State", most=65_536)  # of a fingerprint
tally_id: _Of2 = _ids("Tally")  # of an agent and a type of task
rule_id: _Of2 = _ids("Rule")  # of the key of a task, "" for all tasks, and a sentence
entry_id: _Of2 = _ids("Entry")  # of the name of a level, and a key
skill_id: Callable[[str, str, str, str | None], str] = _ids("Skill")
"""Of a source, a kind of task, and its description, or None."""
prior_id: _Of2 = _ids("Prior", most=65_536)  # of the id of a skill, and a strategy
heuristic_id: _Of3 = _ids("Heuristic")  # of an agent, a type of task, and a strategy
anti_pattern_id: _Of3 = _ids("AntiPattern")  # of an agent, a strategy, and a class of errors
policy_id: Callable[[str, str, str, str, str | None], str] = _ids("Policy", most=65_536)
"""Of an agent, a fingerprint, an action, and its specification as canonical JSON, or None."""


def heuristic_ids(
    namespace: str, kinds: Iterable[tuple[str, str]], strategies: Iterable[str]
) -> list[str]:
    """Return the ids of the heuristics of agents and types of tasks, for each of some strategies.

    It takes a fifth of the time of as many calls of :func:`heuristic_id`.
    """
    hashes = [
        hashlib.blake2b(_joined(namespace, "Heuristic", *kind).encode(), digest_size=16)
        for kind in kinds
    ]
    ids: list[str] = []
    for strategy in strategies:
        rest = _joined(strategy).encode()
        for begun in hashes:
            whole = begun.copy()
            whole.update(rest)
            ids.append(whole.hexdigest())
    return ids
