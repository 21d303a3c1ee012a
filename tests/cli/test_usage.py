"""Wrong usage of any command: it says what is wrong, exits with 2, and writes nothing."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from graphmem import Memory
from tests.cli.running import HUSH, complaint, good

NOBODY = "0" * 32
WRONG = (
    # General options and commands
    ("no-such-command", "No such command"),
    ("--no-such-option list", "No such option"),
    ("--wait -1 list", "wait"),
    ("--namespace ' spaced ' list", "namespace"),
    ("--url mysql://localhost list", "mysql"),
    ("--url '' list", "url"),
    ("--url neo4j://127.0.0.1:1 list", "GRAPHMEM_PASSWORD"),
    ("demo --questions 0", "'--questions'"),
    ("doctor formats --accept-loss", "does not go with formats"),
    # learn, seed
    ("learn 'only a task'", "STRATEGY"),
    ("learn t s", "success"),
    ("learn t s --score 1.5", "score"),
    ("learn t s --success --started-at yesterday", "is not an ISO 8601"),
    ("seed --format no-such-format -", "no-such-format"),
    # query
    ("query", "`graphmem procedures list --subject analysis`"),
    ("query what_works -e 'RETURN 1 AS one'", "give NAME or --execute"),
    ("query outcoms", "no query 'outcoms'; there are agents, "),
    ("query outcomes", "parameter task (string) is missing; in the shell --param task="),
    ("query what_works -p nonsense", "give NAME=VALUE"),
    ("query what_works -p no_such_parameter=1", "no_such_parameter"),
    ("procedures list no.such", "no.such"),
    # list, explain
    ("list strategies --limt 3", "'--limit'"),
    ("list kinds", "is not one of 'episodes', 'tasks', "),
    ("list tasks --strategy x", "`list tasks` does not take --strategy; these do: episodes"),
    ("list scopes --failure", "`list scopes` does not take --success; these do: episodes"),
    ("list --agent ada", "`list` without a KIND does not take --agent; these do: episodes, "),
    ("list preferences", "`list preferences` needs --user USER"),
    ("list policies --state x", "--state 'x': give JSON, a fingerprint"),
    ("list episodes --since 2026-05-04", "has no time zone"),
    ("list episodes --limit 0", "--limit"),
    ("explain 'ask firsts'", "the nearest strategies are 'ask first'"),
    ("explain 'nothing like it'", "`graphmem list KIND`"),
    (f"explain {NOBODY}", "has an id '000"),
    ("explain 'ask first' --agent bob", "that agent 'bob' may read"),
    # choose, recall, predict, calibrate, evaluate
    ("choose refund 'ask first' --explore luck", "explore"),
    ("recall x --kind rule", "No such option '--kind'"),
    ("evaluate", "say what to compare with: --explore greedy, or --strategy TEXT"),
    ("evaluate --strategy 'unheard of'", "an estimate needs 10 at least"),
    # policies
    ("policies best deploy", "give JSON, a fingerprint"),
    ("policies best task=deploy staging", "give JSON, a fingerprint"),
    ("policies best task=deploy task=test", "'task' is given twice"),
    ("policies best '{\"task\": '", "is not JSON"),
    ("policies best '{\"task\": NaN}'", "is not JSON (expected value at line 1 column 10)"),
    ("policies best a=1 --at noon", "not an ISO 8601"),
    ("policies cycles 'nobody knows this'", "no policy or strategy"),
    ("policies expect x --probability 0.7", "is now `memory.predictions.expect` in Python"),
    # events
    ("events tail --limit 0", "--limit"),
    # lessons, people
    ("lessons merge 'ask first'", "give OTHER"),
    ("lessons merge 'ask first' guess --undo", "give OTHER"),
    ("lessons merge 'ask first' 'no such strategy'", "no such strategy"),
    ("people know refunds x --source rumour", "'documented'"),
    ("people scope ada", "give what AGENT may learn or read, or --remove"),
    ("people scope ada --share-with '*' --remove", "or --remove alone"),
    ("people scope ada --min-occurrences 0", "--min-occurrences"),
    # levels
    ("levels add agent:ada:working { --parse", "is not JSON"),
    ("levels recall --level agent:ada:working --lens planning", "does not go with levels"),
    ("levels info agent:ada:working --agent bob", "bob"),
    ("levels close agent:ada:working", "confirm with --yes"),
    # upkeep
    ("upkeep erase --yes", "--agent NAME or --user NAME"),
    ("upkeep erase --agent ada --user ann --yes", "--agent NAME or --user NAME"),
    (f"upkeep erase {NOBODY} --yes", NOBODY),
    ("upkeep erase --agent nobody --yes", "no agent 'nobody'"),
    ("upkeep erase --agent ada", "confirm with --yes"),
    ("--json upkeep erase --agent ada", "confirm with --yes"),
    ("upkeep forget --older-than 90", "confirm with --yes"),
    ("upkeep forget --yes", "older_than"),
    ("upkeep forget --yes --older-than long", "--older-than"),
    ("upkeep import FILE --format xml", "is not one of 'backup', 'sentinel'"),
    ("upkeep import FILE --format jsonl --document x", "is for Sentinel files"),
    ("upkeep import FILE --document x", "--document goes with --format sentinel"),
    ("upkeep export FILE --format jsonl --document x", "is for Sentinel files"),
    ("upkeep export FILE --document x", "a backup is of the whole memory: leave out --document"),
    ("upkeep export FILE --format graphml", "'sentinel', 'jsonl', 'neo4j'"),
    ("upkeep export - --format jsonl", "give the name of a file"),
)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A memory of two episodes, and of levels."""
    url = str(tmp_path_factory.mktemp("usage") / "runs.graph")
    with Memory.open(url) as memory:
        memory.learn("refund", "ask first", success=True, agent="ada")
        memory.learn("refund", "guess", success=False, agent="ada")
        memory.people.prefer("ann", "seat", "on the aisle")
        memory.levels.default("ada")
    return url


@pytest.mark.parametrize(("line", "message"), WRONG, ids=lambda text: text[:60])
def test_wrong_usage_is_named(
    known: str, tmp_path: Path, line: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["FILE.json" if word == "FILE" else word for word in shlex.split(line)]
    told = complaint(*words, GRAPHMEM_URL=known, GRAPHMEM_EMBEDDER="hashing")
    assert "Error" in told
    assert message in told
    assert len(told) < 1_000
    assert list(tmp_path.iterdir()) == []
    counts = good("--url", known, "--json", "list").json
    assert (counts["episodes"], counts["policies"], counts["agents"]) == (2, 0, 1)
    assert "nothing was pending" in good("--url", known, "levels", "tick").out


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "-e", "CREATE (n:Strategy {id: '1'})"), ("query", "-e", "MATCH (n RETURN n"),
        ("seed", "no-such-file.jsonl"), ("seed", "no-such-folder/*.jsonl"),
        ("seed", "-", "--refused", "no-such-folder/refused.jsonl"),
        ("upkeep", "export", "/", "--format", "sentinel"), ("--url", "bolt://127.0.0.1:1", "list"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_failure_exits_with_1(known: str, arguments: tuple[str, ...]) -> None:
    assert complaint(*arguments, code=1, GRAPHMEM_URL=known, **HUSH).startswith("Error: ")
