"""A server for studies: HTTP for workers in any language, and pages to watch them.

`create_app` returns the ASGI application that ``oddarms serve`` runs; ``pip install
'oddarms[server]'`` has what it needs.
"""

from oddarms import errors

try:
    from oddarms.server._app import Place, Server, create_app, run
    from oddarms.server._tokens import LONGEST, Role, Token, Tokens, new_token
except ModuleNotFoundError as error:
    _NEEDED = ("fastapi", "jinja2", "prometheus_client", "sqlalchemy", "starlette", "uvicorn")
    if (error.name or "").partition(".")[0] not in _NEEDED:
        raise
    raise errors.MissingExtra.of("server", "a server") from None

__all__ = [
    "LONGEST",
    "Place",
    "Role",
    "Server",
    "Token",
    "Tokens",
    "create_app",
    "new_token",
    "run",
]
