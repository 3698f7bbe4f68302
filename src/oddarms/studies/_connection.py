"""The connection to a server: requests that may be repeated, and errors as exceptions.

The token comes from ODDARMS_TOKEN, or from the file that ODDARMS_TOKEN_FILE names; it is in no
message. Any thread may use a connection, and a forked process has one of its own.
"""

from __future__ import annotations

import json
import os
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from oddarms.errors import InvalidParameter, MissingExtra, RewardRejected, StoreFailed
from oddarms.interrupts import pause
from oddarms.studies._codes import CLASSES, HURRY, TOO_MANY_GUESSES
from oddarms.studies._hurry import Hurry

if TYPE_CHECKING:
    import httpx

TOKEN, TOKEN_FILE = "ODDARMS_TOKEN", "ODDARMS_TOKEN_FILE"
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 90.0
"""Longer than the server waits for a lock."""
HURRY_SECONDS = 10.0
LONG_SECONDS = 3600.0
"""For what takes time in proportion to a whole study."""
AGAIN_SECONDS = 60.0
"""For so long a request is repeated while the server is busy; other failures are the caller's."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
MOST_URLS = 1000
"""That are remembered."""
_WAITS = ("read", "write", "pool")
_PASSING = (408, 429, 502, 503, 504)
_LOST = "the server did not answer, so this call may have been recorded or not: repeat it"


class Connection:
    """Requests to one server.

    Parameters
    ----------
    address
        Where it is, with the prefix if it has one: ``http://HOST:8321/PREFIX``.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._client: httpx.Client | None = None
        self._made_for: tuple[int, str] | None = None
        self._urls: dict[str, httpx.URL] = {}
        self._lock = threading.Lock()
        self.hurry = Hurry()

    @classmethod
    def to(cls, address: str) -> Connection:
        """Return the connection to a server; all studies of a process share it."""
        checked = _checked(address)
        with _sharing:
            known = _shared.get(checked)
            if known is None:
                _shared[checked] = known = cls(checked)
        return known

    def get(self, path: str, *, seconds: float | None = None, **query: Any) -> Any:
        """Return what the server says at an address."""
        return self.call("GET", path, query=query, seconds=seconds)

    def post(self, path: str, body: Any) -> Any:
        """Send a body; may be sent again where the answer is lost."""
        return self.call("POST", path, body=body)

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        seconds: float | None = None,
        again: bool = True,
    ) -> Any:
        """Return the answer of the server.

        A server that is busy is asked again for a while, and a connection that it has closed
        meanwhile is made anew.

        Parameters
        ----------
        method, path, body, query
            The request; the path is below ``/api/v1``.
        seconds
            How long the answer may take.
        again
            Whether the request may be made twice.
        """
        hurries = bool(self.hurry)
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        wait = HURRY_SECONDS if hurries else seconds or ANSWER_SECONDS
        headers = {"content-type": "application/json"} if content is not None else {}
        if hurries:
            headers[HURRY] = "1"
        until = time.monotonic() + (0.0 if hurries else AGAIN_SECONDS)
        next_pause, made_anew = FIRST_PAUSE, not again
        while True:
            try:
                return self._answer(method, path, content, query, headers, wait)
            except _Broken as error:
                if made_anew:
                    raise StoreFailed(f"{self.address}: {error}.", passing=True) from None
                made_anew = True
            except StoreFailed as error:
                if not (again and error.passing) or time.monotonic() > until:
                    raise
                if not isinstance(error, _Busy):
                    raise
                pause(next_pause)
                next_pause = min(2.0 * next_pause, LONGEST_PAUSE)

    def _answer(
        self,
        method: str,
        path: str,
        content: bytes | None,
        query: dict[str, Any] | None,
        headers: dict[str, str],
        seconds: float,
    ) -> Any:
        client = self._http()  # says so if httpx is missing
        import httpx

        timeout = {"connect": min(CONNECT_SECONDS, seconds)} | dict.fromkeys(_WAITS, seconds)
        try:
            request = httpx.Request(
                method,
                self._url(path),
                params=query or None,
                headers=[*client.headers.items(), *headers.items()],
                content=content,
                extensions={"timeout": timeout},
            )
            response = client.send(request)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                said = "its certificate is not trusted: SSL_CERT_FILE may name one that is."
                raise StoreFailed(f"{self.address}: {said}") from None
            said = f"{self.address}: the server cannot be reached."
            raise StoreFailed(said, passing=True) from None
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            raise _Broken(_LOST) from None
        except httpx.TimeoutException:
            raise StoreFailed(f"{self.address}: {_LOST}.", passing=True) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            said = f"{self.address}: the request failed ({type(error).__name__})."
            raise StoreFailed(said) from None
        return self._read(response)

    def _url(self, path: str) -> httpx.URL:
        """Return the address of a path; those used most are parsed once."""
        import httpx

        known = self._urls.get(path)
        if known is None:
            if len(self._urls) >= MOST_URLS:
                self._urls.clear()
            self._urls[path] = known = httpx.URL(f"{self.address}/api/v1{path}")
        return known

    def _http(self) -> httpx.Client:
        """Return this process's client, for the token of now."""
        wanted = os.getpid(), _token()
        with self._lock:
            if self._client is None or self._made_for != wanted:
                self._client, self._made_for = self._new_client(wanted[1]), wanted
                weakref.finalize(self, _close, self._client, os.getpid())
            return self._client

    def _new_client(self, token: str) -> httpx.Client:
        try:
            import httpx
        except ModuleNotFoundError:
            raise MissingExtra.of("remote", "a study on a server") from None
        parts = urlsplit(self.address)
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        trusted = httpx.create_ssl_context() if parts.scheme == "https" else True
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=16)
        headers = {"authorization": f"Bearer {token}", "user-agent": "oddarms"}
        return httpx.Client(headers=headers, limits=limits, verify=trusted, trust_env=not local)

    def _read(self, response: httpx.Response) -> Any:
        if response.status_code == 204:
            return None
        try:
            answer = json.loads(response.content)
        except (RecursionError, ValueError):
            answer = None
        if response.is_success and answer is not None:
            return answer
        raise self._refusal(response.status_code, answer if isinstance(answer, dict) else {})

    def _refusal(self, status: int, problem: dict[str, Any]) -> Exception:
        """Return what the server has raised."""
        detail = str(problem.get("detail", ""))[:2000]
        kind = CLASSES.get(str(problem.get("code")))
        if kind is RewardRejected:
            rejected = RewardRejected(detail)
            rejected.outside = bool(problem.get("outside"))
            return rejected
        if kind is not None:
            return kind(detail)
        wrong_token = status == 401 or problem.get("code") == TOO_MANY_GUESSES
        if status in _PASSING and not wrong_token:
            said = detail or f"the server cannot answer (HTTP {status})."
            return _Busy(f"{self.address}: {said}", passing=True)
        if wrong_token:
            said = f"{self.address}: {TOKEN} or {TOKEN_FILE} must give a token of this server."
            return StoreFailed(said)
        if not detail:
            detail = f"there must be a server of oddarms but there is none (HTTP {status})."
        return StoreFailed(f"{self.address}: {detail}")


