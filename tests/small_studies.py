"""Small studies for tests: made, worked on, and changed as nobody should."""

from __future__ import annotations

from typing import Any

from oddarms import Study, create_study


def make(storage: Any, name: str = "s", **changes: Any) -> Study:
    words = {"k": 0.5, "delta": 0.1, "algorithm": "rr", "batch": 10, "rng": 1, **changes}
    return create_study(name, words.pop("labels", ["a", "b", "c"]), storage=storage, **words)


def work(study: Study, results: int) -> None:
    """Tell so many results."""
    while results > 0:
        tickets = study.ask(min(results, 400))
        assert tickets, "somebody else has all pulls"
        study.tell_many([(ticket, ticket.place * 7 % 11 / 10) for ticket in tickets])
        results -= len(tickets)


def change(study: Study, *statements: str) -> None:
    """Change a study's rows as nobody should."""
    with study._database.writing() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
