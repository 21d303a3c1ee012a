"""Start a real Neo4j 5.26, with APOC and Browser, for as long as this process lives.

`find_or_start()` takes the first way that works: a server named by ``NEO4J_URI``, a container,
or jars from Maven run by a local Java; `shared()` does so once for several processes.
`Neo4jServer` is that last way by itself: a server that a test may kill and start again on the same
data and the same ports.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

import pytest
from neo4j import Driver, GraphDatabase
from neo4j.exceptions import AuthError, DriverError, Neo4jError

from graphmem import Memory, Settings
from tests.neo4j.jars import Neo4jUnavailable, fetch_jars, find_java, first_line, locked

T = TypeVar("T")

HOST = "127.0.0.1"
USER = "neo4j"
# Not a secret: the server listens on the loopback address only.
PASSWORD = "graphmem-local"  # noqa: S105
INITIAL_PASSWORD = "neo4j"  # noqa: S105 - what Neo4j itself gives to a new database

START_TIMEOUT = 300.0
STOP_TIMEOUT = 60.0
IMAGE = "neo4j:5.26-community"
PAUSES = (0.1, 0.3, 1.0, 3.0)
"""Seconds between attempts of a statement that could not be planned."""

# Below the range of outgoing connections: a client that dials a dead server's port again and again
# could otherwise be given that very port, and the server could not come back on it.
PORTS = range(20_000, 32_000)

JVM_OPTIONS = (
    "-Xmx1g",
    "-XX:+UseSerialGC",  # quicker to start, fewer threads, and good enough for a heap of 1 GB
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)

# Without its second compiler Java needs half the time to start, but stays slower. In the minutes of
# a run of the tests that compiler takes a third of what a server does, and pays little of it back:
# with four times as many calls before it begins, a run takes a seventh less; with twelve times as
# many, planning 450 statements takes 103 s of processor time rather than 113, with 40 times 106.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1",)
FOR_MINUTES = (
    "-XX:Tier4InvocationThreshold=60000",
    "-XX:Tier4MinInvocationThreshold=7500",
    "-XX:Tier4CompileThreshold=180000",
    "-XX:Tier4BackEdgeThreshold=480000",
)

# A server that grows from nothing would plan its statements anew every 10 s, for their numbers have
# changed; that is a sixth of its work. The last two: both databases are closed within a second, but
# Bolt would wait 5 to 10 s more for clients that may still call. Of APOC only what installs
# procedures is there: the rest reads files, calls other servers and writes to the database system.
NEO4J_CONF = """\
server.default_listen_address={host}
server.bolt.listen_address={host}:{bolt_port}
server.bolt.advertised_address={host}:{bolt_port}
server.http.listen_address={host}:{http_port}
server.http.advertised_address={host}:{http_port}
server.https.enabled=false
server.memory.pagecache.size=256m
dbms.usage_report.enabled=false
dbms.cypher.min_replan_interval=10m
dbms.security.procedures.unrestricted=apoc.custom.*
dbms.security.procedures.allowlist=apoc.custom.*
db.memory.transaction.max=256m
db.transaction.monitor.check.interval=500ms
db.tx_log.preallocate=false
db.tx_log.rotation.retention_policy=2 files
internal.dbms.bolt.netty_server_shutdown_quiet_period=0
internal.server.bolt.thread_pool_shutdown_wait_time=1s
"""

# A statement would be planned again for each order of magnitude in length of each of its lists and
# texts, a quarter of what a server does in tests, and again after a thousand others.
PLAN_ONCE = """\
internal.cypher.use_parameter_size=false
server.memory.query_cache.per_db_cache_num_entries=2000
"""

# APOC looks for newly installed procedures once a minute unless told otherwise.
APOC_CONF = "apoc.custom.procedures.refresh=1000\n"

# Waits for the end of its input, which comes when the process that started it dies, however it
# dies. The second argument, if any, is a temporary home to remove.
GUARD = 'read -r _; kill -9 "$1"; if [ -n "$2" ]; then sleep 1; rm -rf -- "$2"; fi'


class Neo4jStartError(Exception):
    """A server was started but did not come up; the message ends with the tail of its log."""


class Neo4jServer:
    """A Neo4j of its own, run by a local Java from Maven's jars.

    Without `home` the data is in a temporary folder. Without ports, free ones are chosen at the
    first start. The server dies with the process that started it. `compiler` are options of Java,
    such as SHORT_LIVED. `conf` is added to its configuration.
    """

    def __init__(
        self,
        home: Path | None = None,
        *,
        password: str = PASSWORD,
        bolt_port: int = 0,
        http_port: int = 0,
        compiler: Sequence[str] = (),
        conf: str = "",
    ) -> None:
        self.user = USER
        self.password = password
        self.home = (home or Path(tempfile.mkdtemp(prefix="graphmem-neo4j-"))).absolute()
        self.bolt_port = bolt_port
        self.http_port = http_port
        self._temporary = home is None
        self._compiler = compiler
        self._conf = conf
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    @property
    def uri(self) -> str:
        return f"neo4j://{HOST}:{self.bolt_port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def driver(self, **config: Any) -> Driver:
        """A new driver that is signed in; the caller closes it."""
        return GraphDatabase.driver(self.uri, auth=(self.user, self.password), **config)

    def start(self) -> Neo4jServer:
        """Start, and return when the server answers with the password set.

        Raises Neo4jUnavailable without Java or Maven, Neo4jStartError if it does not come up.
        """
        if self.running:
            return self
        self._forget()
        java, jars = find_java(), fetch_jars()
        self.bolt_port, self.http_port = (
            port or _free_port() for port in (self.bolt_port, self.http_port)
        )
        for port in (self.bolt_port, self.http_port):
            if not _port_is_free(port):
                raise Neo4jStartError(f"port {port} of {HOST} is in use")
        try:
            self._spawn(java, jars)
            self._wait()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Shut down in good order. The data and the ports stay, for another `start()`."""
        if self._process and self.running:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT)
        self.kill()

    def kill(self) -> None:
        """Kill at once, as a crash would. What was committed is there after `start()`."""
        if self._process:
            self._process.kill()  # does nothing to a process that has ended
            self._process.wait()
        self._forget()

    def close(self) -> None:
        """Stop for good, and remove a temporary home. May be called twice."""
        if os.getpid() != self._owner:
            return  # a forked child runs its copy of the exit handlers; the server is not its own
        if self._temporary:
            self.kill()  # nobody will read this data
            shutil.rmtree(self.home, ignore_errors=True)
        else:
            self.stop()
        atexit.unregister(self.close)

    def __enter__(self) -> Neo4jServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def log_tail(self, lines: int = 30) -> str:
        """The end of what Neo4j wrote since its last start, and of what Java itself printed."""
        parts = []
        for name in ("neo4j.log", "console.log"):
            with contextlib.suppress(OSError):
                text = (self.home / "logs" / name).read_text(errors="replace")
                parts.extend(text.splitlines()[-lines:])
        return "\n".join(parts)

    def _spawn(self, java: Path, jars: Path) -> None:
        self._prepare_home(jars)
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("NEO4J_")  # APOC would read NEO4J_CONF
        }
        # By the environment, because a command line of 230 jars drowns every process list.
        environment["CLASSPATH"] = os.pathsep.join(str(jar) for jar in sorted(jars.glob("*.jar")))
        with (self.home / "logs" / "console.log").open("wb") as console:
            self._process = subprocess.Popen(
                [
                    str(java),
                    *JVM_OPTIONS,
                    *self._compiler,
                    f"-Djava.io.tmpdir={self.home / 'tmp'}",
                    "org.neo4j.server.CommunityEntryPoint",
                    f"--home-dir={self.home}",
                    f"--config-dir={self.home / 'conf'}",
                ],
                cwd=self.home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in a terminal is for us, and we stop it in order
            )
        doomed = str(self.home) if self._temporary else ""
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "neo4j-guard", str(self._process.pid), doomed],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _prepare_home(self, jars: Path) -> None:
        shutil.rmtree(self.home / "tmp", ignore_errors=True)  # left there by a killed server
        shutil.rmtree(self.home / "plugins", ignore_errors=True)  # of an earlier version, perhaps
        for name in ("conf", "logs", "plugins", "tmp"):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        for jar in jars.glob("apoc-*.jar"):
            (self.home / "plugins" / jar.name).symlink_to(jar)
        conf = NEO4J_CONF.format(host=HOST, bolt_port=self.bolt_port, http_port=self.http_port)
        (self.home / "conf" / "neo4j.conf").write_text(conf + self._conf)
        (self.home / "conf" / "apoc.conf").write_text(APOC_CONF)
        # One log a start, so that its tail is never about an earlier one.
        (self.home / "logs" / "neo4j.log").unlink(missing_ok=True)

    def _wait(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        last: Exception | None = None
        while time.monotonic() < deadline:
            if not self.running:
                code = self._process.returncode if self._process else None
                raise Neo4jStartError(f"Neo4j ended with code {code}:\n{self.log_tail()}")
            try:
                for port in (self.bolt_port, self.http_port):
                    socket.create_connection((HOST, port), timeout=1).close()
                return self._sign_in()
            except (OSError, DriverError, Neo4jError) as error:
                last = error
                time.sleep(0.1)
        raise Neo4jStartError(
            f"Neo4j did not answer within {START_TIMEOUT:.0f} s ({last}):\n{self.log_tail()}"
        )

    def _sign_in(self) -> None:
        """Change the initial password, before which nothing can be done in a new home."""
        try:
            return _ping(self.uri, self.user, self.password)
        except AuthError:
            with _driver(self.uri, self.user, INITIAL_PASSWORD) as driver:
                driver.execute_query(
                    "ALTER CURRENT USER SET PASSWORD FROM $old TO $new",
                    old=INITIAL_PASSWORD,
                    new=self.password,
                    database_="system",
                )

    def _forget(self) -> None:
        """Let go of a server that has ended, and of its guard, which kills by process id."""
        if self._guard:
            self._guard.kill()
            self._guard.wait()
            if self._guard.stdin:
                self._guard.stdin.close()
        self._guard = None
        self._process = None


@dataclass(frozen=True)
class Found:
    """A Neo4j that answers. `close()` ends it if `find_or_start()` started it."""

    uri: str
    user: str
    password: str = field(repr=False)
    close: Callable[[], object] = field(default=lambda: None, repr=False)


def find_or_start(*, conf: str = "", compiler: Sequence[str] = ()) -> Found:
    """The first of: the server that ``NEO4J_URI`` names, a container, Maven's jars.

    Raises Neo4jUnavailable with all reasons, also if the named server does not answer: tests on
    another one than asked for would mislead.
    """
    if os.environ.get("NEO4J_URI"):
        return _from_environment(os.environ)
    reasons = ["NEO4J_URI is not set"]
    try:
        return _from_docker()
    except Neo4jUnavailable as error:
        reasons.extend(error.reasons)
    try:
        return _from_maven(conf, compiler)
    except Neo4jUnavailable as error:
        raise Neo4jUnavailable(*reasons, *error.reasons) from error


@contextlib.contextmanager
def shared(folder: Path) -> Iterator[Found]:
    """One server for all processes that name the same folder, found or started by the first.

    Planning the statements is most of what a new server has to do, so that one for all pays. It
    ends when the process that started it is done and no other uses it. Raises as `find_or_start()`.
    """
    starting, told = folder / "neo4j.lock", folder / "neo4j.json"
    if fcntl is None:  # Windows has no such locks: there everybody has a server of its own
        with contextlib.closing(find_or_start(conf=PLAN_ONCE, compiler=FOR_MINUTES)) as found:
            yield found
        return
    with locked(starting):
        mine = None if told.exists() else find_or_start(conf=PLAN_ONCE, compiler=FOR_MINUTES)
        if mine:
            told.write_text(json.dumps([mine.uri, mine.user, mine.password]))
        found = mine or Found(*json.loads(told.read_text()))
        users = told.open()
        fcntl.flock(users, fcntl.LOCK_SH)
    try:
        with users:
            yield found
    finally:
        if mine:
            with locked(starting), told.open() as users:
                fcntl.flock(users, fcntl.LOCK_EX)  # until all others have closed theirs
                told.unlink()
                mine.close()


def _from_environment(environment: Mapping[str, str]) -> Found:
    uri = environment["NEO4J_URI"]
    user = environment.get("NEO4J_USER") or USER
    password = environment.get("NEO4J_PASSWORD") or PASSWORD
    try:
        _ping(uri, user, password)
    except (DriverError, Neo4jError, ValueError) as error:
        raise Neo4jUnavailable(f"NEO4J_URI is set, but {first_line(error)}") from error
    return Found(uri, user, password)


def _from_docker() -> Found:
    if not shutil.which("docker"):
        raise Neo4jUnavailable("Docker is not installed")
    try:
        answer = subprocess.run(
            ["docker", "info"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Neo4jUnavailable("Docker does not answer") from error
    # The client ends with 0 in some versions though there is no engine; then it says so.
    if answer.returncode or b"Cannot connect" in answer.stdout + answer.stderr:
        raise Neo4jUnavailable("Docker has no running engine")
    if importlib.util.find_spec("testcontainers") is None:
        raise Neo4jUnavailable("Docker answers, but testcontainers is not installed")

    bolt_port, http_port = _free_port(), _free_port()
    uri = f"neo4j://{HOST}:{bolt_port}"
    container: Any = None
    try:
        module: Any = importlib.import_module("testcontainers.core.container")
        container = module.DockerContainer(IMAGE)
        # Fixed ports, because Neo4j tells clients (and Browser) an address to come back to.
        # (Set directly, because with_bind_ports() takes no address, and the password is no secret.)
        container.ports["7687/tcp"] = (HOST, bolt_port)
        container.ports["7474/tcp"] = (HOST, http_port)
        for name, value in {
            "NEO4J_AUTH": f"{USER}/{PASSWORD}",
            "NEO4J_PLUGINS": '["apoc", "apoc-extended"]',
            "NEO4J_server_bolt_advertised__address": f"{HOST}:{bolt_port}",
            "NEO4J_server_memory_heap_max__size": "1g",
            "NEO4J_server_memory_pagecache_size": "256m",
            "NEO4J_dbms_usage__report_enabled": "false",
            "NEO4J_dbms_security_procedures_unrestricted": "apoc.custom.*",
            "NEO4J_dbms_security_procedures_allowlist": "apoc.custom.*",
            "NEO4J_db_memory_transaction_max": "256m",
            "NEO4J_apoc_custom_procedures_refresh": "1000",
        }.items():
            container.with_env(name, value)
        container.start()
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, DriverError, Neo4jError):
                _ping(uri, USER, PASSWORD)
                break
            time.sleep(0.5)
    except Exception as error:  # the client has many, and whatever it is, the next way is open
        if container is not None:
            with contextlib.suppress(Exception):
                container.stop()
        raise Neo4jUnavailable(f"Docker could not run {IMAGE}: {first_line(error)}") from error
    return Found(uri, USER, PASSWORD, close=container.stop)


def _from_maven(conf: str, compiler: Sequence[str]) -> Found:
    server = Neo4jServer(conf=conf, compiler=compiler)
    try:
        server.start()
    except Neo4jUnavailable:
        server.close()
        raise
    except (Neo4jStartError, OSError) as error:
        server.close()
        raise Neo4jUnavailable(f"Neo4j from Maven did not start: {error}") from error
    return Found(server.uri, server.user, server.password, close=server.close)


@contextlib.contextmanager
def own_server(server: Neo4jServer) -> Iterator[Neo4jServer]:
    """Run a server of a test's own; without Java or Maven skip the test, or fail if required."""
    try:
        server.start()
    except Neo4jUnavailable as missing:
        server.close()
        if os.environ.get("GRAPHMEM_REQUIRE_NEO4J") == "1":
            raise
        pytest.skip(str(missing))
    with server:
        yield server


def _free_port() -> int:
    for port in random.SystemRandom().sample(PORTS, 200):
        if _port_is_free(port):
            return port
    raise Neo4jStartError(f"no free port between {PORTS.start} and {PORTS.stop}")


def _port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: connections of a server that was killed do not keep its port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _driver(uri: str, user: str, password: str) -> Driver:
    return GraphDatabase.driver(
        uri, auth=(user, password), connection_timeout=5, max_transaction_retry_time=1
    )


def _ping(uri: str, user: str, password: str) -> None:
    # Without the driver's own retries, each of which it reports on stderr.
    with _driver(uri, user, password) as driver, driver.session() as session:
        session.run("RETURN 1").consume()


def stop_on_signals() -> None:
    """Turn the signals that ask a program to end into KeyboardInterrupt, so that it cleans up."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


def patiently(work: Callable[[], T]) -> T:
    """Return what ``work`` returns; do it again where the server could not plan a statement.

    It gives up one that it had to plan again and again, as others change its schema. graphmem
    repeats it; drivers do not, so tests that send statements of their own by a driver do it here.
    """
    for pause in PAUSES:
        try:
            return work()
        except Neo4jError as error:
            if "frequent schema changes" not in str(error):
                raise
            time.sleep(pause)
    return work()


def prepare(found: Found) -> None:
    """Create all indexes, and wait until they are there, so that no test changes the schema."""
    settings = Settings(user=found.user, password=found.password)
    with Memory.open(found.uri, settings=settings) as memory:
        memory.store.apply_schema()
        driver = memory.store._driver  # type: ignore[attr-defined]
        patiently(lambda: driver.execute_query("CALL db.awaitIndexes(120)"))
