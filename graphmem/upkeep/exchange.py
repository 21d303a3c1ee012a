"""Imports and exports files: Sentinel memories, graphmem's own JSON lines, tables for a server.

An imported Sentinel file is a ``Document`` in the graph: it has links to its episodes in order, the
other content of the file, and the original form of each episode that an export would write
differently. An import holds no more than a batch of episodes in memory.
"""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from operator import methodcaller
from pathlib import Path
from typing import Any, TextIO, TypeVar

from graphmem.episodes.learning import Learner, abandon
from graphmem.episodes.rows import FIRST, read_contents
from graphmem.errors import NotFoundError, SeedingError, StorageError, ValidationError, shown
from graphmem.files import part_of, writing
from graphmem.graph.arguments import check_choice, checked_path
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import canonical_json, consolidation_id, from_millis, node_id
from graphmem.kinds import EXPORT_FORMATS, FILE_FORMATS, ExportFormat, FileFormat
from graphmem.lessons.priors import add_sources, read_priors
from graphmem.levels import exchange as levels_exchange
from graphmem.levels.exchange import LEVELS_RECORDS, LevelRecord
from graphmem.models.episodes import AbandonedAttempt, Episode, SettlementRecord
from graphmem.models.fields import Name, checked
from graphmem.models.forecasts import PriorRecord
from graphmem.models.reports import ExportReport, ImportReport, Rejection
from graphmem.seeding import jsonl, sentinel
from graphmem.seeding.formats import Origin, Refused
from graphmem.seeding.reading import Limits
from graphmem.seeding.sources import Source, damage
from graphmem.store import port, tables
from graphmem.store.paging import pages
from graphmem.store.port import TEXTS, Row
from graphmem.upkeep.sentinel_file import Lists, SentinelFile
from graphmem.upkeep.settling import Settler

T = TypeVar("T")
BATCH = 500
FORM = "sentinel_log"  # what a Document says of the form of its file
ARGUMENTS, AFTER = "import.args", "after.cypher"
_BETWEEN = "\x1f"  # stands between the items of a list; no text has it
_OPTIONS = (
    "--multiline-fields=true",
    "--array-delimiter=U+001F",
    "--read-buffer-size=32m",
    "--id-type=string",
)
_PLURALS = {"level": "levels", "entry": "entries", "lens": "lenses", "prior": "priors"}


