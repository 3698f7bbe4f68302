"""Fixtures that any test module may use."""

import os

from helpers import ROOT
from postgresql import postgresql, postgresql_url

__all__ = ["postgresql", "postgresql_url"]

os.environ.setdefault("ODDARMS_CACHE", str(ROOT / ".pytest_cache" / "oddarms"))
