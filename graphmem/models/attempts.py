"""Attempts that ended without an outcome."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from graphmem.errors import ValidationError
from graphmem.models.episodes import Step, StrategyUse
from graphmem.models.fields import (
    AS_TUPLE,
    MAX_STEPS,
    MAX_STRATEGIES,
    JsonObject,
    Line,
    Moment,
    Name,
    Text,
    TypeName,
)


class AbandonedAttempt(Line):
    """An attempt that ended without an outcome: it is recorded, and counts nowhere.

    ``key`` identifies it. ``error`` is what ended it, if something was raised.
    """

    abandoned: Literal[True] = True
    key: Name
    task: Name
    strategy: Annotated[tuple[StrategyUse, ...], AS_TUPLE, Field(max_length=MAX_STRATEGIES)]
    agent: Name = "default"
    task_type: TypeName | None = None
    task_key: Name | None = None
    steps: Annotated[tuple[Step, ...], AS_TUPLE, Field(max_length=MAX_STEPS)] = ()
    error: Text | None = None
    started_at: Moment
    ended_at: Moment
    source: Name | None = None
    extra: JsonObject = {}  # noqa: RUF012 - pydantic copies it

    def __init__(self, /, **data: Any) -> None:
        super().__init__(**data)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def model_post_init(self, _: Any, /) -> None:
        """Check conditions that span several fields."""
        if self.started_at > self.ended_at:
            raise ValidationError(
                "ended_at", self.ended_at, f"lies before started_at {self.started_at.isoformat()}"
            )

    def record(self) -> dict[str, Any]:
        """Return it as a JSON object, without unset fields."""
        record = self.model_dump(mode="json", exclude_defaults=True)
        return {"abandoned": True, **record, "strategy": record["strategy"]}
