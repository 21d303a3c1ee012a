"""The groups of the parts: ``lessons``, ``levels``, ``people``, ``skills``, and ``report``."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphmem import Memory
from tests.cli.running import complaint, good, run
from tests.contract.test_skills import teach
from tests.faults.model_server import rules, serving, status

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


@pytest.fixture
def levels(url: str) -> str:
    good("--url", url, "levels", "default", "--agent", "ada")
    good("--url", url, "levels", "put", "task:deploy:shared", "--ttl", "3600")
    return url


def test_an_entry_goes_from_level_to_level_and_is_found(levels: str) -> None:
    where = ("--tag", "kind:fact", "--none-of", "old")
    pulled = good(
        *("--url", levels, "--json", "levels", "pull", "task:deploy:shared", "agent:ada:working"),
        *("--transformer", "count", *where),
    ).json
    assert pulled["changed"] is True
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
    assert good("--url", levels, "levels", "map", "--mermaid").out.startswith("flowchart LR")
    assert good("--url", levels, "--json", "levels", "map").json["edges"][0]["pending"] == 0
    stop = ("--url", levels, "levels", "pull", "task:deploy:shared", "agent:ada:working", "--stop")
    assert "pulls no longer from" in good(*stop).out
    assert good("--json", *stop).json["changed"] is False


def test_a_lens_shows_what_its_levels_hold(levels: str) -> None:
    lens = ("--url", levels, "levels", "lens")
    for place, level in (("17", "agent:ada:working"), ("18", "task:deploy:shared")):
        good("--url", levels, "levels", "add", level, f"late {place}", "--tag", "kind:fact")
    tags = ("--tag", "kind:fact", "--none-of", "old")
    stored = (*lens, "agent:ada:facts", "agent:ada:working", "task:deploy:shared", *tags)
    assert "looks at" not in good(*stored, "--limit", "1").out
    facts = ("--lens", "facts", "--agent", "ada")
    recall = ("--url", levels, "--json", "levels", "recall", *facts)
    assert len(good(*recall).json) == 1
    assert len(good(*recall, "--limit", "5").json) == 2
    assert "- late" in good("--url", levels, "context", "late 18", *facts).out
    assert "removed the lens facts" in good(*lens, "facts", "--remove", "--agent", "ada").out
    assert good("--url", levels, "list", "lenses").out == "no lenses\n"


def test_entries_go_expire_and_end_with_their_level(levels: str) -> None:
    name = "task:deploy:shared"
    good("--url", levels, "levels", "add", name, "a note", "--key", "note")
    assert "removed 1 of 1" in good("--url", levels, "levels", "remove", name, "note").out
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
