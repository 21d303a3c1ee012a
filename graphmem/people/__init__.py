"""People: preferences, knowledge, and what agents may learn and read."""

from __future__ import annotations

from graphmem.people.knowledge import KnowledgeBase
from graphmem.people.preferences import Preferences

__all__ = ["People"]


class People(Preferences, KnowledgeBase):
    """Keeps what users want, and what is known of the world: ``memory.people``."""
