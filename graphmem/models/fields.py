"""Shared parts of the models: types of fields, base classes, and error messages.

Input models are strict, frozen and refuse unknown fields. Errors are turned into
:class:`graphmem.errors.ValidationError`, which names the field, the value and the remedy.
"""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache
from itertools import islice
from typing import Annotated, Any, Self, get_args

import pydantic
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
)

from graphmem.errors import ValidationError
from graphmem.ids import canonical_json, to_millis
from graphmem.printable import counted
from graphmem.text import answers

MAX_KEY = 10_000
"""Most characters in a task, strategy, agent or key."""
MAX_TYPE = 1_000
"""Most characters in a type of task, which is a key of an index: a server takes 8 kB there."""
MAX_TEXT = 1_000_000
"""Most characters in an observation, error, feedback, summary or one JSON value."""
MAX_VALUE = 1e100
"""Largest absolute reward or value to learn from, so that no number of updates overflows."""
MAX_STRATEGIES = 200
"""Most strategies in one episode (its co-occurrence edges grow with the square)."""
MAX_CANDIDATES = 200
"""Most candidates among which one strategy was chosen."""
MAX_WAY = 100
"""Most characters in the name of a way to choose."""
MAX_TEXTS = 200
"""Most successes, mistakes, or mistake cards in one episode."""
MAX_STEPS = 20_000
"""Most steps in one episode."""
MAX_ITEMS = 10_000  # items that are looked at where only a part of as many is allowed


def _normal(text: str) -> str:
    text = unicodedata.normalize("NFC", text).strip()
    if not text:
        raise ValueError("must not be empty")
    return text


def _flag(value: object) -> object:
    return bool(value) if type(value).__name__ in ("bool", "bool_") else value  # numpy's, too


