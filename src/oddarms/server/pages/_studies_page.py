"""All studies, searched and paged in the storage."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from oddarms.server._access import Anybody
from oddarms.server._state import state_of
from oddarms.server._tokens import Role
from oddarms.server.pages._paging import Page, whole
from oddarms.server.pages._rendering import links_of, render, see
from oddarms.server.pages._words import Moment, sentence
from oddarms.studies import StudySummary

router = APIRouter()

ROWS = 50
MOST_SEARCHED = 200


@router.get("/")
def studies(request: Request, principal: Anybody) -> Response:
    """Return a page of the list; a worker is sent to its only study."""
    links = links_of(request)
    if principal.role is Role.WORKER:
        return see(links.study(principal.token.study_name or ""))
    search = request.query_params.get("q", "")[:MOST_SEARCHED].strip()
    number = whole(request.query_params.get("page"), 1)
    storage = state_of(request).storage
    found = storage.list(search, ROWS, (number - 1) * ROWS, newest=True)
    if not found and number > 1:
        number = max(-(-found.total // ROWS), 1)
        found = storage.list(search, ROWS, (number - 1) * ROWS, newest=True)
    page = Page.part(list(map(_row, found)), number, ROWS, found.total)

    def address(other: int) -> str:
        words = {"q": search, "page": "" if other == 1 else str(other)}
        return links.home({word: value for word, value in words.items() if value})

    return render(
        request, "studies.html", here="studies", page=page, search=search, address=address
    )


def _row(study: StudySummary) -> dict[str, Any]:
    return {
        "name": study.name,
        "question": sentence(study.question),
        "arms": f"{study.question.n:,}",
        "results": f"{study.results:,}",
        "created": Moment.of(study.created),
        "stopped": study.stopped,
    }
