"""Installs procedures for Cypher users into a Neo4j server, by APOC Extended.

A procedure with an ``install`` header becomes ``custom.graphmem.NAME``, which can be called in
Browser or by any driver, without Python. Traits of APOC Extended 5.26 that shape this module:

- Installed procedures are stored in the database ``system``. Each server looks there from time to
  time (``apoc.custom.procedures.refresh``, 60 s) and registers them for all its databases.
- Signatures cannot contain names of one letter, negative numbers or exponents.
- A dropped procedure stays in the server's list until the server restarts. Only a call, which
  fails, shows that it is gone.
- When inputs or outputs of a procedure change, the next refresh registers it and then treats it as
  dropped; only the refresh after a further change corrects that.

So each installation puts a mark into the description, and is done when the server shows that mark.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, NoReturn, cast

from pydantic import BaseModel, ConfigDict

from graphmem.errors import (
    AuthenticationError,
    ProcedureError,
    QueryError,
    StoreError,
    UnavailableError,
)
from graphmem.ids import digest
from graphmem.store import apoc
from graphmem.store.port import AdministeredStore, Row, Store, Transaction
from graphmem.store.queries import INSTALLED, Query, catalog

CALLED = "custom."
"""The prefix that APOC puts before every name."""
PREFIX = INSTALLED.removeprefix(CALLED)

TIMEOUT = 180.0
"""Seconds: a changed procedure takes two refreshes of APOC, 60 s apart by default."""

Progress = Callable[[int, int], None]
"""Receives the number of finished procedures and the number of all."""

_POLL = 0.5
_AGAIN = 3.0

_TYPES = {
    "string": "STRING",
    "integer": "INTEGER",
    "float": "FLOAT",
    "boolean": "BOOLEAN",
    "list": "LIST OF ANY",
    "map": "MAP",
}
_TYPED = re.compile(rf" :: (?:{'|'.join(_TYPES.values())})(?=[,)])")
_RESERVED = {"true", "false", "null"}
_MARK = re.compile(r"\[graphmem (\S+) ([0-9a-f]{12})(?: [0-9a-f]{8})?\]$")
_OURS = re.compile(r"graphmem\.[a-z][a-z0-9_]+")
_ABSENT = "no procedure with the name"
_ASIDE = r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|//[^\n]*|/\*.*?\*/"
_USED = re.compile(rf"(?P<aside>{_ASIDE})|\$(?P<name>\w+)", re.DOTALL)


class Installed(BaseModel):
    """The result of installing or dropping a procedure."""

    model_config = ConfigDict(frozen=True)

    name: str
    """The full name for calls."""
    signature: str
    done: Literal["installed", "updated", "unchanged", "dropped"]
    renamed: dict[str, str] = {}
    """Renamed inputs and outputs: graphmem's names to installed names."""

    @property
    def short(self) -> str:
        """The signature without types."""
        return _TYPED.sub("", self.signature)


@dataclass(frozen=True)
class _Entry:
    """A procedure in APOC's form."""

    name: str
    signature: str
    statement: str
    mode: str
    description: str
    inputs: int

    def put(self, server: AdministeredStore, database: str) -> None:
        server.administer(
            apoc.PUT,
            signature=self.signature,
            statement=self.statement,
            database=database,
            mode=self.mode,
            description=self.description,
        )

    def drop(self, server: AdministeredStore, database: str) -> None:
        server.administer(apoc.DROP, name=self.name, database=database)


