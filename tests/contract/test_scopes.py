"""Scopes: what agents may learn, and whose lessons they read."""

from __future__ import annotations

import contextlib
import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory
from graphmem.errors import NotFoundError, ScopeError, ValidationError
from graphmem.graph.access import Scopes, refusal
from graphmem.models.people import Scope
from tests.conftest import Opener

AGENTS = ["ada", "bob", "cyd", "dan"]
TYPES = ["sql", "sql_admin", "web", "general"]


@pytest.mark.parametrize(
    ("can", "cannot", "allowed"),
    [
        (None, (), {"sql", "sql_admin", "web", "general"}),
        (["sql"], (), {"sql"}),
        (["sql*"], (), {"sql", "sql_admin"}),
        (["sql_*"], (), {"sql_admin"}),
        (["*l*"], (), {"sql", "sql_admin", "general"}),
        (["*"], ["sql_admin"], {"sql", "web", "general"}),
        (["sql"], ["sql"], set()),
        (["sql", "web"], ["*sql*"], {"web"}),
        (None, ["*"], set()),
        ([], (), set()),
        (["SQL", "s.l", "[s]ql", "s?l"], (), set()),
    ],
)
def test_allowed_is_what_may_be_and_must_not(can: Any, cannot: Any, allowed: set[str]) -> None:
    scope = Scope(agent="ada", can_learn=can, cannot_learn=cannot)
    assert {name for name in TYPES if scope.allows(name)} == allowed


@hypothesis.settings(max_examples=200)
@hypothesis.given(pattern=st.text("ab*", min_size=1, max_size=8), text=st.text("ab", max_size=8))
def test_a_star_stands_for_any_text(pattern: str, text: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text)
    assert Scope(agent="ada", can_learn=[pattern]).allows(text) == bool(expected)


def test_a_refusal_names_agent_type_and_remedy() -> None:
    scopes = Scopes([Scope(agent="ada", can_learn=["sql"])])
    assert refusal(scopes, "ada", "sql") is None
    assert refusal(scopes, "bob", "web") is None
    error = refusal(scopes, "ada", "web")
    assert error is not None
    assert (error.field, error.value) == ("task_type", "web")
    assert "'ada' may not learn" in str(error)
    assert "change its scope" in str(error)


class TestViews:
    def view(self, agent: str | None, *scopes: Scope) -> tuple[str, ...] | None:
        return Scopes(scopes).view(agent).agents

    def test_inheriting_needs_both_sides(self) -> None:
        reads = Scope(agent="ada", inherit_from=["bob"])
        assert self.view("ada", reads) == ("ada",)
        assert self.view("ada", reads, Scope(agent="bob")) == ("ada",)
        assert self.view("ada", reads, Scope(agent="bob", share_with=["cyd"])) == ("ada",)
        assert self.view("ada", reads, Scope(agent="bob", share_with=["ada"])) == ("ada", "bob")
        assert self.view("ada", reads, Scope(agent="bob", share_with=["*"])) == ("ada", "bob")
        assert self.view("bob", reads, Scope(agent="bob", share_with=["*"])) == ("bob",)

    def test_it_goes_through_others_also_through_those_who_do_not_share(self) -> None:
        reads = Scope(agent="ada", inherit_from=["bob"])
        between = Scope(agent="bob", inherit_from=["cyd"])
        last = Scope(agent="cyd", share_with=["ada"])
        assert self.view("ada", reads, between, last) == ("ada", "cyd")
        assert self.view("bob", reads, between, last) == ("bob",)


