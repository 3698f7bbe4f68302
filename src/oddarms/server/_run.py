"""Run the application: where, for whom, and until which signal."""

from __future__ import annotations

import ipaddress
import logging
import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
import uvicorn
from fastapi import FastAPI

from oddarms.errors import InvalidParameter, StoreFailed
from oddarms.server._protocol import MOST_CONNECTIONS, GuardedProtocol
from oddarms.server._state import State

KEEP_ALIVE_SECONDS = 30
SHUTDOWN_SECONDS = 10
THREADS = 15
"""As many calls of studies at a time as a storage has connections."""
SPARE_FILES = 200


@dataclass(frozen=True)
class Place:
    """Where to listen, and how.

    Attributes
    ----------
    host, port
        An address of this machine; port 0 is any that is free.
    certificate, key
        Files for TLS.
    tls_elsewhere
        Whether a proxy in front of it has the TLS.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    certificate: str | None = None
    key: str | None = None
    tls_elsewhere: bool = False

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def has_proxy(self) -> bool:
        """Whether somebody has said that a proxy is there, whose word on clients is believed."""
        return self.tls_elsewhere or "FORWARDED_ALLOW_IPS" in os.environ

    def check(self, *, has_token: bool) -> None:
        """Refuse to be reached from elsewhere by mistake: whoever listens would have the token."""
        if (self.certificate is None) != (self.key is None):
            raise InvalidParameter("certificate and key must be given together but one is missing.")
        if self.is_local or self.certificate or self.tls_elsewhere or has_token:
            return
        raise InvalidParameter(
            f"host must be one of this machine only but got {self.host}: to be reached from"
            " elsewhere give --certificate and --key, or --tls-elsewhere where a proxy has them, or"
            " --token-file in a network that you trust."
        )

    def url(self, port: int) -> str:
        """Return the address for people."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        if self.host in ("0.0.0.0", "::"):  # every address of this machine
            name = "localhost"
        return f"{'https' if self.certificate else 'http'}://{name}:{port}"


def run(app: FastAPI, place: Place, started: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; `started` is called with the address once it listens."""
    _raise_file_limit()
    _log_to_stderr()
    config = uvicorn.Config(
        app,
        host=place.host,
        port=place.port,
        http=GuardedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=place.has_proxy,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
    )
    server = _Server(config, app.state.oddarms, lambda port: started(place.url(port)))
    with suppress(SystemExit):
        server.run()
    if not server.was_started:
        raise StoreFailed(
            f"port {place.port} of {place.host} must be free to listen on but is not: choose"
            " another --port, or stop who has it."
        )


class _Server(uvicorn.Server):
    """Says where it listens, ends event streams before it waits for others, and ends with 0."""

    def __init__(
        self, config: uvicorn.Config, state: State, started: Callable[[int], None]
    ) -> None:
        super().__init__(config)
        self._state = state
        self._say = started
        self.was_started = False

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen."""
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        await super().startup(sockets)
        if self.started:
            self.was_started = True
            self._say(self.servers[0].sockets[0].getsockname()[1])

    async def shutdown(self, sockets: Any = None) -> None:
        """End what would not end by itself, and wait for the rest."""
        self._state.events.close()
        await super().shutdown(sockets)
        self._captured_signals.clear()  # it has ended as it was asked to


def _raise_file_limit() -> None:
    """Have as many connections as the system lets, and know how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + SPARE_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    GuardedProtocol.most = max(min(MOST_CONNECTIONS, soft - SPARE_FILES), 16)


def _log_to_stderr() -> None:
    """Write changes and failures to stderr, a line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    for name, level in (("oddarms", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.handlers = [handler]
        logger.propagate = False
