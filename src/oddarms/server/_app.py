"""The application, and a server that runs it: where, for whom, and until which signal."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import json
import logging
import os
import socket
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio.to_thread
import h11
import scipy.special  # noqa: F401 -- imported now, as it would delay the first page
import uvicorn
from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from uvicorn.protocols.http.h11_impl import H11Protocol

import oddarms.server._api as api
from oddarms.errors import InvalidParameter, StorageFailed
from oddarms.server import pages
from oddarms.server._access import Guards, checked_prefix
from oddarms.server._problems import Seldom, add_problems, request_id
from oddarms.server._state import Settings, State
from oddarms.server._views import STATIC
from oddarms.studies import DatabaseStorage
from oddarms.text import shown

KEEP_ALIVE_SECONDS = 30
SHUTDOWN_SECONDS = 10
REQUEST_SECONDS = 60.0
SWITCH_SECONDS = 0.001
"""How long a thread may keep others from running Python; a statement of SQL waits for this often,
and Python's 5 ms would add up to seconds."""
GARBAGE = 50_000
"""New objects between two searches for garbage. A batch of tickets makes thousands, and every few
dozen searches go through all objects there are: a third of the time with Python's 700."""
THREADS = 15
"""Requests that use the storage at a time; it has as many connections."""
BACKLOG = 2048
"""Connections that wait to be accepted."""


class _Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        return api.completed(super().openapi())


def create_app(storage: str | Path | None = None, settings: Settings | None = None) -> FastAPI:
    """Return the ASGI application that serves the studies of a storage, created if there is none.

    All state is in the storage, so any number of processes may serve it. `oddarms serve token`
    makes tokens for it.
    """
    settings = settings or Settings()
    settings = replace(settings, root_path=checked_prefix(settings.root_path))
    app = _Application(
        title="oddarms",
        summary="Studies: which of many things are abnormal?",
        docs_url=None,  # its page loads scripts from another host
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.oddarms = state = State(DatabaseStorage.opened(storage, create=True), settings)
    add_problems(app, state.hidden)
    app.include_router(api.router)
    app.include_router(pages.router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)
    app.add_middleware(Guards, state=state)  # the last one added is the outermost
    return app


@dataclass(frozen=True)
class Binding:
    """Where a server listens, and how.

    Attributes
    ----------
    host, port
        An address of this machine; port 0 is any free one.
    certificate, key
        PEM files for TLS.
    timeout
        Seconds in which a client must send a whole request.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    certificate: str | None = None
    key: str | None = None
    timeout: float = REQUEST_SECONDS

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check(self, *, on_purpose: bool) -> None:
        """Refuse to be reached from elsewhere by mistake: plain HTTP shows everybody the token."""
        if (self.certificate is None) != (self.key is None):
            raise InvalidParameter("--certificate and --key must be given together.")
        if self.certificate is not None and self.key is not None:
            _check_tls_files(self.certificate, self.key)
        if self.is_local or self.certificate or on_purpose:
            return
        raise InvalidParameter(
            f"--host {self.host} can be reached from other machines: give --certificate and --key,"
            " --tls-elsewhere if a proxy terminates TLS, or --token-file in a network that you"
            " trust."
        )

    def listen(self) -> socket.socket:
        """Return a socket that listens here."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            return socket.create_server((self.host, self.port), family=family, backlog=BACKLOG)
        except OSError as error:
            raise StorageFailed(
                f"The server cannot listen on {shown(self.host)}, port {self.port}"
                f" ({error.strerror}): choose another --host or --port."
            ) from None

    def url(self, port: int) -> str:
        """Return the address for people."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        if self.host in ("0.0.0.0", "::"):  # every address of this machine
            name = "localhost"
        return f"{'https' if self.certificate else 'http'}://{name}:{port}"


def _check_tls_files(certificate: str, key: str) -> None:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, password=lambda: "")  # never ask for one
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise InvalidParameter(
            "--certificate and --key must be PEM files that belong together, the key without a"
            f" password, but got {shown(certificate)} and {shown(key)}: {reason}."
        ) from None


class Server:
    """A server that runs an application; `run` blocks until a signal, or `stop`."""

    def __init__(self, app: FastAPI, binding: Binding) -> None:
        self._binding = binding
        self._state: State = app.state.oddarms
        behind_proxy = self._state.settings.tls_elsewhere or "FORWARDED_ALLOW_IPS" in os.environ
        self._config = uvicorn.Config(
            app,
            host=binding.host,
            port=binding.port,
            http=type("_Protocol", (_TimedProtocol,), {"seconds": binding.timeout}),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=behind_proxy,  # which is believed about clients' addresses
            timeout_keep_alive=min(KEEP_ALIVE_SECONDS, round(binding.timeout)),
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            ssl_certfile=binding.certificate,
            ssl_keyfile=binding.key,
        )
        self._server: _Uvicorn | None = None

    def run(self, started: Callable[[str], None]) -> None:
        """Serve until SIGTERM, Ctrl-C or `stop`; call `started` with the address first."""
        listening = self._binding.listen()
        address = self._binding.url(listening.getsockname()[1])
        self._server = _Uvicorn(self._config, self._state, lambda: started(address))
        try:
            self._server.run([listening])
        finally:
            listening.close()
            if not self._state.storage.database.location.memory:
                self._state.storage.database.close()

    def stop(self) -> None:
        """End `run`, from another thread, after the requests under way."""
        if self._server is not None:
            self._server.should_exit = True


def run(
    app: FastAPI, binding: Binding, started: Callable[[str], None], *, json_logs: bool = False
) -> None:
    """Serve until SIGTERM or Ctrl-C, and log to stderr; call `started` with the address first."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(GARBAGE)
    _log_to_stderr(as_json=json_logs)
    Server(app, binding).run(started)


class _Uvicorn(uvicorn.Server):
    """Says when it listens, ends waits for work before it waits for others, and exits with 0."""

    def __init__(self, config: uvicorn.Config, state: State, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._state = state
        self._say = started

    async def startup(self, sockets: Any = None) -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        await super().startup(sockets)
        self._say()

    async def shutdown(self, sockets: Any = None) -> None:
        self._state.waits.close()
        await super().shutdown(sockets)
        self._captured_signals.clear()  # it ends as it was asked to


class _TimedProtocol(H11Protocol):
    """Closes the connection of a client that does not send a whole request in time."""

    seconds = REQUEST_SECONDS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(self.seconds, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):  # the request is here
            self._stop_timer()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.seconds, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _JsonLines(logging.Formatter):
    """A line of JSON for each record."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request": request_id.get(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _log_to_stderr(*, as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    form = "%(asctime)s %(name)s %(levelname)s %(message)s"
    plain = logging.Formatter(form, "%Y-%m-%d %H:%M:%S%z")
    handler.setFormatter(_JsonLines() if as_json else plain)
    handler.addFilter(Seldom())
    for name, level in (("oddarms", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.handlers = [handler]
        logger.propagate = False
