"""Levels: what they hold, for how long, who may read it, and what questions find."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest
from pydantic import JsonValue

from graphmem import Memory, Step
from graphmem.errors import NotFoundError, ScopeError, ValidationError
from graphmem.ids import to_millis
from graphmem.models.levels import Entry, LevelName, LevelUpkeep, Tags
from graphmem.search.embedding import Hashing
from tests.conftest import NOW, Clock, Opener
from tests.contract.teaching import tamper
from tests.contract.test_similarity import Counting

Rows = list[dict[str, Any]]
SENSORY, WORKING = "agent:ada:sensory", "agent:ada:working"
SHARED = "task:deploy:shared"
pytestmark = pytest.mark.usefixtures("few_are_many")


def nodes(memory: Memory) -> dict[str, int]:
    text = "MATCH (n) WHERE n.ns = $ns RETURN labels(n)[0] AS label, count(*) AS nodes"
    return {row["label"]: row["nodes"] for row in memory.query(text)}


class TestMaking:
    def test_the_default_levels_are_made_once_and_keep_their_settings(self, memory: Memory) -> None:
        levels = memory.levels.default("ada")
        assert [(level.kind, level.ttl, level.capacity, level.holds) for level in levels] == [
            ("sensory", 60, None, "entries"),
            ("working", 3_600, None, "entries"),
            ("stm", 86_400, 500, "entries"),
            ("ltm:episodic", None, None, "episodes"),
            ("ltm:semantic", None, None, "knowledge"),
            ("ltm:procedural", None, None, "strategies"),
        ]
        assert memory.levels.info(WORKING).subscribed_to == (SENSORY,)
        assert memory.levels.info("agent:ada:ltm:semantic").subscribed_to == ("agent:ada:stm",)
        changed = memory.levels.put(WORKING, ttl=5, upkeep=LevelUpkeep(decay=0.5))
        before = nodes(memory)
        assert memory.levels.default("ada")[1] == changed
        assert (changed.ttl, changed.decay, changed.purpose) == (5, 0.5, levels[1].purpose)
        assert nodes(memory) == before

    def test_putting_a_level_again_replaces_its_settings_and_keeps_its_entries(
        self, memory: Memory
    ) -> None:
        memory.levels.put(SHARED, ttl=60, capacity=2, purpose="old")
        memory.levels.add(SHARED, "kept")
        memory.levels.put(SHARED, purpose="new")
        memory.levels.put(SHARED, purpose="new")
        info = memory.levels.info(SHARED)
        assert (info.ttl, info.capacity, info.purpose, info.entries) == (None, None, "new", 1)
        kinds = [event.kind for event in memory.events.tail(agent=SHARED)]
        assert kinds == ["entry", "level"]

    def test_a_name_says_who_owns_it(self) -> None:
        for name, owner, kind in (
            ("agent:ada:ltm:episodic", "ada", "ltm:episodic"),
            ("agent:a:b:working", "a:b", "working"),
            ("agent:ada:my:notes", "ada", "my:notes"),
            ("task:deploy:shared", "deploy", "shared"),
            ("system:facts", None, "facts"),
        ):
            level = LevelName.of(name)
            assert level == LevelName(name, name.partition(":")[0], owner, kind)  # type: ignore[arg-type]
        for name in ("", "notes", "agent:ada", "task::a", "robot:a:b", "agent:"):
            with pytest.raises(ValidationError, match="name:"):
                LevelName.of(name)


class TestAdding:
    def test_an_entry_is_what_was_given(self, memory: Memory, still: Clock) -> None:
        memory.levels.default("ada")
        content: JsonValue = {"saw": ["order 17", 1.5, None, True]}
        added = memory.levels.add(
            SENSORY, content, tags=["b", "a", "b"], key="order/17", metadata={"x": 1}, relevance=0.5
        )
        assert (added.created, added.replaced) == (True, False)
        [entry] = memory.levels.entries(added.id)
        assert (entry.content, entry.tags, entry.key) == (content, ("a", "b"), "order/17")
        assert (entry.metadata, entry.base, entry.relevance, entry.reads) == ({"x": 1}, 0.5, 0.5, 0)
        assert (entry.at, entry.expires_at) == (NOW, NOW + timedelta(seconds=60))
        still.now = to_millis(NOW) + 30_000  # half of its life
        assert memory.levels.entries(added.id)[0].relevance == pytest.approx(0.5 * 0.5**0.5)

    def test_a_level_has_one_entry_under_a_key(self, memory: Memory) -> None:
        memory.levels.put(SHARED)
        first = memory.levels.add(SHARED, "one", key="k")
        assert not memory.levels.add(SHARED, "one", key="k").created
        second = memory.levels.add(SHARED, "two", key="k", tags=["new"])
        assert (second.id, second.created, second.replaced) == (first.id, True, True)
        assert memory.levels.entries(first.id)[0].content == "two"
        assert memory.levels.add(SHARED, "one").id != memory.levels.add(SHARED, "one").id
        assert memory.levels.info(SHARED).entries == 3
        assert [event.subject for event in memory.events.tail(agent=SHARED)][:2] == [first.id] * 2

    def test_what_expired_lives_again_where_it_is_added_again(
        self, memory: Memory, still: Clock
    ) -> None:
        memory.levels.put(SHARED, ttl=60)
        added = memory.levels.add(SHARED, "one", key="k")
        still.now = to_millis(NOW) + 60_000
        info = memory.levels.info(SHARED)
        assert (info.entries, info.expired, info.tags) == (0, 1, {})
        assert memory.levels.recall(levels=SHARED) == []
        assert len(memory.levels.recall(levels=SHARED, include_expired=True)) == 1
        assert memory.levels.add(SHARED, "one", key="k").replaced
        assert [entry.id for entry in memory.levels.recall(levels=SHARED)] == [added.id]

    def test_a_level_that_is_a_view_or_is_not_there_takes_none(self, memory: Memory) -> None:
        memory.levels.default("ada")
        with pytest.raises(ValidationError, match="takes no entries"):
            memory.levels.add("agent:ada:ltm:semantic", "x")
        for call in (memory.levels.info, lambda name: memory.levels.add(name, "x")):
            with pytest.raises(NotFoundError, match="'task:deploy:shared'"):
                call(SHARED)


def test_closing_leaves_nothing(memory: Memory) -> None:
    memory.levels.put(SHARED)
    before = nodes(memory)
    memory.levels.default("ada")
    for number in range(3):
        memory.levels.add(WORKING, f"note {number}", tags=["t"])
    memory.levels.recall("note")
    next(memory.events.listen("group", agent=WORKING))
    assert memory.levels.close(WORKING) == 3
    with pytest.raises(NotFoundError, match="closed"):
        memory.levels.recall("note", levels=WORKING)
    for name in memory.levels.names("ada"):
        memory.levels.close(name)
    assert nodes(memory) == before | {"Embedder": 1}
    assert memory.levels.recall("note") == []


class TestRights:
    """What may be read of it, tests/contract/test_isolation.py tells."""

    @staticmethod
    def writes(memory: Memory, level: str) -> list[Callable[[str], Any]]:
        """Return all calls that change a level."""
        levels = memory.levels
        return [
            lambda agent: levels.add(level, "x", agent=agent),
            lambda agent: memory.remember(level, agent=agent),
            lambda agent: levels.prolong(level, "k", 60, agent=agent),
            lambda agent: levels.remove(level, "k", agent=agent),
            lambda agent: levels.pull(level, SHARED, agent=agent),
            lambda agent: levels.unpull(level, SHARED, agent=agent),
            lambda agent: levels.maintain(level, agent=agent),
            lambda agent: levels.put(level, agent=agent),
            lambda agent: levels.close(level, agent=agent),
        ]

    def test_the_levels_of_an_agent_are_private_until_it_shares(self, memory: Memory) -> None:
        levels = memory.levels
        levels.default("ada")
        levels.put(SHARED)
        added = levels.add(WORKING, "secret", agent="ada")
        with pytest.raises(ScopeError, match="private level of agent 'ada'"):
            levels.recall("secret", levels=[WORKING], agent="bob")
        with pytest.raises(NotFoundError, match="that agent 'bob' may read"):
            levels.entries(added.id, agent="bob")
        memory.scopes.set("ada", share_with=["bob"])
        memory.scopes.set("bob", inherit_from=["ada"])
        assert [entry.content for entry in levels.recall("secret", agent="bob")] == ["secret"]
        for call in self.writes(memory, WORKING):
            with pytest.raises(ScopeError, match="'bob' may not write"):
                call("bob")
        assert levels.add(SHARED, "x", agent="bob").created

    def test_only_members_write_or_close_a_collective_level(self, memory: Memory) -> None:
        levels, team = memory.levels, "collective:team"
        assert levels.put(team, members=["bob", "ada", "bob"]).members == ("ada", "bob")
        levels.add(team, "one", key="k", agent="ada")
        levels.put(SHARED)
        calls = self.writes(memory, team)
        for call in calls:
            with pytest.raises(ScopeError, match="let ada or bob do it"):
                call("eve")
        assert levels.recall(agent="eve")[0].content == "one"
        for call in calls[:-2]:
            call("bob")
        levels.put(team, members="bob", agent="bob")
        with pytest.raises(ScopeError, match="let bob do it"):
            levels.add(team, "x", agent="ada")
        memory.upkeep.erase(agent="bob")  # a member, and nothing more
        assert levels.info(team).members == ()
        with pytest.raises(ScopeError, match="an administrator"):
            calls[-1]("bob")
        assert levels.put("collective:all").members is None
        assert levels.add("collective:all", "x", agent="eve").created
        with pytest.raises(ValidationError, match="name it collective"):
            levels.put(SHARED, members="ada")
        assert levels.close(team) == 1


def test_levels_end_with_their_task_or_capability(memory: Memory) -> None:
    levels = memory.levels
    for name in ("task:deploy:a", "task:deploy:b", "task:d/1:c", "task:other:d", SHARED):
        levels.put(name)
    levels.add("task:deploy:a", "one")
    with memory.attempt("deploy", task_key="d/1") as attempt:
        with memory.attempt("deploy", task_key="d/1") as inner:
            inner.fail("no")
        assert levels.info("task:deploy:a").entries == 1  # it is attempted on
        attempt.succeed()
    assert levels.names() == ["task:other:d"]
    with pytest.raises(ValueError, match="broken"), memory.attempt("other"):
        raise ValueError("broken")
    assert levels.names() == []
    memory.learn("none", "x", success=True)
    for name in ("capability:search:a", "capability:search:b", "capability:other:c"):
        levels.put(name)
        levels.add(name, "x")
    assert levels.close("capability:search") == 2
    assert levels.names() == ["capability:other:c"]
    with pytest.raises(NotFoundError, match="'capability:search'"):
        levels.close("capability:search")
    assert memory.verify().ok


TAGS = ("a", "b", "c")
SOME = st.sets(st.sampled_from(TAGS), max_size=2)
PLAIN = st.builds(Tags, any_of=SOME, all_of=SOME, none_of=SOME)
NESTED = st.recursive(
    PLAIN,
    lambda parts: st.one_of(
        st.builds(lambda a, b: a & b, parts, parts),
        st.builds(lambda a, b: a | b, parts, parts),
        st.builds(lambda a: ~a, parts),
    ),
    max_leaves=5,
)
WORDS = ("late order", "an order", "cake", "bake a cake", "deploy")
ENTRY = st.fixed_dictionaries(
    {
        "level": st.sampled_from([WORKING, SHARED]),
        "text": st.sampled_from(WORDS),
        "tags": SOME,
        "key": st.sampled_from(["order/", "task."]),
        "minute": st.integers(0, 30),
        "ttl": st.none() | st.sampled_from([60.0, 1_200.0]),
        "relevance": st.sampled_from([0.3, 1.0]),
    }
)
EPISODIC, SEMANTIC, PROCEDURAL = (
    f"agent:ada:ltm:{kind}" for kind in ("episodic", "semantic", "procedural")
)
DEED = st.fixed_dictionaries(
    {
        "task": st.sampled_from(WORDS),
        "way": st.sampled_from(["call the driver", "wait"]),
        "success": st.sampled_from([True, True, False]),
        "type": st.sampled_from(["web", "sql"]),
        "minute": st.integers(0, 30),
        "place": st.none() | st.sampled_from(["here", "there"]),
    }
)
FACT = st.fixed_dictionaries(
    {
        "fact": st.sampled_from(WORDS),
        "domain": st.sampled_from(["roads", "cakes"]),
        "source": st.sampled_from(["user_stated", "observed"]),
        "minute": st.integers(0, 30),
    }
)
QUESTION = st.fixed_dictionaries(
    {},
    optional={
        "text": st.sampled_from(WORDS),
        "tags": NESTED
        | st.sampled_from(
            [
                Tags(any_of=["kind:episode", "kind:strategy", "a"]),
                Tags(all_of=["type:web"], none_of=["outcome:failure", "kind:strategy"]),
                ~Tags(any_of=["domain:roads", "outcome:failure"]),
            ]
        ),
        "key": st.sampled_from(["order/*", "task.?", "*1*", "[a]*", "deed/*"]),
        "since": st.integers(0, 30).map(lambda minute: NOW + timedelta(minutes=minute)),
        "until": st.integers(0, 30).map(lambda minute: NOW + timedelta(minutes=minute)),
        "max_age": st.sampled_from([300.0, 1_500.0]),
        "min_relevance": st.sampled_from([0.25, 0.8]),
        "include_expired": st.booleans(),
        "limit": st.integers(1, 20),
        "levels": st.sampled_from(
            [WORKING, [SHARED, WORKING], [PROCEDURAL, WORKING], EPISODIC, [SEMANTIC, PROCEDURAL]]
        ),
    },
)


def minutes(number: int) -> datetime:
    return NOW + timedelta(minutes=number)


def combined(tags: Tags, have: set[str]) -> bool:
    """What Tags mean, said in another way."""
    clauses = [have.issuperset(tags.all_of), have.isdisjoint(tags.none_of)]
    if tags.any_of:
        clauses.append(not have.isdisjoint(tags.any_of))
    parts = [combined(part, have) for part in tags.parts]
    if parts:
        clauses.append(any(parts) if tags.join == "or" else all(parts))
    return all(clauses) != tags.negated


def text_of(entry: Entry) -> str | None:
    """The words by which an entry, or what a view shows, is near to others."""
    if not isinstance(entry.content, dict):
        return str(entry.content)
    words = (entry.content.get(name) for name in ("task", "strategy", "fact"))
    return next((str(text) for text in words if text is not None), None)


def expected(
    entries: Sequence[Entry], question: dict[str, Any], now: datetime
) -> list[tuple[str, float | None]]:
    """Answer a question in plain Python: ids and similarities, in order."""
    found = []
    embed = Hashing().embed
    text = question.get("text")
    key = re.compile(fnmatch.translate(question.get("key", "*").replace("[", "[[]")))
    for entry in entries:
        age = (now - entry.at).total_seconds()
        wanted = question.get("levels", entry.level)
        words = text_of(entry)
        if (
            (entry.level == wanted or entry.level in wanted)
            and combined(question.get("tags", Tags()), set(entry.tags))
            and ("key" not in question or (entry.key is not None and key.match(entry.key)))
            and entry.at >= question.get("since", entry.at)
            and (question.get("until") is None or entry.at < question["until"])
            and age <= question.get("max_age", age)
            and entry.relevance >= question.get("min_relevance", 0)
            and (question.get("include_expired") or (entry.expires_at or minutes(99)) > now)
            and (text is None or words is not None)
        ):
            near = None
            if text is not None:
                near = round(float(embed([str(words)])[0] @ embed([text])[0]), 6)
            found.append((-(near or 0.0), -entry.relevance, -entry.at.timestamp(), entry.id, near))
    return [(identity, near) for *_, identity, near in sorted(found, key=lambda one: one[:3])]


def learn(memory: Memory, deeds: Rows, facts: Rows) -> None:
    """Learn what an agent did, and facts."""
    memory.learn_many(
        {
            "task": deed["task"],
            "strategy": deed["way"],
            "success": deed["success"],
            "task_type": deed["type"],
            "agent": "ada",
            "ended_at": minutes(deed["minute"]),
            "source_key": f"deed/{number}",
            "steps": [Step(action="go", action_type="walk", state={"place": deed["place"]})]
            if deed["place"]
            else [],
        }
        for number, deed in enumerate(deeds)
    )
    for fact in facts:
        how = {"source": fact["source"], "at": minutes(fact["minute"])}
        memory.people.know(fact["domain"], fact["fact"], **how)


def test_long_term_levels_have_entries_of_what_was_learned(memory: Memory, still: Clock) -> None:
    memory.levels.default("ada")
    deed = {"task": "bake", "way": "wait", "type": "web", "minute": -1, "place": "here"}
    fact = {"fact": "a cake", "domain": "cakes", "source": "observed", "minute": -2}
    learn(memory, [deed | {"success": True}] * 4, [fact])
    shown = memory.levels.recall()
    assert sorted(filter(None, (one.key for one in shown))) == [f"deed/{n}" for n in range(4)]
    assert len(shown) == 6
    assert {one.tags: (one.level, text_of(one), one.base, one.at) for one in shown} == {
        ("kind:episode", "outcome:success", "type:web"): (EPISODIC, "bake", 1, minutes(-1)),
        ("domain:cakes", "kind:fact"): (SEMANTIC, "a cake", 0.8, minutes(-2)),
        ("kind:strategy", "type:web"): (PROCEDURAL, "wait", 5 / 6, minutes(-1)),
    }


@hypothesis.settings(max_examples=10)
@hypothesis.given(
    entries=st.lists(ENTRY, max_size=12),
    deeds=st.lists(DEED, max_size=10),
    facts=st.lists(FACT, max_size=3),
    questions=st.lists(QUESTION, min_size=6, max_size=12),
)
def test_a_question_finds_what_a_plain_model_finds(
    opened: Opener, still: Clock, entries: Rows, deeds: Rows, facts: Rows, questions: Rows
) -> None:
    """In its order; where a limit cuts between equal ones, any of these will do."""
    memory = opened(f"levels-{uuid4().hex[:12]}", embedder="hashing")
    memory.levels.default("ada")
    memory.levels.default("zoe")  # who sees the same facts, which are given once
    memory.levels.put(SHARED)
    for number, entry in enumerate(entries):
        memory.levels.add(
            entry["level"],
            entry["text"],
            tags=entry["tags"],
            key=f"{entry['key']}{number}",
            ttl=entry["ttl"] or 1e6,
            at=minutes(entry["minute"]),
            relevance=entry["relevance"],
        )
    still.now = to_millis(minutes(30))
    learn(memory, deeds, facts)
    items = memory.levels.recall(include_expired=True, limit=1_000)
    assert len({one.id for one in items}) == len(items) >= len(entries) + len(deeds)
    for question in questions:
        wanted = expected(items, question, minutes(30))
        found = memory.levels.recall(**question)
        limit = question.get("limit", 10)
        assert len(found) == min(limit, len(wanted))
        there = dict(wanted)
        for one, (_, near) in zip(found, wanted, strict=False):
            assert one.similarity == (near if near is None else pytest.approx(near, abs=2e-6))
            assert one.id in there
        order = [
            (-(one.similarity or 0.0), -round(one.relevance, 9), -one.at.timestamp())
            for one in found
        ]
        assert order == sorted(order)
    memory.close()


def test_long_term_levels_show_what_is_there_until_it_is_erased(memory: Memory) -> None:
    memory.levels.default("ada")
    learned = memory.learn(
        "bake a cake", "use the oven", success=True, agent="ada", task_type="web"
    )
    memory.learn("bake a cake", "wait", success=False, agent="bob", task_type="web")
    memory.people.know("cakes", "a cake needs an hour", user="kim")
    memory.levels.add(WORKING, "the cake is in the oven")
    before = memory.levels.recall("cake")
    assert {one.level for one in before} == {WORKING, EPISODIC, SEMANTIC, PROCEDURAL}
    assert {one.id for one in before if one.level == EPISODIC} == {learned.episode_id}
    assert len(memory.levels.recall("cake", agent="ada")) == len(before)
    assert memory.levels.recall("cake", agent="bob") == []
    with pytest.raises(ScopeError, match="private level"):
        memory.levels.recall(levels=SEMANTIC, agent="bob")
    memory.scopes.set("ada", share_with=["bob"])
    memory.scopes.set("bob", inherit_from=["ada"], cannot_learn=["web"])
    levels = {one.level for one in memory.levels.recall("cake", agent="bob")}
    assert levels == {WORKING, SEMANTIC}  # the others are of a type that bob may not learn
    memory.upkeep.erase(user="kim")
    memory.upkeep.erase(learned.episode_id)
    assert {one.level for one in memory.levels.recall("cake")} == {WORKING}
    memory.upkeep.erase(agent="ada")
    assert memory.levels.recall("cake") == []


def test_what_was_embedded_stays_so_until_its_level_ends(tmp_path: Path) -> None:
    """In a file of its own, of which nothing is left of an entry that is gone."""
    for question in ("first", "second", "third"):
        counting = Counting()
        with Memory.open(tmp_path / "here", embedder=counting) as memory:
            counting.asked.clear()  # opening tries it out
            if question == "first":
                memory.levels.put(SHARED)
                memory.levels.put("collective:facts")
                memory.levels.add("collective:facts", "kept")
                for number in range(3):
                    memory.levels.add(SHARED, f"note {number}")
            assert len(memory.levels.recall(question)) == 4
            assert counting.asked.total() == (5 if question == "first" else 1)
            if question == "third":
                memory.levels.close(SHARED)
    [file] = (tmp_path / "here").rglob("*-entries.vectors")
    assert file.stat().st_size < 2 * 4 * Hashing().dimensions
    with Memory.open(tmp_path / "here", embedder=Counting()) as memory:
        assert [entry.content for entry in memory.levels.recall("kept")] == ["kept"]


class TestUpkeep:
    def test_erasing_an_agent_takes_its_levels_with_every_trace(self, memory: Memory) -> None:
        memory.levels.put(SHARED)
        memory.levels.add(SHARED, "stays")
        memory.levels.recall("stays")
        before = nodes(memory)
        memory.levels.default("ada")
        memory.levels.add(WORKING, "goes")
        memory.levels.recall("goes")
        report = memory.upkeep.erase(agent="ada")
        assert (report.entries, report.removed) == (1, ("Level",))
        assert nodes(memory) == before | {"Lock": 1}  # of the scopes
        assert [entry.content for entry in memory.levels.recall("goes")] == ["stays"]
        assert memory.verify().ok

    def test_verifying_finds_what_is_astray_and_rebuilding_leaves_entries(
        self, memory: Memory
    ) -> None:
        memory.levels.default("ada")
        added = memory.levels.add(WORKING, "held", tags=["t"])
        memory.levels.put_lens("collective:both", [SENSORY, WORKING])
        checked = memory.verify().checked
        assert (checked["levels"], checked["entries"], checked["lenses"]) == (6, 1, 1)
        before = nodes(memory)
        memory.upkeep.rebuild()
        assert nodes(memory) == before
        for edge in ("(:Entry)-[r:IN]->(l:Level)", "(:Lens)-[r:LOOKS_AT]->(l:Level)"):
            where = "l.ns = $ns AND l.name = $name"
            tamper(memory, f"MATCH {edge} WHERE {where} DELETE r", name=WORKING)
        entry, lens = memory.verify().differences
        assert (entry.key, entry.field, entry.stored) == (added.id, "level", [])
        assert (lens.key, lens.stored, lens.expected) == (
            *("collective:both", [SENSORY], [SENSORY, WORKING]),
        )

    def test_an_export_has_all_of_them_and_an_import_adds_what_is_missing(
        self, opened: Opener, tmp_path: Path, still: Clock
    ) -> None:
        """And levels go on pulling where they were."""
        memory, other = opened(), opened(f"other-{uuid4().hex[:12]}")
        levels, facts = memory.levels, "collective:facts"
        levels.default("ada")
        levels.put(SHARED, ttl=60, capacity=3, upkeep=LevelUpkeep(decay=0.1))
        levels.add(SENSORY, {"a": [1]}, key="k", tags=["t"], metadata={"m": 1}, relevance=0.5)
        levels.put(facts)
        levels.pull(SHARED, facts, where=Tags(none_of=["old"]) | Tags(any_of=["sure"]))
        levels.add(facts, "pulled")
        levels.tick()
        levels.add(facts, "pending")
        levels.add(SHARED, "text", ttl=5)
        tags = Tags(any_of=["kind:plan"]) & ~Tags(all_of=["old", "sure"])
        levels.put_lens("agent:ada:orders", [WORKING, SHARED], tags=tags, max_age=60, limit=3)
        levels.put_lens("collective:all", SHARED, purpose="p")
        file = tmp_path / "all.jsonl"
        there = (8, memory.verify().checked["entries"], 2)
        report = memory.upkeep.export(file, "jsonl")
        assert (report.levels, report.entries, report.lenses) == there
        for one, new in ((other, there), (other, (0, 0, 0)), (memory, (0, 0, 0))):
            taken = one.upkeep.import_(file, "jsonl")
            assert (taken.levels, taken.entries, taken.lenses) == new
            assert one.verify().ok

        def held(one: Memory) -> list[Any]:
            entries = sorted(one.levels.recall(), key=lambda entry: (entry.level, str(entry)[40:]))
            infos = [one.levels.info(name) for name in one.levels.names()]
            return [
                *({**entry.model_dump(exclude={"id"})} for entry in entries),
                *(info.model_dump(exclude={"id", "created_at"}) for info in infos),
                *(lens.model_dump(exclude={"created_at"}) for lens in one.levels.lenses()),
            ]

        assert held(memory) == held(other)
        assert other.levels.tick().levels == levels.tick().levels == {SHARED: 1}
