"""The commands of memory.levels: add, ingest, ask, close."""

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
    assert (pulled["transformer"], pulled["created"]) == ("count", True)
    add = ("--url", url, "levels", "add", "agent:ada:working")
    said = ("order 17 is late", "--key", "order/17", "--tag", "kind:fact")
    assert "added entry" in good(*add, *said).out
    assert "there already" in good(*add, *said).out
    assert "replaced" in good(*add, '{"late": 18}', "--parse", *said[1:]).out
    good(*add, "an old plan", "--tag", "old", "--tag", "kind:fact")

    report = good("--url", url, "--json", "levels", "tick").json
    assert report["levels"] == {"task:deploy:shared": 1, "agent:ada:stm": 1}
    assert "nothing was pending" in good("--url", url, "levels", "tick").out

    recall = ("--url", url, "--json", "levels", "recall")
    [found] = good(*recall, "--level", "task:deploy:shared", *where).json
    assert (found["content"], found["metadata"], found["similarity"]) == (
        {"late": 18},
        {"count": 1},
        None,
    )
    by_id = good("--url", url, "levels", "entries", found["id"]).out
    assert '{"late": 18}' in by_id
    near = good(*recall, "late", "--limit", "1", "--all-of", "kind:fact", "--key", "order/*").json
    assert near[0]["similarity"] is not None
    nothing = ("levels", "recall", "--since", "2100-01-01T00:00:00Z")
    assert "no entries fit" in good("--url", url, *nothing).out

    assert "task:deploy:shared" in good("--url", url, "levels", "list", "--owner", "deploy").out
    assert good("--url", url, "--json", "levels", "info", "task:deploy:shared").json["entries"] == 1
    seen = good("--url", url, "levels", "map").out
    assert "  └ task:deploy:shared (count): 1 entry, for 3600 s" in seen
    assert good("--url", url, "levels", "map", "--mermaid").out.startswith("flowchart LR")
    assert good("--url", url, "--json", "levels", "map").json["edges"][0]["pending"] == 0
    assert "entries        4" in good("--url", url, "levels", "statistics").out
    assert good("--url", url, "--json", "levels", "tags", "task:deploy:shared").json == [
        {"tag": "kind:fact", "entries": 1}
    ]

    lens = ("--url", url, "levels", "lens")
    assert "nobody put a lens" in good(*lens, "list").out
    put = ("put", "agent:ada:facts", "agent:ada:working", "task:deploy:shared", *where)
    assert "any age" in good(*lens, *put, "--limit", "1").out
    assert good("--json", *lens, "list").json[0]["tags"]["none_of"] == ["old"]
    assert "kind:fact" in good(*lens, "info", "facts", "--agent", "ada").out
    facts = ("--lens", "facts", "--agent", "ada")
    assert len(good(*recall, *facts).json) == 1
    assert len(good(*recall, *facts, "--limit", "5").json) == 2
    assert run(*recall, *facts, "--level", "agent:ada:working").code == 2
    noted = good("--url", url, "context", "late 18", *facts).out
    assert noted.count("- late: 18") == 1  # two entries say it
    assert "removed the lens facts" in good(*lens, "remove", "facts", "--agent", "ada").out

    good("--url", url, "levels", "add", "task:deploy:shared", "a note", "--key", "note")
    by_key = ("--url", url, "levels")
    longer = good(*by_key, "prolong", "task:deploy:shared", "note", "other", "--ttl", "7200")
    assert "1 of 2 stay longer" in longer.out
    assert "removed 1 of 1" in good(*by_key, "remove", "task:deploy:shared", "note").out

    maintain = ("--url", url, "maintain", "task:deploy:shared")
    assert "nothing was to do" in good(*maintain).out
    assert "task:deploy:shared" in good(*maintain, "--at", "2100-01-01T00:00:00Z").out
    close = ("--url", url, "levels", "close", "task:deploy:shared")
    assert run(*close).code == 2
    assert "entries that it had: 0" in good(*close, "--yes").out
    assert "no levels" in good("--url", url, "levels", "list", "--owner", "deploy").out


@pytest.mark.parametrize(
    "arguments",
    [
        ("put", "nonsense"),
        ("put", "task:deploy:new", "--ttl", "0"),
        ("add", "agent:ada:nothing", "text"),
        ("add", "agent:ada:working", "{", "--parse"),
        ("add", "agent:ada:working", "text", "--agent", "bob"),
        ("recall", "--level", "agent:ada:working", "--agent", "bob"),
        ("pull", "agent:ada:sensory", "agent:ada:working"),  # a circle
        ("pull", "task:deploy:shared", "agent:ada:working", "--transformer", "nothing"),
        ("lens", "put", "agent:ada:new", "agent:ada:nothing"),
        ("lens", "info", "nothing", "--agent", "ada"),
        ("lens", "remove", "planning", "--agent", "ada"),
        ("tags", "agent:ada:working", "--agent", "bob"),
        ("close", "task:deploy:other", "--yes"),
    ],
    ids=" ".join,
)
def test_what_is_wrong_is_told_and_nothing_is_written(url: str, arguments: tuple[str, ...]) -> None:
    done = run("--url", url, "levels", *arguments)
    assert (done.code, done.out) == (2, "")
    assert "Error" in done.err
    assert "nothing was pending" in good("--url", url, "levels", "tick").out
