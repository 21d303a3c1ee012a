"""What AsyncMemory returns, as type checkers see it; mypy checks this file with all others."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, assert_type

from graphmem import AsyncMemory, async_memory
from graphmem.async_memory import AsyncLens
from graphmem.episodes.attempts import AsyncAttempt
from graphmem.levels.producers import Watch
from graphmem.models.choices import Choice
from graphmem.models.communities import Community
from graphmem.models.consolidation import ConsolidationReport
from graphmem.models.cycles import Cycle, CycleReport
from graphmem.models.evaluations import Evaluation
from graphmem.models.events import Event, Pending
from graphmem.models.exchange import ExportReport, ImportReport
from graphmem.models.explanations import Evidence, Explanation
from graphmem.models.flow import MaintainReport, Subscription, TickReport
from graphmem.models.forecasts import Calibration, OutcomePrediction
from graphmem.models.knowledge import Knowledge
from graphmem.models.lenses import LensInfo
from graphmem.models.lessons import AntiPattern, Heuristic, MemorySummary, Mistake, Rule, Score
from graphmem.models.levels import Added, Entry, Found, Level, LevelInfo
from graphmem.models.looking import EpisodeRow, Item, TaskRow
from graphmem.models.maps import LevelStatistics, MemoryMap
from graphmem.models.policies import (
    CrystallizeReport,
    EpisodesLearned,
    LinkedPolicy,
    Point,
    Policy,
    TDUpdate,
)
from graphmem.models.predictions import Prediction, Reliability
from graphmem.models.recall import Recall
from graphmem.models.reports import (
    BackupReport,
    EraseReport,
    ForgetReport,
    Learned,
    LearnReport,
    LossReport,
    RebuildReport,
    Stats,
    StrategyRow,
    VerifyReport,
)
from graphmem.models.scopes import Scope
from graphmem.models.similarity import RelinkReport, SimilarStrategy
from graphmem.models.users import Preference
from graphmem.notebook.frames import Listed
from graphmem.policies.events import Consumer
from graphmem.policies.listening import Listening
from graphmem.store.port import Rows

P = ParamSpec("P")
R = TypeVar("R")


def result(method: Callable[P, Coroutine[Any, Any, R]]) -> R:
    """Stand for what a method returns that is awaited."""
    raise NotImplementedError(method)


def made(method: Callable[P, R]) -> R:
    """Stand for what a method returns that is not."""
    raise NotImplementedError(method)


def checked(memory: AsyncMemory, lens: AsyncLens) -> None:
    """Is never called."""
    assert_type(result(memory.close), None)
    assert_type(result(memory.learn), Learned)
    assert_type(made(memory.attempt), AsyncAttempt)
    assert_type(made(memory.current_attempt), AsyncAttempt)
    assert_type(made(memory.watch), Watch)
    assert_type(result(memory.learn_many), LearnReport)
    assert_type(result(memory.record_episode), Learned)
    assert_type(result(memory.context), str)
    assert_type(result(memory.recall), Recall)
    assert_type(result(memory.choose), Choice)
    assert_type(result(memory.predict), OutcomePrediction)
    assert_type(result(memory.explain), Explanation)
    assert_type(result(memory.strategies), Listed[StrategyRow])
    assert_type(result(memory.evidence), Listed[Evidence])
    assert_type(result(memory.episodes), Listed[EpisodeRow])
    assert_type(result(memory.tasks), Listed[TaskRow])
    assert_type(result(memory.show), Item)
    assert_type(result(memory.similar), Listed[SimilarStrategy])
    assert_type(result(memory.communities), Listed[Community])
    assert_type(result(memory.to_networkx), Any)
    assert_type(result(memory.calibrate), Calibration)
    assert_type(result(memory.evaluate), Evaluation)
    assert_type(result(memory.query), Rows)
    assert_type(result(memory.stats), Stats)
    assert_type(result(memory.verify), VerifyReport)
    assert_type(result(memory.lessons.consolidation_due), bool)
    assert_type(result(memory.lessons.consolidate), ConsolidationReport)
    assert_type(result(memory.lessons.merge), str)
    assert_type(result(memory.lessons.unmerge), int)
    assert_type(result(memory.lessons.heuristics), Listed[Heuristic])
    assert_type(result(memory.lessons.anti_patterns), Listed[AntiPattern])
    assert_type(result(memory.lessons.rules), Listed[Rule])
    assert_type(result(memory.lessons.mistakes), Listed[Mistake])
    assert_type(result(memory.lessons.scores), Listed[Score])
    assert_type(result(memory.lessons.summary), MemorySummary)
    assert_type(result(memory.policies.update), TDUpdate)
    assert_type(result(memory.policies.update_many), Listed[TDUpdate])
    assert_type(result(memory.policies.observe), str)
    assert_type(result(memory.policies.observe_many), int)
    assert_type(result(memory.policies.set_q), None)
    assert_type(result(memory.policies.set_many), None)
    assert_type(result(memory.policies.signal), float)
    assert_type(result(memory.policies.get), Policy | None)
    assert_type(result(memory.policies.by_id), Policy)
    assert_type(result(memory.policies.best), Policy | None)
    assert_type(result(memory.policies.values), Listed[Policy])
    assert_type(result(memory.policies.top), Listed[Policy])
    assert_type(result(memory.policies.seen), bool)
    assert_type(result(memory.policies.seen_many), list[bool])
    assert_type(result(memory.policies.history), Listed[Point])
    assert_type(result(memory.policies.history_many), dict[str, list[Point]])
    assert_type(result(memory.policies.link), float)
    assert_type(result(memory.policies.strengthen), float)
    assert_type(result(memory.policies.weaken), float)
    assert_type(result(memory.policies.unlink), None)
    assert_type(result(memory.policies.linked), Listed[LinkedPolicy])
    assert_type(result(memory.policies.propagate), dict[str, float])
    assert_type(result(memory.policies.learn_episodes), EpisodesLearned)
    assert_type(result(memory.policies.crystallize), CrystallizeReport)
    assert_type(result(memory.levels.put), Level)
    assert_type(result(memory.levels.default), Listed[Level])
    assert_type(result(memory.levels.names), list[str])
    assert_type(result(memory.levels.info), LevelInfo)
    assert_type(result(memory.levels.close), int)
    assert_type(result(memory.levels.add), Added)
    assert_type(result(memory.levels.remove), int)
    assert_type(result(memory.levels.prolong), int)
    assert_type(result(memory.levels.pull), Subscription)
    assert_type(result(memory.levels.unpull), bool)
    assert_type(result(memory.levels.tick), TickReport)
    assert_type(result(memory.levels.maintain), MaintainReport)
    assert_type(result(memory.levels.start), None)
    assert_type(result(memory.levels.stop), None)
    assert_type(result(memory.levels.entries), Listed[Entry])
    assert_type(result(memory.levels.recall), Listed[Found])
    assert_type(result(memory.levels.map), MemoryMap)
    assert_type(result(memory.levels.statistics), LevelStatistics)
    assert_type(result(memory.levels.tags), dict[str, int])
    assert_type(result(memory.levels.put_lens), LensInfo)
    assert_type(result(memory.levels.lenses), Listed[LensInfo])
    assert_type(result(memory.levels.remove_lens), None)
    assert_type(result(memory.levels.lens), AsyncLens)
    assert_type(result(memory.people.prefer), Preference)
    assert_type(result(memory.people.preferences), Listed[Preference])
    assert_type(result(memory.people.know), Knowledge)
    assert_type(result(memory.people.knowledge), Listed[Knowledge])
    assert_type(result(memory.scopes.set), Scope)
    assert_type(result(memory.scopes.list), Listed[Scope])
    assert_type(result(memory.scopes.get), Scope | None)
    assert_type(result(memory.scopes.remove), bool)
    assert_type(made(memory.events.listen), Listening)
    assert_type(result(memory.events.run), int)
    assert_type(result(memory.events.stop), None)
    assert_type(result(memory.events.consume), Consumer)
    assert_type(result(memory.events.tail), Listed[Event])
    assert_type(result(memory.events.positions), dict[str, int])
    assert_type(result(memory.events.since), Listed[Event])
    assert_type(result(memory.events.pending), Listed[Pending])
    assert_type(result(memory.predictions.expect), Prediction)
    assert_type(result(memory.predictions.resolve), Prediction)
    assert_type(result(memory.predictions.feedback), Listed[Prediction])
    assert_type(result(memory.predictions.expire), int)
    assert_type(result(memory.predictions.get), Prediction)
    assert_type(result(memory.predictions.open), Listed[Prediction])
    assert_type(result(memory.predictions.list), Listed[Prediction])
    assert_type(result(memory.predictions.reliability), Reliability)
    assert_type(result(memory.cycles.discover), Listed[Cycle])
    assert_type(result(memory.cycles.examine), CycleReport)
    assert_type(result(memory.cycles.list), Listed[Cycle])
    assert_type(result(memory.upkeep.initialize), int)
    assert_type(result(memory.upkeep.rebuild), RebuildReport)
    assert_type(result(memory.upkeep.erase), EraseReport)
    assert_type(result(memory.upkeep.forget), ForgetReport)
    assert_type(result(memory.upkeep.relink), RelinkReport)
    assert_type(result(memory.upkeep.pending), dict[str, int])
    assert_type(result(memory.upkeep.embedded_with), str | None)
    assert_type(result(memory.upkeep.export), ExportReport)
    assert_type(result(memory.upkeep.import_), ImportReport)
    assert_type(result(memory.upkeep.flush), int)
    assert_type(result(memory.upkeep.backup), BackupReport)
    assert_type(result(memory.upkeep.restore), BackupReport)
    assert_type(result(memory.upkeep.accept_loss), LossReport)
    assert_type(result(lens.recall), Listed[Found])


async def used(memory: AsyncMemory) -> None:
    """Is never called, either: arguments are known, too, and decorators keep what they get."""
    assert_type(await memory.learn("a task", "a way", success=True), Learned)
    await memory.learn("a task", 1, success=True)  # type: ignore[arg-type]
    await memory.learn("a task", "a way", succes=True)  # type: ignore[call-arg]

    @memory.remember("agent:ada:working")
    def seen(number: int) -> str:
        return str(number)

    assert_type(seen(1), str)
    seen("one")  # type: ignore[arg-type]

    @memory.events.on("episode.recorded", group="readers")
    def handle(event: Event) -> int:
        return event.seq

    handle("an event")  # type: ignore[arg-type]


def test_every_method_is_there() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    for name, kind in vars(async_memory).items():
        if not name.startswith("Async") or kind.__module__ != async_memory.__name__:
            continue
        part = name.removeprefix("Async").lower()
        owner = part if part in {"memory", "lens"} else f"memory.{part}"
        for method, value in vars(kind).items():
            if not method.startswith("_") and not isinstance(value, property | classmethod):
                told = re.search(rf"(result\(|made\(|@){re.escape(owner)}\.{method}\b", text)
                assert told, f"{owner}.{method}"
