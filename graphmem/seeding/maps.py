"""Field maps: a user's table that says what the fields of a log mean, and proposals of one.

A map is a line (``task=prompt,strategy=tool,success=ok``), a TOML file, a folder of them, or in
Python a dict: of fields, or of all that a table may say (:mod:`graphmem.seeding.schema`). Times
without a zone are in UTC, if the map names no other ``zone``.

For a log that no format reads, a map is proposed from its first records: each field of an episode
takes the path whose name is the usual one, if its values fit. It is only shown, to be confirmed.
"""

from __future__ import annotations

import io
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from graphmem.errors import SeedingError, ValidationError
from graphmem.graph.arguments import checked_path
from graphmem.seeding.formats import Format
from graphmem.seeding.reading import Limits, Values, read_records
from graphmem.seeding.schema import Table
from graphmem.seeding.tables import TRUTHS, TableReader
from graphmem.seeding.traces import USUAL, parse_time
from graphmem.text.words import ends

Map = str | Path | Mapping[str, Any]
NAME = "map"
"""The source of episodes that are read by a map without a file of its own."""
_NEXT = re.compile(r",(?=\s*\w+\s*=)")
_IN_BRACES = re.compile(r"\{([^{}@][^{}]*)\}")
_EXAMPLE = "for instance task=prompt,strategy=tool,success=ok, or name a TOML file"
RECORDS = 100
"""Most records that a proposal looks at."""
LOOKED_AT = 2_000_000
"""Most bytes that it looks at."""
_DEPTH = 3
"""Levels of objects in which it looks for fields."""
_RANGES = ((0, 1), (1, 5), (0, 5), (0, 10), (0, 100))
_GOOD = {*USUAL["words"]["success"], *USUAL["words"]["done"]}
"""Words for a success; other words of such a field are for a failure."""
_DENIALS = ("un", "in", "not ", "not_", "not-", "non-")
Column = Sequence[Any]
"""The values of a path in the records that have it."""
Columns = Mapping[str, Column]
Read = Callable[[Column], Any]
"""Returns whether the values of a path fit a field, or how they are read so that they do."""


def read_map(given: Map) -> list[Format]:
    """Return the formats that a map describes: one, or one for each file of a folder.

    Raises:
        SeedingError: the file cannot be read, or says something that no table may say.
        ValidationError: the line or the dict does.
    """
    if isinstance(given, Mapping):
        return [_make_format(NAME, given)]
    path, there = checked_path("map", given), False
    with suppress(OSError):  # a line may be too long for the name of a file
        there = path.exists()
    if isinstance(given, str) and "=" in given and not there:
        return [_make_format(NAME, _read_line(given))]
    files = sorted(path.glob("*.toml")) if there and path.is_dir() else [path]
    if not files:
        raise SeedingError(f"{path}: no .toml files in this folder")
    return [_read_file(file) for file in files]


