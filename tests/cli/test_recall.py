"""The command recall, as a person uses it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from graphmem import Memory, Settings
from tests.cli.running import good, run

HASHING = {"GRAPHMEM_EMBEDDER": "hashing"}


@pytest.fixture
def asked(url: str) -> str:
    """A memory in which asking first works on refunds, and guessing fails."""
    with Memory.open(url, settings=Settings(embedder="hashing")) as memory:
        for number in range(4):
            for strategy, success in (("ask first", number > 0), ("guess", False)):
                memory.learn(
                    "refund a cancelled flight",
                    strategy,
                    success=success,
                    agent="ada",
                    error=None if success else "no such booking",
                    source_key=f"{strategy} {number}",
                )
    return url


def test_what_worked_and_what_to_keep_from(asked: str) -> None:
    shown = good("--url", asked, "recall", "refund of a flight", **HASHING).out
    assert shown.index("ask first") < shown.index("guess")
    assert "3 of 4" in shown
    assert "refund a cancelled flight" in shown
    assert "no such booking" in shown


def test_as_json(asked: str) -> None:
    done = good("--url", asked, "--json", "recall", "refund", "--limit", "1", **HASHING)
    [item] = done.json["items"]
    assert item["text"] == "ask first"
    assert item["path"][0] == "text"
    assert item["score"] == pytest.approx(item["relevance"] * item["lower"] * item["freshness"])
    none = good("--url", asked, "--json", "recall", "refund", "--agent", "grace", **HASHING)
    assert none.json["items"] == []
    text = good("--url", asked, "--json", "recall", "refund", "--max-hops", "0", **HASHING).json
    assert all(len(item["path"]) == 2 for item in text["items"])


def test_kinds_stand_in_tables_of_their_own(url: str) -> None:
    with Memory.open(url, settings=Settings(embedder="hashing")) as memory:
        given = {"agent": "ada", "score": 0.9, "successes": ["read the fare rules"]}
        memory.learn_many([{"task": "refund a cancelled flight", "strategy": "ask first", **given}])
    shown = good("--url", url, "recall", "refund of a flight", **HASHING).out
    rule = shown.index("[WORKS] read the fare rules")
    assert shown.index("ask first") < shown.index("what speaks for it") < rule
    assert shown.index("holds in 1 of 1 on tasks like it") > rule
    rules = ("--url", url, "--json", "recall", "refund of a flight", "--kind", "rule")
    [item] = good(*rules, **HASHING).json["items"]
    assert (item["kind"], item["verdict"]) == ("rule", "WORKS")
    assert not good(*rules, "--kind", "policy", "--agent", "bob", **HASHING).json["items"]


def test_an_empty_memory_loads_no_model(url: str) -> None:
    good("--url", url, "init")
    code = (
        "import sys\n"
        "from graphmem.cli.main import cli\n"
        f"cli.main(['--url', {url!r}, 'recall', 'anything'], standalone_mode=False)\n"
        "loaded = {'onnxruntime'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "nothing is known of such tasks; `graphmem tasks` lists what is known\n"


def test_what_is_unlike_all_that_is_known_is_told_so(asked: str) -> None:
    said = good("--url", asked, "recall", "quantum physics", **HASHING).out
    assert re.fullmatch(
        r"nothing known is like this: "
        r"the nearest task is '.+' at -?\d\.\d\d, under the floor \d\.\d\d; try other words, .*\n",
        said,
    )
    shown = good("--url", asked, "--json", "recall", "quantum physics", **HASHING).json
    assert shown["items"] == shown["tasks"] == []
    assert shown["nearest"]["similarity"] < shown["floor"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["recall", ""], "text"),
        (["recall", "x", "--max-hops", "9"], "max_hops"),
        (["recall", "x", "--limit", "101"], "limit"),
        (["recall", "x", "--limit", "0"], "--limit"),
        (["recall", "x", "--kind", "rules"], "strategy, rule, heuristic, policy"),
        (["recall"], "TEXT"),
    ],
)
def test_wrong_usage_is_named(asked: str, arguments: list[str], named: str) -> None:
    done = run("--url", asked, *arguments, **HASHING)
    assert done.code == 2
    assert named in done.err
