"""Numbers for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from oddarms import __version__
from oddarms.server._access import current, reader
from oddarms.server._state import state_of
from oddarms.server.api._common import problems

router = APIRouter()


@router.get(
    "/metrics",
    tags=["server"],
    summary="Numbers for Prometheus",
    responses=problems(),
    response_class=PlainTextResponse,
)
def metrics(request: Request) -> PlainTextResponse:
    """Return what the process has done and has open; needs a token unless it was opened to all."""
    state = state_of(request)
    if not state.settings.open_metrics:
        reader(current(request))
    lines = state.counts.lines()
    lines += _gauge("oddarms_event_streams", "Open event streams.", state.events.open_streams)
    lines += _gauge("oddarms_open_studies", "Studies in memory.", len(state.studies))
    lines += _gauge("oddarms_studies", "Studies in the storage.", state.storage.number_of_studies())
    lines += [
        "# HELP oddarms_info The version.",
        "# TYPE oddarms_info gauge",
        f'oddarms_info{{version="{__version__}"}} 1',
    ]
    return PlainTextResponse(
        "\n".join(lines) + "\n", media_type="text/plain; version=0.0.4; charset=utf-8"
    )


def _gauge(name: str, said: str, value: int) -> list[str]:
    return [f"# HELP {name} {said}", f"# TYPE {name} gauge", f"{name} {value}"]