_shared: weakref.WeakValueDictionary[str, Connection] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def _close(client: httpx.Client, process: int) -> None:
    """Close the connections of a client that nobody uses any more, if they are this process's."""
    if process == os.getpid():
        client.close()


class _Broken(Exception):
    """The connection ended before the answer: perhaps it had only been idle for too long."""


class _Busy(StoreFailed):
    """The server says that it is worth asking again."""


def segment(name: str) -> str:
    """Return the name of a study as a part of a path."""
    return quote(name, safe="")


def _token() -> str:
    """Return the token; a missing one is refused by the server, not here."""
    if os.environ.get(TOKEN):
        token = os.environ[TOKEN].strip()
    elif os.environ.get(TOKEN_FILE):
        try:
            token = Path(os.environ[TOKEN_FILE]).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise InvalidParameter(
                f"{TOKEN_FILE} must name a file to read but does not: {reason}."
            ) from None
    else:
        raise InvalidParameter(
            f"{TOKEN} must be set to a token of the server, or {TOKEN_FILE} to a file with one, but"
            " neither is."
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidParameter(f"{TOKEN} must be a token of the server but is none.")
    return token


def _checked(address: str) -> str:
    """Return an address; one with a password in it is refused, and not repeated."""
    try:
        parts = urlsplit(address)
        sound = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound or parts.query or parts.fragment or "@" in parts.netloc:
        raise InvalidParameter(
            "storage must be http://HOST:PORT for a server, with nothing but a prefix behind it"
            f" (the token is in {TOKEN}), but is not."
        )
    return address.rstrip("/")
