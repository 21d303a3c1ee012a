"""What a Neo4j run by a local Java needs: that Java, and the jars of pom.xml.

They are downloaded with Maven, once, and kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

DOWNLOAD_TIMEOUT = 1800.0
MINIMUM_JAVA = 17

POM = Path(__file__).with_name("pom.xml")
REPOSITORY = Path(__file__).resolve().parents[2]


class Neo4jUnavailable(Exception):  # noqa: N818 - a state of the machine, not an error
    """No Neo4j can be had here; `reasons` has one line for each way that was tried."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("no Neo4j: " + "; ".join(reasons))
        self.reasons = reasons


def find_java() -> Path:
    """The `java` of JAVA_HOME or of the path; Neo4jUnavailable if missing or too old."""
    home = os.environ.get("JAVA_HOME")
    inside = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    java = inside or shutil.which("java")
    if not java:
        raise Neo4jUnavailable(f"Java {MINIMUM_JAVA} or later is not installed")
    try:
        printed = run_merged([java, "-version"], ".", 30).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Neo4jUnavailable(f"{java} does not run: {first_line(error)}") from error
    found = re.search(r'version "(\d+)', printed)
    if not found or int(found[1]) < MINIMUM_JAVA:
        version = found[1] if found else "of an unknown version"
        raise Neo4jUnavailable(f"Java {MINIMUM_JAVA} or later is needed, and {java} is {version}")
    return Path(java)


def cache_folder() -> Path:
    """Where the jars are kept: GRAPHMEM_NEO4J_CACHE, else .cache/neo4j of the repository."""
    override = os.environ.get("GRAPHMEM_NEO4J_CACHE")
    folder = Path(override).absolute() if override else REPOSITORY / ".cache" / "neo4j"
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return folder


def fetch_jars() -> Path:
    """The folder with all jars of pom.xml, downloaded if this pom.xml was never seen before.

    Neo4jUnavailable if they are not there and Maven is missing or fails.
    """
    cache = cache_folder()
    jars = cache / f"jars-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
    if jars.is_dir():
        return jars
    mvn = shutil.which("mvn")
    if not mvn:
        raise Neo4jUnavailable("Maven is not installed")
    with locked(cache / "download.lock"):
        if jars.is_dir():  # another process was quicker
            return jars
        print("downloading Neo4j (about 160 MB, once)", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="download-", dir=cache) as partial:
            command = [mvn, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
            command.append(f"-DoutputDirectory={partial}/jars")
            try:
                run = run_merged(command, partial, DOWNLOAD_TIMEOUT)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Neo4jUnavailable(f"Maven failed: {first_line(error)}") from error
            if run.returncode:
                raise Neo4jUnavailable(f"Maven failed: {_maven_error(run.stdout)}")
            Path(partial, "jars").rename(jars)
    return jars


def run_merged(
    command: Sequence[str], folder: str, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder; all that it printed, errors too, is its ``stdout``."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ},  # without COLUMNS, which readline sets past it
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
    )


def _maven_error(output: str) -> str:
    errors = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    return errors[0] if errors else output.strip()[-300:] or "no message"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes; the system lets go of it when the holder dies."""
    try:
        import fcntl  # not on Windows, where the other ways still work
    except ImportError as error:
        raise Neo4jUnavailable("Neo4j from Maven needs file locks that Windows lacks") from error

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
