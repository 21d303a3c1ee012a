"""A namespace as tables (CSV) for ``neo4j-admin database import full``.

There is a file for the nodes of each label, and for the edges of each type between two labels; each
has its header in a file of its own. ``import.args`` names them all; where there is an
``after.cypher``, it is to be run on the database then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from graphmem.errors import StorageError, shown
from graphmem.files import part_of
from graphmem.graph.graph import Graph
from graphmem.store import tables
from graphmem.store.port import TEXTS, Row, Transaction

ARGUMENTS, AFTER = "import.args", "after.cypher"
_BETWEEN = "\x1f"
"""Stands between the items of a list; no text has it."""
_OPTIONS = (
    "--multiline-fields=true",
    "--array-delimiter=U+001F",
    "--read-buffer-size=32m",
    "--id-type=string",
)


def write(graph: Graph, path: str | Path) -> tuple[int, int]:
    """Write the namespace into a new folder; return how many nodes and edges it has."""
    target = Path(path).expanduser().absolute()
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise StorageError(f"{shown(str(path))} is not an empty folder; name a new one")
        if not target.parent.is_dir():
            parent = shown(str(target.parent))
            raise StorageError(f"{shown(str(path))}: there is no folder {parent}")
        with part_of(target, Path.mkdir) as part:
            counts = graph.store.view(lambda tx: _Writer(tx, graph, part).write())
            if target.exists():
                target.rmdir()
            part.replace(target)
    except OSError as error:
        raise StorageError(
            f"{shown(str(path))}: {error.strerror or error}; nothing was written"
        ) from error
    return counts


class _Table:
    """A file of rows, whose header is known at its end."""

    def __init__(self, folder: Path, name: str, fixed: Iterable[str]) -> None:
        self._path = folder / f"{name}.csv"
        self._file: TextIO = self._path.open("w", encoding="utf-8", newline="\n")
        self._fixed = [*fixed]
        self._types: dict[str, str] = {}

    def add(self, fixed: Iterable[str], properties: Mapping[str, Any]) -> None:
        """Add a row."""
        values = {name: one for name, one in properties.items() if one not in (None, [])}
        for name, value in values.items():
            kind = _kind(value)
            if {kind, self._types.setdefault(name, kind)} == {"long", "double"}:
                self._types[name] = "double"
        cells = [*map(_text, fixed), *(_cell(values.get(name)) for name in self._types)]
        self._file.write(",".join(cells) + "\n")

    def end(self) -> str:
        """Write the header; return the names of both files."""
        self._file.close()
        header = self._path.with_name(f"{self._path.stem}-header.csv")
        columns = [*self._fixed, *(f"{name}:{kind}" for name, kind in self._types.items())]
        header.write_text(",".join(columns) + "\n", encoding="utf-8")
        return f"{header.name},{self._path.name}"


class _Writer:
    def __init__(self, tx: Transaction, graph: Graph, folder: Path) -> None:
        self._tx = tx
        self._ns = graph.ns
        self._now = graph.now()
        self._folder = folder
        self._arguments = [*_OPTIONS]
        self._counts = [0, 0]
        self._empty: dict[tuple[str, str], list[str]] = {}
        self._hollow: set[tuple[str, str]] = set()
        """Types of edges, and their properties that are empty lists."""

    def write(self) -> tuple[int, int]:
        """Write all files."""
        for label in tables.labels():
            known = tables.ids(self._tx, label, self._ns)
            if label == "Pending":
                self._nodes(label, self._waiting(known))
            elif known:
                self._nodes(label, tables.nodes(self._tx, label, known))
                self._edges(label, known)
        text = "\n".join(self._arguments) + "\n"
        (self._folder / ARGUMENTS).write_text(text, encoding="utf-8")
        if self._empty or self._hollow:  # tables cannot hold an empty list
            (self._folder / AFTER).write_text(
                "".join(
                    f"MATCH (n:{label}) WHERE n.id IN {json.dumps(known)} SET n.{name} = [];\n"
                    for (label, name), known in self._empty.items()
                )
                + "".join(
                    f"MATCH ()-[r:{kind}]->() WHERE r.{name} IS NULL SET r.{name} = [];\n"
                    for kind, name in sorted(self._hollow)
                ),
                encoding="utf-8",
            )
        for file in self._folder.iterdir():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        return self._counts[0], self._counts[1]

    def _nodes(self, label: str, rows: Iterable[Row]) -> None:
        table = _Table(self._folder, label, (f"id:ID({label})",))
        for row in rows:
            held = {name: value for name, value in row.items() if name != "id"}
            table.add((row["id"],), held)
            for name, value in held.items():
                if value == []:
                    self._empty.setdefault((label, name), []).append(row["id"])
            self._counts[0] += 1
        self._arguments.append(f"--nodes={label}={table.end()}")

    def _edges(self, label: str, known: list[str]) -> None:
        found: dict[tuple[str, str], _Table] = {}
        for row in tables.edges(self._tx, label, known):
            kind, other = row["type"], row["label"]
            table = found.get((kind, other))
            if table is None:
                ends = (f":START_ID({label})", f":END_ID({other})")
                name = f"{label}-{kind}-{other}"
                table = found[kind, other] = _Table(self._folder, name, ends)
            table.add((row["id"], row["other"]), row["held"])
            self._hollow |= {(kind, name) for name, value in row["held"].items() if value == []}
            self._counts[1] += 1
        for (kind, _), table in found.items():
            self._arguments.append(f"--relationships={kind}={table.end()}")

    def _waiting(self, known: list[str]) -> Iterator[Row]:
        """Yield what waits for its vector: vectors do not come along, so all texts do."""
        texts = {one: label for label in TEXTS for one in tables.ids(self._tx, label, self._ns)}
        for row in tables.nodes(self._tx, "Pending", known):
            if row["id"] not in texts:
                yield row
        for one, label in texts.items():
            yield {"id": one, "ns": self._ns, "kind": label, "created_at": self._now}


def _kind(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"{_kind(value[0]) if value else 'string'}[]"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "long"
    return "double" if isinstance(value, float) else "string"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return _text(_BETWEEN.join(map(_plain, value)))
    return _text(value) if isinstance(value, str) else _plain(value)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'
