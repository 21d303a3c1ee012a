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
ORIGIN = ("source_key", "occurrence", "source")
"""Fields that say where an episode came from."""
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
    for number, line in read_lines(stream, origin.limits):
        try:
            held = _parse(line)
        except ValidationError as error:
            refused = Refused(number, error.field, str(error))
            by_field = origin.strategy_from is not None
            yield _open(number, line, error, by_field=by_field) or refused
            continue
        if isinstance(held, Episode):
            yield number, held
            continue
        field = "abandoned" if isinstance(held, AbandonedAttempt) else "held"
        reason = "is no episode with an outcome; `graphmem upkeep import` stores it"
        yield Refused(number, field, reason)


def read_all(stream: BinaryIO, origin: Origin) -> Iterator[tuple[int, Held] | Refused]:
    """Yield the episodes and all else that an export holds."""
    for number, line in read_lines(stream, origin.limits):
        try:
            yield number, _parse(line)
        except ValidationError as error:
            yield Refused(number, error.field, str(error))


def _open(
    number: int, line: bytes | ValidationError, error: ValidationError, *, by_field: bool
) -> Unsettled | None:
    """Return a line that lacks only an outcome, or strategies that a field gives."""
    lacks = error.value is None and error.field in ("success", "strategy")
    if not lacks or not isinstance(line, bytes):
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


def _parse(line: bytes | ValidationError) -> Held:
    if isinstance(line, ValidationError):
        raise line
    kind: type[Held] = Episode
    if b'"abandoned"' in line or b'"held"' in line:
        with suppress(ValueError):  # the error of an episode says what is wrong
            value = json.loads(line)
            if isinstance(value, dict) and value.get("abandoned") is True:
                kind = AbandonedAttempt
            elif isinstance(value, dict):
                kind = _HELD.get(str(value.get("held")), Episode)
    return kind.from_json(line)


def record(content: Mapping[str, Any], origin: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object of a line from an episode's content and origin, as stored in the graph."""
    fields = {**content, **{name: origin[name] for name in ORIGIN}}
    for name in ("started_at", "ended_at"):
        moment = from_millis(content.get(name))
        fields[name] = None if moment is None else moment.isoformat()
    return {name: value for name, value in fields.items() if value is not None}


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a line."""
    episode_schema = Episode.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **episode_schema}


FORMATS = (Format("jsonl", "graphmem's own JSON lines, one episode a line", detect, read),)
