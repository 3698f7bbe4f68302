"""The OpenAPI document; a page shows it to people."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from oddarms.server.api._models import ProblemOut

router = APIRouter()


@router.get("/api/v1/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Response:
    """Return the description of all routes for programs."""
    from oddarms.server.api._common import answered

    return answered(described(request))


def described(request: Request) -> dict[str, Any]:
    """Return the description of all routes, as this request reaches them."""
    return {**request.app.openapi(), "servers": [{"url": request.scope["root_path"] or "/"}]}


def completed(described: dict[str, Any]) -> dict[str, Any]:
    """Return the framework's description with what it does not know: tokens and problems."""
    components = dict(described.get("components", {}))
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schemas = components.get("schemas", {})
    components["schemas"] = {**schemas, "ProblemOut": ProblemOut.model_json_schema()}
    return {**described, "components": components, "security": [{"token": []}]}
