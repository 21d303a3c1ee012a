"""What a table of a format, or a field map, may say: where records are, and which field is which.

A value of a table is a form: a path (``info.task``; ``info.task!`` if it has to be there), a text
with paths in braces, a constant that begins with ``=``, a chat that begins with ``?`` (what the
user says first), or a list of forms, of which the first that says something counts. A path goes
through JSON in a text, too. ``@name`` is no field of the record: ``@stem`` and ``@folder`` are of
the file, ``@key`` (its name; of an item, what stands before the list) and ``@number`` of the record
in it, ``@beside`` is the object in another file; others are groups of ``stem``, or in ``let``.
"""

from __future__ import annotations

import re
import tomllib
from datetime import tzinfo
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator

from graphmem.errors import ValidationError
from graphmem.models.episodes import Episode
from graphmem.models.fields import Input
from graphmem.seeding.reading import BOM

Form = str | list[str]
FIELDS = tuple(name for name in Episode.model_fields if name not in ("steps", "occurrence"))
"""The fields of an episode that a table may fill by a form."""


class Marks(Input):
    """How a file is recognised: by its first byte, and by all names of one of the lists."""

    first: str = "{"
    """What the first byte may be; nothing: any."""
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
        is_other = self.first and text[:1] not in self.first.encode()
        if not text[:1] or is_other or any(map(has, self.without)):
            return False
        if self.pattern is not None and re.search(self.pattern.encode(), text):
            return True
        return any(all(map(has, names)) for names in self.names)


class Places(Input):
    """Where records are.

    Objects are lines, follow each other, or are items of a list, which ``at`` may wrap; so are rows
    of a table (CSV). Members are those of an object; items are those of a list somewhere in an
    object, else that object. A list stands at the path ``at``.
    """

    form: Literal["objects", "members", "items", "list"] = "objects"
    key: Form | None = None
    """What the objects of a record share, which stand in any order; a function joins them."""
    at: str | None = None
    """The member of the object that has the records, if it is there."""
    skip: str | None = None
    """A member that may stand before it."""


class Folder(Input):
    """The folder of a run: files that are there, and the pattern of its logs."""

    has: list[str]
    logs: str


class Value(Input):
    """How a value reads, where its path alone does not say it."""

    field: Form
    true: list[str | bool | int | float] = []
    """Values that mean a success; with them alone, every other value means a failure."""
    false: list[str | bool | int | float] = []
    """Values that mean a failure; with them alone, every other value means a success."""
    least: float | None = None
    """The least number that is a success."""
    range: list[float] | None = None
    """The worst and the best number; the score is the place between them."""
    unit: Literal["s", "ms", "us", "ns"] | None = None
    """The unit of a number of time since 1970; None: what its size says."""
    zone: str | None = None
    """The time zone of a time that names none; None: that of the table."""

    def model_post_init(self, _: Any, /) -> None:
        """Check what has to fit together."""
        if self.range is not None and (len(self.range) != 2 or self.range[0] == self.range[1]):
            remedy = "for instance [1, 5]"
            raise ValidationError("range", self.range, "must be the worst and the best", remedy)
        find_zone(self.zone)


class Extra(Input):
    """What is kept beside the fields of an episode: all of the record but what they hold."""

    drop: list[str] = []
    add: dict[str, Form] = {}
    without: Literal["nothing", "null", "empty"] = "null"


class Steps(Input):
    """A list of steps; the tool is the first group of a pattern, what does not match is a reply."""

    at: str
    tool: str
    pattern: str = "(.*)"
    action: Form | dict[str, Form]
    observation: Form
    error: Form = []


class Spans(Input):
    """The spans of a trace: the names of their kinds, and their fields."""

    kinds: dict[str, str] = {}
    fields: dict[str, Form] = {}
    root: dict[str, Form] = {}
    """Fields of the trace that hold for its root."""
    whole: bool = False
    """Whether the root has to be there."""


def _read_values(fields: Any) -> Any:
    """Make values of the forms and tables, so that an error names its place."""
    if not isinstance(fields, dict):
        return fields
    made = {}
    for name, form in fields.items():
        try:
            made[name] = Value(**form) if isinstance(form, dict) else Value(field=form)
        except ValidationError as error:
            place = f"fields.{name}.{error.field}"
            raise ValidationError(place, error.value, error.problem, error.remedy) from None
    return made


class Table(Input):
    """A format of logs."""

    doc: str = ""
    mapping: str = ""
    record: str = "record"
    """What a record is called in a refusal."""
    marks: Marks = Marks(names=[])
    """By default no file has them: the table has to be named."""
    records: Places = Places()
    stem: str = ".*"
    """The pattern of the name of a file."""
    beside: str | None = None
    folder: Folder | None = None
    empty: dict[str, str] = {}
    """Patterns of values that say nothing, by their paths."""
    let: dict[str, Form] = {}
    fields: Annotated[dict[str, Value], BeforeValidator(_read_values)]
    zone: str | None = None
    """The time zone of times that name none; None: these are left out."""
    framed: bool = False
    """Whether a frame in the prompt may hold the task."""
    outcomes: Form = []
    """An object of outcomes, by who judged."""
    names: list[Form] = []
    """By what outcomes are joined, besides the source key."""
    model: Form = "model"
    extra: Extra = Extra()
    also: list[str] = []
    """Objects whose members count as fields, too, where a field is the strategy."""
    steps: Steps | None = None
    spans: Spans = Spans()

    def model_post_init(self, _: Any, /) -> None:
        """Check the names of fields."""
        find_zone(self.zone)
        for name, form in self.fields.items():
            if name not in FIELDS:
                near = get_close_matches(name, FIELDS, 1)
                remedy = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(FIELDS)}"
                raise ValidationError(f"fields.{name}", form, "is no field of an episode", remedy)

    @classmethod
    @cache
    def load(cls, name: str) -> Table:
        """Return the table of a format of graphmem."""
        path = Path(__file__).with_name("formats") / f"{name}.toml"
        return cls(**tomllib.loads(path.read_text("utf-8")))


def find_zone(name: str | None) -> tzinfo | None:
    """Return a time zone by its name."""
    try:
        return None if name is None else ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        remedy = "for instance 'UTC' or 'Europe/Berlin'"
        raise ValidationError("zone", name, "is no time zone", remedy) from None
