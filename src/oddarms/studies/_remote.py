"""Studies behind a server: the same methods, with the same guarantees, over HTTP.

The token comes from ODDARMS_TOKEN, or from the file that ODDARMS_TOKEN_FILE names; no message
repeats it. Any thread may use a connection, and a forked process has one of its own.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from oddarms.errors import InvalidParameter, MissingExtra, RewardRejected, StorageFailed
from oddarms.problem import FloatArray, IntArray, Question
from oddarms.search import (
    Progress,
    Result,
    Seconds,
    Status,
    Ticket,
    Tickets,
)
from oddarms.studies._study import (
    LEASE,
    Ask,
    Conflict,
    Holder,
    Overview,
    Storage,
    Study,
    StudyList,
    StudySummary,
    Told,
    Trial,
    Verification,
    WorkerRecord,
    check_lease,
    check_name,
    check_text,
    reason_of,
)
from oddarms.studies.wire import AT_A_TIME, CLASSES, MAX_HISTORY, MAX_TICKET_ID, MAX_WAIT, record_of

if TYPE_CHECKING:
    import httpx

TOKEN, TOKEN_FILE = "ODDARMS_TOKEN", "ODDARMS_TOKEN_FILE"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
"""Longer than the server waits for a lock."""
LONG_SECONDS = 3600.0
"""For calls that read a whole study."""
PAGE = 1000
_BUSY = (408, 429, 502, 503, 504)
_LOST = "the server did not answer, so this call may have been recorded or not: repeat it"

Item = TypeVar("Item")


class Connection:
    """Requests to one server.

    Parameters
    ----------
    address
        Where it is, with the prefix if it has one: ``http://HOST:8321/PREFIX``.
    """

    def __init__(self, address: str) -> None:
        self.address = _checked_address(address)
        self._client: httpx.Client | None = None
        self._made_for: tuple[int, str] | None = None
        self._lock = threading.Lock()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        seconds: float = ANSWER_SECONDS,
        again: bool = True,
    ) -> Any:
        """Return the answer of the server, whose paths are below ``/api/v1``.

        A connection that was closed while it was idle is opened again, if the request may be made
        twice.
        """
        client = self._http()
        import httpx

        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        headers = {"content-type": "application/json"} if content is not None else {}
        timeout = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
        words: dict[str, Any] = {"headers": headers, "content": content, "timeout": timeout}
        url = f"{self.address}/api/v1{path}"
        try:
            return self._read(client.request(method, url, params=query or None, **words))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                said = "its certificate is not trusted: SSL_CERT_FILE may name one that is."
                raise StorageFailed(f"{self.address}: {said}") from None
            raise self._unavailable("the server cannot be reached") from None
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            if not again:
                raise self._unavailable(_LOST) from None
        except httpx.TimeoutException:
            raise self._unavailable(_LOST) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            said = f"{self.address}: the request failed ({type(error).__name__})."
            raise StorageFailed(said) from None
        return self.call(method, path, body=body, query=query, seconds=seconds, again=False)

    def _unavailable(self, reason: str) -> StorageFailed:
        return StorageFailed(f"{self.address}: {reason}.", passing=True)

    def _http(self) -> httpx.Client:
        """Return this process's client, with the token of now."""
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
        limits = httpx.Limits(max_connections=1000, max_keepalive_connections=16)
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
        detail = str(problem.get("detail", ""))[:2000]
        kind = CLASSES.get(str(problem.get("code")))
        if kind is not None:
            error = kind(detail)
            if isinstance(error, RewardRejected):
                error.outside = bool(problem.get("outside"))
            return error
        if status == 401:
            said = f"set {TOKEN} or {TOKEN_FILE} to a token of this server."
            return StorageFailed(f"{self.address}: {said}")
        if status in _BUSY:
            return self._unavailable((detail or f"HTTP {status}").rstrip("."))
        if not detail:
            reason = "the server failed" if status >= 500 else "this is not a server of oddarms"
            detail = f"{reason} (HTTP {status})."
        return StorageFailed(f"{self.address}: {detail}")


def _close(client: httpx.Client, process: int) -> None:
    """Close the connections of a client that is no longer used, if they are this process's."""
    if process == os.getpid():
        client.close()


