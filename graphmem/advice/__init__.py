"""Advice: what to do, how likely it is to work, and why."""
