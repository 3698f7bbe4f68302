"""Ask and tell: what workers do, most of all requests.

So the study is opened in the thread of the route and not, as a dependency, in another one before.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

from fastapi import APIRouter, Request, Response

from oddarms.errors import InvalidParameter
from oddarms.search import AHEAD
from oddarms.server._access import study_to_work, with_study_to_work
from oddarms.server.api._common import OF_BODY, answered
from oddarms.server.api._models import Ask, Asked, Count, Renew, Skip, Tell, ToldOut
from oddarms.studies._codes import HURRY
from oddarms.studies._documents import plain
from oddarms.studies._study import StoredStudy

router = APIRouter(prefix="/studies/{name}", tags=["work"])


@router.post("/ask", summary="Ask for pulls", responses=OF_BODY, response_model=Asked)
def ask(request: Request, name: str, body: Ask) -> Response:
    """Hand out up to n pulls; fewer, or none, where there is nothing to do until results arrive."""
    ahead = AHEAD if body.ahead is None else body.ahead
    lease = timedelta(seconds=body.lease)

    def work(study: StoredStudy) -> Response:
        with _waiting(request, study):
            tickets = study.ask(body.n, body.worker, lease, ahead=ahead, key=body.key)
        return answered(
            {
                "status": tickets.status.value,
                "done": tickets.done,
                "decided": tickets.decided,
                "tickets": [plain(ticket) for ticket in tickets],
            }
        )

    return with_study_to_work(name, request, work)


@router.post("/tell", summary="Tell results", responses=OF_BODY, response_model=ToldOut)
def tell(request: Request, name: str, body: Tell) -> Response:
    """Record results; once this answers they are stored for good. May be repeated."""
    if (body.ticket is None) == (body.results is None):
        study_to_work(name, request)
        raise InvalidParameter("a body must have ticket and reward, or results, but not both.")
    results = (body.results if body.ticket is None else [(body.ticket, body.reward)]) or []

    def work(study: StoredStudy) -> Response:
        with _waiting(request, study):
            told = study.tell_many(results, worker=body.worker)
        return answered({"told": [one.value for one in told]})

    if not results:  # nothing that a study could refuse
        return work(study_to_work(name, request))
    return with_study_to_work(name, request, work)


@router.post("/skip", summary="Give tickets back", responses=OF_BODY)
def skip(request: Request, name: str, body: Skip) -> Count:
    """Give back tickets without results, or all that a worker has out; say how many."""
    study = study_to_work(name, request)
    if (body.tickets is None) == (body.worker is None):
        raise InvalidParameter("a body must have tickets or a worker but not both.")
    with _waiting(request, study):
        if body.tickets is None:
            return Count(count=study.skip_worker(body.worker or "", body.reason))
        study.skip_many(body.tickets, body.reason)
    return Count(count=len(body.tickets))


@router.post("/renew", summary="Renew leases (heartbeat)", responses=OF_BODY)
def renew(request: Request, name: str, body: Renew) -> Count:
    """Let leases last so many seconds from now; say how many do."""
    study = study_to_work(name, request)
    with _waiting(request, study):
        return Count(count=study.renew(body.tickets, timedelta(seconds=body.lease)))


def _waiting(request: Request, study: StoredStudy) -> AbstractContextManager[None]:
    """Return a block that waits for others as long as the client wants to."""
    return study.hurried() if HURRY in request.headers else nullcontext()