def install(
    store: Store,
    *,
    procedures: Iterable[Query] | None = None,
    timeout: float = TIMEOUT,
    progress: Progress | None = None,
) -> list[Installed]:
    """Install procedures into the store's database, and wait until all of them can be called.

    Procedures that are installed already with the same text by the same version of graphmem are
    left unchanged. Procedures that graphmem installed but no longer has are dropped. A repeated
    call is safe.

    Args:
        store: a Neo4j server with APOC Extended; its user must be allowed to administer it.
        procedures: the procedures to install; by default all that have an ``install`` header.
        timeout: seconds to wait for APOC to register them; 0 does not wait.
        progress: called while waiting.

    Raises:
        ProcedureError: a procedure has a default or names that APOC cannot hold.
        StoreError: the store is not a server, lacks APOC Extended, or has a foreign procedure of
            such a name.
        AuthenticationError: the user may not administer the server.
        UnavailableError: some could not be called in time; they may be callable later.
    """
    entries = {entry.name: (query, entry) for query, entry in _entries(procedures)}
    server, database = _server(store)
    stored = _stored(server, database)
    _refuse_others(entries.keys(), stored)
    report: list[Installed] = []
    wanted: dict[str, _Entry] = {}
    gone = {name: entry for name, entry in _ours(stored).items() if name not in entries}
    for entry in gone.values():
        entry.drop(server, database)
        report.append(_report(entry, "dropped"))
    for name, (query, entry) in entries.items():
        before = stored.get(name)
        if before and _marked(before) == _marked(entry):
            wanted[name] = replace(entry, description=before.description)
            report.append(_report(entry, "unchanged", renames(query)))
        else:
            entry.put(server, database)
            wanted[name] = entry
            report.append(_report(entry, "updated" if before else "installed", renames(query)))
    _Wait(server, database, wanted, gone, progress).until(timeout)
    return sorted(report, key=lambda item: item.name)


def uninstall(
    store: Store, *, timeout: float = TIMEOUT, progress: Progress | None = None
) -> list[Installed]:
    """Drop the procedures that graphmem installed, and wait until none can be called.

    The server lists them until it restarts.

    Raises:
        StoreError: the store is not a server, or lacks APOC Extended.
        AuthenticationError: the user may not administer the server.
        UnavailableError: some could still be called after the timeout.
    """
    server, database = _server(store)
    gone = _ours(_stored(server, database))
    for entry in gone.values():
        entry.drop(server, database)
    _Wait(server, database, {}, gone, progress).until(timeout)
    return [_report(entry, "dropped") for entry in gone.values()]


def script(database: str = "neo4j", procedures: Iterable[Query] | None = None) -> str:
    """Return the Cypher that installs procedures into a database, to be run in ``system``.

    Raises:
        ProcedureError: a procedure has a default or names that APOC cannot hold.
    """
    entries = [entry for _, entry in _entries(procedures, marked=False)]
    calls = [
        f"CALL apoc.custom.installProcedure({_text(entry.signature)}, {_text(entry.statement)}, "
        f"{_text(database)}, {_text(entry.mode)}, {_text(entry.description)});"
        for entry in entries
    ]
    first = (
        f"// {len(calls)} procedures of graphmem {_version()} for the database {database}; "
        "needs APOC Extended.\n"
        '// Run this in the database system: in Browser after ":use system", or with\n'
        "// cypher-shell -d system -f FILE"
    )
    return "\n\n".join([first, *calls]) + "\n"


def signature(query: Query) -> str:
    """Return the signature for APOC: ``graphmem.name(inputs) :: (outputs)``.

    Optional inputs come last, because calls are positional.

    Raises:
        ProcedureError: APOC cannot express a default or a name.
    """
    names = renames(query)
    params = sorted(query.params.values(), key=lambda param: param.default is not ...)
    inputs = [
        names.get(param.name, param.name)
        + ("" if param.default is ... else f" = {_default(query, param.default, param.type)}")
        + f" :: {_TYPES[param.type]}"
        for param in params
    ]
    outputs = [f"{names.get(name, name)} :: {_TYPES[kind]}" for name, kind in query.returns.items()]
    results = f"({', '.join(outputs)})" if outputs else "VOID"
    return f"{PREFIX}{query.install}({', '.join(inputs)}) :: {results}"


def renames(query: Query) -> dict[str, str]:
    """Return the inputs and outputs whose names APOC cannot express, with their new names.

    Raises:
        ProcedureError: the procedure already has another input or output of the new name.
    """
    names = dict.fromkeys([*query.params, *query.returns])
    new = {name: f"{name}_value" for name in names if len(name) < 2 or name in _RESERVED}
    for name, other in new.items():
        if other in names:
            raise ProcedureError(
                f"{query.name}: {name} would be installed as {other}, which it has already; "
                "give one of them another name"
            )
    return new


def statement(query: Query) -> str:
    """Return the text of a procedure with its installed names."""
    names = renames(query)

    def rename(match: re.Match[str]) -> str:
        return match["aside"] or f"${names.get(match['name'], match['name'])}"

    text = _USED.sub(rename, query.text)
    if not names.keys() & query.returns.keys():
        return text
    columns = ", ".join(f"{name} AS {names.get(name, name)}" for name in query.returns)
    return f"CALL {{\n{text}\n}}\nRETURN {columns}"


