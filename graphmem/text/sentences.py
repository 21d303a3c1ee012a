"""Sentences: when two of them say the same, and what a summary says."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

LONGEST = 300
"""Most characters of a clause."""
SHORTEST = 2
"""Fewest words of a clause."""

_WORD = re.compile(r"(?:(?<!\w)-(?=\d))?\d+(?:[.,]\d+)*|[^\W\d_]+")
_SENTENCE = re.compile(r"[.!?:]+(?=\s|$)|[;\n\r]+|(?:^|(?<=\s))[-*\u2013\u2014\u2022]+(?=\s)")
_CLAUSE = re.compile(r",(?=\s)|\s(?:and )?then(?=[\s,])", re.IGNORECASE)
_JOINED = re.compile(r"^(?:and|but|so|then)\s+", re.IGNORECASE)


def normalized(sentence: str) -> str:
    """Return the normalized form of a sentence: its words in small letters, and its numbers."""
    plain = unicodedata.normalize("NFKC", sentence).casefold().replace("\u2212", "-")
    return " ".join(_WORD.findall(plain))


def clauses(text: str) -> dict[str, str]:
    """Return what a text says, by its normalized form: its sentences and their clauses."""
    said: dict[str, str] = {}
    for clause in _clauses(text):
        wording = normalized(clause)
        if wording.count(" ") + 1 >= SHORTEST and len(clause) <= LONGEST:
            said.setdefault(wording, clause)
    return said


def _clauses(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(text):
        whole = " ".join(sentence.split())
        yield whole
        parts = _CLAUSE.split(whole)
        if len(parts) > 1:
            yield from (_JOINED.sub("", part.strip()) for part in parts)
