"""What goes in and what comes out, as pydantic models.

Input models are strict, frozen and refuse unknown fields. Errors are turned into
:class:`graphmem.errors.ValidationError`, which names the field, the value and the remedy.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

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

MAX_KEY = 10_000
"""Characters in a task, strategy, agent or key."""
MAX_TEXT = 1_000_000
"""Characters in an observation, error, feedback, summary or one JSON value."""
MAX_STRATEGIES = 200
"""Strategies in one episode (its co-occurrence edges grow with the square)."""
MAX_STEPS = 20_000
"""Steps in one episode."""


def _normal(text: str) -> str:
    text = unicodedata.normalize("NFC", text).strip()
    if not text:
        raise ValueError("must not be empty")
    return text


def _moment(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("is no ISO 8601 date and time") from None


def _finite_json(value: JsonValue) -> JsonValue:
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


Name = Annotated[str, Field(max_length=MAX_KEY), AfterValidator(_normal)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Json = Annotated[JsonValue, AfterValidator(_finite_json)]
JsonObject = Annotated[dict[str, JsonValue], AfterValidator(_finite_json)]
Moment = Annotated[AwareDatetime, BeforeValidator(_moment, json_schema_input_type=AwareDatetime)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Unit = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class _Input(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    def __init__(self, /, **data: Any) -> None:
        try:
            super().__init__(**data)
        except pydantic.ValidationError as error:
            raise explain(error) from None

    # Not a constructor of its own in pydantic's eyes: parts of an episode then keep their place
    # in an error, and JSON is validated as JSON.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


class StrategyUse(_Input):
    """One strategy in an episode.

    ``credit`` in [0, 1] weighs the score; ``shown`` says whether the memory offered it;
    a strategy that was not ``applied`` is recorded but not counted as tried.
    """

    text: Name
    credit: Unit = 1.0
    shown: bool | None = None
    applied: bool = True

    def __init__(self, text: str | None = None, /, **data: Any) -> None:
        super().__init__(**(data if text is None else {"text": text, **data}))

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


class Step(_Input):
    """One step of an episode; ``state``, ``next_state`` and ``terminal`` make it a transition."""

    action_type: Name = "action"
    action: Json = None
    observation: Text | None = None
    reward: Finite | None = None
    error: Text | None = None
    state: JsonObject | None = None
    next_state: JsonObject | None = None
    terminal: bool | None = None


_Uses = (
    str
    | StrategyUse
    | Annotated[list[str | StrategyUse], Field(min_length=1, max_length=MAX_STRATEGIES)]
)


def _uses(value: object) -> object:
    items = list(value) if isinstance(value, list | tuple) else [value]
    return tuple({"text": item} if isinstance(item, str) else item for item in items)


def _steps(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class Episode(_Input):
    """What an agent did once, and what came of it.

    One of ``success`` and ``score`` must be given; ``score`` is in [0, 1], ``reward`` is any
    finite number (default: the score). Datetimes must carry a time zone.
    """

    task: Name
    strategy: Annotated[
        tuple[StrategyUse, ...],
        BeforeValidator(_uses, json_schema_input_type=_Uses),
        Field(min_length=1, max_length=MAX_STRATEGIES),
    ]
    success: bool | None = None
    score: Unit | None = None
    reward: Finite | None = None
    agent: Name = "default"
    task_type: Name | None = None
    task_key: Name | None = None
    steps: Annotated[tuple[Step, ...], BeforeValidator(_steps), Field(max_length=MAX_STEPS)] = ()
    error: Text | None = None
    feedback: Text | None = None
    summary: Text | None = None
    started_at: Moment | None = None
    ended_at: Moment | None = None
    duration: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    source_key: Name | None = None
    source: Name | None = None
    extra: JsonObject = {}

    def __init__(self, /, **data: Any) -> None:
        super().__init__(**data)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def from_json(cls, line: str | bytes) -> Episode:
        """Return the episode of one JSON object.

        Raises:
            ValidationError: it is not JSON, or a field is wrong.
        """
        try:
            return cls.model_validate_json(line)
        except pydantic.ValidationError as error:
            raise explain(error) from None

    def model_post_init(self, _: Any, /) -> None:
        """Check what concerns several fields."""
        if self.success is None and self.score is None:
            raise ValidationError(
                "success",
                None,
                "the outcome is unknown",
                "give success=True or False, or a score in [0, 1]",
            )
        for name in ("started_at", "ended_at"):
            moment = getattr(self, name)
            try:
                if moment is not None:
                    moment.astimezone(UTC)
            except OverflowError:
                raise ValidationError(name, moment, "is outside years 1 to 9999 in UTC") from None
        if self.started_at and self.ended_at and self.started_at > self.ended_at:
            raise ValidationError(
                "ended_at", self.ended_at, f"lies before started_at {self.started_at.isoformat()}"
            )
        seen = set()
        for use in self.strategy:
            if use.text in seen:
                raise ValidationError(
                    "strategy", use.text, "is given twice in one episode", "give it once"
                )
            seen.add(use.text)


class Outcome(BaseModel):
    """The outcome of an episode, resolved."""

    model_config = ConfigDict(frozen=True)

    success: bool
    score: float
    reward: float


def resolve(episode: Episode, threshold: float) -> Outcome:
    """Return success, score and reward of ``episode``.

    Success is the given one, else ``score >= threshold``; the score of an episode that has only a
    success is 1 or 0; the reward defaults to the score.

    Raises:
        ValidationError: success and score contradict each other.
    """
    score, success = episode.score, episode.success
    if score is None:
        score = 1.0 if success else 0.0
    elif success is None:
        success = score >= threshold
    elif success != (score >= threshold):
        raise ValidationError(
            "success",
            success,
            f"contradicts score {score} (a score of {threshold} or more is a success)",
            "give one of them, or put the other measure into reward",
        )
    reward = score if episode.reward is None else episode.reward
    return Outcome.model_construct(success=bool(success), score=score + 0.0, reward=reward + 0.0)


def _short(part: str | int) -> str:
    """Return a part of a place, which may be the name of an unknown field: short and printable."""
    text = ascii(part)[1:-1] if isinstance(part, str) and not part.isprintable() else str(part)
    return text if len(text) <= 100 else f"{text[:80]}..."


def explain(error: pydantic.ValidationError) -> ValidationError:
    """Turn pydantic's report into one clear error about its first finding."""
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {}).get("error")
    if isinstance(context, ValidationError):
        return context
    parts = [_short(part) for part in first["loc"]]
    where = ".".join(parts[:8] + ["..."] * (len(parts) > 8)) or "episode"
    kind, value = first["type"], first["input"]
    problem = first["msg"].removeprefix("Value error, ")
    problem = problem[:1].lower() + problem[1:]
    if kind in {"missing", "missing_argument"}:
        return ValidationError(where, None, "is missing", "this field is required")
    if kind == "extra_forbidden":
        return ValidationError(
            where, value, "is not a known field", "put free data into extra={...}"
        )
    if kind == "string_unicode":
        problem = "holds a lone surrogate, which is no text"
    remedy = _REMEDIES.get(kind, "")
    if kind == "bool_type" or where == "success":
        remedy = "give True or False, or a score in [0, 1]"
    more = error.error_count() - 1
    if more:
        remedy = f"{remedy}; {more} more problem(s)" if remedy else f"{more} more problem(s)"
    return ValidationError(where, value, problem, remedy)


