"""Commands on lessons, as a person uses them, and the picture of scores."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from graphmem import Memory
from graphmem.cli.lessons import running_mean
from tests.cli.running import good, run

MONDAY = datetime(2026, 5, 4, 9, tzinfo=UTC)


@pytest.fixture
def taught(url: str) -> str:
    """A memory in which asking works for ada and guessing fails, with rules and mistake cards."""
    with Memory.open(url) as memory:
        for day in range(8):
            memory.learn(
                "refund a flight",
                "ask first",
                score=0.9,
                task_type="refund",
                agent="ada",
                summary=f"refunded on day {day}",
                ended_at=MONDAY + timedelta(days=day),
            )
        for day in range(4):
            failure = {"success": False, "error": f"no booking {day}", "agent": "grace"}
            memory.learn_many(
                [{"task": "refund a flight", "strategy": "guess", "task_type": "refund", **failure}]
            )
        card = {
            "type": "wrong booking",
            "worker": "grace",
            "correct_decision": "ask for the number",
            "lesson": "numbers are not names",
        }
        for key in ("1", "2"):
            memory.learn_many(
                [
                    {
                        "task": "refund a flight",
                        "strategy": [],
                        "score": 0.2,
                        "task_type": "refund",
                        "agent": "grace",
                        "mistakes": ["took the first booking"],
                        "mistake_cards": [card],
                        "source_key": key,
                    }
                ]
            )
    return url


def test_heuristics(taught: str) -> None:
    ask = ("--url", taught)
    line = next(x for x in good(*ask, "lessons", "heuristics").out.splitlines() if "ask first" in x)
    for part in ("ada", "refund", "8 of 8", "0.900", "0.68 to 1.00", "established"):
        assert part in line
    [row] = good(
        *ask, "--json", "lessons", "heuristics", "--task-type", "refund", "--limit", "1"
    ).json
    assert (row["strategy"], row["trials"], len(row["supporting"])) == ("ask first", 8, 5)
    pooled = good(*ask, "--json", "lessons", "heuristics", "--pooled", "--task-type", "refund").json
    assert pooled[0]["pooled_trials"] >= pooled[0]["trials"]
    for option in (("--agent", "grace"), ("--min-confidence", "0.91"), ("--task-type", "other")):
        assert good(*ask, "lessons", "heuristics", *option).out.startswith("no such heuristics")


def test_anti_patterns_say_what_to_do_instead(taught: str) -> None:
    ask = ("--url", taught)
    line = next(x for x in good(*ask, "lessons", "anti-patterns").out.splitlines() if "guess" in x)
    for part in ("grace", "no booking <number>", "4 of 4", "ask first", "+0.73", "8 of 8"):
        assert part in line
    [row] = good(*ask, "--json", "lessons", "anti-patterns").json
    assert row["better_alternative"]["ground"] == "task"
    assert row["better_alternative"]["lift"] == pytest.approx(9 / 10 - 1 / 6)

    assert "warned of" not in good(*ask, "lessons", "anti-patterns").out
    with Memory.open(taught) as memory:
        for number in range(4):
            error = "no seat" if number % 2 else None
            memory.learn(
                "take a seat", "look", success=error is None, task_type="seat", error=error
            )
            memory.learn("take a seat", "leap", success=False, task_type="seat")
    seats = good(*ask, "lessons", "anti-patterns", "--task-type", "seat", COLUMNS="60").out
    assert re.search(r"failed +2 of 4\n warned of +no\n", seats)
    assert "recall and choose leave it out" in " ".join(seats.split())

    # As grace alone, nothing else is known.
    alone = good(*ask, "lessons", "anti-patterns", "--agent", "grace").out
    assert "nothing better is known" in alone
    for option in (("--agent", "ada"), ("--min-confidence", "0.9"), ("--task-type", "other")):
        assert good(*ask, "lessons", "anti-patterns", *option).out.startswith(
            "no such anti-patterns"
        )


def test_rules_of_a_task_and_all(taught: str) -> None:
    ask = ("--url", taught)
    for command in (
        ("lessons", "rules", "refund a flight"),
        ("lessons", "rules"),
        ("lessons", "rules", "--agent", "grace"),
    ):
        shown = good(*ask, *command).out
        assert "[AVOID] took the first booking" in shown
        assert "episodes" in shown
        assert "0.750" in shown
    [row] = good(*ask, "--json", "lessons", "rules", "--limit", "1").json
    assert (row["verdict"], row["supporting"], row["opposing"]) == ("AVOID", 2, 0)
    assert good(*ask, "lessons", "rules", "another task").out == "no rule holds here yet\n"


def test_mistakes(taught: str) -> None:
    ask = ("--url", taught)
    shown = good(*ask, "lessons", "mistakes", "--task", "refund a flight", "--worker", "grace").out
    for part in ("2", "wrong booking", "ask for the number", "numbers are not names"):
        assert part in shown
    [row] = good(*ask, "--json", "lessons", "mistakes", "--limit", "1").json
    assert (row["seen"], row["worker"]) == (2, "grace")
    assert good(*ask, "lessons", "mistakes", "--worker", "nobody").out == "no such mistakes\n"
    assert good(*ask, "lessons", "mistakes", "--agent", "ada").out == "no such mistakes\n"


def test_scores_and_their_picture(taught: str, tmp_path: Path) -> None:
    ask = ("--url", taught)
    file = tmp_path / "scores.svg"
    done = good(*ask, "lessons", "scores", "refund a flight", "--limit", "7", "--plot", str(file))
    # Of fourteen 8 have .9, 4 have 0 and 2 have .2: 7.6 / 14.
    assert "mean score 0.543 of 14 episodes, of which the latest 7 are shown" in done.out
    assert done.out.endswith(f"drawn in {file}\n")
    drawn = file.read_text(encoding="utf-8")
    assert drawn.startswith("<?xml")
    png = tmp_path / "scores.png"
    rows = good(*ask, "--json", "lessons", "scores", "refund a flight", "--plot", str(png)).json
    assert png.read_bytes().startswith(b"\x89PNG")
    assert [row["score"] for row in rows if row["at"] is not None] == [0.9] * 8
    first = next(row for row in rows if row["at"] is not None)
    assert (first["at"], first["summary"]) == ("2026-05-04T09:00:00Z", "refunded on day 0")
    assert "refunded on day 0" in good(*ask, "lessons", "scores", "refund a flight").out

    nothing = good(
        *ask, "lessons", "scores", "another task", "--plot", str(tmp_path / "none.png")
    ).out
    assert re.match("nothing is known of this task yet.*\ndrawn in ", nothing)
    refused = run(*ask, "lessons", "scores", "refund a flight", "--plot", "scores.pdf")
    assert (refused.code, refused.out) == (2, "")
    assert ".png or .svg" in refused.err


def test_the_running_mean_is_that_of_the_latest_ten() -> None:
    scores = [1.0, 0.0, *[1.0] * 8, 0.0]
    means = running_mean(scores)
    assert means[:3] == pytest.approx([1.0, 0.5, 2 / 3])
    assert means[9] == pytest.approx(0.9)
    assert means[10] == pytest.approx(0.8)  # the first one is out, the last one in
    assert running_mean([]) == []


def test_merge_and_unmerge(taught: str) -> None:
    ask = ("--url", taught)
    said = good(*ask, "lessons", "merge", "ask first", "guess").out
    assert (
        said == "'guess' counts as 'ask first' from now on; `graphmem lessons unmerge` undoes it\n"
    )
    [row] = good(*ask, "--json", "strategies").json
    assert (row["text"], row["trials"]) == ("ask first", 12)
    assert good(*ask, "lessons", "unmerge", "ask first").out == "1 merge undone\n"
    assert good(*ask, "lessons", "unmerge", "ask first").out == "it was not merged\n"
    assert len(good(*ask, "--json", "strategies").json) == 2
    merged = good(*ask, "--json", "lessons", "merge", "guess", "ask first").json
    assert good(*ask, "--json", "strategies").json[0]["id"] == merged["id"]
    assert good(*ask, "--json", "lessons", "unmerge", "guess").json == {"unmerged": 1}


@pytest.mark.parametrize(
    "arguments",
    [
        ("lessons", "heuristics", "--min-confidence", "2"),
        ("lessons", "heuristics", "--min-confidence", "nan"),
        ("lessons", "anti-patterns", "--min-confidence", "much"),
        ("lessons", "anti-patterns", "--limit", "0"),
        ("lessons", "rules", "--limit", "0"),
        ("lessons", "scores"),
        ("lessons", "merge", "ask first"),
        ("lessons", "merge", "ask first", "ask first"),
        ("lessons", "merge", "ask first", "no such strategy"),
        ("lessons", "unmerge", "no such strategy"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(taught: str, arguments: tuple[str, ...]) -> None:
    done = run("--url", taught, *arguments)
    assert (done.code, done.out) == (2, "")
    assert "Error" in done.err


def test_queries_on_lessons_run_by_name(taught: str) -> None:
    ask = ("--url", taught, "--json", "query")
    [numbers, unknown] = good(*ask, "costly_errors").json["rows"]
    assert (numbers["error_class"], numbers["failures"]) == ("no booking <number>", 4)
    assert (unknown["error_class"], unknown["lost_score"]) == (None, pytest.approx(1.6))
    assert good(*ask, "getting_worse").json["rows"] == []
    assert good(*ask, "no_alternative").json["rows"] == []
    assert good(*ask, "disputed_strategies").json["rows"] == []
