"""Episodes: one attempt of an agent at a task, with its outcome."""

from __future__ import annotations

from math import fsum
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field

from graphmem.errors import ValidationError, shown
from graphmem.models.advice import Choice
from graphmem.models.fields import (
    AS_TUPLE,
    MAX_CANDIDATES,
    MAX_STEPS,
    MAX_STRATEGIES,
    MAX_TEXTS,
    MAX_WAY,
    Chance,
    Finite,
    Flag,
    Input,
    Json,
    JsonObject,
    Moment,
    Name,
    Text,
    TypeName,
    Unit,
    Value,
    finite_json,
)

_SPARE = 0.01
"""How far the sum of candidates' probabilities may be from 1, as logs round them."""
Candidates = Annotated[
    dict[Name, Unit], Field(max_length=MAX_CANDIDATES), AfterValidator(finite_json)
]


class StrategyUse(Input):
    """One strategy in an episode.

    ``credit`` in [0, 1] weighs the score. ``shown`` says whether the memory offered the strategy. A
    strategy with ``applied=False`` is recorded, but not counted as tried.

    For a strategy that was chosen by chance, ``propensity`` in (0, 1] is the probability with which
    it was chosen, ``explore`` the way to choose (``thompson``, ``greedy``, ``ucb``, ``epsilon``, or
    a short name of your own), and ``candidates`` the probabilities of all strategies that could be
    chosen, by text; they sum to 1. With candidates you can leave out ``propensity``.
    """

    text: Name
    credit: Unit = 1.0
    shown: bool | None = None
    applied: bool = True
    propensity: Chance | None = None
    explore: Annotated[Name, Field(max_length=MAX_WAY)] | None = None
    candidates: Candidates | None = None

    def __init__(self, text: str | None = None, /, **data: Any) -> None:
        super().__init__(**(data if text is None else {"text": text, **data}))

    def model_post_init(self, _: Any, /) -> None:
        """Check the candidates, and take the propensity from them."""
        if self.candidates is None:
            return
        chance, total = self.candidates.get(self.text, 0.0), fsum(self.candidates.values())
        if not chance or abs(total - 1.0) > _SPARE:
            problem = f"give {shown(self.text, 80)} the probability {chance:.6g}"
            problem += f", and sum to {total:.6g}"
            remedy = "give the probabilities of all strategies that could be chosen; they sum to 1"
            raise ValidationError("candidates", self.candidates, problem, remedy)
        if self.propensity is None:
            self.__dict__["propensity"] = chance
        elif abs(self.propensity - chance) > _SPARE:
            problem = f"is not that of the strategy among the candidates, {chance:.6g}"
            remedy = "leave it out, or give the same"
            raise ValidationError("propensity", self.propensity, problem, remedy)


class Step(Input):
    """One step of an episode; with ``state`` and ``next_state`` or ``terminal``, a transition.

    Its policy is that of ``policies.update(state, action_type, spec=action)``, and without a type,
    for an action that is a text, that of ``policies.update(state, action)``.
    """

    action_type: Name = "action"
    action: Json = None
    observation: Text | None = None
    reward: Value | None = None
    error: Text | None = None
    state: JsonObject | None = None
    next_state: JsonObject | None = None
    terminal: bool | None = None


class MistakeCard(Input):
    """One mistake of an episode, described so that a repetition can be recognized.

    Cards with the same ``type``, ``task`` (default: the episode's), ``worker`` and
    ``correct_decision`` are the same mistake; ``seen`` counts the cards.
    """

    type: Name
    task: Name | None = None
    worker: Name | None = None
    correct_decision: Name | None = None
    bad_decision: Text | None = None
    evidence: Text | None = None
    lesson: Text | None = None
    extra: JsonObject = {}  # noqa: RUF012 - pydantic copies it


_Uses = str | StrategyUse | Annotated[list[str | StrategyUse], Field(max_length=MAX_STRATEGIES)]


def _uses(value: object) -> object:
    if value is None:
        raise ValidationError("strategy", None, "is missing", "give a text, or [] for none")
    items = list(value) if isinstance(value, list | tuple) else [value]
    return tuple(map(_use, items))


def _use(item: object) -> object:
    if isinstance(item, str):
        return {"text": item}
    if not isinstance(item, Choice):
        return item
    names = ("text", "propensity", "explore", "candidates")
    return {"shown": True} | {name: getattr(item, name) for name in names}


_Texts = Annotated[tuple[Name, ...], AS_TUPLE, Field(max_length=MAX_TEXTS)]


