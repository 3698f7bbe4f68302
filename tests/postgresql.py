"""A real PostgreSQL server for tests, in a temporary folder and on a free port.

`conftest.py` makes the fixtures known to all test modules. Each process of pytest-xdist has a
server of its own, so a test may stop or kill it; it must be up again when the test ends.

The server syncs as it does by default. What tests kill are processes, which the files of a killed
one survive on a memory file system as on a disk; so that is where they are, if there is room.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from debian_packages import have
from processes import free_port

NewStorage = Callable[[], str]
"""Makes an empty storage."""

USER = "oddarms"
START_SECONDS = 120.0
ATTEMPTS = 5
ACCOUNTS = ("postgres", "nobody")
"""Who runs the server if we are root, whom it refuses."""
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 2**30


class Server:
    """A server that can be stopped, started and killed.

    Attributes
    ----------
    url
        Its database "postgres", which all tests of the process share; `new_database` makes one
        for a single test.
    """

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.folder = folder
        self._binaries = binaries
        self._data = folder / "data"
        self._account = _account()
        self._port = 0
        self._databases = itertools.count(1)
        self._process: subprocess.Popen[Any] | None = None
        if self._account:
            shutil.chown(folder, self._account["user"], self._account["group"])
        settings = ["--no-sync", "--auth=trust", f"--username={USER}", "--encoding=UTF8"]
        self._run("initdb", *settings, "--locale=C", "-D", str(self._data))

    @property
    def url(self) -> str:
        return self._url("postgres")

    def _url(self, database: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self._port}/{database}"

    @property
    def log(self) -> str:
        """What the server said."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def new_database(self) -> str:
        """Return the URL of a new, empty database."""
        name = f"test{next(self._databases)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self._url(name)

    def drop_connections(self) -> None:
        """End all connections but our own, as an administrator may."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )

    def start(self) -> None:
        """Start the server, if it is not running, and wait until it takes connections.

        The first time on a port that nobody has; on the same one ever after.
        """
        if self.running:
            return
        if self._port:
            self._start()
            return
        for attempt in range(ATTEMPTS):
            self._port = free_port()
            try:
                self._start()
                return
            except RuntimeError:  # somebody else may have been faster
                if attempt + 1 == ATTEMPTS:
                    raise

    def _start(self) -> None:
        settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=on"]
        settings += ["dynamic_shared_memory_type=mmap"]  # leaves nothing elsewhere
        options = [word for setting in settings for word in ("-c", setting)]
        command = [self._binaries / "postgres", "-D", self._data, "-p", str(self._port), *options]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **self._how()
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if not self.running or time.monotonic() > deadline:
                self._end(signal.SIGKILL)
                raise RuntimeError(f"PostgreSQL does not start:\n{self.log}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the server at once but in order, which ends all connections ("fast shutdown")."""
        self._end(signal.SIGINT)

    def stop_at_once(self) -> None:
        """Stop the server without a word to anybody ("immediate shutdown"); its start recovers."""
        self._end(signal.SIGQUIT)

    def kill9(self) -> None:
        """Kill the server and all its processes; nobody of them has time for a word."""
        if self._process is None or not self.running:
            return
        self._process.send_signal(signal.SIGSTOP)  # it makes no more processes
        for child in _children(self._process.pid):
            os.kill(child, signal.SIGKILL)
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def remove(self) -> None:
        """Stop the server and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None and self.running:
            self._process.send_signal(how)
            try:
                self._process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def _answers(self) -> bool:
        """Return whether it is this server that answers."""
        try:
            with psycopg.connect(self.url, connect_timeout=5) as connection:
                found = connection.execute("SHOW data_directory").fetchone()
        except psycopg.OperationalError:
            return False
        return found == (str(self._data),)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._binaries / program, *arguments], capture_output=True, text=True, **self._how()
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{done.stdout}{done.stderr}")

    def _how(self) -> dict[str, Any]:
        environment = {name: text for name, text in os.environ.items() if name[:2] != "PG"}
        return {"cwd": self.folder, "env": {**environment, "LC_ALL": "C"}, **self._account}


def _account() -> dict[str, Any]:
    """Return how to run as somebody who is not root."""
    if os.geteuid() != 0:
        return {}
    import pwd

    known = {account.pw_name: account.pw_gid for account in pwd.getpwall()}
    name = next(name for name in ACCOUNTS if name in known)
    return {"user": name, "group": known[name], "extra_groups": []}


def _children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(word) for word in listed.split()]


def fast_folder(prefix: str) -> Path:
    """Make a temporary folder where syncing costs little, if there is such a place."""
    roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES
    usable = roomy and os.access(MEMORY, os.W_OK)
    return Path(tempfile.mkdtemp(prefix=prefix, dir=MEMORY if usable else None))


def find_binaries() -> Path | None:
    """Return the folder with the newest server's programs."""
    on_path = shutil.which("postgres")
    folders = [Path(on_path).resolve().parent] if on_path else []
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    folders += sorted(debian, key=lambda folder: float(folder.parent.name), reverse=True)
    programs = ("postgres", "initdb")
    return next((f for f in folders if all((f / name).exists() for name in programs)), None)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A running server."""
    server = Server(have("postgresql", find_binaries), fast_folder("oddarms-postgresql-"))
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(
    scope="session", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)]
)
def new_web_storage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> NewStorage:
    """Return a function that makes an empty storage; on PostgreSQL in the long form."""
    if request.param == "sqlite":
        return lambda: str(tmp_path_factory.mktemp("storage") / "studies.db")
    server: Server = request.getfixturevalue("postgresql")
    return server.new_database


@pytest.fixture(scope="session")
def postgresql_url(postgresql: Server) -> str:
    """The URL of a database that all tests of this process share."""
    return postgresql.url
