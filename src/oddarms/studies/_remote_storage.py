"""The studies of a server."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from oddarms.problem import Question
from oddarms.studies._connection import Connection, segment
from oddarms.studies._remote_study import RemoteStudy
from oddarms.studies._storage import Storage, StudyList, StudySummary, check_name

PAGE = 1000


class ServerStorage(Storage):
    """A server that `oddarms serve` has started."""

    def __init__(self, address: str) -> None:
        self._connection = Connection.to(address)

    @property
    def name(self) -> str:
        """The address of the server."""
        return self._connection.address

    def create(self, name: str, question: Question, seed: int) -> RemoteStudy:
        """Create a study."""
        words: dict[str, Any] = question.to_dict()
        labels, n = words.pop("labels"), words.pop("n")
        del words["version"]
        body = {**words, "name": name, "arms": n if labels is None else labels, "seed": str(seed)}
        self._connection.call("POST", "/studies", body=body, again=False)
        return RemoteStudy(self._connection, name, seed, question)

    def load(self, name: str) -> RemoteStudy:
        """Return a study, as it stands."""
        check_name(name)
        words = self._connection.get(f"/studies/{segment(name)}/question")
        return RemoteStudy(
            self._connection, name, int(words.pop("seed")), Question.from_dict(words)
        )

    def list(
        self, search: str = "", most: int | None = None, skip: int = 0, *, newest: bool = False
    ) -> StudyList:
        """Return studies, as `list_studies` does."""
        found: list[StudySummary] = []
        while True:
            wanted = PAGE if most is None else min(most - len(found), PAGE)
            page = self._connection.get(
                "/studies", search=search, most=wanted, skip=skip + len(found), newest=newest
            )
            found += map(_summary, page["studies"])
            enough = most is not None and len(found) >= most
            if enough or len(page["studies"]) < wanted:
                return StudyList(found, page["total"])

    def delete(self, name: str) -> None:
        """Delete a study with all its results, for good."""
        check_name(name)
        self._connection.call("DELETE", f"/studies/{segment(name)}", again=False)


def _summary(values: dict[str, Any]) -> StudySummary:
    return StudySummary(
        values["name"],
        Question.from_dict({**values["question"], "labels": None}),
        datetime.fromisoformat(values["created"]),
        values["handed_out"],
        values["results"],
        values["stopped"],
    )