class TestSetting:
    def test_a_scope_is_kept_as_it_was_set(self, memory: Memory) -> None:
        made = memory.scopes.set(
            "ada",
            can_learn=["web", "sql*", "web"],
            cannot_learn={"sql_admin"},  # type: ignore[arg-type]
            share_with=("bob",),
            inherit_from=["cyd"],
            min_occurrences=4,
        )
        assert made.can_learn == ("sql*", "web")
        assert memory.scopes.get(" ada ") == made
        assert memory.scopes.get("bob") is None
        plain = memory.scopes.set("bob")
        assert plain == Scope(agent="bob")
        assert memory.scopes.set("cyd", can_learn=[]).can_learn == ()
        assert memory.scopes.list() == [made, plain, Scope(agent="cyd", can_learn=[])]

    def test_setting_again_replaces_all_of_it(self, memory: Memory) -> None:
        memory.scopes.set("ada", can_learn=["sql"], share_with=["*"], min_occurrences=4)
        memory.scopes.set("ada", cannot_learn=["web"])
        assert memory.scopes.list() == [Scope(agent="ada", cannot_learn=["web"])]
        assert memory.scopes.remove("ada")
        assert not memory.scopes.remove("ada")
        assert memory.scopes.list() == []

    def test_an_erased_agent_is_in_no_scope(self, memory: Memory) -> None:
        memory.scopes.set("ada", share_with=["bob", "cyd"], inherit_from=["bob", "dan"])
        memory.scopes.set("bob", can_learn=["sql"])
        memory.upkeep.erase(agent="bob")
        assert memory.scopes.list() == [
            Scope(agent="ada", share_with=["cyd"], inherit_from=["dan"])
        ]


class TestCircles:
    def test_an_agent_cannot_inherit_from_itself(self, memory: Memory) -> None:
        with pytest.raises(ScopeError, match="'ada' inherits from 'ada'"):
            memory.scopes.set("ada", inherit_from=["bob", "ada"])
        assert memory.scopes.list() == []

    def test_nor_through_others(self, memory: Memory) -> None:
        memory.scopes.set("ada", inherit_from=["bob"])
        memory.scopes.set("bob", inherit_from=["cyd"])
        with pytest.raises(ScopeError) as caught:
            memory.scopes.set("cyd", inherit_from=["dan", "ada"], can_learn=["sql"])
        assert caught.value.field == "inherit_from"
        assert "'ada' inherits from 'cyd'" in str(caught.value)
        assert memory.scopes.get("cyd") is None
        memory.scopes.remove("bob")
        memory.scopes.set("cyd", inherit_from=["dan", "ada"])

    def test_writers_at_once_cannot_make_one_together(self, opened: Opener) -> None:
        """Each closes the ring by itself is fine; all of them would make a circle."""
        for ring in (AGENTS[:2], AGENTS):
            memory = opened(f"ring-{uuid4().hex}")

            def close(place: int, ring: list[str] = ring, memory: Memory = memory) -> bool:
                try:
                    memory.scopes.set(ring[place], inherit_from=[ring[(place + 1) % len(ring)]])
                except ScopeError:
                    return False
                return True

            with ThreadPoolExecutor(len(ring)) as pool:
                done = list(pool.map(close, range(len(ring))))
            assert done.count(False) == 1
            scopes = Scopes(memory.scopes.list())
            assert not any(agent in scopes.ancestors(agent) for agent in ring)


