"""Deterministic ids, canonical JSON and times."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_encoder = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical_json(value: Any) -> str:
    """Return the one JSON text of ``value``: sorted keys, no spaces, UTF-8, no NaN.

    Raises:
        ValueError: NaN or an infinity is inside.
        TypeError: something that JSON cannot hold is inside.
    """
    return _encoder.encode(value)


def digest(text: str) -> str:
    """Return 128 bits of BLAKE2b over ``text`` as 32 hex digits."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def node_id(namespace: str, label: str, *key: str) -> str:
    """Return the id of a node: a hash of namespace, label and natural key (32 hex digits).

    The parts are joined with their lengths, so that no two different keys read the same.
    """
    return digest("".join([f"{len(part)}:{part}" for part in (namespace, label, *key)]))


def to_millis(moment: datetime) -> int:
    """Return whole milliseconds since the epoch, UTC (rounded down)."""
    return (moment - _EPOCH) // _MILLISECOND


def from_millis(millis: int | None) -> datetime | None:
    """Return the UTC datetime of ``millis``, or None."""
    return None if millis is None else _EPOCH + timedelta(milliseconds=millis)
