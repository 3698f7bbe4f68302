"""Servers for tests: in a thread of this process, or a process that can be killed."""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from oddarms.server import create_app
from oddarms.server._protocol import GuardedProtocol
from oddarms.server._run import _Server
from oddarms.server._tokens import Role, Tokens
from oddarms.studies._database_storage import DatabaseStorage
from processes import free_port
from study_workers import PROCESSES

PATIENCE = 60.0
TOKEN = f"oddarms_{secrets.token_urlsafe(32)}"
"""An admin's token of every server in a thread, as ODDARMS_TOKEN holds only one."""


class Served:
    """A server in a thread."""

    def __init__(self, storage: Any, **options: Any) -> None:
        self.app = create_app(storage, **options)
        self.state = self.app.state.oddarms
        config = uvicorn.Config(
            self.app, port=0, http=GuardedProtocol, log_config=None, access_log=False, ws="none"
        )
        self._started = threading.Event()
        self.port = 0
        self._server = _Server(config, self.state, self._say)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        assert self._started.wait(PATIENCE), "the server did not start"
        self.address = f"http://127.0.0.1:{self.port}"
        self.token = TOKEN
        self.state.tokens.adopt(TOKEN, "of the tests")

    def _say(self, port: int) -> None:
        self.port = port
        self._started.set()

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self.state.storage.database.close()


@contextmanager
def served(storage: Any, **options: Any) -> Iterator[Served]:
    """A server in a thread, whose admin's token is in the environment."""
    server = Served(storage, **options)
    before = os.environ.get("ODDARMS_TOKEN")
    os.environ["ODDARMS_TOKEN"] = server.token
    try:
        yield server
    finally:
        server.close()
        if before is None:
            del os.environ["ODDARMS_TOKEN"]
        else:
            os.environ["ODDARMS_TOKEN"] = before


def admin_token(storage: str) -> str:
    """Make a token where a server will look for it."""
    return Tokens(DatabaseStorage.opened(storage, create=True)).make(Role.ADMIN)


class ServerProcess:
    """``oddarms serve``, which may be killed and started again at the same address."""

    def __init__(self, storage: str, folder: Path, *words: str) -> None:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._words = ["--storage", storage, "--port", str(self.port), *words]
        self.log = folder / "server.log"
        self.process: Any = None

    def start(self) -> None:
        self.process = PROCESSES.Process(target=_serve, args=(self._words, self.log))
        self.process.start()

    def wait(self) -> None:
        """Wait until it listens."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert self.process.is_alive(), self.log.read_text()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError(f"the server did not start: {self.log.read_text()}")

    def kill(self) -> None:
        if self.process is not None and self.process.is_alive():
            self.process.kill()
            self.process.join()

    def terminate(self) -> int | None:
        """Ask it to end; return its exit code."""
        self.process.terminate()
        self.process.join(PATIENCE)
        code: int | None = self.process.exitcode
        return code

    def printed_token(self) -> str:
        found = re.search(r"#(\S+)", self.log.read_text())
        assert found, self.log.read_text()
        return found[1]


def _serve(words: list[str], log: Path) -> None:
    from oddarms.cli import main

    with log.open("a", buffering=1) as opened:
        os.dup2(opened.fileno(), 1)
        os.dup2(opened.fileno(), 2)
        sys.exit(main(["serve", *words]))