def called(query: Query) -> str | None:
    """Return the full name of an installable procedure; None if it is not installable."""
    return f"{CALLED}{PREFIX}{query.install}" if query.install else None


def _entries(
    procedures: Iterable[Query] | None, *, marked: bool = True
) -> Iterable[tuple[Query, _Entry]]:
    """Return the entries of procedures; ``marked`` makes each description unique."""
    chosen = [query for query in catalog() if query.install] if procedures is None else procedures
    entries = []
    for query in chosen:
        if query.install is None:
            raise ProcedureError(f"{query.name} has no '// install:' header; it names what to call")
        head, text = signature(query), statement(query)
        fingerprint = digest(json.dumps([head, text, query.mode, query.doc]))[:12]
        own = f" {secrets.token_hex(4)}" if marked else ""
        description = f"{query.doc} [graphmem {_version()} {fingerprint}{own}]"
        name = PREFIX + query.install
        entry = _Entry(name, head, text, query.mode, description, len(query.params))
        entries.append((query, entry))
    return entries


def _version() -> str:
    return importlib.metadata.version("graphmem")


def _default(query: Query, value: Any, kind: str) -> str:
    """Return a default in APOC's grammar, which drops a minus silently."""
    if value is None or isinstance(value, bool) or value == {}:
        return json.dumps(value)
    if isinstance(value, int | float) and 0 <= value < float("inf"):
        number = f"{Decimal(repr(value)):f}"
        return number if kind == "integer" or "." in number else f"{number}.0"
    if isinstance(value, str) and re.fullmatch(r'[^"\\\r\n]+', value):
        return f'"{value}"'
    if isinstance(value, list):
        kinds = ["integer" if isinstance(item, int) else "float" for item in value]
        items = [_default(query, item, sort) for item, sort in zip(value, kinds, strict=True)]
        return f"[{', '.join(items)}]"
    raise ProcedureError(
        f"{query.name}: APOC cannot hold the default {value!r}; take null and coalesce() in the "
        "statement, or remove the '// install:' header"
    )


def _text(value: str) -> str:
    """Return a text as a Cypher literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _report(
    entry: _Entry,
    done: Literal["installed", "updated", "unchanged", "dropped"],
    renamed: Mapping[str, str] | None = None,
) -> Installed:
    return Installed(
        name=CALLED + entry.name,
        signature=CALLED + entry.signature,
        done=done,
        renamed=dict(renamed or {}),
    )


def _server(store: Store) -> tuple[AdministeredStore, str]:
    """Return the store as a server, and the name of its database."""
    if not store.capabilities.system:
        raise StoreError(
            f"procedures are installed into a Neo4j server, and {store.url} is embedded in this "
            "process; give --url neo4j://HOST:7687"
        )
    return cast(AdministeredStore, store), str(store.read(apoc.DATABASE)[0]["name"])


def _stored(server: AdministeredStore, database: str) -> dict[str, _Entry]:
    """Return the stored procedures under our prefix, also foreign ones."""
    try:
        rows = server.administer(apoc.STORED, database=database)
    except QueryError as error:
        _explain(server, error)
    except AuthenticationError as error:
        raise AuthenticationError(f"{error}; {_INSTEAD}") from error
    return {
        row["name"]: _entry(row)
        for row in rows
        if row["type"] == "procedure" and row["name"].startswith(PREFIX)
    }


_INSTEAD = "`graphmem procedures list NAME` prints the Cypher of a procedure, to paste instead"


def _explain(server: AdministeredStore, error: QueryError) -> NoReturn:
    if _ABSENT in str(error):
        raise StoreError(
            f"{server.url} has no APOC Extended; put the jar of apoc-extended for Neo4j "
            f"{server.capabilities.version} into its folder plugins/ and restart it. {_INSTEAD}"
        ) from error
    if "sandbox" in str(error):
        raise StoreError(
            f"{server.url} keeps APOC Extended in its sandbox; set "
            "dbms.security.procedures.unrestricted=apoc.custom.* in neo4j.conf and restart it. "
            f"{_INSTEAD}"
        ) from error
    raise error


def _entry(row: Row) -> _Entry:
    def fields(pairs: Sequence[Sequence[str]]) -> str:
        return ", ".join(f"{pair[0]} :: {_kind(pair[1])}" for pair in pairs)

    outputs = f"({fields(row['outputs'])})" if row["outputs"] else "VOID"
    return _Entry(
        name=row["name"],
        signature=f"{row['name']}({fields(row['inputs'])}) :: {outputs}",
        statement=row["statement"],
        mode=row["mode"],
        description=row["description"] or "",
        inputs=len(row["inputs"]),
    )


def _kind(shown: str) -> str:
    return "LIST OF ANY" if shown.startswith("list") else shown.upper()


def _marked(entry: _Entry) -> tuple[str, str] | None:
    """Return version and fingerprint of an entry; None if it is not graphmem's."""
    mark = _MARK.search(entry.description)
    return (mark[1], mark[2]) if mark else None


