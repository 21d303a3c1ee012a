"""Run the benchmarks, each in a process of its own, and print a Markdown table.

python -m tests.bench [NAME ...] [--scale 0.1] [--json FILE] [--keep FOLDER] [--steps N]

NAME may also be the first word of the names of several: ``loop`` runs all ``loop_*``.
Without names all are run but ``scale``, which takes as long as all others.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from tests.bench import scale
from tests.bench.catalog import EMBEDDED, SERVER
from tests.bench.report import Result, table


def run(name: str, scale: float, environment: dict[str, str]) -> list[Result]:
    """Run one benchmark in a process of its own, so that its memory is its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.one", name, str(scale)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        print(f"{name}: failed with exit code {done.returncode}", file=sys.stderr)
        return [Result(name, "failed", "", "", "")]
    return [Result(**entry) for entry in json.loads(done.stdout.splitlines()[-1])]


def group(name: str) -> list[str]:
    """Return the benchmarks that a name stands for: itself, else those that begin with it."""
    known = (*EMBEDDED, *SERVER)
    of_group = [one for one in known if one.startswith(f"{name}_")]
    return [name] if name in known else of_group or [name]


def main() -> None:
    """Parse the arguments, run, print."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{(*EMBEDDED, *SERVER)}")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full sizes")
    parser.add_argument("--json", type=Path, help="also write the results to a file")
    parser.add_argument("--keep", type=Path, help="the folder in which scale keeps what it learned")
    parser.add_argument("--steps", type=int, default=5, help="steps of an episode of scale")
    options = parser.parse_args()
    names = [one for name in options.names for one in group(name)]
    names = names or [name for name in (*EMBEDDED, *SERVER) if name not in scale.BENCHMARKS]
    environment = dict(os.environ)
    if options.keep:
        environment[scale.KEEP] = str(options.keep.resolve())
    environment[scale.STEPS] = str(options.steps)
    results: list[Result] = []
    found = None
    if any(name in SERVER for name in names):
        from tests.neo4j.server import Neo4jUnavailable, find_or_start

        try:
            found = find_or_start()
        except Neo4jUnavailable as missing:
            print(f"no Neo4j, its half is left out: {missing}", file=sys.stderr)
            names = [name for name in names if name not in SERVER]
        else:
            environment |= {
                "NEO4J_URI": found.uri,
                "GRAPHMEM_USER": found.user,
                "GRAPHMEM_PASSWORD": found.password,
            }
    try:
        for name in names:
            print(f"running {name} ...", file=sys.stderr, flush=True)
            results += run(name, options.scale, environment)
    finally:
        if found:
            found.close()
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, scale {options.scale:g}\n")
    print(table(results))
    if options.json:
        options.json.write_text(json.dumps([entry.__dict__ for entry in results], indent=2))


if __name__ == "__main__":
    main()
