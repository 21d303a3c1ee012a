"""Reads the engine's log, and writes what it says into a graph that was loaded without it.

The engine can do that itself when it opens a graph file beside its log. It then copies the whole
graph, looks at every node, and builds all indexes anew, however short the log is: with a million
episodes that takes ten times as long as to load them. Here the log is brought to the state in which
it leaves each node and each group of edges, and only these are written, by statements.

A log with anything that is not known here is left to the engine.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kglite

from graphmem.store.embedded_rows import rows
from graphmem.store.manifest import FIRST_FRAME, FRAME, HEAD
from graphmem.store.paging import pages

_GONE, _NODE, _EDGES = 1, 5, 6
"""The changes of a transaction: a node is removed, has a state, or two nodes have these edges."""
_INTEGER, _FLOAT, _TEXT, _TRUTH, _NULL, _LIST = 1, 2, 3, 4, 7, 13
_DOUBLE = struct.Struct("<d")
_PAGE = 2_000
"""Rows of a statement."""
_PART = 16 * 1024 * 1024
"""Bytes of a log whose changes are held at once."""

Props = dict[str, Any]
Key = tuple[str, str]
"""A node: its label and its id."""
Between = tuple[str, str, str, str, str]
"""A group of edges: their type, and label and id of the nodes where they begin and end."""
_Kind = tuple[str, str, str]
"""Edges: their type, and the labels of the nodes where they begin and end."""
_Edge = tuple[str, str, Props]
"""An edge: the ids of those nodes, and its properties."""


class UnknownLogError(Exception):
    """Only the engine can tell what a log means, or that it does not fit the graph."""


@dataclass(slots=True)
class _Node:
    props: Props | None = None
    """All of them; None if it is removed."""
    new: bool = False
    """Nothing of a node of this id that was there before is left, nor are its edges."""
    lives: int = 0
    """How many nodes of this id there were since."""


@dataclass(slots=True)
class Changes:
    """The state in which a log leaves what it is about."""

    nodes: dict[Key, _Node] = field(default_factory=dict)
    edges: dict[Between, tuple[list[Props], int, int]] = field(default_factory=dict)
    """The edges, and in which life of both nodes they were written."""

    def node(self, key: Key, props: Props | None, *, new: bool) -> None:
        """Take over what a transaction made of a node."""
        node = self.nodes.setdefault(key, _Node())
        node.props = props
        node.new = node.new or new
        node.lives += new

    def group(self, key: Between, edges: list[Props]) -> None:
        """Take over what a transaction made of the edges from a node to another."""
        _, source, start, target, end = key
        self.edges[key] = edges, self._lives((source, start)), self._lives((target, end))

    def kept(self) -> Iterator[tuple[Between, list[Props]]]:
        """Yield the groups whose nodes were not removed since."""
        for key, (edges, *lives) in self.edges.items():
            ends = key[1:3], key[3:5]
            gone = any((node := self.nodes.get(end)) and node.props is None for end in ends)
            if not gone and lives == [self._lives(end) for end in ends]:
                yield key, edges

    def _lives(self, key: Key) -> int:
        node = self.nodes.get(key)
        return node.lives if node else 0


def replay(log: Path, session: kglite.Session) -> None:
    """Write what a log, of whole frames, changes into a graph that was loaded without it.

    It makes no difference if the graph has a beginning of it already.

    Raises:
        UnknownLogError: it holds something that is not known here, or does not fit the graph; a
            part can be written then.
    """
    try:
        for changes in _parts(log):
            _Writing(session).write(changes)
    except kglite.KgError as error:
        raise UnknownLogError(str(error)) from error


def _parts(log: Path) -> Iterator[Changes]:
    """Yield what a log changes, in parts that bound the memory."""
    with log.open("rb") as file:
        if file.read(FIRST_FRAME) != HEAD:
            raise UnknownLogError("it is of another form")
        changes, taken = Changes(), 0
        while head := file.read(FRAME.size):
            length, _ = FRAME.unpack(head)
            try:
                _Frame(file.read(length)).read(changes)
            except (IndexError, UnicodeDecodeError, struct.error) as error:
                raise UnknownLogError(f"a frame cannot be read: {error}") from error
            taken += length
            if taken > _PART:
                yield changes
                changes, taken = Changes(), 0
        yield changes


class _Frame:
    """A transaction, as the engine writes it (Postcard): numbers are LEB128, lists tell length."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, changes: Changes) -> None:
        """Take over all of its changes."""
        self._number()  # of the transaction
        for _ in range(self._number()):
            kind = self._number()
            if kind == _EDGES:
                between = (self._text(), *self._key(), *self._key())
                changes.group(between, [self._props() for _ in range(self._number())])
            elif kind == _NODE:
                key, title, props = self._key(), self._value(), self._props()
                if title != props.get("name", f"{key[0]}_{key[1]}"):  # so the engine names them
                    raise UnknownLogError(f"a {key[0]} has another title")
                if self._number():
                    raise UnknownLogError(f"a {key[0]} has further labels")
                changes.node(key, props, new=bool(self._number()))
            elif kind == _GONE:
                changes.node(self._key(), None, new=True)
            else:
                raise UnknownLogError(f"it has a change of kind {kind}")
        if self._at != len(self._data):
            raise UnknownLogError("a frame has more than its changes")

    def _number(self) -> int:
        number = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def _text(self) -> str:
        length = self._number()
        start = self._at
        self._at = end = start + length
        if end > len(self._data):
            raise IndexError("a text is longer than the frame")
        return self._data[start:end].decode()

    def _key(self) -> Key:
        label, identity = self._text(), self._value()
        if not isinstance(identity, str):
            raise UnknownLogError(f"a {label} has an id that is no text")
        return label, identity

    def _value(self) -> Any:
        kind = self._number()
        if kind == _TEXT:
            return self._text()
        if kind == _INTEGER:
            number = self._number()
            return (number >> 1) ^ -(number & 1)
        if kind == _FLOAT:
            (value,) = _DOUBLE.unpack_from(self._data, self._at)
            self._at += _DOUBLE.size
            return value
        if kind == _TRUTH:
            return bool(self._number())
        if kind == _NULL:
            return None
        if kind == _LIST:
            return [self._value() for _ in range(self._number())]
        raise UnknownLogError(f"it has a value of kind {kind}")

    def _props(self) -> Props:
        return {self._text(): self._value() for _ in range(self._number())}


