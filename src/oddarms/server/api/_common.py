"""What the routes have in common: the answers they may give, and answers without validation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response

SCHEMAS = "#/components/schemas/"
_SAID = {
    400: "The body is not JSON.",
    401: "There is no token, or a wrong one.",
    403: "The token is not for this.",
    404: "There is no such study.",
    408: "The body came too slowly.",
    409: "There is a study of that name already.",
    413: "The body is too large.",
    415: "The body is not sent as JSON, or is compressed.",
    421: "The Host is not a name of this server.",
    422: "Something in the request breaks a rule.",
    429: "Too many wrong tokens.",
    503: "The storage or the server is busy: repeat the request.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of the problems that a route may answer with, besides the usual."""
    return {
        status: {
            "description": _SAID[status],
            "content": {"application/problem+json": {"schema": {"$ref": f"{SCHEMAS}ProblemOut"}}},
        }
        for status in (401, 403, 421, 422, 429, 503, *statuses)
    }


OF_STUDY = problems(404)
OF_BODY = problems(400, 404, 408, 413, 415)


def answered(
    document: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return plain values as they are: they were made here, so nobody has to look through them."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return Response(text, status, headers, "application/json")


def unchanged(request: Request, tag: str) -> Response | None:
    """Return the short answer for somebody who has the present state already."""
    given = request.headers.get("if-none-match", "")
    if tag in {one.strip().removeprefix("W/") for one in given.split(",")}:
        return Response(status_code=304, headers=tagged(tag))
    return None


def tagged(tag: str) -> dict[str, str]:
    """Return the headers of what may be kept by who has it, and is asked for anew by its tag."""
    return {"ETag": tag, "Cache-Control": "private, no-cache"}
