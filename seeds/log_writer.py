"""Write a log of episodes as reproducible gzip, keep its manifest entry, and check both.

Both scripts of this folder end in :func:`main`: they hand over a function that yields episodes as
JSON objects, and this module gives them the same command line.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import platform
import sys
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
MANIFEST = FOLDER / "manifest.json"

Episode = dict[str, Any]


@dataclass(frozen=True)
class Log:
    """One log of this folder: where it is and what made it."""

    file: str
    script: str
    seeds: list[int]
    environments: list[str]
    versions: dict[str, str]
    episodes: Callable[[bool], Iterable[Episode]]
    """Yields the episodes; the argument says whether to record real times."""


def compact(value: Any) -> str:
    """Return the JSON text of ``value`` without spaces; NaN is an error."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def compress(content: bytes) -> bytes:
    """Return gzip of ``content`` without name and time: equal content gives equal bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        file.write(content)
    return buffer.getvalue()


def sha256(data: bytes) -> str:
    """Return SHA-256 as hex digits."""
    return hashlib.sha256(data).hexdigest()


def encode(episodes: list[Episode]) -> bytes:
    """Return JSON lines; a source key that occurs twice is an error."""
    keys = [episode["source_key"] for episode in episodes]
    if len(set(keys)) != len(keys):
        raise ValueError("a source_key occurs twice")
    return "".join(compact(episode) + "\n" for episode in episodes).encode()


def read_manifest() -> dict[str, Any]:
    """Return the manifest, empty if there is none yet."""
    if not MANIFEST.exists():
        return {"logs": {}}
    manifest: dict[str, Any] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return manifest


def entry(log: Log, content: bytes, packed: bytes, episodes: list[Episode]) -> dict[str, Any]:
    """Return what the manifest says about one log."""
    return {
        "script": log.script,
        "command": f"python {log.script}",
        "seeds": log.seeds,
        "environments": log.environments,
        "versions": {"python": platform.python_version(), **log.versions},
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
        "episodes": len(episodes),
        "steps": sum(len(episode["steps"]) for episode in episodes),
        "bytes": len(packed),
        "sha256": sha256(packed),
        "sha256_content": sha256(content),
    }


def summarise(episodes: list[Episode]) -> str:
    """Return a table: success rate by strategies (rows) and task type (columns)."""
    cells: dict[tuple[str, str], list[bool]] = {}
    for episode in episodes:
        name = " + ".join(use["text"] for use in episode["strategy"])
        for column in (episode["task_type"], "all"):
            cells.setdefault((name, column), []).append(episode["success"])
    names = list(dict.fromkeys(name for name, _ in cells))
    columns = [*sorted({column for _, column in cells} - {"all"}), "all"]
    lines = ["  ".join([f"{column.rpartition('.')[2]:>10.13}" for column in columns])]
    for name in names:
        values = [cells.get((name, column), []) for column in columns]
        rates = [f"{sum(v) / len(v):10.2f}" if v else " " * 10 for v in values]
        lines.append("  ".join(rates) + f"  {name} (n={len(values[-1])})")
    return "\n".join(lines)


def check(log: Log, content: bytes, packed: bytes) -> int:
    """Compare a fresh run with the manifest and the committed file; return an exit code."""
    stated = read_manifest()["logs"].get(log.file)
    if stated is None:
        print(f"{log.file}: the manifest has no entry", file=sys.stderr)
        return 1
    if sha256((FOLDER / log.file).read_bytes()) != stated["sha256"]:
        print(f"{log.file}: the committed file is not the one of the manifest", file=sys.stderr)
        return 1
    if sha256(content) != stated["sha256_content"]:
        now = {"python": platform.python_version(), **log.versions}
        print(
            f"{log.file}: this run gave other episodes; the log was made with "
            f"{stated['versions']}, this is {now}",
            file=sys.stderr,
        )
        return 1
    if sha256(packed) != stated["sha256"]:
        # Another zlib may pack the same episodes into other bytes: the log is still reproduced.
        print(f"{log.file}: same episodes, packed differently by zlib {zlib.ZLIB_RUNTIME_VERSION}")
        return 0
    print(f"{log.file}: reproduced byte for byte")
    return 0


def main(log: Log, arguments: list[str] | None = None) -> int:
    """Run a script's command line; return its exit code."""
    parser = argparse.ArgumentParser(description=f"Make {log.file}.")
    parser.add_argument(
        "--out", type=Path, help="write this file instead, and leave the manifest as it is"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; compare a fresh run with the manifest"
    )
    parser.add_argument(
        "--times",
        action="store_true",
        help="record the real start and end of each episode (never the same twice: needs --out)",
    )
    options = parser.parse_args(arguments)
    if options.times and (options.check or options.out is None):
        parser.error("--times makes a log that cannot be reproduced: give --out, and not --check")

    episodes = list(log.episodes(options.times))
    content = encode(episodes)
    packed = compress(content)
    if options.check:
        return check(log, content, packed)

    target: Path = options.out or FOLDER / log.file
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(packed)
    if options.out is None:
        manifest = read_manifest()
        manifest["logs"][log.file] = entry(log, content, packed, episodes)
        manifest["logs"] = dict(sorted(manifest["logs"].items()))
        MANIFEST.write_text(
            json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    print(summarise(episodes))
    print(f"{len(episodes)} episodes, {len(packed):,} bytes")
    return 0
