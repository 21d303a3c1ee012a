"""Episodes of Sentinel, an agent-oversight project, as forms: the objects in its files.

A form that graphmem wrote has a field ``graphmem`` with the episode's source key, or with the whole
episode if the form cannot express it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, BinaryIO

from graphmem.episodes.rows import FIRST
from graphmem.errors import SeedingError, ValidationError, has_surrogate, shown
from graphmem.ids import canonical_json
from graphmem.models.episodes import Episode
from graphmem.printable import counted
from graphmem.seeding.formats import Format, Origin, Record, read_record, rename_field
from graphmem.seeding.jsonl import ORIGIN, record
from graphmem.seeding.reading import Limits, Values, parse_exact
from graphmem.seeding.schema import Table

VERSION = 1
"""Highest supported version of a file; files without a version are older."""
OWN = "graphmem"
LOG = "episode_log"
"""The list of forms in a file."""
TOTAL = "total_episodes"
LOGGED = 100
"""Most forms that Sentinel keeps."""
NO_FILE = f"is not a Sentinel file: an object with a list {LOG!r} is needed"
SOURCE = "sentinel"
UNKNOWN = "unknown_mistake"
"""The type of a card that gives none."""
EARLIEST = 1_000_000_000
"""Smaller timestamps (before September 2001) do not count from the epoch."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CARD_FIELDS = {
    "type": ("mistake_type", "type"),
    "task": ("task_id", "task"),
    "worker": ("worker_id", "worker"),
    "correct_decision": ("correct_decision",),
    "bad_decision": ("bad_decision",),
    "evidence": ("evidence",),
    "lesson": ("lesson",),
}
_ITEMS: dict[str, type] = {"successes": str, "mistakes": str, "mistake_cards": Mapping}
_NAMES = {"task": "task_id", "task_key": "task_id", "summary": "trajectory_summary"}
"""The names of an episode's fields in a form."""

Form = Mapping[str, Any]


def detect(head: bytes) -> bool:
    """Return whether it is a file with episodes."""
    names: set[str] = set()
    values = Values(io.BytesIO(head), Limits())
    with suppress(SeedingError):  # the head ends somewhere inside
        for name in values.members():
            names.add(name)
            values.skip()
    return LOG in names or {TOTAL, "global_rules"} <= names


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the episodes with their position in the file."""
    for number, index, form in _read_forms(stream, origin.limits):
        make = partial(episode, source_key=f"{origin.stem}/{index}")
        yield read_record(number, TABLE.record, form, make)


def episode(form: Form, *, source_key: str | None = None) -> Episode:
    """Return the episode of a form."""
    if not isinstance(form, Mapping):
        raise ValidationError("episode", form, "must be an object with task_id and score")
    for name in form:
        if not isinstance(name, str) or has_surrogate(name):
            raise ValidationError("episode", name, "is not the name of a field", "give a text")
    form, _ = mend(form)
    fields, own = _read_fields(form), form.get(OWN)
    if own is None:
        return _episode(form, fields, source_key=source_key, source=SOURCE)
    if not isinstance(own, Mapping) or not own.keys() <= {"episode", *ORIGIN}:
        raise ValidationError(OWN, own, "is not what graphmem writes", "leave it out")
    if "episode" in own:
        restored = _restored(own["episode"], form)
    else:
        restored = _episode(form, fields, **{name: own.get(name) for name in ORIGIN})
    if restored.source_key is None and restored.occurrence is None:
        return restored.model_copy(update={"occurrence": FIRST})
    return restored


def mend(form: Form) -> tuple[Form, tuple[str, ...]]:
    """Return a form as Sentinel understood it, and what was mended.

    That is: a score as a text, one item for a list, items that say nothing, cards without a type.
    """
    if not isinstance(form, Mapping):
        return form, ()
    mended, warnings = dict(form), list[str]()
    if isinstance(score := form.get("score"), str):
        with suppress(ValueError):
            mended["score"] = float(score)
            warnings.append(f"score: the text {score!r} was taken as a number")
    for name, kind in _ITEMS.items():
        items = form.get(name)
        if items and isinstance(items, kind):
            items = [items]
            warnings.append(f"{name}: it is not a list, and was taken as one item")
        if not isinstance(items, list | tuple):
            continue
        mended[name] = [one for one in items if isinstance(one, kind)]
        if left := len(items) - len(mended[name]):
            warnings.append(f"{name}: {counted(left, 'item')} left out that say nothing")
    cards: Any = mended.get("mistake_cards")
    for place, card in enumerate(cards if isinstance(cards, list) else ()):
        if not any(card.get(name) for name in _CARD_FIELDS["type"]):
            cards[place] = {**card, "mistake_type": UNKNOWN}
            warnings.append(f"mistake_cards.{place}: it has no type, and was taken as {UNKNOWN!r}")
    return (mended, tuple(warnings)) if warnings else (form, ())


def is_live(form: Form) -> bool:
    """Return whether a form tells what just happened: it gives no time, not even a vague one."""
    return form.get("timestamp") is None and OWN not in form


def identity(form: Form) -> str | None:
    """Return a source key for a form that has an id (``episode_id``, else ``id``), else None."""
    for name in ("episode_id", "id"):
        value = form.get(name) if isinstance(form, Mapping) else None
        if value is not None:
            return f"{SOURCE}/{_text(value, name)}"
    return None


def write(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of an episode's content, without what has no field there."""
    form = {"task_id": content.get("task_key", content["task"]), "score": content["score"]}
    form["summary"] = content.get("summary", "")
    for name in ("successes", "mistakes", "task_type"):
        if name in content:
            form[name] = content[name]
    if "mistake_cards" in content:
        form["mistake_cards"] = [card_form(card) for card in content["mistake_cards"]]
    if content["agent"] != "default":
        form["agent"] = content["agent"]
    return {**form, **{k: v for k, v in content.get("extra", {}).items() if k not in form}}


