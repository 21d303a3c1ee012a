"""alma-memory in a process and an environment of its own: commands in, seconds out, as JSON lines.

Run by an interpreter that has alma-memory; time is taken here, around its calls. What ALMA calls
the write guard is off where it learns, for it refuses whatever looks like something that failed.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import time
import uuid
from datetime import UTC, datetime
from importlib.metadata import requires
from pathlib import Path
from typing import Any

logging.disable(logging.CRITICAL)
GUARD = "ALMA_ANTI_PATTERN_WRITE_GUARD"
os.environ[GUARD] = "0"
alma: Any = importlib.import_module("alma")
types: Any = importlib.import_module("alma.types")
exceptions: Any = importlib.import_module("alma.exceptions")

PROJECT = "bench"
DISTRIBUTION = "alma-memory"


class Worker:
    """One memory of ALMA: SQLite in a folder, without an embedder."""

    def __init__(self) -> None:
        self._memory: Any = None

    def open(self, folder: str) -> dict[str, Any]:
        """Open an empty memory; return what its parts are."""
        place = Path(folder)
        place.mkdir(parents=True)
        config = {
            "project_id": PROJECT,
            "storage": "sqlite",
            "storage_dir": folder,
            "embedding_provider": "local",
        }
        file = place / "config.yaml"  # JSON is YAML
        file.write_text(json.dumps({"alma": config}))
        self._memory = alma.ALMA.from_config(str(file))
        return {
            "version": alma.__version__,
            "storage": type(self._memory.storage).__name__,
            "embedder": self._memory.learning.embedder is not None,
            "lacks": [] if any(map(_always_numpy, requires(DISTRIBUTION) or ())) else ["numpy"],
        }

    def quickstart(self, folder: str) -> str:
        """Return why what its documentation starts with does not run ("": it does)."""
        try:
            alma.ALMA.quickstart(project_id=PROJECT, storage_dir=folder)
        except ImportError as error:
            return str(error).splitlines()[0]
        return ""

    def fill(self, attempts: list[dict[str, Any]]) -> float:
        """Write outcomes straight into the storage, without learning from them."""
        started = time.perf_counter()
        self._memory.storage.save_outcomes(
            [
                types.Outcome(
                    id=f"out_{uuid.uuid4().hex[:12]}",
                    agent=attempt["agent"],
                    project_id=PROJECT,
                    task_type=attempt["task_type"],
                    task_description=attempt["task"],
                    success=attempt["success"],
                    strategy_used=attempt["strategy"],
                    error_message=attempt["error"],
                    timestamp=datetime.now(UTC),
                )
                for attempt in attempts
            ]
        )
        return time.perf_counter() - started

    def learn(self, attempts: list[dict[str, Any]]) -> list[float]:
        """Learn one by one; return the seconds of each."""
        seconds = []
        for attempt in attempts:
            started = time.perf_counter()
            self._learn(attempt)
            seconds.append(time.perf_counter() - started)
        return seconds

    def guarded(self, attempts: list[dict[str, Any]]) -> int:
        """Learn with the write guard as it comes, on; return how many it did not refuse."""
        os.environ[GUARD] = "1"
        learned = 0
        for attempt in attempts:
            try:
                self._learn(attempt)
            except exceptions.ScopeViolationError:
                continue
            learned += 1
        os.environ[GUARD] = "0"
        return learned

    def heuristics(self) -> int:
        """Count heuristics."""
        return int(self._memory.storage.get_stats(PROJECT)["heuristics_count"])

    def outcomes(self) -> int:
        """Count outcomes."""
        return int(self._memory.storage.get_stats(PROJECT)["outcomes_count"])

    def _learn(self, attempt: dict[str, Any]) -> None:
        self._memory.learn(
            agent=attempt["agent"],
            task=attempt["task"],
            outcome="success" if attempt["success"] else "failure",
            strategy_used=attempt["strategy"],
            task_type=attempt["task_type"],
            error_message=attempt["error"],
        )


def _always_numpy(requirement: str) -> bool:
    """Return whether a requirement is numpy, which its storage imports, without an extra."""
    return requirement.startswith("numpy") and "extra" not in requirement


def main() -> None:
    """Answer commands until standard input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr
    worker = Worker()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(worker, name)(*arguments)), file=answers, flush=True)


if __name__ == "__main__":
    main()
