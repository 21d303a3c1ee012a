"""States and actions of policies: how they are typed, and how they are shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import parse_json

if TYPE_CHECKING:
    from graphmem.models import Policy

_FORMS = "give JSON, a fingerprint (16 hex digits), or NAME=VALUE for each feature"


def parse(words: Sequence[str], name: str = "STATE") -> dict[str, Any] | str:
    """Return the features or the fingerprint in the words of an argument.

    Raises:
        UsageError: they are neither JSON, nor a fingerprint, nor NAME=VALUE.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            parsed: dict[str, Any] = parse_json(words[0])
        except ValueError as error:
            raise click.UsageError(f"{name} {words[0]!r} is no JSON ({error}); {_FORMS}") from error
        return parsed
    if len(words) == 1 and len(words[0]) == 16 and "=" not in words[0]:
        return words[0]
    features: dict[str, Any] = {}
    for word in words:
        feature, equals, value = word.partition("=")
        if not equals or not feature:
            raise click.UsageError(f"{name} {word!r}: {_FORMS}")
        if feature in features:
            raise click.UsageError(f"{name}: {feature!r} is given twice")
        try:
            features[feature] = parse_json(value)
        except ValueError:
            features[feature] = value
    return features


def describe_state(policy: Policy) -> str:
    """Return the state of a policy as NAME=VALUE, else its fingerprint."""
    if not policy.features:
        return policy.state
    return " ".join(f"{name}={_value(value)}" for name, value in policy.features.items())


def describe_action(policy: Policy) -> str:
    """Return the action of a policy, with its spec."""
    return policy.action if policy.spec is None else f"{policy.action} {_value(policy.spec)}"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


CELLS: Mapping[str, Callable[[Policy], Any]] = {
    "state": describe_state,
    "action": describe_action,
    "worked": lambda row: f"{row.successes} of {row.trials}",
    "status": lambda row: row.status + (", crystallized" if row.crystallized else ""),
    "confidence": lambda row: row.confidence if row.signals else None,
}
"""The columns of a table of policies that are no fields."""
