"""Formats as tables: ``formats/NAME.toml`` says where records are, and which field is which.

A value of a table is a form: a path (``info.task``; ``info.task!`` if it has to be there), a text
with paths in braces, a constant that begins with ``=``, a chat that begins with ``?`` (what the
user says first), or a list of forms, of which the first that says something counts. A path goes
through JSON in a text, too. ``@name`` is no field of the record: ``@stem`` and ``@folder`` are of
the file, ``@key`` and ``@number`` of the record in it, ``@beside`` is the object in another file;
others are groups of the pattern ``stem``, or stand in ``let``.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict

from graphmem.errors import SeedingError, ValidationError
from graphmem.models import Episode, Step
from graphmem.seeding import chats
from graphmem.seeding.formats import Format, Origin, Record, Unsettled, read_record
from graphmem.seeding.reading import BOM, Limits, Values, read_objects
from graphmem.seeding.sources import Source
from graphmem.seeding.traces import (
    OTHER,
    Span,
    judge,
    make_episode,
    parse_time,
    root_of,
    split_judgements,
)

Form = str | list[str]
Reading = tuple[int, str | None, Callable[[], Any]]
"""Number and key of a record, and what reads it."""
Parts = tuple[Mapping[str, Any], Sequence[Mapping[str, Any]], Sequence[tuple[str | None, str, Any]]]
"""A trace, its spans, and what was judged: the span, who judged, and the judgement."""
_NOTHING: tuple[Any, ...] = (None, "", [], {})
_ABOVE = 3
"""A file beside may be in so many folders: that of the log, or those above it."""
_IN_BRACES = re.compile(r"\{([^{}]+)\}")


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Marks(_Part):
    """How a file is recognised: by its first byte, and by all names of one of the lists."""

    first: str = "{"
    names: list[list[str]]
    pattern: str | None = None
    """A pattern that does as well as names."""
    without: list[str] = []
    columns: bool = False
    """Whether a table with such names of columns has them, too."""

    def fit(self, head: bytes) -> bool:
        """Return whether a file that begins so has the marks."""
        text = head.removeprefix(BOM).lstrip()

        def has(name: str) -> bool:
            return f'"{name}"'.encode() in text

        if self.columns and text[:1] not in (b"{", b"["):
            columns = {name.strip(b' "\r') for name in text.split(b"\n", 1)[0].split(b",")}
            return any(columns.issuperset(map(str.encode, names)) for names in self.names)
        if not text[:1] or text[:1] not in self.first.encode() or any(map(has, self.without)):
            return False
        if self.pattern is not None and re.search(self.pattern.encode(), text):
            return True
        return any(all(map(has, names)) for names in self.names)


class Places(_Part):
    """Where records are.

    Objects are lines, follow each other, or are items of a list, which ``at`` may wrap. Members are
    those of an object; items are those of a list somewhere in an object, else that object.
    """

    form: Literal["objects", "members", "items"] = "objects"
    at: str | None = None
    """The member of the object that has the records, if it is there."""
    skip: str | None = None
    """A member that may stand before it."""


class Folder(_Part):
    """The folder of a run: files that are there, and the pattern of its logs."""

    has: list[str]
    logs: str


class Outcome(_Part):
    """How the outcome reads."""

    at: Form
    by: str | None = None
    """Who judged; None: nobody but the log, which has a ``reward``."""
    each: bool = False
    """Whether it is an object of outcomes, by who judged."""
    least: float | None = None
    """The least number that is a success; None: true, false, or a score in [0, 1]."""
    unless: list[str] = []
    """Fields that say that nobody could judge."""


class Extra(_Part):
    """What is kept beside the fields of an episode: all of the record but what they hold."""

    drop: list[str] = []
    add: dict[str, Form] = {}
    without: Literal["nothing", "null", "empty"] = "null"


class Steps(_Part):
    """A list of steps; the tool is the first group of a pattern, what does not match is a reply."""

    at: str
    tool: str
    pattern: str = "(.*)"
    action: dict[str, Form]
    observation: Form


class Spans(_Part):
    """The spans of a trace: the names of their kinds, and their fields."""

    kinds: dict[str, str] = {}
    fields: dict[str, Form] = {}
    root: dict[str, Form] = {}
    """Fields of the trace that hold for its root."""
    whole: bool = False
    """Whether the root has to be there."""


class Table(_Part):
    """A format of logs."""

    doc: str
    mapping: str
    record: str
    """What a record is called in a refusal."""
    marks: Marks
    records: Places = Places()
    stem: str = ".*"
    """The pattern of the name of a file."""
    beside: str | None = None
    folder: Folder | None = None
    empty: dict[str, str] = {}
    """Patterns of values that say nothing, by their paths."""
    let: dict[str, Form] = {}
    fields: dict[str, Form]
    framed: bool = False
    """Whether a frame in the prompt may hold the task."""
    outcome: Outcome | None = None
    names: list[Form] = []
    """By what outcomes are joined, besides the source key."""
    model: Form = "model"
    strategy: Form | None = None
    """None: the tools."""
    extra: Extra = Extra()
    also: list[str] = []
    """Objects whose members count as fields, too, where a field is the strategy."""
    steps: Steps | None = None
    spans: Spans = Spans()

    @classmethod
    @cache
    def load(cls, name: str) -> Table:
        """Return the table of a format."""
        path = Path(__file__).with_name("formats") / f"{name}.toml"
        return cls(**tomllib.loads(path.read_text("utf-8")))


@dataclass(frozen=True, slots=True)
class Fields:
    """The values of forms in a record, or in a part of it that stands ``at`` a path."""

    table: Table
    record: Any
    names: dict[str, Any]
    at: str = ""

    def value(self, form: Form) -> Any:
        """Return the value of a form; None if it says nothing."""
        if isinstance(form, list):
            values = map(self.value, form)
            return next((value for value in values if value not in _NOTHING), None)
        if form.startswith("="):
            return form[1:]
        if form.startswith("?"):
            return chats.question(self._field(form[1:]) or ())
        parts = [self._field(path) for path in _IN_BRACES.findall(form)]
        if not parts:
            return self._field(form)
        if any(part in _NOTHING for part in parts):
            return None
        texts = iter([part if isinstance(part, str) else json.dumps(part) for part in parts])
        return _IN_BRACES.sub(lambda _: next(texts), form).strip()

    def values(self, forms: Mapping[str, Form]) -> dict[str, Any]:
        """Return the values of forms by name."""
        return {name: self.value(form) for name, form in forms.items()}

    def _field(self, path: str) -> Any:
        name = path.removesuffix("!")
        value = find(self.names, name[1:]) if name.startswith("@") else find(self.record, name)
        nothing = self.table.empty.get(name)
        if nothing is not None and re.fullmatch(nothing, str(value)):
            value = None
        if value is None and path.endswith("!"):
            raise ValidationError(
                f"{self.at}{name}", None, f"is missing in this {self.table.record}"
            )
        return value

    def keep_rest(self) -> dict[str, Any]:
        """Return what is kept beside the known fields."""
        extra = self.table.extra
        rest = dict(self.record)
        for path in extra.drop:
            holder, _, name = path.rpartition(".")
            if not holder:
                rest.pop(name, None)
            elif isinstance(inner := rest.get(holder), Mapping):
                rest[holder] = {key: value for key, value in inner.items() if key != name}
        rest |= {name: one for name, one in self.values(extra.add).items() if one is not None}
        if extra.without == "null":
            return {name: value for name, value in rest.items() if value is not None}
        empty = () if extra.without == "nothing" else _NOTHING
        return {name: value for name, value in rest.items() if value not in empty}

    def read_outcome(self, outcome: Outcome) -> Any:
        """Return the outcome, None if it is unknown."""
        value = self.value(outcome.at)
        if value is None or outcome.each or any(map(self.value, outcome.unless)):
            return value if outcome.each else None
        if outcome.least is not None:
            return float(value) >= outcome.least
        judgement = judge(value)
        if judgement is None:
            problem = "is neither a success, nor a score in [0, 1], nor null"
            raise ValidationError(str(outcome.at), value, problem)
        return judgement

    def read_steps(self, steps: Steps) -> Iterator[Step]:
        """Yield the steps."""
        for place, item in enumerate(self.value(steps.at) or ()):
            part = Fields(self.table, item, self.names, f"{steps.at.removesuffix('!')}.{place}.")
            tool = part.value(steps.tool)
            if not isinstance(tool, str):
                raise ValidationError(f"{part.at}{steps.tool}", tool, "must be a text")
            match = re.match(steps.pattern, tool)
            done = part.values(steps.action)
            yield Step(
                action_type=match[1] if match else chats.REPLY,
                action={name: value for name, value in done.items() if value not in _NOTHING},
                observation=chats.cut_text(part.value(steps.observation)),
            )


def find(value: Any, path: str) -> Any:
    """Return what stands at a path, which goes through JSON in a text; None: nothing does."""
    value = chats.arguments(value)
    if not isinstance(value, Mapping):
        return None
    if path in value:
        return value[path]
    name, dot, rest = path.partition(".")
    return find(value.get(name), rest) if dot else None


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads logs as a table says; functions, which may add to the names, do what it cannot say."""

    name: str
    records: Callable[[BinaryIO, Limits], Iterator[Reading]] | None = None
    join: Callable[[Any, Origin], dict[str, Any]] | None = None
    """Joins a record with other files."""
    steps: Callable[[Any, dict[str, Any]], list[Step] | None] | None = None
    strategy: Callable[[Any, dict[str, Any]], list[str] | None] | None = None
    parts: Callable[[Any], Parts] | None = None
    """Puts the records of a trace together."""

    @property
    def table(self) -> Table:
        """The table of the format."""
        return Table.load(self.name)

    def make_format(
        self,
        detect: Callable[[bytes], bool] | None = None,
        logs: Callable[[Path], list[Path] | None] | None = None,
    ) -> Format:
        """Return the format; without functions, its table says which files are of it."""
        table, detect = self.table, detect or self.table.marks.fit
        if logs is None and table.folder is not None:
            logs = partial(_logs, table.folder)
        return Format(self.name, table.doc, detect, self.read, logs, table.mapping)

    def read(self, stream: BinaryIO, origin: Origin) -> Iterator[Record]:
        """Yield the records of a file."""
        table = self.table
        match = re.fullmatch(table.stem, origin.stem)
        names: dict[str, Any] = {"stem": origin.stem, **(match.groupdict() if match else {})}
        if origin.path is not None:
            *_, above, folder = ("", *origin.path.absolute().parent.parts)
            names["folder"] = above if folder == origin.stem else folder
            names["beside"] = table.beside and _above(origin.path, table.beside, origin.limits)
        records = self.records or partial(_records, table.records)
        for number, key, read in records(stream, origin.limits):
            own = {**names, "key": key, "number": number}
            make: Callable[[Any], Episode | Unsettled]
            make = partial(self._make, origin=origin, names=own)
            if self.parts is not None:
                make = partial(self._make_trace, self.parts, number)
            yield read_record(number, table.record, partial(self._joined, read, origin), make)

    def _joined(self, read: Callable[[], Any], origin: Origin) -> Any:
        record = read()
        return record if self.join is None else self.join(record, origin)

    def _make(self, record: Any, origin: Origin, names: dict[str, Any]) -> Episode | Unsettled:
        table, look = self.table, Fields(self.table, record, names)
        if self.steps is not None:
            steps = self.steps(record, names)
        else:
            steps = None if table.steps is None else list(look.read_steps(table.steps))
        for name, form in table.let.items():
            names[name] = look.value(form)
        strategies = [one] if table.strategy and (one := look.value(table.strategy)) else None
        if self.strategy is not None:
            strategies = self.strategy(steps, names)
        fields = look.values(table.fields)
        fields |= {"source": self.name, "steps": None if steps is None else tuple(steps)}
        if isinstance(fields["task"], str):
            fields["task"] = (chats.task_of if table.framed else chats.cut_task)(fields["task"])
        fields["error"] = chats.cut_text(chats.text_of(fields.get("error")))
        for name in ("started_at", "ended_at"):
            fields[name] = parse_time(fields.get(name), zone=None)
        fields["extra"] = look.keep_rest()
        outcomes: dict[str, Any] = {}
        if table.outcome is not None:
            outcome = look.read_outcome(table.outcome)
            if table.outcome.by is None:
                fields |= {"success": outcome, "reward": float(fields["reward"])}
                fields["agent"] = origin.agent or fields["agent"]
                fields = {name: value for name, value in fields.items() if value is not None}
                return Episode(**fields, strategy=strategies)
            outcomes = outcome or {} if table.outcome.each else {table.outcome.by: outcome}
        also = [chats.arguments(look.value(path)) for path in table.also]
        return Unsettled(
            names["number"],
            fields,
            outcomes={name: one for name, one in outcomes.items() if one is not None},
            names=[name for name in map(look.value, table.names) if isinstance(name, str)],
            strategy=strategies,
            model=look.value(table.model),
            unknown=names.get("unknown"),
            record={k: v for one in (*also, record) if one for k, v in one.items()},
        )

    def _make_trace(self, parts: Callable[[Any], Parts], number: int, records: Any) -> Unsettled:
        table = self.table
        trace, rows, judgements = parts(records)
        if not rows:
            told = {name: one for about, name, one in judgements if about in (None, trace["id"])}
            outcomes, unknown = split_judgements({k: v for k, v in told.items() if v is not None})
            return Unsettled(
                number,
                {"source_key": trace["id"]},
                outcomes,
                unknown=unknown,
                later=True,
                told_at=parse_time(trace["told_at"]),
            )
        spans = [self._span(row) for row in rows]
        root = root_of(spans)
        if table.spans.whole and root.parent is not None:
            field = str(table.spans.fields["parent"])
            raise ValidationError(field, root.parent, "is no run in this file")
        at = spans.index(root)
        look = Fields(table, trace or rows[at], {"trace": trace})
        whole = look.values(table.spans.root)
        spans[at] = replace(
            root,
            input=whole.get("input") or root.input,
            output=whole.get("output") or root.output,
            started_at=root.started_at or parse_time(whole.get("started_at")),
        )
        fields = {name: one for name, one in look.values(table.fields).items() if one}
        values = {name: one for about, name, one in judgements if about in (None, "", root.id)}
        return make_episode(
            number,
            spans,
            {**fields, "source": self.name, "extra": look.keep_rest()},
            {name: one for name, one in values.items() if one is not None},
            names=[name for name in map(look.value, table.names) if name],
            record=look.record,
        )

    def _span(self, row: Mapping[str, Any]) -> Span:
        spans = self.table.spans
        values = Fields(self.table, row, {}).values(spans.fields)
        values["kind"] = spans.kinds.get(str(values["kind"]), OTHER)
        for name in ("started_at", "ended_at"):
            values[name] = parse_time(values[name])
        return Span(**values)


