"""Batches of results, taken without the detour of the framework."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oddarms.errors import InvalidParameter, StorageFailed, UnknownStudy
from oddarms.server._limits import replayed
from oddarms.server._problems import problem_of
from oddarms.server._state import State
from oddarms.studies._codes import HURRY
from oddarms.studies._limits import MOST_RESULTS, MOST_TEXT, MOST_TICKET_ID
from oddarms.studies._study import StoredStudy

_TELL = re.compile(r"/api/v1/studies/([^/]+)/tell", re.DOTALL)
_ROUTE = SimpleNamespace(path="/studies/{name}/tell")
_WORDS = {"results", "worker"}
_ELSEWHERE = {HURRY.encode(), b"content-encoding"}
"""Headers that the route deals with."""


class PlainTells:
    """Middleware that records the batches of workers, which are most of what a server does.

    Whatever is not plainly as it must be goes on to the route, which says what is wrong with it; a
    result that was recorded here is not recorded twice.
    """

    def __init__(self, app: ASGIApp, state: State, hidden: str) -> None:
        self._app = app
        self._state = state
        self._hidden = hidden

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        study = self._study(scope) if scope["type"] == "http" else None
        if study is None:
            await self._app(scope, receive, send)
            return
        body = (await receive())["body"]
        try:
            content = await run_in_threadpool(_told, study, body)
        except StorageFailed as error:
            await problem_of(error, self._hidden).response()(scope, receive, send)
            return
        if content is None:
            await self._app(scope, replayed(body, receive), send)
            return
        scope["route"] = _ROUTE
        await send(_started(len(content)))
        await send({"type": "http.response.body", "body": content})

    def _study(self, scope: Scope) -> StoredStudy | None:
        """Return the study of a batch, if somebody tells who may, and it is open here."""
        found = scope["method"] == "POST" and _TELL.fullmatch(
            scope["path"].removeprefix(scope["root_path"])
        )
        principal = scope.get("state", {}).get("principal")
        headers = dict(scope["headers"])
        if not found or principal is None or _ELSEWHERE & headers.keys():
            return None
        if headers.get(b"content-type") != b"application/json":
            return None
        study = self._state.studies.opened(found[1].replace("\0", "/"))
        return study if study is not None and principal.may_work(study.number) else None


_JSON = (b"content-type", b"application/json")


def _started(length: int) -> Message:
    headers = [_JSON, (b"content-length", b"%d" % length)]
    return {"type": "http.response.start", "status": 200, "headers": headers}


def _told(study: StoredStudy, body: bytes) -> bytes | None:
    """Return the answer to a batch; None where it has to go the usual way."""
    try:
        given = json.loads(body)
        if not _is_plain(given):
            return None
        told = study.tell_many(given["results"], worker=given.get("worker"))
    except (InvalidParameter, RecursionError, UnknownStudy, ValueError):
        return None
    return json.dumps({"told": told}, separators=(",", ":")).encode()


def _is_plain(given: Any) -> bool:
    """Return whether a body is a batch whose parts have the types that they must have."""
    if type(given) is not dict or not given.keys() <= _WORDS:
        return False
    results, worker = given.get("results"), given.get("worker")
    named = worker is None or (type(worker) is str and len(worker) <= MOST_TEXT)
    return (
        named
        and type(results) is list
        and 0 < len(results) <= MOST_RESULTS
        and all(
            type(one) is list
            and len(one) == 2
            and type(one[0]) is str
            and len(one[0]) <= MOST_TICKET_ID
            for one in results
        )
    )
