"""Server-sent events: a stream that says when a study has changed."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from oddarms.server._access import Anybody, StudyToRead
from oddarms.server._state import state_of
from oddarms.server.api._common import OF_STUDY

router = APIRouter(prefix="/studies/{name}", tags=["results"])


@router.get(
    "/events",
    summary="A stream of changes",
    responses={200: {"content": {"text/event-stream": {}}}, **OF_STUDY},
    response_class=StreamingResponse,
)
async def events(request: Request, principal: Anybody, study: StudyToRead) -> StreamingResponse:
    """Send an event `change` with the study's pulse now, and whenever it changes.

    The stream ends after ten minutes, and when the server does; browsers come back by themselves.
    """
    stream = state_of(request).events.stream(study, principal.token)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)
