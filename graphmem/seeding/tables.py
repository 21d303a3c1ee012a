"""Reads logs as tables say, such as ``formats/NAME.toml``: see :mod:`graphmem.seeding.schema`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from graphmem.errors import SeedingError, ValidationError
from graphmem.models.episodes import Step
from graphmem.seeding import chats, traces
from graphmem.seeding.formats import Format, Origin, Record, Unsettled, read_record
from graphmem.seeding.reading import Limits, Values, parse_line, read_items, read_records
from graphmem.seeding.schema import Folder, Form, Places, Steps, Table, Value, find_zone
from graphmem.seeding.sources import Source

Reading = tuple[int, str | dict[str, Any] | None, Callable[[], Any]]
"""Number and key of a record, and what reads it."""
Parts = tuple[Mapping[str, Any], Sequence[Mapping[str, Any]], Sequence[tuple[str | None, str, Any]]]
"""A trace, its spans, and what was judged: the span, who judged, and the judgement."""
_MOMENTS, _NUMBERS = ("started_at", "ended_at"), ("score", "reward", "duration")
_KEYS = ("task_key", "source_key", "agent", "user", "task_type")
_LISTS = ("strategy", "successes", "mistakes", "mistake_cards")
_NOTHING: tuple[Any, ...] = (None, "", [], {})
_ABOVE = 3
"""A file beside may be in so many folders: that of the log, or those above it."""
TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_IN_BRACES = re.compile(r"\{([^{}]+)\}")


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
        if "{" not in form:
            return self._field(form)
        parts = [self._field(path) for path in _IN_BRACES.findall(form)]
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
            problem = f"is missing in this {self.table.record}"
            raise ValidationError(f"{self.at}{name}", None, problem)
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
        left_out = {"nothing": (), "null": (None,), "empty": _NOTHING}[extra.without]
        return {name: value for name, value in rest.items() if value not in left_out}

    def read(self, name: str, how: Value) -> Any:
        """Return the value of a field of an episode; None if the record does not say it."""
        value = self.value(how.field)
        if value in (None, "") or (isinstance(value, float) and math.isnan(value)):
            return None
        if name == "success":
            return self._read_success(how, value)
        if name in _NUMBERS:
            value = self._read_number(name, how, value)
        elif name in _MOMENTS:
            value = self._read_time(how, value)
        elif name in _LISTS:
            value = chats.arguments(value) if str(value).startswith("[") else value
            value = value if isinstance(value, list) else [value]
        elif name == "error":
            value = chats.cut_text(chats.text_of(value))
        elif name in _KEYS and type(value) is int:
            value = str(value)
        return value

    def _read_success(self, how: Value, value: Any) -> bool:
        if how.least is not None:
            return self._read_number("success", how, value) >= how.least
        if how.true or how.false:
            right, wrong = (
                any(_same(value, one) for one in ones) for ones in (how.true, how.false)
            )
            if right or wrong or not (how.true and how.false):
                return right or not (wrong or how.true)
            problem = "is in none of the lists true and false"
            raise self._wrong(how, value, problem, "add it to one of them")
        known = TRUTHS.get(str(value).lower())
        if known is None:
            side = "false" if traces.judge(value) is False else "true"
            values = f'field = "{_said(how.field)}", {side} = {json.dumps([value])[:80]}'
            remedy = f"write success = {{{values}}} if that is right"
            raise self._wrong(how, value, "is not true or false, as success has to be", remedy)
        return known

    def _read_number(self, name: str, how: Value, value: Any) -> float:
        try:
            if isinstance(value, bool):
                raise TypeError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise self._wrong(how, value, f"is no number, as {name} has to be") from None
        if how.range is not None:
            worst, best = how.range
            number = (number - worst) / (best - worst)
        if name == "score" and not 0 <= number <= 1:
            remedy = f'score = {{field = "{_said(how.field)}", range = [0, 100]}} scales it'
            raise self._wrong(how, value, "is no score in [0, 1]", remedy)
        return number

    def _read_time(self, how: Value, value: Any) -> datetime | None:
        try:
            return traces.parse_time(value, find_zone(how.zone or self.table.zone), how.unit)
        except ValidationError:
            remedy = "give ISO 8601, or a number since 1970"
            raise self._wrong(how, value, "is no time", remedy) from None

    def _wrong(self, how: Value, value: Any, problem: str, remedy: str = "") -> ValidationError:
        return ValidationError(f"{self.at}{_said(how.field)}", value, problem, remedy)

    def read_steps(self, steps: Steps) -> Iterator[Step]:
        """Yield the steps."""
        for place, item in enumerate(self.value(steps.at) or ()):
            part = Fields(self.table, item, self.names, f"{steps.at.removesuffix('!')}.{place}.")
            tool = part.value(steps.tool)
            if not isinstance(tool, str):
                raise ValidationError(f"{part.at}{steps.tool}", tool, "must be a text")
            match = re.match(steps.pattern, tool)
            if isinstance(steps.action, dict):
                done = part.values(steps.action)
                action = {name: value for name, value in done.items() if value not in _NOTHING}
            else:
                action = chats.arguments(part.value(steps.action))
            yield Step(
                action_type=match[1] if match else chats.REPLY,
                action=action,
                observation=chats.cut_text(chats.text_of(part.value(steps.observation))),
                error=chats.cut_text(chats.text_of(part.value(steps.error))),
            )


def _said(form: Form) -> str:
    """Return a form as a message names it."""
    return (form if isinstance(form, str) else " or ".join(form)).replace("!", "")


def _same(value: Any, one: Any) -> bool:
    """Return whether a value is one of a list: texts are equal also in other letters' case."""
    if isinstance(value, bool) or isinstance(one, bool):
        return str(value).lower() == str(one).lower()
    return str(value).strip().lower() == str(one).strip().lower() or bool(value == one)


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
    prepare: Callable[[dict[str, Any]], dict[str, Any]] = dict
    """Reads one of the objects of a record, which share a key."""
    join: Callable[[Any, Origin], dict[str, Any]] | None = None
    """Joins a record with other files."""
    steps: Callable[[Any, dict[str, Any]], list[Step] | None] | None = None
    strategy: Callable[[Any, dict[str, Any]], list[str] | None] | None = None
    parts: Callable[[Any], Parts] | None = None
    """Puts the records of a trace together."""
    given: Table | None = None
    """The table of a field map; None: the format's own."""

    @property
    def table(self) -> Table:
        """The table of the format."""
        return self.given or Table.load(self.name)

    def make_format(
        self,
        detect: Callable[[bytes], bool] | None = None,
        logs: Callable[[Path], list[Path] | None] | None = None,
    ) -> Format:
        """Return the format; without functions, its table says which files are of it."""
        table, detect = self.table, detect or self.table.marks.fit
        if logs is None and table.folder is not None:
            logs = partial(_logs, table.folder)
        asked = None if self.given is None else frozenset(self.given.fields)
        return Format(self.name, table.doc, detect, self.read, logs, table.mapping, asked)

    def read(self, stream: BinaryIO, origin: Origin) -> Iterator[Record]:
        """Yield the records of a file."""
        table = self.table
        match = re.fullmatch(table.stem, origin.stem)
        names: dict[str, Any] = {"stem": origin.stem, "found": origin.found}
        names |= match.groupdict() if match else {}
        if origin.path is not None:
            *_, above, folder = ("", *origin.path.absolute().parent.parts)
            names["folder"] = above if folder == origin.stem else folder
            names["beside"] = table.beside and _above(origin.path, table.beside, origin.limits)
        records = self.records or partial(_records, table.records)
        if table.records.key is not None:
            records = self._read_together
        for number, key, read in records(stream, origin.limits):
            own = {**names, "key": key, "number": number}
            make: Callable[[Any], Unsettled] = partial(self.make, names=own)
            if self.parts is not None:
                make = partial(self._make_trace, self.parts, number)
            yield read_record(number, table.record, partial(self._joined, read, origin), make)

    def _read_together(self, stream: BinaryIO, limits: Limits) -> Iterator[Reading]:
        """Yield what reads the objects of each record, which stand in a file in any order."""
        places = self.table.records
        with traces.Groups.open(limits) as groups:
            for number, read in read_records(stream, limits, places.at or ""):
                try:
                    row = read()
                    if not isinstance(row, dict):
                        raise ValidationError("record", row, "must be an object")
                    row = self.prepare(row)
                    key = Fields(self.table, row, {}).value(places.key or [])
                    if not isinstance(key, str):
                        raise ValidationError("trace_id", None, "is missing: it is of no trace")
                    groups.add("trace", key, number, row)
                except ValidationError as error:
                    yield number, None, partial(parse_line, error)
            for number, read in groups.each("trace"):
                yield number, None, read

    def _joined(self, read: Callable[[], Any], origin: Origin) -> Any:
        record = read()
        return record if self.join is None else self.join(record, origin)

    def make(self, record: Any, names: dict[str, Any]) -> Unsettled:
        """Return the episode of a record; ``names`` are values beside it, with its number."""
        table, look = self.table, Fields(self.table, record, names)
        if self.steps is not None:
            steps = self.steps(record, names)
        else:
            steps = None if table.steps is None else list(look.read_steps(table.steps))
        for name, form in table.let.items():
            names[name] = look.value(form)
        fields = {name: look.read(name, how) for name, how in table.fields.items()}
        names["found"].update(name for name, value in fields.items() if value is not None)
        strategies = fields.pop("strategy", None)
        if self.strategy is not None:
            strategies = self.strategy(steps, names)
        fields |= {"source": self.name, "steps": None if steps is None else tuple(steps)}
        if isinstance(fields["task"], str):
            fields["task"] = (chats.task_of if table.framed else chats.cut_task)(fields["task"])
        fields["extra"] = look.keep_rest()
        outcomes = look.value(table.outcomes) or {}
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
            judged = {name: one for name, one in told.items() if one is not None}
            outcomes, unknown = traces.split_judgements(judged)
            known, told_at = {"source_key": trace["id"]}, traces.parse_time(trace["told_at"])
            return Unsettled(number, known, outcomes, unknown=unknown, later=True, told_at=told_at)
        spans = [self._span(row) for row in rows]
        root = traces.root_of(spans)
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
            started_at=root.started_at or traces.parse_time(whole.get("started_at")),
        )
        read = {name: look.read(name, how) for name, how in table.fields.items()}
        fields = {name: one for name, one in read.items() if one}
        values = {name: one for about, name, one in judgements if about in (None, "", root.id)}
        return traces.make_episode(
            number,
            spans,
            {**fields, "source": self.name, "extra": look.keep_rest()},
            {name: one for name, one in values.items() if one is not None},
            names=[name for name in map(look.value, table.names) if name],
            record=look.record,
        )

    def _span(self, row: Mapping[str, Any]) -> traces.Span:
        spans = self.table.spans
        values = Fields(self.table, row, {}).values(spans.fields)
        values["kind"] = spans.kinds.get(str(values["kind"]), traces.OTHER)
        for name in ("started_at", "ended_at"):
            values[name] = traces.parse_time(values[name])
        return traces.Span(**values)


def _records(places: Places, stream: BinaryIO, limits: Limits) -> Iterator[Reading]:
    if places.form == "objects":
        for number, read in read_records(stream, limits, places.at or ""):
            yield number, None, read
        return
    values = Values(stream, limits)
    if places.form == "list":
        for number in _descend(values, (places.at or "").split("."), places.at or ""):
            yield number, None, values.value
        return
    if places.form == "members":
        for number, key in enumerate(_keys(values, places), 1):
            yield number, key, values.value
    else:
        yield from read_items(values, places.at or "")
    values.end()


def _descend(values: Values, path: Sequence[str], whole: str) -> Iterator[int]:
    """Yield the number of each item of the list at a path of members."""
    for name in values.members() if values.peek() == b"{" else ():
        if name != path[0]:
            values.skip()
        elif len(path) > 1:
            yield from _descend(values, path[1:], whole)
            return
        elif values.peek() == b"[":
            yield from values.items()
            return
        else:
            break
    raise SeedingError(f"records.at: there is no list {whole!r} in this file")


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
    files = (folder / name for folder in path.absolute().parents[:_ABOVE])
    try:
        return next(filter(None, (read_beside(file, limits) for file in files)), None)
    except ValidationError as error:
        raise SeedingError(str(error)) from None
