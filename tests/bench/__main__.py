"""Run the benchmarks, each in a process of its own, and print a Markdown table.

python -m tests.bench [NAME ...] [--scale 0.1] [--keep FOLDER] [--steps N]

NAME may also be the first word of the names of several: ``loop`` runs all ``loop_*``.
Without names all are run but ``scale``, which takes as long as all others.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path

from tests.bench.report import EMBEDDED, SERVER, Result, apart, register_all, run, table


def names_of(words: list[str]) -> list[str]:
    """Return the benchmarks that words stand for: themselves, else those that begin with them."""
    known = [*EMBEDDED, *SERVER]
    if not words:
        return [name for name in known if name != "scale"]
    groups = {word: [one for one in known if one.startswith(f"{word}_")] for word in words}
    return [name for word in words for name in ([word] if word in known else groups[word])]


def main() -> None:
    """Parse the arguments, run, print."""
    register_all()
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{(*EMBEDDED, *SERVER)}")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full sizes")
    parser.add_argument("--keep", type=Path, help="the folder in which scale keeps what it learned")
    parser.add_argument("--steps", type=int, default=5, help="steps of an episode of scale")
    options = parser.parse_args()
    names = names_of(options.names)
    if not names:
        parser.error(f"no benchmark is called so; there are {', '.join((*EMBEDDED, *SERVER))}")
    if options.keep:
        os.environ["GRAPHMEM_BENCH_KEEP"] = str(options.keep.resolve())
    os.environ["GRAPHMEM_BENCH_STEPS"] = str(options.steps)
    results: list[Result] = []
    server = None
    if any(name in SERVER for name in names):
        from tests.neo4j.jars import Neo4jUnavailable
        from tests.neo4j.server import find_or_start

        try:
            server = find_or_start()
        except Neo4jUnavailable as missing:
            print(f"no Neo4j, its half is left out: {missing}", file=sys.stderr)
            names = [name for name in names if name not in SERVER]
        else:
            os.environ["NEO4J_URI"] = server.uri
            os.environ["GRAPHMEM_USER"] = server.user
            os.environ["GRAPHMEM_PASSWORD"] = server.password
    failed = False
    try:
        for name in names:
            print(f"running {name} ...", file=sys.stderr, flush=True)
            try:
                results += apart(run, name, options.scale)
            except Exception as error:  # noqa: BLE001 - the others go on
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
                failed = True
    finally:
        if server:
            server.close()
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, scale {options.scale:g}\n")
    print(table(results))
    sys.exit(failed)


if __name__ == "__main__":
    main()
