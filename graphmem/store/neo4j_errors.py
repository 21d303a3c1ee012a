"""Turns errors of the driver, and of a server, into ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from neo4j import exceptions

from graphmem.errors import (
    AuthenticationError,
    GraphMemError,
    QueryError,
    ReadOnlyError,
    SettingsError,
    StorageError,
    StoreError,
    UnavailableError,
)
from graphmem.printable import MASK
from graphmem.store.port import ChangedError

_CHANGED = {"DeadlockDetected", "EntityNotFound"}
"""Codes of errors that another writer causes, besides violated constraints."""
_REPLANNED = "frequent schema changes"
"""Part of the message of a server that gave up a plan: others create or drop indexes now."""
_OVER = ("TransactionTimedOut", "Terminated", "LockClientStopped")
"""The prefix of the error code when a server ends a transaction whose time is over."""
_PER_TRANSACTION = "db.memory.transaction.max"
"""The setting of a server that limits the memory of a transaction."""
_TOTAL = "memory.transaction.total.max"
"""The end of the settings that limit the memory of all transactions together."""


class AlreadyThereError(StoreError):
    """Another process created the same constraint or index first."""


class DeadlockError(ChangedError):
    """Two writers waited for each other, and this one gave way."""


@contextlib.contextmanager
def translated(url: str, secret: str = "") -> Iterator[None]:
    """Turn the driver's errors into ours; ``secret`` is a text that none of them may show."""
    try:
        yield
    except GraphMemError:
        raise
    except (exceptions.AuthError, exceptions.TokenExpired) as error:
        raise AuthenticationError(
            f"{url} refused the user or password; check GRAPHMEM_USER and GRAPHMEM_PASSWORD"
        ) from error
    except exceptions.Neo4jError as error:
        if error.code == "Neo.ClientError.Security.AuthenticationRateLimit":
            raise AuthenticationError(
                f"{url} lets nobody log in as this user for some seconds, after several "
                "wrong passwords; check GRAPHMEM_USER and GRAPHMEM_PASSWORD, then wait (five "
                "seconds, if dbms.security.auth_lock_time does not say otherwise)"
            ) from error
        raise _told(url, error) from error
    except exceptions.ResultFailedError as error:
        # The driver can raise this while it rolls back, for instance after a deadlock.
        cause = error.__cause__
        if isinstance(cause, exceptions.Neo4jError):
            raise _told(url, cause) from cause
        raise _gone(url, error) from (cause or error)
    except (ValueError, exceptions.ConfigurationError) as error:
        told = str(error).replace(secret, MASK) if secret else str(error)
        raise SettingsError(f"{url}: {told}") from (None if secret else error)
    except (exceptions.DriverError, OSError) as error:
        raise _gone(url, error) from error


def _told(url: str, error: exceptions.Neo4jError) -> GraphMemError:
    """Return our error for an error of the server."""
    said, code = error.message or str(error), (error.code or "").rpartition(".")[2]
    changed = isinstance(error, exceptions.ConstraintError) or _REPLANNED in said
    if changed or code in _CHANGED:
        return (DeadlockError if code == "DeadlockDetected" else ChangedError)(said)
    known = _short_of_memory(url, said) if code.endswith("OutOfMemoryError") else None
    if known := known or _refusal(url, code, said):
        return known
    late = code.startswith(_OVER)
    if late or isinstance(error, exceptions.TransientError):
        return UnavailableError(f"{url} could not finish this now; try again ({said})")
    if isinstance(error, exceptions.ClientError):
        there = code == "EquivalentSchemaRuleAlreadyExists"
        return (AlreadyThereError if there else QueryError)(said)
    if isinstance(error, exceptions.DatabaseError):
        return StorageError(f"{url} failed: {said}")
    return _gone(url, error)


def _gone(url: str, error: Exception) -> UnavailableError:
    for inner in getattr(error.__cause__, "exceptions", ()):  # of those who were asked the way
        if isinstance(inner, exceptions.Neo4jError):
            return UnavailableError(
                f"{url} answers, but not for this database; is it started, and does the "
                f"log of the server say why not? ({inner.message})"
            )
    return UnavailableError(
        f"{url} cannot be reached; is the server running? ({_first_line(error)})"
    )


def _short_of_memory(url: str, said: str) -> GraphMemError | None:
    if _PER_TRANSACTION in said:
        return StoreError(
            f"this needs more memory than the server gives to a transaction ({_PER_TRANSACTION}); "
            f"give it more, or do less at once ({said})"
        )
    if _TOTAL in said:
        return UnavailableError(
            f"this, and what else runs on {url}, needs more memory than the server gives to all "
            f"transactions; try again later, do less at once, or give it more ({said})"
        )
    return None


def _refusal(url: str, code: str, said: str) -> GraphMemError | None:
    """Return our error for a request that the server always refuses."""
    if code == "DatabaseNotFound":
        return SettingsError(f"{said}; check GRAPHMEM_DATABASE")
    if code == "WriteOnReadOnlyAccessDatabase":
        return StorageError(
            f"{url} lets nobody write to this database; a search writes, too, where texts are not "
            "embedded yet (`graphmem upkeep relink` does that earlier), and so does verify, which "
            f"locks what it compares ({said})"
        )
    if code == "AccessMode":
        return ReadOnlyError(f"only reading is allowed here: {said}")
    return None


@contextlib.contextmanager
def permitted(url: str) -> Iterator[None]:
    """Turn a refused administration command into an AuthenticationError with a remedy."""
    try:
        yield
    except exceptions.Forbidden as error:
        raise AuthenticationError(
            f"{url} does not let this user administer it; set GRAPHMEM_USER to one who may "
            f"({error.message})"
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
