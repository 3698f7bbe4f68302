"""The application: everything put together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import scipy.special  # noqa: F401 -- where it is wanted first it would keep a page waiting
from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from oddarms.server import api, pages
from oddarms.server._counts import Counted
from oddarms.server._guards import Guards, checked_prefix
from oddarms.server._limits import Bodies, Shared
from oddarms.server._problems import add_problems
from oddarms.server._state import Settings, State
from oddarms.server._studies import OpenStudies
from oddarms.server._tokens import Tokens
from oddarms.studies._database_storage import DatabaseStorage


class _Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        return api.completed(super().openapi())


def create_app(
    storage: str | Path | None = None,
    *,
    root_path: str = "",
    allowed_hosts: Iterable[str] = (),
    open_metrics: bool = False,
    tls_elsewhere: bool = False,
) -> FastAPI:
    """Return the ASGI application that serves the studies of a storage.

    All state is in the storage, so that any number of processes may serve it, and the application
    may be mounted in another one. `oddarms serve token` makes the tokens that it lets in.

    Parameters
    ----------
    storage
        A file or PostgreSQL, as for `oddarms.create_study`; it is made where there is none.
    root_path
        The prefix under which a proxy serves it, such as ``/oddarms``; where the application is
        mounted in another one, the path of the mount follows it.
    allowed_hosts
        Names by which clients reach it, beside localhost and addresses that are numbers.
    open_metrics
        Whether ``/metrics`` is for everybody; otherwise it needs a token.
    tls_elsewhere
        Whether a proxy in front of it has the TLS; then browsers send the cookies of sessions over
        TLS alone, also where the proxy does not say that it has it.
    """
    prefix = checked_prefix(root_path)
    opened = DatabaseStorage.opened(storage, create=True)
    settings = Settings(prefix, frozenset(allowed_hosts), open_metrics, tls_elsewhere)
    state = State(opened, OpenStudies(opened), Tokens(opened), settings)
    app = _Application(
        title="oddarms",
        summary="Studies: which of many things are abnormal?",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # see _guards
    )
    app.state.oddarms = state
    pages.prepare()
    add_problems(app, state.hidden)
    app.include_router(api.router)
    app.include_router(pages.router)
    app.mount("/static", pages.Assets(), name="static")
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)
    app.add_middleware(api.PlainTells, state=state, hidden=state.hidden)
    app.add_middleware(Shared)
    app.add_middleware(Bodies)
    app.add_middleware(Guards, state=state)
    app.add_middleware(Counted, counts=state.counts)  # the last one added is the first to be asked
    return app
