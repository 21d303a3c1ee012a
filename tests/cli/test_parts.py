"""The groups of the parts: events, lessons, levels, people, policies, skills; and the report."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from graphmem import Memory, Tags, fingerprint
from graphmem.models.policies import Event
from tests.cli.running import DEPLOY, complaint, good, run, start
from tests.contract.test_skills import teach
from tests.faults.model_server import rules, serving, status


def test_tail_prints_a_line_for_an_event(learned: str) -> None:
    lines = good("--url", learned, "events", "tail").out.splitlines()
    assert len(lines) == 14
    assert "default  11  transition  " in lines[10]
    assert lines[10].endswith("reward -1.000, terminal yes")
    assert f"next state {fingerprint({'task': 'check'})}" in lines[0]
    by_kind = {line.split("  ")[3]: line for line in lines[:-1]}
    assert by_kind["signal"].endswith("  value 0.750")
    assert by_kind["outcome"].endswith("  worked no")
    assert lines[-1].split("  ")[1:4] == ["ada", "1", "transition"]


def test_tail_as_json_lines(learned: str) -> None:
    text = good("--url", learned, "--json", "events", "tail", "--limit", "3").out
    found = [Event.model_validate_json(line) for line in text.splitlines()]
    assert [event.kind for event in found] == ["signal", "outcome", "transition"]
    text = good("--url", learned, "--json", "events", "tail", "--agent", "ada").out
    assert [json.loads(line)["seq"] for line in text.splitlines()] == [1]
    shown = good("--url", learned, "events", "tail", "--agent", "eve").out
    assert shown == "there are no events yet\n"
    assert good("--url", learned, "--json", "events", "tail", "--agent", "eve").out == ""


@contextmanager
def following(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = start(*arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def observe(url: str, place: int, agent: str = "default") -> None:
    with Memory.open(url) as memory:
        memory.policies.update({"n": place}, "act", success=True, agent=agent)


def test_follow_prints_what_comes_until_ctrl_c(url: str) -> None:
    observe(url, 0)
    with following("--url", url, "--json", "events", "tail", "--follow", "--limit", "1") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        seen = [json.loads(process.stdout.readline())["seq"]]
        for place in (1, 2):
            observe(url, place)
        observe(url, 3, agent="new")
        seen += [json.loads(process.stdout.readline())["seq"] for _ in range(3)]
        assert seen == [1, 2, 3, 1]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, b"", b"")


def test_the_best_action_of_a_state(learned: str) -> None:
    for state in (
        ('{"replicas": 3, "task": "deploy"}',),
        ("replicas=3", 'task="deploy"'),
        (fingerprint(DEPLOY),),
    ):
        found = good("--url", learned, "--json", "policies", "best", *state).json
        assert (found["action"], found["agent"], found["updates"]) == ("run", "default", 10)
    best = ("policies", "best", "task=deploy", "replicas=3")
    shown = good("--url", learned, *best).out
    assert "run" in shown
    assert "successes        9\n" in shown
    assert good("--url", learned, "--json", *best, "--agent", "ada").json["q"] == 0.5
    assert good("--url", learned, "--json", *best, "--explore", "ucb").json["action"] == "wait"
    assert "run" in good("--url", learned, *best, "--agent", "ada", "--explore", "epsilon").out

    later = (*best, "--at", "2026-08-01T00:00:00Z")
    aged = good("--url", learned, "--json", *later).json
    assert 0 < aged["score"] < aged["q"] == found["q"]

    unknown = ("policies", "best", "task=unheard_of")
    shown = good("--url", learned, *unknown, "--agent", "ada").out
    assert shown == "no action has a value in this state (agent ada)\n"
    assert good("--url", learned, "--json", *unknown).json is None


def test_a_value_that_is_no_json_is_text(url: str) -> None:
    pairs = ("a=true", "b=[1, null]", "c=NaN", "d=x=y", "e=", 'f={"g": 1.5}', "h=12:30")
    features = {"a": True, "b": [1, None], "c": "NaN", "d": "x=y", "e": "", "f": {"g": 1.5}}
    with Memory.open(url) as memory:
        memory.policies.update({**features, "h": "12:30"}, "act", success=True)
        memory.policies.update({"replicas": 1}, "act", 1.0, terminal=True)
    assert '{"replicas": 1}' in good("--url", url, "policies", "best", "replicas=1").out
    state = [word for pair in pairs for word in ("--state", pair)]
    shown = good("--url", url, "--json", "list", "policies", *state).json
    assert shown[0]["features"] == {**features, "h": "12:30"}


def test_policies_are_listed_by_value_or_by_state(learned: str) -> None:
    shown = good("--url", learned, "list", "policies").out
    assert "replicas=3 task=deploy" in shown
    assert 'wait {"for": 60}' in shown
    rows = good("--url", learned, "--json", "list", "policies").json
    values = [row["q"] for row in rows if row["updates"]]
    assert len(rows) == 4
    assert values == sorted(values, reverse=True)
    state = ("--state", "task=deploy", "--state", "replicas=3")
    here = good("--url", learned, "--json", "list", "policies", *state).json
    assert {row["id"] for row in here} == {row["id"] for row in rows}
    [ada] = good("--url", learned, "--json", "list", "policies", *state, "--agent", "ada").json
    assert (ada["action"], ada["q"], ada["trials"]) == ("run", 0.5, 0)
    assert "policy " in good("--url", learned, "explain", ada["id"]).out


def test_crystallize_says_what_it_did_and_what_is_missing(url: str) -> None:
    with Memory.open(url) as memory:
        for action, successes, failures in (("run", 6, 0), ("wait", 3, 0), ("page", 1, 1)):
            for place in range(successes + failures):
                memory.policies.update(DEPLOY, action, success=place < successes)
    shown = good("--url", url, "policies", "crystallize").out
    assert "least that passes    6\n" in shown
    below = shown.partition("\nBelow\n")[2]
    assert "run" in shown.partition("\nCreated\n")[2].replace(below, "")
    assert below.index("wait") < below.index("page")
    for text in (fingerprint(DEPLOY), "3 of 3", "0.438", "0.162"):
        assert text in below

    report = good("--url", url, "--json", "policies", "crystallize").json
    assert (report["kept"], report["below_count"], report["needed"]) == (1, 2, 6)
    assert [item["more"] for item in report["below"]][:1] == [3]
    strict = ("policies", "crystallize", "--threshold", "0.9")
    assert "Taken back" in good("--url", url, *strict).out
    nobody = ("policies", "crystallize", "--agent", "nobody")
    assert good("--url", url, "--json", *nobody).json["created"] == []
    good("--url", url, "upkeep", "verify")


# Predictions


@pytest.fixture
def foreseen(url: str) -> str:
    """A memory with nine resolved predictions, one open, and one that is due."""
    outcomes = [(0.9, True)] * 4 + [(0.9, False)] + [(0.2, False)] * 3 + [(0.2, True)]
    with Memory.open(url) as memory:
        memory.learn("refund", "ask $first$, then 写", success=True)
        for probability, happened in outcomes:
            made = memory.predictions.expect("ask $first$, then 写", probability=probability)
            memory.predictions.resolve(made.id, happened=happened)
        due = datetime(2026, 5, 1, 10, tzinfo=UTC)
        memory.predictions.expect("night build", outcome={"m": 12}, due=due, key="due")
        memory.predictions.expect("night build", probability=0.7)
    return url


def test_predictions_are_listed(foreseen: str) -> None:
    every = good("--url", foreseen, "list", "predictions").out
    for part in ("ask $first$, then 写", "open", "2026-05-01 10:00", '{"m": 12}', "90%"):
        assert part in every
    waiting = good("--url", foreseen, "list", "predictions", "--status", "open").out
    assert waiting.count("night build") == 2
    with Memory.open(foreseen) as memory:
        assert memory.predictions.expire() == 1
    assert "expired" in good("--url", foreseen, "list", "predictions").out


# Cycles


def test_cycles_are_found_and_stored_where_that_is_wanted(url: str) -> None:
    """Something works on Mondays and fails on Fridays; one try has no date."""
    monday = datetime(2025, 1, 6, 9, tzinfo=UTC)
    with Memory.open(url) as memory:
        for week in range(30):
            for day in (0, 4):
                at = monday + timedelta(weeks=week, days=day)
                memory.learn("report", "ask", success=day == 0, ended_at=at)
        memory.learn_many([{"task": "report", "strategy": "ask", "success": True}])
    cycles = ("--url", url, "policies", "cycles", "ask")
    shown = good(*cycles).out
    for part in (
        *("day of week", "Monday", "09:00"),
        "not tested: month of year (the events span 208 days, two periods are 730)",
        *("events         60\n", "undated        1\n", "timezone       UTC\n"),
    ):
        assert part in shown
    failing = good(*cycles, "--only", "failure").out
    assert "Friday" in failing
    assert "events         30\n" in failing
    assert "18:00" in good(*cycles, "--timezone", "Asia/Tokyo").out
    report = good("--json", *cycles).json
    assert [cycle["kind"] for cycle in report["cycles"]] == ["hour of day", "day of week"]
    assert good("--url", url, "--json", "list", "cycles").json == []
    good(*cycles, "--store")
    stored = good("--url", url, "--json", "list", "cycles", "--about", "ask").json
    assert {one["kind"] for one in stored} == {"day of week", "hour of day"}


KEY = "sk-very-secret-0123456789"


@pytest.fixture
def taught(url: str) -> str:
    """Looking first works six times on two tasks, leaping once."""
    with Memory.open(url) as memory:
        looked = {"strategy": ["look first"], "task_type": "work", "score": 0.9}
        memory.learn_many(
            {**looked, "task": f"task {n % 2}", "source_key": str(n)} for n in range(6)
        )
        memory.learn("task 0", "leap", success=True)
    return url


def test_consolidate_when_it_is_due(taught: str) -> None:
    consolidate = ("--url", taught, "lessons", "consolidate")
    assert good(*consolidate).out == (
        "not due: 7 of 20 episodes since the last time (--force does it now)\n"
    )
    assert "rules          1\ncreated        1\n" in good(*consolidate, "--force").out
    assert good("--json", *consolidate).json["since"] == 0


def test_consolidate_with_a_model(taught: str) -> None:
    rule = {"verdict": "WORKS", "text": "Look before you leap", "episodes": [1, 2]}
    with serving(rules(rule), status(401)) as server:
        named = {"GRAPHMEM_MODEL_BASE_URL": server.url, "GRAPHMEM_MODEL_NAME": "m"}
        given = {**named, "GRAPHMEM_MODEL_KEY": KEY}
        consolidate = ("--url", taught, "lessons", "consolidate", "--force", "--model")
        assert "model rules    1\n" in good(*consolidate, **given).out
        refused = good("--debug", *consolidate, **given).out
        assert "HTTP status 401" in refused
        assert KEY not in refused + good("--url", taught, "doctor", "settings", **given).out
    wrong = {"GRAPHMEM_MODEL_BASE_URL": f"http://{KEY}@host", "GRAPHMEM_MODEL_NAME": "m"}
    for settings in ({}, wrong):
        told = complaint(*consolidate, code=2, **settings)
        assert "base_url" in told.lower()
        assert KEY not in told


def test_merge_and_undo(taught: str) -> None:
    merge = ("--url", taught, "lessons", "merge", "look first")
    assert good(*merge, "leap").out == (
        "'leap' counts as 'look first' from now on; `graphmem lessons merge STRATEGY --undo` "
        "undoes it\n"
    )
    [row] = good("--url", taught, "--json", "list", "strategies").json
    assert (row["text"], row["trials"]) == ("look first", 7)
    assert good(*merge, "--undo").out == "1 merge undone\n"
    assert good(*merge, "--undo").out == "it was not merged\n"
    assert len(good("--url", taught, "--json", "list", "strategies").json) == 2
    assert good("--json", *merge, "leap").json["id"] == row["id"]
    assert good("--json", *merge, "--undo").json == {"unmerged": 1}


FACTS = Tags(any_of={"kind:fact"}, none_of={"old"})


@pytest.fixture
def levels(url: str) -> str:
    good("--url", url, "levels", "default", "--agent", "ada")
    with Memory.open(url) as memory:
        memory.levels.put("task:deploy:shared", ttl=3600)
    return url


def test_an_entry_goes_from_level_to_level_and_is_found(levels: str) -> None:
    where = ("--tag", "kind:fact", "--none-of", "old")
    with Memory.open(levels) as memory:
        memory.levels.pull(
            "task:deploy:shared", "agent:ada:working", transformer="count", where=FACTS
        )
    add = ("--url", levels, "levels", "add", "agent:ada:working")
    entry = ("order 17 is late", "--key", "order/17", "--tag", "kind:fact")
    assert "added entry" in good(*add, *entry).out
    assert "there already" in good(*add, *entry).out
    assert "replaced" in good(*add, '{"late": 18}', "--parse", *entry[1:]).out
    good(*add, "an old plan", "--tag", "old", "--tag", "kind:fact")

    report = good("--url", levels, "--json", "levels", "tick").json
    assert report["levels"] == {"task:deploy:shared": 1, "agent:ada:stm": 1}
    assert "nothing was pending" in good("--url", levels, "levels", "tick").out

    recall = ("--url", levels, "--json", "levels", "recall")
    [found] = good(*recall, "--level", "task:deploy:shared", *where).json
    assert (found["content"], found["metadata"]) == ({"late": 18}, {"count": 1})
    assert "task:deploy:shared" in good("--url", levels, "explain", found["id"][:8]).out
    near = good(*recall, "late", "--limit", "1", "--tag", "kind:fact", "--key", "order/*").json
    assert near[0]["similarity"] is not None
    nothing = ("levels", "recall", "--since", "2100-01-01T00:00:00Z")
    assert "no entries fit" in good("--url", levels, *nothing).out

    assert "kind:fact (1)" in good("--url", levels, "levels", "info", "task:deploy:shared").out
    assert "entries        4" in good("--url", levels, "levels", "info").out
    seen = good("--url", levels, "levels", "map").out
    assert "  └ task:deploy:shared (count): 1 entry, for 3600 s" in seen
    assert good("--url", levels, "--json", "levels", "map").json["edges"][0]["pending"] == 0


def test_a_lens_shows_what_its_levels_hold(levels: str) -> None:
    for place, level in (("17", "agent:ada:working"), ("18", "task:deploy:shared")):
        good("--url", levels, "levels", "add", level, f"late {place}", "--tag", "kind:fact")
    looked_at = ("agent:ada:working", "task:deploy:shared")
    with Memory.open(levels) as memory:
        memory.levels.put_lens("agent:ada:facts", looked_at, tags=FACTS, limit=1)
    facts = ("--lens", "facts", "--agent", "ada")
    recall = ("--url", levels, "--json", "levels", "recall", *facts)
    assert len(good(*recall).json) == 1
    assert len(good(*recall, "--limit", "5").json) == 2
    assert "- late" in good("--url", levels, "context", "late 18", *facts).out
    assert "agent:ada:facts" in good("--url", levels, "list", "lenses").out


def test_entries_expire_and_end_with_their_level(levels: str) -> None:
    name = "task:deploy:shared"
    good("--url", levels, "levels", "add", name, "a note")
    maintain = ("--url", levels, "upkeep", "maintain", name)
    assert "nothing was to do" in good(*maintain).out
    assert name in good(*maintain, "--at", "2100-01-01T00:00:00Z").out
    close = ("--url", levels, "levels", "close", name)
    assert run(*close).code == 2
    assert f"closed {name} with 0 entries" in good(*close, "--yes").out
    assert "no levels" in good("--url", levels, "list", "levels", "--owner", "deploy").out


MONDAY = ("--at", "2026-05-04T09:00:00Z")
TUESDAY = ("--at", "2026-05-05T09:00:00Z")


def test_preferences(url: str) -> None:
    prefer = ("--url", url, "people", "prefer", "ann", "seat")
    assert good(*prefer, "on the aisle", *TUESDAY).out == "stored: ann wants on the aisle\n"
    assert good(*prefer, "on the aisle", *TUESDAY).out == "known already: ann wants on the aisle\n"
    late = good(*prefer, "at the window", "--source", "inferred", *MONDAY).out
    assert late == "stored: ann wants at the window; a later one is in force\n"

    ask = ("--url", url, "list", "preferences", "--user", "ann", "--about", "seat")
    assert "at the window" not in good(*ask).out
    history = good(*ask, "--history").out
    assert history.index("on the aisle") < history.index("at the window")
    assert "2026-05-04 09:00  no" in history
    [aisle, window] = good("--json", *ask, "--history").json
    assert (aisle["supersedes"], window["in_force"]) == (window["id"], False)
    assert (window["source"], window["confidence"]) == ("inferred", 0.7)


def test_knowledge(url: str) -> None:
    know = ("--url", url, "people", "know", "refunds")
    stored = good("--json", *know, "they take five days", "--user", "ann").json
    again = good(*know, "they take five days", "--user", "ann").out
    assert again == f"known already: knowledge {stored['id']}, confidence 1.000\n"
    documented = ("three days", "--source", "documented", "--contradicts", stored["id"])
    assert good(*know, *documented).out.endswith(", confidence 0.356\n")

    shown = good("--url", url, "list", "knowledge").out
    assert stored["id"] in shown  # whole, so that it can be copied
    for part in ("they take five days", "0.556", "ann", "documented", "three days"):
        assert part in shown
    assert good("--url", url, "list", "knowledge", "--about", "seats").out == ("no knowledge\n")


def test_scopes(url: str) -> None:
    scope = ("--url", url, "people", "scope")
    given = ("--can-learn", "sql_*", "--can-learn", "web", "--cannot-learn", "sql_admin")
    more = ("--share-with", "*", "--inherit-from", "ada", "--min-occurrences", "4")
    assert good(*scope, "grace", *given, *more).out == "set the scope of grace\n"
    [stored] = good("--url", url, "--json", "list", "scopes").json
    assert stored == {
        "agent": "grace", "can_learn": ["sql_*", "web"], "cannot_learn": ["sql_admin"],
        "share_with": ["*"], "inherit_from": ["ada"], "min_occurrences": 4,
    }  # fmt: skip
    good(*scope, "ada", "--share-with", "grace")
    shown = good("--url", url, "list", "scopes").out
    assert shown.index("everything") < shown.index("sql_*, web")
    assert good(*scope, "ada", "--remove").out == "removed the scope of ada\n"
    assert good(*scope, "ada", "--remove").out == "ada had no scope\n"
    assert good("--json", *scope, "grace", "--remove").json == {"removed": True}
    assert good("--url", url, "list", "scopes").out == "no scopes\n"


@pytest.fixture
def certain(url: str) -> str:
    with Memory.open(url) as memory:
        teach(memory)
    return url


def test_each_kind_of_file(certain: str, tmp_path: Path) -> None:
    export = ("--url", certain, "skills", "export")
    folder, file, page = str(tmp_path / "skills"), str(tmp_path / "a.md"), str(tmp_path / "a.html")
    found = f"5 conclusions on 2 kinds of task in {folder}\n"
    assert good(*export, folder).out == f"{found}changed: refunds, visas\n"
    assert good(*export, folder).out == f"{found}changed: nothing\n"
    assert good(*export, "--agents-md", file, "--agent", "ada").out.startswith("1 conclusion on 1")
    told = good("--json", *export, "--playbook", file, "--task-type", "refunds").json
    assert (told["form"], told["conclusions"], told["changed"]) == ("playbook", 4, [file])
    assert good("--url", certain, "report", page).out.endswith(f"changed: {page}\n")
    good("--url", certain, "upkeep", "erase", "--agent", "ada", "--yes")
    assert good(*export, folder).out.endswith("\nremoved: visas\n")
    good("--url", certain, "upkeep", "erase", "--agent", "default", "--yes")
    assert good(*export, "--playbook", file).out.startswith("nothing is established or refuted yet")


@pytest.mark.parametrize(("words", "code", "said"), [
    ("skills export", 2, "give DIR, --agents-md FILE or --playbook FILE"),
    ("skills export a --playbook b", 2, "give DIR, --agents-md FILE or --playbook FILE"),
    ("skills export a --task-type x", 2, "no task of type 'x'; there are: refunds, visas"),
    ("skills export /dev/null", 1, "Error: '/dev/null"),
    ("report /", 1, "is a folder; name a file"), ("report no/such/folder", 1, "there is no folder"),
])  # fmt: skip
def test_wrong_usage(certain: str, words: str, code: int, said: str) -> None:
    assert said in complaint("--url", certain, *words.split(), code=code)