def _records(places: Places, stream: BinaryIO, limits: Limits) -> Iterator[Reading]:
    if places.form == "objects":
        for number, read in read_objects(stream, limits, places.at or ""):
            yield number, None, read
        return
    values = Values(stream, limits)
    if places.form == "members":
        for number, key in enumerate(_keys(values, places), 1):
            yield number, key, values.value
    else:
        for number, read in _items(values, places.at or ""):
            yield number, None, read
    values.end()


def _items(values: Values, at: str) -> Iterator[tuple[int, Callable[[], Any]]]:
    """Yield the items of a list in an object; without the list, the object."""
    whole: dict[str, Any] | None = {}
    for name in values.members():
        if name == at:
            whole = None
            for number in values.items():
                yield number, values.value
        elif whole is None:
            values.skip()
        else:
            try:
                whole[name] = values.value()
            except ValidationError:
                whole[name] = None
    if whole is not None:
        yield 1, partial(dict, whole)


def _keys(values: Values, places: Places) -> Iterator[str]:
    wrapped = False
    for number, name in enumerate(values.members()):
        wrapped = wrapped or (number == 0 and name in (places.skip, places.at))
        if not wrapped:
            yield name
        elif name == places.at:
            yield from values.members()
        else:
            values.skip()


def _logs(folder: Folder, path: Path) -> list[Path] | None:
    own = any(one.stem == one.parent.name for one in path.glob(f"*/{Path(folder.logs).name}"))
    if all(any(path.glob(name)) for name in folder.has) or (folder.logs.startswith("**/") and own):
        return sorted(path.glob(folder.logs))
    return None


def read_beside(path: Path, limits: Limits) -> dict[str, Any] | None:
    """Return the object in another file, if there is one."""
    if not path.is_file():
        return None
    try:
        with Source(str(path)).open(limits) as (_, stream):
            content = Values(stream, limits).value()
    except SeedingError as error:
        raise ValidationError(path.name, None, f"cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise ValidationError(path.name, content, "is no object")
    return content


def _above(path: Path, name: str, limits: Limits) -> dict[str, Any] | None:
    """Return the object in a file beside a log, or in a folder above."""
    for folder in path.absolute().parents[:_ABOVE]:
        try:
            if content := read_beside(folder / name, limits):
                return content
        except ValidationError as error:
            raise SeedingError(str(error)) from None
    return None
