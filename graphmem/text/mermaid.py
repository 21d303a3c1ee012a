"""Texts in charts for Mermaid."""

from __future__ import annotations

NAME = 80
"""Most characters of a label."""


def label(text: str, most: int = NAME) -> str:
    """Return text as a label: on one line, of a length that fits, without what Mermaid obeys."""
    return "".join(f"#{ord(char)};" if char in '"#&<>|;`\\' else char for char in short(text, most))


def short(text: str, most: int = NAME) -> str:
    """Return text on one line, of a length that fits."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
