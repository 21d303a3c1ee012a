"""Writes a namespace as tables (CSV) for ``neo4j-admin database import full``.

There is a file for the nodes of each label, and for the edges of each type between two labels; each
has its header in a file of its own. ``import.args`` names them all; where there is an
``after.cypher``, it is to be run on the database then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from graphmem.errors import StorageError, shown
from graphmem.files import part_of
from graphmem.graph.graph import Graph
from graphmem.store import port, tables
from graphmem.store.port import TEXTS, Row

ARGUMENTS, AFTER = "import.args", "after.cypher"
_BETWEEN = "\x1f"  # stands between the items of a list; no text has it
_OPTIONS = (
    "--multiline-fields=true",
    "--array-delimiter=U+001F",
    "--read-buffer-size=32m",
    "--id-type=string",
)


def write_tables(graph: Graph, path: Path) -> tuple[int, int]:
    """Write all tables to a new folder; return the numbers of nodes and edges."""
    target, name = path.expanduser().absolute(), shown(str(path))
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise StorageError(f"{name} is not an empty folder; name a new one")
        if not target.parent.is_dir():
            raise StorageError(f"{name}: there is no folder {shown(str(target.parent))}")
        with part_of(target, Path.mkdir) as part:
            counts = graph.store.view(lambda tx: _write(tx, graph, part))
            if target.exists():
                target.rmdir()
            part.replace(target)
    except OSError as error:
        raise StorageError(f"{name}: {error.strerror or error}; nothing was written") from error
    return counts


class _Table:
    """A file of rows, whose header is known at its end."""

    def __init__(self, folder: Path, name: str, *fixed: str) -> None:
        self._path = folder / f"{name}.csv"
        self._file = self._path.open("w", encoding="utf-8", newline="\n")
        self._fixed = fixed
        self._types: dict[str, str] = {}
        self.rows = 0
        self.hollow: dict[str, list[str]] = {}
        """Properties that are empty lists, which tables cannot hold, and the ids of their rows."""

    def add(self, fixed: tuple[str, ...], held: Mapping[str, Any]) -> None:
        """Add a row."""
        values = {name: value for name, value in held.items() if value not in (None, [])}
        for name, value in values.items():
            kind = _kind(value)
            if {kind, self._types.setdefault(name, kind)} == {"long", "double"}:
                self._types[name] = "double"
        cells = [*map(_cell, fixed), *(_cell(values.get(name)) for name in self._types)]
        self._file.write(",".join(cells) + "\n")
        self.rows += 1
        for name in held.keys() - values.keys():
            if held[name] == []:
                self.hollow.setdefault(name, []).append(fixed[0])

    def end(self) -> str:
        """Write the header; return the names of both files."""
        self._file.close()
        header = self._path.with_name(f"{self._path.stem}-header.csv")
        columns = [*self._fixed, *(f"{name}:{kind}" for name, kind in self._types.items())]
        header.write_text(",".join(columns) + "\n", encoding="utf-8")
        return f"{header.name},{self._path.name}"


def _write(tx: port.Transaction, graph: Graph, folder: Path) -> tuple[int, int]:
    arguments, after = [*_OPTIONS], dict[str, None]()
    nodes = edges = 0
    for label in tables.labels():
        known = tables.ids(tx, label, graph.ns)
        if not known and label != "Pending":
            continue
        table = _Table(folder, label, f"id:ID({label})")
        for row in _waiting(tx, graph) if label == "Pending" else tables.nodes(tx, label, known):
            table.add((row.pop("id"),), row)
        arguments.append(f"--nodes={label}={table.end()}")
        nodes += table.rows
        for name, ids in table.hollow.items():
            after[tables.empty_nodes(label, name, ids)] = None
        for kind, between in _tables_of_edges(tx, folder, label, known):
            arguments.append(f"--relationships={kind}={between.end()}")
            edges += between.rows
            for name in between.hollow:
                after[tables.empty_edges(kind, name)] = None
    for file, lines in ((ARGUMENTS, arguments), (AFTER, [*after])):
        if lines:
            (folder / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    for path in folder.iterdir():
        with path.open("rb") as opened:
            os.fsync(opened.fileno())
    return nodes, edges


def _tables_of_edges(
    tx: port.Transaction, folder: Path, label: str, known: list[str]
) -> Iterable[tuple[str, _Table]]:
    """Return the tables of edges from nodes of a label, with the types of edges."""
    found: dict[tuple[str, str], _Table] = {}
    for row in tables.edges(tx, label, known):
        kind, other = row["type"], row["label"]
        if (kind, other) not in found:
            ends = f":START_ID({label})", f":END_ID({other})"
            found[kind, other] = _Table(folder, f"{label}-{kind}-{other}", *ends)
        found[kind, other].add((row["id"], row["other"]), row["held"])
    return [(kind, table) for (kind, _), table in found.items()]


def _waiting(tx: port.Transaction, graph: Graph) -> Iterator[Row]:
    """Yield what waits for its vector: vectors do not come along, so all texts do."""
    texts = {one: label for label in TEXTS for one in tables.ids(tx, label, graph.ns)}
    for row in tables.nodes(tx, "Pending", tables.ids(tx, "Pending", graph.ns)):
        if row["id"] not in texts:
            yield row
    for one, label in texts.items():
        yield {"id": one, "ns": graph.ns, "kind": label, "created_at": graph.now()}


def _kind(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"{_kind(value[0])}[]"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "long"
    return "double" if isinstance(value, float) else "string"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        value = _BETWEEN.join(map(_plain, value))
    return '"' + value.replace('"', '""') + '"' if isinstance(value, str) else _plain(value)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
