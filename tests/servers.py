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

import httpx
import pytest

from oddarms.server import Binding, Role, Server, Settings, Tokens, create_app
from processes import free_port
from study_workers import PROCESSES

PATIENCE = 180.0
STUDIES = "/api/v1/studies"
TOKEN = f"oddarms_{secrets.token_urlsafe(32)}"
"""An admin's token of every server in a thread, as ODDARMS_TOKEN holds only one."""


class Served:
    """A server in a thread.

    Attributes
    ----------
    app, storage, tokens
        The application, the location of its storage, and its tokens, as another process has them.
    address, port
        Where it listens.
    """

    def __init__(self, storage: Any, *, timeout: float = 60.0, **options: Any) -> None:
        self.storage = str(storage)
        self.app = create_app(storage, Settings(**options))
        self.tokens = Tokens.opened(storage)
        self.tokens.adopt(TOKEN, "of the tests")
        self.token = TOKEN
        self.address = ""
        self._started = threading.Event()
        self._server = Server(self.app, Binding(port=0, timeout=timeout))
        self._thread = threading.Thread(target=self._server.run, args=[self._say], daemon=True)
        self._thread.start()
        assert self._started.wait(PATIENCE), "the server did not start"
        self.port = int(self.address.rpartition(":")[2])

    def _say(self, address: str) -> None:
        self.address = address
        self._started.set()

    @property
    def headers(self) -> dict[str, str]:
        return bearer(self.token)

    def client(self, token: str | None = None, **options: Any) -> httpx.Client:
        """A client with the admin's token, or another one; an empty one for none."""
        headers = bearer(self.token if token is None else token) if token != "" else {}
        headers |= options.pop("headers", {})
        return httpx.Client(
            base_url=self.address, headers=headers, trust_env=False, timeout=PATIENCE, **options
        )

    def close(self) -> None:
        self._server.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the server did not end"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@contextmanager
def served(storage: Any, **options: Any) -> Iterator[Served]:
    """A server in a thread, whose admin's token is in the environment."""
    server = Served(storage, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODDARMS_TOKEN", server.token)
        try:
            yield server
        finally:
            server.close()


def admin_token(storage: str) -> str:
    """Make a token where a server will look for it."""
    return Tokens.opened(storage, create=True).make(Role.ADMIN)


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