def mark(origin: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the field ``graphmem`` of a form says of an episode's origin."""
    told = ("source_key", "source", *(() if origin["occurrence"] is None else ("occurrence",)))
    return {name: origin[name] for name in told}


def write_whole(content: Mapping[str, Any], origin: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of an episode with its whole content in the field ``graphmem``."""
    line = record(content, origin)
    fields = {name: content[name] for name in ("task", "task_key", "score") if name in content}
    fields |= {"summary": content.get("summary", ""), "agent": "default"}
    count = content.get("extra", {}).get("steps")
    count = count if type(count) is int else len(content.get("steps", ()))
    form = {"timestamp": line.get("ended_at"), **write(fields), "steps": count}
    return {**form, OWN: {"episode": line}}


def check_version(version: Any) -> None:
    """Raise for a file of a newer version."""
    if isinstance(version, int | float) and version >= VERSION + 1:
        raise SeedingError(
            f"version: it was written by version {version:g}, this graphmem knows {VERSION}; "
            "upgrade graphmem"
        )


def read_places(values: Values, take: Callable[[str], None]) -> Iterator[int]:
    """Yield the place, from 1, of each form of a file; the caller then reads the form.

    ``take`` reads what stands besides the forms, by its name.
    """
    seen: set[str] = set()
    for name in values.members():
        if name in seen:
            raise SeedingError(f"the name {shown(name)} stands twice in one object")
        seen.add(name)
        if name != LOG:
            take(name)
        elif values.peek() in (b"[", b""):
            yield from values.items()
        else:
            raise SeedingError(f"{LOG}: is not a list of episodes")
    if LOG not in seen:
        raise SeedingError(NO_FILE)
    values.end()


def _read_forms(stream: BinaryIO, limits: Limits) -> Iterator[tuple[int, int, Callable[[], Any]]]:
    """Yield the place of each form, its number among all that there were, and what reads it."""
    values, told = Values(stream, limits), dict[str, Any]()

    def take(name: str) -> None:
        if name not in ("version", TOTAL):
            values.skip()
            return
        try:
            told[name] = values.value()
        except ValidationError as error:
            raise SeedingError(f"{name}: {error.problem}") from None
        check_version(told.get("version"))

    for number in read_places(values, take):
        total = told.get(TOTAL)
        before = max(total - LOGGED, 0) if isinstance(total, int) else 0
        yield number, before + number, partial(values.value, parse_exact)


def _read_fields(form: Form) -> dict[str, Any]:
    """Return the fields of an episode that a form tells; the rest stays in ``extra``."""
    extra = {name: value for name, value in form.items() if name != OWN}
    if extra.get("task_id") is None:
        raise ValidationError("task_id", None, "is missing", "this field is required")
    task = _text(extra.pop("task_id"), "task_id")
    fields: dict[str, Any] = {"task": task, "task_key": task}
    if extra.get("score") is not None:
        fields["score"] = extra.pop("score")
    elif isinstance(extra.get("success"), bool):
        fields["success"] = extra.pop("success")
        extra.pop("score", None)
    else:
        raise ValidationError(
            "score", None, "is missing, so the outcome is unknown", "give a number in [0, 1]"
        )
    in_log = extra.get("trajectory_summary") is None and "summary" in extra
    fields["summary"] = extra.pop("summary" if in_log else "trajectory_summary", None)
    for name in ("successes", "mistakes"):
        texts = _pop_list(extra, name, "texts")
        fields[name] = [one for one in texts if not isinstance(one, str) or one.strip()]
    cards = enumerate(_pop_list(extra, "mistake_cards", "cards"))
    fields["mistake_cards"] = [_card(card, f"mistake_cards.{place}") for place, card in cards]
    for name, field in (("agent", "agent"), ("agent_id", "agent"), ("task_type", "task_type")):
        if field not in fields and isinstance(extra.get(name), str) and extra[name].strip():
            fields[field] = extra.pop(name)
    fields["ended_at"] = _moment(extra.get("timestamp"))
    fields["extra"] = extra
    return fields


def _episode(form: Form, fields: dict[str, Any], **origin: Any) -> Episode:
    try:
        return Episode(**fields, strategy=[], steps=(), **origin)
    except ValidationError as error:
        named = rename_field(error, dict(form))
        if named is not error:
            raise named from None
        first, _, rest = error.field.partition(".")
        field = rest if first == "extra" and rest else _NAMES.get(first, error.field)
        raise ValidationError(field, error.value, error.problem, error.remedy) from None


def _pop_list(extra: dict[str, Any], name: str, what: str) -> Sequence[Any]:
    """Return a list of a form, and take it out there."""
    value = extra.pop(name, None)
    if value is not None and not isinstance(value, list | tuple):
        raise ValidationError(name, value, f"must be a list of {what}")
    return value or ()


def _card(card: Form, where: str) -> dict[str, Any]:
    """Return the fields of a mistake card; texts that are none stay in ``extra``."""
    extra = dict(card)
    fields: dict[str, Any] = {}
    for field, names in _CARD_FIELDS.items():
        name = next((name for name in names if extra.get(name) is not None), None)
        if name is None:
            continue
        value, free = extra[name], field in ("bad_decision", "evidence", "lesson")
        if not free:
            value = _text(value, f"{where}.{name}")
        if isinstance(value, str) and (free or value.strip()):
            fields[field] = value
            del extra[name]
    fields["extra"] = extra
    return fields


def card_form(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form of a mistake card's content."""
    names = {field: names[0] for field, names in _CARD_FIELDS.items()}
    fields = {names[field]: value for field, value in card.items() if field in names}
    return {**card.get("extra", {}), **fields}


def _text(value: Any, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return canonical_json(value)
    raise ValidationError(where, value, "must be a text", "give a text")


def _moment(value: Any) -> datetime | None:
    """Return the time of a timestamp; None if it is not exact."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo and moment.astimezone(UTC) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= EARLIEST:
            return _EPOCH + timedelta(seconds=value)
    except (ValueError, OverflowError):
        return None
    return None


def _restored(own: Any, form: Form) -> Episode:
    """Return the episode that graphmem stored in a form, whose task and score must agree."""
    try:
        restored = Episode.from_json(canonical_json(own))
    except ValidationError as error:
        field = f"{OWN}.episode.{error.field}"
        raise ValidationError(field, error.value, error.problem, error.remedy) from None
    except (ValueError, TypeError) as error:
        raise ValidationError(f"{OWN}.episode", own, f"is not JSON: {error}") from None
    score = restored.score if restored.score is not None else float(bool(restored.success))
    for name, should in (("task_id", restored.task_key or restored.task), ("score", score)):
        if form.get(name) != should:
            problem = f"differs from what {OWN}.episode says beside it"
            remedy = f"change both, or leave {OWN} out"
            raise ValidationError(name, form.get(name), problem, remedy)
    return restored


TABLE = Table.load(SOURCE)
FORMATS = (Format(SOURCE, TABLE.doc, detect, read, mapping=TABLE.mapping),)
