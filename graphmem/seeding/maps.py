"""Field maps: a user's table that says what the fields of a log mean.

A map is a line (``task=prompt,strategy=tool,success=ok``), a TOML file, a folder of them, or in
Python a dict: of fields, or of all that a table may say (:mod:`graphmem.seeding.schema`). Times
without a zone are in UTC, if the map names no other ``zone``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from graphmem.errors import SeedingError, ValidationError
from graphmem.seeding.formats import Format
from graphmem.seeding.schema import Table
from graphmem.seeding.tables import TableReader

Map = str | Path | Mapping[str, Any]
NAME = "map"
"""The source of episodes that are read by a map without a file of its own."""
_NEXT = re.compile(r",(?=\s*\w+\s*=)")
_IN_BRACES = re.compile(r"\{([^{}@][^{}]*)\}")
_EXAMPLE = "for instance task=prompt,strategy=tool,success=ok, or name a TOML file"


def read_map(given: Map) -> list[Format]:
    """Return the formats that a map describes: one, or one for each file of a folder.

    Raises:
        SeedingError: the file cannot be read, or says something that no table may say.
        ValidationError: the line or the dict does.
    """
    if isinstance(given, Mapping):
        return [_make_format(NAME, given)]
    path = Path(given)
    if isinstance(given, str) and "=" in given and not path.exists():
        return [_make_format(NAME, _read_line(given))]
    files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
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
