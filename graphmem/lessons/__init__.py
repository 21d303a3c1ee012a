"""Lessons: conclusions from the strategies, errors and sentences of episodes."""

from __future__ import annotations

from graphmem.lessons.general_rules import Consolidator
from graphmem.lessons.merging import Merger

__all__ = ["Lessons"]


class Lessons(Consolidator, Merger):
    """Reads the lessons of one namespace, consolidates them, merges strategies: ``memory.lessons``.

    ``docs/explanation/lessons.md`` explains the counts and the thresholds of lessons.
    """
