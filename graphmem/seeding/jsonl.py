"""graphmem's own format: JSON lines, one episode a line, fields as in :class:`Episode`.

An export also has lines of abandoned attempts, of levels and of their entries, which an import
stores; they are no episodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

from graphmem.errors import ValidationError
from graphmem.ids import from_millis
from graphmem.levels.exchange import LEVELS_RECORDS, LevelsRecord
from graphmem.models.episodes import AbandonedAttempt, Episode, SettlementRecord
from graphmem.models.forecasts import PriorRecord
from graphmem.seeding.formats import Format, Origin, Record, Refused, Unsettled
from graphmem.seeding.reading import BOM, read_lines

Held = Episode | AbandonedAttempt | SettlementRecord | PriorRecord | LevelsRecord
"""What a line of an export holds."""
_HELD: dict[str, type[Held]] = {"settlement": SettlementRecord, "prior": PriorRecord}
_HELD |= LEVELS_RECORDS


def detect(head: bytes) -> bool:
    """Return whether the first line is an object with a task and a strategy."""
    line = head.removeprefix(BOM).lstrip().split(b"\n", 1)[0]
    if not line.startswith(b"{") or b'"turn_history"' in line or b'"traj"' in line:
        return False
    return b'"task"' in line and b'"strategy"' in line


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the episodes of a file; blank lines are skipped."""
    for item in _read(stream, origin, may_be_open=True):
        if not isinstance(item, tuple):
            yield item
        elif isinstance(item[1], Episode):
            yield item[0], item[1]
        else:
            field = "abandoned" if isinstance(item[1], AbandonedAttempt) else "held"
            reason = "is no episode with an outcome; `graphmem upkeep import` stores it"
            yield Refused(item[0], field, reason)


def read_all(stream: BinaryIO, origin: Origin) -> Iterator[tuple[int, Held] | Refused]:
    """Yield the episodes and all else that an export holds."""
    for item in _read(stream, origin, may_be_open=False):
        if not isinstance(item, Unsettled):
            yield item


def _read(
    stream: BinaryIO, origin: Origin, *, may_be_open: bool
) -> Iterator[tuple[int, Held] | Unsettled | Refused]:
    for number, line in read_lines(stream, origin.limits):
        unsettled = None
        try:
            if isinstance(line, ValidationError):
                raise line
            item = _kind(line).from_json(line)
        except ValidationError as error:
            if may_be_open and isinstance(line, bytes):
                unsettled = _open(number, line, error, by_field=origin.strategy_from is not None)
            yield unsettled or Refused(number, error.field, str(error))
            continue
        yield number, item


def _open(number: int, line: bytes, error: ValidationError, *, by_field: bool) -> Unsettled | None:
    """Return a line that lacks only an outcome, or strategies that a field gives."""
    if error.value is not None or error.field not in ("success", "strategy"):
        return None
    fields = json.loads(line)
    if fields.get("strategy") is None and not by_field:
        return None
    done = [step for step in fields.get("steps") or () if isinstance(step, dict)]
    return Unsettled(
        number,
        {name: value for name, value in fields.items() if name != "strategy"},
        strategy=fields.get("strategy"),
        tools=[str(step.get("action_type", "action")) for step in done],
        record=fields,
        unknown=error if error.field == "success" else None,
    )


def _kind(line: bytes) -> type[Held]:
    if b'"abandoned"' in line or b'"held"' in line:
        with suppress(ValueError):  # the error of an episode says what is wrong
            value = json.loads(line)
            if isinstance(value, dict) and value.get("abandoned") is True:
                return AbandonedAttempt
            if isinstance(value, dict) and isinstance(value.get("held"), str):
                return _HELD.get(value["held"], Episode)
    return Episode


def record(
    content: Mapping[str, Any],
    source_key: str | None = None,
    occurrence: str | None = None,
    source: str | None = None,
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


FORMATS = (Format("jsonl", "graphmem's own JSON lines, one episode a line", detect, read),)
