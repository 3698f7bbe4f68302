"""The OpenAPI document; a page shows it to people."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

router = APIRouter()


@router.get("/api/v1/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Response:
    """Return the description of all routes for programs."""
    from oddarms.server.api._common import answered

    return answered(described(request))


def described(request: Request) -> dict[str, Any]:
    """Return the description of all routes, as this request reaches them."""
    document: dict[str, Any] = dict(request.app.openapi())
    document["servers"] = [{"url": request.scope["root_path"] or "/"}]
    components = dict(document.get("components", {}))
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {**document, "components": components, "security": [{"token": []}]}
