"""popoto in a process and an environment of its own: commands in, seconds out, as lines of JSON.

Run by an interpreter that has popoto, with REDIS_URL set; time is taken here, around its calls.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import sys
import time
from typing import Any

logging.disable(logging.CRITICAL)
cache: Any = importlib.import_module("popoto.recipes.policy_cache")

AGENT = "bench"
ACTIONS = 4


class Worker:
    """The policies of one Redis database."""

    def __init__(self) -> None:
        self._entries: list[Any] = []

    def build(self, count: int) -> float:
        """Save policies, four in a state."""
        started = time.perf_counter()
        for number in range(count):
            entry = cache.PolicyEntry(
                agent_id=AGENT,
                state_fingerprint=cache.compute_fingerprint({"row": number // ACTIONS}),
                state_features={"row": number // ACTIONS},
                action_type=f"act {number % ACTIONS}",
                action_spec={},
            )
            entry.save()
            self._entries.append(entry)
        return time.perf_counter() - started

    def td(self, steps: list[tuple[int, float]]) -> float:
        """Update values; the value of the next state is the caller's, as popoto wants it."""
        chosen = [(self._entries[place], reward) for place, reward in steps]
        started = time.perf_counter()
        for entry, reward in chosen:
            cache.update_q_value(entry, reward, 0.5)
        return time.perf_counter() - started

    def best(self, rows: list[int]) -> list[float]:
        """Find the best action in states."""
        seconds = []
        for row in rows:
            started = time.perf_counter()
            mark = cache.compute_fingerprint({"row": row})
            found = cache.PolicyEntry.query.filter(agent_id=AGENT, state_fingerprint=mark)
            best = max(found, key=lambda entry: entry.q_value)
            seconds.append(time.perf_counter() - started)
            assert best.state_fingerprint == mark, f"{best.state_fingerprint} is not {mark}"
        return seconds

    def crystallize(self, events: list[tuple[int, str, bool]], batch: int) -> tuple[int, float]:
        """Hand events to the crystallizer, as its consumer does; return how many policies."""
        entries = [
            (
                f"{place}-0",
                {
                    "agent_id": AGENT,
                    "state_fingerprint": cache.compute_fingerprint({"row": row}),
                    "action_type": action,
                    "outcome": "success" if success else "failure",
                },
            )
            for place, (row, action, success) in enumerate(events)
        ]
        started = time.perf_counter()
        for place in range(0, len(entries), batch):
            asyncio.run(cache.crystallization_handler(entries[place : place + batch]))
        seconds = time.perf_counter() - started
        return cache.PolicyEntry.query.count(), seconds


def main() -> None:
    """Answer commands until standard input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr
    worker = Worker()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(worker, name)(*arguments)), file=answers, flush=True)


if __name__ == "__main__":
    main()
