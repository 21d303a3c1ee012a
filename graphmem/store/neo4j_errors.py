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
_REFUSALS: dict[str, tuple[type[GraphMemError], str]] = {
    "AuthenticationRateLimit": (
        AuthenticationError,
        "{url} lets nobody log in as this user for some seconds, after several wrong passwords; "
        "check GRAPHMEM_USER and GRAPHMEM_PASSWORD, then wait",
    ),
    "DatabaseNotFound": (SettingsError, "{said}; check GRAPHMEM_DATABASE"),
    "WriteOnReadOnlyAccessDatabase": (
        StorageError,
        "{url} lets nobody write to this database; a search writes, too, where texts are not "
        "embedded yet (`graphmem upkeep relink` does that earlier), and so does verify, which "
        "locks what it compares ({said})",
    ),
    "AccessMode": (ReadOnlyError, "only reading is allowed here: {said}"),
}
"""By code: the errors for requests that a server always refuses, for now or for good."""


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
        raise _of_server(url, error) from error
    except exceptions.ResultFailedError as error:
        # The driver can raise this while it rolls back, for instance after a deadlock.
        cause = error.__cause__
        if isinstance(cause, exceptions.Neo4jError):
            raise _of_server(url, cause) from cause
        raise _gone(url, error) from (cause or error)
    except (ValueError, exceptions.ConfigurationError) as error:
        told = str(error).replace(secret, MASK) if secret else str(error)
        raise SettingsError(f"{url}: {told}") from (None if secret else error)
    except (exceptions.DriverError, OSError) as error:
        raise _gone(url, error) from error


def _of_server(url: str, error: exceptions.Neo4jError) -> GraphMemError:
    said, code = error.message or str(error), (error.code or "").rpartition(".")[2]
    changed = isinstance(error, exceptions.ConstraintError) or _REPLANNED in said
    if changed or code in _CHANGED:
        return (DeadlockError if code == "DeadlockDetected" else ChangedError)(said)
    if code.endswith("OutOfMemoryError") and "db.memory.transaction.max" in said:
        return StoreError(
            "this needs more memory than the server gives to a transaction "
            f"(db.memory.transaction.max); give it more, or do less at once ({said})"
        )
    if code in _REFUSALS:
        kind, text = _REFUSALS[code]
        return kind(text.format(url=url, said=said))
    if code.startswith(_OVER) or isinstance(error, exceptions.TransientError):
        return UnavailableError(f"{url} could not finish this now; try again ({said})")
    if isinstance(error, exceptions.DatabaseError):
        return StorageError(f"{url} failed: {said}")
    there = code == "EquivalentSchemaRuleAlreadyExists"
    return (AlreadyThereError if there else QueryError)(said)


def _gone(url: str, error: Exception) -> UnavailableError:
    for inner in getattr(error.__cause__, "exceptions", ()):  # of those who were asked the way
        if isinstance(inner, exceptions.Neo4jError):
            return UnavailableError(
                f"{url} answers, but not for this database; is it started, and does the "
                f"log of the server say why not? ({inner.message})"
            )
    what = (str(error).splitlines() or [type(error).__name__])[0]
    return UnavailableError(f"{url} cannot be reached; is the server running? ({what})")


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
