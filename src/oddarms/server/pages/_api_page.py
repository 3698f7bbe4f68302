"""The HTTP API, as a page: what each route does and takes."""

from __future__ import annotations

import json
import re
from typing import Any

from fastapi import APIRouter, Request, Response
from markupsafe import Markup, escape

from oddarms.server.api._description import described
from oddarms.server.pages._rendering import render

router = APIRouter()

KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "object",
}
"""Types of JSON in words."""


@router.get("/api/v1")
@router.get("/api")
def api_page(request: Request) -> Response:
    """Return the description of all routes for people."""
    document = described(request)
    schemas = document["components"].get("schemas", {})
    routes = [
        _route(method, path, route, schemas)
        for path, methods in document["paths"].items()
        for method, route in methods.items()
    ]
    return render(request, "api.html", here="api", routes=routes)


def _route(
    method: str, path: str, route: dict[str, Any], schemas: dict[str, Any]
) -> dict[str, Any]:
    content = route.get("requestBody", {}).get("content", {}).get("application/json", {})
    body = _resolved(content.get("schema", {}), schemas)
    query = [one for one in route.get("parameters", []) if one["in"] == "query"]
    taken = [
        *(_field(one["name"], one["schema"], one["required"], "in the address") for one in query),
        *(
            _field(name, schema, name in body.get("required", []), "")
            for name, schema in body.get("properties", {}).items()
        ),
    ]
    return {
        "method": method.upper(),
        "path": path,
        "summary": route.get("summary", ""),
        "description": in_code(route.get("description", "")),
        "body": in_code(body.get("description", "")),
        "fields": taken,
    }


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schemas.get(schema.get("$ref", "").rpartition("/")[2], schema)
    return found


def _field(name: str, schema: dict[str, Any], required: bool, where: str) -> dict[str, Any]:
    default = schema.get("default")
    usual = "" if default in (None, "", {}) else f"by default {json.dumps(_short(default))}"
    said = [_kind(schema), where, "required" if required else usual]
    return {
        "name": name,
        "kind": ", ".join(filter(None, said)),
        "description": in_code(schema.get("description", "")),
    }


def _short(value: Any) -> Any:
    """Return a default value with whole numbers as such, and lists of them."""
    if isinstance(value, list):
        return [_short(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _kind(schema: dict[str, Any]) -> str:
    """Return what values a schema takes, in words.

    Examples
    --------
    >>> _kind({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
    'list of text'
    """
    if "anyOf" in schema:
        kinds = [_kind(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    kind = KINDS.get(schema.get("type", ""), "")
    of = _kind(schema["items"]) if kind == "list" and "items" in schema else ""
    return f"{kind} of {'lists' if of == 'list' else of}" if of else kind


def in_code(text: str) -> Markup:
    """Return a text of the description as HTML, with code where it has backticks.

    Examples
    --------
    >>> in_code("see `GET <x>`")
    Markup('see <code>GET &lt;x&gt;</code>')
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
