"""Many clients, each a process of its own, that write one Neo4j, against one that writes alone.

    GRAPHMEM_URL=... python -m tests.bench.writers_server PLACE COUNT

is one of the clients. It learns so many episodes for each line that it reads, and then prints what
they took.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from graphmem import Memory
from graphmem.store.port import ChangedError
from tests.bench.report import Result
from tests.bench.server import NAMESPACE, opened
from tests.bench.workload import episodes, single

CLIENTS = 16
EACH = 250
KNOWN = 1_000
PATIENT = {"GRAPHMEM_RETRY_SECONDS": "300"}
"""So that a busy machine makes it slow, and does not end it."""
SHARED = {"own": "an agent each", "few": "five agents"}


@dataclass(frozen=True)
class Took:
    """What calls of clients took that worked at the same time."""

    rate: float
    waits: list[float]
    """Seconds of each call, in order."""
    again: int
    """Attempts that another writer made fail."""
    clients: float
    """Seconds of processor time that the clients took for a call."""
    server: float | None
    """The same of the server, where it is on this machine."""

    def at(self, part: float) -> float:
        """Return in milliseconds how long that part of the calls took at most."""
        return 1000 * self.waits[int(part * (len(self.waits) - 1))]

    @property
    def cost(self) -> float:
        """Seconds of processor time that a call takes altogether."""
        return self.clients + (self.server or 0.0)


class Client:
    """A process that learns, seen from outside."""

    def __init__(self, place: int, count: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.writers_server", str(place), str(count)],
            env=os.environ | {"GRAPHMEM_URL": os.environ["NEO4J_URI"], **PATIENT},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, tag: str, agents: str) -> None:
        """Have it learn."""
        assert self._process.stdin
        print(tag, agents, file=self._process.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        """Wait until it is ready, or has learned; return what it says."""
        assert self._process.stdout
        return dict(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """Have it end."""
        self._process.communicate(timeout=60)


def client(place: int, count: int) -> None:
    """Learn when asked to, until nothing more is asked."""
    again = 0
    init = ChangedError.__init__

    def counting(error: ChangedError, *args: object) -> None:
        nonlocal again
        again += 1
        init(error, *args)

    ChangedError.__init__ = counting  # type: ignore[method-assign, assignment]
    with Memory.open(namespace=NAMESPACE) as memory:
        memory.stats()
        print("{}", flush=True)
        for line in sys.stdin:
            tag, agents = line.split()
            waits, again, before = [], 0, time.process_time()
            for number in range(count):
                call = single(number * 7 + place, f"{tag} {place}")
                if agents == "own":
                    call["agent"] = f"agent of {place}"
                started = time.perf_counter()
                memory.learn(**call)  # type: ignore[arg-type]
                waits.append(time.perf_counter() - started)
            cost = time.process_time() - before
            print(json.dumps({"waits": waits, "again": again, "cost": cost}), flush=True)


def at_once(clients: Sequence[Client], tag: str, agents: str, server: int | None) -> Took:
    """Have clients learn at the same time."""
    before, started = processor(server), time.perf_counter()
    for one in clients:
        one.ask(tag, agents)
    told = [one.answer() for one in clients]
    seconds, after = time.perf_counter() - started, processor(server)
    waits = sorted(wait for one in told for wait in one["waits"])
    return Took(
        rate=len(waits) / seconds,
        waits=waits,
        again=sum(one["again"] for one in told),
        clients=sum(one["cost"] for one in told) / len(waits),
        server=None if before is None or after is None else (after - before) / len(waits),
    )


def writers_server(_: Path, scale: float) -> list[Result]:
    """Sixteen processes that share strategies and tasks, against one of them alone."""
    each = max(int(EACH * scale), 20)
    server = listener(urlsplit(os.environ["NEO4J_URI"]).port or 7687)
    with opened() as memory:
        memory.learn_many(episodes(0, KNOWN))
        clients = [Client(place, each) for place in range(CLIENTS)]
        try:
            for one in clients:
                one.answer()
            for agents in SHARED:  # the server gets warm
                at_once(clients, f"warm-{agents}", agents, server)
            rounds = [at_once(clients[:1], f"alone-{n}", "few", server) for n in range(2)]
            many = {agents: at_once(clients, agents, agents, server) for agents in SHARED}
            rounds += [at_once(clients[:1], f"alone-{n}", "few", server) for n in range(2, 4)]
        finally:
            for one in clients:
                one.close()
        alone = max(rounds, key=lambda took: took.rate)
        calls = each * (4 * CLIENTS + len(rounds))
        learned = memory.stats().episodes
        assert learned == KNOWN + calls, f"{learned}: an update was lost"
        assert memory.verify().ok
    return [
        result
        for agents, took in many.items()
        for result in _told(f"Neo4j: `learn`, {CLIENTS} processes, {SHARED[agents]}", took, alone)
    ]


def _told(what: str, took: Took, alone: Took) -> list[Result]:
    results = [
        Result(
            what,
            f"{took.rate:,.0f}/s",
            f"one process: {alone.rate:,.0f}/s",
            f"{took.rate / alone.rate:.1f}",
            "5, or what limits it",
        ),
        Result(
            "the same, a call: p50; p99",
            f"{took.at(0.5):,.0f} and {took.at(0.99):,.0f} ms; made again: {took.again}",
            f"one process: {alone.at(0.5):,.1f} and {alone.at(0.99):,.1f} ms",
            "",
            "no error; p99 2 s",
        ),
    ]
    if took.server is not None and alone.server is not None:
        cores = os.cpu_count() or 1
        ceiling = cores / took.cost
        results.append(
            Result(
                "the same, processor time of a call",
                f"{1000 * took.clients:.2f} ms client, {1000 * took.server:.2f} ms server",
                f"one process: {1000 * alone.clients:.2f} and {1000 * alone.server:.2f} ms",
                f"{cores} cores allow {ceiling:,.0f}/s; {took.rate / ceiling:.0%} of that",
                "",
            )
        )
    return results


def listener(port: int) -> int | None:
    """Return the process of this machine that listens on a port; None where that is not known."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == "0A" and int(columns[1].rpartition(":")[2], 16) == port:
                    sockets.add(f"socket:[{columns[9]}]")
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if str(link.readlink()) in sockets:
                return int(link.parts[2])
    return None


def processor(process: int | None) -> float | None:
    """Return the seconds of processor time that a process has taken."""
    if process is None:
        return None
    after_name = re.sub(r".*\) ", "", Path(f"/proc/{process}/stat").read_text()).split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {"writers_server": writers_server}

if __name__ == "__main__":
    client(int(sys.argv[1]), int(sys.argv[2]))
