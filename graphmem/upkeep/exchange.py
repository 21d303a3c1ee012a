"""Imports and exports files: Sentinel memories, and graphmem's own JSON lines.

An imported Sentinel file is a ``Document`` in the graph: it has links to its episodes in order, the
other content of the file, and the original form of each episode that an export would write
differently. So its export is the same JSON value. An import is one transaction, and holds no more
than a batch of episodes in memory; an export is written whole or not at all.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from graphmem.episodes.abandoned import abandon
from graphmem.episodes.learning import Learner
from graphmem.episodes.occurrences import FIRST
from graphmem.episodes.rows import read_contents
from graphmem.errors import NotFoundError, SeedingError, ValidationError
from graphmem.files import writing
from graphmem.graph.arguments import check_choice, checked_path
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import canonical_json, node_id
from graphmem.kinds import FILE_FORMATS, ExportFormat, FileFormat
from graphmem.lessons.general_rules import consolidation_id
from graphmem.levels import exchange as held
from graphmem.models import AbandonedAttempt, Episode, Rejection
from graphmem.models.episodes import content, resolve
from graphmem.models.flow import LevelRecord, LevelsRecord
from graphmem.models.reports import ExportReport, ImportReport
from graphmem.network.formats import graphml, mermaid
from graphmem.network.selection import Selection
from graphmem.seeding import jsonl, sentinel
from graphmem.seeding.formats import Origin, Refused
from graphmem.seeding.reading import Limits
from graphmem.seeding.sources import Source, damage
from graphmem.store.paging import pages
from graphmem.store.port import Row
from graphmem.upkeep import tables
from graphmem.upkeep.sentinel_file import Document, SentinelFile
from graphmem.upkeep.sentinel_lists import OwnLists

BATCH = 500
_OWN_FORM, _FORMER_FORM = "sentinel_log", sentinel.SOURCE
"""What a Document says of the form of its file: Sentinel's own, or graphmem's former one."""
EVERY = 2**31 - 1
"""A limit that is never reached."""

_Origin = tuple[str | None, str | None, str | None]
"""The source key of an episode (or else its occurrence), the occurrence, and the source."""
_Told = tuple[str, _Origin, str | None]
"""An episode to write: its id, origin, and original form (JSON)."""


class Exchange:
    """Imports and exports files of one namespace."""

    def __init__(self, graph: Graph, learner: Learner) -> None:
        self._graph = graph
        self._limits = Limits()
        self._learner = learner

    def import_(
        self, path: str | Path, format_name: FileFormat, document: str | None
    ) -> ImportReport:
        """Learn the episodes of a file."""
        if _is_sentinel(format_name, document):
            return self._import_sentinel(path, document)
        return self._import_jsonl(path)

    def export(
        self, path: str | Path, format_name: FileFormat, document: str | None
    ) -> ExportReport:
        """Write the episodes of the namespace to a file."""
        if _is_sentinel(format_name, document):
            return self._export_sentinel(path, document)
        return self._export_jsonl(path)

    def tabulate(self, path: str | Path) -> ExportReport:
        """Write the namespace as tables to a new folder."""
        nodes, edges = tables.write(self._graph, path)
        return ExportReport(file=str(path), format="neo4j", nodes=nodes, edges=edges)

    def draw(
        self, path: str | Path, format_name: ExportFormat, selection: Selection
    ) -> ExportReport:
        """Write a network of nodes and edges to a file."""
        write = graphml if format_name == "graphml" else mermaid
        with _writing(path) as open_file:
            nodes, edges = self._graph.view(lambda tx: write(selection.read(tx), open_file()))
        return ExportReport(file=str(path), format=format_name, nodes=nodes, edges=edges)

    def _import_sentinel(self, path: str | Path, name: str | None) -> ImportReport:
        """Learn the episodes of a Sentinel file, and store its other content.

        The file is read twice: to check all of it, and to learn from it. Until all is learned, the
        node of the file has no other content.
        """
        file = SentinelFile(_source(path), name, self._limits)
        rest = file.check()
        identity = node_id(self._graph.ns, "Document", file.name)
        forms: list[Any] = []
        at = 0

        def batches() -> Iterator[list[Episode]]:
            nonlocal at
            at = 0
            for batch in file.batches():
                forms[:] = [form for form, _ in batch]
                yield [episode for _, episode in batch]
                at += len(batch)

        def begin(tx: Transaction) -> None:
            form = _OWN_FORM if file.logs else _FORMER_FORM
            tx.run("exchange.open", id=identity, name=file.name, format=form)
            tx.run("exchange.describe", id=identity, format=form, rest=None)
            tx.run("exchange.release", id=identity)

        def end(tx: Transaction) -> None:
            form = _OWN_FORM if file.logs else _FORMER_FORM
            tx.run("exchange.describe", id=identity, format=form, rest=rest)

        def hold(tx: Transaction, rows: list[Row]) -> None:
            holding = [
                {
                    "episode": row["id"],
                    "position": place,
                    "form": _difference(form, row, entry=file.logs),
                }
                for place, (form, row) in enumerate(zip(forms, rows, strict=True), at)
            ]
            tx.run("exchange.hold", id=identity, rows=holding)

        seen, created = self._learner.learn_all(batches, begin, hold, end)
        return ImportReport(
            file=file.source.name,
            format="sentinel",
            created=created,
            skipped=seen - created,
            kept=tuple(file.kept),
        )

    def _export_sentinel(self, path: str | Path, document: str | None) -> ExportReport:
        """Write the episodes of the namespace, or of one imported file, as a Sentinel file."""
        with _writing(path) as open_file:
            return self._graph.view(lambda tx: self._sentinel(tx, open_file, str(path), document))

    def _import_jsonl(self, path: str | Path) -> ImportReport:
        """Learn the episodes of JSON lines, after checking all lines."""
        source = _source(path)
        levels: list[LevelRecord] = []
        for item in _lines(source, self._limits):
            if isinstance(item, Refused):
                raise SeedingError(
                    f"{source.name}, line {item.number}: {item.reason}; nothing was imported "
                    "(`graphmem seed` learns the other lines)"
                )
            if isinstance(item, LevelRecord):
                levels.append(item)
        held.check(self._graph, levels)
        episodes = (item for item in _lines(source, self._limits) if isinstance(item, Episode))
        report = self._learner.learn_many(episodes, batch_size=BATCH, on_error="collect")
        abandoned, refused = self._abandon(
            item for item in _lines(source, self._limits) if isinstance(item, AbandonedAttempt)
        )
        made, entries, lenses = held.take(
            self._graph,
            (item for item in _lines(source, self._limits) if isinstance(item, LevelsRecord)),
        )
        return ImportReport(
            file=source.name,
            format="jsonl",
            created=report.created,
            skipped=report.skipped,
            refused=(*report.rejected, *refused),
            abandoned=abandoned,
            levels=made,
            entries=entries,
            lenses=lenses,
        )

    def _abandon(self, attempts: Iterable[AbandonedAttempt]) -> tuple[int, list[Rejection]]:
        """Store attempts without an outcome; return how many are new, and those refused."""
        created = seen = 0
        refused: list[Rejection] = []
        waiting = iter(attempts)
        while batch := list(islice(waiting, BATCH)):
            new, refusals = abandon(self._graph, batch)
            created += new
            refused += [
                Rejection(
                    index=seen + batch.index(attempt),
                    field=error.field,
                    reason=str(error),
                    source_key=attempt.key,
                )
                for attempt, error in refusals
            ]
            seen += len(batch)
        return created, refused

    def _export_jsonl(self, path: str | Path) -> ExportReport:
        """Write the episodes of the namespace as JSON lines, the earliest first, and its levels."""

        def work(tx: Transaction, open_file: Callable[[], TextIO]) -> ExportReport:
            file = open_file()
            count = 0
            listed = tx.run("exchange.episodes")
            told = ((row["id"], _origin(row), None) for row in listed)
            for (_, (key, occurrence, source), _), stored in self._contents(tx, told):
                # Its place between other lines says nothing, so even the first is marked.
                which = FIRST if key is None and occurrence is None else occurrence
                line = jsonl.record(stored, key, which, source)
                file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
                count += 1
            abandoned = tx.run("attempts.records")
            file.writelines(f"{row['record']}\n" for row in abandoned)
            kinds = Counter[str]()
            for line in held.records(tx):
                file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
                kinds[line["held"]] += 1
            return ExportReport(
                file=str(path),
                format="jsonl",
                episodes=count,
                abandoned=len(abandoned),
                levels=kinds["level"],
                entries=kinds["entry"],
                lenses=kinds["lens"],
            )

        with _writing(path) as open_file:
            return self._graph.view(lambda tx: work(tx, open_file))

    def _sentinel(
        self, tx: Transaction, open_file: Callable[[], TextIO], path: str, name: str | None
    ) -> ExportReport:
        documents = self._documents(tx, name)
        forms = {row["format"] for row in documents}
        if len(forms) > 1:
            names = ", ".join(row["name"] for row in documents)
            raise ValidationError(
                "document",
                None,
                f"the imported files {names} are of two forms",
                "name the one to export",
            )
        write = self._former if _FORMER_FORM in forms else self._own
        return write(tx, open_file(), path, documents, alone=name is not None)

    def _own(
        self, tx: Transaction, file: TextIO, path: str, documents: list[Row], *, alone: bool
    ) -> ExportReport:
        """Write episodes in Sentinel's own form."""
        told, others = self._told(tx, documents, alone=alone)
        there = [row for row in documents if row["rest"] is not None]
        rests = [json.loads(row["rest"]) for row in there]
        same = len(documents) == len(rests) == 1 and not others
        state = tx.run("consolidation.state", id=consolidation_id(tx.ns))[0]
        lists = OwnLists(rests, [row["name"] for row in there], state["before"])
        held = {row["episode"] for row in tx.run(
            "exchange.episodes_of_documents", ids=[row["id"] for row in there]
        )}  # fmt: skip
        number = sum(
            max(rest.get(sentinel.TOTAL, 0), row["episodes"])
            for rest, row in zip(rests, there, strict=True)
        )
        file.write(f'{{\n  "{sentinel.LOG}": [')
        for place, (item, stored) in enumerate(self._contents(tx, told)):
            form = self._form(item, stored, same=same, entry=True)
            if item[0] not in held:
                number += 1
                lists.add(stored, number)
            file.write(f"{',' if place else ''}\n{_indented(form, '    ')}")
        file.write("\n  ]" if told else "]")
        if same:
            beside: Mapping[str, Any] = rests[0]
            derived: tuple[str, ...] = ()
        else:
            rules = tx.run("lessons.rules")
            lists.add_rules((row["task"], f"[{row['verdict']}] {row['text']}") for row in rules)
            beside, derived = lists.finish(number)
        _write_members(file, beside)
        return ExportReport(
            file=path,
            format="sentinel",
            episodes=len(told),
            derived=derived,
            kept=tuple(name for name in beside if name not in derived),
        )

    def _former(
        self, tx: Transaction, file: TextIO, path: str, documents: list[Row], *, alone: bool
    ) -> ExportReport:
        """Write imported episodes in graphmem's former form."""
        told, others = self._told(tx, documents, alone=alone)
        rests = [json.loads(row["rest"]) for row in documents if row["rest"] is not None]
        same = len(documents) == len(rests) == 1 and not others
        places: dict[str, int] = {}
        scores: dict[str, list[float]] = {}
        file.write('{\n  "episodes": [')
        for place, (item, stored) in enumerate(self._contents(tx, told), 1):
            form = self._form(item, stored, same=same, entry=False)
            places[item[0]] = place
            scores.setdefault(str(stored.get("task_key", stored["task"])), []).append(
                stored["score"]
            )
            file.write(f"{',' if place > 1 else ''}\n{_indented(form, '    ')}")
        file.write("\n  ]" if places else "]")
        if same:
            kept, derived = rests[0], {}
        else:
            kept = _merged(rests, [row["name"] for row in documents])
            derived = _shaped(kept, self._lessons(tx, places, scores))
            kept = {key: value for key, value in kept.items() if key not in derived}
        _write_members(file, {**kept, **derived})
        return ExportReport(
            file=path,
            format="sentinel",
            episodes=len(told),
            derived=tuple(derived),
            kept=tuple(kept),
        )

    def _documents(self, tx: Transaction, name: str | None) -> list[Row]:
        documents = tx.run("exchange.documents")
        if name is None:
            return documents
        named = [row for row in documents if row["name"] == Document(name=name).name]
        if not named:
            names = ", ".join(row["name"] for row in documents) or "none"
            raise NotFoundError(f"no file {name!r} was imported; there are {names}")
        return named

    def _told(
        self, tx: Transaction, documents: list[Row], *, alone: bool
    ) -> tuple[list[_Told], bool]:
        """Return the episodes to write, in order, and whether any of them is in no imported file.

        The episodes of files come first; an episode in several files is written once, at its first
        place.
        """
        listed = tx.run("exchange.episodes")
        known = {row["id"]: _origin(row) for row in listed}
        rows = tx.run("exchange.episodes_of_documents", ids=[row["id"] for row in documents])
        by_document: dict[str, list[Row]] = {}
        for row in rows:
            by_document.setdefault(row["id"], []).append(row)
        told: list[_Told] = []
        seen: set[str] = set()
        for document in documents:
            own = [row for row in by_document.get(document["id"], ()) if row["episode"] not in seen]
            told += [
                (row["episode"], known[row["episode"]], row["form"] or "{}")
                for row in own
                if row["episode"] in known
            ]
            seen |= {row["episode"] for row in own}
        others = [] if alone else [row for row in listed if row["id"] not in seen]
        told += [(row["id"], _origin(row), None) for row in others]
        return told, bool(others)

    def _contents(
        self, tx: Transaction, told: Iterable[_Told]
    ) -> Iterator[tuple[_Told, dict[str, Any]]]:
        """Yield the episodes to write, with their content from the graph."""
        for page in pages(list(told)):
            contents = read_contents(
                tx,
                list(dict.fromkeys(item[0] for item in page)),
            )
            yield from ((item, contents[item[0]]) for item in page if item[0] in contents)

    def _form(
        self, item: _Told, content: Mapping[str, Any], *, same: bool, entry: bool
    ) -> dict[str, Any]:
        """Return the form of an episode: its original form, else a complete one.

        Unless the export must equal the imported file (``same``), each form has the episode's key,
        so that its source does not learn it twice.
        """
        _, origin, difference = item
        if difference is not None:
            form = _patched(json.loads(difference), content, origin, entry=entry)
            return form if same else {sentinel.OWN: sentinel.mark(*origin), **form}
        if not entry and not content["strategy"] and "steps" not in content:
            form = sentinel.write_marked(content, *origin)
            if self._restores(form, content, origin):
                return form
        return sentinel.write_whole(content, *origin, entry=entry)

    def _restores(
        self, form: Mapping[str, Any], stored: Mapping[str, Any], origin: _Origin
    ) -> bool:
        """Return whether importing a form gives the same episode."""
        try:
            restored = sentinel.episode(form)
            same = content(restored, resolve(restored, self._graph.settings.success_threshold))
        except ValidationError:
            return False
        return restored.source_key == origin[0] and canonical_json(same) == canonical_json(stored)

    def _lessons(
        self, tx: Transaction, places: Mapping[str, int], scores: Mapping[str, list[float]]
    ) -> dict[str, Any]:
        """Return the lessons of the memory, under the names of a Sentinel file."""
        rules: dict[str, list[str]] = {}
        general: list[str] = []
        for row in tx.run("lessons.rules"):
            line = f"[{row['verdict']}] {row['text']}"
            (general if row["task"] is None else rules.setdefault(row["task"], [])).append(line)
        cards = [
            {
                "mistake_type": row["type"],
                "task_id": row["task"],
                "worker_id": row["worker"],
                "correct_decision": row["correct_decision"],
                "evidence": row["evidence"],
                "lesson": row["lesson"],
                "seen_count": row["seen"],
                "first_episode": places.get(row["first_episode"]),
                "last_episode": places.get(row["last_episode"]),
            }
            for row in tx.run("lessons.mistakes", limit=EVERY)
        ]
        return {
            "task_rules": rules,
            "general_rules": general,
            "mistake_cards": cards,
            "score_history": dict(scores),
        }


