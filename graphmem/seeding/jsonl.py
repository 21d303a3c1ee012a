"""graphmem's own format: JSON lines, one episode a line, fields as in :class:`Episode`.

An export also has lines of abandoned attempts, of levels and of their entries, which an import
stores; they are no episodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO

from graphmem.errors import ValidationError
from graphmem.ids import from_millis
from graphmem.models import AbandonedAttempt, Episode
from graphmem.models.flow import LEVELS_RECORDS, LevelsRecord
from graphmem.seeding.formats import Format, Origin, Record, Refused, Unsettled
from graphmem.seeding.reading import BOM, read_lines


def detect(head: bytes) -> bool:
    """Return whether the first line is an object with a task and a strategy."""
    line = head.removeprefix(BOM).lstrip().split(b"\n", 1)[0]
    if not line.startswith(b"{") or b'"turn_history"' in line or b'"traj"' in line:
        return False
    return b'"task"' in line and b'"strategy"' in line


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the episodes of a file; blank lines are skipped."""
    for item in _records(stream, origin, partial(_open, by_field=origin.strategy_from is not None)):
        if isinstance(item, Refused | Unsettled):
            yield item
        elif isinstance(item[1], Episode):
            yield item[0], item[1]
        elif isinstance(item[1], AbandonedAttempt):
            reason = "is an attempt without an outcome; `graphmem upkeep import` stores it"
            yield Refused(item[0], "abandoned", reason)
        else:
            reason = "is of a level, and no episode; `graphmem upkeep import` stores it"
            yield Refused(item[0], "held", reason)


def read_all(
    stream: BinaryIO, origin: Origin
) -> Iterator[tuple[int, Episode | AbandonedAttempt | LevelsRecord] | Refused]:
    """Yield the episodes, abandoned attempts, levels, entries and lenses of a file.

    Blank lines are skipped.
    """
    for item in _records(stream, origin, None):
        if not isinstance(item, Unsettled):
            yield item


def _records(
    stream: BinaryIO,
    origin: Origin,
    unsettled: Callable[[int, bytes, ValidationError], Unsettled | None] | None,
) -> Iterator[tuple[int, Episode | AbandonedAttempt | LevelsRecord] | Unsettled | Refused]:
    for number, line in read_lines(stream, origin.limits):
        try:
            if isinstance(line, ValidationError):
                raise line
            item = _kind(line).from_json(line)
        except ValidationError as error:
            open_ = (
                unsettled(number, line, error) if unsettled and isinstance(line, bytes) else None
            )
            yield open_ or Refused(number, error.field, str(error))
            continue
        if origin.agent and isinstance(item, Episode | AbandonedAttempt):
            item = item.model_copy(update={"agent": origin.agent})
        yield number, item


def _open(number: int, line: bytes, error: ValidationError, *, by_field: bool) -> Unsettled | None:
    """Return a line that lacks only an outcome, or strategies that a field gives."""
    if error.value is not None or error.field not in ("success", "strategy"):
        return None
    fields = json.loads(line)
    if fields.get("strategy") is None and not by_field:
        return None
    done = [step for step in fields.get("steps") or () if isinstance(step, dict)]
    unknown = error if error.field == "success" else None
    return Unsettled(
        number,
        {name: value for name, value in fields.items() if name != "strategy"},
        strategy=fields.get("strategy"),
        tools=[str(step.get("action_type", "action")) for step in done],
        record=fields,
        unknown=unknown,
    )


def _kind(line: bytes) -> type[Episode | AbandonedAttempt | LevelsRecord]:
    if b'"abandoned"' not in line and b'"held"' not in line:
        return Episode
    try:
        value = json.loads(line)
    except ValueError:
        return Episode  # its error says what is wrong
    if not isinstance(value, dict):
        return Episode
    if value.get("abandoned") is True:
        return AbandonedAttempt
    held = value.get("held")
    return LEVELS_RECORDS.get(held, Episode) if isinstance(held, str) else Episode


def record(
    content: Mapping[str, Any], source_key: str | None, occurrence: str | None, source: str | None
) -> dict[str, Any]:
    """Return the object of a line from an episode's content and origin, as stored in the graph."""
    fields = {**content, "source_key": source_key, "occurrence": occurrence, "source": source}
    for name in ("started_at", "ended_at"):
        moment = from_millis(content.get(name))
        fields[name] = None if moment is None else moment.isoformat()
    return {name: value for name, value in fields.items() if value is not None}


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a line."""
    episode_schema = Episode.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **episode_schema}


def dump(episode: Episode) -> str:
    """Return the line of an episode, without unset fields."""
    values = episode.model_dump(mode="json", exclude_defaults=True)
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


FORMAT = Format("jsonl", "graphmem's own JSON lines, one episode a line", detect, read)
FORMATS = (FORMAT,)
