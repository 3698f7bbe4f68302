"""Requests, counted for Prometheus."""

from __future__ import annotations

import time
from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oddarms.server._limits import is_stream


class Counts:
    """How many requests were answered, by method, route and status, and how long they took."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: Counter[tuple[str, str]] = Counter()
        self._under_way = 0

    def began(self) -> None:
        """Count a request that has begun."""
        self._under_way += 1

    def ended(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._under_way -= 1
        self._requests[method, route, status] += 1
        self._seconds[method, route] += seconds  # type: ignore[assignment]

    def lines(self) -> list[str]:
        """Return the numbers in the text form of Prometheus."""
        requests = [
            f'oddarms_http_requests_total{{method="{method}",route="{route}"'
            f',status="{status}"}} {n}'
            for (method, route, status), n in sorted(self._requests.items())
        ]
        seconds = [
            f'oddarms_http_seconds_total{{method="{method}",route="{route}"}} {value:.6f}'
            for (method, route), value in sorted(self._seconds.items())
        ]
        return [
            "# HELP oddarms_http_requests_total Requests that were answered.",
            "# TYPE oddarms_http_requests_total counter",
            *requests,
            "# HELP oddarms_http_seconds_total Seconds that they took together.",
            "# TYPE oddarms_http_seconds_total counter",
            *seconds,
            "# HELP oddarms_http_requests_under_way Requests that are being answered.",
            "# TYPE oddarms_http_requests_under_way gauge",
            f"oddarms_http_requests_under_way {self._under_way}",
        ]


METHODS = ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")


class Counted:
    """Middleware that counts; a route is its pattern, so that nobody's names are in it."""

    def __init__(self, app: ASGIApp, counts: Counts) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = dict(scope)  # ours from here on, so that the route can be seen at the end
        status = 500
        is_over = False
        began = time.monotonic()
        method = scope["method"] if scope["method"] in METHODS else "other"

        def end() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._counts.ended(method, _pattern(scope), status, time.monotonic() - began)

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if is_stream(message):  # whose time says nothing
                    end()
            await send(message)

        self._counts.began()
        try:
            await self._app(scope, receive, noted)
        finally:
            end()


def _pattern(scope: Scope) -> str:
    route = getattr(scope.get("route"), "path", None)
    if route is None:
        return "other"
    api = f"{scope.get('root_path', '')}/api/v1"
    below = scope["path"].startswith(f"{api}/") and not route.startswith("/api/")
    return f"/api/v1{route}" if below else str(route)
