"""Fixtures that any test module may use."""

from postgresql import postgresql, postgresql_url

__all__ = ["postgresql", "postgresql_url"]
