"""Style, scripts and pictures of the pages."""

from __future__ import annotations

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from oddarms.server.pages._links import STATIC

FOR_EVER = "public, max-age=31536000, immutable"


class Assets(StaticFiles):
    """Files that browsers keep for ever where the address says which content is meant."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file."""
        response = await super().get_response(path, scope)
        named = b"v=" in scope.get("query_string", b"")
        response.headers["Cache-Control"] = FOR_EVER if named else "no-cache"
        return response
