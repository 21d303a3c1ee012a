"""Checks of common arguments."""

from __future__ import annotations

import unicodedata

from graphmem.errors import ValidationError, has_surrogate
from graphmem.models.fields import Input, Name


def check_text(name: str, value: object) -> None:
    """Check that an engine can search for a text.

    Raises:
        ValidationError: it is not a text, or contains lone surrogates.
    """
    if not isinstance(value, str) or has_surrogate(value):
        raise ValidationError(name, value, "is not a text, or contains a lone surrogate")


class _Agent(Input):
    agent: Name


def checked_agent(agent: str | None) -> str | None:
    """Return the normalized name of an agent, or None for all agents.

    Raises:
        ValidationError: it is not a name.
    """
    return None if agent is None else _Agent(agent=agent).agent


def checked_text(name: str, value: str | None) -> str | None:
    """Return a normalized text, or None.

    Raises:
        ValidationError: it is not a text, or contains lone surrogates.
    """
    if value is None:
        return None
    check_text(name, value)
    return unicodedata.normalize("NFC", value).strip()


def check_limit(limit: int) -> None:
    """Check a limit.

    Raises:
        ValidationError: it is not an integer of at least 1.
    """
    if type(limit) is not int or limit < 1:
        raise ValidationError("limit", limit, "must be a whole number from 1")
