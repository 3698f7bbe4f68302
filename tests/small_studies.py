"""Small studies for tests: made, and worked on."""

from __future__ import annotations

from typing import Any

from oddarms import Study, create_study


def make(storage: Any, name: Any = "s", **changes: Any) -> Study:
    """Create a study of three arms, by default with steps of ten pulls an arm."""
    words = {"k": 0.5, "delta": 0.1, "algorithm": "rr", "batch": 10, "rng": 1, **changes}
    words = {word: value for word, value in words.items() if value is not None}
    return create_study(name, words.pop("labels", ["a", "b", "c"]), storage=storage, **words)


def work(study: Study, results: int) -> None:
    """Tell so many results."""
    while results > 0:
        tickets = study.ask(min(results, 400))
        assert tickets, "somebody else has all pulls"
        study.tell_many([(ticket, ticket.place * 7 % 11 / 10) for ticket in tickets])
        results -= len(tickets)
