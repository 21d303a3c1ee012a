"""What tests of the protocol by others' tools need: Node and the packages of package.json.

They are installed with npm, once, and kept in GRAPHMEM_NODE_CACHE, else .cache/node.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.neo4j.jars import REPOSITORY, first_line, locked, run_merged

FOLDER = Path(__file__).with_name("conformance")
INSTALL_TIMEOUT = 300.0


class NodeUnavailable(Exception):  # noqa: N818 - a state of the machine, not an error
    """The packages cannot be had here, and why."""


def tools() -> Path:
    """Return the folder of their commands, Node's own among them.

    NodeUnavailable if they are not there, and npm is missing or fails.
    """
    override = os.environ.get("GRAPHMEM_NODE_CACHE")
    cache = Path(override).absolute() if override else REPOSITORY / ".cache" / "node"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / ".gitignore").write_text("*\n")
    wanted = FOLDER / "package.json"
    packages = cache / f"packages-{hashlib.sha256(wanted.read_bytes()).hexdigest()[:12]}"
    if not packages.is_dir():
        with locked(cache / "install.lock"):
            if not packages.is_dir():  # else another process was quicker
                _install(wanted, packages)
    return packages / "node_modules" / ".bin"


def _install(wanted: Path, packages: Path) -> None:
    npm = shutil.which("npm")
    if not npm:
        raise NodeUnavailable("npm is not installed")
    print("installing tools of the protocol (about 300 MB, once)", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="install-", dir=packages.parent) as partial:
        shutil.copy(wanted, partial)
        try:
            command = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error"]
            run = run_merged(command, partial, INSTALL_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NodeUnavailable(f"npm failed: {first_line(error)}") from error
        if run.returncode:
            raise NodeUnavailable(f"npm failed: {run.stdout.strip()[-300:]}")
        Path(partial).rename(packages)
        Path(partial).mkdir()  # for its end
