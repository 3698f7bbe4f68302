"""Run the application: where, for whom, and until which signal."""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
import uvicorn
from fastapi import FastAPI

from oddarms.errors import InvalidParameter, StorageFailed
from oddarms.server._protocol import MOST_CONNECTIONS, GuardedProtocol
from oddarms.server._state import State
from oddarms.text import shown

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
        self._check_files()
        if self.is_local or self.certificate or self.tls_elsewhere or has_token:
            return
        raise InvalidParameter(
            f"host must be one of this machine only but got {self.host}: to be reached from"
            " elsewhere give --certificate and --key, or --tls-elsewhere where a proxy has them, or"
            " --token-file in a network that you trust."
        )

    def _check_files(self) -> None:
        """Refuse a certificate or a key that TLS could not begin with."""
        if self.certificate is None or self.key is None:
            return
        for name, file in (("certificate", self.certificate), ("key", self.key)):
            try:
                with open(file, "rb"):
                    pass
            except OSError as error:
                raise InvalidParameter(
                    f"{name} must be a file that can be read but got {shown(file)}:"
                    f" {error.strerror}."
                ) from None
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                self.certificate, self.key, password=_no_password
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error)
            raise InvalidParameter(
                "certificate and key must be PEM files that belong together, the key without a"
                f" password, but got {shown(self.certificate)} and {shown(self.key)}:"
                f" {reason}."
            ) from None

    def refusal(self) -> StorageFailed:
        """Return why nobody could listen here."""
        where = f"port {self.port} of {shown(self.host)}"
        try:
            known = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, kind, protocol, _, address in known:
                with socket.socket(family, kind, protocol) as tried:
                    tried.bind(address)
        except socket.gaierror:
            return StorageFailed(
                f"host must be a name or an address of this machine but got {shown(self.host)}:"
                " nobody knows that name."
            )
        except PermissionError:
            return StorageFailed(
                f"{where} must be one that you may listen on but is not: choose another --port,"
                " from 1024 on."
            )
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                return StorageFailed(
                    f"host must be an address of this machine but got {shown(self.host)}: choose"
                    " another --host."
                )
        return StorageFailed(
            f"{where} must be free to listen on but is not: choose another --port, or stop who"
            " has it."
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
        raise place.refusal()


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


def _no_password() -> str:
    """Ask nobody: a server may start where nobody is."""
    return ""


def _raise_file_limit() -> None:
    """Have as many connections as the system lets, and know how many."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return
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
    form = "%(asctime)s %(name)s %(levelname)s %(message)s"
    handler.setFormatter(logging.Formatter(form, "%Y-%m-%d %H:%M:%S%z"))
    for name, level in (("oddarms", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.handlers = [handler]
        logger.propagate = False
