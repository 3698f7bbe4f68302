"""Requests that are made up from the OpenAPI document: every answer is one that it describes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from oddarms import create_study
from postgresql import NewStorage
from servers import Served, served

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
SILENT = settings(
    deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


@pytest.fixture(scope="module")
def server(new_web_storage: NewStorage) -> Iterator[Served]:
    with served(new_web_storage()) as server:
        create_study("0", ["a", "b", "c"], k=0.5, storage=server.storage)
        yield server


@pytest.fixture(scope="module")
def schema(server: Served) -> Any:
    with server.client() as client:
        document = client.get("/api/v1/openapi.json").json()
    document["servers"] = [{"url": server.address}]
    return schemathesis.openapi.from_dict(document)


def ask_all(schema: Any, server: Served, examples: int) -> None:
    """Make requests up for every operation, and hold the answers against the document."""
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 20
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(SILENT, max_examples=examples)
        def ask(case: Any) -> None:
            if case.path_parameters:
                case.path_parameters["name"] = "nobody" if case.method == "DELETE" else "0"
            if isinstance(case.body, dict) and isinstance(case.body.get("wait"), int | float):
                case.body["wait"] = min(case.body["wait"], 0.01)  # a request may wait for 30 s
            response = case.call(base_url=server.address, headers=server.headers, timeout=120)
            case.validate_response(response, checks=CHECKS)

        ask()


def test_a_few(schema: Any, server: Served) -> None:
    ask_all(schema, server, 3)


@pytest.mark.long
def test_many(schema: Any, server: Served) -> None:
    ask_all(schema, server, 150)
