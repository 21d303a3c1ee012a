"""All errors that graphmem raises on purpose.

    GraphMemError
    ├── ValidationError        an argument or a record is wrong: field, value, remedy
    │   ├── ConflictError      the same source key was learned with other content
    │   └── ScopeError         outside an agent's scope, or scopes that inherit in a circle
    ├── NotFoundError          no such episode, procedure, format ...
    ├── SettingsError          a setting is wrong, or differs from what the memory was built with
    ├── ProcedureError         a .cypher file, its header or a call of it is wrong
    ├── SeedingError           a log cannot be read at all (bad records are reported, not raised)
    └── StoreError             the engine below
        ├── NotAMemoryError    the path holds something else
        ├── SchemaVersionError the memory was written by a newer graphmem
        ├── LockedError        another process writes; retryable
        ├── UnavailableError   the server is not there or went away; retryable
        ├── AuthenticationError
        ├── StorageError       disk full, permission, damaged file
        ├── ForkedError        used in a child process that inherited it
        └── QueryError         the Cypher is wrong, does more than read, or takes too much
            └── ReadOnlyError  a writing query where only reading is allowed

``retryable`` says whether the same call can succeed later without a change.
"""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from graphmem.printable import Url, printable, without_passwords


def shown(value: object, limit: int = 200) -> str:
    """Return a short printable form of ``value`` for a message, about ``limit`` characters.

    It shows no password of a url. A text is in quotes, bytes are as text, a time is in ISO 8601;
    what else JSON can hold is as there: ``true``, ``null``, ``{"seconds": 30}``.
    """
    size = 0
    if isinstance(value, date | Decimal | Path):
        value = _plain(value)
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str) and len(value) > limit and not isinstance(value, Url):
        size = len(value)  # its form would be longer, and is not needed
        value = without_passwords(value)[:limit]  # where it is cut, a password has no end
    try:
        if isinstance(value, str):
            text = ascii(value) if has_surrogate(value) else repr(value)
        else:
            text = _json(value)
        text = printable(without_passwords(text))
    except Exception:  # noqa: BLE001 - a number too long, a nesting too deep, a broken __repr__
        text = f"a {type(value).__name__} that cannot be shown"
    if len(text) <= limit and not size:
        return text
    return f"{text[: limit - 20]}... ({size or len(text):,} characters)"


def _json(value: object) -> str:
    """Return a value as JSON, or else as Python shows it."""
    if value is not None and not isinstance(value, int | float | dict | list | tuple):
        return repr(value)
    try:
        text = json.dumps(value, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError):  # a name that is no text, a circle
        return repr(value)
    return text.lower() if isinstance(value, float) else text


def _plain(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal | Path) else repr(value)


def has_surrogate(value: object) -> bool:
    """Return whether it is a text that UTF-8 cannot encode."""
    if not isinstance(value, str) or value.isascii():
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False


class GraphMemError(Exception):
    """Base of all errors of this library; as a text it is printable and has no password."""

    retryable = False
    remedy = ""
    """What helps, in a few words, or a command."""

    def __str__(self) -> str:
        return printable(without_passwords(super().__str__()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:  # else a process pool cannot return it
        return Exception.__new__, (type(self), *self.args), self.__dict__


class ValidationError(GraphMemError):
    """An argument or a record is wrong.

    ``field`` is its name (dotted if nested), ``value`` what was given, ``remedy`` what to do.
    """

    def __init__(self, field: str, value: object, problem: str, remedy: str = "") -> None:
        self.field = field
        self.value = value
        self.problem = problem
        self.remedy = remedy
        text = f"{field}: {problem}" + ("" if value is None else f" (got {shown(value)})")
        super().__init__(f"{text}; {remedy}" if remedy else text)


class ConflictError(ValidationError):
    """The same source key was learned before with other content; ``stored`` and ``given`` differ.

    ``differences`` maps each differing field to ``(stored, given)``.
    """

    def __init__(
        self,
        source_key: str,
        stored: dict[str, Any],
        given: dict[str, Any],
        *,
        field: str = "source_key",
        remedy: str = "use another key, or erase the stored episode first",
    ) -> None:
        self.source_key = source_key
        self.stored = stored
        self.given = given
        self.differences = {
            name: (stored.get(name), given.get(name))
            for name in sorted(stored.keys() | given.keys())
            if stored.get(name) != given.get(name)
        }
        both = "; ".join(
            f"{name} was {shown(old, 80)}, now {shown(new, 80)}"
            for name, (old, new) in list(self.differences.items())[:5]
        )
        super().__init__(
            field, source_key, f"this key was learned before with other content: {both}", remedy
        )


class ScopeError(ValidationError):
    """An agent may not learn this type of task, or scopes inherit from each other in a circle."""


class NotFoundError(GraphMemError):
    """The requested thing does not exist."""


class SettingsError(GraphMemError):
    """A setting is wrong, or differs from the one that the memory was built with."""


class ProcedureError(GraphMemError):
    """A .cypher file, its header, or a call of a procedure is wrong."""


class SeedingError(GraphMemError):
    """A log cannot be read at all."""


class StoreError(GraphMemError):
    """The engine failed."""


class NotAMemoryError(StoreError):
    """The path holds something that is not a graphmem memory."""


class SchemaVersionError(StoreError):
    """The memory was written by a newer graphmem than this one."""


class LockedError(StoreError):
    """Another process writes this memory, for longer than this one was told to wait."""

    retryable = True


class UnavailableError(StoreError):
    """The server cannot be reached."""

    retryable = True


class AuthenticationError(StoreError):
    """The server refused the user, the password, or what this user has no right to."""


class StorageError(StoreError):
    """The disk is full, a file is damaged, or permission is missing."""


class ForkedError(StoreError):
    """A forked child lacks what its parent had: the memory, or the threads of the engine."""


class QueryError(StoreError):
    """The engine refused the Cypher, it does more than read the graph, or it reached a limit."""


class ReadOnlyError(QueryError):
    """A writing query was given where only reading is allowed."""
