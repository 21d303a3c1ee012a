"""Splits texts into tokens, and counts them, as the default embedder does.

MiniLM (all-MiniLM-L6-v2) uses WordPiece tokens of BERT's uncased vocabulary (Devlin et al. 2019,
section 3); the tables are in ``graphmem/data``, with their notice. The special tokens around a text
are not counted. White space separates tokens, so the counts of lines add up.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from functools import cache, lru_cache
from importlib.resources import files

from graphmem.errors import ValidationError

Counter = Callable[[str], int]  # returns how many tokens a text has

LONGEST_WORD = 100  # most characters in a word; a longer word is one unknown token (as in BERT)
FIRST, LAST, UNKNOWN = 101, 102, 100
"""The tokens around a text that is embedded, and that of a word which cannot be put together."""


def tokens(text: str) -> list[int]:
    """Return the tokens of a text, without the special ones around it."""
    try:
        text.encode()
    except (AttributeError, UnicodeEncodeError):
        raise ValidationError("text", text, "is not a text, or contains a lone surrogate") from None
    if text.isascii():
        text = text.translate(_ASCII)
    else:
        text = unicodedata.normalize("NFD", text.translate(_BEFORE)).translate(_AFTER)
    return [token for word in text.split() for token in _pieces(word)]


def count_tokens(text: str) -> int:
    """Return the number of the default embedder's tokens in a text, 0 if it is empty."""
    lines = text.split("\n") if isinstance(text, str) else tokens(text)  # which refuses it
    return sum(map(_tokens_of_line, lines))


@lru_cache(maxsize=4096)
def _tokens_of_line(line: str) -> int:
    return len(tokens(line))


@lru_cache(maxsize=32_768)
def _pieces(word: str) -> tuple[int, ...]:
    known = _vocabulary()
    if word in known:
        return (known[word],)
    found: list[int] = []
    start = 0
    while start < len(word) <= LONGEST_WORD:
        mark = "##" if start else ""
        for end in range(len(word), start, -1):
            if (piece := mark + word[start:end]) in known:
                found.append(known[piece])
                start = end
                break
        else:
            return (UNKNOWN,)
    return tuple(found) or (UNKNOWN,)


@cache
def _vocabulary() -> dict[str, int]:
    """Return the places of pieces by their texts; what stands within a word begins with ##."""
    table = files("graphmem").joinpath("data", "vocabulary.txt").read_text(encoding="utf-8")
    return {token: place for place, token in enumerate(table.split("\n")[:-1])}


@cache
def _kinds() -> dict[str, list[int]]:
    """Return by kind of character where its ranges begin and, one further, end: by turns."""
    table = files("graphmem").joinpath("data", "characters.txt").read_text(encoding="utf-8")
    found: dict[str, list[int]] = {}
    for line in table.splitlines():
        kind, *ranges = line.split(" ")
        found[kind] = []
        for one in ranges:
            first, _, last = one.partition("-")
            found[kind] += [int(first, 16), int(last or first, 16) + 1]
    return found


def _is(kind: str, code: int) -> bool:
    return bisect_right(_kinds()[kind], code) % 2 == 1


class _Table(dict[int, str]):
    """What characters become, by code; each is looked up once."""

    def __init__(self, become: Callable[[int], str]) -> None:
        self._become = become

    def __missing__(self, code: int) -> str:
        found = self[code] = self._become(code)
        return found


def _before(code: int) -> str:
    """Return what a character becomes before letters are parted from their accents."""
    if _is("deleted", code):
        return ""
    character = chr(code)
    if character.isspace():
        return " "
    return f" {character} " if _is("ideographs", code) else character


def _after(code: int) -> str:
    """Return what a character becomes after that: lower case, punctuation stands alone."""
    if _is("marks", code):
        return ""
    lower = chr(code).lower()
    return "".join(f" {one} " if _is("punctuation", ord(one)) else one for one in lower)


_BEFORE, _AFTER = _Table(_before), _Table(_after)
_ASCII = _Table(lambda code: "".join(map(_after, map(ord, _before(code)))))
