"""All routes of the API; those of workers are first, as most requests are theirs."""

from fastapi import APIRouter

from oddarms.server.api import _description, _events, _health, _metrics, _reading, _studies, _work

router = APIRouter()
for part in (_work, _studies, _reading, _events):
    router.include_router(part.router, prefix="/api/v1")
for part in (_health, _metrics, _description):
    router.include_router(part.router)
