"""Whether the server and its storage answer."""

from __future__ import annotations

from fastapi import APIRouter, Request

from oddarms.server._state import state_of

router = APIRouter()


@router.get(
    "/healthz",
    tags=["server"],
    summary="Whether the server answers",
    openapi_extra={"security": []},
)
def healthz(request: Request) -> dict[str, str]:
    """Answer as long as the storage does; needs no token."""
    state = state_of(request)
    state.storage.database.version()
    state.check_file()
    return {"status": "ok"}