def test_what_is_learned_and_read_follows_the_scopes_of_the_moment(opened: Opener) -> None:
    memory = opened(min_occurrences=1, anti_pattern_failures=1, embedder="hashing")

    def learn(agent: str, task_type: str, success: bool, number: int = 0) -> int:
        name = f"{agent}:{task_type}"
        episode: dict[str, Any] = {
            "task": f"a {task_type} task of {agent}", "strategy": f"{name}:{success}",
            "agent": agent, "task_type": task_type, "score": float(success),
            "error": None if success else "it broke", "source_key": f"{name} {success} {number}",
            "successes": [f"{name}:good"] * success, "mistakes": [f"{name}:bad"] * (not success),
            "mistake_cards": [] if success else [{"type": f"{name}:card"}],
        }  # fmt: skip
        report = memory.learn_many([episode], on_error="collect")
        if not report.created:
            assert [one.field for one in report.rejected] == ["task_type"]
            with pytest.raises(ScopeError):
                memory.learn_many([episode])
        return report.created

    turns: list[int] = []

    def read(agent: str | None) -> set[str]:
        """What an agent reads, after checking that all kinds of lessons agree."""
        lessons = memory.lessons
        works = {row.strategy.removesuffix(":True") for row in lessons.heuristics(agent=agent)}
        fails = {row.strategy.removesuffix(":False") for row in lessons.anti_patterns(agent=agent)}
        told = {row.text.rpartition(":")[0] for row in lessons.rules(agent=agent)}
        cards = {row.type.rpartition(":")[0] for row in lessons.mistakes(agent=agent)}
        assert works == fails == told == cards
        turns.append(len(turns))
        for name in sorted(everything)[turns[-1] % 4 :: 4]:  # in four turns all of them
            of_whom, task_type = name.split(":")
            task, way = f"a {task_type} task of {of_whom}", f"{name}:True"
            recalled = {item.text for item in memory.recall(task, 20, agent).items}
            explained = set[str]()
            with contextlib.suppress(NotFoundError):
                explained = {memory.explain(way, agent=agent).text}
            forecast = memory.predict(task, way, agent=agent).basis
            assert {
                way in recalled,
                way in explained,
                way in memory.context(task, agent=agent, max_tokens=500),
                bool(memory.episodes(strategy=way, agent=agent)),
                forecast.task.trials > 0,
                sum(part.trials for part in forecast.strategies) > 0,
            } == {name in works}, name
        return works

    for agent in AGENTS[:3]:
        for task_type in TYPES[:3]:
            assert learn(agent, task_type, True) == learn(agent, task_type, False) == 1
    everything = {f"{agent}:{task_type}" for agent in AGENTS[:3] for task_type in TYPES[:3]}

    def of(agent: str, *types: str) -> set[str]:
        return {f"{agent}:{name}" for name in types}

    assert read(None) == everything
    assert read("ada") == of("ada", *TYPES[:3])
    memory.scopes.set("ada", can_learn=["sql*"], cannot_learn=["*_admin"], inherit_from=["bob"])
    assert read("ada") == of("ada", "sql")  # nothing is shared yet
    memory.scopes.set("bob", share_with=["ada"], inherit_from=["cyd"])
    memory.scopes.set("cyd", share_with=["*"])
    assert read("ada") == {*of("ada", "sql"), *of("bob", "sql"), *of("cyd", "sql")}
    assert read("bob") == {*of("bob", *TYPES[:3]), *of("cyd", *TYPES[:3])}
    assert [learn("ada", name, True, 1) for name in TYPES[:3]] == [1, 0, 0]
    memory.scopes.set("bob")
    assert read("ada") == of("ada", "sql")
    memory.scopes.remove("ada")
    assert read("ada") == of("ada", *TYPES[:3])
    assert learn("ada", "web", True, 1) == 1
    memory.scopes.set("ada", min_occurrences=2)
    twice = {row.strategy for row in memory.lessons.heuristics(agent="ada")}
    assert twice == {"ada:sql:True", "ada:web:True"}
    assert memory.lessons.anti_patterns(agent="ada") == []
    assert read(None) == everything
    for ask in (memory.choose, memory.explain):
        with pytest.raises(NotFoundError, match="that agent 'eve' may read"):
            ask("ada:sql:True", agent="eve")
    assert memory.verify().ok


def test_an_agent_is_told_that_others_know_its_task(memory: Memory) -> None:
    """How many, and how to share; nothing of what they know."""
    for agent in ("ben", "carl"):
        memory.learn("deploy", "ask", success=True, agent=agent)
    told = r"2 other agents know this task; share with memory.scopes: share_with=\['ada'\]"
    assert re.match(told, memory.context("deploy", agent="ada"))
    with pytest.raises(NotFoundError, match=told):
        memory.choose("deploy", agent="ada")
    assert re.search(told, memory.choose("deploy", ["look"], agent="ada").why)
    assert memory.context("another", agent="ada") == ""
    for agent in ("ben", "carl"):
        memory.scopes.set(agent, share_with=["ada"])
    memory.scopes.set("ada", inherit_from=["ben", "carl"])
    assert "other agents" not in memory.context("deploy", agent="ada")
    assert "other agents" not in memory.choose("deploy", agent="ada").why


def test_types_without_end_are_refused(memory: Memory) -> None:
    with pytest.raises(ValidationError, match=r"can_learn: .* at most 1000 items"):
        memory.scopes.set("ada", can_learn=map(str, itertools.count()))  # type: ignore[arg-type]