def _is_sentinel(format_name: FileFormat, document: str | None) -> bool:
    check_choice("format_name", format_name, FILE_FORMATS)
    if format_name == "sentinel":
        return True
    if document is not None:
        raise ValidationError("document", document, "is for Sentinel files", "leave it out")
    return False


def _source(path: str | Path) -> Source:
    source = Source(str(checked_path("path", path)))
    if source.path == "-":
        raise ValidationError("file", "-", "must be a file", "`graphmem seed -` reads from a pipe")
    if not source.is_regular:
        raise ValidationError(
            "file", source.path, "must be a file, as it is read twice", "write it to a file first"
        )
    return source


def _lines(
    source: Source, limits: Limits
) -> Iterator[Episode | AbandonedAttempt | LevelsRecord | Refused]:
    with source.open(limits) as (_, stream):
        number = 0
        for item in jsonl.read_all(stream, Origin(source.name, source.stem, limits=limits)):
            number = item.number if isinstance(item, Refused) else item[0]
            yield item if isinstance(item, Refused) else item[1]
        if (error := damage(stream)) is not None:
            yield Refused(number + 1, "file", str(error))


def _origin(row: Row) -> _Origin:
    return row["source_key"], row["occurrence"], row["source"]


def _base(kind: str, content: Mapping[str, Any], origin: _Origin, *, entry: bool) -> dict[str, Any]:
    if kind == "whole":
        return sentinel.write_whole(content, *origin, entry=entry)
    if kind == "marked":
        return sentinel.write_marked(content, *origin, entry=entry)
    return sentinel.write(content, entry=entry)


