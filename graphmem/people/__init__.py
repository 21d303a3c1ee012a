"""People: preferences of users, knowledge, and the scopes of agents."""

from __future__ import annotations

from graphmem.people.knowledge import KnowledgeBase
from graphmem.people.preferences import Preferences

__all__ = ["People"]


class People(Preferences, KnowledgeBase):
    """Preferences of users and knowledge of the world: ``memory.people``."""
