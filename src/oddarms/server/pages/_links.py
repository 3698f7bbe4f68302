"""Addresses of the pages: all are made here, so that a prefix is in all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlencode

STATIC = Path(__file__).resolve().parent.parent / "static"


class Links:
    """Addresses under a prefix.

    Examples
    --------
    >>> Links("/odd").study("a/b c", {"page": "2"})
    '/odd/studies/a%2Fb%20c?page=2'
    """

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix.rstrip("/")

    def home(self, query: Mapping[str, str] | None = None) -> str:
        """Return the address of the list of studies."""
        return self._of("/", query)

    def new(self) -> str:
        """Return the address of the form for a new study."""
        return self._of("/new")

    def sign_in(self) -> str:
        """Return the address of the form for a token."""
        return self._of("/login")

    def sign_out(self) -> str:
        """Return the address that ends a session."""
        return self._of("/logout")

    def api_docs(self) -> str:
        """Return the address of the description of the API."""
        return self._of("/api")

    def openapi(self) -> str:
        """Return the address of the description of the API for programs."""
        return self._of("/api/v1/openapi.json")

    def study(self, name: str, query: Mapping[str, str] | None = None) -> str:
        """Return the address of a study."""
        return self._of(f"/studies/{quote(name, safe='')}", query)

    def part(self, name: str, part: str, query: Mapping[str, str] | None = None) -> str:
        """Return the address of a part of a study's page."""
        return self._of(f"/studies/{quote(name, safe='')}/parts/{part}", query)

    def arm(self, name: str, arm: int) -> str:
        """Return the address of an arm, by its number."""
        return f"{self.study(name)}/arms/{arm}"

    def arm_series(self, name: str, arm: int) -> str:
        """Return the address of what an arm's page draws."""
        return f"{self.arm(name, arm)}/series.json"

    def picture(self, name: str) -> str:
        """Return the address of the interval picture as data."""
        return f"{self.study(name)}/picture.json"

    def picture_svg(self, name: str) -> str:
        """Return the address of the interval picture as an image."""
        return f"{self.study(name)}/picture.svg"

    def series(self, name: str) -> str:
        """Return the address of what is drawn over time."""
        return f"{self.study(name)}/series.json"

    def events(self, name: str) -> str:
        """Return the address of a study's events."""
        return self._of(f"/api/v1/studies/{quote(name, safe='')}/events")

    def download(self, name: str, file: str) -> str:
        """Return the address of a file about a study."""
        return f"{self.study(name)}/download/{file}"

    def act(self, name: str, action: str) -> str:
        """Return the address of something that changes a study."""
        return f"{self.study(name)}/{action}"

    def static(self, file: str) -> str:
        """Return the address of a file of the pages; another content has another address."""
        return self._of(f"/static/{file}", {"v": _fingerprint(file)})

    def _of(self, path: str, query: Mapping[str, str] | None = None) -> str:
        return f"{self.prefix}{path}" + (f"?{urlencode(query)}" if query else "")


@cache
def _fingerprint(file: str) -> str:
    return hashlib.sha256((STATIC / file).read_bytes()).hexdigest()[:10]
