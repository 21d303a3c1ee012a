"""What people may see: text without control characters, urls without passwords.

A terminal obeys control characters, and characters of direction let a text look like another one.
Text from others can hold both: names of files, texts of agents, keys, answers of servers.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import TextIO, cast

SHY = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001"
    "\U000e0020-\U000e007f]"
)
"""Matches control characters (except the end of a line), formats (category Cf), lone surrogates."""
_SCHEME = r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*:/+)"
_URL = re.compile(_SCHEME + r"(\S+)")
"""Matches a url within a text: a password can hold each character but a space, also ``@``."""
_QUOTED = re.compile(r"(?i)(['\"])([a-z][a-z0-9+.-]*:/+)(?:(?!\1).)*@")
"""Matches the beginning of a url in quotes up to the end of a password, which may hold spaces."""
_PARAMETER = re.compile(
    r"(?i)([?&;][a-z_-]{0,20}(?:passw(?:or)?d|pwd|secret|token|key)=)[^\s&#'\"<>]+"
)
"""Matches a parameter of a url whose name says that its value is a secret."""
_BEGINNING = re.compile(r"(?i)\s*(?:[a-z][a-z0-9+.-]*:/+|[a-z][a-z0-9+.-]*(?=:))?", re.DOTALL)
_NO_PORT = re.compile(r"^(\[[^]]*\]|[^/?#:\[]*):(?!\d{1,5}(?:[/?#,]|$))[^/?#]*")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
MASK = "***"
_DECIMALS = 3


def printable(text: str) -> str:
    """Return a text with escapes for characters that a terminal would obey, except ends of lines.

    The escapes are those of JSON, so that JSON has the same value afterwards.
    """
    return SHY.sub(lambda match: json.dumps(match[0])[1:-1], text)


def without_passwords(text: str) -> str:
    """Return a text in which no url has a user, a password, or a secret as a parameter.

    Everything before the last ``@`` of a url may belong to a password.
    """
    if "@" in text:
        text = _URL.sub(_masked, _QUOTED.sub(rf"\1\2{MASK}@", text))
    return _PARAMETER.sub(rf"\1{MASK}", text) if "=" in text else text


def _masked(url: re.Match[str]) -> str:
    scheme, rest = url.groups()
    _, at, end = rest.rpartition("@")
    return f"{scheme}{MASK}@{end}" if at else url[0]


def without_password(url: str) -> str:
    """Return a url without user, password and query, however damaged it is; a path as it is.

    Everything before the last ``@`` may belong to a password, and so may a wrong port.
    """
    beginning = _BEGINNING.match(url)
    scheme = beginning[0] if beginning and beginning[0].strip() else ""
    if not scheme.endswith("/"):
        before, at, rest = url.rpartition("@")
        is_path = ":" not in before or _DRIVE.match(before)
        return url if not at or is_path else f"{MASK}@{_bare(rest)}"
    _, at, rest = url[len(scheme) :].rpartition("@")
    return f"{scheme}{at and MASK}{at}{_bare(rest)}"


def _bare(rest: str) -> str:
    if rest.startswith("[") and "]" not in rest:
        return MASK
    found = _NO_PORT.sub(rf"\1:{MASK}", rest)
    return re.sub(r"[?#].*", f"?{MASK}", found, flags=re.DOTALL)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun; the first word takes the plural: ``2 entries of it``."""
    if number != 1:
        word, space, rest = noun.partition(" ")
        noun = with_s(word) + space + rest
    return f"{number:,} {noun}"


def with_s(word: str) -> str:
    """Return the plural of a noun, or the third person of a verb."""
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    return re.sub("(?<![aeiou])y$", "ie", word) + "s"


_WORDS = {
    "outcomes": "result of a strategy on a task",
    "co_occurrences": "pair of strategies used together",
    "recent": "list of latest episodes",
    "tallies": "sum of an agent",
    "policy_links": "link of a policy",
    "pooling": "set of strengths for estimates",
    "vectors": "vector of a text",
    "similar": "pair of similar texts",
}
"""One of what is compared or removed, in the words of who asks."""


def listed(counts: Mapping[str, int]) -> str:
    """Return counts as words, without what is not there: "3 strategies, 1 agent"."""
    return ", ".join(counted(count, _one(name)) for name, count in counts.items() if count)


def _one(name: str) -> str:
    singular = re.sub("(?<=s)es$|s$", "", re.sub("ies$", "y", name)).replace("_", "-")
    return _WORDS.get(name, singular)


def percent(share: float, decimals: int = 0) -> str:
    """Return a share in percent; ``100%`` and ``0%`` mean exactly that: ``99.8%``, ``<0.001%``.

    What would be rounded to one of these has more decimals, up to three.
    """
    for places in range(decimals, _DECIMALS + 1):
        text = f"{share:.{places}%}"
        whole = float(text[:-1])
        if (whole != 100.0 or share >= 1.0) and (whole != 0.0 or share <= 0.0):
            return text
    return ">99.999%" if share > 0.5 else "<0.001%"


def short(text: str, most: int = 80) -> str:
    """Return a text on one line, of a length that fits."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


class Url(str):
    """A url as a text that shows no password when it is printed as a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(without_password(self))


class Printable:
    """A stream of text that writes only :func:`printable` text."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream  # the stream itself, for code that knows how to style

    def write(self, text: str) -> int:
        """Write a text."""
        self.stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def guarded(stream: TextIO) -> TextIO:
    """Return a stream that writes only printable text."""
    if isinstance(stream, Printable):
        return stream
    if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() in ("ascii", "us-ascii"):
        stream.reconfigure(encoding="utf-8")  # else click goes around it
    return cast(TextIO, Printable(stream))


def unguarded(stream: TextIO) -> TextIO:
    """Return the stream behind a guarded one."""
    return stream.stream if isinstance(stream, Printable) else stream
