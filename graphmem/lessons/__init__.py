"""Lessons: what strategies, errors and sentences of episodes add up to."""

from __future__ import annotations

from graphmem.lessons.general_rules import Consolidator
from graphmem.lessons.merging import Merger

__all__ = ["Lessons"]


class Lessons(Consolidator, Merger):
    """Reads the lessons of one namespace, consolidates them, merges strategies: ``memory.lessons``.

    What is counted, and when something becomes a lesson, is in ``docs/explanation/lessons.md``.
    """