class Exchange:
    """Imports and exports files of one namespace."""

    def __init__(self, graph: Graph, learner: Learner, settler: Settler) -> None:
        self._graph = graph
        self._limits = Limits()
        self._learner = learner
        self._settler = settler

    def export(
        self, path: str | Path, format_name: ExportFormat, *, document: str | None = None
    ) -> ExportReport:
        """Write all episodes to a file, replacing it.

        JSON lines also hold abandoned attempts and levels. For a program that draws the graph,
        networkx writes what :meth:`Memory.to_networkx` returns.

        Args:
            path: the file; it is replaced at the end, so it is never half written. A device or a
                pipe is not replaced; everything is written to it at the end.
            format_name: "sentinel" or "jsonl" (JSON lines; ids stay the same); "neo4j": the path
                is a new folder, which gets the whole namespace as tables (CSV) for
                ``neo4j-admin database import full``.
            document: only the episodes of an imported Sentinel file, by its name; required if
                several were imported.

        Raises:
            NotFoundError: no such file was imported.
            ValidationError: the file is one of the memory's own, the other content of imported
                files differs, there is no such format, or its files have no name in the memory.
            StorageError: the file cannot be written; an existing file stays unchanged.
        """
        target = checked_path("path", path)
        own = Path(self._graph.store.url).resolve()
        if not self._graph.store.capabilities.server and target.resolve().is_relative_to(own):
            problem, remedy = "is within the memory's own folder", "name a file elsewhere"
            raise ValidationError("path", str(path), problem, remedy)
        check_choice("format_name", format_name, EXPORT_FORMATS)
        _check_document(format_name, document)
        if format_name == "neo4j":
            nodes, edges = write_tables(self._graph, target)
            return ExportReport(file=str(target), format=format_name, nodes=nodes, edges=edges)

        with writing(target) as binary:
            file = io.TextIOWrapper(binary, encoding="utf-8", newline="\n")

            def write(tx: Transaction) -> ExportReport:
                file.seek(0)  # it may be called again
                file.truncate()
                if format_name == "sentinel":
                    return _sentinel(tx, file, str(target), document)
                return _jsonl(tx, file, str(target))

            report = self._graph.view(write)
            file.detach()
        return report

    def import_(
        self, path: str | Path, format_name: FileFormat, *, document: str | None = None
    ) -> ImportReport:
        """Learn all episodes of a file.

        The whole file is checked before anything is learned. Of a Sentinel file the other content
        is stored, too: :meth:`export` then returns the same JSON value. Its episodes are identified
        by their position in the file, so importing a file again finishes an interrupted import, and
        learns episodes appended since.

        Args:
            path: the file, also gzipped; it is read twice, so it must not be a pipe.
            format_name: "sentinel" or "jsonl" (JSON lines, the format that ``seed`` knows as well).
            document: the name of a Sentinel file in the memory; default: its file name without
                folder and endings.

        Raises:
            SeedingError: the file cannot be read, is damaged, not within the limits of the
                settings, or of a newer version; or a line of JSON is wrong. Nothing was learned.
            ValidationError: an episode is wrong (``episodes.3.score``: the fourth), there is no
                such format, or its files have no name in the memory.
            ConflictError: another episode was learned from this position of this file.
        """
        check_choice("format_name", format_name, FILE_FORMATS)
        _check_document(format_name, document)
        if format_name == "sentinel":
            return self._import_sentinel(path, document)
        return self._import_jsonl(path)

    def _import_sentinel(self, path: str | Path, name: str | None) -> ImportReport:
        file = SentinelFile(_source(path), name, self._limits)
        rest = file.check()
        for batch in file.batches():
            self._learner.check([episode for _, episode in batch])
        identity = node_id(self._graph.ns, "Document", file.name)
        opening = {"id": identity, "name": file.name, "format": FORM}
        self._graph.transact(lambda tx: tx.run("exchange.open", **opening))
        at = created = 0
        for batch in file.batches():
            episodes = [episode for _, episode in batch]
            created += self._learner.learn_many(episodes, batch_size=len(batch)).created
            rows = [
                {"episode": row["id"], "position": place, "form": _difference(form, row)}
                for place, (form, episode) in enumerate(batch, at)
                for row in (self._learner.row(episode),)
            ]
            self._graph.transact(methodcaller("run", "exchange.hold", id=identity, rows=rows))
            at += len(batch)
        self._graph.transact(lambda tx: tx.run("exchange.describe", id=identity, rest=rest))
        return ImportReport(
            file=file.source.name,
            format="sentinel",
            created=created,
            skipped=at - created,
            kept=tuple(file.kept),
        )

    def _import_jsonl(self, path: str | Path) -> ImportReport:
        source = _source(path)

        def read(*kinds: type[T]) -> Iterator[T]:
            return (item for item in _lines(source, self._limits) if isinstance(item, kinds))

        levels: list[LevelRecord] = []
        for item in _lines(source, self._limits):
            if isinstance(item, Refused):
                raise SeedingError(
                    f"{source.name}, line {item.number}: {item.reason}; nothing was imported "
                    "(`graphmem seed` learns the other lines)"
                )
            if isinstance(item, LevelRecord):
                levels.append(item)
        levels_exchange.check(self._graph, levels)
        report = self._learner.learn_many(read(Episode), batch_size=BATCH, on_error="collect")
        abandoned, refusals = abandon(self._graph, read(AbandonedAttempt))
        refused = [
            Rejection(index=place, field=error.field, reason=str(error), source_key=attempt.key)
            for place, attempt, error in refusals
        ]
        settled = sum(map(self._settler.restore, read(SettlementRecord)))
        made, entries, lenses = levels_exchange.take(self._graph, read(*LEVELS_RECORDS.values()))
        told = list(read(PriorRecord))
        priors = self._graph.transact(lambda tx: add_sources(tx, told)) if told else 0
        return ImportReport(
            file=source.name,
            format="jsonl",
            created=report.created,
            skipped=report.skipped,
            refused=(*report.rejected, *refused),
            abandoned=abandoned,
            settled=settled,
            levels=made,
            entries=entries,
            lenses=lenses,
            priors=priors,
        )


