"""``python -m tests.neo4j``: a Neo4j with Browser for a person, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.neo4j.jars import Neo4jUnavailable, cache_folder
from tests.neo4j.server import PASSWORD, Neo4jServer, Neo4jStartError, stop_on_signals

READY = """\
Neo4j is running; its data is in {home}{kept}.

  Browser    http://localhost:{http_port}/browser/
  Bolt       neo4j://localhost:{bolt_port}
  User       {user}
  Password   {password}

  GRAPHMEM_PASSWORD={password} graphmem --url neo4j://localhost:{bolt_port} --help

Ctrl-C stops it."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.neo4j",
        description="Start a Neo4j with Browser on this machine, for this machine only.",
        epilog=f"The password is GRAPHMEM_PASSWORD if that is set, else {PASSWORD}.",
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--home", type=Path, metavar="DIR", help="where the data is kept")
    place.add_argument("--ephemeral", action="store_true", help="throw the data away at the end")
    parser.add_argument("--bolt-port", type=int, default=7687, metavar="N", help="0: any free one")
    parser.add_argument("--http-port", type=int, default=7474, metavar="N", help="0: any free one")
    options = parser.parse_args(arguments)

    home = None if options.ephemeral else options.home or cache_folder() / "home"
    server = Neo4jServer(
        home,
        password=os.environ.get("GRAPHMEM_PASSWORD") or PASSWORD,
        bolt_port=options.bolt_port,
        http_port=options.http_port,
    )
    stop_on_signals()
    try:
        server.start()
        print(
            READY.format(
                home=server.home,
                kept=", and goes when it stops" if options.ephemeral else "",
                http_port=server.http_port,
                bolt_port=server.bolt_port,
                user=server.user,
                password=server.password,
            ),
            flush=True,
        )
        while server.running:
            time.sleep(0.5)
        print(f"Neo4j ended by itself:\n{server.log_tail()}", file=sys.stderr)
    except (Neo4jUnavailable, Neo4jStartError) as error:
        print(f"error: {error}", file=sys.stderr)
        if "is in use" in str(error):
            print("--bolt-port 0 --http-port 0 takes free ones", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nstopping", file=sys.stderr)
        return 0
    finally:
        server.close()
    return 1


if __name__ == "__main__":
    sys.exit(main())
