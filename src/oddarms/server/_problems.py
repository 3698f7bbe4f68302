"""Errors as problem documents (RFC 9457), with the library's own sentences.

``code`` identifies the kind of error for programs; `RemoteStudy` raises the same exception again.
"""

from __future__ import annotations

import json
import logging
import time
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from oddarms import errors
from oddarms.studies import wire
from oddarms.text import message, shown

MAX_DETAIL = 2_000
"""Characters of a sentence, which may repeat what the client sent."""


class Seldom(logging.Filter):
    """Passes each warning or error once in ten seconds, and at most a hundred in that time."""

    SECONDS = 10.0
    MAX_LINES = 100

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record; its format and last argument identify it."""
        if record.levelno < logging.WARNING:
            return True
        arguments = record.args if isinstance(record.args, tuple) else ()
        key, now = (str(record.msg), str(arguments[-1:])), time.monotonic()
        self._logged = {k: at for k, at in self._logged.items() if now - at < self.SECONDS}
        if key in self._logged or len(self._logged) >= self.MAX_LINES:
            return False
        self._logged[key] = now
        return True


request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request under way, for the log."""

_log = logging.getLogger(__name__)
_log.addFilter(Seldom())


class Problem(HTTPException):
    """An error to answer a request with; `more` are further members of the document."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(status, detail, headers or {})
        self.status = status
        self.code = code
        self.more = more

    @property
    def title(self) -> str:
        """The status in words."""
        return HTTPStatus(self.status).phrase

    def response(self) -> Response:
        """Return the problem document."""
        document = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **self.more,
        }
        headers = {"Cache-Control": "no-store", **(self.headers or {})}
        return Response(json.dumps(document), self.status, headers, "application/problem+json")


def problem_of(error: errors.OddarmsError, hidden: str = "") -> Problem:
    """Return the problem for an error of the library; `hidden` is the storage's location."""
    code, status = next(found for kind, found in wire.CODES.items() if isinstance(error, kind))
    detail = str(error)
    if hidden:
        detail = detail.replace(hidden, "the storage of the server")
    problem = Problem(status, code, detail[:MAX_DETAIL])
    if isinstance(error, errors.StorageFailed) and error.passing:
        return Problem(503, code, problem.detail, {"Retry-After": "1"})
    if isinstance(error, errors.RewardRejected):
        problem.more["outside"] = error.outside
    return problem


def answer(request: Request, error: Exception, hidden: str = "") -> Response:
    """Return the answer to a request that failed: a page for a browser, else a document.

    Failures of the storage and of the server itself are logged, the same one seldom.
    """
    from oddarms.server._views import error_page

    problem = _problem(request, error, hidden)
    wants_page = "text/html" in request.headers.get("accept", "")
    if wants_page and not is_api(request):
        page = error_page(request, problem)
        if page is not None:
            page.headers.update(problem.headers or {})
            return page
    return problem.response()


def _problem(request: Request, error: Exception, hidden: str) -> Problem:
    asked = f"{request.method} {shown(request.url.path)}"
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.OddarmsError):
        problem = problem_of(error, hidden)
        if problem.status >= 500:
            _log.warning("%s: %s", asked, message(error))
        return problem
    if isinstance(error, RequestValidationError):
        return _refused(request, error)
    if isinstance(error, HTTPException):
        return _of_framework(error)
    _log.error("%s failed: %s", asked, type(error).__name__, exc_info=error)
    return Problem(500, "failed", "The server failed; its log says why.")


def is_api(request: Request) -> bool:
    """Return whether a request is for the API, not for a page."""
    return request.url.path.startswith(f"{request.scope['root_path']}/api/")


def add_problems(app: FastAPI, hidden: str) -> None:
    """Let an application answer every error of its routes by a problem."""

    async def answered(request: Request, error: Exception) -> Response:
        return answer(request, error, hidden)

    for kind in (errors.OddarmsError, RequestValidationError, HTTPException, Problem):
        app.add_exception_handler(kind, answered)


_SENTENCES = {
    "Not Found": "There is nothing at this address.",
    "Method Not Allowed": "This address does not support this method.",
    "There was an error parsing the body": "The body must be JSON in UTF-8 and not deeply nested.",
}


def _of_framework(error: HTTPException) -> Problem:
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
    detail = _SENTENCES.get(error.detail, error.detail)
    return Problem(error.status_code, code, detail, dict(error.headers or {}))


def _refused(request: Request, error: RequestValidationError) -> Problem:
    first = error.errors()[0]
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if first["type"] == "json_invalid":
        why = f"{first['ctx']['error']} at character {first['loc'][-1]}"
        return Problem(400, "invalid-request", f"The body is not valid JSON: {shown(why)}.")
    if first["loc"] == ("body",) and first["type"] != "missing" and not kind.endswith("json"):
        given = shown(kind)[:100] or "missing"
        said = f"Content-Type is {given}: send the header `Content-Type: application/json`."
        return Problem(415, "unsupported-media-type", said)
    _, *path = first["loc"]
    path = [part for i, part in enumerate(path) if i == 0 or isinstance(part, int)]
    where = shown(".".join(map(str, path)))[:200] or "The body"
    said = f"{where} is invalid: {shown(str(first['msg']))[:300]}."
    return Problem(422, "invalid-request", said)