_REMEDIES = {
    "timezone_aware": "give a time zone, for instance datetime.now(timezone.utc)",
    "datetime_type": "give a datetime with a time zone",
    "finite_number": "give a finite number",
    "string_too_long": "shorten it",
    "tuple_too_long": "split the episode",
    "too_long": "split the episode",
    "greater_than_equal": "scale it",
    "less_than_equal": "scale it",
    "string_type": "give a text",
    "model_type": "give a text, a StrategyUse or a Step",
}


def content(episode: Episode, outcome: Outcome) -> dict[str, Any]:
    """Return what makes an episode the same episode: everything but where it was read from.

    Times are milliseconds; missing things are left out, so that a field added later to the
    models does not change the content of old episodes.
    """
    values: dict[str, Any] = {
        "task": episode.task,
        "task_key": episode.task_key,
        "task_type": episode.task_type,
        "agent": episode.agent,
        "strategy": [use_content(use) for use in episode.strategy],
        "success": outcome.success,
        "score": outcome.score,
        "reward": outcome.reward,
        "steps": [step_content(step) for step in episode.steps] or None,
        "error": episode.error,
        "feedback": episode.feedback,
        "summary": episode.summary,
        "started_at": millis(episode.started_at),
        "ended_at": millis(episode.ended_at),
        "duration": episode.duration,
        "extra": episode.extra or None,
    }
    return {name: value for name, value in values.items() if value is not None}