def _difference(form: Mapping[str, Any], row: Row, *, entry: bool) -> str | None:
    """Return the changes from an episode's present form to its original form."""
    own = form.get(sentinel.OWN)
    kind = "plain" if own is None else "whole" if "episode" in own else "marked"
    base = _base(kind, row["_content"], _origin(row), entry=entry)
    change: dict[str, Any] = {} if kind == "plain" else {"as": kind}
    changed = {
        name: value
        for name, value in form.items()
        if name not in base or canonical_json(base[name]) != canonical_json(value)
    }
    if changed:
        change["set"] = changed
    if dropped := sorted(base.keys() - form.keys()):
        change["drop"] = dropped
    return canonical_json(change) if change else None


def _patched(
    change: Mapping[str, Any], content: Mapping[str, Any], origin: _Origin, *, entry: bool
) -> dict[str, Any]:
    base = _base(change.get("as", "plain"), content, origin, entry=entry)
    form = {**base, **change.get("set", {})}
    return {name: value for name, value in form.items() if name not in change.get("drop", ())}


def _merged(rests: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Return the merged other content of files.

    Raises:
        ValidationError: they differ in something that cannot be derived.
    """
    merged: dict[str, Any] = {}
    for rest in rests:
        for key, value in rest.items():
            known = merged.setdefault(key, value)
            if key not in _DERIVED and canonical_json(known) != canonical_json(value):
                raise ValidationError(
                    "document",
                    None,
                    f"the imported files {', '.join(names)} differ in {key!r}",
                    "name the one to export",
                )
    return merged


_DERIVED = ("task_rules", "general_rules", "mistake_cards", "score_history")


def _shaped(kept: Mapping[str, Any], lessons: Mapping[str, Any]) -> dict[str, Any]:
    """Return derived lists in the shape of the imported file, else in ours."""
    shaped: dict[str, Any] = {}
    for name, value in lessons.items():
        old = kept.get(name)
        if old is None or isinstance(old, type(value)):
            shaped[name] = value
        elif _flat(old) and isinstance(value, dict):
            shaped[name] = [item for items in value.values() for item in items]
    return shaped


def _flat(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(item, list | dict) for item in value)


def _write_members(file: TextIO, members: Mapping[str, Any]) -> None:
    """Write what an object holds besides the list that it begins with, and close it."""
    for key, value in members.items():
        file.write(f",\n  {json.dumps(key, ensure_ascii=False)}: {_indented(value, '  ').lstrip()}")
    file.write("\n}\n")


def _indented(value: Any, margin: str) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return "\n".join(margin + line for line in text.split("\n"))


@contextmanager
def _writing(path: str | Path) -> Iterator[Callable[[], TextIO]]:
    """Yield a function that opens the file to write, empty; it may be called again.

    Raises:
        StorageError: it cannot be written; an existing file is unchanged.
    """
    with writing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")

        def begin() -> TextIO:
            text.seek(0)
            text.truncate()
            return text

        yield begin
        text.flush()
        text.detach()
