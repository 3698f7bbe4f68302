"""Errors as documents of RFC 9457, with the library's own sentences.

``code`` says which kind of error it is, for programs; `RemoteStudy` makes the same exception of it.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from oddarms import errors
from oddarms.studies._codes import CODES
from oddarms.text import message, shown

MOST_DETAIL = 2_000
"""Characters of a sentence: what clients send is repeated in it."""

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Problem(Exception):
    """An error to be answered: raise it anywhere in a route.

    Attributes
    ----------
    status
        Of HTTP.
    code
        For programs.
    detail
        A sentence for people.
    headers, more
        Headers of the answer, and further members of the document.
    """

    status: int
    code: str
    detail: str
    headers: dict[str, str] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The status in words."""
        return HTTPStatus(self.status).phrase

    def document(self) -> dict[str, Any]:
        """Return the document."""
        return {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **self.more,
        }

    def response(self) -> Response:
        """Return the document as an answer."""
        return Response(
            json.dumps(self.document()),
            self.status,
            {"Cache-Control": "no-store", **self.headers},
            "application/problem+json",
        )


def problem_of(error: errors.OddarmsError, hidden: str = "") -> Problem:
    """Return what an error of the library is to a client; `hidden` is where the storage is."""
    code, status = next(found for kind, found in CODES.items() if isinstance(error, kind))
    detail = str(error)
    if hidden:
        detail = detail.replace(hidden, "the storage of the server")
    problem = Problem(status, code, detail[:MOST_DETAIL])
    if isinstance(error, errors.StorageFailed) and error.passing:
        problem.status = 503
        problem.headers["Retry-After"] = "1"
    if isinstance(error, errors.RewardRejected):
        problem.more["outside"] = error.outside
    return problem


def answer(request: Request, problem: Problem) -> Response:
    """Return a problem as a page where a browser asks for one, and as a document elsewhere."""
    from oddarms.server.pages import error_page

    wants_page = "text/html" in request.headers.get("accept", "")
    if wants_page and not request.url.path.startswith(f"{request.scope['root_path']}/api/"):
        page = error_page(request, problem)
        if page is not None:
            page.headers.update(problem.headers)
            return page
    return problem.response()


def failed(request: Request, error: Exception) -> Response:
    """Return the answer where the server itself has failed, and log why."""
    _log.error("%s %s failed", request.method, shown(request.url.path), exc_info=error)
    return answer(request, Problem(500, "failed", "the server failed; its log says why."))


class _Seldom(logging.Filter):
    """Drops a line whose format and last argument were logged within the last ten seconds."""

    SECONDS = 10.0
    MAX_REMEMBERED = 100

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING or not isinstance(record.args, tuple):
            return True
        key, now = (str(record.msg), str(record.args[-1])), time.monotonic()
        if now - self._logged.get(key, -math.inf) < self.SECONDS:
            return False
        if len(self._logged) >= self.MAX_REMEMBERED:
            self._logged.clear()
        self._logged[key] = now
        return True


_log.addFilter(_Seldom())


def storage_problem(request: Request, error: errors.OddarmsError, hidden: str) -> Response:
    """Return the answer to an error of the library; one of the storage is logged, but seldom."""
    problem = problem_of(error, hidden)
    if problem.status >= 500:
        _log.warning("%s %s: %s", request.method, shown(request.url.path), message(error))
    return answer(request, problem)


def add_problems(app: FastAPI, hidden: str) -> None:
    """Let an application answer every error by a problem."""

    async def of_library(request: Request, error: Exception) -> Response:
        assert isinstance(error, errors.OddarmsError)
        return storage_problem(request, error, hidden)

    async def of_request(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return answer(request, _refused(request, error))

    async def of_framework(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        status = HTTPStatus(error.status_code)
        said = error.detail if error.detail != status.phrase else _SENTENCES.get(status)
        said = _UNREADABLE if error.detail == "There was an error parsing the body" else said
        problem = Problem(status, status.phrase.lower().replace(" ", "-"), said or status.phrase)
        problem.headers = dict(error.headers or {})
        return answer(request, problem)

    async def of_ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return answer(request, error)

    app.add_exception_handler(errors.OddarmsError, of_library)
    app.add_exception_handler(RequestValidationError, of_request)
    app.add_exception_handler(HTTPException, of_framework)
    app.add_exception_handler(Problem, of_ours)


_SENTENCES = {
    HTTPStatus.NOT_FOUND: "there is nothing at this address.",
    HTTPStatus.METHOD_NOT_ALLOWED: "this address must be used with another method.",
}


_UNREADABLE = "the body must be JSON in UTF-8 that is not nested deeply but is not."


def _refused(request: Request, error: RequestValidationError) -> Problem:
    """Return what is wrong with a request first."""
    first = error.errors()[0]
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if first["type"] == "json_invalid":
        why = f"{first['ctx']['error']} at character {first['loc'][-1]}"
        return Problem(400, "invalid-request", f"the body must be JSON but is not: {shown(why)}.")
    if tuple(first["loc"]) == ("body",) and first["type"] != "missing" and not _is_json(kind):
        said = (
            f"Content-Type must be application/json but is {shown(kind)[:100] or 'missing'}: send"
            " the header `Content-Type: application/json`."
        )
        return Problem(415, "unsupported-media-type", said)
    return Problem(422, "invalid-request", _sentence(error))


def _is_json(kind: str) -> bool:
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


def _sentence(error: RequestValidationError) -> str:
    """Return what is wrong with the first wrong field; where it may be of several kinds, with each.

    The framework names these kinds as if they were further fields.
    """
    fields = [(_field(one["loc"]), shown(str(one["msg"]))[:300]) for one in error.errors()]
    where = fields[0][0]
    reasons = list(dict.fromkeys(reason for field, reason in fields if field == where))
    return f"{where} is not as it must be: {'; or: '.join(reasons[:3])}."


def _field(location: Sequence[Any]) -> str:
    named = [str(part) for part in location if part != "body" and str(part) not in _KINDS]
    plain = [part for part in named if "[" not in part]
    return shown(".".join(plain))[:200] or "the body"


_KINDS = ("int", "str", "float", "bool")
