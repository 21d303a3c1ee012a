"""Users: what they prefer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from graphmem.models.fields import Input, Moment, Name, Output, Unit

PreferenceSource = Literal["explicit_instruction", "correction", "inferred"]

# The numbers are those of ALMA's preferences.
PREFERENCE_CONFIDENCE: Mapping[PreferenceSource, float] = MappingProxyType(
    {"explicit_instruction": 1.0, "correction": 0.7, "inferred": 0.7}
)
"""How sure a preference is, by how it became known: the user said so, corrected something, or
somebody concluded it."""


class Wish(Input):
    """What a user wants, as it comes in."""

    user: Name
    category: Name
    text: Name
    source: PreferenceSource = "explicit_instruction"
    at: Moment | None = None


class Asked(Input):
    """Whose preferences are asked for."""

    user: Name
    category: Name | None = None


class Preference(Output):
    """What a user wants in a category, and how that became known.

    Of a user and category the latest one is in force; it supersedes the one before it.
    """

    id: str
    user: str
    category: str
    text: str
    source: PreferenceSource
    confidence: Unit
    """1 for an explicit instruction, else 0.7."""
    at: datetime | None
    """When it was said, where that was given."""
    recorded_at: datetime
    in_force: bool
    supersedes: str | None
    """The id of the one before it."""
    superseded_by: str | None
    """The id of the one after it."""
    created: bool = False
    """Whether the call that returned it stored it."""
