"""Settles what a record leaves open: its outcome, and what counts as the strategy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from graphmem.episodes import naming
from graphmem.errors import ValidationError
from graphmem.models import Episode
from graphmem.seeding.chats import tools
from graphmem.seeding.formats import Record, Refused, Unsettled
from graphmem.seeding.outcomes import Joined, Outcomes
from graphmem.seeding.places import rename_field

UNKNOWN = "join one with --outcomes"


class Settling:
    """Turns records into episodes.

    Args:
        agent: overrides the agent in the log.
        strategy_from: what counts as the strategy; None: what the format says.
        evaluator: whose judgement counts; None: those of a record must agree.
        outcomes: what the log lacks.
        threshold: the least score of a success.

    Raises:
        ValidationError: a name is none.
    """

    def __init__(
        self,
        agent: str | None,
        strategy_from: str | None,
        evaluator: str | None,
        outcomes: Outcomes | None,
        threshold: float,
    ) -> None:
        for name, value in (("strategy_from", strategy_from), ("evaluator", evaluator)):
            if value is not None and not (isinstance(value, str) and value.strip()):
                raise ValidationError(name, value, "must be a text that is not blank")
        self._agent = agent
        self._strategy_from = strategy_from
        self._evaluator = evaluator
        self._outcomes = outcomes
        self._threshold = threshold

    def settle(self, records: Iterator[Record]) -> Iterator[tuple[int, Episode] | Refused]:
        """Yield episodes and refusals."""
        for item in records:
            if isinstance(item, Refused):
                yield item
                continue
            record: Mapping[str, Any] = {}
            if isinstance(item, Unsettled):
                number, record, make = item.number, item.record, partial(self._episode, item)
            else:
                number, make = item[0], partial(self._checked, item[1])
            try:
                yield number, make()
            except ValidationError as error:
                wrong = rename_field(error, record)
                yield Refused(number, wrong.field, str(wrong))

    def _episode(self, item: Unsettled) -> Episode:
        fields = {name: value for name, value in item.fields.items() if value is not None}
        own = self._judged(item.outcomes)
        joined = None
        if self._outcomes is not None:
            joined = self._outcomes.find(fields.get("source_key"), item.names)
        if own is None and not {"success", "score"} & fields.keys():
            own = joined
            if own is None:
                raise item.unknown or ValidationError("outcome", None, "is unknown", UNKNOWN)
        if own is not None:
            fields |= {"success": own.success, "score": own.score}
        fields["strategy"] = self._strategies(item, fields)
        if self._agent is not None:
            fields["agent"] = self._agent
        episode = Episode(**fields)
        if own is not joined:
            self._compare(episode, joined)
        return episode

    def _checked(self, episode: Episode) -> Episode:
        """Return an episode with the strategies asked for, if nothing contradicts its outcome."""
        if self._outcomes is not None:
            self._compare(episode, self._outcomes.find(episode.source_key))
        if self._strategy_from is None:
            return episode
        content = episode.model_dump(mode="json", exclude={"steps"}, exclude_none=True)
        model = episode.extra.get("model")
        names = naming.strategies(
            self._strategy_from,
            tools=tools(episode.steps),
            model=model if isinstance(model, str) else None,
            agent=episode.agent,
            fields={**episode.extra, **content},
        )
        return Episode(**{**dict(episode), "strategy": list(dict.fromkeys(names))})

    def _judged(self, outcomes: Mapping[str, bool | float]) -> Joined | None:
        if not outcomes:
            return None
        names = ", ".join(sorted(outcomes))
        if self._evaluator is not None and self._evaluator not in outcomes:
            problem = "did not judge this record"
            raise ValidationError("evaluator", self._evaluator, problem, f"there is {names}")
        value, *others = outcomes.values()
        if self._evaluator is not None:
            value = outcomes[self._evaluator]
        elif any(other != value for other in others):
            remedy = "name one with --evaluator"
            raise ValidationError("evaluator", None, f"judgements differ: {names}", remedy)
        return Joined(success=value) if isinstance(value, bool) else Joined(score=value)

    def _compare(self, own: Episode, joined: Joined | None) -> None:
        if joined is None:
            return

        def success(outcome: Episode | Joined) -> bool:
            scored = outcome.score is not None and outcome.score >= self._threshold
            return scored if outcome.success is None else outcome.success

        scores = {own.score, joined.score}
        if success(own) != success(joined) or (None not in scores and len(scores) == 2):
            raise ValidationError(
                "outcome",
                joined.score if joined.success is None else joined.success,
                f"in {self._outcomes.name if self._outcomes else ''} contradicts the log's own",
                "leave it out there, or correct it",
            )

    def _strategies(self, item: Unsettled, fields: Mapping[str, Any]) -> Any:
        by = self._strategy_from
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
