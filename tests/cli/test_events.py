"""``graphmem events``: streams of changes, read as they come, and shared by consumers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from graphmem import Memory, fingerprint
from graphmem.models.policies import Event
from tests.cli.running import good, start


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


def test_follow_prints_what_comes_until_ctrl_c(url: str) -> None:
    good("--url", url, "policies", "update", "n=0", "act", "--success", "yes")
    with following("--url", url, "--json", "events", "tail", "--follow", "--limit", "1") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        seen = [json.loads(process.stdout.readline())["seq"]]
        for place in (1, 2):
            good("--url", url, "policies", "update", f"n={place}", "act", "--success", "yes")
        other = ("policies", "update", "n=3", "act", "--success", "no", "--agent", "new")
        good("--url", url, *other)
        seen += [json.loads(process.stdout.readline())["seq"] for _ in range(3)]
        assert seen == [1, 2, 3, 1]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, b"", b"")


def consume(url: str, *arguments: str, group: str = "audit", consumer: str = "one") -> list[Any]:
    named = ("--group", group, "--consumer", consumer)
    text = good("--url", url, "events", "consume", *named, *arguments).out
    return [json.loads(line) for line in text.splitlines()]


def pending(url: str, group: str = "audit") -> dict[str, int]:
    with Memory.open(url) as memory:
        counts = Counter[str]()
        for item in memory.events.pending(group):
            counts[item.consumer] += item.count
        return dict(counts)


def test_consume_gives_each_event_once_to_a_group(learned: str) -> None:
    first = consume(learned, "--limit", "5")
    rest = consume(learned, consumer="two")
    assert (len(first), len(rest)) == (5, 9)
    assert len({event["id"] for event in first + rest}) == 14
    assert (consume(learned), pending(learned)) == ([], {})
    assert len(consume(learned, group="another")) == 14


def test_a_broken_pipe_acknowledges_nothing(learned: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    named = ("--group", "audit", "--consumer", "one")
    process = start("--url", learned, "events", "consume", *named, stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert (err, sum(pending(learned).values())) == (b"", 14)
    assert len(consume(learned, "--idle", "9")) == 14


def test_follow_acknowledges_each_event_as_it_comes(learned: str) -> None:
    follow = ("--url", learned, "events", "consume", "--group", "audit", "--follow")
    with following(*follow, "--kind", "outcome", "--agent", "def*") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["kind"], first["agent"]) == ("outcome", "default")
        good("--url", learned, "policies", "update", "n=1", "act", "--success", "yes")
        assert json.loads(process.stdout.readline())["success"] is True
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, b"", b"")
