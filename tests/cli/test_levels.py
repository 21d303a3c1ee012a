"""``graphmem levels``: entries that come, move, are found and go."""

from __future__ import annotations

import pytest

from tests.cli.running import good, run


@pytest.fixture
def url(url: str) -> str:
    good("--url", url, "levels", "default", "--agent", "ada")
    good("--url", url, "levels", "put", "task:deploy:shared", "--ttl", "3600")
    return url


def test_an_entry_goes_from_level_to_level_and_is_found(url: str) -> None:
    where = ("--tag", "kind:fact", "--none-of", "old")
    pulled = good(
        *("--url", url, "--json", "levels", "pull", "task:deploy:shared", "agent:ada:working"),
        *("--transformer", "count", *where),
    ).json
    assert pulled["changed"] is True
    add = ("--url", url, "levels", "add", "agent:ada:working")
    entry = ("order 17 is late", "--key", "order/17", "--tag", "kind:fact")
    assert "added entry" in good(*add, *entry).out
    assert "there already" in good(*add, *entry).out
    assert "replaced" in good(*add, '{"late": 18}', "--parse", *entry[1:]).out
    good(*add, "an old plan", "--tag", "old", "--tag", "kind:fact")

    report = good("--url", url, "--json", "levels", "tick").json
    assert report["levels"] == {"task:deploy:shared": 1, "agent:ada:stm": 1}
    assert "nothing was pending" in good("--url", url, "levels", "tick").out

    recall = ("--url", url, "--json", "levels", "recall")
    [found] = good(*recall, "--level", "task:deploy:shared", *where).json
    assert (found["content"], found["metadata"]) == ({"late": 18}, {"count": 1})
    assert "task:deploy:shared" in good("--url", url, "explain", found["id"][:8]).out
    near = good(*recall, "late", "--limit", "1", "--tag", "kind:fact", "--key", "order/*").json
    assert near[0]["similarity"] is not None
    nothing = ("levels", "recall", "--since", "2100-01-01T00:00:00Z")
    assert "no entries fit" in good("--url", url, *nothing).out

    assert "kind:fact (1)" in good("--url", url, "levels", "info", "task:deploy:shared").out
    assert "entries        4" in good("--url", url, "levels", "info").out
    seen = good("--url", url, "levels", "map").out
    assert "  └ task:deploy:shared (count): 1 entry, for 3600 s" in seen
    assert good("--url", url, "levels", "map", "--mermaid").out.startswith("flowchart LR")
    assert good("--url", url, "--json", "levels", "map").json["edges"][0]["pending"] == 0
    stop = ("--url", url, "levels", "pull", "task:deploy:shared", "agent:ada:working", "--stop")
    assert "pulls no longer from" in good(*stop).out
    assert good("--json", *stop).json["changed"] is False


def test_a_lens_shows_what_its_levels_hold(url: str) -> None:
    lens = ("--url", url, "levels", "lens")
    for place, level in (("17", "agent:ada:working"), ("18", "task:deploy:shared")):
        good("--url", url, "levels", "add", level, f"late {place}", "--tag", "kind:fact")
    tags = ("--tag", "kind:fact", "--none-of", "old")
    stored = (*lens, "agent:ada:facts", "agent:ada:working", "task:deploy:shared", *tags)
    assert "looks at" not in good(*stored, "--limit", "1").out
    facts = ("--lens", "facts", "--agent", "ada")
    recall = ("--url", url, "--json", "levels", "recall", *facts)
    assert len(good(*recall).json) == 1
    assert len(good(*recall, "--limit", "5").json) == 2
    assert "- late" in good("--url", url, "context", "late 18", *facts).out
    assert "removed the lens facts" in good(*lens, "facts", "--remove", "--agent", "ada").out
    assert good("--url", url, "list", "lenses").out == "no lenses\n"


def test_entries_go_expire_and_end_with_their_level(url: str) -> None:
    name = "task:deploy:shared"
    good("--url", url, "levels", "add", name, "a note", "--key", "note")
    assert "removed 1 of 1" in good("--url", url, "levels", "remove", name, "note").out
    good("--url", url, "levels", "add", name, "a note")
    maintain = ("--url", url, "upkeep", "maintain", name)
    assert "nothing was to do" in good(*maintain).out
    assert name in good(*maintain, "--at", "2100-01-01T00:00:00Z").out
    close = ("--url", url, "levels", "close", name)
    assert run(*close).code == 2
    assert f"closed {name} with 0 entries" in good(*close, "--yes").out
    assert "no levels" in good("--url", url, "list", "levels", "--owner", "deploy").out
