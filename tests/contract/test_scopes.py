"""Scopes: what agents may learn, and whose lessons they read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory
from graphmem.errors import ScopeError, ValidationError
from graphmem.graph.access import Scopes, refusal
from graphmem.models import Scope
from tests.conftest import Opener

AGENTS = ["ada", "bob", "cyd", "dan"]
TYPES = ["sql", "sql_admin", "web", "general"]


class TestTypes:
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
    def test_allowed_is_what_may_be_and_must_not(
        self, can: Any, cannot: Any, allowed: set[str]
    ) -> None:
        scope = Scope(agent="ada", can_learn=can, cannot_learn=cannot)
        assert {name for name in TYPES if scope.allows(name)} == allowed

    @hypothesis.settings(max_examples=200)
    @hypothesis.given(
        pattern=st.text("ab*", min_size=1, max_size=8), text=st.text("ab", max_size=8)
    )
    def test_a_star_stands_for_any_text(self, pattern: str, text: str) -> None:
        expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text)
        assert Scope(agent="ada", can_learn=[pattern]).allows(text) == bool(expected)

    def test_a_hostile_pattern_takes_no_longer_than_a_plain_one(self) -> None:
        """Twenty times the stars: a matcher that tries again for each star would never end."""
        text = "a" * 10_000
        begin = time.process_time()
        for stars in (120, 2_400):
            scope = Scope(agent="ada", can_learn=["a*" * stars + "b", "*a" * stars + "*"])
            assert scope.allows(text)
            assert not Scope(agent="ada", can_learn=["*a*b" * stars]).allows(text)
        assert time.process_time() - begin < 30

    def test_a_refusal_names_agent_type_and_remedy(self) -> None:
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

    def test_nobody_in_particular_reads_everything(self) -> None:
        view = Scopes([Scope(agent="ada", can_learn=[])]).view(None)
        assert (view.agents, view.min_occurrences) == (None, None)
        assert view.allows("anything")

    def test_without_a_scope_an_agent_reads_its_own(self) -> None:
        sharing = Scope(agent="bob", share_with=["*"])
        assert self.view("ada", sharing) == ("ada",)
        assert Scopes([sharing]).view("ada").allows("anything")

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

    def test_what_an_agent_may_not_learn_it_does_not_read(self) -> None:
        view = Scopes(
            [
                Scope(agent="ada", inherit_from=["bob"], can_learn=["sql"], min_occurrences=5),
                Scope(agent="bob", share_with=["*"]),
            ]
        ).view("ada")
        assert (view.allows("sql"), view.allows("web")) == (True, False)
        assert view.min_occurrences == 5


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

    def test_removing(self, memory: Memory) -> None:
        memory.scopes.set("ada", can_learn=["sql"])
        assert memory.scopes.remove("ada")
        assert not memory.scopes.remove("ada")
        assert memory.scopes.list() == []

    def test_namespaces_are_apart(self, opened: Opener) -> None:
        ours, theirs = opened(), opened(f"scopes-{uuid4().hex}")
        ours.scopes.set("ada", inherit_from=["bob"])
        theirs.scopes.set("bob", inherit_from=["ada"])
        assert theirs.scopes.get("ada") is None
        assert not theirs.scopes.remove("ada")
        assert ours.scopes.get("bob") is None

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

    def test_two_ways_to_one_are_no_circle(self, memory: Memory) -> None:
        memory.scopes.set("bob", inherit_from=["dan"])
        memory.scopes.set("cyd", inherit_from=["dan"])
        memory.scopes.set("ada", inherit_from=["bob", "cyd"])
        assert memory.scopes.set("dan") == Scope(agent="dan")

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


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("agent", {"agent": ""}),
    ("agent", {"agent": "*"}),
    ("agent", {"agent": None}),
    ("can_learn", {"can_learn": "sql"}),
    ("can_learn.0", {"can_learn": [None]}),
    ("can_learn", {"can_learn": ["x"] * 1_001}),
    ("cannot_learn", {"cannot_learn": None}),
    ("cannot_learn.1", {"cannot_learn": ["sql", " "]}),
    ("share_with", {"share_with": "bob"}),
    ("share_with.0", {"share_with": [7]}),
    ("inherit_from.0", {"inherit_from": ["*"]}),
    ("inherit_from", {"inherit_from": {"bob": 1}}),
    ("min_occurrences", {"min_occurrences": 0}),
    ("min_occurrences", {"min_occurrences": 2.0}),
    ("min_occurrences", {"min_occurrences": True}),
    ("min_occurrences", {"min_occurrences": 10**20}),
]


def test_what_is_wrong_is_named(memory: Memory) -> None:
    for field, given in WRONG:
        with pytest.raises(ValidationError) as caught:
            memory.scopes.set(**{"agent": "ada", **given})
        assert caught.value.field == field
    assert memory.scopes.list() == []


@pytest.mark.parametrize("agent", ["", None, 7, "*"])
def test_asking_for_no_agent_is_refused(memory: Memory, agent: Any) -> None:
    for ask in (memory.scopes.get, memory.scopes.remove):
        with pytest.raises(ValidationError, match="agent"):
            ask(agent)


TEAM = AGENTS[:3]
LEARN = st.tuples(
    st.just("learn"),
    st.sampled_from(TEAM),
    st.tuples(st.sampled_from(TYPES[:3]), st.booleans()),
)
SCOPE = st.tuples(
    st.just("scope"),
    st.sampled_from(TEAM),
    st.fixed_dictionaries(
        {
            "share_with": st.lists(st.sampled_from([*TEAM, "*"]), max_size=2),
            "inherit_from": st.lists(st.sampled_from(TEAM), max_size=2),
        },
        optional={
            "can_learn": st.lists(st.sampled_from([*TYPES, "sql*"]), max_size=3),
            "cannot_learn": st.lists(st.sampled_from([*TYPES, "*_admin"]), max_size=2),
            "min_occurrences": st.integers(1, 2),
        },
    ),
)
UNSCOPE = st.tuples(st.just("unscope"), st.sampled_from(TEAM), st.none())
OPERATIONS = st.tuples(
    st.lists(LEARN, min_size=3, max_size=5),
    st.lists(st.one_of(SCOPE, SCOPE, SCOPE, LEARN, UNSCOPE), min_size=4, max_size=12),
).map(lambda parts: parts[0] + parts[1])


class Model:
    """What the memory should hold and show, told in the plainest way."""

    def __init__(self) -> None:
        self.scopes: dict[str, dict[str, Any]] = {}
        self.learned: list[tuple[str, str, bool]] = []

    def may_learn(self, agent: str, task_type: str) -> bool:
        scope = self.scopes.get(agent, {})
        able = {
            name: self.fits(scope.get(name), task_type) for name in ("can_learn", "cannot_learn")
        }
        return (scope.get("can_learn") is None or able["can_learn"]) and not able["cannot_learn"]

    def fits(self, patterns: list[str] | None, task_type: str) -> bool:
        found = {"sql*": {"sql", "sql_admin"}, "*_admin": {"sql_admin"}}
        return any(task_type in found.get(pattern, {pattern}) for pattern in patterns or ())

    def sources(self, agent: str, seen: frozenset[str] = frozenset()) -> set[str]:
        """The agents above one, each found by walking up from it."""
        above = set(self.scopes.get(agent, {}).get("inherit_from", ())) - seen
        return above.union(*(self.sources(name, seen | above) for name in above))

    def closes_a_circle(self, agent: str, inherit_from: list[str]) -> bool:
        return any(agent == name or agent in self.sources(name) for name in inherit_from)

    def readable(self, agent: str) -> set[str]:
        shared = (
            name
            for name in self.sources(agent)
            if {agent, "*"} & set(self.scopes.get(name, {}).get("share_with", ()))
        )
        return {agent, *shared}

    def seen_by(self, agent: str) -> dict[tuple[str, str], list[bool]]:
        """The outcomes that an agent reads, by who learned them and the type of task."""
        return self.outcomes(
            lambda source, task_type: (
                source in self.readable(agent) and self.may_learn(agent, task_type)
            )
        )

    def outcomes(self, reads: Callable[[str, str], bool]) -> dict[tuple[str, str], list[bool]]:
        found: dict[tuple[str, str], list[bool]] = {}
        for source, task_type, success in self.learned:
            if reads(source, task_type):
                found.setdefault((source, task_type), []).append(success)
        return found


def mostly(outcome: bool, seen: dict[tuple[str, str], list[bool]], least: int) -> set[str]:
    """The strategies with so many trials that mostly worked, or so many failures that did not."""
    found = set()
    for (who, what), done in seen.items():
        worked, failed = done.count(True), done.count(False)
        if outcome and worked > failed and len(done) >= least:
            found.add(f"{who}:{what}")
        if not outcome and failed >= worked and failed >= least:
            found.add(f"{who}:{what}")
    return found


def act(memory: Memory, model: Model, operation: str, agent: str, given: Any) -> None:
    """Do one thing in the memory and in the model; both refuse the same."""
    if operation == "scope":
        if model.closes_a_circle(agent, given.get("inherit_from", [])):
            with pytest.raises(ScopeError):
                memory.scopes.set(agent, **given)
            return
        memory.scopes.set(agent, **given)
        model.scopes[agent] = given
    elif operation == "unscope":
        assert memory.scopes.remove(agent) == (model.scopes.pop(agent, None) is not None)
    else:
        task_type, success = given
        number = len(model.learned)
        episode: dict[str, Any] = {
            "task": f"a {task_type} task of {agent}",
            "strategy": f"{agent}:{task_type}",
            "agent": agent,
            "task_type": task_type,
            "score": 1.0 if success else 0.0,
            "error": None if success else "it broke",
            "successes": [f"{agent}:{task_type}:good"] if success else [],
            "mistakes": [] if success else [f"{agent}:{task_type}:bad"],
            "mistake_cards": [] if success else [{"type": f"{agent}:{task_type}:card"}],
            "source_key": str(number),
        }
        report = memory.learn_many([episode], on_error="collect")
        if model.may_learn(agent, task_type):
            assert report.created == 1
            model.learned.append((agent, task_type, success))
        else:
            [refused] = report.rejected
            assert refused.field == "task_type"
            with pytest.raises(ScopeError):
                memory.learn_many([episode])


def compare(memory: Memory, model: Model) -> None:
    """Every agent reads what the model says, and nobody in particular reads everything."""
    assert memory.stats().episodes == len(model.learned)
    nobody = model.outcomes(lambda *_: True)
    assert {row.strategy for row in memory.lessons.heuristics()} == mostly(True, nobody, 1)
    for agent in TEAM:
        seen = model.seen_by(agent)
        least = model.scopes.get(agent, {}).get("min_occurrences", 1)
        heuristics = memory.lessons.heuristics(agent=agent)
        assert {row.strategy for row in heuristics} == mostly(True, seen, least)
        shown = {row.strategy for row in memory.lessons.anti_patterns(agent=agent)}
        failed = {f"{a}:{what}" for (a, what), done in seen.items() if done.count(False) >= least}
        assert mostly(False, seen, least) <= shown <= failed
        allowed = {f"{who}:{what}" for who, what in seen}
        told = [row.text for row in memory.lessons.rules(agent=agent)]
        told += [row.type for row in memory.lessons.mistakes(agent=agent)]
        assert {text.rpartition(":")[0] for text in told} == allowed


def follow(opened: Opener, operations: list[tuple[str, str, Any]], every: int) -> None:
    """Do one thing after another, and look after every so many of them, and at the end."""
    memory = opened(f"scopes-{uuid4().hex}", min_occurrences=1, anti_pattern_failures=1)
    model = Model()
    for place, operation in enumerate(operations, 1):
        act(memory, model, *operation)
        if place % every == 0 or place == len(operations):
            compare(memory, model)
    assert memory.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["embedded"])
@hypothesis.settings(max_examples=60)
@hypothesis.given(operations=OPERATIONS)
def test_nothing_is_read_or_learned_outside_a_scope(
    opened: Opener, operations: list[tuple[str, str, Any]]
) -> None:
    """Whatever is set, removed and learned in whatever order: scopes hold as they are then."""
    follow(opened, operations, every=1)


@pytest.mark.neo4j
@pytest.mark.parametrize("engine", ["neo4j"])
@hypothesis.settings(max_examples=3)
@hypothesis.given(operations=OPERATIONS)
def test_nothing_is_read_or_learned_outside_a_scope_on_a_server(
    opened: Opener, operations: list[tuple[str, str, Any]]
) -> None:
    follow(opened, operations, every=5)