def _ours(stored: Mapping[str, _Entry]) -> dict[str, _Entry]:
    return {
        name: entry for name, entry in stored.items() if _OURS.fullmatch(name) and _marked(entry)
    }


def _refuse_others(names: Iterable[str], stored: Mapping[str, _Entry]) -> None:
    for name in names:
        if name in stored and not _marked(stored[name]):
            raise StoreError(
                f"{CALLED}{name} is there already, and graphmem did not install it; drop it in the "
                f"database system: CALL apoc.custom.dropProcedure('{name}', DATABASE)"
            )


class _UndoneError(Exception):
    """Rolls back a trial call."""


class _Wait:
    """Waits until a server has registered stored procedures and removed dropped ones."""

    def __init__(
        self,
        server: AdministeredStore,
        database: str,
        wanted: Mapping[str, _Entry],
        gone: Mapping[str, _Entry],
        progress: Progress | None,
    ) -> None:
        self._server = server
        self._database = database
        self._wanted = dict(wanted)
        self._gone = dict(gone)
        self._total = len(wanted) + len(gone)
        self._progress = progress

    def until(self, timeout: float) -> None:
        """Wait for at most ``timeout`` seconds.

        Raises:
            UnavailableError: it took longer.
        """
        if not timeout:
            return
        deadline = time.monotonic() + timeout
        again = time.monotonic() + _AGAIN
        while not self._over():
            now = time.monotonic()
            if now > deadline:
                raise UnavailableError(self._late(timeout))
            if now > again:
                self._store_again()
                again = now + _AGAIN
            self._tell()
            time.sleep(_POLL)
        self._tell()

    def _tell(self) -> None:
        if self._progress:
            self._progress(self._total - len(self._wanted) - len(self._gone), self._total)

    def _over(self) -> bool:
        if self._wanted:
            shown = {row["name"]: row["description"] for row in self._server.read(apoc.REGISTERED)}
            for name, entry in list(self._wanted.items()):
                if shown.get(CALLED + name) == entry.description:
                    del self._wanted[name]
        # One refresh of APOC removes all: testing one is enough.
        for name, entry in list(self._gone.items()):
            if self._answers(entry):
                break
            del self._gone[name]
        return not self._wanted and not self._gone

    def _answers(self, entry: _Entry) -> bool:
        """Return whether a procedure can be called; calls it with nulls, which match no namespace.

        The call is rolled back.
        """
        query = apoc.attempt(f"{CALLED}{entry.name}", entry.inputs)

        def attempt(tx: Transaction) -> None:
            tx.run(query)
            raise _UndoneError

        try:
            self._server.transact(attempt)
        except _UndoneError:
            return True
        except UnavailableError:
            raise
        except StoreError as error:
            return _ABSENT not in str(error)
        return True

    def _store_again(self) -> None:
        """Make APOC refresh again: a refresh may have come between two changes, or failed."""
        entry = next(iter([*self._wanted.values(), *self._gone.values()]))
        entry.put(self._server, self._database)
        if entry.name in self._gone:
            entry.drop(self._server, self._database)

    def _late(self, timeout: float) -> str:
        late = [*self._wanted, *self._gone]
        named = ", ".join(CALLED + name for name in late[:5]) + (", ..." if len(late) > 5 else "")
        what = "cannot be called yet" if self._wanted else "can still be called"
        return (
            f"{len(late)} of {self._total} procedures {what} after {timeout:g} s: {named}. APOC "
            "looks for changes every apoc.custom.procedures.refresh milliseconds (60000); "
            "run this again, with a longer --timeout"
        )