def _token() -> str:
    if os.environ.get(TOKEN):
        token = os.environ[TOKEN].strip()
    elif os.environ.get(TOKEN_FILE):
        try:
            token = Path(os.environ[TOKEN_FILE]).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not a text file"
            raise InvalidParameter(f"The file in {TOKEN_FILE} cannot be read: {reason}.") from None
    else:
        raise InvalidParameter(
            f"Set {TOKEN} to a token of the server, or {TOKEN_FILE} to a file with one."
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidParameter(f"{TOKEN} is not a token of a server.")
    return token


def _checked_address(address: str) -> str:
    """Return an address; one with a password in it is refused, and not repeated."""
    try:
        parts = urlsplit(address)
        sound = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound or parts.query or parts.fragment or "@" in parts.netloc:
        raise InvalidParameter(
            "The address of a server must be http://HOST:PORT, with nothing but a prefix behind"
            f" it; the token is in {TOKEN}."
        )
    return address.rstrip("/")


class RemoteStudy(Study):
    """A study of a server.

    More than 5,000 results are sent in parts: if one is refused, those of earlier parts are
    recorded.
    """

    waits = True

    def __init__(self, connection: Connection, name: str, seed: int, question: Question) -> None:
        super().__init__(name, seed, question)
        self.max_lease = timedelta.max  # the server has its own
        self._connection = connection
        self._question = question
        self._path = f"/studies/{quote(name, safe='')}"

    @property
    def storage(self) -> str:
        return self._connection.address

    @property
    def question(self) -> Question:
        """See `Study.question`; the budget is the last one that this process knows of."""
        return self._question

    # Work

    def _ask(self, ask: Ask) -> Tickets:
        wait, key = min(ask.wait, MAX_WAIT), ask.key or secrets.token_urlsafe(16)
        body = {**vars(ask), "n": min(ask.n, AT_A_TIME), "key": key, "wait": wait}
        del body["answer"]
        path = f"{self._path}/ask"
        answer = self._connection.call(
            "POST", path, body=body, seconds=ANSWER_SECONDS + wait, again=not wait
        )
        moment = cache(datetime.fromisoformat)  # they end together
        tickets = [
            Ticket(one["id"], one["arm"], one["index"], one["place"], moment(one["expires"]))
            for one in answer["tickets"]
        ]
        return Tickets(tickets, Status(answer["status"]), answer["decided"])

    def tell_many(
        self, results: Iterable[tuple[Ticket | str, float]], *, worker: str | None = None
    ) -> list[Told]:
        rows = [[_id(ticket), self.check_reward(reward)] for ticket, reward in results]
        worker = check_text("worker", worker)
        told: list[Told] = []
        for part in _parts(rows, AT_A_TIME):
            answer = self._post("tell", {"results": part, "worker": worker})
            told += map(Told, answer["told"])
        return told

    def renew(self, tickets: Iterable[Ticket | str], lease: Seconds = LEASE) -> int:
        seconds, ids = check_lease(lease, self.max_lease), [_id(ticket) for ticket in tickets]
        return sum(
            self._post("renew", {"tickets": part, "lease": seconds})["count"]
            for part in _parts(ids, AT_A_TIME)
        )

    def skip_many(self, tickets: Iterable[Ticket | str], reason: str = "") -> int:
        why = reason_of(reason)
        return sum(
            self._post("skip", {"tickets": part, "reason": why})["count"]
            for part in _parts([_id(ticket) for ticket in tickets], AT_A_TIME)
        )

    def release(self, worker: str | None, reason: str = "") -> int:
        body = {"worker": check_text("worker", worker), "reason": reason_of(reason)}
        count: int = self._post("release", body)["count"]
        return count

    def add_rows(self, arms: IntArray, rewards: FloatArray, key: str | None) -> int:
        key = key or secrets.token_urlsafe(16)
        rows = list(zip(arms.tolist(), rewards.tolist(), strict=True))
        return sum(
            self._post("history", {"rows": part, "key": f"{key}/{number}" if number else key})[
                "count"
            ]
            for number, part in enumerate(_parts(rows, MAX_HISTORY))
        )

    def raise_budget(self, budget: int | None) -> None:
        self._post("budget", {"budget": budget})
        self._question = self._question.but(budget=budget)

    def stop(self, reason: str = "") -> None:
        self._post("stop", {"reason": reason_of(reason)})

    def resume(self) -> None:
        self._post("resume", None)

    # What is known

    def overview(self) -> Overview:
        document = self._connection.call("GET", self._path, query={"result": True})
        result = Result.from_dict(document["result"])
        self._question = result.question
        return Overview(
            created=datetime.fromisoformat(document["created"]),
            status=Status(document["status"]),
            result=result,
            handed_out=document["handed_out"],
            live=document["live"],
            told=document["results"],
            conflicts=document["conflicts"],
            stopped=document["stopped"],
        )

    def progress(self) -> Progress:
        values = self._get("progress")
        for end, none in (("threshold_lower", -math.inf), ("threshold_upper", math.inf)):
            values[end] = none if values[end] is None else values[end]
        values["worst"] = tuple((arm, mean) for arm, mean in values.get("worst", ()))
        return Progress(**values)

    def pulse(self) -> str:
        pulse: str = self._get("pulse")["pulse"]
        return pulse

    @property
    def status(self) -> Status:
        return Status(self._get("status")["status"])

    def trials(self, *, after: int = 0, most: int | None = None) -> Iterator[Trial]:
        for values in self._paged("trials", after, most):
            yield record_of(Trial, values)

    def conflicts(self, *, after: int = 0, most: int | None = None) -> list[Conflict]:
        return [record_of(Conflict, values) for values in self._paged("conflicts", after, most)]

    def _paged(self, what: str, after: int, most: int | None) -> Iterator[dict[str, Any]]:
        position: int | None = after
        left = math.inf if most is None else most
        while position is not None and left > 0:
            wanted = int(min(left, AT_A_TIME))
            page = self._get(what, after=position, most=wanted)
            yield from page[what]
            position, left = page["next"], left - wanted

    def workers(self) -> list[WorkerRecord]:
        return [record_of(WorkerRecord, values) for values in self._get("workers")["workers"]]

    def holders(self) -> list[Holder]:
        return [record_of(Holder, values) for values in self._get("holders")["holders"]]

    def verify(self) -> Verification:
        found = self._get("verify", LONG_SECONDS)
        return Verification(found["results"], found["problems"])

    def _get(self, what: str, seconds: float = ANSWER_SECONDS, **query: Any) -> Any:
        path = f"{self._path}/{what}"
        return self._connection.call("GET", path, query=query, seconds=seconds)

    def _post(self, what: str, body: dict[str, Any] | None) -> Any:
        return self._connection.call("POST", f"{self._path}/{what}", body=body)


class ServerStorage(Storage):
    """A server that `oddarms serve` has started."""

    def __init__(self, address: str) -> None:
        self._connection = Connection(address)

    @property
    def name(self) -> str:
        return self._connection.address

    def create(self, name: str, question: Question, seed: int) -> RemoteStudy:
        words: dict[str, Any] = question.to_dict()
        labels, n = words.pop("labels"), words.pop("n")
        del words["version"]
        body = {**words, "name": name, "arms": n if labels is None else labels, "seed": str(seed)}
        self._connection.call("POST", "/studies", body=body, again=False)
        return RemoteStudy(self._connection, name, seed, question)

    def load(self, name: str) -> RemoteStudy:
        check_name(name)
        words = self._connection.call("GET", f"/studies/{quote(name, safe='')}/question")
        seed = int(words.pop("seed"))
        return RemoteStudy(self._connection, name, seed, Question.from_dict(words))

    def list(
        self,
        search: str = "",
        most: int | None = None,
        skip: int = 0,
        *,
        sort: str = "name",
        status: str = "",
    ) -> StudyList:
        found: list[StudySummary] = []
        while True:
            wanted = PAGE if most is None else min(most - len(found), PAGE)
            query: dict[str, Any] = {"search": search, "sort": sort, "status": status}
            query |= {"most": wanted, "skip": skip + len(found)}
            page = self._connection.call("GET", "/studies", query=query)
            found += map(_summary, page["studies"])
            enough = most is not None and len(found) >= most
            if enough or len(page["studies"]) < wanted:
                return StudyList(found, page["total"])

    def delete(self, name: str) -> None:
        check_name(name)
        self._connection.call("DELETE", f"/studies/{quote(name, safe='')}", again=False)


def _summary(values: dict[str, Any]) -> StudySummary:
    question = Question.from_dict({**values["question"], "labels": None})
    del values["arms"]
    more = {"question": question, "status": Status(values["status"])}
    summary: StudySummary = record_of(StudySummary, values | more)
    return summary


def _id(ticket: Ticket | str) -> str:
    text = ticket.id if isinstance(ticket, Ticket) else ticket
    if not isinstance(text, str) or len(text) > MAX_TICKET_ID:
        raise InvalidParameter(f"{text!r:.60} is not a ticket: `ask` returns their ids.")
    return text


def _parts(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
