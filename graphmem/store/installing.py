"""Installs procedures for Cypher users into a Neo4j server, by APOC Extended.

APOC stores procedures in the database ``system``, where each server looks from time to time. When
inputs or outputs of a procedure change, the next look registers it and then treats it as dropped;
only the look after a further change corrects that. So each installation puts a mark into the
description, and is done when the server shows that mark.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import secrets
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, cast

from pydantic import BaseModel, ConfigDict

from graphmem.errors import (
    AuthenticationError,
    ProcedureError,
    QueryError,
    StoreError,
    UnavailableError,
)
from graphmem.ids import digest
from graphmem.store.port import Store
from graphmem.store.queries import INSTALLED, Parameter, Query, adhoc, catalog

if TYPE_CHECKING:
    from graphmem.store.neo4j import Neo4jStore

CALLED = "custom."  # the prefix that APOC puts before every name
PREFIX = INSTALLED.removeprefix(CALLED)

TIMEOUT = 180.0  # seconds: a changed procedure takes two refreshes of APOC, 60 s apart by default

_POLL, _AGAIN = 0.5, 3.0  # seconds between two looks, and after which APOC is made to refresh again

_DATABASE = adhoc("CALL db.info() YIELD name RETURN name")
_STORED = adhoc(
    "CALL apoc.custom.show($database) YIELD type, name, description RETURN type, name, description"
)
_REGISTERED = adhoc(
    "SHOW PROCEDURES YIELD name, description WHERE name STARTS WITH 'custom.graphmem.' "
    "RETURN name, description"
)
_PUT = adhoc(
    "CALL apoc.custom.installProcedure($signature, $statement, $database, $mode, $doc)", "write"
)
_DROP = adhoc("CALL apoc.custom.dropProcedure($name, $database)", "write")

_TYPED = re.compile(r" :: [A-Z ]+(?=[,)])")
_MARK = re.compile(r"\[graphmem \S+ [0-9a-f]{12}(?: [0-9a-f]{8})?\]$")
_INSTEAD = "`graphmem procedures list NAME` prints the Cypher of a procedure, to paste instead"


class Installed(BaseModel):
    """The result of installing or dropping a procedure."""

    model_config = ConfigDict(frozen=True)

    name: str
    """The full name for calls."""
    signature: str
    """Name, inputs and outputs; of a dropped procedure the name alone."""
    done: Literal["installed", "updated", "unchanged", "dropped"]

    @property
    def short(self) -> str:
        """The signature without types."""
        return _TYPED.sub("", self.signature)


def install(
    store: Store, *, procedures: Iterable[Query] | None = None, timeout: float = TIMEOUT
) -> list[Installed]:
    """Install procedures into the store's database, and wait until all of them can be called.

    Procedures that are installed already with the same text by the same version of graphmem are
    left unchanged. Those that graphmem installed but no longer has are dropped. To repeat is safe.

    Args:
        store: a Neo4j server with APOC Extended; its user must be allowed to administer it.
        procedures: the procedures to install; by default all that have an ``install`` header.
        timeout: seconds to wait for APOC to register them; 0 does not wait.

    Raises:
        ProcedureError: a procedure has a default that APOC cannot hold.
        StoreError: the store is no server, lacks APOC Extended, or has a foreign one of that name.
        AuthenticationError: the user may not administer the server.
        UnavailableError: some could not be called in time; they may be callable later.
    """
    entries = {f"{PREFIX}{query.install}": _entry(query) for query in procedures or _all()}
    server, database, stored = _stored(store)
    for name in entries.keys() & stored.keys():
        if not _MARK.search(stored[name]):
            raise StoreError(
                f"{CALLED}{name} is there already, and graphmem did not install it; drop it in the "
                f"database system: CALL apoc.custom.dropProcedure('{name}', DATABASE)"
            )
    report = _drop(server, database, stored, but=entries.keys())
    for name, entry in entries.items():
        before = stored.get(name, "")
        done: Literal["installed", "updated", "unchanged"] = "updated" if before else "installed"
        if before.startswith(entry["doc"]):
            done, entry["doc"] = "unchanged", before
        else:
            entry["doc"] += f" {secrets.token_hex(4)}]"
            server.administer(_PUT, **entry, database=database)
        signed = CALLED + entry["signature"]
        report.append(Installed(name=CALLED + name, signature=signed, done=done))
    _wait(server, database, {CALLED + name: entry for name, entry in entries.items()}, timeout)
    return sorted(report, key=lambda item: item.name)


def uninstall(store: Store) -> list[Installed]:
    """Drop the procedures that graphmem installed.

    The server answers calls until APOC refreshes, within 60 seconds if it does not say otherwise,
    and lists them until it restarts.

    Raises:
        StoreError: the store is not a server, or lacks APOC Extended.
        AuthenticationError: the user may not administer the server.
    """
    return _drop(*_stored(store), but=())


def signature(query: Query) -> str:
    """Return the signature for APOC, with optional inputs last, because calls are positional."""
    inputs = [
        f"{param.name}{_default(query, param)} :: {_type(param.type)}"
        for param in sorted(query.params.values(), key=lambda param: param.default is not ...)
    ]
    outputs = ", ".join(f"{name} :: {_type(kind)}" for name, kind in query.returns.items())
    results = f"({outputs})" if outputs else "VOID"
    return f"{PREFIX}{query.install}({', '.join(inputs)}) :: {results}"


def called(query: Query) -> str | None:
    """Return the full name of an installable procedure; None if it is not installable."""
    return f"{INSTALLED}{query.install}" if query.install else None


def _all() -> list[Query]:
    return [query for query in catalog() if query.install]


def _entry(query: Query) -> dict[str, str]:
    """Return what APOC is given of a procedure; the mark in ``doc`` is to be closed."""
    entry = {"signature": signature(query), "statement": query.text, "mode": query.mode}
    fingerprint = digest(json.dumps([*entry.values(), query.doc]))[:12]
    return entry | {"doc": f"{query.doc} [graphmem {_version()} {fingerprint}"}


def _version() -> str:
    return importlib.metadata.version("graphmem")


def _type(kind: str) -> str:
    return "LIST OF ANY" if kind == "list" else kind.upper()


def _default(query: Query, param: Parameter) -> str:
    if param.default is ...:
        return ""
    text = json.dumps(param.default)
    if not re.fullmatch(r"null|true|false|\[\]|\{\}|\d+(\.\d+)?", text):
        raise ProcedureError(
            f"{query.name}: APOC cannot hold the default {text}; take null and coalesce() in the "
            "statement, or remove the '// install:' header"
        )
    return f" = {text}.0" if param.type == "float" and text.isdigit() else f" = {text}"


def _stored(store: Store) -> tuple[Neo4jStore, str, dict[str, str]]:
    if not store.capabilities.server:
        raise StoreError(
            f"procedures are installed into a Neo4j server, and {store.url} is embedded in this "
            "process; give --url neo4j://HOST:7687"
        )
    server = cast("Neo4jStore", store)
    database = str(server.read(_DATABASE)[0]["name"])
    try:
        rows = server.administer(_STORED, database=database)
    except AuthenticationError as error:
        raise AuthenticationError(f"{error}; {_INSTEAD}") from error
    except QueryError as error:
        if "no procedure with the name" in str(error):
            remedy = "put the jar of apoc-extended for Neo4j "
            remedy += f"{server.capabilities.version} into its folder plugins/"
        elif "sandbox" in str(error):
            remedy = "set dbms.security.procedures.unrestricted=apoc.custom.* in neo4j.conf"
        else:
            raise
        raise StoreError(
            f"{server.url} has no APOC Extended that may run; {remedy} and restart it. {_INSTEAD}"
        ) from error
    ours = [row for row in rows if row["type"] == "procedure" and row["name"].startswith(PREFIX)]
    return server, database, {row["name"]: row["description"] or "" for row in ours}


def _drop(
    server: Neo4jStore, database: str, stored: dict[str, str], but: Iterable[str]
) -> list[Installed]:
    gone = [name for name in stored if name not in but and _MARK.search(stored[name])]
    for name in gone:
        server.administer(_DROP, name=name, database=database)
    return [Installed(name=CALLED + one, signature=CALLED + one, done="dropped") for one in gone]


def _wait(
    server: Neo4jStore, database: str, wanted: dict[str, dict[str, str]], timeout: float
) -> None:
    total, now = len(wanted), time.monotonic()
    deadline, again = now + timeout, now + _AGAIN
    while timeout:
        listed = {row["name"]: row["description"] for row in server.read(_REGISTERED)}
        wanted = {n: entry for n, entry in wanted.items() if listed.get(n) != entry["doc"]}
        now = time.monotonic()
        if not wanted:
            return
        if now > deadline:
            raise UnavailableError(
                f"{len(wanted)} of {total} procedures cannot be called yet after {timeout:g} s: "
                f"{', '.join([*wanted][:5])}. APOC looks for changes every "
                "apoc.custom.procedures.refresh milliseconds (60000); run this again"
            )
        if now > again:
            # A refresh may have come between two changes, or failed: make APOC refresh again.
            server.administer(_PUT, **next(iter(wanted.values())), database=database)
            again = now + _AGAIN
        time.sleep(_POLL)
