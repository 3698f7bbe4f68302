"""The OpenAPI document, and a page that shows it without anything from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from oddarms.server.api._models import ProblemOut

router = APIRouter()


@router.get("/api/v1/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Response:
    """Return the description of all routes for programs."""
    from oddarms.server.api._common import answered

    return answered(_described(request))


def _described(request: Request) -> dict[str, Any]:
    return {**request.app.openapi(), "servers": [{"url": request.scope["root_path"] or "/"}]}


def completed(described: dict[str, Any]) -> dict[str, Any]:
    """Return the framework's description with what it does not know: tokens and problems."""
    components = dict(described.get("components", {}))
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schemas = components.get("schemas", {})
    components["schemas"] = {**schemas, "ProblemOut": ProblemOut.model_json_schema()}
    return {**described, "components": components, "security": [{"token": []}]}


@router.get("/api/v1", include_in_schema=False)
@router.get("/api", include_in_schema=False)
def page(request: Request) -> HTMLResponse:
    """Return the description of all routes for people."""
    described = _described(request)
    rows = [
        _row(method, path, route)
        for path, routes in described["paths"].items()
        for method, route in routes.items()
    ]
    root = escape(request.scope["root_path"])
    return HTMLResponse(_PAGE.format(rows="\n".join(rows), root=root))


def _row(method: str, path: str, route: dict[str, Any]) -> str:
    said = escape(route.get("description", "")).replace("\n", " ")
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {})
    named = body.get("schema", {}).get("$ref", "").rpartition("/")[2]
    words = ", ".join(one["name"] for one in route.get("parameters", []) if one["in"] == "query")
    takes = " ".join(part for part in (f"body {named}" if named else "", words) if part)
    return (
        f"<tr><td><code>{method.upper()}</code></td><td><code>{escape(path)}</code></td>"
        f"<td>{escape(route.get('summary', ''))}. {said}</td><td>{escape(takes)}</td></tr>"
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The HTTP API of oddarms</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><h1>The HTTP API</h1>
<p>Every request but <code>/healthz</code> carries <code>Authorization: Bearer TOKEN</code>; bodies
and answers are JSON, errors are <code>application/problem+json</code>. For programs:
<a href="{root}/api/v1/openapi.json">openapi.json</a> (OpenAPI).</p>
<table><thead><tr><th>Method</th><th>Address</th><th>What it does</th><th>Takes</th></tr></thead>
<tbody>
{rows}
</tbody></table></body></html>
"""
