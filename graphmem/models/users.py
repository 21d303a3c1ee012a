"""Preferences of users."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from graphmem.models.fields import Input, Moment, Name, Output, Unit

PreferenceSource = Literal["explicit_instruction", "correction", "inferred"]

# The numbers follow ALMA's preferences.
PREFERENCE_CONFIDENCE: Mapping[PreferenceSource, float] = MappingProxyType(
    {"explicit_instruction": 1.0, "correction": 0.7, "inferred": 0.7}
)
"""Confidence in a preference by its source: the user said it, corrected something, or somebody
concluded it."""


class Wish(Input):
    """The validated arguments of ``prefer``."""

    user: Name
    category: Name
    text: Name
    source: PreferenceSource = "explicit_instruction"
    at: Moment | None = None


class Preference(Output):
    """A preference of a user in a category, with its source.

    For each user and category the latest preference is in force; it supersedes the one before.
    """

    id: str
    user: str
    category: str
    text: str
    source: PreferenceSource
    confidence: Unit
    """1 for an explicit instruction, else 0.7."""
    at: datetime | None
    """When it was said, if given."""
    recorded_at: datetime
    in_force: bool
    supersedes: str | None
    """The id of the preference before it."""
    superseded_by: str | None
    """The id of the preference after it."""
    created: bool = False
    """Whether this call stored it."""