def use_content(use: StrategyUse) -> dict[str, Any]:
    """Return a use of a strategy as it is hashed and compared."""
    values = {"text": use.text, "credit": use.credit, "applied": use.applied}
    return values if use.shown is None else {**values, "shown": use.shown}


_STEP_FIELDS = tuple(Step.model_fields)


def step_content(step: Step) -> dict[str, Any]:
    """Return a step as it is hashed and compared."""
    values = step.__dict__
    return {name: values[name] for name in _STEP_FIELDS if values[name] is not None}


def millis(moment: datetime | None) -> int | None:
    """Return ``moment`` in milliseconds since the epoch, or None."""
    return None if moment is None else to_millis(moment)


class _Output(BaseModel):
    model_config = ConfigDict(frozen=True)


class Learned(_Output):
    """The answer of ``learn``: ``created`` is False when the memory had the episode already."""

    episode_id: str
    created: bool


class Rejection(_Output):
    """One record that was refused: where it stood, and why."""

    index: int
    """Position in the input, from 0."""
    field: str
    reason: str
    source_key: str | None = None


class LearnReport(_Output):
    """The answer of ``learn_many``: counts, and the refused ones with their reasons."""

    created: int
    skipped: int
    rejected: tuple[Rejection, ...] = ()


Status = Literal["established", "refuted", "tentative"]


class StrategyRow(_Output):
    """What is known of a strategy (on a task, of an agent, or overall).

    ``mean`` is the posterior mean of the success rate under a Beta prior, ``lower`` and ``upper``
    the Wilson score bounds (Wilson 1927, JASA 22:209-212), all in [0, 1].
    """

    id: str
    text: str
    trials: int
    successes: int
    mean: float
    lower: float
    upper: float
    status: Status
    mean_score: float | None
    last_used_at: datetime | None
    tasks: int
    agents: tuple[str, ...]


class Stats(_Output):
    """Counts of one namespace, and the engine that holds it."""

    url: str
    engine: str
    namespace: str
    schema_version: int
    episodes: int = 0
    successes: int = 0
    steps: int = 0
    tasks: int = 0
    agents: int = 0
    strategies: int = 0
    outcomes: int = 0
    co_occurrences: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    snapshot_age: float | None = None
    """Seconds since the snapshot was taken, where another process writes; else None."""


class Difference(_Output):
    """One number that is not what the facts say (``stored`` or ``expected`` is None if absent)."""

    kind: str
    key: str
    field: str
    stored: JsonValue
    expected: JsonValue


class VerifyReport(_Output):
    """The answer of ``verify``: ``ok`` when every derived number follows from the facts."""

    ok: bool
    differences: tuple[Difference, ...] = ()
    checked: Mapping[str, int] = {}


class RebuildReport(_Output):
    """The answer of ``rebuild``: how many derived items were written and removed."""

    strategies: int
    tasks: int
    agents: int
    outcomes: int
    co_occurrences: int
    removed: int


class EraseReport(_Output):
    """The answer of ``erase``: what went."""

    episode_id: str
    steps: int
    removed: tuple[str, ...]
    """Labels of nodes that nothing else supported and that went with the episode."""
