"""A server for studies: HTTP for workers in any language, and pages to watch them.

`create_app` returns the ASGI application that ``oddarms serve`` runs; ``pip install
'oddarms[server]'`` has what it needs.

A request passes uvicorn (`_app`) and one middleware (`Guards` in `_access`: path, Host, Origin,
token, CSRF token, size), is given a study if its token allows it (`_access`, `_tokens`), and is
answered by a route of the API (`_api`) or of a page (`pages`). Errors become problem documents or
pages (`_problems`). `_state` has what requests share, and the waits for work.
"""

from oddarms import errors

try:
    from oddarms.server._app import Binding, Server, create_app, run
    from oddarms.server._state import Settings
    from oddarms.server._tokens import LONGEST, Role, Token, Tokens, new_token
except ModuleNotFoundError as error:
    if (error.name or "oddarms").startswith("oddarms"):
        raise
    raise errors.MissingExtra.of("server", "a server") from None

__all__ = [
    "LONGEST",
    "Binding",
    "Role",
    "Server",
    "Settings",
    "Token",
    "Tokens",
    "create_app",
    "new_token",
    "run",
]
