"""A server for studies: HTTP for workers in any language, and pages to watch them.

`create_app` returns the ASGI application that ``oddarms serve`` runs; ``pip install
'oddarms[server]'`` has what it needs.
"""

from oddarms import errors

try:
    from oddarms.server._app import create_app
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("fastapi", "starlette", "jinja2", "sqlalchemy"):
        raise
    raise errors.MissingExtra.of("server", "a server") from None

__all__ = ["create_app"]
