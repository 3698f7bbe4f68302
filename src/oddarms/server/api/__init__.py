"""HTTP for workers in any language: ``/api/v1``, ``/healthz`` and ``/metrics``."""

from oddarms.server.api._description import completed
from oddarms.server.api._plain_tells import PlainTells
from oddarms.server.api._router import router

__all__ = ["PlainTells", "completed", "router"]