def _jsonl(tx: Transaction, file: TextIO, path: str) -> ExportReport:
    counts: dict[str, Any] = Counter()

    def write(kind: str, line: Mapping[str, Any]) -> None:
        file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
        counts[kind] += 1

    for row, stored in _contents(tx, tx.run("exchange.episodes")):
        write("episodes", line_of(row, stored))
    for page in pages([row["id"] for row in tx.run("exchange.episodes")]):
        for row in tx.run("settling.told", ids=page):
            write("settled", _settlement(row))
    for row in tx.run("attempts.records"):
        write("abandoned", json.loads(row["record"]))
    priors = (prior.model_dump(exclude_none=True) for prior in read_priors(tx))
    for line in chain(levels_exchange.records(tx), priors):
        write(_PLURALS[line["held"]], line)
    return ExportReport(file=path, format="jsonl", **counts)


def _sentinel(tx: Transaction, file: TextIO, path: str, name: str | None) -> ExportReport:
    """Write episodes as a Sentinel file; those of an imported file come first, in their order."""
    document = _document(tx, name)
    rows = tx.run("exchange.episodes_of_documents", ids=[document["id"]] if document else [])
    known = {row["id"]: row for row in tx.run("exchange.episodes")}
    forms = {row["episode"]: row["form"] or "{}" for row in rows if row["episode"] in known}
    told = [{**known[key], "form": form} for key, form in forms.items()]
    others = [] if name is not None else [row for key, row in known.items() if key not in forms]
    rest = json.loads(document["rest"]) if document and document["rest"] is not None else None
    same = rest is not None and not others
    state = tx.run("consolidation.state", id=consolidation_id(tx.ns))[0]
    lists = Lists(rest or {}, state["before"])
    counted = set() if rest is None else {row["episode"] for row in rows}
    number = 0 if rest is None else max(rest.get(sentinel.TOTAL, 0), len(rows))
    file.write(f'{{\n  "{sentinel.LOG}": [')
    between = ""
    for row, stored in _contents(tx, [*told, *others]):
        form = _form(row, stored, same=same)
        if row["id"] not in counted:
            number += 1
            lists.add(stored, number)
        file.write(f"{between}\n{_indented(form, '    ')}")
        between = ","
    file.write("\n  ]" if between else "]")
    beside: Mapping[str, Any] = rest if rest is not None else {}
    derived: tuple[str, ...] = ()
    if not same:
        rules = tx.run("lessons.rules")
        lists.add_rules((row["task"], f"[{row['verdict']}] {row['text']}") for row in rules)
        beside, derived = lists.finish(number)
    for key, value in beside.items():
        file.write(f",\n  {json.dumps(key, ensure_ascii=False)}: {_indented(value, '  ').lstrip()}")
    file.write("\n}\n")
    return ExportReport(
        file=path,
        format="sentinel",
        episodes=len(told) + len(others),
        derived=derived,
        kept=tuple(name for name in beside if name not in derived),
    )


def _settlement(row: Row) -> Row:
    named = ("source_key",) if row["source_key"] else ("content_hash", "occurrence")
    told = {**{name: row[name] for name in named}, "at": from_millis(row["at"])}
    told |= {name: row["outcome"][name] for name in ("score", "error")}
    record = SettlementRecord(**told, revived=row["former"]["success"] is None)
    return {"held": record.held, **record.model_dump(mode="json", exclude_defaults=True)}


def _document(tx: Transaction, name: str | None) -> Row | None:
    """Return the imported file to export: the one of a name, else the only one, if there is any."""
    documents = [row for row in tx.run("exchange.documents") if row["format"] == FORM]
    names = ", ".join(row["name"] for row in documents) or "none"
    if name is not None:
        name = checked("name", name, Name)
        documents = [row for row in documents if row["name"] == name]
        if not documents:
            raise NotFoundError(f"no file {name!r} was imported; there are {names}")
    elif len(documents) > 1:
        problem = f"has to be named, as several files were imported: {names}"
        raise ValidationError("document", None, problem, "an export holds one of them")
    return documents[0] if documents else None