class _Work(Input):
    """The work of an agent on a task."""

    task: Name
    strategy: Annotated[
        tuple[StrategyUse, ...],
        BeforeValidator(_uses, json_schema_input_type=_Uses),
        Field(max_length=MAX_STRATEGIES),
    ]
    agent: Name = "default"
    user: Name | None = None
    task_type: TypeName | None = None
    task_key: Name | None = None
    steps: Annotated[tuple[Step, ...], AS_TUPLE, Field(max_length=MAX_STEPS)] = ()
    error: Text | None = None
    started_at: Moment | None = None
    ended_at: Moment | None = None
    source: Name | None = None
    extra: JsonObject = {}  # noqa: RUF012 - pydantic copies it

    def model_post_init(self, _: Any, /) -> None:
        """Check conditions that span several fields."""
        if self.started_at and self.ended_at and self.started_at > self.ended_at:
            problem = f"lies before started_at {self.started_at.isoformat()}"
            raise ValidationError("ended_at", self.ended_at, problem)
        seen = set()
        for use in self.strategy:
            if use.text in seen:
                problem = "is given twice in one episode"
                raise ValidationError("strategy", use.text, problem, "give it once")
            seen.add(use.text)


class Episode(_Work):
    """One attempt of an agent at a task, with its outcome.

    Give ``success``, or ``score`` in [0, 1], or both. ``reward`` is any finite number (default: the
    score). Datetimes need a time zone. ``successes`` and ``mistakes`` are sentences about what went
    well and badly; rules come from them. An empty list of strategies means that none is known.
    Without ``source_key``, ``occurrence`` tells equal episodes apart; by default they are numbered.
    """

    success: Flag | None = None
    score: Unit | None = None
    reward: Finite | None = None
    feedback: Text | None = None
    summary: Text | None = None
    successes: _Texts = ()
    mistakes: _Texts = ()
    mistake_cards: Annotated[tuple[MistakeCard, ...], AS_TUPLE, Field(max_length=MAX_TEXTS)] = ()
    duration: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    source_key: Name | None = None
    occurrence: Name | None = None

    def __init__(self, /, **data: Any) -> None:
        super().__init__(**data)

    def model_post_init(self, _: Any, /) -> None:
        """Check conditions that span several fields."""
        super().model_post_init(_)
        if self.success is None and self.score is None:
            remedy = "give success as true or false, or a score in [0, 1]"
            raise ValidationError("success", None, "the outcome is unknown", remedy)
        if (one := self.occurrence) and self.source_key:
            problem = "is for episodes without a source key"
            raise ValidationError("occurrence", one, problem, "leave one of them out")


class AbandonedAttempt(_Work):
    """An attempt that ended without an outcome: it is recorded, and counts nowhere.

    ``key`` identifies it. ``error`` is what ended it, if something was raised.
    """

    abandoned: Literal[True] = True
    key: Name
    started_at: Moment
    ended_at: Moment

    def __init__(self, /, **data: Any) -> None:
        super().__init__(**data)

    def record(self) -> dict[str, Any]:
        """Return it as a JSON object, without unset fields."""
        record = self.model_dump(mode="json", exclude_defaults=True)
        return {"abandoned": True, **record, "strategy": record["strategy"]}


class SettlementRecord(Input):
    """An outcome of an episode that was told later: a line of an export.

    The episode is named by its source key, else by the hash of its content and its occurrence.
    ``revived`` says that it was an attempt without an outcome before.
    """

    held: Literal["settlement"] = "settlement"
    source_key: Name | None = None
    content_hash: Name | None = None
    occurrence: Name | None = None
    at: Moment
    score: Unit
    error: Text | None = None
    revived: bool = False


class Outcome(NamedTuple):
    """The resolved outcome of an episode."""

    success: bool
    score: float
    reward: float


def resolve(episode: Episode, threshold: float) -> Outcome:
    """Return success, score and reward of an episode: given ones, or what follows from others."""
    score, success = episode.score, episode.success
    if score is None:
        score = 1.0 if success else 0.0
    elif success is None:
        success = score >= threshold
    elif success != (score >= threshold):
        problem = f"contradicts score {score} (a score of {threshold} or more is a success)"
        remedy = "give one of them, or put the other measure into reward"
        raise ValidationError("success", success, problem, remedy)
    reward = score if episode.reward is None else episode.reward
    return Outcome(bool(success), score + 0.0, reward + 0.0)
