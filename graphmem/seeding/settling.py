"""Settles what a record leaves open: its outcome, and what counts as the strategy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from graphmem.episodes import naming
from graphmem.errors import ValidationError
from graphmem.models import Episode
from graphmem.seeding.chats import tools
from graphmem.seeding.formats import Later, Record, Refused, Unsettled
from graphmem.seeding.outcomes import Joined, Outcomes
from graphmem.seeding.places import rename_field

UNKNOWN = "join one with --outcomes"


@dataclass(frozen=True, slots=True)
class Settling:
    """Turns records into episodes."""

    agent: str | None
    strategy_from: str | None
    evaluator: str | None
    """Whose judgement counts; None: those of a record must agree."""
    outcomes: Outcomes | None
    threshold: float

    def __post_init__(self) -> None:
        for name in ("strategy_from", "evaluator"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value.strip()):
                raise ValidationError(name, value, "must be a text that is not blank")

    def settle(self, records: Iterator[Record]) -> Iterator[tuple[int, Episode | Later] | Refused]:
        """Yield episodes, later outcomes of others, and refusals."""
        for item in records:
            if isinstance(item, Refused):
                yield item
                continue
            record: Mapping[str, Any] = {}
            if isinstance(item, Unsettled):
                number, record = item.number, item.record
                make = partial(self._later if item.later else self._episode, item)
            else:
                number, make = item[0], partial(self._check, item[1])
            try:
                yield number, make()
            except ValidationError as error:
                wrong = rename_field(error, record)
                yield Refused(number, wrong.field, str(wrong))

    def _episode(self, item: Unsettled) -> Episode:
        fields = {name: value for name, value in item.fields.items() if value is not None}
        own = self._judge(item.outcomes)
        joined = None
        if self.outcomes is not None:
            joined = self.outcomes.find(fields.get("source_key"), item.names)
        if own is None and not {"success", "score"} & fields.keys():
            own = joined
            if own is None:
                raise item.unknown or ValidationError("outcome", None, "is unknown", UNKNOWN)
        if own is not None:
            fields |= {"success": own.success, "score": own.score}
        fields["strategy"] = self._strategies(item, fields)
        if self.agent is not None:
            fields["agent"] = self.agent
        episode = Episode(**fields)
        if own is not joined:
            self._compare(episode, joined)
        return episode

    def _later(self, item: Unsettled) -> Later:
        own = self._judge(item.outcomes)
        if own is None:
            raise item.unknown or ValidationError("outcome", None, "is unknown")
        return Later(item.fields["source_key"], own.success, own.score, item.told_at)

    def _check(self, episode: Episode) -> Episode:
        """Return an episode with the strategies asked for, if nothing contradicts its outcome."""
        if self.outcomes is not None:
            self._compare(episode, self.outcomes.find(episode.source_key))
        if self.strategy_from is None:
            return episode
        content = episode.model_dump(mode="json", exclude={"steps"}, exclude_none=True)
        model = episode.extra.get("model")
        names = naming.strategies(
            self.strategy_from,
            tools=tools(episode.steps),
            model=model if isinstance(model, str) else None,
            agent=episode.agent,
            fields={**episode.extra, **content},
        )
        return Episode(**{**dict(episode), "strategy": list(dict.fromkeys(names))})

    def _judge(self, outcomes: Mapping[str, bool | float]) -> Joined | None:
        if not outcomes:
            return None
        names = ", ".join(sorted(outcomes))
        if self.evaluator is not None and self.evaluator not in outcomes:
            problem = "did not judge this record"
            raise ValidationError("evaluator", self.evaluator, problem, f"there is {names}")
        value, *others = outcomes.values()
        if self.evaluator is not None:
            value = outcomes[self.evaluator]
        elif any(other != value for other in others):
            remedy = "name one with --evaluator"
            raise ValidationError("evaluator", None, f"judgements differ: {names}", remedy)
        return Joined(success=value) if isinstance(value, bool) else Joined(score=value)

    def _compare(self, own: Episode, joined: Joined | None) -> None:
        if joined is None:
            return

        def success(outcome: Episode | Joined) -> bool:
            scored = outcome.score is not None and outcome.score >= self.threshold
            return scored if outcome.success is None else outcome.success

        scores = {own.score, joined.score}
        if success(own) != success(joined) or (None not in scores and len(scores) == 2):
            raise ValidationError(
                "outcome",
                joined.score if joined.success is None else joined.success,
                f"in {self.outcomes.name if self.outcomes else ''} contradicts the log's own",
                "leave it out there, or correct it",
            )

    def _strategies(self, item: Unsettled, fields: Mapping[str, Any]) -> Any:
        by = self.strategy_from
        if by is None and item.strategy is not None:
            return item.strategy
        called = item.tools
        if called is None and "steps" in fields:
            called = tools(fields["steps"])
        if called is None and by in (None, naming.TOOLS):
            if by is None:
                return []
            raise ValidationError(by, None, "are not told here", "name something else")
        names = naming.strategies(
            by or naming.TOOLS,
            tools=called or (),
            model=item.model,
            agent=fields.get("agent"),
            fields={**fields, **item.record},
        )
        return list(dict.fromkeys(names))
