"""Words of a text, the same for both engines; its sentences, its ends, and sequences of tools.

Names such as ``cancelReservation`` and ``book_flight`` are split, case and width do not matter, and
each ideograph is a word. The engines reduce words to their stems (Porter 1980) and rank by BM25
(Robertson & Zaragoza 2009).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

LONGEST = 39
"""Most characters in a word; longer words are cut, because the embedded engine refuses them."""
CUT = " ... "  # stands for the middle of a long text
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+")
_ASCII = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))
"""Maps each ASCII character to itself if it is part of words, else to a space."""
_NOTHING = """
a about after all also an and any are as at be been before being but by can could did do
does done for from had has have he her here him his how i if in into is it its just me
my no not of on or our out over please she should so some such than that the their them
then there these they this those to under until up us very was we were what when where
which while who whom why will with would you your
"""
STOP_WORDS = frozenset(_NOTHING.split())  # words that carry no meaning for a task


def words(text: str) -> list[str]:
    """Return the words of a text in order, in small letters, without stop words."""
    simple = text.isascii()  # most texts are; ASCII needs no regular expression and no NFKC
    plain = text if simple else unicodedata.normalize("NFKC", text)
    if not plain.islower():
        plain = _CAMEL.sub(" ", plain).lower()
    split = plain.translate(_ASCII).split() if simple else _WORD.findall(plain)
    return [word[:LONGEST] for word in split if word not in STOP_WORDS]


LONGEST_CLAUSE = 300  # most characters of a clause
SHORTEST_CLAUSE = 2  # fewest words of a clause

_WORDING = re.compile(r"(?:(?<!\w)-(?=\d))?\d+(?:[.,]\d+)*|[^\W\d_]+")
_SENTENCE = re.compile(r"[.!?:]+(?=\s|$)|[;\n\r]+|(?:^|(?<=\s))[-*\u2013\u2014\u2022]+(?=\s)")
_CLAUSE = re.compile(r",(?=\s)|\s(?:and )?then(?=[\s,])", re.IGNORECASE)
_JOINED = re.compile(r"^(?:and|but|so|then)\s+", re.IGNORECASE)


def normalized(sentence: str) -> str:
    """Return the normalized form of a sentence: its words in small letters, and its numbers."""
    plain = unicodedata.normalize("NFKC", sentence).casefold().replace("\u2212", "-")
    return " ".join(_WORDING.findall(plain))


def clauses(text: str) -> dict[str, str]:
    """Return what a text says, by its normalized form: its sentences and their clauses."""
    said: dict[str, str] = {}
    for sentence in _SENTENCE.split(text):
        whole = " ".join(sentence.split())
        parts = [_JOINED.sub("", part.strip()) for part in _CLAUSE.split(whole)]
        for clause in (whole, *(parts if len(parts) > 1 else ())):
            wording = normalized(clause)
            if wording.count(" ") + 1 >= SHORTEST_CLAUSE and len(clause) <= LONGEST_CLAUSE:
                said.setdefault(wording, clause)
    return said


def words_of(content: Any) -> str:
    """Return the words of a content for a search, without the marks of JSON."""
    if isinstance(content, str):
        return content
    parts: list[str] = []
    waiting: list[tuple[str, Any]] = [("", content)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(key, value[key]) for key in sorted(value, reverse=True)]
        elif isinstance(value, list):
            waiting += [("", item) for item in reversed(value)]
            if name:
                parts.append(f"{name}:")
        else:
            text = str(value)
            parts.append(f"{name}: {text}" if name else text)
    return " ".join(parts)


def text_of(content: Any) -> str:
    """Return the text of a message: it is a text, or a list of texts and parts with texts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else []
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str))


def ends(text: str, most: int) -> str:
    """Return a text; of a longer one its beginning and its end, where a prompt has its question."""
    if len(text) <= most:
        return text
    half = (most - len(CUT)) // 2
    return f"{text[:half]}{CUT}{text[-half:]}"


THEN = " > "  # between the tools of a sequence


def sequences(texts: Iterable[str]) -> dict[str, list[str]]:
    """Return the strategies that are sequences of tools, and these tools, with the tools of each.

    A tool is its own one. Tools are known by the sequences that name them.
    """
    found = {text: text.split(THEN) for text in texts if THEN in text}
    return found | {tool: [tool] for tools in list(found.values()) for tool in tools}