class _Writing:
    def __init__(self, session: kglite.Session) -> None:
        self._session = session

    def write(self, changes: Changes) -> None:
        removed: dict[str, list[str]] = defaultdict(list)
        new: dict[str, list[tuple[str, Props]]] = defaultdict(list)
        kept: dict[str, dict[str, Props]] = defaultdict(dict)
        for (label, identity), node in changes.nodes.items():
            if node.new:
                removed[label].append(identity)
                if node.props is not None:
                    new[label].append((identity, node.props))
            elif node.props is not None:
                kept[label][identity] = node.props
        for label, ids in removed.items():
            self._remove(label, ids)
        for label, wanted in kept.items():
            new[label] += self._change(label, wanted)
        for label, nodes in new.items():
            self._create(label, nodes)
        created = {(label, identity) for label, nodes in new.items() for identity, _ in nodes}
        self._connect(changes.kept(), created)

    def _remove(self, label: str, ids: list[str]) -> None:
        for page in pages(ids, _PAGE):
            match = f"MATCH (n:{_name(label)}) WHERE n.id IN $ids"
            there = [row["id"] for row in self._read(f"{match} RETURN n.id AS id", ids=page)]
            if there:
                self._write(f"{match} DETACH DELETE n", ids=there)

    def _change(self, label: str, wanted: dict[str, Props]) -> list[tuple[str, Props]]:
        """Set what is different; return the nodes that are not there."""
        different: list[tuple[Props, Props]] = []
        missing = dict(wanted)
        match = f"MATCH (n:{_name(label)}) WHERE n.id IN $ids"
        for ids in pages(list(wanted), _PAGE):
            found = self._read(f"{match} RETURN n.id AS id, properties(n) AS p", ids=ids)
            for row in found:
                before = {key: value for key, value in row["p"].items() if key not in _OWN}
                if before.get("type") == label:  # the engine says so of a node without one
                    del before["type"]
                after = dict.fromkeys(before) | missing.pop(row["id"])
                changed = {
                    key: value
                    for key, value in after.items()
                    if key not in before or repr(before[key]) != repr(value)
                }
                if changed:
                    different.append(({"_": row["id"]}, changed))
        for names, page in _alike(different):
            sets = ", ".join(f"n.{name} = row.{name}" for name in names)
            self._write(
                f"UNWIND $rows AS row MATCH (n:{_name(label)} {{id: row._}}) SET {sets}", rows=page
            )
        return list(missing.items())

    def _create(self, label: str, nodes: Iterable[tuple[str, Props]]) -> None:
        for names, page in _alike(({"_": identity}, props) for identity, props in nodes):
            values = "".join(f", {name}: row.{name}" for name in names)
            self._write(
                f"UNWIND $rows AS row CREATE (:{_name(label)} {{id: row._{values}}})", rows=page
            )

    def _connect(self, groups: Iterable[tuple[Between, list[Props]]], created: set[Key]) -> None:
        """Write groups of edges; none was there where one of the nodes is new."""
        new: dict[_Kind, list[_Edge]] = defaultdict(list)
        kept: dict[_Kind, dict[tuple[str, str], list[Props]]] = defaultdict(dict)
        for (kind, source, start, target, end), edges in groups:
            if (source, start) in created or (target, end) in created:
                new[kind, source, target] += [(start, end, props) for props in edges]
            else:
                kept[kind, source, target][start, end] = edges
        for among, wanted in kept.items():
            new[among] += self._replace(among, wanted)
        for (kind, source, target), missing in new.items():
            match = (
                f"UNWIND $rows AS row MATCH (a:{_name(source)} {{id: row._a}}), "
                f"(b:{_name(target)} {{id: row._b}})"
            )
            ends = (({"_a": start, "_b": end}, props) for start, end, props in missing)
            for names, page in _alike(ends):
                values = ", ".join(f"{name}: row.{name}" for name in names)
                create = f"CREATE (a)-[:{_name(kind)} {{{values}}}]->(b) RETURN count(*) AS made"
                if self._write(f"{match} {create}", rows=page)[0]["made"] != len(page):
                    raise UnknownLogError(f"a node is missing that has an edge {kind}")

    def _replace(self, among: _Kind, wanted: dict[tuple[str, str], list[Props]]) -> list[_Edge]:
        """Remove the groups that are different; return the edges to create."""
        kind, source, target = among
        missing: list[_Edge] = []
        match = (
            f"UNWIND $rows AS row MATCH (:{_name(source)} {{id: row._a}})-[r:{_name(kind)}]->"
            f"(:{_name(target)} {{id: row._b}})"
        )
        for page in pages(list(wanted), _PAGE):
            there: dict[tuple[str, str], list[Props]] = {ends: [] for ends in page}
            asked = [{"_a": start, "_b": end} for start, end in page]
            found = self._read(
                f"{match} RETURN row._a AS a, row._b AS b, properties(r) AS p", rows=asked
            )
            for row in found:
                there[row["a"], row["b"]].append(row["p"])
            different = [ends for ends in page if _told(there[ends]) != _told(wanted[ends])]
            old = [{"_a": ends[0], "_b": ends[1]} for ends in different if there[ends]]
            if old:
                self._write(f"{match} DELETE r", rows=old)
            missing += [(*ends, props) for ends in different for props in wanted[ends]]
        return missing

    def _read(self, text: str, **params: Any) -> list[dict[str, Any]]:
        return rows(self._session.cypher, text, params)

    def _write(self, text: str, **params: Any) -> list[dict[str, Any]]:
        return rows(self._session.execute, text, params)


_OWN = frozenset({"id", "title"})
"""What the engine tells of each node, and nobody sets."""


def _alike(items: Iterable[tuple[Props, Props]]) -> Iterator[tuple[list[str], list[Props]]]:
    """Yield rows of who has what properties, in pages of the same names, and these names."""
    alike: dict[tuple[str, ...], list[Props]] = defaultdict(list)
    for who, props in items:
        alike[tuple(sorted(props))].append(who | props)
    for names, found in alike.items():
        for page in pages(found, _PAGE):
            yield [_name(name) for name in names], page


def _told(edges: list[Props]) -> list[str]:
    """Return what tells groups of edges apart."""
    return sorted(repr(sorted(props.items())) for props in edges)


def _name(name: str) -> str:
    """Return a name as a part of a statement."""
    if not name.isidentifier():
        raise UnknownLogError(f"{name!r} is no name of graphmem's")
    return f"`{name}`"