def _read_line(line: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for part in _NEXT.split(line):
        name, is_pair, form = (text.strip() for text in part.partition("="))
        if not is_pair or not name or not form:
            raise ValidationError("map", part, "is no FIELD=PATH", _EXAMPLE)
        if name in fields:
            raise ValidationError(f"map.{name}", form, "is given twice", "give it once")
        fields[name] = form
    return fields


def _read_file(path: Path) -> Format:
    try:
        return _make_format(path.stem, tomllib.loads(path.read_text("utf-8-sig")))
    except OSError as error:
        remedy = "" if path.suffix else f"; give a map, {_EXAMPLE}"
        raise SeedingError(f"{path}: {error.strerror or error}{remedy}") from error
    except (ValueError, ValidationError) as error:
        raise SeedingError(f"{path}: {error}") from None


def _make_format(name: str, given: Mapping[str, Any]) -> Format:
    content: dict[str, Any] = dict(given)
    if "fields" not in content:
        places = {key: content.pop(key) for key in content.keys() & {"records", "steps"}}
        content = {"fields": content, **places}
    if isinstance(at := content.get("records"), str):
        content["records"] = {"form": "list", "at": at}
    table = Table(**{"zone": "UTC", **content})
    for field, other in (("task", None), ("strategy", table.steps)):
        if field not in table.fields and other is None:
            instead = ", or steps whose tools are the strategies" if field == "strategy" else ""
            remedy = f"say which field is the {field}{instead}"
            raise ValidationError(f"fields.{field}", None, "is missing in the map", remedy)
    needed = {
        field: how.model_copy(update={"field": f"{how.field.removesuffix('!')}!"})
        for field in ("task", "strategy")
        if (how := table.fields.get(field))
        and isinstance(how.field, str)
        and how.field[:1] not in "=?{@"
    }
    update: dict[str, Any] = {"fields": {**table.fields, **needed}}
    if "extra" not in content:
        update["extra"] = table.extra.model_copy(update={"drop": sorted(_read_paths(table))})
    return TableReader(name, given=table.model_copy(update=update)).make_format()


def _read_paths(table: Table) -> Iterator[str]:
    """Yield the paths that a map reads, which need no place beside the fields of an episode."""
    if table.steps is not None:
        yield table.steps.at.removesuffix("!")
    for how in table.fields.values():
        for one in [how.field] if isinstance(how.field, str) else how.field:
            yield from _IN_BRACES.findall(one) if "{" in one else [one.strip("?!")]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A map, and examples of the values that its fields take."""

    map: Mapping[str, Any]
    examples: Mapping[str, str]

    @property
    def line(self) -> str | None:
        """The map as ``--map`` takes it; None: it needs a file."""
        content = {"records": self.map["records"]} if "records" in self.map else {}
        content |= self.map["fields"]
        if "steps" in self.map or not all(isinstance(form, str) for form in content.values()):
            return None
        return ",".join(f"{name}={form}" for name, form in content.items())

    @property
    def toml(self) -> str:
        """The map as a TOML file."""
        lines = [f"records = {json.dumps(self.map['records'])}"] if "records" in self.map else []
        for table in ("fields", "steps"):
            content = self.map.get(table, {})
            lines += [f"[{table}]"] if content else []
            lines += [f"{name} = {_write(form)}" for name, form in content.items()]
        return "\n".join(lines)

    def __str__(self) -> str:
        """What it looks like, and the map that says so."""
        width = max(map(len, self.examples))
        shown = [f"  {name:{width}}  {example}" for name, example in self.examples.items()]
        line = self.line
        how = f"--map '{line}'" if line else f"--map map.toml, with this file:\n\n{self.toml}"
        return "\n".join(["it looks like this:", *shown, f"If that is right: {how}"])


def propose(content: bytes) -> Proposal | None:
    """Return the map that the beginning of a log suggests; None: it shows no task or outcome."""
    for path, records in _find_records(content):
        if (found := _propose(path, records)) is not None:
            return found
    return None


def list_fields(content: bytes) -> list[str]:
    """Return the paths that the first record has."""
    _, records = next(_find_records(content))
    return [path for one in records[:1] if isinstance(one, dict) for path, _ in _flatten(one)]


def _find_records(content: bytes) -> Iterator[tuple[str, list[Any]]]:
    """Yield the first records of a file; of one object, also those of each list in it."""
    stream, limits = io.BufferedReader(io.BytesIO(content)), Limits()
    records: list[Any] = []
    with suppress(SeedingError):  # the content is cut off
        for _, read in islice(read_records(stream, limits), RECORDS):
            with suppress(ValidationError):
                records.append(read())
    yield "", records
    if len(records) < 2:
        with suppress(SeedingError, ValidationError):
            yield from _find_lists(Values(io.BytesIO(content), limits), "")


def _find_lists(values: Values, path: str) -> Iterator[tuple[str, list[Any]]]:
    for name in values.members():
        inner = f"{path}.{name}" if path else name
        if values.peek() == b"{":
            yield from _find_lists(values, inner)
        elif values.peek() == b"[":
            found: list[Any] = []
            try:
                for number in values.items():
                    values.skip() if number > RECORDS else found.append(values.value())
            finally:
                yield inner, found
        else:
            values.skip()


def _propose(place: str, records: Sequence[Any]) -> Proposal | None:
    rows = [dict(_flatten(record)) for record in records if isinstance(record, dict)]
    paths = list(dict.fromkeys(path for row in rows for path in row))
    columns = {path: [row[path] for row in rows if row.get(path) is not None] for path in paths}
    fields: dict[str, Any] = {}
    taken: set[str] = set()
    for name, usual in USUAL["fields"].items():
        if name == "score" and "success" in fields:  # they might contradict each other
            continue
        by_word = name in ("success", "strategy", "task")
        path, form = _choose(columns, usual, _FITTING.get(name, _is_text), taken, parts=by_word)
        if name == "source_key" and form and min(map(len, map(str, columns[path]))) <= 12:
            form = f"{{@stem}}/{{{path}}}"
        if form is not None:
            fields[name] = form
            taken.add(path)
    steps = next(filter(None, (_propose_steps(path, columns) for path in paths)), None)
    for name in ("task",) if steps else ("task", "strategy"):
        if name not in fields and (guess := _guess(name, columns, taken)) is not None:
            fields[name] = guess
            taken.add(guess)
    outcome = fields.keys() & {"success", "score"}
    if "task" not in fields or not outcome or not (steps or "strategy" in fields):
        return None
    order = ("task", "strategy", "success", "score")
    fields = {name: fields[name] for name in (*order, *fields) if name in fields}
    parts = {"records": place or None, "fields": fields, "steps": steps}
    examples = {name: _show(name, form, columns) for name, form in fields.items()}
    if steps:
        examples["steps"] = f"{steps['at']}; the tool is {steps['tool']}"
    return Proposal({name: part for name, part in parts.items() if part}, examples)


def _flatten(value: Mapping[str, Any], path: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    for name, part in value.items():
        inner = f"{path}.{name}" if path else str(name)
        if isinstance(part, dict) and depth < _DEPTH:
            yield from _flatten(part, inner, depth + 1)
        elif part != "":
            yield inner, part


def _choose(
    columns: Columns, usual: Sequence[str], read: Read, taken: set[str], *, parts: bool = False
) -> tuple[str, Any]:
    """Return the path whose last name is the likeliest, the least deep one first, and its form.

    With ``parts``, a name is also known by one of its words.
    """
    candidates = []
    for path, column in columns.items():
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", path.rpartition(".")[2]).lower()
        name = re.sub(r"[^a-z0-9]+", "_", name).strip("_")
        known = {name} | (set(name.split("_")) if parts else set())
        rank = next((place for place, one in enumerate(usual) if one in known), None)
        if rank is None or path in taken or not column:
            continue
        if how := read(column):
            form = path if how is True else {"field": path, **how}
            candidates.append((name not in usual, rank, path.count("."), path, form))
    return min(candidates)[-2:] if candidates else ("", None)


def _guess(name: str, columns: Columns, taken: set[str]) -> str | None:
    """Return the path whose texts are like tasks (the longest) or strategies (the fewest)."""
    texts = {
        path: column
        for path, column in columns.items()
        if path not in taken and column and _is_text(column)
    }
    if name == "task":
        lengths = {path: sum(map(len, column)) / len(column) for path, column in texts.items()}
        return max(lengths, key=lambda path: lengths[path], default=None)
    counts = {path: len(set(column)) for path, column in texts.items()}
    few = [path for path, count in counts.items() if count <= len(columns[path]) / 2]
    return min(few, key=lambda path: counts[path], default=None)


def _is_text(column: Column) -> bool:
    return all(isinstance(value, str) for value in column)


def _is_name(column: Column) -> bool:
    return all(isinstance(value, str) or type(value) is int for value in column)


def _is_time(column: Column) -> bool:
    try:
        return all(parse_time(value, unit=None) and len(str(value)) > 7 for value in column)
    except ValidationError:
        return False


def _read_success(column: Column) -> Any:
    """Return how an outcome is read: it is true or false, or few words of which one is known."""
    words = sorted({str(value).strip() for value in column})
    lower = {word.lower() for word in words}
    if lower <= TRUTHS.keys():
        return True
    denied = {word for word in lower if any(no + word in lower for no in _DENIALS)}
    right = [word for word in words if word.lower() in lower & _GOOD | denied]
    wrong = [word for word in words if word not in right]
    return {"true": right, "false": wrong} if right and len(lower) <= 6 else None


def _read_score(column: Column) -> Any:
    try:
        numbers = [-1 if isinstance(value, bool) else float(value) for value in column]
    except (TypeError, ValueError):
        return None
    low, high = min(numbers), max(numbers)
    fitting = [limits for limits in _RANGES if limits[0] <= low and high <= limits[1]]
    if not fitting or fitting[0] == (0, 1):
        return bool(fitting)
    return {"range": list(fitting[0])}


_FITTING: Mapping[str, Read] = {
    "success": _read_success,
    "score": _read_score,
    "source_key": lambda column: _is_name(column) and len(set(map(str, column))) == len(column),
    "strategy": lambda column: (
        _is_text(column) or all(isinstance(one, list) and _is_text(one) for one in column)
    ),
    **dict.fromkeys(("ended_at", "started_at"), _is_time),
    **dict.fromkeys(("task_type", "user", "agent", "task"), _is_name),
}


def _propose_steps(path: str, columns: Columns) -> dict[str, str] | None:
    items = [item for value in columns[path] if isinstance(value, list) for item in value]
    if path.rpartition(".")[2].lower() not in USUAL["steps"]["at"] or not items:
        return None
    if not all(isinstance(item, dict) for item in items):
        return None
    inner = {
        name: [item[name] for item in items if name in item] for item in items for name in item
    }
    found: dict[str, str] = {"at": path}
    for part, usual in USUAL["steps"]["fields"].items():
        read: Read = _is_text if part == "tool" else bool
        name, form = _choose(inner, usual, read, set(found.values()))
        if form is not None:
            found[part] = name
    if not {"tool", "observation"} <= found.keys():
        return None
    return {"action": found["tool"], **found}  # a map must say it, also where no step has arguments


def _show(name: str, form: Any, columns: Columns) -> str:
    """Return a form, how its values are read, and one of them."""
    path = form if isinstance(form, str) else form["field"]
    known = re.sub(r"^.*\{([^@{}]+)\}$", r"\1", path)
    value = columns[known][0]
    said = "" if isinstance(form, str) else _write({**form, "field": None})
    if name in ("ended_at", "started_at"):
        said = f"{parse_time(value, unit=None):%Y-%m-%d %H:%M:%S %Z}"
    example = ends(json.dumps(value, ensure_ascii=False), 60)
    return f"{path}, such as {example}" + (f": {said}" if said else "")


def _write(form: Any) -> str:
    """Return a value of TOML."""
    if isinstance(form, Mapping):
        items = (f"{name} = {_write(one)}" for name, one in form.items() if one is not None)
        return f"{{ {', '.join(items)} }}"
    return json.dumps(form, ensure_ascii=False)