def _moment(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("is not an ISO 8601 date and time") from None


def _in_utc(moment: datetime) -> datetime:
    try:
        moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("is outside years 1 to 9999 in UTC") from None
    return moment


def _items(value: object) -> object:
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        with contextlib.suppress(Exception):  # an object of the caller may raise anything
            return tuple(islice(value, MAX_ITEMS))  # it may never end
    return value


def finite_json(value: JsonValue) -> JsonValue:
    """Return a value that JSON can hold, and that is not too long."""
    if isinstance(value, str):
        text = value
    else:
        try:
            text = canonical_json(value)
        except RecursionError:
            raise ValueError("is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"must be JSON without NaN or infinity ({error})") from None
    if len(text) > MAX_TEXT:
        raise ValueError(f"must have at most {MAX_TEXT:,} characters as JSON")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("must not hold lone surrogates") from None
    return value


AS_SET = BeforeValidator(_items)
"""Takes a set, a list or other items, whose order does not count, where a tuple is stored."""
DISTINCT = AfterValidator(lambda texts: tuple(sorted(set(texts))))
"""Sorts texts, and takes each once."""
AS_TUPLE = BeforeValidator(
    lambda value: tuple(value) if isinstance(value, list | Iterator) else value
)
"""Takes a list, or the items of an iterator, where a tuple is stored."""
Name = Annotated[str, Field(max_length=MAX_KEY), AfterValidator(_normal)]
Searched = Annotated[str, Field(max_length=100_000), AfterValidator(_normal)]
SomeNames = Annotated[tuple[Name, ...], AS_TUPLE, Field(min_length=1, max_length=MAX_STRATEGIES)]
"""Strategies to compare, or to use together."""
TypeName = Annotated[
    str, Field(max_length=MAX_TYPE), AfterValidator(_normal), Field(max_length=MAX_TYPE)
]
"""Normalizing can lengthen a text, so its length is checked twice."""
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Json = Annotated[JsonValue, AfterValidator(finite_json)]
JsonObject = Annotated[dict[str, JsonValue], AfterValidator(finite_json)]
Moment = Annotated[
    AwareDatetime,
    BeforeValidator(_moment, json_schema_input_type=AwareDatetime),
    AfterValidator(_in_utc),
]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Value = Annotated[float, Field(ge=-MAX_VALUE, le=MAX_VALUE, allow_inf_nan=False)]
Unit = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
BatchSize = Annotated[int, Field(ge=1, le=100_000)]
Flag = Annotated[bool, BeforeValidator(_flag, json_schema_input_type=bool)]
Chance = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class _Model(BaseModel):
    """A model that is complete when it is first used: most programs use few of them."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    @classmethod
    def model_rebuild(cls, **how: Any) -> bool | None:
        """Complete the model, by the names of its module alone.

        Pydantic also reads the variables of its first user, which crashes Python 3.13.0 at times.
        """
        return super().model_rebuild(**{**how, "_parent_namespace_depth": 0})


class Input(_Model):
    """Base class of inputs."""

    model_config = ConfigDict(strict=True, extra="forbid")

    def __init__(self, /, **data: Any) -> None:
        try:
            super().__init__(**data)
        except pydantic.ValidationError as error:
            raise explain(error, type(self)) from None

    def __init_subclass__(cls, **how: Any) -> None:
        # Tells pydantic that this is not a custom constructor. Errors then name the whole path of a
        # nested field, and JSON is validated as JSON.
        cls.__init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]
        super().__init_subclass__(**how)

    @classmethod
    def from_arguments(cls, given: Mapping[str, Any]) -> Self:
        """Return what those of some values by name, such as ``locals()``, say that are fields."""
        return cls(**{name: given[name] for name in cls.model_fields if name in given})

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """Return what one JSON object says.

        Raises:
            ValidationError: it is not JSON, or a field is wrong.
        """
        try:
            return cls.model_validate_json(line)
        except pydantic.ValidationError as error:
            raise explain(error, cls) from None


@cache
def _model_of(name: str, kind: Any) -> type[Input]:
    fields: Any = {name: (kind, ...)}
    return pydantic.create_model("Argument", __base__=Input, **fields)


def checked(name: str, value: object, kind: Any) -> Any:
    """Return the value of one argument, as a field of this kind has it.

    A kind is kept for ever, with a model: give one that has a name, not one made for the call.

    Raises:
        ValidationError: it fits no such field; the error calls it by its name.
    """
    return getattr(_model_of(name, kind)(**{name: value}), name)


class Output(_Model):
    """Base class of outputs."""

    def __str__(self) -> str:
        """Return the answer in a few lines for people; ``repr`` has all of it."""
        return answers.printed(self)

    def _repr_html_(self) -> str:
        from graphmem.notebook import answer

        return answer(self)


def _short(part: str | int) -> str:
    """Return a part of a field path, shortened and printable: it may be an unknown field's name."""
    text = ascii(part)[1:-1] if isinstance(part, str) and not part.isprintable() else str(part)
    return text if len(text) <= 100 else f"{text[:80]}..."


def explain(error: pydantic.ValidationError, model: type[BaseModel]) -> ValidationError:
    """Turn pydantic's report into one clear error about the first problem."""
    problems = error.errors(include_url=False)
    first = problems[0]
    if isinstance(own := first.get("ctx", {}).get("error"), ValidationError):
        return own
    if first["type"] == "missing":  # a name near it may be there: that is the problem
        unknown = (one for one in problems if one["type"] == "extra_forbidden")
        missing = first["loc"][-1]
        first = next((one for one in unknown if _meant(one["loc"], model) == missing), first)
    parts = [_short(part) for part in first["loc"]]
    where = ".".join(parts[:8] + ["..."] * (len(parts) > 8)) or "episode"
    kind, value = first["type"], first["input"]
    message = first["msg"].removeprefix("Value error, ")
    problem, remedy = _WORDS.get(kind, ("", ""))
    problem = problem or message[:1].lower() + message[1:]
    if kind == "missing":
        return ValidationError(where, None, problem, remedy)
    if kind == "extra_forbidden":
        meant = _meant(first["loc"], model)
        remedy = f"did you mean {meant!r}?" if meant else remedy
        return ValidationError(where, value, problem, remedy)
    bound = first.get("ctx", {}).get("ge", first.get("ctx", {}).get("le"))
    if bound is not None and not isinstance(bound, float):  # a score is a float, and is scaled
        remedy = ""
    if kind == "bool_type" or where == "success":
        remedy = "give true or false, or a score in [0, 1]"
    others = [f"{counted(len(problems) - 1, 'problem')} more"] if len(problems) > 1 else []
    return ValidationError(where, value, problem, "; ".join(filter(None, [remedy, *others])))


def _meant(path: tuple[str | int, ...], model: type[BaseModel] | None) -> str | None:
    """Return the field of a model whose name is near the last part of a path."""
    for part in path[:-1]:
        if model is not None and isinstance(part, str):
            field = model.model_fields.get(part)
            model = None if field is None else _model_in(field.annotation)
    names = () if model is None else model.model_fields
    return next(iter(get_close_matches(str(path[-1])[:100].lower(), names, n=1, cutoff=0.75)), None)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a type is of, or holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


_WORDS = {
    "missing": ("is missing", "this field is required"),
    "extra_forbidden": ("is not a known field", "put free data into extra"),
    "string_unicode": ("contains a lone surrogate, which is not text", ""),
    "datetime_type": ("must be a date and time", "give a date and time with a time zone"),
    "timezone_aware": ("", "give a time zone, as in 2026-07-01T09:00:00Z"),
    "finite_number": ("", "give a finite number"),
    "string_too_long": ("", "shorten it"),
    "too_long": ("", "give fewer (an episode can be split)"),
    "too_short": ("is empty", "give at least one"),
    "greater_than": ("", "give a probability in (0, 1]"),
    "greater_than_equal": ("", "scale it"),
    "less_than_equal": ("", "scale it"),
    "string_type": ("", "give a text"),
    "tuple_type": ("must be a list", "give a list, also for a single one"),
    "model_type": (
        "must be an object",
        "give an object with its fields, or a text where that will do",
    ),
}
"""Problem and remedy of what pydantic says in other words, or without a remedy."""


def millis(moment: datetime | None) -> int | None:
    """Return ``moment`` in milliseconds since the epoch, or None."""
    return None if moment is None else to_millis(moment)
