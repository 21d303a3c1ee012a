"""Files of other projects, both ways: the memory of Sentinel, and graphmem's own JSON lines.

An imported Sentinel file is a ``Document`` in the graph: it holds its episodes in their order, what
stood beside them, and how each was written where that cannot be told from the episode. So its
export is the same JSON value. An import is one transaction; an export is written beside the file
and takes its place at the end, so that a file is never half written.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TextIO, get_args
from uuid import uuid4

from graphmem.episodes.learning import Learner
from graphmem.episodes.rows import read_contents
from graphmem.errors import NotFoundError, SeedingError, StorageError, ValidationError
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import canonical_json, node_id
from graphmem.models import Episode, content, resolve
from graphmem.models.exchange import ExportReport, ImportReport
from graphmem.models.fields import Input, Name
from graphmem.seeding import jsonl, sentinel
from graphmem.seeding.formats import Origin, Refused
from graphmem.seeding.sources import Source, damage
from graphmem.store.paging import pages
from graphmem.store.port import Row

BATCH = 500
MAX_REST = 64_000_000
"""Characters of what a Sentinel file may hold beside its episodes."""
EVERY = 2**31 - 1
"""A limit that is none."""

_Told = tuple[str, str | None, str | None, str | None]
"""An episode to be written: its id, source key, source, and how its file wrote it (JSON)."""


FileFormat = Literal["sentinel", "jsonl"]


class _Document(Input):
    name: Name


class Exchange:
    """Imports and exports files of one namespace."""

    def __init__(self, graph: Graph, learner: Learner) -> None:
        self._graph = graph
        self._settings = graph.settings
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

    def _import_sentinel(self, path: str | Path, name: str | None) -> ImportReport:
        """Learn the episodes of a Sentinel file, and keep all the rest of it."""
        source = _source(path)
        name = _Document(name=source.stem if name is None else name).name
        held = _object(source)
        forms = held.pop(sentinel.EPISODES)
        rest = canonical_json(held)
        if len(rest) > MAX_REST:
            raise SeedingError(
                f"{source.name} holds {len(rest):,} characters beside its episodes, at most "
                f"{MAX_REST:,} can be kept; `graphmem seed` learns the episodes alone"
            )
        episodes = [_episode(form, at, name) for at, form in enumerate(forms)]

        def keep(tx: Transaction, rows: list[Row]) -> None:
            identity = node_id(tx.ns, "Document", name)
            tx.run("exchange.open", id=identity, name=name, format=sentinel.SOURCE, rest=rest)
            tx.run("exchange.describe", id=identity, rest=rest)
            tx.run("exchange.release", id=identity)
            holding = [
                {"episode": row["id"], "position": at, "form": _difference(form, row)}
                for at, (form, row) in enumerate(zip(forms, rows, strict=True))
            ]
            tx.run("exchange.hold", id=identity, rows=holding)

        created = sum(learned.created for learned in self._learner.learn_all(episodes, keep))
        return ImportReport(
            file=source.name,
            format="sentinel",
            created=created,
            skipped=len(episodes) - created,
            kept=tuple(held),
        )

    def _export_sentinel(self, path: str | Path, document: str | None) -> ExportReport:
        """Write the episodes of the namespace, or of one imported file, as a Sentinel file."""
        with _replacing(path) as open_file:
            return self._graph.view(lambda tx: self._sentinel(tx, open_file, str(path), document))

    def _import_jsonl(self, path: str | Path) -> ImportReport:
        """Learn the episodes of JSON lines, after all lines were found to be right."""
        source = _source(path)
        for item in _lines(source):
            if isinstance(item, Refused):
                raise SeedingError(
                    f"{source.name}, line {item.number}: {item.reason}; nothing was imported "
                    "(`graphmem seed` learns the other lines)"
                )
        episodes = (item for item in _lines(source) if isinstance(item, Episode))
        report = self._learner.learn_many(episodes, batch_size=BATCH, on_error="collect")
        return ImportReport(
            file=source.name,
            format="jsonl",
            created=report.created,
            skipped=report.skipped,
            refused=report.rejected,
        )

    def _export_jsonl(self, path: str | Path) -> ExportReport:
        """Write the episodes of the namespace as JSON lines, the earliest first."""

        def work(tx: Transaction, open_file: Callable[[], TextIO]) -> int:
            file = open_file()
            count = 0
            listed = tx.run("exchange.episodes")
            told = ((row["id"], row["source_key"], row["source"], None) for row in listed)
            for (_, key, source, _), held in self._contents(tx, told):
                line = jsonl.record(held, key, source)
                file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
                count += 1
            return count

        with _replacing(path) as open_file:
            count = self._graph.view(lambda tx: work(tx, open_file))
        return ExportReport(file=str(path), format="jsonl", episodes=count)

    def _sentinel(
        self, tx: Transaction, open_file: Callable[[], TextIO], path: str, name: str | None
    ) -> ExportReport:
        file = open_file()
        documents = self._documents(tx, name)
        told, others = self._told(tx, documents, alone=name is not None)
        rests = [json.loads(row["rest"]) for row in documents if row["rest"] is not None]
        same = len(documents) == len(rests) == 1 and not others
        places: dict[str, int] = {}
        scores: dict[str, list[float]] = {}
        file.write('{\n  "episodes": [')
        for place, (item, held) in enumerate(self._contents(tx, told), 1):
            form = self._form(item, held, same=same)
            places[item[0]] = place
            scores.setdefault(str(held.get("task_key", held["task"])), []).append(held["score"])
            file.write(f"{',' if place > 1 else ''}\n{_indented(form, '    ')}")
        file.write("\n  ]" if places else "]")
        if same:
            kept, derived = rests[0], {}
        else:
            kept = _merged(rests, [row["name"] for row in documents])
            derived = _shaped(kept, self._lessons(tx, places, scores))
            kept = {key: value for key, value in kept.items() if key not in derived}
            if not documents:
                kept["version"] = sentinel.VERSION
        for key, value in {**kept, **derived}.items():
            file.write(
                f",\n  {json.dumps(key, ensure_ascii=False)}: {_indented(value, '  ').lstrip()}"
            )
        file.write("\n}\n")
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
        found = [row for row in documents if row["name"] == _Document(name=name).name]
        if not found:
            names = ", ".join(row["name"] for row in documents) or "none"
            raise NotFoundError(f"no file {name!r} was imported; there are {names}")
        return found

    def _told(
        self, tx: Transaction, documents: list[Row], *, alone: bool
    ) -> tuple[list[_Told], bool]:
        """Return what to write, in order, and whether anything of it is in no file.

        The episodes of files come first; one that several hold is written where it comes first.
        """
        listed = tx.run("exchange.episodes")
        known = {row["id"]: (row["source_key"], row["source"]) for row in listed}
        rows = tx.run("exchange.episodes_of_documents", ids=[row["id"] for row in documents])
        held: dict[str, list[Row]] = {}
        for row in rows:
            held.setdefault(row["id"], []).append(row)
        told: list[_Told] = []
        seen: set[str] = set()
        for document in documents:
            own = [row for row in held.get(document["id"], ()) if row["episode"] not in seen]
            told += [
                (row["episode"], *known[row["episode"]], row["form"] or "{}")
                for row in own
                if row["episode"] in known
            ]
            seen |= {row["episode"] for row in own}
        others = [] if alone else [row for row in listed if row["id"] not in seen]
        told += [(row["id"], row["source_key"], row["source"], None) for row in others]
        return told, bool(others)

    def _contents(
        self, tx: Transaction, told: Iterable[_Told]
    ) -> Iterator[tuple[_Told, dict[str, Any]]]:
        """Yield what is to be written with the content that the graph holds."""
        for page in pages(list(told)):
            found = read_contents(
                tx,
                list(dict.fromkeys(item[0] for item in page)),
            )
            yield from ((item, found[item[0]]) for item in page if item[0] in found)

    def _form(self, item: _Told, held: Mapping[str, Any], *, same: bool) -> dict[str, Any]:
        """Return the form of an episode: as its file wrote it, else one that tells everything.

        Unless the file is to be the ``same`` again, each says what the episode is known by, so that
        none is learned twice where it came from.
        """
        _, key, source, difference = item
        if difference is not None:
            form = _patched(json.loads(difference), held, key, source)
            own = {sentinel.OWN: {"source_key": key, "source": source}}
            return form if same else {**own, **form}
        if not held["strategy"] and "steps" not in held:
            form = sentinel.write_marked(held, key, source)
            if self._restores(form, held, key):
                return form
        return sentinel.write_whole(held, key, source)

    def _restores(self, form: Mapping[str, Any], held: Mapping[str, Any], key: str | None) -> bool:
        """Return whether an import of a form gives the same episode."""
        try:
            found = sentinel.episode(form)
            same = content(found, resolve(found, self._settings.success_threshold))
        except ValidationError:
            return False
        return found.source_key == key and canonical_json(same) == canonical_json(held)

    def _lessons(
        self, tx: Transaction, places: Mapping[str, int], scores: Mapping[str, list[float]]
    ) -> dict[str, Any]:
        """Return what the memory derived, under the names of a Sentinel file."""
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
    known = get_args(FileFormat)
    if format_name not in known:
        raise ValidationError(
            "format_name", format_name, "is unknown", f"give one of {', '.join(known)}"
        )
    if format_name == "sentinel":
        return True
    if document is not None:
        raise ValidationError("document", document, "is for Sentinel files", "leave it out")
    return False


def _source(path: str | Path) -> Source:
    source = Source(str(path))
    if source.path == "-":
        raise ValidationError("file", "-", "must be a file", "`graphmem seed -` reads from a pipe")
    return source


def _object(source: Source) -> dict[str, Any]:
    """Return the JSON object of a Sentinel file.

    Raises:
        SeedingError: it cannot be read, is damaged, is none, or of a newer version.
    """
    with source.open() as (_, stream):
        text = stream.read()
        if (error := damage(stream)) is not None:
            raise SeedingError(f"{source.name}: the gzip file is cut off or damaged: {error}")
    held = sentinel.load(text, source.name)
    if not isinstance(held, dict) or not isinstance(held.get(sentinel.EPISODES), list):
        raise SeedingError(
            f"{source.name} is no Sentinel file: an object with a list {sentinel.EPISODES!r} is "
            "needed (`graphmem seed` also reads JSON lines of episodes)"
        )
    try:
        sentinel.check_version(held.get("version"))
    except SeedingError as error:
        raise SeedingError(f"{source.name}: {error}") from None
    return held


def _episode(form: Any, at: int, name: str) -> Episode:
    try:
        return sentinel.episode(form, source_key=f"{name}/{at + 1}")
    except ValidationError as error:
        field = f"{sentinel.EPISODES}.{at}"
        if error.field != "episode":
            field = f"{field}.{error.field}"
        raise ValidationError(field, error.value, error.problem, error.remedy) from None


def _lines(source: Source) -> Iterator[Episode | Refused]:
    with source.open() as (_, stream):
        number = 0
        for item in jsonl.read(stream, Origin(source.name, source.stem)):
            number = item.number if isinstance(item, Refused) else item[0]
            yield item if isinstance(item, Refused) else item[1]
        if (error := damage(stream)) is not None:
            yield Refused(number + 1, "file", f"the gzip file is cut off or damaged: {error}")


def _base(
    kind: str, held: Mapping[str, Any], key: str | None, source: str | None
) -> dict[str, Any]:
    if kind == "whole":
        return sentinel.write_whole(held, key, source)
    if kind == "marked":
        return sentinel.write_marked(held, key, source)
    return sentinel.write(held)


def _difference(form: Mapping[str, Any], row: Row) -> str | None:
    """Return what to change in the form that an episode gets, to have the form that it had."""
    own = form.get(sentinel.OWN)
    kind = "plain" if own is None else "whole" if "episode" in own else "marked"
    base = _base(kind, row["_content"], row["source_key"], row["source"])
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
    change: Mapping[str, Any], held: Mapping[str, Any], key: str | None, source: str | None
) -> dict[str, Any]:
    form = {**_base(change.get("as", "plain"), held, key, source), **change.get("set", {})}
    return {name: value for name, value in form.items() if name not in change.get("drop", ())}


def _merged(rests: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Return what files held beside their episodes, together.

    Raises:
        ValidationError: they differ in something that cannot be derived anew.
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
    """Return derived lists in the shape that they had in the file; without one, in ours."""
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


def _indented(value: Any, margin: str) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return "\n".join(margin + line for line in text.split("\n"))


@contextmanager
def _replacing(path: str | Path) -> Iterator[Callable[[], TextIO]]:
    """Yield what opens a file beside ``path``, empty; at the end it takes the place of ``path``.

    Raises:
        StorageError: it cannot be written; what was there is as it was.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise StorageError(f"{path} is a folder; name a file")
    if not target.parent.is_dir():
        raise StorageError(f"{path}: there is no folder {target.parent}")
    file: TextIO | None = None
    beside: Path | None = None
    try:
        beside = target.with_name(f".{target.name[:100]}.{uuid4().hex}.part")
        opened = file = beside.open("x", encoding="utf-8", newline="\n")

        def begin() -> TextIO:
            opened.seek(0)
            opened.truncate()
            return opened

        yield begin
        file.flush()
        os.fsync(file.fileno())
        file.close()
        if target.exists():
            beside.chmod(stat.S_IMODE(target.stat().st_mode))
        beside.replace(target)
        beside = None
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}; nothing was written") from error
    finally:
        if file is not None:
            file.close()
        if beside is not None:
            beside.unlink(missing_ok=True)
