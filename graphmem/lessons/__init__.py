"""Lessons: what strategies, errors and sentences of episodes add up to."""