def line_of(row: Row, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line of an episode: a row of ``exchange.episodes``, and its content."""
    # Its place between other lines says nothing, so even the first is marked.
    first = FIRST if row["source_key"] is None else None
    return jsonl.record(content, {**row, "occurrence": row["occurrence"] or first})


def _contents(tx: Transaction, rows: Sequence[Row]) -> Iterator[tuple[Row, dict[str, Any]]]:
    for page in pages(rows):
        contents = read_contents(tx, [row["id"] for row in page])
        yield from ((row, contents[row["id"]]) for row in page if row["id"] in contents)


def _form(row: Row, content: Mapping[str, Any], *, same: bool) -> dict[str, Any]:
    """Return the form of an episode; ``form`` of its row says how an imported one differs."""
    if "form" not in row:
        return sentinel.write_whole(content, row)
    change = json.loads(row["form"])
    base = _base(change.get("as", "plain"), content, row)
    form = {**base, **change.get("set", {})}
    form = {name: value for name, value in form.items() if name not in change.get("drop", ())}
    return form if same else {sentinel.OWN: sentinel.mark(row), **form}


def _difference(form: Mapping[str, Any], row: Row) -> str | None:
    own = form.get(sentinel.OWN)
    kind = "plain" if own is None else "whole" if "episode" in own else "marked"
    base = _base(kind, row["_content"], row)
    change: dict[str, Any] = {} if kind == "plain" else {"as": kind}
    for name, value in form.items():
        if name not in base or canonical_json(base[name]) != canonical_json(value):
            change.setdefault("set", {})[name] = value
    if dropped := sorted(base.keys() - form.keys()):
        change["drop"] = dropped
    return canonical_json(change) if change else None


def _base(kind: str, content: Mapping[str, Any], row: Row) -> dict[str, Any]:
    if kind == "whole":
        return sentinel.write_whole(content, row)
    own = {} if kind == "plain" else {sentinel.OWN: sentinel.mark(row)}
    return {**sentinel.write(content), **own}


def _check_document(format_name: str, document: str | None) -> None:
    """Check that a document is named for Sentinel files alone."""
    if document is not None and format_name != "sentinel":
        raise ValidationError("document", document, "is for Sentinel files", "leave it out")


def _source(path: str | Path) -> Source:
    source, is_other = Source(str(checked_path("path", path))), False
    with suppress(OSError):  # a name that is too long: opening it says so
        named = Path(source.path)
        is_other = named.exists() and not (named.is_file() or named.is_dir())
    if source.path == "-" or is_other:
        problem = "must be a file, as it is read twice"
        raise ValidationError("file", source.path, problem, "write it to a file first")
    return source


def _lines(source: Source, limits: Limits) -> Iterator[jsonl.Held | Refused]:
    with source.open(limits) as (_, stream):
        number = 0
        for item in jsonl.read_all(stream, Origin(source.stem, limits)):
            number = item.number if isinstance(item, Refused) else item[0]
            yield item if isinstance(item, Refused) else item[1]
        if (error := damage(stream)) is not None:
            yield Refused(number + 1, "file", str(error))


def _indented(value: Any, margin: str) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return "\n".join(margin + line for line in text.split("\n"))


def write_tables(graph: Graph, path: Path) -> tuple[int, int]:
    """Write a namespace as tables (CSV) to a new folder; return the numbers of nodes and edges.

    There is a file for the nodes of each label, and for the edges of each type between two labels;
    each has its header in a file of its own. ``import.args`` names them all; where there is an
    ``after.cypher``, it is to be run on the database then.
    """
    target, name = path.expanduser().absolute(), shown(str(path))
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise StorageError(f"{name} is not an empty folder; name a new one")
        if not target.parent.is_dir():
            raise StorageError(f"{name}: there is no folder {shown(str(target.parent))}")
        with part_of(target, Path.mkdir) as part:
            counts = graph.store.view(lambda tx: _write_tables(tx, graph, part))
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


def _write_tables(tx: port.Transaction, graph: Graph, folder: Path) -> tuple[int, int]:
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
    return {bool: "boolean", int: "long", float: "double"}.get(type(value), "string")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        value = _BETWEEN.join(map(_plain, value))
    return '"' + value.replace('"', '""') + '"' if isinstance(value, str) else _plain(value)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
